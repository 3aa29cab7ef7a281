"""Ops that treat the batch sample by sample: layers, convolutions, images, matrices, losses."""

from __future__ import annotations

from typing import Any

from migrator.analysis.ops.call import NOT_CONSTANT, Arg, Bound, NeedsWhole, literal
from migrator.analysis.ops.reducing import Reduces, reduced
from migrator.analysis.ops.terms import (
    ImpossibleRank,
    by_option,
    known_rank,
    one_layout,
    over_ranks,
    placed,
    plain,
    sharded,
    term,
    whole,
)
from migrator.analysis.placement import ALL_GATHER, REPLICATED, Partial
from migrator.records import dataclass, replace

FALSE, NONE = Arg(constant=False), Arg(constant=None)
# Arguments that hold a value for each sample, or one for all.
BESIDE = ("mask", "initial_state", "attention_mask", "query_mask", "value_mask", "key_mask")


@dataclass(frozen=True)
class PerSample:
    """Axis 0 of the first `inputs` parameters is the batch's; all others are the same for every sample.

    `least`: axes that an input has; with fewer its first axis is no batch axis. `outputs` > 1: a tuple of so many.
    `refused`: constructor arguments that make it keep or mix something over the batch, and the values that do not.
    `length`: the one without which it makes all rows as long as the longest of the batch.
    `axis`: it is made with an axis, which must not be the batch's, as the last of a vector is. `states` > 0: it gives a
    list of so many, too. `behind`: it works along so many axes at the end, and the batch may be any of the others.
    """

    inputs: int = 1
    least: int = 1
    outputs: int = 1
    drops: int | None = None
    refused: tuple[tuple[str, Any], ...] = ()
    axis: bool = False
    states: int = 0
    behind: int | None = None
    length: str = ""

    def __call__(self, bound: Bound) -> Arg:
        for name, harmless in self.refused:
            if name in bound.made and bound.made[name].constant != harmless:
                raise NeedsWhole(f"it is made with {name}")
        if self.length and not _is_number(bound.made.get(self.length, NONE)) and not _is_ragged(bound):
            raise NeedsWhole(f"it is made without {self.length}: it makes all rows as long as the longest", ALL_GATHER)
        least = max(self.least, 2 if self._works_along(bound) == -1 else 1)
        names = bound.parameters[: self.inputs]
        given = [arg for arg in (bound.get(name) for name in names) if arg is not None and arg.constant is NOT_CONSTANT]
        beside = [arg for arg in (bound.get(name) for name in BESIDE) if arg is not None]
        values = [leaf for arg in given for leaf in arg.leaves()]
        values += [leaf for arg in beside for leaf in arg.leaves() if leaf.placement != REPLICATED]
        cuts = [sharded(value.placement) for value in values]
        state = bound.get("initial_state")
        if any(cuts) and state is not None and any(one.constant is not None for one in state.leaves()):
            values += [one for one in state.leaves() if one.placement == REPLICATED]  # it has a row for each sample
        if not any(cuts):
            for value in values:
                plain(value.placement)
            return self._result(Arg(REPLICATED, rank=self._left(values)))
        for value in values:
            if sharded(value.placement) is None:
                raise NeedsWhole("it takes a whole value beside the rows of the batch", ALL_GATHER)
        layout = one_layout([cut for cut in cuts if cut])
        for value in values:
            plain(value.placement)
        if layout.axis and self.behind is None:
            raise NeedsWhole("it takes axis 0 for the batch, which is cut along another", ALL_GATHER)

        def place(rank: int) -> Arg:
            if rank < least:
                raise NeedsWhole("its input has no axis for the batch", ALL_GATHER)
            if layout.axis and layout.axis >= rank - (self.behind or 0):
                raise NeedsWhole("it works along the axis of the batch", ALL_GATHER)
            return Arg(layout)

        # Those that are joined along it all have as many.
        first = [replace(value, least=max(one.least for one in values)) for value in values[:1]]
        result = over_ranks(first, place) if least > 1 or layout.axis else Arg(layout)
        masked = any(value.masked for value in values) or bound.made.get("mask_zero", FALSE).constant is not False
        return self._result(replace(result, rank=self._left(values), masked=masked))

    def _works_along(self, bound: Bound) -> int | None:
        """The last of the axes that it is made with, which are all behind that of the batch."""
        axes: list[Any] = []
        for name in ("axis", "axes") if self.axis else ():
            given = literal(bound.made[name]) if name in bound.made else -1
            axes += given if isinstance(given, (list, tuple)) else [given]
        if not all(isinstance(axis, int) and (axis > 0 or axis == -1) for axis in axes):
            raise NeedsWhole("it may work along the batch", ALL_GATHER)
        return min(axes, default=None)

    def _left(self, values: list[Arg]) -> int | None:
        rank = values[0].rank if values else None
        return None if rank is None or self.drops is None else rank - self.drops

    def _result(self, result: Arg) -> Arg:
        if self.states:
            return Arg(items=(result, Arg(items=(result,) * self.states)))
        return result if self.outputs == 1 else Arg(items=(result,) * self.outputs)


