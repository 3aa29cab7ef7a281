"""The functions that a library is handed, and calls whenever it suits it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Function, Literal, Object, Result, calls
from migrator.facts.program.tree import FunctionLike
from migrator.worklist import Worklist


def functions_in(resolver: Resolver, node: cst.BaseExpression) -> Iterator[FunctionLike]:
    """The functions of the program that the expression may be, hold in a display, or call as its object."""
    pending = Worklist([node])  # a display may hold itself: `x = [x, f]` in a loop
    for node in pending:
        if isinstance(node, (cst.List, cst.Tuple, cst.Dict)):
            pending.extend(element.value for element in reversed(node.elements))
            continue
        for value in resolver.values(node):
            if isinstance(value, Function):
                yield value.node
            elif isinstance(value, Object):
                method = resolver.method(value.of, "__call__")
                if method is not None:
                    yield method
            elif isinstance(value, Result) and calls(value) == "functools.partial" and value.call.args:
                pending.append(value.call.args[0].value)
            elif isinstance(value, Literal):
                pending.append(value.node)
