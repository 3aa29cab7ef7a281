"""What is asked of libcst's nodes over and over, answered in C: together a tenth of all time.

Nodes are hashed by identity, but in Python, and their classes are abstract ones, so that each `isinstance` looks for
classes that were registered, in Python, too; there are none. What a string says is parsed anew whenever it is asked
for. What all of them answer stays as it was.
"""

from __future__ import annotations

from abc import ABCMeta
from ast import literal_eval
from collections.abc import Iterator
from functools import lru_cache
from typing import cast

import libcst as cst

_MOST_STRINGS = 1024


class _Plain(ABCMeta):
    """The classes of nodes, which derive from what they say they do and from nothing else."""

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


def _derived(cls: type) -> Iterator[type]:
    yield cls
    derived: type
    for derived in cls.__subclasses__():
        yield from _derived(derived)


def quicken() -> None:
    """Makes them quick, as far as libcst is what is said above."""
    in_python = cst.CSTNode.__hash__
    node = cst.Pass()
    is_by_identity = in_python(node) == id(node)
    for cls in set(_derived(cst.CSTNode)):
        if is_by_identity and vars(cls).get("__hash__") is in_python:
            type.__setattr__(cls, "__hash__", object.__hash__)
        if type(cls) is ABCMeta:
            type.__setattr__(cls, "__class__", _Plain)
    told = cast(property, cst.SimpleString.evaluated_value)
    if told.fget is not None and "literal_eval" in told.fget.__code__.co_names:
        known = lru_cache(maxsize=_MOST_STRINGS)(literal_eval)
        cst.SimpleString.evaluated_value = property(lambda node: known(node.value))  # type: ignore[assignment]
