"""What the result of a call depends on: on its function, its arguments, or on what a function of the script returns."""

from __future__ import annotations

import libcst as cst

from migrator.facts.dependence import libraries
from migrator.facts.dependence.changes import Changes
from migrator.facts.dependence.choosing import arguments_beside, choosing
from migrator.facts.dependence.functions import Functions
from migrator.facts.dependence.graph import Graph, Way
from migrator.facts.dependence.namespaces import Namespaces
from migrator.facts.dependence.ordering import Ordering
from migrator.facts.dependence.reads import Reads
from migrator.facts.dependence.sizes import Sizes, is_shape
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Object


class Calls:
    def __init__(
        self,
        graph: Graph,
        resolver: Resolver,
        kinds: Kinds,
        sizes: Sizes,
        functions: Functions,
        namespaces: Namespaces,
        reads: Reads,
        ordering: Ordering,
        changes: Changes,
    ) -> None:
        self.graph = graph
        self.resolver = resolver
        self.kinds = kinds
        self.sizes = sizes
        self.functions = functions
        self.namespaces = namespaces
        self.reads = reads
        self.ordering = ordering
        self.changes = changes

    def _makes_weights(self, call: cst.Call) -> bool:
        """Whether it makes a model or a layer; a function of the script may also pick one of several."""
        is_made = any(map(self.kinds.has_weights, self.resolver.values(call)))
        return is_made and not any(isinstance(v, Function) for v in self.resolver.values(call.func))

    def link(self, call: cst.Call) -> None:
        values = self.resolver.values(call.func)
        paths = {v.path for v in values if isinstance(v, External)}
        if any(map(libraries.is_agreed, paths)) or self._makes_weights(call):
            if paths & libraries.TELLING_KINDS:
                self.graph.link(call.args[0] if call.args else None, call, Way.IDENTITY)
            return
        if paths == {"builtins.len"} and len(call.args) == 1 and is_shape(call.args[0].value):
            return  # the number of its axes
        for function in self.functions.run_by(call):
            self.functions.link_returned(function, call)
        self.functions.link_wrappers(call)
        self.functions.link_met(call)
        self.reads.link_object(call)
        self.namespaces.link_call(call)
        self.reads.link_reflection(call)
        self.functions.link_cache(call)
        if self.functions.indirect.is_overwritten(call):
            self.functions.link_handed(call)
        constructed = [v for v in values if isinstance(v, Class)]
        if values and all(map(self.functions.is_picked, values)):
            for pick in self.functions.picks(call.func):
                self.graph.link(pick, call, Way.CHOICE)
            self.graph.link(call.func, call, Way.IDENTITY)
            if isinstance(call.func, cst.Attribute):
                self.graph.link(call.func.value, call, Way.IDENTITY)
        if values and all(map(self.functions.is_own, values)):
            return
        if constructed and self.reads.are_seen([Object(c) for c in constructed]):
            return
        if paths == {"builtins.len"} and self.sizes.counts_parts(call):
            return
        way = Way.INTO if constructed else Way.USED
        if paths & libraries.SEQUENCES:
            way = Way.WHOLE
        chosen_by = choosing(call, paths)
        for node in chosen_by:
            self.graph.link(node, call, Way.CHOICE)
        for arg in arguments_beside(call, chosen_by):
            counts = isinstance(arg, cst.Arg) and bool(paths & libraries.SIZE_CALLS)
            self.graph.link(arg, call, self.sizes.by_size(cst.ensure_type(arg, cst.Arg).value) if counts else way)
        self.graph.link(call.func, call, way)
        if isinstance(call.func, cst.Attribute):
            is_number = self.sizes.tells_number(call.func)
            self.graph.link(call.func.value, call.func, Way.SIZE if is_number else Way.USED)
        self.functions.link_handed(call)
        self.ordering.link(call, paths)
        self.changes.link(call, values)
