"""Two runs side by side, step by step: how far they are apart, and what rounding explains of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from migrator.verify.printed import Apart, Expected, compare_printed
from migrator.verify.record import BEFORE, ENDED, GRADIENTS, SLOTS, STATISTICS, WEIGHTS, Numbers, Record, Step
from migrator.verify.rows import RowsApart, rows_apart, rows_counted_once

SAMPLES, STEPS, START, LOSS, RATE = "samples", "steps", "first weights", "loss", "learning rate"
EPOCHS, FILES, SHUFFLES, FAILURE, PRINTED = "epochs", "files", "shuffles", "failure", "printed"
# In the order in which a step makes them: of what is compared, the first that differs is named.
ORDER = (SHUFFLES, SAMPLES, STEPS, START, LOSS, GRADIENTS, WEIGHTS, SLOTS, STATISTICS, RATE, EPOCHS, FILES, PRINTED)
KINDS = {BEFORE: START, GRADIENTS: GRADIENTS, WEIGHTS: WEIGHTS, SLOTS: SLOTS, STATISTICS: STATISTICS}

# What the perturbed run shows is one way of rounding of many.
_MOST_NOISE = 50.0
# Units in the last place that a sum in another order may be off by at once.
_MOST_ULPS = 100.0
# Of the steps of an epoch.
_MOST_LEFT_OUT = 0.25
# Where rounding alone explains more than this, it could hide what is wrong.
_MOST_ALLOWED = 1e-3
# A tensor that is so much smaller than the largest of its kind is what was left when others cancelled out.
_SMALLEST = {SLOTS: 1e-9}
_SMALLEST_OTHER = 1e-3


@dataclass(frozen=True)
class Difference:
    """One place where two runs part. size and allowed are relative to the largest value of the tensor."""

    what: str
    step: int  # from 1, over all optimizers
    size: float
    allowed: float
    line: str = ""
    tensor: str = ""
    optimizer: str = ""
    number: int = 0  # of the step among those of its optimizer
    rank: int = 0
    detail: str = ""


@dataclass
class Comparison:
    """differences: in the order in which the runs make them. figures: for each kind, the largest difference of each
    step, and what was allowed there: (step, difference, allowed). remarks: numbers that are
    printed otherwise for a known reason that is none in what is trained, the first of each line."""

    differences: list[Difference] = field(default_factory=list)
    remarks: list[Difference] = field(default_factory=list)
    figures: dict[str, list[tuple[int, float, float]]] = field(default_factory=dict)

    @property
    def first(self) -> Difference | None:
        return self.differences[0] if self.differences else None

    def largest(self, what: str) -> tuple[int, float, float] | None:
        """The step at which most is used up of what is allowed."""
        return max(self.figures.get(what, ()), key=lambda f: f[1] / max(f[2], 1e-300), default=None)


class Rounding:
    """What rounding explains: measured on repetitions of the original, one of which had its gradients moved by one unit
    in the last place. epsilon: the unit of the numbers that are computed with. narrow: what was measured in float32, of
    runs in float64, of which none is a mere repetition."""

    def __init__(
        self, original: Record, again: Record, moved: Record, epsilon: float, narrow: Rounding | None = None
    ) -> None:
        self.epsilon = epsilon
        self.printed: Expected = Expected(original, again, moved, narrow.printed if narrow else None)
        # How far two runs of the original are apart: 0 for a deterministic script.
        self.spread = 0.0
        for one, other in zip(original.steps, again.steps):
            self.spread = max(self.spread, _apart(WEIGHTS, one, other))
        self._noise: dict[str, list[float]] = {}
        for kind in (LOSS, *KINDS):
            worst, found = 0.0, []
            for index, step in enumerate(original.steps):
                for repetition in (again, moved):
                    if index < len(repetition.steps):
                        worst = max(worst, _apart(kind, step, repetition.steps[index]))
                found.append(worst)
            self._noise[kind] = found

    def noise(self, kind: str, index: int) -> float:
        """How far repetitions of the original were apart up to this step."""
        found = self._noise[kind]
        return found[min(index, len(found) - 1)] if found else 0.0

    def allowed(self, kind: str, index: int) -> float:
        explained = max(_MOST_NOISE * self.noise(kind, index), _MOST_ULPS * self.epsilon)
        return min(explained, _MOST_ALLOWED)


def compare(original: Record, ranks: Sequence[Record], rounding: Rounding, trains_whole: bool = False) -> Comparison:
    """The ranks of a job, or one process alone, against the original. `trains_whole`: each has all samples."""
    result = Comparison(list(_of_shuffles(ranks)))
    for index, step in enumerate(original.steps):
        found = [rank.steps[index] for rank in ranks if index < len(rank.steps)]
        if len(found) < len(ranks):
            break
        if any((other.optimizer, other.number) != (step.optimizer, step.number) for other in found):
            break
        result.differences += _of_step(result, original, index, found, rounding, trains_whole)
    if not trains_whole:
        result.differences += _of_whole_shuffles(original, ranks)
    result.differences += _of_counts(original, ranks)
    result.differences += _of_epochs(original, ranks)
    result.differences += _of_files(original, ranks)
    _add_printed(result, ranks, rounding)
    return result


def _add_printed(result: Comparison, ranks: Sequence[Record], rounding: Rounding) -> None:
    drifts = [(step, size) for kind in (LOSS, WEIGHTS) for step, size, _ in result.figures.get(kind, ())]
    found = compare_printed(rounding.printed, ranks, drifts)
    if found.figures:
        result.figures[PRINTED] = found.figures
    for apart in found.differences:
        one = _of_line(apart)
        if not apart.because:
            result.differences.append(one)
        elif one.line not in (other.line for other in result.remarks):
            result.remarks.append(one)


def _of_line(apart: Apart) -> Difference:
    line = apart.line or apart.expected
    assert line is not None
    detail = f"{apart.told}: {apart.because}" if apart.because else apart.told
    return Difference(PRINTED, max(line.step, 1), apart.size, apart.allowed, line.place, detail=detail)


def _of_shuffles(ranks: Sequence[Record]) -> Iterator[Difference]:
    """Where the ranks shuffle in orders of their own before each takes its share."""
    for rank, record in enumerate(ranks[1:], 1):
        for (seed, _), (other, line) in zip(ranks[0].orders, record.orders):
            if seed != other:
                detail = f"rank 0 shuffles with {seed}, rank {rank} with {other}, before each takes its share"
                yield Difference(SHUFFLES, 1, 1.0, 0.0, line, rank=rank, detail=detail)
                return


def _of_whole_shuffles(original: Record, ranks: Sequence[Record]) -> Iterator[Difference]:
    """Where each rank shuffles all data in an order of its own, whoever cuts them after that, and however: the ranks
    have as many elements to shuffle as the original has. Its largest shuffle is the one of what it trains on."""
    largest = max((size for _, _, size in original.shuffles), default=0)
    for rank, record in enumerate(ranks[1:], 1):
        for (seed, _, size), (other, line, of_other) in zip(ranks[0].shuffles, record.shuffles):
            if seed != other and size == of_other == largest > 1:
                detail = f"rank 0 shuffles with {seed}, rank {rank} with {other}, and each has all data"
                yield Difference(SHUFFLES, 1, 1.0, 0.0, line, rank=rank, detail=detail)
                return


def _of_step(
    result: Comparison, original: Record, index: int, found: Sequence[Step], rounding: Rounding, trains_whole: bool
) -> Iterator[Difference]:
    step = original.steps[index]
    optimizer = original.optimizers[step.optimizer]

    def note(what: str, size: float, allowed: float) -> None:
        result.figures.setdefault(what, []).append((index + 1, size, allowed))

    def difference(what: str, size: float, allowed: float, rank: int, tensor: str = "", detail: str = "") -> Difference:
        line = found[rank].line
        place = (line, tensor, optimizer.name, step.number, rank, detail)
        return Difference(what, index + 1, size, allowed, *place)

    allowed_of_rows = max(rounding.allowed(WEIGHTS, index), 1e-6)
    shares = [[other.rows] for other in found] if trains_whole else [[other.rows for other in found]]
    batch = max(len(other.rows) for other in original.steps)
    each = [rows_apart(step.rows, parts, allowed_of_rows, batch) for parts in shares]
    apart = next((one for one in each if not one.is_same), max(each, key=lambda one: one.size))
    note(SAMPLES, apart.size, allowed_of_rows)
    # What has drifted away after many steps are samples that were computed by what is trained.
    has_drifted = not step.arrays and apart.strange > 0 and apart.found == apart.expected
    if not apart.is_same and not has_drifted:
        yield difference(SAMPLES, apart.size, allowed_of_rows, 0, detail=_told(apart))
    for kind in (BEFORE, LOSS, GRADIENTS, WEIGHTS, SLOTS, STATISTICS):
        if kind == LOSS:
            allowed = rounding.allowed(LOSS, index)
            off = loss_apart(step, found)
            if off is not None:
                note(LOSS, off, allowed)
                if not off <= allowed:
                    yield difference(LOSS, off, allowed, 0)
            continue
        if kind not in step.arrays:
            continue
        allowed = rounding.allowed(kind, index)
        names = _names(original, step, kind)
        worst: tuple[float, int, int] = (-1.0, 0, 0)
        for rank, other in enumerate(found):
            for number, off in enumerate(each_apart(kind, step.arrays[kind], other.arrays.get(kind, []))):
                if off > worst[0] and not worst[0] > allowed:
                    worst = (off, rank, number)
        if worst[0] >= 0:
            what = KINDS[kind]
            note(what, worst[0], allowed)
            if not worst[0] <= allowed:
                tensor = names[worst[2]] if worst[2] < len(names) else ""
                yield difference(what, worst[0], allowed, worst[1], tensor)
    for rank, other in enumerate(found):
        if step.learning_rate is not None and other.learning_rate is not None:
            off = abs(other.learning_rate - step.learning_rate) / max(abs(step.learning_rate), 1e-300)
            note(RATE, off, 1e-5)
            if off > 1e-5:
                detail = f"{other.learning_rate:.6g} instead of {step.learning_rate:.6g}"
                yield difference(RATE, off, 1e-5, rank, detail=detail)
                break


def _of_counts(original: Record, ranks: Sequence[Record]) -> Iterator[Difference]:
    """Where the numbers or the order of the steps differ."""
    order = [(step.optimizer, step.number) for step in original.steps]
    for rank, record in enumerate(ranks):
        other = [(step.optimizer, step.number) for step in record.steps]
        if other != order:
            same = next((i for i, (a, b) in enumerate(zip(order, other)) if a != b), min(len(order), len(other)))
            more = "or more" if original.end != "ended" and len(other) > len(order) else ""
            detail = f"{len(other)} optimizer steps{' ' * bool(more)}{more} instead of {len(order)}"
            at = next((r.steps[same].line for r in (record, original) if same < len(r.steps)), "")
            yield Difference(STEPS, same + 1, float(abs(len(other) - len(order))), 0.0, at, rank=rank, detail=detail)
            return


def _of_epochs(original: Record, ranks: Sequence[Record]) -> Iterator[Difference]:
    """Where `fit` ended its epochs after other numbers of steps, or made another number of epochs."""
    for rank, record in enumerate(ranks):
        # A run that was stopped has not come to all of its epochs' ends.
        several = zip(original.epochs, record.epochs)
        same = next((i for i, (one, other) in enumerate(several) if one != other), None)
        are_whole = original.end == record.end == ENDED
        if same is None and are_whole and len(record.epochs) != len(original.epochs):
            same = min(len(original.epochs), len(record.epochs))
        if same is not None:
            detail = f"{len(record.epochs)} epochs of fit, after {record.epochs[same : same + 1] or 'no more'} steps, "
            detail += f"instead of {len(original.epochs)}, after {original.epochs[same : same + 1] or 'no more'}"
            at = original.epochs[same] if same < len(original.epochs) else len(original.steps)
            yield Difference(EPOCHS, at, 1.0, 0.0, rank=rank, detail=detail)
            return


def epochs_have_other_lengths(original: Record, ranks: Sequence[Record]) -> bool:
    """Whether the epochs of `fit` end after quite other numbers of steps, however many epochs there are. A few are what
    a scaled loss leaves out where it overflows."""
    several = ((one, other) for record in ranks for one, other in zip(original.epochs, record.epochs))
    return any(abs(one - other) > _MOST_LEFT_OUT * max(one, other) for one, other in several)


def _of_files(original: Record, ranks: Sequence[Record]) -> Iterator[Difference]:
    """Files that several ranks write, and files of the original's that nobody writes."""
    last = max(len(original.steps), 1)
    chiefs = {path for path, _ in ranks[0].files}
    for rank, record in enumerate(ranks[1:], 1):
        for path, line in record.files:
            if path in chiefs:
                detail = f"{path} is written by rank 0 and rank {rank}"
                yield Difference(FILES, last, 1.0, 0.0, line, rank=rank, detail=detail)
                return
    if original.end == ENDED and all(record.end == ENDED for record in ranks):
        missing = {_nameless(path): (path, line) for path, line in original.files if path in original.lasting}
        written = {_nameless(path) for record in ranks for path, _ in record.files}
        missing = {name: one for name, one in missing.items() if name not in written}
        for path, line in missing.values():
            yield Difference(FILES, last, 1.0, 0.0, line, detail=f"{path} is not written")
            return


