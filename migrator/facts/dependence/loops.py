"""What `tf.while_loop(condition, body, state)` gives the functions that it runs: each parameter its part of the state.

The number of turns depends on what the condition looks at, and not on the rest of the state.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrator.facts.dependence.graph import Graph, Way
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import FunctionLike, Tree

_LOOPS = (External("tensorflow.while_loop"), External("keras.ops.while_loop"))


class Loops:
    def __init__(self, graph: Graph, tree: Tree, resolver: Resolver) -> None:
        self.graph = graph
        self.tree = tree
        self.resolver = resolver

    def link(self, call: cst.Call) -> bool:
        """Links what the loop's functions get; False where it is not seen part by part."""
        values = self.resolver.values(call.func)
        if not values or any(value not in _LOOPS for value in values):
            return False
        condition, body = (self._function(call, *of) for of in (("cond", 0), ("body", 1)))
        given = argument(call, "loop_vars", 2)
        start = _parts(given.value) if given is not None else None
        after = self._returned(body) if body is not None else None
        if condition is None or body is None or start is None or after is None:
            return False
        states = [start, *after]
        if any(len(state) != len(start) for state in states):
            return False
        for function in (condition, body):
            for state in states:
                self._hand(function, state)
        return True

    def _function(self, call: cst.Call, name: str, position: int) -> FunctionLike | None:
        """The one function of the program that the argument is, if it takes the state alone."""
        given = argument(call, name, position)
        values = self.resolver.values(given.value) if given is not None else ()
        function = values[0].node if len(values) == 1 and isinstance(values[0], Function) else None
        if function is None or (isinstance(function, cst.FunctionDef) and function.decorators):
            return None
        is_method = isinstance(function, cst.FunctionDef) and self.resolver.owner_class(function) is not None
        return None if is_method else function

    def _returned(self, body: FunctionLike) -> list[list[cst.BaseExpression]] | None:
        returned = self.resolver.returned_by_itself(body)
        found = [parts for node in returned if (parts := _parts(node)) is not None]
        return found if found and len(found) == len(returned) else None

    def _hand(self, function: FunctionLike, state: Sequence[cst.BaseExpression]) -> None:
        each = [*function.params.posonly_params, *function.params.params]
        rest = function.params.star_arg
        bindings = self.tree.scopes[function].bindings
        for i, part in enumerate(state):
            param = each[i] if i < len(each) else rest
            if isinstance(param, cst.Param):
                for binding in bindings[param.name.value]:
                    if binding.node is param:
                        self.graph.link(part, binding, Way.INTO if param is rest else Way.WHOLE)


def _parts(node: cst.BaseExpression) -> list[cst.BaseExpression] | None:
    """The items of a list or tuple that is written out."""
    if not isinstance(node, (cst.List, cst.Tuple)) or any(isinstance(e, cst.StarredElement) for e in node.elements):
        return None
    return [element.value for element in node.elements]
