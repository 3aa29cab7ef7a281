"""The order in which Python asks a class and its bases for a name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def linearised(cls: T, bases_of: Callable[[T], Iterable[T]]) -> list[T]:
    """The class and its bases, by the C3 linearisation of https://docs.python.org/3/howto/mro.html.

    Bases that Python would not accept, because a name stands for several classes, come in some order, none missing.
    """
    return _linearised(cls, bases_of, ())


def _linearised(cls: T, bases_of: Callable[[T], Iterable[T]], heirs: tuple[T, ...]) -> list[T]:
    bases = [base for base in bases_of(cls) if base != cls and base not in heirs]
    lines = [_linearised(base, bases_of, (*heirs, cls)) for base in bases]
    return [cls, *(lines[0] if len(lines) == 1 else _merged([*lines, bases]))]


def _merged(lines: list[list[T]]) -> list[T]:
    """The classes of the lines, none before one that stands in front of it in a line, as far as that can be had."""
    found: list[T] = []
    while lines := [line for line in ([c for c in line if c not in found] for line in lines) if line]:
        free = [line[0] for line in lines if not any(line[0] in other[1:] for other in lines)]
        found.append(free[0] if free else lines[0][0])
    return found