def _is_number(arg: Arg) -> bool:
    """Whether it surely is a whole number, and not None."""
    return isinstance(arg.constant, int) or bool(arg.choices) or (arg.integral and arg.constant is NOT_CONSTANT)


def _is_ragged(bound: Bound) -> bool:
    return bound.made.get("ragged", FALSE).constant is True


@dataclass(frozen=True)
class Masking(PerSample):
    """The layer that makes a mask of Keras."""

    def __call__(self, bound: Bound) -> Arg:
        return replace(super().__call__(bound), masked=True)


@dataclass(frozen=True)
class Ctc(PerSample):
    """`tf.nn.ctc_loss`: a value for each sample, of logits whose samples lie behind those of time, or before them."""

    inputs: int = 4

    def __call__(self, bound: Bound) -> Arg:
        logits = whole(bound.data(1))
        cut = sharded(logits.placement)
        if cut is not None:
            plain(logits.placement)
            if cut.axis != (1 if bound.constant("logits_time_major", default=True) else 0):
                raise NeedsWhole("its samples are cut along another axis", ALL_GATHER)
            bound.values["logits"] = replace(logits, placement=replace(cut, axis=0))
        return replace(super().__call__(bound), rank=1)


@dataclass(frozen=True)
class LastAxes:
    """Works on the last axes of its operands, all others are batch axes: `cores` of each in, `out` out."""

    cores: tuple[int, ...] = (2,)
    out: tuple[int, ...] = (2,)
    linear: bool = False

    def __call__(self, bound: Bound) -> Arg:
        pairs = [(bound.get(n), core) for n, core in zip(bound.parameters, self.cores)]
        values = [(whole(arg), core) for arg, core in pairs if arg is not None]
        cuts = [sharded(value.placement) for value, _ in values]

        def place(*ranks: int) -> Arg:
            batch = [rank - core for rank, (_, core) in zip(ranks, values)]
            if min(batch) < 0:
                raise ImpossibleRank
            most = max(batch)
            layouts = []
            for cut, lead in zip(cuts, batch):
                if cut and cut.axis >= lead:
                    raise NeedsWhole("it works along the rows of the batch", ALL_GATHER)
                if cut:
                    layouts.append(replace(cut, axis=cut.axis + most - lead))
            terms = [term(value.placement) for value, _ in values]
            if self.linear and len(values) == 1:
                base, power = terms[0]
            else:
                base, power = plain(one_layout(layouts)) if layouts else REPLICATED, 0
                for value, _ in values:
                    plain(value.placement)
            found = placed(one_layout(layouts) if layouts else base, power)
            results = tuple(Arg(found, rank=most + out) for out in self.out)
            return results[0] if len(results) == 1 else Arg(found)

        result = over_ranks([value for value, _ in values], place)
        if len(self.out) == 1:
            return result
        return Arg(items=(replace(result, rank=None),) * len(self.out))


@dataclass(frozen=True)
class LossFunction:
    """`loss(y_true, y_pred)`: a value for each sample; values without an axis of features are reduced over the batch.

    `single`: what that reduction is a part of: "mean", "sum", or None.
    """

    single: str | None = "mean"
    sparse: bool = False

    def __call__(self, bound: Bound) -> Arg:
        return self.values(whole(bound.data(0)), whole(bound.data(1)), bound.constant("axis", default=-1))

    def values(self, true: Arg, predicted: Arg, axis: Any = -1, fits: bool = False) -> Arg:
        """One value a sample. `fits`: one Keras takes a last axis of one away, another adds it, where ranks differ."""
        cuts = [sharded(arg.placement) for arg in (true, predicted)]
        if not any(cuts):
            for arg in (true, predicted):
                plain(arg.placement)
            return Arg(REPLICATED)
        if None in cuts:
            raise NeedsWhole("it compares rows of the batch with a whole value", ALL_GATHER)
        if predicted.masked:
            raise NeedsWhole("it is a mean over the values that a mask of Keras keeps")
        for arg in (true, predicted):
            plain(arg.placement)
        layout = one_layout([cut for cut in cuts if cut])

        def value(rank: int) -> Arg:
            return reduced(Arg(layout, rank=rank), Reduces(self.single), axis, keepdims=False)

        def place(rank: int, true_rank: int) -> Arg:
            if self.sparse and (rank == 1 or true_rank not in (rank - 1, rank)):
                raise ImpossibleRank
            if self.sparse or rank == true_rank:
                return value(rank)
            if fits and abs(rank - true_rank) == 1:
                return over_ranks([Arg(layout)], lambda r: value(r) if r in (rank, true_rank) else _impossible())
            raise NeedsWhole("labels and predictions have different shapes", ALL_GATHER)

        return over_ranks([predicted, true], place)


def _impossible() -> Arg:
    raise ImpossibleRank


SUMS = {"sum", "weighted_sum"}
MEANS = {"sum_over_batch_size", "auto", "mean", "weighted_sum_over_batch_size"}
WEIGHTED = {"mean_with_sample_weight", "weighted_sum_by_nonzero_weights", "weighted_mean"}
SPELLED = {"sum_by_nonzero_weights": "weighted_sum_by_nonzero_weights", "sum_over_nonzero_weights": "weighted_mean"}


