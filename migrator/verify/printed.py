"""What two runs print, line by line: text that is equal, numbers that are as near as rounding leaves them.

Left out is what no two runs have in common: times and speeds, dates, absolute paths, addresses, progress bars that are
not full yet, and what differs between two runs of the original.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from migrator.verify.record import ENDED, Record

# So much of a number means nothing, beside one unit of the last digit that is printed.
_SHARE = 1e-4
# A last digit that counts more than this may be all that differs: 0.001 and 0.002.
_SMALL_DIGIT = 5e-3
# What has drifted apart by rounding may be printed as something that shows more of it, such as a difference.
_MOST_NOISE, _MOST_ALLOWED = 50.0, 1e-2
# What one sample makes of a mean, in means.
_MOST_OF_REPEATED = 3.0
# Of a line that is told.
_LONGEST = 60
# A line that does not come is looked for so far ahead.
_AHEAD = 50

_ANY = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
_NUMBER = re.compile(rf"(?<![\w.]){_ANY}|(?<![\w.])[-+]?(?:nan|inf)\b", re.I)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x08|\x07")
_BARS = re.compile(r"\[[=>.]+\]|[\u2500-\u259f]+")
_BAR = re.compile(r"^\s*(\d+)/(\d+|Unknown)\b.*(?:/step|/epoch|/sample|ETA)")
_TQDM = re.compile(r"\d+%\|.*\||\d+it \[|\bit/s\b")
_SECOND = r"(?:s|sec|secs|second|seconds)"
_TIME = rf"(?:ns|us|\u00b5s|ms|{_SECOND}|mins|minutes?|hours?)"
_LEFT_OUT = [
    re.compile(pattern, re.I)
    for pattern in (
        r"(?<![\w.])(?:[a-z]:)?(?:[/\\][\w.@+~-]+)+[/\\]?",  # absolute paths
        r"\b0x[0-9a-f]+\b",
        r"(?<![\w.])(?:9[34]\d{12}|1(?:3[89]|40)\d{12}|281\d{12})(?![\w.])",  # the same of an `id`, in decimal
        r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|(?<![\w.])(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{12,}\b",
        r"\b(?:mon|tue|wed|thu|fri|sat|sun)\w*,? (?:\w{3} +\d+|\d+ \w{3})(?:,? \d{4})?\b",
        r"(?<![\w.])(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|(?:19|20)\d{6}[-_T]?\d{4,6})\b",
        r"(?<![\w.])\d+:\d{2}(?::\d{2})?(?:[.,]\d+)?\b",
        r"(?<![\w.])1[5-9]\d{8}(?:\.\d+)?\b",  # seconds since 1970
        rf"{_ANY} ?(?:[a-z]+ ?)?(?:/|per ) ?{_SECOND}\b",
        rf"{_ANY} ?{_TIME}\b(?:/\w+| per \w+)?|\b\d+(?:min|h)\b",
        rf"{_ANY} ?(?:[kmgt]i?b|bytes)\b",
        r"(?<![a-z])(?:time|took|taken|elapsed|duration|eta|speed|throughput|fps|latency|seconds|secs|pid|port)"
        rf"(?![a-z])(?: ?\(\w+\))? ?[:=]? ?{_ANY}",
    )
]


@dataclass(frozen=True)
class Line:
    """step: updates made before it. text: as it was printed. words: without its numbers, and what is left out."""

    step: int
    place: str
    text: str
    words: str
    numbers: tuple[str, ...]


@dataclass(frozen=True)
class Apart:
    """Where a run prints something else than the original: None for a line that one of them does not print. size and
    allowed are relative to the number that is printed, size is infinite for a text.

    because: of a number that is another one though the training is the same, why; else "".
    """

    expected: Line | None
    line: Line | None
    size: float
    allowed: float
    because: str = ""

    @property
    def told(self) -> str:
        if self.line is None:
            assert self.expected is not None
            return f"{_short(self.expected.text)} is not printed"
        if self.expected is None:
            return f"{_short(self.line.text)} is printed, which the original does not print there"
        found, expected = _where_they_part(self.line.text, self.expected.text)
        return f"{found!r} instead of {expected!r}"


@dataclass
class Printed:
    """differences: in the order of the original's lines. figures: (step, size, allowed) of each line with numbers, but
    of those that are explained."""

    differences: list[Apart] = field(default_factory=list)
    figures: list[tuple[int, float, float]] = field(default_factory=list)


def lines_of(record: Record) -> list[Line]:
    """What of it can be compared."""
    found = []
    for step, place, text in record.printed:
        shown = _BARS.sub("", _ESCAPES.sub("", text)).strip()
        bar = _BAR.match(shown)
        if _TQDM.search(text) or (bar and bar[1] != bar[2]):
            continue
        for pattern in _LEFT_OUT:
            shown = pattern.sub("<>", shown)
        numbers = tuple(match[0] for match in _NUMBER.finditer(shown))
        words = re.sub(r"(?<=[\[(]) | (?=[\])])", "", re.sub(r"\s+", " ", _NUMBER.sub("#", shown)))
        if words:
            found.append(Line(step, place, _ESCAPES.sub("", text).strip(), words, numbers))
    return found


class Expected:
    """What the original prints, and how much of it is the same whenever it runs.

    again, moved: repetitions of it; the gradients of the second are moved by one unit in the last place. known: what
    was found of other runs of it.
    """

    def __init__(self, original: Record, again: Record, moved: Record, known: Expected | None = None) -> None:
        self.record = original
        every, repeated = lines_of(original), lines_of(again)
        # Words of lines that do not come in two runs alike, and the numbers that are not the same.
        self._unsteady: set[str] = set(known._unsteady) if known else set()
        self._chance: set[tuple[str, int]] = set(known._chance) if known else set()
        is_whole = original.end == again.end == ENDED
        for one, other in paired(every, repeated, is_whole):
            if one is None or other is None:
                self._unsteady.update(line.words for line in (one, other) if line is not None)
                continue
            different = (k for k, (a, b) in enumerate(zip(one.numbers, other.numbers)) if not _is_same(a, b))
            self._chance |= {(one.words, k) for k in different}
        self.lines = self.steady(every)
        self._noise: dict[tuple[int, int], float] = {}
        places = {id(line): index for index, line in enumerate(self.lines)}
        for one, other in paired(self.lines, self.steady(lines_of(moved)), is_whole=False):
            if one is not None and other is not None:
                for k, (a, b) in enumerate(zip(one.numbers, other.numbers)):
                    self._noise[places[id(one)], k] = abs(_value(a) - _value(b))

    def steady(self, lines: Sequence[Line]) -> list[Line]:
        """Those of the lines that come whenever the original runs."""
        return [line for line in lines if line.words not in self._unsteady]

    def is_chance(self, line: Line, number: int) -> bool:
        """Whether this number of the line differs from run to run."""
        return (line.words, number) in self._chance

    def noise(self, index: int, number: int) -> float:
        """How far moved gradients bring this number of this line."""
        found = self._noise.get((index, number), 0.0)
        return found if math.isfinite(found) else 0.0


def compare_printed(expected: Expected, ranks: Sequence[Record], drifts: Sequence[tuple[int, float]]) -> Printed:
    """The chief's lines against the original's. drifts: (step, how far the runs are apart by then in their losses and
    weights), of which more may show in what is printed."""
    result = Printed()
    every = [expected.steady(lines_of(record)) for record in ranks]
    by_place = [_by_place(lines) for lines in every[1:]]
    occurrences: dict[tuple[str, str], int] = {}
    known = {line.words for line in expected.lines}
    are_whole = all(record.end == ENDED for record in (expected.record, *ranks))
    before: dict[str, Line] = {}  # of each line of the script, what it has printed last
    drift, upcoming, index = 0.0, sorted(drifts), -1
    for one, found in paired(expected.lines, every[0], are_whole):
        index += one is not None
        key = (found.place, found.words) if found is not None else ("", "")
        occurrences[key] = occurrences.get(key, -1) + 1
        if one is None or found is None:
            # A port may say more, such as its rank.
            if one is not None or (found is not None and found.words in known):
                result.differences.append(Apart(one, found, math.inf, 0.0))
            continue
        while upcoming and upcoming[0][0] <= one.step:
            drift = max(drift, upcoming.pop(0)[1])
        number = occurrences[key]
        each = [found, *(lines[key][number] for lines in by_place if len(lines.get(key, ())) > number)]
        sizes = [
            (_off(a, b) / _scale(one, k), _allowed(expected, index, one, found, k, drift), k)
            for k, (a, b) in enumerate(zip(one.numbers, found.numbers))
            if not expected.is_chance(one, k) and not _is_same(a, b)
        ]
        off = [(size, allowed, k) for size, allowed, k in sizes if not size <= allowed]
        since = before[found.place].step if found.place in before else 0
        before[found.place] = found
        reasons = [_because(expected.record, ranks, one, each, k, size, allowed, since) for size, allowed, k in off]
        is_explained = bool(reasons) and all(reasons)
        if off:
            size, allowed, _ = off[0]
            result.differences.append(Apart(one, found, size, allowed, reasons[0] if is_explained else ""))
        if one.numbers and not is_explained:
            size, allowed, _ = max(sizes, key=lambda s: s[0] / max(s[1], 1e-300), default=(0.0, _SHARE, 0))
            result.figures.append((max(one.step, 1), size, allowed))
    return result


def paired(
    expected: Sequence[Line], found: Sequence[Line], is_whole: bool
) -> Iterator[tuple[Line | None, Line | None]]:
    """Lines that stand for each other, in their order: those with the same words; None for one that is missing. Without
    is_whole one of the runs was stopped: what the other prints after that is left out."""
    at, other = 0, 0
    while at < len(expected) and other < len(found):
        missing = _ahead(expected, at, found[other])
        more = _ahead(found, other, expected[at])
        if missing == more == 0:
            yield expected[at], found[other]
            at, other = at + 1, other + 1
        elif more is not None and (missing is None or more <= missing):
            yield None, found[other]
            other += 1
        else:
            yield expected[at], None
            at += 1
    if is_whole:
        yield from ((line, None) for line in expected[at:])
        yield from ((None, line) for line in found[other:])


def _ahead(lines: Sequence[Line], start: int, wanted: Line) -> int | None:
    """How many lines on the next with the same words comes; None where none does soon."""
    return next((i for i, line in enumerate(lines[start : start + _AHEAD]) if line.words == wanted.words), None)


def _by_place(lines: Sequence[Line]) -> dict[tuple[str, str], list[Line]]:
    found: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        found.setdefault((line.place, line.words), []).append(line)
    return found


def _allowed(expected: Expected, index: int, one: Line, found: Line, number: int, drift: float) -> float:
    """What rounding explains of a number, relative to it: of a count nothing that it was not measured to."""
    a, b, scale = one.numbers[number], found.numbers[number], _scale(one, number)
    measured = _MOST_NOISE * expected.noise(index, number) / scale
    if _is_count(a) and _is_count(b):
        return measured
    digit = max(_last_digit(a), _last_digit(b)) / scale
    return min(max(_SHARE, _MOST_NOISE * drift), _MOST_ALLOWED) + measured + (digit if digit <= _SMALL_DIGIT else 0.0)


def _because(
    original: Record,
    ranks: Sequence[Record],
    one: Line,
    each: Sequence[Line],
    number: int,
    size: float,
    allowed: float,
    since: int,
) -> str:
    """Why the chief prints another number though it trains the same; "" where that is not known. since: the step after
    which the line was printed before."""
    if _is_share(original, ranks, one, each, number, allowed, since):
        return "what each worker's own share of the samples gives"
    if size <= allowed + _MOST_OF_REPEATED * _repeated(original, ranks, one):
        return "samples that several workers compute, of a batch that does not split evenly, count for each of them"
    return ""


def _repeated(original: Record, ranks: Sequence[Record], line: Line) -> float:
    """Which share of the samples until this line, of `fit` since its last epoch, are computed by several workers."""
    begin = max([end for end in original.epochs if end < line.step], default=0)
    every = sum(len(step.rows) for step in original.steps[begin : line.step])
    computed = sum(len(step.rows) for record in ranks for step in record.steps[begin : line.step])
    return max(computed - every, 0) / max(every, 1)


def _is_share(
    original: Record, ranks: Sequence[Record], one: Line, each: Sequence[Line], number: int, allowed: float, since: int
) -> bool:
    """Whether the chief prints what its share of the samples gives: the workers' numbers, where each prints its own,
    are together the original's, as are the losses of which they are a mean."""
    expected, chief = _value(one.numbers[number]), _value(each[0].numbers[number])
    if _is_count(one.numbers[number]) and _is_count(each[0].numbers[number]):
        return len(each) == len(ranks) > 1 and sum(_value(line.numbers[number]) for line in each) == expected

    def is_near(a: float, b: float) -> bool:
        return abs(a - b) <= allowed * max(abs(b), _scale(one, number) * 1e-3)

    if len(each) == len(ranks) > 1:
        values = np.array([_value(line.numbers[number]) for line in each])
        if any(is_near(float(way), expected) for way in (values.mean(), *_weighted(values, ranks, each), values.sum())):
            return True
    mine, its = _means_of_losses(ranks[0], each[0], since), _means_of_losses(original, one, since)
    return any(is_near(a, chief) and is_near(b, expected) for a, b in zip(mine, its))


