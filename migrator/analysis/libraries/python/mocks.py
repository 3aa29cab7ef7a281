"""`unittest.mock`: what a program puts in the place of its own names, attributes and items, and of libraries'.

For how long is not followed: from there on it may be the one or the other.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import named_modules, namespaces
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments, Handler
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.python import made_names
from migrator.analysis.values import NUMBER, Container, Method, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_UNSEEN = v.unseen("what runs here in the place of what is patched is not seen")
# What tells how the call is patched, and nothing of what is put there.
_SETTINGS = frozenset({"new", "spec", "create", "spec_set", "autospec", "target", "attribute"})


def _patch(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`patch("module.function", other)`"""
    path, new = args.get("target", 0), _new(args, 1)
    if path is None:
        return NUMBER
    text = _text(run, path, args.node("target", 0), frame)
    if text is not None:
        owner, _, name = text.rpartition(".")
        run.objects.store_attribute(named_modules.of_path(run, owner, node), name, new, node)
    else:
        run.redefined.store_somewhere(named_modules.files(run), new, node)
    return NUMBER


def _patch_object(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`patch.object(module, "function", other)`"""
    owner, name, new = args.get("target", 0), args.get("attribute", 1), _new(args, 2)
    if owner is None or name is None:
        return NUMBER
    if isinstance(name.constant, str):
        run.objects.store_attribute(owner, name.constant, new, node)
    else:
        run.redefined.store_somewhere(owner, new, node, made_names.spelled(args.node("attribute", 1)))
    return NUMBER


def _patch_multiple(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`patch.multiple(module, function=other)`"""
    owner = _owner(run, args.get("target", 0), args.node("target", 0), node, frame)
    for name, value in args.keywords.items():
        if name not in _SETTINGS:
            run.objects.store_attribute(owner, name, value, node)
    return NUMBER


def _patch_dict(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`patch.dict(options, {"axis": 0}, rate=0.1)`"""
    owner = _owner(run, args.get("in_dict", 0), args.node("in_dict", 0), node, frame)
    added = args.get("values", 1)
    if args.get("clear", 2) is not None:
        run.objects.store_item(owner, NUMBER, _UNSEEN, node)
    for atom in owner:
        if isinstance(atom, Method) and namespaces.is_namespace(atom) and added is not None:
            namespaces.method(run, atom, "update", Arguments([added]), node)
        elif isinstance(atom, Container) and added is not None:
            run.objects.update(v.of(atom), added, node)
    for name, value in args.keywords.items():
        if name not in ("in_dict", "values", "clear"):
            run.objects.store_item(owner, v.constant(name), value, node)
    return NUMBER


def _new(args: Arguments, position: int) -> Value:
    """What is put there; without one, or with more said of it, an object that runs what else it is told."""
    new = args.get("new", position)
    return new if new is not None and args.keywords.keys() <= _SETTINGS else _UNSEEN


def _owner(run: Run, owner: Value | None, written: cst.CSTNode | None, node: cst.CSTNode, frame: Frame) -> Value:
    """An object, or what is at a dotted path."""
    text = _text(run, owner, written, frame) if owner is not None else None
    return named_modules.of_path(run, text, node) if text is not None else owner or NUMBER


def _text(run: Run, value: Value, node: cst.CSTNode | None, frame: Frame) -> str | None:
    """A text that is seen, also where it is put together: `__name__ + ".loss"`."""
    if isinstance(value.constant, str):
        return value.constant
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        parts = [_text(run, run.expressions.eval(x, frame), x, frame) for x in (node.left, node.right)]
    elif isinstance(node, cst.FormattedString):
        parts = [_part(run, part, frame) for part in node.parts]
    else:
        return None
    return "".join(part or "" for part in parts) if None not in parts else None


def _part(run: Run, part: cst.BaseFormattedStringContent, frame: Frame) -> str | None:
    if isinstance(part, cst.FormattedStringText):
        return part.value if re.fullmatch(r"[\w.]*", part.value) else None
    if isinstance(part, cst.FormattedStringExpression) and part.format_spec is None and part.conversion is None:
        return _text(run, run.expressions.eval(part.expression, frame), part.expression, frame)
    return None


_BY_NAME: dict[str, Handler] = {
    "patch": _patch,
    "patch.object": _patch_object,
    "patch.multiple": _patch_multiple,
    "patch.dict": _patch_dict,
}
FUNCTIONS = {f"{module}.{name}": f for module in ("unittest.mock", "mock") for name, f in _BY_NAME.items()}
