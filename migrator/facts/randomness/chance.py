"""Random numbers that no seed of the script's fixes: without a common one, each worker draws its own."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from migrator.facts.data.pipeline import Pipeline
from migrator.facts.data.sharding import Sharding
from migrator.facts.names import api
from migrator.facts.objects.origins import Origins
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External
from migrator.facts.program.syntax import argument, is_none
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training

_SEEDED_BY = {
    "numpy.random.": ("numpy.random.seed", "keras.utils.set_random_seed"),
    "random.": ("random.seed", "keras.utils.set_random_seed"),
    "sklearn.": ("numpy.random.seed", "keras.utils.set_random_seed"),
}
_GRAPH_SEEDERS = ("tensorflow.random.set_seed", "keras.utils.set_random_seed", "tensorflow.compat.v1.set_random_seed")
_NO_DRAWS = api.NUMPY_GENERATORS | {"numpy.random.seed", "random.seed", "random.Random"}
SHUFFLING_SOURCES = api.BATCHED_SOURCES | {"tensorflow.data.Dataset.list_files"}
_TAKES_RANDOM_STATE = ("sklearn.model_selection.train_test_split", "sklearn.utils.", "sklearn.datasets.make_")


class Chance:
    def __init__(
        self, tree: Tree, resolver: Resolver, origins: Origins, training: Training, sharding: Sharding
    ) -> None:
        self.tree = tree
        self.resolver = resolver
        self.origins = origins
        self.training = training
        self.sharding = sharding

    @cached_property
    def data_draw(self) -> cst.Call | None:
        """A call outside of the training steps that draws on the host without a seed: its result may be data."""
        steps = [b for c in self.sharding.consumptions if isinstance(c.reader, cst.For) for b in self._run_by(c.reader)]
        for call in self.tree.calls:
            if self._draws(call) and not self.tree.is_in(call, steps):
                return call
        return None

    def drawn_tensor(self, *data: cst.CSTNode) -> cst.Call | None:
        """A call behind the data that draws them in TensorFlow without a seed."""
        if self.seeds_datasets:
            return None
        for node in data:
            for part in self.origins.behind(node):
                if isinstance(part, cst.Call) and argument(part, "seed") is None and self._draws_tensor(part):
                    return part
        return None

    def _draws_tensor(self, call: cst.Call) -> bool:
        return any(name.startswith(("tensorflow.random.", "keras.random.")) for name in self.resolver.public(call.func))

    @cached_property
    def seeds_datasets(self) -> bool:
        """Whether one seed is set for all that TensorFlow draws."""
        return self._is_seeded(_GRAPH_SEEDERS)

    def unseeded_order(self, pipeline: Pipeline) -> cst.CSTNode | None:
        """A step of the pipeline, or its source, that orders elements by chance."""
        if self.seeds_datasets:
            return None
        source = pipeline.source
        if source is not None and pipeline.source_path in SHUFFLING_SOURCES and not _is_ordered(source):
            return source
        for step in pipeline.steps:
            if step.method == "shuffle" and argument(step.call, "seed", 1) is None:
                return step.call
        return None

    def _run_by(self, loop: cst.For) -> list[cst.CSTNode]:
        return self.training.reached_from(loop.body)

    def _draws(self, call: cst.Call) -> bool:
        for value in self.resolver.values(call.func):
            path = value.path if isinstance(value, External) else ""
            if path.startswith("sklearn.") and not takes_random_state(call, path):
                continue
            seeders = next((names for start, names in _SEEDED_BY.items() if path.startswith(start)), None)
            if seeders is not None and path not in _NO_DRAWS and not self._is_seeded(seeders):
                return True
        return False

    def _is_seeded(self, seeders: tuple[str, ...]) -> bool:
        return any(name in seeders for call in self.tree.calls for name in self.resolver.public(call.func))


def takes_random_state(call: cst.Call, path: str) -> bool:
    """Whether the function of scikit-learn draws from NumPy's common generator, as it is given none."""
    return path.startswith(_TAKES_RANDOM_STATE) and not _is_ordered(call)


def _is_ordered(source: cst.Call) -> bool:
    """Whether a function that shuffles by default is told not to, or how."""
    shuffle = argument(source, "shuffle")
    if shuffle is not None and isinstance(shuffle.value, cst.Name) and shuffle.value.value == "False":
        return True
    seeds = [argument(source, name) for name in ("seed", "random_state")]
    return any(seed is not None and not is_none(seed.value) for seed in seeds)
