"""What an expression may evaluate to, as far as the text tells."""

from __future__ import annotations

from typing import Union

import libcst as cst

from migrator.records import dataclass


@dataclass(frozen=True)
class External:
    """Something imported or built in, by its canonical dotted name (`keras.optimizers.Adam`)."""

    path: str


@dataclass(frozen=True)
class Result:
    """What calling something outside of the program returned."""

    function: Value
    call: cst.Call


@dataclass(frozen=True)
class Member:
    """An attribute or bound method of a value that the program does not define itself."""

    owner: Value
    name: str


@dataclass(frozen=True)
class Element:
    """What unpacking, subscripting or iterating over a value yields."""

    of: Value
    path: tuple[int, ...] = ()


@dataclass(frozen=True)
class Function:
    """A function, method or lambda of the program; `owner` is the object that a method is bound to."""

    node: cst.FunctionDef | cst.Lambda
    owner: Value | None = None


@dataclass(frozen=True)
class Class:
    """A class of the program."""

    node: cst.ClassDef


@dataclass(frozen=True)
class Object:
    """An instance of a class of the program; `call` built it, None for `self` inside the class."""

    of: Class
    call: cst.Call | None = None


@dataclass(frozen=True)
class File:
    """A module of the program itself, as an import names it."""

    node: cst.Module


@dataclass(frozen=True)
class Literal:
    """A display or constant: the node itself is the value."""

    node: cst.BaseExpression


@dataclass(frozen=True)
class Parameter:
    """A parameter that no call in the program gives a value."""

    node: cst.Param


@dataclass(frozen=True)
class Unknown:
    """An expression about which the text tells nothing more."""

    node: cst.CSTNode


Value = Union[External, Result, Member, Element, Function, Class, Object, File, Literal, Parameter, Unknown]
Values = tuple[Value, ...]


def is_strategy(value: Value) -> bool:
    """An object of tf.distribute; those that spread over several devices are refused as such."""
    return (
        isinstance(value, Result)
        and isinstance(value.function, External)
        and value.function.path.startswith("tensorflow.distribute.")
    )


def is_call_of(value: Value, *paths: str) -> bool:
    """Whether the value is what one of these outside functions returned."""
    return isinstance(value, Result) and isinstance(value.function, External) and value.function.path in paths


def calls(value: Value) -> str:
    """The dotted name of the outside function that returned the value; empty for others."""
    return value.function.path if isinstance(value, Result) and isinstance(value.function, External) else ""
