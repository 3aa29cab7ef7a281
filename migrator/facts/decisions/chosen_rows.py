"""What batches are made of that workers have to hold alike before they take their rows of them: arrays, datasets, and
the indices that pick rows, such as an order by the losses of the epoch before."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.data.sharding import Sharding
from migrator.facts.decisions.locality import Locality
from migrator.facts.decisions.marks import Mark
from migrator.facts.dependence import Key
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Object
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import Binding
from migrator.facts.training.sites import Training

_DATA = frozenset({"x", "y", "sample_weight"})
_SETTLING = 4  # of the positional arguments of `fit`: the data, the size of batches and the number of epochs
# Methods by which Keras reads batches of an object.
_READ = ("__getitem__", "__iter__", "__next__", "__len__", "__call__")


class ChosenRows:
    def __init__(self, resolver: Resolver, training: Training, sharding: Sharding, locality: Locality) -> None:
        self.resolver = resolver
        self.training = training
        self.sharding = sharding
        self.locality = locality

    def all(self) -> Iterator[cst.BaseExpression]:
        for consumption in self.sharding.consumptions:
            if isinstance(consumption.dataset, cst.BaseExpression):
                yield consumption.dataset
        for node in self.sharding.cut_rows:
            yield from self._made_of(node)
        for node in (*self._given_to_fits(), *self._read_by_fits()):
            # What a model with BatchNormalization predicts is each worker's, as its statistics are.
            if self.locality.of(node) & ~(Mark.STATISTIC | Mark.HELD):
                yield node

    def _made_of(self, node: Key) -> Iterator[cst.BaseExpression]:
        """The nearest expressions that make it local: the index of an item, what a name gets."""
        queue, seen = [node], {node}
        while queue:
            for key in self.locality.inputs(queue.pop()):
                part = key.value if isinstance(key, Binding) else key
                if isinstance(part, cst.BaseExpression):
                    yield part
                elif key not in seen:  # an argument, a part of an index, the items of a container
                    seen.add(key)
                    queue.append(key)

    def _given_to_fits(self) -> Iterator[cst.BaseExpression]:
        """The arrays that are going to be cut for `fit`, and the batches for `train_on_batch`."""
        cut = {c.dataset for c in self.sharding.consumptions} | self.sharding.minibatches.cut_for_fits
        for fit in (*self.training.fits, *self.training.batch_fits):
            if self._is_given_shares(fit.call):
                continue
            for i, arg in enumerate(fit.call.args):
                settles = i < _SETTLING if arg.keyword is None else arg.keyword.value in _DATA
                if (settles or arg.star) and arg.value not in cut:
                    yield arg.value

    def _is_given_shares(self, call: cst.Call) -> bool:
        """Whether what Keras trains on there is a worker's own: cut in the call, or where a dataset is read."""
        if self.sharding.fit_arrays.are_cut_already(call):
            return True
        batches = self.sharding.minibatches
        if any(batches.shares.is_share_at(a.value, call) or batches.ranks.depends_on_rank(a.value) for a in call.args):
            return True
        readers = {c.reader for c in self.sharding.consumptions}
        read = self.sharding.reading.around(call)
        return any(c.reader in readers or self.sharding.pipelines.history(c.dataset).is_sharded for c in read)

    def _read_by_fits(self) -> Iterator[cst.BaseExpression]:
        """What objects of the script's give `fit`, which reads batches of them: a `Sequence`."""
        given = [arg.value for fit in self.training.fits if (arg := argument(fit.call, "x", 0)) is not None]
        read = (value for node in given for value in self.resolver.values(node))
        for value in dict.fromkeys(v for v in read if isinstance(v, Object)):
            for name in _READ:
                method = self.resolver.method(value.of, name)
                if method is not None:
                    yield from self.resolver.returned_by_itself(method)
