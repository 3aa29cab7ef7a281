"""What each binding gets: of an assignment, a loop, a parameter, an `except`, a pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import libcst as cst

from migrator.facts.dependence.functions import Functions
from migrator.facts.dependence.graph import Graph, Way
from migrator.facts.dependence.names import Names
from migrator.facts.dependence.sizes import is_shape
from migrator.facts.objects.indirect import Indirect
from migrator.facts.objects.iteration import Iteration
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Object
from migrator.facts.program.syntax import method_called, part_at
from migrator.facts.program.tree import Binding, FunctionLike, Tree


class Bindings:
    def __init__(
        self,
        graph: Graph,
        tree: Tree,
        resolver: Resolver,
        kinds: Kinds,
        indirect: Indirect,
        names: Names,
        functions: Functions,
        is_run: Callable[[cst.CSTNode], bool],
    ) -> None:
        self.graph = graph
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.indirect = indirect
        self.names = names
        self.functions = functions
        self._is_run = is_run
        self._iteration = Iteration(tree, resolver)

    def link(self, binding: Binding) -> None:
        value = binding.value
        if binding.kind == "param":
            self._link_parameter(binding, cast(cst.Param, binding.node))
        elif binding.kind == "for" and value is not None:
            iterated, path = self._iteration.narrowed(value, binding.path)
            parts = self._iteration.written(iterated, path)
            for part in parts:
                self.graph.link(part, binding)
            if parts:
                return
            counts = self.kinds.numbers_turns(iterated, path)
            keys = isinstance(iterated, cst.Call) and _lists_keys(iterated, path)
            self.graph.link(iterated, binding, Way.SIZE if counts or keys else Way.USED)
        elif binding.kind in ("assign", "with", "augmented") and value is not None:
            self._link_assigned(binding, value)
        elif binding.kind == "other":
            self._link_other(binding)
        if isinstance(binding.target, cst.Attribute):
            for method, operands in self.indirect.operators.sets(binding.target, binding.target):
                for operand in operands:
                    self.graph.link(binding if operand is binding.target else operand, ("handed to", method))
            for owner in self.resolver.values(binding.target.value):
                if isinstance(owner, Object):
                    for cls in self.resolver.lineage(owner.of):
                        self.graph.link(binding, ("object", cls.node))

    def _link_assigned(self, binding: Binding, value: cst.CSTNode) -> None:
        if binding.path and binding.path[0] != 0 and is_shape(value):
            return  # `_, length = tokens.shape`: the size of another axis than that of the samples
        parts = [part_at(value, binding.path)]
        functions: list[cst.CSTNode] = []
        if parts == [None] and isinstance(value, cst.Call):
            functions = self.functions.run_by(value)
            if functions:
                parts = [part_at(r, binding.path) for f in functions for r in self.functions.returned(f)]
        if parts and None not in parts and binding.path:
            for part in parts:
                self.graph.link(part, binding)
            for function in functions:
                self.graph.link(("returns", function), binding, Way.CHOICE)
            return
        self.graph.link(value, binding, Way.USED if binding.path else Way.WHOLE)
        if binding.kind == "augmented" and isinstance(binding.target, cst.Name):
            for before in self.names.bindings_of(binding.target):
                self.graph.link(before, binding)

    def _link_parameter(self, binding: Binding, param: cst.Param) -> None:
        function = self.resolver.function_of_parameter(param)
        every = (*function.params.posonly_params, *function.params.params)
        callers = self.resolver.callers(function)
        others = [call for call in callers if not self.functions.may_run(call, function)]
        for given in filter(self._is_run, self.resolver.given(param)):
            if not self.tree.is_in(given, others):
                self.graph.link(given, binding)
        if not (self.resolver.owner_class(function) is not None and param is (*every, param)[0]):
            self.graph.link(("handed to", function), binding)  # but the object that a method is of
        rest = param in (function.params.star_arg, function.params.star_kwarg)
        for call in filter(self._is_run, (call for call in callers if call not in others)):
            if any(self.tree.contains(call, given) for given in self.resolver.arguments(param, function, [call])):
                continue  # `step(params, *batch)`: the batch is for other parameters
            named = (*every, *function.params.kwonly_params) if rest else ()
            taken = {given for other in named for given in self.resolver.arguments(other, function, [call])}
            for arg in call.args:
                if (arg.star and not self._ends_before(arg, call, param, function)) or (
                    rest and arg.value not in taken
                ):
                    self.graph.link(arg, binding, Way.INTO if rest else Way.USED)

    def _ends_before(self, arg: cst.Arg, call: cst.Call, param: cst.Param, function: FunctionLike) -> bool:
        """Whether the parameter stands behind all that `*lockstep.shard_batch(x, y)` gives, which are two."""
        every, count = (*function.params.posonly_params, *function.params.params), self.resolver.shares_in(arg)
        start = list(call.args).index(arg) + (self.resolver.owner_class(function) is not None)
        return count is not None and param in every and every.index(param) >= start + count

    def _link_other(self, binding: Binding) -> None:
        """`*rest` of an assignment, what an `except` catches, what a pattern of a `match` takes out of its subject."""
        for owner in (binding.node, *self.tree.ancestors(binding.node)):
            if isinstance(owner, cst.ExceptHandler):
                self.graph.link(("raised",), binding, Way.USED)
                return
            if isinstance(owner, cst.Match):
                self.graph.link(owner.subject, binding, Way.USED)
                return
            source = getattr(owner, "value", None) or getattr(owner, "iter", None)
            if isinstance(source, cst.BaseExpression):
                self.graph.link(source, binding, Way.WHOLE)
                return


def _lists_keys(call: cst.Call, path: tuple[int, ...]) -> bool:
    name = method_called(call)
    return name == "keys" or (name == "items" and path[:1] == (0,))
