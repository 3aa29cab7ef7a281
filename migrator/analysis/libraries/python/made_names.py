"""Names of attributes that are made as the program runs, `getattr(self, f"conv{i}")`: which they may be."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import namespaces
from migrator.analysis import values as v
from migrator.analysis.values import NOTHING, Class, Instance, Value
from migrator.facts.names.of_libraries import OF_LIBRARIES

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_ANYTHING, _EITHER = ".*", "(?:"
_ALIKE = "named alike"
# What a class does with its attributes by itself.
_HOOKS = ("__getattr__", "__getattribute__", "__setattr__")


def spelled(node: cst.CSTNode | None) -> re.Pattern[str] | None:
    """What texts the expression may give, where it is seen how they begin."""
    text = _spelled(node) if isinstance(node, cst.BaseExpression) else None
    return re.compile(text + r"\Z", re.DOTALL) if text is not None and not text.startswith(_ANYTHING) else None


def _spelled(node: cst.BaseExpression) -> str | None:
    if isinstance(node, cst.SimpleString) and isinstance(node.evaluated_value, str):
        return re.escape(node.evaluated_value)
    if isinstance(node, cst.IfExp):
        either = [_spelled(node.body), _spelled(node.orelse)]
        return (
            f"{_EITHER}{either[0]}|{either[1]})"
            if all(text and not text.startswith(_ANYTHING) for text in either)
            else None
        )
    if isinstance(node, cst.FormattedString):
        return "".join(map(_part, node.parts))
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        left, right = _spelled(node.left), _spelled(node.right)
        return left + (right or _ANYTHING) if left is not None else None
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
        return _up_to("%", node.left)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "format":
        return _up_to("{", node.func.value)
    return None


def _part(part: cst.BaseFormattedStringContent) -> str:
    if isinstance(part, cst.FormattedStringText) and set(part.value).isdisjoint("\\{}"):
        return re.escape(part.value)
    return _ANYTHING


def _up_to(place: str, text: cst.BaseExpression) -> str | None:
    """What a text begins with, up to the first place that is filled in."""
    value = text.evaluated_value if isinstance(text, cst.SimpleString) else None
    return re.escape(value.partition(place)[0]) + _ANYTHING if isinstance(value, str) else None


def beginning(names: re.Pattern[str] | None) -> str:
    """How all of these names begin."""
    if names is None:
        return ""
    certain = names.pattern.partition(_ANYTHING)[0].partition(_EITHER)[0].removesuffix(r"\Z")
    return re.sub(r"\\(.)", r"\1", certain)


def store(run: Run, atom: Instance, value: Value, names: re.Pattern[str] | None) -> None:
    """Gives whichever of these attributes the value; without `names`, of all."""
    run.heap.store(atom, namespaces.ATTRIBUTE, value)
    run.heap.store(atom, (_ALIKE, beginning(names)), value)


def store_in_class(run: Run, cls: Class, value: Value) -> None:
    """Notes that objects of the class have something by a name that is not seen."""
    run.heap.store(cls, (_ALIKE, ""), value)


def _held_by_such(run: Run, atom: Instance, start: str) -> Value:
    """What attributes hold that were set by a name which may begin like this."""
    everything = run.heap.load(atom, namespaces.ATTRIBUTE)
    stored = {
        key[1]: run.heap.load(atom, key) for key in run.heap.fields(atom) if isinstance(key, tuple) and key[0] == _ALIKE
    }
    if v.join_all(stored.values()) != everything:  # `vars(obj).update(…)`
        return everything
    return v.join_all(value for other, value in stored.items() if other.startswith(start) or start.startswith(other))


def attribute(run: Run, owner: Value, names: re.Pattern[str], node: cst.CSTNode) -> Value | None:
    """What objects of the program's have by such names; None where it may be something else."""
    if owner.data is not None or not owner.objects or any(map(names.match, ("_", *OF_LIBRARIES))):
        return None
    found = NOTHING
    for atom in owner:
        if not isinstance(atom, Instance) or any(run.classes.method(atom, hook) is not None for hook in _HOOKS):
            return None
        if any(key == (_ALIKE, "") for cls in run.classes.lineage(atom.cls) for key in run.heap.fields(cls)):
            return None  # `setattr(Net, f"fc{i}", layer)`
        held = _held_by_such(run, atom, beginning(names))
        for name in run.redefined.names_of(atom):
            if names.match(name):
                held = v.join(held, run.objects.attribute(v.of(atom), name, node))
        if held is NOTHING:
            return None
        found = v.join(found, held)
    return found
