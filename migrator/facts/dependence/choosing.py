"""Functions of libraries that give what one of several functions does, by a condition: `tf.cond`, `tf.case`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import libcst as cst

CHOOSING = frozenset({
    "tensorflow.cond", "tensorflow.case", "tensorflow.switch_case", "keras.ops.cond", "keras.ops.switch",
    "keras.backend.switch",
})  # fmt: skip
_CONDITIONS = frozenset({"pred", "condition", "branch_index", "index"})
PAIRS = "tensorflow.case"
LOOPING = frozenset({"tensorflow.while_loop", "keras.ops.while_loop"})


def choosing(call: cst.Call, paths: Collection[str]) -> list[cst.BaseExpression]:
    """The conditions that choose what the call gives, where they are written in it; `paths`: what it calls."""
    if not paths or not CHOOSING.issuperset(paths):
        return []
    given = [
        a for i, a in enumerate(call.args) if not a.star and (a.keyword.value in _CONDITIONS if a.keyword else not i)
    ]
    if PAIRS not in paths:
        return [arg.value for arg in given[:1]]
    return [pair.elements[0].value for pair in _pairs(call)]


def arguments_beside(call: cst.Call, conditions: Sequence[cst.BaseExpression]) -> Iterator[cst.CSTNode]:
    """What the call is given besides these: arguments, and the functions in pairs."""
    pairs = [pair for pair in _pairs(call) if pair.elements[0].value in conditions]
    for i, arg in enumerate(call.args):
        if pairs and not i:
            yield from (pair.elements[1].value for pair in pairs)
        elif arg.value not in conditions:
            yield arg


def are_pairs(node: cst.BaseExpression) -> bool:
    """Whether all pairs of a condition and a function are written there."""
    return isinstance(node, (cst.List, cst.Tuple)) and len(pairs_in(node)) == len(node.elements)


def pairs_in(node: cst.List | cst.Tuple) -> list[cst.Tuple | cst.List]:
    written = [element.value for element in node.elements]
    return [pair for pair in written if isinstance(pair, (cst.Tuple, cst.List)) and pair.elements]


def _pairs(call: cst.Call) -> list[cst.Tuple | cst.List]:
    """The pairs of conditions and functions, where all of them are written in the call."""
    first = call.args[0].value if call.args and call.args[0].keyword is None else None
    written = [e.value for e in first.elements] if isinstance(first, (cst.List, cst.Tuple)) else []
    pairs = [node for node in written if isinstance(node, (cst.Tuple, cst.List)) and len(node.elements) == 2]
    return pairs if len(pairs) == len(written) else []
