"""The keys that lead from a value to an item inside it: `state["train"]["loss"]`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.dependence.graph import Way
from migrator.facts.program.syntax import is_slice, method_called
from migrator.facts.program.tree import Tree, semantic_children

# Text, None for any one key, `...` for any number of keys.
Path = tuple[object, ...]

COMPREHENSIONS = (cst.ListComp, cst.GeneratorExp, cst.SetComp, cst.DictComp)


def constant_key(node: cst.CSTNode) -> str | None:
    """The text key of `state["best"]`."""
    if isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
        key = node.slice[0].slice.value
        if isinstance(key, cst.SimpleString):
            return str(key.evaluated_value)
    return None


def anywhere(path: Path) -> Path:
    """That the item is found somewhere inside, under its own key."""
    return (..., path[-1])


def behind(keys: Path, path: Path) -> Path | None:
    """How the item to which `path` leads is found from what stands under the keys; None where it is not there."""
    while keys:
        if path[0] is ...:
            return path
        if len(path) == 1 or (None not in (keys[0], path[0]) and keys[0] != path[0]):
            return None
        keys, path = keys[1:], path[1:]
    return path


def parts_with(node: cst.CSTNode, path: Path) -> Iterator[tuple[cst.CSTNode, Path]]:
    """The parts of the expression that hold the item to which `path` leads, and how it is found there."""
    inside = behind((None,), path)
    if isinstance(node, (cst.List, cst.Tuple, cst.Set)):
        for element in node.elements:
            keys = path if isinstance(element, cst.StarredElement) else inside
            yield from ((element.value, part) for part in [keys] if part is not None)
    elif isinstance(node, cst.Dict):
        for item in node.elements:
            key = item.key if isinstance(item, cst.DictElement) else None
            keys = (str(key.evaluated_value),) if isinstance(key, cst.SimpleString) else (None,)
            under = behind(keys, path) if isinstance(item, cst.DictElement) else path
            yield from ((item.value, part) for part in [under] if part is not None)
    elif isinstance(node, COMPREHENSIONS):
        made = node.value if isinstance(node, cst.DictComp) else node.elt
        yield from ((made, part) for part in [inside] if part is not None)
    elif isinstance(node, cst.IfExp):
        yield from ((part, path) for part in (node.body, node.orelse))
    elif isinstance(node, (cst.BooleanOperation, cst.BinaryOperation)):
        yield from ((part, path) for part in (node.left, node.right))
    elif isinstance(node, cst.NamedExpr):
        yield node.value, path
    elif not isinstance(node, (cst.Lambda, cst.BaseString, cst.BaseNumber)):
        yield from ((part, anywhere(path)) for part in semantic_children(node))


def of_method(call: cst.Call, path: Path) -> Path:
    """How an item of what the method of a container gives is found in the container: `logs.get("train")`."""
    name = method_called(call)
    if name in ("get", "setdefault", "pop", "__getitem__") and call.args:
        key = call.args[0].value
        return (str(key.evaluated_value) if isinstance(key, cst.SimpleString) else None, *path)
    return path if name in ("values", "copy") else anywhere(path)


def taken_out(node: cst.BaseExpression, tree: Tree) -> list[tuple[str | None, cst.Subscript]]:
    """What is taken out of the value step by step: each time the key, where it is a text, and the item."""
    found = []
    parent = tree.parent.get(node)
    while isinstance(parent, cst.Subscript) and parent.value is node and not is_slice(parent):
        found.append((constant_key(parent), parent))
        node, parent = parent, tree.parent.get(parent)
    return found


def meeting(
    path: Path, node: cst.BaseExpression, taken: list[tuple[str | None, cst.Subscript]]
) -> Iterator[tuple[cst.CSTNode, Way]]:
    """What reads the item to which `path` leads from the node: the item itself, or what contains it."""
    for i, key in enumerate(path):
        if key is ...:
            for asked, part in taken[i:]:
                if None in (asked, path[-1]) or asked == path[-1]:
                    yield part, Way.WHOLE
            break
        if i == len(taken):
            break
        asked, part = taken[i]
        if None not in (asked, key) and asked != key:
            return
        if i == len(path) - 1:
            yield part, Way.WHOLE
            return
    yield taken[-1][1] if taken else node, Way.INTO
