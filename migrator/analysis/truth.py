"""Conditions of which it is known how they come out, whatever the data."""

from __future__ import annotations

from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import REPLICATED, Sharded
from migrator.analysis.values import Bound, Class, Data, External, Function, Instance, Made, Value

_STRUCTURES = frozenset(External(f"builtins.{name}") for name in ("list", "tuple", "dict", "object"))
_SAMENESS = {"Is": True, "Equal": True, "IsNot": False, "NotEqual": False}


def outcome(value: Value) -> bool | None:
    """Whether a condition surely holds, or surely does not; None where that is not known."""
    constant = value.constant
    if constant is not NOT_CONSTANT:
        return bool(constant)
    if value.data is None and value.objects:
        only = value.only
        if isinstance(only, (Function, Class, Bound, Instance, Made, External)):
            return True
    return None


def asked(value: Value) -> Value:
    """What `if batch:` asks, which may be a tuple or dictionary of tensors, or nothing: whether there is one. Tensors
    of several rows have no truth."""
    data = value.data
    if data is None or value.objects or not data.nested or data.placement != Sharded(0):
        return value
    return Value(Data(needs=data.needs))


def compared(operator: str, left: Value, right: Value) -> bool | None:
    """The outcome of a comparison of literals, of `is None`, and of `type(x) is list`."""
    a, b = left.constant, right.constant
    if operator in ("Is", "IsNot") and b is None:
        if a is not NOT_CONSTANT:
            return (a is None) is (operator == "Is")
        surely_not = left.data is None and bool(left.objects)
        if left.data is not None and not left.objects:
            surely_not = left.data.placement != REPLICATED
        return (operator == "IsNot") if surely_not else None
    if left.only in _STRUCTURES and right.only in _STRUCTURES and operator in _SAMENESS:
        return (left.only == right.only) is _SAMENESS[operator]
    if a is NOT_CONSTANT or b is NOT_CONSTANT:
        return None
    if operator == "Equal":
        return bool(a == b)
    if operator == "NotEqual":
        return bool(a != b)
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        if operator == "GreaterThan":
            return a > b
        if operator == "LessThan":
            return a < b
    return None