def reduction_of(arg: Arg | None, default: str) -> str:
    """A reduction by its string or the path of its constant; raises NeedsWhole for what is not seen."""
    if arg is None:
        return default
    if arg.constant is None:
        return "none"
    if not isinstance(arg.constant, str):
        raise NeedsWhole("its reduction is not seen")
    path, _, name = arg.constant.lower().rpartition(".")
    return SPELLED.get(name, f"weighted_{name}" if "v1" in path and name in ("sum", "mean") else name)


@dataclass(frozen=True)
class LossObject:
    """An object of a loss class, by the `reduction` that it was made with; a call weighs samples."""

    function: LossFunction = LossFunction()

    def __call__(self, bound: Bound) -> Arg:
        if "ignore_class" in bound.made and bound.made["ignore_class"].constant is not None:
            raise NeedsWhole("it is made with ignore_class, by which samples are left out of the mean", ALL_GATHER)
        if "*" in bound.made:
            raise NeedsWhole("it is made with more arguments than its row knows")
        how = reduction_of(bound.made.get("reduction"), "sum_over_batch_size")
        weights, axis = bound.get("sample_weight"), bound.made_with("axis", -1)
        values = self.function.values(whole(bound.data(0)), whole(bound.data(1)), axis, fits=True)
        return by_option(values, lambda each: weighed(each, weights, how))


def weighed(values: Arg, weights: Arg | None, how: str) -> Arg:
    """Values of samples, weighed and reduced."""
    weighted = weights is not None and weights.constant is not None
    place = values.placement
    if weights is not None and weighted:
        plain(weights.placement)
        if sharded(place) and sharded(weights.placement) not in (None, sharded(place)):
            raise NeedsWhole("weights and values are cut in different ways", ALL_GATHER)
        if sharded(weights.placement) and not sharded(place):
            raise NeedsWhole("it weighs a whole value by the rows of the batch", ALL_GATHER)
        if sharded(place) and weights.placement == REPLICATED and known_rank(weights) != 0 and weights.rows != 1:
            raise NeedsWhole("it weighs the rows of the batch by whole values", ALL_GATHER)
    if how == "none" or place == REPLICATED:
        return values
    if how not in SUMS | MEANS | WEIGHTED:
        raise NeedsWhole(f"its reduction {how} is not known")
    scalar = weights is None or not weighted or known_rank(weights) == 0
    if how in WEIGHTED and not scalar:
        raise NeedsWhole("it divides by the weights of all samples", ALL_GATHER)
    reduction = "sum" if how in SUMS else "mean"
    if isinstance(place, Partial):
        if place.reduction != reduction:
            raise NeedsWhole("it reduces one number of all samples", ALL_GATHER)
        return Arg(place, rank=0)
    return reduced(replace(values, rank=values.rank), Reduces(reduction, linear=True), None, keepdims=False)


@dataclass(frozen=True)
class LossV1:
    """tf.compat.v1.losses: (labels, predictions, weights), a mean unless `reduction` says otherwise."""

    function: LossFunction = LossFunction()

    def __call__(self, bound: Bound) -> Arg:
        how = reduction_of(bound.get("reduction"), "weighted_sum_by_nonzero_weights")
        bound.get("scope"), bound.get("loss_collection")
        a, b = whole(bound.data(0)), whole(bound.data(1))
        if not sharded(a.placement) and not sharded(b.placement):
            plain(a.placement), plain(b.placement)
            return Arg(REPLICATED)
        if a.rank is not None and b.rank is not None and a.rank != b.rank and not self.function.sparse:
            raise NeedsWhole("labels and predictions have different shapes", ALL_GATHER)
        weights = bound.get("weights")
        if not self.function.sparse and self.function.single:
            return weighed(_each(a, b), weights, how)
        return by_option(self.function.values(a, b), lambda each: weighed(each, weights, how))


def _each(a: Arg, b: Arg) -> Arg:
    cuts = [sharded(a.placement), sharded(b.placement)]
    if None in cuts:
        raise NeedsWhole("it compares rows of the batch with a whole value", ALL_GATHER)
    plain(a.placement), plain(b.placement)
    return Arg(one_layout([cut for cut in cuts if cut]), rank=a.rank if a.rank is not None else b.rank)


@dataclass(frozen=True)
class AverageLoss:
    """tf.nn.compute_average_loss: over the worker's own rows a mean; over a number that is given a sum."""

    def __call__(self, bound: Bound) -> Arg:
        value, given = whole(bound.data()), bound.get("global_batch_size")
        weights = bound.get("sample_weight")
        how = "mean" if given is None or given.constant is None else "sum"
        result = weighed(value, weights, how)
        if given is None or how == "mean":
            return result
        base, power = term(result.placement)
        top, rows = term(given.placement)
        if top != REPLICATED:
            raise NeedsWhole("it divides by a value that is not reduced yet", "all_reduce")
        return Arg(placed(base, power - rows), rank=0)
