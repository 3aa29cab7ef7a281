"""Spells the runtime's calls in npu_device: each function in one way, or refused."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Callable, Union

import libcst as cst

from migrator.edits import Edit, Refusal
from migrator.facts.script import Facts
from migrator.targets.npu.callbacks import Callbacks
from migrator.targets.npu.data import Data
from migrator.targets.npu.gradients import Gradients
from migrator.targets.npu.refusing import refuse
from migrator.targets.npu.setup import Setup
from migrator.targets.npu.sites import Site, site, texts, with_texts
from migrator.targets.npu.weights import Weights
from migrator.targets.npu.wording import in_npu_words

_CUTTING = frozenset({
    "shard-dataset", "shard-arrays", "shard-batch", "shard-minibatches", "shard-made-tensors",
})  # fmt: skip

# The options of each call that its spelling heeds, or has no need of. npu_device drops what does not divide, where
# drop_remainder, loss and batch_size tell the runtime how to share it, and leaves all random states alike.
_UNDERSTOOD = {
    "broadcast": {"noise"},
    "all_reduce": {"reduction"},
    "distributed_optimizer": {"reduction"},
    "shard_and_rebatch_dataset": {"drop_remainder", "loss"},
    "shard_batches": {"loss"},
    "shard_batch": {"loss"},
    "shard_arrays": {"validation_split", "batch_size"},
}

Spelled = Iterator[Union[Edit, Refusal]]


class NpuSpelling:
    """One file in npu_device."""

    def __init__(self, facts: Facts, module: cst.Module) -> None:
        self._runtime = facts.joining.runtime_name(module)
        self._setup = Setup(facts, module)
        weights = Weights(facts, self._setup)
        gradients = Gradients(facts, self._setup)
        data = Data(facts, self._setup)
        callbacks = Callbacks(facts, self._setup)
        self._spellings: dict[str, Callable[[Site], Spelled]] = {
            "broadcast": weights.broadcast,
            "all_reduce": gradients.all_reduce,
            "distributed_optimizer": gradients.distributed_optimizer,
            "shard_and_rebatch_dataset": data.shard_and_rebatch_dataset,
            "shard_batches": data.shard_batches,
            "shard_arrays": data.shard_arrays,
            "shard_batch": data.shard_batch,
            "local_batch_size": data.local_batch_size,
            "callbacks": callbacks.callbacks,
            "barrier": self._barrier,
        }
        self._given: set[Edit] = set()

    def spell(self, edit: Edit) -> Spelled:
        edit = self._with_numbers(edit)
        if not any(re.search(rf"\b{self._runtime}\.\w", text) for text in texts(edit)):
            yield edit
            return
        found = site(edit, self._runtime)
        spelling = self._spellings.get(found.function) if found is not None else None
        if found is None or spelling is None or not found.keywords.keys() <= _UNDERSTOOD.get(found.function, set()):
            names = sorted({n for t in texts(edit) for n in re.findall(rf"\b{self._runtime}\.(\w+)", t)})
            yield refuse(_node(edit), f"npu_device has no counterpart of lockstep.{', '.join(names)}")
            return
        for spelled in spelling(found):
            # Two sites may need the same line, or cut the same array.
            if isinstance(spelled, Refusal) or spelled not in self._given:
                if not isinstance(spelled, Refusal):
                    self._given.add(spelled)
                yield spelled

    def _with_numbers(self, edit: Edit) -> Edit:
        """The edit with names for the rank and the number of workers."""
        for function, number in (("is_chief", "rank"), ("rank", "rank"), ("size", "size")):
            call = f"{self._runtime}.{function}()"
            if any(call in text for text in texts(edit)):
                name = getattr(self._setup, number)
                edit = with_texts(edit, call, f"{name} == 0" if function == "is_chief" else name)
        return edit

    def refused(self, rule: str, refusal: Refusal) -> Refusal:
        """Data that stay whole are the same on all workers only where something seeds these alike, as lockstep does:
        else they would train on N batches a step."""
        worded = in_npu_words(refusal)
        return replace(worded, breaks_training=True) if rule in _CUTTING else worded

    def calls(self, edit: Edit) -> bool:
        return True

    def imports(self, nodes: Sequence[cst.CSTNode]) -> Iterator[Edit]:
        yield from self._setup.imports()

    def _barrier(self, found: Site) -> Spelled:
        """A reduction that nobody needs, but for which all must come."""
        setup = self._setup
        yield found.written(
            f"{setup.npu}.distribute.all_reduce({setup.tensorflow}.constant(0.0)).numpy()  # wait for all"
        )


def _node(edit: Edit) -> cst.CSTNode:
    return Site(edit, "", "", (), {}).node
