"""The logs that a step of the script's own returns: the values of its dictionary, however that is put together."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.objects.values import External, Function, Literal, Result
from migrator.facts.script import Facts

# They make a dictionary of others, and of what they are given by keyword.
_MERGING = frozenset({"builtins.dict", "collections.OrderedDict", "collections.ChainMap"})


def told_logs(facts: Facts, returned: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What the dictionary holds that a function returns, also where it is filled step by step or made of several; of
    one that is made of pairs, or by what is not followed, itself."""
    made: set[cst.CSTNode] = set()
    found: dict[cst.CSTNode, None] = {}
    queue: list[cst.CSTNode] = [returned]
    while queue:
        node = queue.pop(0)
        if node in made:
            continue
        made.add(node)
        if _is_made_of_pairs(facts, node):
            found[node] = None
            continue
        for value in facts.resolver.values(node):
            queue += [value.node] if isinstance(value, Literal) else [value.call] if isinstance(value, Result) else []
        queue += _merged(facts, node)
        for part in facts.contents.held(node):
            if part.path and isinstance(part.node, cst.Dict):  # of which others are told
                queue.append(part.node)
            else:
                found[part.node] = None
    return [node for node in found if isinstance(node, cst.BaseExpression)]


def _merged(facts: Facts, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The dictionaries that one is made of: `logs | more`, `dict(logs, **more)`, `logs |= more`, or what a function of
    the script gives."""
    if isinstance(node, cst.Name):
        for binding in facts.resolver.reaching(node):
            if binding.value is not None and not binding.path and binding.kind in ("assign", "augmented"):
                yield binding.value
                if binding.kind == "augmented" and binding.target is not None:
                    yield binding.target
    elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitOr):
        yield from (node.left, node.right)
    elif isinstance(node, cst.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, cst.Call):
        for value in facts.resolver.values(node.func):
            if isinstance(value, Function) and isinstance(value.node, cst.FunctionDef):
                yield from facts.resolver.returned(value.node)
            elif isinstance(value, External) and value.path in _MERGING:
                yield from (arg.value for arg in node.args if arg.keyword is None)


def _is_made_of_pairs(facts: Facts, node: cst.CSTNode) -> bool:
    """`dict(zip(names, values))`, or what any other function of a library's gives."""
    if not isinstance(node, cst.Call):
        return False
    paths = set(facts.resolver.public(node.func))
    given = [v for a in node.args if a.keyword is None and not a.star for v in facts.resolver.values(a.value)]
    has_list = any(isinstance(v, Literal) and not isinstance(v.node, (cst.Dict, cst.DictComp)) for v in given)
    return bool(paths) and (has_list or not paths <= _MERGING)
