"""The functions that a library is handed, and calls whenever it suits it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Function, Literal, Object
from migrator.facts.program.tree import FunctionLike


def functions_in(resolver: Resolver, node: cst.BaseExpression) -> Iterator[FunctionLike]:
    """The functions of the program that the expression may be, hold in a display, or call as its object."""
    if isinstance(node, (cst.List, cst.Tuple, cst.Dict)):
        for element in node.elements:
            yield from functions_in(resolver, element.value)
        return
    for value in resolver.values(node):
        if isinstance(value, Function):
            yield value.node
        elif isinstance(value, Object):
            method = resolver.method(value.of, "__call__")
            if method is not None:
                yield method
        elif isinstance(value, Literal) and value.node is not node:
            yield from functions_in(resolver, value.node)
