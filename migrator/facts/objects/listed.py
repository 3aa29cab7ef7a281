"""What a list that is handed over holds: `callbacks=[early, log]`, also through a name."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.names.vocabulary import Role, has_role
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Literal, Result, Value, calls


def listed(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The elements of a list or tuple that is written out; else the expression alone."""
    return [e.value for e in node.elements] if isinstance(node, (cst.List, cst.Tuple)) else [node]


def listed_values(resolver: Resolver, node: cst.BaseExpression) -> Iterator[Value]:
    for value in resolver.values(node):
        if isinstance(value, Literal) and isinstance(value.node, (cst.List, cst.Tuple)):
            for element in value.node.elements:
                yield from listed_values(resolver, element.value)
        elif isinstance(value, Result) and value.call.args and has_role(calls(value), Role.CALLBACKS):
            yield from listed_values(resolver, value.call.args[0].value)  # the runtime's stand around those given
        else:
            yield value
