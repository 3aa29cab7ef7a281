"""The record of this process while it grows: what the hooks tell, put together step by step."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from glob import escape, glob
from typing import Any, Callable

import numpy as np

from migrator.verify.plan import Plan
from migrator.verify.record import (
    BEFORE,
    ENDED,
    FAILED,
    GRADIENTS,
    LOCAL,
    SLOTS,
    STATISTICS,
    WEIGHTS,
    Numbers,
    Optimizer,
    Record,
    Step,
    digest,
)
from migrator.verify.recorder import lines
from migrator.verify.recorder.values import as_array, name_of, plain_variable, shape_of


class Enough(BaseException):
    """The script has made the steps that are compared. No `except Exception` of its own holds this up."""


# So many batches are kept of which no gradients were asked yet.
_MOST_SEEN = 64
# So many lines that the script prints are kept, and so much of each.
_MOST_LINES, _LONGEST_LINE = 5000, 1000


@dataclass(frozen=True, eq=False)
class _Seen:
    """Samples that a model saw, from what kind of source, under which tapes."""

    rows: Numbers
    source: str
    tapes: tuple[Any, ...]


@dataclass
class _Differentiated:
    loss: float
    gradients: dict[int, Any]  # by the variable's identity
    variables: list[Any]
    is_loop: bool


@dataclass
class _ByHand:
    """An update that the script makes without an optimizer: `left` are those of the variables that it has not set."""

    used: list[_Differentiated]
    variables: list[Any]
    before: list[Numbers | None]
    left: set[int]
    line: str


class Journal:
    def __init__(self, plan: Plan, rank: int) -> None:
        self.plan = plan
        self.record = Record(rank)
        self.variables_in_making = 0
        self.creator_scope: Any = None
        self._start = time.monotonic()
        self._since_enough: float | None = None
        self._numbers: dict[int, int] = {}  # of the optimizers, by identity
        self._kept: list[Any] = []  # so that no identity is used twice
        self._counts: list[int] = []
        self._pending: list[_Differentiated] = []
        self._rows: list[Numbers] = []
        self._source = ""
        self._exchanging = 0.0
        # The tapes that record now, the innermost last, and what was read under tapes that gave no gradients yet.
        self.tapes: list[Any] = []
        self._seen: list[_Seen] = []
        self._trainable: list[Any] = []
        self._touched: set[int] = set()
        # Lines that make optimizers, by their identity.
        self._made_at: dict[int, str] = {}
        self._by_hand: _ByHand | None = None
        self._statistics: list[Any] = []
        self._written: set[str] = set()
        self._unfinished = ""  # a line that is being printed

    # -- what the hooks tell -----------------------------------------------------------------------------------------

    def made_equal(self, what: str) -> None:
        """Something of the script's that cannot be equal was made so; told once."""
        if what not in self.record.made_equal:
            self.record.made_equal.append(what)

    @contextmanager
    def making_variable(self) -> Iterator[None]:
        """Inside, a variable gets its first value."""
        self.variables_in_making += 1
        try:
            yield
        finally:
            self.variables_in_making -= 1

    def created(self, variable: Any) -> None:
        """A tf.Variable was made."""
        if not variable.dtype.is_floating:
            return
        if variable.trainable:
            self._trainable.append(variable)
        elif any(part in variable.name for part in ("moving_mean", "moving_variance")):
            self._statistics.append(variable)
            self.record.statistics.append(name_of(variable))

    def read(self, rows: Numbers, source: str) -> None:
        """A model saw these samples under a tape. They count once it gives gradients: some evaluate under tapes."""
        self._seen = [*self._seen[-_MOST_SEEN:], _Seen(rows, source, tuple(self.tapes))]

    def _trained_on(self, tape: Any) -> None:
        """What was seen under the tape is trained on; all that was seen, where a library wraps the tape in another."""
        mine = [one for one in self._seen if any(other is tape for other in one.tapes)]
        used = mine or [one for one in self._seen if one.tapes] or self._seen
        self._seen = [one for one in self._seen if one not in used]
        for one in used:
            self._rows.append(one.rows)
            self._source = self._source or one.source

    def differentiated(
        self, tape: Any, loss: Any, sources: Sequence[Any], gradients: Sequence[Any], is_loop: bool
    ) -> None:
        """A tape gave the gradients of the loss with regard to the sources, to a line of the script's or to Keras."""
        self._end_update_by_hand()
        self._trained_on(tape)
        found = {
            id(plain_variable(source)): gradient
            for source, gradient in zip(sources, gradients)
            if plain_variable(source) is not None
        }
        if found:
            variables = [source for source in sources if plain_variable(source) is not None]
            self._pending.append(_Differentiated(float(np.sum(as_array(loss))), found, variables, is_loop))

    def made(self, one: Any) -> None:
        """The script, or Keras for it, makes an optimizer or a schedule of learning rates."""
        self._kept.append(one)
        self._made_at.setdefault(id(one), lines.of_script(self.plan.root))

    def update(
        self,
        optimizer: Any,
        variables: Sequence[Any],
        gradients: Sequence[Any],
        slots: Callable[[], Sequence[Any]],
        apply: Callable[[], Any],
    ) -> Any:
        """An optimizer applies gradients to variables: record what it finds and what it leaves."""
        number = self._numbers.get(id(optimizer))
        is_first = number is None
        if number is None:
            number = self._numbers[id(optimizer)] = len(self._counts)
            self._kept.append(optimizer)
            self._counts.append(0)
            names, shapes = [name_of(v) for v in variables], [shape_of(v) for v in variables]
            schedule = self._made_at.get(id(getattr(optimizer, "_learning_rate", None)))
            line = schedule or self._made_at.get(id(optimizer), "")
            self.record.optimizers.append(Optimizer(_title(optimizer), names, shapes, line))
        is_recorded = self._counts[number] < self.plan.steps
        arrays: dict[str, list[Numbers | None]] = {}
        used = self._used_by(variables)
        if is_recorded:
            if is_first:
                arrays[BEFORE] = [_digest(v) for v in variables]
            if used:
                arrays[LOCAL] = [_sum(one.gradients.get(id(plain_variable(v))) for one in used) for v in variables]
            arrays[GRADIENTS] = [_digest(g) for g in gradients]
        if self._by_hand is not None and not self._by_hand.left.isdisjoint(id(plain_variable(v)) for v in variables):
            self._by_hand = None  # the optimizer makes the update; the script has only changed weights before
        line = lines.of_script(self.plan.root)
        result = apply()
        if is_recorded:
            arrays[WEIGHTS] = [_digest(v) for v in variables]
            arrays[SLOTS] = [_digest(v) for v in slots()]
            arrays[STATISTICS] = [_digest(v) for v in self._statistics]
        self._touched.update(id(plain_variable(v)) for v in variables)
        self._add_step(number, line, used, _learning_rate(optimizer), arrays)
        return result

    def _add_step(
        self,
        number: int,
        line: str,
        used: Sequence[_Differentiated],
        learning_rate: float | None,
        arrays: dict[str, list[Numbers | None]],
    ) -> None:
        self._counts[number] += 1
        self.record.steps.append(
            Step(
                optimizer=number,
                number=self._counts[number],
                line=line,
                losses=[one.loss for one in used],
                seconds=time.monotonic() - self._start,
                exchanging=self._exchanging,
                learning_rate=learning_rate,
                source=self._source,
                is_loop=any(one.is_loop for one in used),
                rows=np.concatenate(self._rows) if self._rows else np.zeros((0, 2)),
                arrays=arrays,
            )
        )
        self._rows, self._source, self._exchanging = [], "", 0.0
        self._end_if_enough()

    def exchanged(self, seconds: float) -> None:
        """A call that exchanges something with the other workers took so long."""
        self._exchanging += seconds

    def sets(self, variable: Any, assign: Callable[[], Any]) -> Any:
        """A line of the script's sets a variable: an update by hand, where a tape gave gradients for it."""
        plain = id(plain_variable(variable))
        self._touched.add(plain)
        if self._by_hand is None or plain not in self._by_hand.left:
            begun = self._by_hand.used if self._by_hand is not None else []
            used = [one for one in self._pending if one.gradients.get(plain) is not None and one not in begun]
            if not used:
                return assign()
            self._end_update_by_hand()
            trained = {id(plain_variable(v)): v for one in used for v in one.variables}
            variables = [v for key, v in trained.items() if any(one.gradients.get(key) is not None for one in used)]
            left = {id(plain_variable(v)) for v in variables}
            before = [_digest(v) for v in variables]
            self._by_hand = _ByHand(used, variables, before, left, lines.of_script(self.plan.root))
        update = self._by_hand
        result = assign()
        update.left.discard(plain)
        if not update.left:
            self._end_update_by_hand()
        return result

    def _end_update_by_hand(self) -> None:
        """Record the update that the script has made; what it has taken off the weights stands for the gradients."""
        update, self._by_hand = self._by_hand, None
        if update is None:
            return
        self._pending = [one for one in self._pending if one not in update.used]
        identity = hash(tuple(id(plain_variable(v)) for v in update.variables))
        number = self._numbers.get(identity)
        arrays: dict[str, list[Numbers | None]] = {}
        if number is None:
            number = self._numbers[identity] = len(self._counts)
            self._kept += update.variables
            self._counts.append(0)
            names, shapes = [name_of(v) for v in update.variables], [shape_of(v) for v in update.variables]
            self.record.optimizers.append(Optimizer("updates by hand", names, shapes, update.line))
            arrays[BEFORE] = update.before
        if self._counts[number] < self.plan.steps:
            after = [_digest(v) for v in update.variables]
            arrays[GRADIENTS] = [
                b - a if a is not None and b is not None else None for b, a in zip(update.before, after)
            ]
            arrays[WEIGHTS], arrays[SLOTS] = after, []
            arrays[STATISTICS] = [_digest(v) for v in self._statistics]
        else:
            arrays = {}
        self._add_step(number, update.line, update.used, None, arrays)

    def wrote(self, path: str) -> None:
        """The script opened a file of its folder for writing."""
        if path not in self._written:
            self._written.add(path)
            self.record.files.append([path, lines.of_script(self.plan.root)])

    def printed(self, text: str, line: str) -> None:
        """The script, or a library for it, printed a text: any part of a line, or several lines."""
        *whole, self._unfinished = (self._unfinished + text).split("\n")
        for one in whole:
            self._add_line(one, line)

    def _add_line(self, text: str, line: str) -> None:
        root, printed = self.plan.root, self.record.printed
        last = text.rstrip("\r").rpartition("\r")[2].strip()
        if last and len(printed) < _MOST_LINES:
            shown = last.replace(root + os.sep, "").replace(root, ".")
            printed.append([len(self.record.steps), line, shown[:_LONGEST_LINE]])

    def cut_behind(self, shuffles: Sequence[tuple[str, str]]) -> None:
        """A worker takes its share of a dataset behind these shuffles: their seeds and lines."""
        self.record.orders += [list(shuffle) for shuffle in shuffles]

    def shuffles(self, seed: str, line: str, size: int) -> None:
        """A dataset or Sequence of so many elements, negative where that is not known, would be shuffled by a seed."""
        self.record.shuffles.append([seed, line, size])

    def finished_epoch(self) -> None:
        """`fit` has ended an epoch, after as many updates as are recorded."""
        self.record.epochs.append(len(self.record.steps))

    # -- the end -----------------------------------------------------------------------------------------------------

    def failed(self, error: str, traceback: str, line: str = "") -> None:
        self.record.end, self.record.error = FAILED, error
        self.record.traceback, self.record.failed_at = traceback, line

    def close(self) -> None:
        """Note what was never touched, and which files are left; call once, when the script has ended."""
        with suppress(Enough):
            self._end_update_by_hand()
        if self.record.end == ENDED:
            self._add_line(self._unfinished, "")
        written = [path for path, _ in self.record.files]
        self.record.lasting = [path for path in written if glob(os.path.join(self.plan.root, escape(path)) + "*")]
        self.record.untouched = [name_of(v) for v in self._trainable if id(v) not in self._touched and v.shape.rank]

    def _used_by(self, variables: Sequence[Any]) -> list[_Differentiated]:
        """What was differentiated for these variables since their last update; it is not given twice."""
        wanted = {id(plain_variable(v)) for v in variables}
        used = [one for one in self._pending if wanted & one.gradients.keys()]
        self._pending = [one for one in self._pending if one not in used]
        return used

    def _end_if_enough(self) -> None:
        updates = len(self.record.steps)
        if self.plan.most_updates is not None:
            if updates >= self.plan.most_updates + self.plan.has_to_end:
                raise Enough
            return
        if min(self._counts) < self.plan.steps:
            return
        if self._since_enough is None:
            self._since_enough = time.monotonic()
        if time.monotonic() - self._since_enough >= self.plan.patience_seconds:
            raise Enough


def _digest(value: Any) -> Numbers | None:
    return None if value is None else digest(as_array(value))


def _sum(values: Iterable[Any]) -> Numbers | None:
    """The digest of a sum, of gradients that are accumulated; what is left out of a large tensor is of each alike."""
    digests = [digest(as_array(value)) for value in values if value is not None]
    return np.asarray(sum(digests)) if digests else None


def _title(optimizer: Any) -> str:
    return str(getattr(optimizer, "name", "") or type(optimizer).__name__)


def _learning_rate(optimizer: Any) -> float | None:
    for name in ("learning_rate", "_learning_rate", "_lr"):
        try:
            rate = getattr(optimizer, name)
            return float(np.asarray(as_array(rate() if callable(rate) else rate)))
        except Exception:  # another class's idea of that name
            continue
    return None
