"""Products that sum over shared axes, all by the one rule of einsum's labels."""

from __future__ import annotations

import string
from typing import Any

from migrator.analysis.ops.call import Arg, Bound, NeedsWhole
from migrator.analysis.ops.terms import (
    PAIRS,
    SUM,
    ImpossibleRank,
    Term,
    axes_in,
    axis_in,
    multiplied,
    one_layout,
    over_ranks,
    placed,
    sharded,
    term,
    whole,
)
from migrator.analysis.placement import ALL_GATHER, Sharded
from migrator.records import dataclass, replace


def contracted(operands: list[Arg], labels: list[str], output: str) -> Arg:
    """The result for operands whose axes carry these labels; a label that `output` lacks is summed over."""
    cuts = [sharded(arg.placement) for arg in operands]
    found = {label[cut.axis] for cut, label in zip(cuts, labels) if cut}
    if len(found) > 1:
        raise NeedsWhole(PAIRS, ALL_GATHER)
    terms: list[Term] = []
    for arg, cut, label in zip(operands, cuts, labels):
        base, power = term(arg.placement)
        if found and not cut and found <= set(label):
            raise NeedsWhole("it pairs rows of the batch with a value that is whole", ALL_GATHER)
        if cut and label.count(label[cut.axis]) > 1:
            raise NeedsWhole("it takes the diagonal over the rows of the batch", ALL_GATHER)
        terms.append((Sharded(0, cut.rows, cut.blocks) if cut else base, power))
    base, power = multiplied(terms)
    if found:
        layout = one_layout([Sharded(0, cut.rows, cut.blocks) for cut in cuts if cut])
        label = found.pop()
        base = Sharded(output.index(label), layout.rows, layout.blocks) if label in output else SUM
    return Arg(placed(base, power), rank=len(output))


def _letters(number: int, start: int = 0) -> str:
    return string.ascii_letters[start : start + number]


@dataclass(frozen=True)
class MatrixProduct:
    """matmul: batch axes in front, broadcast; `vectors`: values of one axis are vectors, as in NumPy."""

    vectors: bool = True

    def __call__(self, bound: Bound) -> Arg:
        a, b = whole(bound.data(0)), whole(bound.data(1))
        turned = [
            any(bound.constant(f"{how}_{side}", default=False) for how in ("transpose", "adjoint")) for side in "ab"
        ]

        def place(rank_a: int, rank_b: int) -> Arg:
            if min(rank_a, rank_b) < (1 if self.vectors else 2):
                raise ImpossibleRank
            batch_a, batch_b = max(rank_a - 2, 0), max(rank_b - 2, 0)
            batch = _letters(max(batch_a, batch_b))
            row_a = ("YX" if turned[0] else "XY")[2 - min(rank_a, 2) :]
            row_b = ("ZY" if turned[1] else "YZ")[: min(rank_b, 2)]
            ends = ("X" if rank_a > 1 else "") + ("Z" if rank_b > 1 else "")
            labels = [batch[len(batch) - batch_a :] + row_a, batch[len(batch) - batch_b :] + row_b]
            return contracted([a, b], labels, batch + ends)

        return over_ranks([a, b], place)


@dataclass(frozen=True)
class MatrixVector:
    """matvec: a matrix, or several, times a vector each."""

    def __call__(self, bound: Bound) -> Arg:
        a, b = whole(bound.data(0)), whole(bound.data(1))
        turned = bound.constant("transpose_a", default=False) or bound.constant("adjoint_a", default=False)

        def place(rank_a: int, rank_b: int) -> Arg:
            if rank_a < 2 or rank_b < 1:
                raise ImpossibleRank
            batch = _letters(max(rank_a - 2, rank_b - 1))
            labels = [
                batch[len(batch) - rank_a + 2 :] + ("YX" if turned else "XY"),
                batch[len(batch) - rank_b + 1 :] + "Y",
            ]
            return contracted([a, b], labels, batch + "X")

        return over_ranks([a, b], place)


