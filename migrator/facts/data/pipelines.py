"""The history of a dataset: from where it is consumed back through names and functions to its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import libcst as cst

from migrator.facts.data.batch_sources import BatchSources
from migrator.facts.data.pipeline import Entered, Pipeline, Step
from migrator.facts.data.saved import LOADING, Saved
from migrator.facts.data.wrappers import Wrappers
from migrator.facts.names import api, vocabulary
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.contents import Contents
from migrator.facts.objects.iteration import Iteration
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.loads import Loads
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Member, Object, is_strategy
from migrator.facts.ports.ranks import Ranks
from migrator.facts.program.syntax import argument, is_none
from migrator.facts.program.tree import Binding, FunctionLike, Tree

# What cuts a dataset where it goes by the rank.
_CUTTING = frozenset({"shard", "map", "filter", "skip", "take"})
_MANY_FORKS = 8
_IN_A_LOOP = "it is built in a loop"
_Met = tuple[cst.CSTNode, Entered]
# Their functions give datasets, whose elements they hand on: where the function stands among the arguments.
_OF_DATASETS = {"flat_map": ("map_func", 0), "interleave": ("map_func", 0), "group_by_window": ("reduce_func", 1)}
# What such a function may do: its steps run as often, and in the same order, on all workers.
_PLAIN = frozenset({
    *api.BATCHING, "map", "take", "skip", "shard", "repeat", "filter", "take_while", "enumerate", "prefetch",
})  # fmt: skip
# Give the same elements, in another order or earlier.
_REORDERING = frozenset({"shuffle", "prefetch", "with_options"})


class Pipelines:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, ranks: Ranks, sources: BatchSources) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.ranks = ranks
        self.sources = sources
        self.loads = Loads(tree, resolver)
        self._wrappers = Wrappers(tree, resolver, self.loads)
        self.core, self.read = self._wrappers.core, self._wrappers.read
        self._iteration = Iteration(tree, resolver)
        self._contents = Contents(tree, resolver)
        self._saved = Saved(self)

    def is_dataset(self, node: cst.CSTNode) -> bool:
        return any(self.kinds.is_dataset(v) for v in self.resolver.values(node))

    def is_read_in_batches(self, node: cst.BaseExpression) -> bool:
        """Whether `fit` reads batches from this: a dataset, a Sequence, a generator."""
        return self.is_dataset(node) or self.sources.is_source(node)

    def history(self, consumed: cst.BaseExpression) -> Pipeline:
        pipeline = Pipeline()
        pipeline.hands_out_batches = self.sources.is_source(consumed) or self.sources.gives_batches(consumed)
        self._follow(self.core(consumed), (), pipeline, set())
        for way in (pipeline, *pipeline.forks):
            way.steps.reverse()
        return pipeline

    def _follow(self, node: cst.CSTNode, path: tuple[int, ...], pipeline: Pipeline, seen: set[_Met]) -> None:
        if (node, pipeline.within) in seen:
            pipeline.unseen = _IN_A_LOOP
            return
        seen.add((node, pipeline.within))
        if isinstance(node, cst.Call):
            self._follow_call(node, path, pipeline, seen)
        elif isinstance(node, cst.IfExp):
            parts = [part for part in (node.body, node.orelse) if path or not is_none(part)]
            if len(parts) == 1:
                self._follow(parts[0], path, pipeline, seen)
            else:
                self._fork([(node.body, path), (node.orelse, path)], "it is one of two", pipeline, seen)
        elif isinstance(node, cst.Name):
            pipeline.uses.append(node)
            self._follow_bindings(self.resolver.reaching(node), node.value, path, pipeline, seen)
        elif isinstance(node, cst.Attribute):
            pipeline.uses.append(node)
            self._follow_attribute(node, path, pipeline, seen)
        elif path and isinstance(node, (cst.Tuple, cst.List)) and -len(node.elements) <= path[0] < len(node.elements):
            self._follow(node.elements[path[0]].value, path[1:], pipeline, seen)
        elif isinstance(node, cst.Subscript) and (value := self._named_item(node)) is not None:
            self._follow(value, path, pipeline, seen)
        elif isinstance(node, cst.Subscript) and len(items := self._items(node)) > 1:
            self._fork([(item, path) for item in items], "it is one of several that are kept together", pipeline, seen)
        else:
            pipeline.unseen = "its source cannot be seen"

    def _fork(
        self,
        options: Sequence[tuple[cst.CSTNode, tuple[int, ...]]],
        unseen: str,
        pipeline: Pipeline,
        seen: set[_Met],
    ) -> None:
        """The dataset may be each of these: all must bear what is done to it."""
        pipeline.unseen = unseen
        if len(options) > _MANY_FORKS:
            return
        for node, path in options:
            way = replace(
                pipeline,
                unseen="",
                steps=list(pipeline.steps),
                uses=list(pipeline.uses),
                bindings=list(pipeline.bindings),
                functions=list(pipeline.functions),
                calls=list(pipeline.calls),
                forks=[],
            )
            self._follow(node, path, way, set(seen))
            pipeline.forks += way.ways
        for way in pipeline.forks:
            pipeline.uses += way.uses
            pipeline.bindings += way.bindings
            pipeline.functions += way.functions
            pipeline.calls += way.calls
        pipeline.is_sharded = bool(pipeline.forks) and all(way.is_sharded for way in pipeline.forks)

    def _named_item(self, node: cst.Subscript) -> cst.BaseExpression | None:
        """The value under a literal key of a dictionary display (`data["train"]`)."""
        index = node.slice[0].slice.value if isinstance(node.slice[0].slice, cst.Index) else None
        bindings = self.resolver.reaching(node.value) if isinstance(node.value, cst.Name) else []
        display = bindings[0].value if len(bindings) == 1 and not bindings[0].path else None
        if not isinstance(display, cst.Dict) or not isinstance(index, cst.SimpleString):
            return None
        for pair in display.elements:
            if isinstance(pair, cst.DictElement) and pair.key.deep_equals(index):
                return pair.value
        return None

    def _items(self, node: cst.Subscript) -> list[cst.CSTNode]:
        """All that may be at that place of a container (`data[phase]`); none where not all of it is seen."""
        return self._contents.ends(self._contents.items(node)) or []

    def _follow_call(self, call: cst.Call, path: tuple[int, ...], pipeline: Pipeline, seen: set[_Met]) -> None:
        callees = self.resolver.values(call.func)
        for callee in callees:
            if isinstance(callee, External):
                if vocabulary.has_role(callee.path, Role.SHARD):
                    pipeline.is_sharded, pipeline.cut = True, call
                    return
                saved = self._saved.batch_step(call) if callee.path in LOADING else None
                if saved is not None:
                    pipeline.steps.append(saved)  # of another pipeline, in which nothing is cut: it has no source here
                    return
                if api.is_dataset_source(callee.path):
                    pipeline.source, pipeline.source_path = call, callee.path
                    pipeline.is_sharded = any(self.ranks.is_share(arg.value) for arg in call.args)
                    pipeline.is_zip_of_batches = callee.path.endswith(".zip") and self._zips_batches(call)
                    pipeline.hands_out_batches |= callee.path.endswith(".from_generator") and self._yields_batches(call)
                    return
            if isinstance(callee, Function):
                self._follow_into(call, callee.node, path, pipeline, seen)
                return
            method = self.resolver.method(callee.of, "__call__") if isinstance(callee, Object) else None
            if method is not None:
                self._follow_into(call, method, path, pipeline, seen)
                return
            if isinstance(callee, Member) and call.args and is_strategy(callee.owner):
                self._follow_distributed(callee.name, call, path, pipeline, seen)
                return
        applied = self._applied(call)
        if applied is not None:
            self._follow_into(call, applied, path, pipeline, seen)
            return
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "zip" and self.is_dataset(call.func.value):
            # Of the dataset that it is a method of, nothing is read.
            pipeline.source, pipeline.source_path = call, "tensorflow.data.Dataset.zip"
            pipeline.is_zip_of_batches = self._zips_batches(call)
            return
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in api.DATASET_METHODS:
            step = Step(self._method(call.func.attr.value, call), call)
            step = replace(step, inner=self._batches_inside(step))
            added = argument(call, "dataset", 0) if step.method == "concatenate" else None
            if added is not None and not any(s.makes_batches for s in pipeline.steps):
                # Of what is read in batches each part must have its own; samples go on as those of the first part.
                pipeline.is_put_together = True
                options: list[tuple[cst.CSTNode, tuple[int, ...]]] = [(call.func.value, ()), (added.value, ())]
                self._fork(options, "it is put together of two", pipeline, seen)
                return
            pipeline.steps.append(step)
            if self._is_by_rank(step) or (step.method == "apply" and self._applies_shard(call)):
                pipeline.is_sharded = True
                return
            self._follow(call.func.value, (), pipeline, seen)
            return
        pipeline.unseen = "its source cannot be seen"

    def _batches_inside(self, step: Step) -> Step | None:
        """What makes the batches of the datasets that the step goes through; None where they may hold samples, or come
        in an order of their own on each worker."""
        name, position = _OF_DATASETS.get(step.method, ("", 0))
        given = argument(step.call, name, position) if name else None
        functions = self.resolver.values(given.value) if given is not None else ()
        found = [self._batch_inside(f.node) if isinstance(f, Function) else None for f in functions]
        return found[0] if found and None not in found else None

    def _batch_inside(self, function: FunctionLike) -> Step | None:
        returned = [function.body] if isinstance(function, cst.Lambda) else self.resolver.returned(function)
        ways = [way for node in returned for way in self.history(node).ways]
        for way in ways:
            is_plain = all(s.method in _PLAIN and argument(s.call, "num_parallel_calls") is None for s in way.steps)
            if not is_plain or way.is_sharded or len(way.batch_steps) != 1 or way.regroups:
                return None
        return ways[0].batch_steps[0] if ways else None

    def _follow_distributed(
        self, method: str, call: cst.Call, path: tuple[int, ...], pipeline: Pipeline, seen: set[_Met]
    ) -> None:
        """On one device a strategy gives out the dataset as it is."""
        given = call.args[0].value
        functions = [v.node for v in self.resolver.values(given) if isinstance(v, Function)]
        if method in api.DISTRIBUTES_DATASET:
            self._follow(given, path, pipeline, seen)
        elif method in api.DISTRIBUTES_FROM_FUNCTION and len(functions) == 1:
            self._follow_into(call, functions[0], path, pipeline, seen)
        else:
            pipeline.unseen = "its source cannot be seen"

    def _applied(self, call: cst.Call) -> FunctionLike | None:
        """The one function of the program that `dataset.apply(function)` runs."""
        if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "apply" or len(call.args) != 1:
            return None
        values = self.resolver.values(call.args[0].value)
        function = values[0] if len(values) == 1 else None
        return function.node if isinstance(function, Function) and self.is_dataset(call.func.value) else None

    def _method(self, name: str, call: cst.Call) -> str:
        """What the step does: for `apply(tf.data.experimental.map_and_batch(...))` the name of the transformation."""
        if name == "apply" and call.args and isinstance(call.args[0].value, cst.Call):
            for value in self.resolver.values(call.args[0].value.func):
                if isinstance(value, External) and value.path.startswith("tensorflow.data.experimental."):
                    applied = value.path.rpartition(".")[2]
                    return applied if applied in api.BATCHING else name
        return name

    def _zips_batches(self, call: cst.Call) -> bool:
        """Whether every dataset that is zipped holds batches already."""
        parts = [a.value for a in call.args]
        if len(parts) == 1 and isinstance(parts[0], (cst.Tuple, cst.List)):
            parts = [e.value for e in parts[0].elements]
        return bool(parts) and all(self.history(p).is_batched for p in parts)

    def _yields_batches(self, call: cst.Call) -> bool:
        """Whether the generator function of `from_generator` surely yields batches."""
        given = argument(call, "generator", 0)
        functions = [v.node for v in self.resolver.values(given.value) if isinstance(v, Function)] if given else []
        return bool(functions) and all(
            isinstance(f, cst.FunctionDef) and self.sources.yields_rows(f) for f in functions
        )

    def _is_by_rank(self, step: Step) -> bool:
        """`ds.shard(rank_size, rank_id)`, or a `map` that cuts each batch by the rank."""
        if step.method not in _CUTTING:
            return False
        parts = [arg.value for arg in step.call.args]
        functions = [v.node for part in parts for v in self.resolver.values(part) if isinstance(v, Function)]
        names = [name for part in (*parts, *functions) for name in self.tree.names_in(part)]
        return any(map(self.ranks.depends_on_rank, (*parts, *names)))

    def _applies_shard(self, call: cst.Call) -> bool:
        return bool(call.args) and self._is_shard(call.args[0].value)

    def _shards(self, call: cst.Call) -> bool:
        return self._is_shard(call.func)

    def _is_shard(self, function: cst.BaseExpression) -> bool:
        return any(vocabulary.has_role(name, Role.SHARD) for name in self.resolver.public(function))

    def _follow_into(
        self,
        call: cst.Call,
        function: FunctionLike,
        path: tuple[int, ...],
        pipeline: Pipeline,
        seen: set[_Met],
    ) -> None:
        """What the function gives back where it is called here: its parameters are what this call gives them."""
        pipeline.calls.append(call)
        if any(function is entered for _, entered in pipeline.within):
            pipeline.unseen = _IN_A_LOOP
            return
        pipeline.within = (*pipeline.within, (call, function))
        if isinstance(function, cst.Lambda):
            self._follow(function.body, path, pipeline, seen)
        else:
            self._follow_functions([function], path, pipeline, seen)

    def _follow_functions(
        self, functions: Sequence[cst.FunctionDef], path: tuple[int, ...], pipeline: Pipeline, seen: set[_Met]
    ) -> None:
        """What the function returns, or, of a property that several classes have, one of them."""
        returned = [node for function in functions for node in self.resolver.returned(function)]
        pipeline.functions += functions
        if len(returned) == 1:
            self._follow(returned[0], path, pipeline, seen)
        else:
            unseen = f"`{functions[0].name.value}` returns it in several places"
            self._fork([(node, path) for node in returned], unseen, pipeline, seen)

    def _follow_attribute(
        self, node: cst.Attribute, path: tuple[int, ...], pipeline: Pipeline, seen: set[_Met]
    ) -> None:
        bindings = [b for b in self.resolver.bindings_of(node) if not is_none(b.value)]
        properties = self.resolver.properties(node)
        if properties and bindings:
            pipeline.unseen = f"`{node.attr.value}` is a property, and an attribute, too"
            return
        if properties:
            self._follow_functions(properties, path, pipeline, seen)
            return
        bindings.sort(key=lambda b: self.tree.order[b.node], reverse=True)
        earlier = [b for b in bindings if not self.tree.contains(b.node, node)]
        if len({self.tree.function_of(b.node) for b in earlier}) > 1:
            pipeline.unseen = f"`{node.attr.value}` is assigned in several methods"
            return
        here = self.tree.function_of(node)
        if earlier and here is self.tree.function_of(earlier[0].node):
            earlier = [b for b in earlier if self.tree.order[b.node] < self.tree.order[node]]
        self._follow_bindings(self._until_certain(earlier), node.attr.value, path, pipeline, seen)

    def _until_certain(self, bindings: list[Binding]) -> list[Binding]:
        """The latest bindings of an attribute, up to one that its method always runs."""
        for i, binding in enumerate(bindings):
            function = self.tree.function_of(binding.node)
            if function is not None and self.tree.block_of(self.tree.statement_of(binding.node)) is function.body:
                return bindings[: i + 1]
        return bindings

    def _follow_bindings(
        self,
        bindings: list[Binding],
        name: str,
        path: tuple[int, ...],
        pipeline: Pipeline,
        seen: set[_Met],
    ) -> None:
        if not bindings:
            pipeline.unseen = f"`{name}` is not defined in this file"
            return
        bindings = [b for b in bindings if b.path or not is_none(b.value)] or bindings
        pipeline.within = self._within_home(bindings[0], pipeline)
        if len(bindings) > 1 and not self._continues(bindings[0]):
            self._follow_each(bindings, name, path, pipeline, seen)
        else:
            self._follow_binding(bindings[0], name, path, pipeline, seen)

    def _within_home(self, binding: Binding, pipeline: Pipeline) -> Entered:
        """The calls that the history is inside of where the binding gives its value: out of what is called since. Of an
        attribute, which any call may have set, none."""
        if isinstance(binding.target, cst.Attribute):
            return ()
        home = self._home(binding)
        entered = [function for _, function in pipeline.within]
        return pipeline.within[: entered.index(home) + 1] if home in entered else ()

    def _home(self, binding: Binding) -> FunctionLike | None:
        if isinstance(binding.node, cst.Param):
            return self.resolver.function_of_parameter(binding.node)
        return self.tree.callable_of(binding.node)

    def _follow_each(
        self,
        bindings: list[Binding],
        name: str,
        path: tuple[int, ...],
        pipeline: Pipeline,
        seen: set[_Met],
    ) -> None:
        """A name that one branch binds in this way, and another in that."""
        first = [b for b in bindings if not self._only_reorders(b)]
        if len(first) == 1:
            self._follow_binding(first[0], name, path, pipeline, seen)
            return
        pipeline.bindings += bindings
        unseen = f"`{name}` is defined in several places"
        if any(b.kind != "assign" or b.value is None or self._continues(b) for b in bindings):
            pipeline.unseen = unseen
        else:
            options = [(b.value, (*b.path, *path)) for b in bindings if b.value is not None]
            self._fork(options, unseen, pipeline, seen)

    def _follow_binding(
        self, binding: Binding, name: str, path: tuple[int, ...], pipeline: Pipeline, seen: set[_Met]
    ) -> None:
        pipeline.bindings.append(binding)
        if binding.kind == "param":
            self._follow_parameter(cast(cst.Param, binding.node), name, path, pipeline, seen)
        elif binding.kind == "assign" and binding.value is not None:
            self._follow(binding.value, (*binding.path, *path), pipeline, seen)
        elif binding.kind == "for" and binding.value is not None:
            turns = [t.node for t in self._iteration.turns(binding.value, binding.path)]
            unseen = f"what the loop over `{name}` goes through cannot be followed"
            self._fork(
                [(node, path) for node in turns if node is not None and None not in turns], unseen, pipeline, seen
            )
        else:
            pipeline.unseen = f"`{name}` gets its value in a way that cannot be followed"

    def _only_reorders(self, binding: Binding) -> bool:
        """`ds = ds.shuffle(64)`: at the head of each epoch, the elements of the turn before in another order."""
        node: cst.CSTNode | None = binding.value
        while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value not in _REORDERING:
                return False
            node = node.func.value
        return node is not binding.value and self._continues(binding)

    def _continues(self, binding: Binding) -> bool:
        """`ds = ds.map(f)`: the earlier value goes on, whether or not the condition around it holds."""
        node: cst.CSTNode | None = binding.value
        while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            node = node.args[0].value if node.args and self._shards(node) else node.func.value
        if isinstance(binding.target, cst.Attribute):
            return isinstance(node, cst.Attribute) and node.deep_equals(binding.target)
        return isinstance(node, cst.Name) and node.value == binding.name

    def _follow_parameter(
        self, param: cst.Param, name: str, path: tuple[int, ...], pipeline: Pipeline, seen: set[_Met]
    ) -> None:
        arguments = self._given(param, pipeline)
        if len(arguments) == 1:
            self._follow(arguments[0], path, pipeline, seen)
        elif arguments:
            unseen = f"the parameter `{name}` stands for several datasets"
            self._fork([(node, path) for node in arguments], unseen, pipeline, seen)
        else:
            pipeline.unseen = f"no call in this file shows what the parameter `{name}` is"

    def _given(self, param: cst.Param, pipeline: Pipeline) -> list[cst.BaseExpression]:
        """What the parameter is given by the call that the history came through, which it leaves; else by all calls."""
        way, function = pipeline.within, self.resolver.function_of_parameter(param)
        pipeline.within = way[:-1]
        if not way or way[-1][1] is not function:
            return self.resolver.given(param)
        return self.resolver.arguments(param, function, [call for call, _ in way]) or self.resolver.given(param)
