"""Line charts as SVG, drawn from nothing but numbers: the page that holds them needs no script and no network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 720, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 16, 12, 34
_TICKS = 5


@dataclass(frozen=True)
class Line:
    """A series of points (step, value). style: the class that colours it, see the style sheet of the page."""

    name: str
    points: Sequence[tuple[float, float]]
    style: str


def line_chart(title: str, lines: Sequence[Line], *, is_logarithmic: bool = False, unit: str = "step") -> str:
    """An <svg> with both axes, a legend and the lines. What a logarithmic axis has no place for, such as 0,
    stands on its lower end; what is not finite is left out."""
    points = [(x, y) for line in lines for x, y in line.points if math.isfinite(x) and math.isfinite(y)]
    if not points:
        return ""
    xs = [x for x, _ in points]
    across = _Axis(min(xs), max(max(xs), min(xs) + 1), False, _LEFT, _WIDTH - _RIGHT)
    up = _value_axis([y for _, y in points], is_logarithmic)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">',
        f"<title>{escape(title)}</title>",
    ]
    for value in up.ticks():
        y = up.place(value)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_number(value)}</text>')
    for value in across.ticks():
        x = across.place(value)
        label = f'<text class="tick" x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{value:g}</text>'
        parts.append(label)
    parts.append(f'<text class="tick" x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 2}" text-anchor="end">{escape(unit)}</text>')
    for line in lines:
        path = " ".join(
            f"{across.place(x):.1f},{up.place(y):.1f}" for x, y in line.points if math.isfinite(x) and math.isfinite(y)
        )
        parts.append(
            f'<polyline class="line {line.style}" points="{path}"><title>{escape(line.name)}</title></polyline>'
        )
    return "".join([*parts, "</svg>", _legend(lines)])


def _legend(lines: Sequence[Line]) -> str:
    items = "".join(f'<li><span class="key {line.style}"></span>{escape(line.name)}</li>' for line in lines)
    return f'<ul class="legend">{items}</ul>'


@dataclass(frozen=True)
class _Axis:
    """From a value to its place on the page, in pixels from `start` to `end`."""

    low: float
    high: float
    is_logarithmic: bool
    start: float
    end: float

    def place(self, value: float) -> float:
        low, high = self.low, self.high
        if self.is_logarithmic:
            value = max(value, low)
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        return self.start + (self.end - self.start) * (value - low) / (high - low)

    def ticks(self) -> list[float]:
        if self.is_logarithmic:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            every = max(1, -(-(last - first) // _TICKS))
            return [10.0**power for power in range(first, last + 1, every)]
        step = _round_step((self.high - self.low) / _TICKS)
        first = math.ceil(self.low / step - 1e-9)
        return [step * i for i in range(first, int(self.high / step + 1e-9) + 1)]


def _value_axis(values: Sequence[float], is_logarithmic: bool) -> _Axis:
    start, end = _HEIGHT - _BOTTOM, _TOP
    if is_logarithmic:
        positive = [value for value in values if value > 0] or [1e-16]
        low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
        return _Axis(10.0 ** (low - 1), 10.0 ** max(high, low + 1), True, start, end)
    low_value, high_value = min(values), max(values)
    margin = (high_value - low_value or abs(high_value) or 1.0) * 0.05
    return _Axis(low_value - margin, high_value + margin, False, start, end)


def _round_step(step: float) -> float:
    """1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)


def _number(value: float) -> str:
    return f"{value:.0e}" if value and not 1e-3 <= abs(value) < 1e5 else f"{value:g}"