@dataclass(frozen=True)
class TensorProduct:
    """tensordot, outer, inner, dot: all axes of both but the contracted ones, by `axes` or the op's own rule."""

    rule: str = "tensordot"

    def __call__(self, bound: Bound) -> Arg:
        a, b = whole(bound.data(0)), whole(bound.data(1))
        axes = bound.constant("axes", default=2) if self.rule == "tensordot" else None

        def place(rank_a: int, rank_b: int) -> Arg:
            left, right = self._contracted(axes, rank_a, rank_b)
            one, two = _letters(rank_a), list(_letters(rank_b, rank_a))
            for i, j in zip(left, right):
                two[j] = one[i]
            gone = {one[i] for i in left}
            output = "".join(label for label in [*one, *two] if label not in gone)
            return contracted([a, b], [one, "".join(two)], output)

        return over_ranks([a, b], place)

    def _contracted(self, axes: Any, rank_a: int, rank_b: int) -> tuple[list[int], list[int]]:
        if self.rule == "outer":
            if rank_a != 1 or rank_b != 1:
                raise NeedsWhole("it lays out all values in one row", ALL_GATHER)
            return [], []
        if self.rule in ("dot", "inner"):
            if not rank_a or not rank_b:
                return [], []
            return [rank_a - 1], [rank_b - 1 if rank_b < 2 or self.rule == "inner" else rank_b - 2]
        if self.rule == "backend dot":
            if min(rank_a, rank_b) < 2:
                raise ImpossibleRank
            return [rank_a - 1], [rank_b - 2]
        if isinstance(axes, int):
            if min(rank_a, rank_b) < axes:
                raise ImpossibleRank
            return list(range(rank_a - axes, rank_a)), list(range(axes))
        return axes_in(axes[0], rank_a), axes_in(axes[1], rank_b)


@dataclass(frozen=True)
class BatchDot:
    """Per-sample products over one axis of each (backend.batch_dot, layers.Dot): axis 0 is the batch's."""

    def __call__(self, bound: Bound) -> Arg:
        a, b = whole(bound.data(0)), whole(bound.data(1))
        axes = bound.constant("axes", default=None)

        def place(rank_a: int, rank_b: int) -> Arg:
            if min(rank_a, rank_b) < 2:
                raise ImpossibleRank
            both = axes if isinstance(axes, (list, tuple)) else [axes, axes]
            if axes is None:
                both = [rank_a - 1, rank_b - 1 if rank_b == 2 else rank_b - 2]
            i, j = axis_in(both[0], rank_a), axis_in(both[1], rank_b)
            one, two = _letters(rank_a), list(_letters(rank_b, rank_a))
            two[0], two[j] = one[0], one[i]
            output = one[0] + "".join(label for label in [*one[1:], *two[1:]] if label != one[i])
            result = contracted([a, b], [one, "".join(two)], output)
            return replace(result, rank=max(2, len(output)))

        return over_ranks([a, b], place)


@dataclass(frozen=True)
class Einsum:
    """An equation that is a literal; an ellipsis stands for axes in front."""

    def __call__(self, bound: Bound) -> Arg:
        names = [name for name in bound.values if name.isdigit()]
        equation, *operands = [bound.values[name] for name in names]
        for name in names:
            bound.get(name)
        if not isinstance(equation.constant, str):
            raise NeedsWhole("its equation is not seen", ALL_GATHER)
        left, arrow, output = equation.constant.replace(" ", "").partition("->")
        inputs = left.split(",")
        if not arrow:
            once = sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1)
            output = ("..." if "..." in left else "") + "".join(once)
        if len(inputs) != len(operands):
            raise NeedsWhole("its equation names another number of operands")
        args = [whole(arg) for arg in operands]

        def place(*ranks: int) -> Arg:
            hidden = [rank - len(text.replace("...", "")) if "..." in text else 0 for text, rank in zip(inputs, ranks)]
            if any(h < 0 for h in hidden) or any(
                "..." not in text and len(text) != rank for text, rank in zip(inputs, ranks)
            ):
                raise ImpossibleRank
            most = string.digits[: max(hidden)]
            labels = [text.replace("...", most[len(most) - h :]) for text, h in zip(inputs, hidden)]
            return contracted(args, labels, output.replace("...", most))

        known = [
            arg if arg.rank is not None or "..." in text else Arg(arg.placement, rank=len(text))
            for arg, text in zip(args, inputs)
        ]
        return over_ranks(known, place)


@dataclass(frozen=True)
class FlatProduct:
    """vdot: all values of both, each with its own."""

    def __call__(self, bound: Bound) -> Arg:
        a, b = whole(bound.data(0)), whole(bound.data(1))

        def place(rank_a: int, rank_b: int) -> Arg:
            if rank_a != rank_b:
                raise NeedsWhole("it pairs values of different shapes", ALL_GATHER)
            return contracted([a, b], [_letters(rank_a)] * 2, "")

        return over_ranks([a, b], place)


PRODUCTS = (MatrixProduct, MatrixVector, TensorProduct, BatchDot, Einsum, FlatProduct)