def _nameless(path: str) -> str:
    """The path without numbers and what else is a name of the day, the process or a temporary file."""
    return re.sub(r"[0-9]+|(?<=tmp)[a-z_]+", "#", path)


def _told(apart: RowsApart) -> str:
    parts = []
    if apart.lost:
        parts.append(f"{apart.lost} of {apart.expected} samples are on no worker")
    if apart.repeated:
        parts.append(f"{apart.repeated} of {apart.found} are on several workers")
    if apart.strange:
        parts.append(f"{apart.strange} are not the original's")
    return ", ".join(parts)


def loss_apart(step: Step, found: Sequence[Step]) -> float | None:
    """How far the workers' losses, put together in any of the ways in which parts of a batch add up to the whole, are
    from the original's. None where none was seen."""
    if not step.losses or any(len(other.losses) != len(step.losses) for other in found):
        return None
    expected = np.array(step.losses)
    several = np.array([other.losses for other in found])
    rows = rows_counted_once([other.rows for other in found], 1e-6)
    by_rows = (rows / rows.sum()) @ several if rows.any() else several[0]
    ways = (several.mean(0), by_rows, several.sum(0), several[0])
    scale = max(float(np.abs(expected).max()), 1e-12)
    return min(_largest(way - expected) for way in ways) / scale


