"""Data that each worker shuffles in an order of its own before it takes its share: the shares then overlap."""

from __future__ import annotations

import re
from functools import cached_property

import libcst as cst

from migrator.facts.data.pipeline import Pipeline
from migrator.facts.data.pipelines import Pipelines
from migrator.facts.objects.origins import Origins
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Result
from migrator.facts.ports.ranks import Ranks
from migrator.facts.ports.shares import Share
from migrator.facts.program.syntax import argument, has_unpacked_keywords, is_none, is_true
from migrator.facts.program.tree import Tree
from migrator.facts.randomness.entropy import is_own, is_unseeded

_TENSORFLOW_SEEDERS = frozenset({
    "tensorflow.random.set_seed", "keras.utils.set_random_seed", "tensorflow.compat.v1.set_random_seed",
    "keras.backend.set_random_seed",
})  # fmt: skip
_NUMPY_SEEDERS = frozenset({"numpy.random.seed", "keras.utils.set_random_seed"})
_PYTHON_SEEDERS = frozenset({"random.seed", "keras.utils.set_random_seed"})
_IN_PLACE = {"numpy.random.shuffle": _NUMPY_SEEDERS, "random.shuffle": _PYTHON_SEEDERS}
_PERMUTATIONS = frozenset({"numpy.random.permutation"})
_SPLITTERS = frozenset({"sklearn.utils.shuffle", "sklearn.model_selection.train_test_split"})
_SHUFFLING_FOLDERS = re.compile(r"^keras\.(?:utils|preprocessing)\.(?:image|text|audio)_dataset_from_directory$")


class Shuffles:
    def __init__(self, tree: Tree, resolver: Resolver, ranks: Ranks, pipelines: Pipelines, origins: Origins) -> None:
        self.tree = tree
        self.resolver = resolver
        self.ranks = ranks
        self.pipelines = pipelines
        self.origins = origins

    def before(self, share: Share) -> cst.Call | None:
        """The call that shuffles what is shared out, on each worker differently; None where no such is seen."""
        if self.pipelines.is_dataset(share.whole):
            return self._of_dataset(share, self.pipelines.history(share.whole))
        return self._of_array(share)

    def _is_alike(self, share: Share, seeders: frozenset[str]) -> bool:
        """Whether all workers draw the same random numbers."""
        seeds = [arg for call in self._calls(seeders) for arg in call.args[:1]]
        if any(self.ranks.depends_on_rank(arg.value) for arg in seeds):
            return False
        return bool(seeds) or (share.toolkit is not None and share.toolkit.seeds_alike)

    def _calls(self, paths: frozenset[str]) -> list[cst.Call]:
        return [call for call in self.tree.calls if self._path(call) in paths]

    def _path(self, call: cst.Call) -> str:
        return next(iter(self.resolver.public(call.func)), "")

    # -- datasets ------------------------------------------------------------------------------------------------

    def _of_dataset(self, share: Share, pipeline: Pipeline) -> cst.Call | None:
        for step in pipeline.steps:
            if step.method == "shuffle" and self._differs(share, argument(step.call, "seed", 1)):
                return step.call
        source = pipeline.source
        if source is None or has_unpacked_keywords(source) or not self.shuffles(source, pipeline.source_path):
            return None
        return source if self._differs(share, self._seed(source)) else None

    def _seed(self, source: cst.Call) -> cst.Arg | None:
        """The seed of the source itself, or that of the files in its tfds.ReadConfig."""
        config = argument(source, "read_config")
        if config is None:
            return argument(source, "seed")
        made = (v.call for v in self.resolver.values(config.value) if isinstance(v, Result))
        return next((argument(call, "shuffle_seed") for call in made), None)

    def shuffles(self, source: cst.Call, path: str) -> bool:
        """Whether the source gives its elements in a random order, as it does unless it is told otherwise."""
        if path.endswith(".list_files") or _SHUFFLING_FOLDERS.match(path):
            shuffle = argument(source, "shuffle", 1 if path.endswith(".list_files") else None)
            return shuffle is None or is_true(shuffle.value)
        shuffle = argument(source, "shuffle_files") if path == "tensorflow_datasets.load" else None
        return shuffle is not None and is_true(shuffle.value)

    def _differs(self, share: Share, seed: cst.Arg | None) -> bool:
        if seed is not None and not is_none(seed.value):
            return self.ranks.depends_on_rank(seed.value) or self._is_drawn_by_each(seed.value)
        return not self._is_alike(share, _TENSORFLOW_SEEDERS)

    def _is_drawn_by_each(self, node: cst.CSTNode) -> bool:
        """Whether a value comes of the system's randomness, a clock, or a generator that nobody has seeded."""
        calls = (part for part in self.ranks.made_of(node) if isinstance(part, cst.Call))
        return any(is_own(self._path(call)) or is_unseeded(call, self._path(call)) for call in calls)

    # -- arrays --------------------------------------------------------------------------------------------------

    def _of_array(self, share: Share) -> cst.Call | None:
        parts = list(self.origins.behind(share.whole))
        names = {part.value for part in parts if isinstance(part, cst.Name)}
        for call, whole in self._in_place:
            if (
                whole.value in names
                and self._runs_before(call, share)
                and not self._is_alike(share, _IN_PLACE[self._path(call)])
            ):
                return call
        for part in parts:
            if isinstance(part, cst.Call) and self._permutes_by_itself(part):
                return part
        if self._is_alike(share, _NUMPY_SEEDERS):
            return None
        for part in parts:
            if isinstance(part, cst.Call) and (self._path(part) in _PERMUTATIONS or self._splits_at_random(part)):
                return part
        return None

    def _permutes_by_itself(self, call: cst.Call) -> bool:
        """`rng.permutation(n)`, of a generator that no seed of the script's or the runtime's reaches."""
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in ("permutation", "permuted"):
            return False
        made = (part for part in self.ranks.made_of(func.value) if isinstance(part, cst.Call))
        return any(is_unseeded(part, self._path(part)) for part in made)

    @cached_property
    def _in_place(self) -> list[tuple[cst.Call, cst.Name]]:
        """`np.random.shuffle(x)`"""
        shuffling = self._calls(frozenset(_IN_PLACE))
        return [(c, c.args[0].value) for c in shuffling if c.args and isinstance(c.args[0].value, cst.Name)]

    def _runs_before(self, call: cst.Call, share: Share) -> bool:
        same = self.tree.function_of(call) is self.tree.function_of(share.node)
        return same and self.tree.order[call] < self.tree.order[share.node]

    def _splits_at_random(self, call: cst.Call) -> bool:
        if self._path(call) not in _SPLITTERS or has_unpacked_keywords(call):
            return False
        state, shuffle = argument(call, "random_state"), argument(call, "shuffle")
        return (state is None or is_none(state.value)) and (shuffle is None or is_true(shuffle.value))