def _weighted(values: np.ndarray, ranks: Sequence[Record], each: Sequence[Line]) -> Iterator[np.floating]:
    """The means by the numbers of samples, of the step before and of all until then."""
    for begin in (-1, 0):
        counts = [sum(len(s.rows) for s in record.steps[: line.step][begin:]) for record, line in zip(ranks, each)]
        if all(counts):
            yield np.average(values, weights=counts)


def _means_of_losses(record: Record, line: Line, since: int) -> list[float]:
    """What the script differentiated last before the line was printed, or is about to apply; and the means of all until
    then, since the line was printed before, and of the epoch of `fit`."""
    last = [step.losses[-1] if step.losses else math.nan for step in record.steps[: line.step + 1][-2:]]
    ends = [end for end in record.epochs if end < line.step]
    begins = (0, since, ends[-1] if ends else 0)
    several = [[step.losses[-1] for step in record.steps[begin : line.step] if step.losses] for begin in begins]
    return [last[0], last[-1], *(float(np.mean(losses)) if losses else math.nan for losses in several)]


def _scale(line: Line, number: int) -> float:
    """The size that a difference of the number is relative to: its own, or in an array the largest one's."""
    within = re.split(r"(#)", line.words)[: 2 * number + 1]
    before = "".join(within)
    numbers = [number]
    if before.count("[") > before.count("]"):
        numbers = [k for k in range(len(line.numbers)) if k >= before[: before.rfind("[")].count("#")]
    sizes = [abs(_value(line.numbers[k])) for k in numbers]
    return max([size for size in sizes if math.isfinite(size)], default=1.0) or 1.0


def _is_same(one: str, other: str) -> bool:
    a, b = _value(one), _value(other)
    return a == b or (math.isnan(a) and math.isnan(b))


def _off(one: str, other: str) -> float:
    """How far apart they are; infinite where only one is a number."""
    found = abs(_value(one) - _value(other))
    return found if math.isfinite(found) else math.inf


def _is_count(number: str) -> bool:
    return number.lstrip("+-").isdigit()


def _value(number: str) -> float:
    return float(number)


def _last_digit(number: str) -> float:
    """What the last digit that is printed counts: 0.001 of 0.123."""
    digits, _, exponent = number.lower().partition("e")
    _, _, decimals = digits.partition(".")
    return float(10.0 ** (int(exponent or 0) - len(decimals))) if math.isfinite(_value(number)) else 0.0


def _short(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "...")


def _where_they_part(one: str, other: str) -> tuple[str, str]:
    """Both lines; of long ones what is around the first word that differs."""
    if max(len(one), len(other)) <= _LONGEST:
        return one, other
    same = next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))
    begin = max(one.rfind(" ", 0, max(same - _LONGEST // 2, 0)) + 1, 0)
    parts = [text[begin : begin + _LONGEST] for text in (one, other)]
    return parts[0].strip(), parts[1].strip()