def _apart(kind: str, step: Step, other: Step) -> float:
    if kind == LOSS:
        return loss_apart(step, [other]) or 0.0
    return max(each_apart(kind, step.arrays.get(kind, []), other.arrays.get(kind, [])), default=0.0)


def each_apart(kind: str, expected: Sequence[Numbers | None], found: Sequence[Numbers | None]) -> Iterator[float]:
    """For each tensor the largest difference of a value, relative to the tensor's largest; infinite where one of the
    two has none, or where one is a number and the other is not."""
    if len(expected) != len(found):
        yield float("inf")
        return
    largest = max((_largest(tensor) for tensor in expected if tensor is not None), default=0.0)
    for one, other in zip(expected, found):
        if one is None or other is None or one.shape != other.shape:
            yield 0.0 if one is None and other is None else float("inf")
            continue
        if np.array_equal(one, other, equal_nan=True):
            yield 0.0
            continue
        scale = max(_largest(one), _SMALLEST.get(kind, _SMALLEST_OTHER) * largest, 1e-30)
        off = _largest(other - one) / scale
        yield off if np.isfinite(off) else float("inf")


def _largest(values: Numbers) -> float:
    return float(np.abs(values).max()) if values.size else 0.0


def _names(record: Record, step: Step, kind: str) -> Sequence[str]:
    if kind == STATISTICS:
        return record.statistics
    return record.optimizers[step.optimizer].variables if kind != SLOTS else []
