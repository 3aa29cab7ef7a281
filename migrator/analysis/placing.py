"""Where the result of an operation stands; what has to be put together first, where it would stand nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Callable, cast

import libcst as cst

from migrator.analysis import ops, row_counts, shortened
from migrator.analysis import values as v
from migrator.analysis.callables import is_called
from migrator.analysis.calls import Arguments
from migrator.analysis.libraries import runtime
from migrator.analysis.libraries.tensorflow import VARIABLE
from migrator.analysis.ops.call import NOT_CONSTANT, Arg, Op, OpCall
from migrator.analysis.ops.elementwise import Cast, Elementwise
from migrator.analysis.ops.making import Draws, Same, Sizes, Stacked
from migrator.analysis.ops.moving import OF_UNSEEN_RANK, GetItem, Splits
from migrator.analysis.ops.reducing import Average, Moments, Reduces, WholeValue
from migrator.analysis.ops.sampling import PerSample
from migrator.analysis.ops.terms import PAIRING, sharded
from migrator.analysis.placement import (
    ALL_GATHER,
    LOCAL,
    REPLICATED,
    ROWS,
    Either,
    Local,
    Partial,
    Placement,
    Replicated,
    Scaled,
    Shape,
    Sharded,
    Unknown,
)
from migrator.analysis.values import (
    NUMBER,
    Container,
    Data,
    External,
    Function,
    Made,
    Method,
    Operand,
    Repair,
    Tuple,
    Value,
)

if TYPE_CHECKING:
    from migrator.analysis.frames import Frame
    from migrator.analysis.run import Run

View = Callable[[Data], Placement]

ONE_BY_ONE = "the samples of a worker's part are taken one by one"
MEETS = "a worker's part of the batch meets what is made of all of it"
UNKNOWN = "what this does with the batch is not known"
# Sums of terms: one that is the same on all workers may be counted by parts.
_SUMS = frozenset({
    "operator.add", "operator.sub", "tensorflow.add", "tensorflow.subtract", "tensorflow.math.add",
    "tensorflow.math.subtract", "tensorflow.add_n", "tensorflow.math.add_n", "keras.ops.add", "keras.ops.subtract",
    "builtins.sum",
})  # fmt: skip
_QUOTIENTS = frozenset({
    "operator.truediv", "tensorflow.divide", "tensorflow.math.divide", "tensorflow.truediv", "tensorflow.math.truediv",
    "tensorflow.math.divide_no_nan", "tensorflow.div_no_nan", "keras.ops.divide", "keras.ops.divide_no_nan",
})  # fmt: skip
# By Keras's convention these take what has an axis of features behind that of the samples.
_TAKES_FEATURES = ("keras.losses.", "keras.metrics.", "keras.layers.")
_MULTIPLIES = frozenset({
    "operator.matmul", "tensorflow.matmul", "tensorflow.linalg.matmul", "tensorflow.sparse.sparse_dense_matmul",
    "keras.ops.matmul",
})  # fmt: skip
_OF_MASKS = frozenset({"operator.invert", "operator.and_", "operator.or_", "operator.xor"})
_TAKES_LABELS = ("sparse_softmax_cross_entropy_with_logits",)
_ALIGNING = ("keras.losses.", "keras.metrics.")
_REDUCING = (Reduces, Moments, Average, WholeValue)
_KEEPING_COUNTS = (Sizes, Cast, GetItem, Splits, Same, Stacked)
_DESCRIPTIONS = frozenset({"dtype", "ndim", "name", "device", "op", "graph"})
# The Keras tensors of a functional model that its layers know.
_TENSORS_OF_LAYERS = frozenset({"input", "output"})

# Of ragged and sparse tensors: as many rows as a worker's samples have values, and where these stand among all.
_VALUES_OF_RAGGED = frozenset({"values", "flat_values"})
_STRUCTURE_OF_RAGGED = frozenset({"indices", "row_splits", "nested_row_splits", "dense_shape"})


class Placing:
    def __init__(self, run: Run) -> None:
        self.run = run
        # Why nothing can be written into the code that runs; empty where it can.
        self.blocked = ""

    # -- operations ----------------------------------------------------------------------------------------------

    def op(self, path: str, args: Arguments, node: cst.CSTNode, made: Arguments | None = None) -> Value:
        """What the operation of that name gives; `made` are the arguments that its object was made with."""
        return self.place(ops.lookup(path), path, args, node, made)

    def place(
        self, row: Op | None, path: str, args: Arguments, node: cst.CSTNode, made: Arguments | None = None
    ) -> Value:
        value = self._widened(row, args, _masking(path, args, self._placed(row, path, args, node, made)))
        value = self._counting(row, args, self._ragged(row, path, args, value))
        leaves = [d for _, given in args.all() for d in self.run.objects.leaves(given)]
        items = self.run.sequence_items(args.positional[0]) if args.positional else None
        return row_counts.kept(row, leaves, items, value)

    def _placed(self, row: Op | None, path: str, args: Arguments, node: cst.CSTNode, made: Arguments | None) -> Value:
        leaves = [d for _, value in args.all() for d in self.run.objects.leaves(value)]
        needs = frozenset(r for d in leaves for r in d.needs)
        poison = next((d for d in leaves if isinstance(d.placement, Unknown)), None)
        if poison is not None:
            return Value(Data(poison.placement, nested=poison.nested, needs=needs))
        symbolic = any(d.symbolic for d in leaves)
        if any(isinstance(d.placement, Local) for d in leaves):
            return Value(Data(LOCAL, needs=needs))
        apart = [d for d in leaves if not d.is_replicated]
        whole = any(d.whole for d in leaves)
        if not apart:
            self.run.note_plain(node)
            return self._replicated(row, args, made, whole, needs, symbolic)
        if whole and any(isinstance(d.placement, (Sharded, Shape)) for d in apart):
            value = self._gathered(row, path, args, node, made, needs, symbolic, MEETS)
            self._note_meeting(leaves, node)
            return value
        result = self._infer(row, args, made, _plain)
        made_of_rows = self._reduction(result, leaves) if not _is_lost(result) else ""
        if made_of_rows:
            self.run.reductions.add(made_of_rows)
            if made_of_rows in self.run.plan.reductions and not symbolic and not self.blocked:
                why = f"a {made_of_rows} over the rows of a worker meets what is made of all rows"
                return self._gathered(row, path, args, node, made, needs, symbolic, why)
        if not _is_lost(result):
            self.run.note_plain(node)
            return self._value(result, needs, symbolic, whole=whole)
        return self._repaired(row, path, args, node, made, needs, symbolic, result)

    def meet(self, args: Arguments, node: cst.CSTNode) -> None:
        """Notes where what is called keeps its arguments, of which some are made of all rows."""
        leaves = [d for _, value in args.all() for d in self.run.objects.leaves(value)]
        if any(d.whole for d in leaves) and any(isinstance(d.placement, Sharded) for d in leaves):
            self._repair(args, node, _by_gathering, MEETS)
            self._note_meeting(leaves, node)
        else:
            self.run.note_plain(node)

    def _note_meeting(self, leaves: Sequence[Data], node: cst.CSTNode) -> None:
        needs = frozenset(r for d in leaves if d.whole for r in d.needs)
        if needs:
            self.run.meetings[node].add(needs)

    @staticmethod
    def _reduction(result: Arg, given: Sequence[Data]) -> str:
        """Whether a mean or a sum over the batch is taken here, of rows, or is divided by their number; empty where
        neither is."""
        made = {p.reduction for leaf in result.leaves() for p in _options(leaf.placement) if isinstance(p, Partial)}
        found = {p for d in given for p in _options(d.placement)}
        if any(isinstance(p, Sharded) for p in found):
            return next((kind for kind in ("mean", "sum") if kind in made), "")
        if any(d.is_replicated and d.needs for d in given) and any(
            isinstance(p, Scaled) and p.base == REPLICATED for leaf in result.leaves() for p in _options(leaf.placement)
        ):
            return "sum"
        return "mean" if "mean" in made and Partial("mean") not in found else ""

    def _infer(self, row: Op | None, args: Arguments, made: Arguments | None, view: View) -> Arg:
        if row is None:
            return Arg(Unknown(UNKNOWN))
        if args.rest is not v.NOTHING:
            return Arg(Unknown("not all of its arguments are seen"))
        if _counts_values(row):
            view = partial(_unevenly, view)
        call = OpCall(
            [self._arg(x, view) for x in args.positional],
            {name: self._arg(x, view) for name, x in args.keywords.items()},
            self._made(made) if made is not None else None,
        )
        result = _inferred(row, call)
        if _is_lost(result) and row.path.startswith(_ALIGNING) and _are_unlike(call):
            call = OpCall([_without_rank(a) for a in call.args], {k: _without_rank(a) for k, a in call.kwargs.items()})
            result = _inferred(row, call)
        if not any(_is_open(a) for a in _given(call)) and not _is_undecided(result):
            return result
        if row.path.endswith(_TAKES_LABELS):
            return _of_labels(row, call, result)
        if row.path in _MULTIPLIES:
            call = _deepened(call)  # they take no vectors, or no batch of them
            result = _inferred(row, call)
        if _is_undecided(result):
            result = _of_deep(row, call, result)
        takes_batches = isinstance(row.kind, (Elementwise, PerSample)) or row.path.startswith(_TAKES_FEATURES)
        if _is_undecided(result) and takes_batches:
            result = _with_equal_ranks(row, call, result)
        if result.rank is not None or result.least >= 2 or not _stays_deep(row, call):
            return result
        return replace(result, least=2)

    @staticmethod
    def _widened(row: Op | None, args: Arguments, value: Value) -> Value:
        """The result of an elementwise op with the width of its operands: one of more than one decides."""
        if row is None or not isinstance(row.kind, Elementwise) or value.data is None:
            return value
        widths = {x.data.width for _, x in args.all() if x.data is not None and x.data.width is not None}
        known = widths - {1} if len(widths) > 1 else widths
        several = [x for _, x in args.all() if x.data is not None and x.data.rank != 0]
        if len(known) != 1 or (known == {1} and len(several) > 1):
            return value
        return Value(replace(value.data, width=known.pop()), value.objects)

    def _ragged(self, row: Op | None, path: str, args: Arguments, value: Value) -> Value:
        """The result, which may be ragged where that is made of which it is: not of what has one number for each
        sample, nor of what layers and losses give, which take no ragged tensors, or make dense ones of them."""
        if row is None or isinstance(row.kind, PerSample) or path.startswith(_TAKES_FEATURES):
            return value
        if not any(d.ragged for _, given in args.all() for d in self.run.objects.leaves(given)):
            return value

        def ragged(data: Data) -> Data:
            cut = data.placement
            if isinstance(cut, Sharded) and _counts_values(row) and cut.rows == "ragged":
                cut = replace(cut, rows="one")  # it was not reduced along the samples
            return replace(data, placement=cut, ragged=isinstance(cut, Sharded))

        return v.mapped(value, ragged)

    def _counting(self, row: Op | None, args: Arguments, value: Value) -> Value:
        """The result, where it may be another number than that of the rows: twice as many, say."""
        data = value.data
        if data is None or data.placement != ROWS:
            return value
        given = [d for _, value in args.all() for d in self.run.objects.leaves(value)]
        kept = row is not None and isinstance(row.kind, _KEEPING_COUNTS)
        if row is not None and row.kind == Sizes("size"):
            kept = all(d.rank == 1 for d in given)
        if kept and not any(d.several or _blocks(d) > 1 for d in given):
            return value
        return Value(replace(data, several=True), value.objects)

    def _made(self, made: Arguments) -> OpCall:
        return OpCall(
            [self._arg(x, _plain) for x in made.positional],
            {name: self._arg(x, _plain) for name, x in made.keywords.items()},
        )

    def _arg(self, value: Value, view: View) -> Arg:
        items = self.run.sequence_items(value)
        if items is not None:
            is_batch = len(items) in self.run.batch_sizes
            return Arg(items=tuple(self._arg(item, view) for item in items), as_batch=is_batch)
        only = value.only
        if isinstance(only, External):
            return Arg(constant=only.path.rpartition(".")[2] if _is_dtype(only.path) else only.path)
        if isinstance(only, Made) and only.path.startswith(("keras.losses.", "keras.layers.", "keras.regularizers.")):
            return Arg(constant=only.path)
        data = list(self.run.objects.leaves(value))
        if not data:
            return Arg()
        many = any(isinstance(o, Container) for o in value)
        placements = list(dict.fromkeys(view(d) for d in data))
        ranks = {d.rank for d in data}
        placement = placements[0] if len(placements) == 1 else _joined(data, view)
        constant = data[0].constant if len(data) == 1 and not many else NOT_CONSTANT
        if constant == runtime.SIZE:
            constant = NOT_CONSTANT
        if isinstance(constant, v.Slice):
            constant = slice(constant.lower, constant.upper, constant.step)
        rank = ranks.pop() if len(ranks) == 1 else None
        widths = {d.width for d in data}
        width = widths.pop() if len(widths) == 1 else None
        rows = next((d.rows for d in data if d.is_replicated and not d.whole), None) if len(data) == 1 else None
        least, masked = min(d.axes for d in data), any(d.masked for d in data)
        return Arg(
            placement,
            constant,
            rank,
            many=many,
            least=least,
            width=width,
            dtype="bool" if all(d.mask for d in data) else None,
            masked=masked,
            rows=rows,
            as_batch=rows in self.run.batch_sizes,
            integral=all(d.integral for d in data) and not many,
            positive=all(d.is_positive for d in data),
            from_zero=isinstance(only, Container) and shortened.begins_at_zero(self.run, only),
        )

    def _value(self, arg: Arg, needs: frozenset[Repair], symbolic: bool, *, whole: bool = False) -> Value:
        if arg.items is not None:
            return v.of(Tuple(tuple(self._value(item, needs, symbolic, whole=whole) for item in arg.items)))
        is_whole = whole and isinstance(arg.placement, Replicated)
        constant = arg.constant if isinstance(arg.constant, (int, float, str)) else NOT_CONSTANT
        return Value(
            Data(
                arg.placement,
                constant,
                arg.rank,
                is_whole,
                arg.many,
                symbolic,
                arg.least,
                arg.width,
                arg.masked,
                needs,
                rows=None if is_whole else arg.rows,
                integral=arg.integral,
                mask=arg.dtype == "bool",
            )
        )

    def _replicated(
        self,
        row: Op | None,
        args: Arguments,
        made: Arguments | None,
        whole: bool,
        needs: frozenset[Repair],
        symbolic: bool,
    ) -> Value:
        """The result where all workers have all that it is made of."""
        result = self._infer(row, args, made, _virtual if whole else _plain)
        if row is None or (isinstance(result.placement, Unknown) and not whole):
            nested = row is None
            return Value(Data(REPLICATED, whole=whole, nested=nested, symbolic=symbolic, needs=needs))
        return self._value(result, needs, symbolic) if not whole else self._whole(row, args, result, needs, symbolic)

    def _whole(
        self,
        row: Op | None,
        args: Arguments,
        result: Arg,
        needs: frozenset[Repair],
        symbolic: bool,
        why: str = "",
    ) -> Value:
        """The result of an operation on all rows, from what the same would be on a worker's part of them; `why` it
        cannot be done on that."""
        if result.items is not None:
            items = (self._whole(row, args, item, needs, symbolic, why) for item in result.items)
            return v.of(Tuple(tuple(items)))
        # What an op that reduces cannot do by parts reduces the rows.
        kept: tuple[type, ...] = (Sharded, Unknown)
        if row is not None and isinstance(row.kind, _REDUCING):
            if any(isinstance(p, Unknown) and p.repair is None for p in _options(result.placement)):
                return Value(Data(v.PARTLY_WHOLE, symbolic=symbolic, needs=needs))
            kept = (Sharded,)
        # A value for each pair of rows has them along two axes, a transposed one along another than the first: some are
        # left where the first axis is summed over.
        given = [d for _, value in args.all() for d in self.run.objects.leaves(value)]
        pairs = why in PAIRING or any(d.pairs for d in given)
        pairs |= any(isinstance(p, Unknown) and p.why in PAIRING for p in _options(result.placement))
        pairs |= any(isinstance(p, Sharded) and p.axis != 0 for p in _options(result.placement))
        has_rows = pairs and result.rank != 0
        has_rows |= any(isinstance(p, kept) for p in _options(result.placement))
        data = Data(
            REPLICATED, rank=result.rank, whole=has_rows, symbolic=symbolic, needs=needs, pairs=pairs and has_rows
        )
        return Value(data)

    # -- repairs -------------------------------------------------------------------------------------------------

    def _repaired(
        self,
        row: Op | None,
        path: str,
        args: Arguments,
        node: cst.CSTNode,
        made: Arguments | None,
        needs: frozenset[Repair],
        symbolic: bool,
        lost: Arg,
    ) -> Value:
        why = next((p.why for leaf in lost.leaves() for p in _options(leaf.placement) if isinstance(p, Unknown)), "")
        if row is not None and isinstance(row.kind, Draws):
            drawn = self._drawn(row, args, node, needs, why)
            if drawn is not None:
                return drawn
            if not _draws_alone(row):
                return Value(Data(Unknown(why), needs=needs))
            return self._gathered(None, "", args, node, made, needs, symbolic, UNKNOWN)
        if path in _SUMS:
            shared = self._shared(row, args, node, made, needs, symbolic, why)
            if shared is not None:
                return shared
        if path in _QUOTIENTS and len(args.positional) == 2:
            divided = self._divided(row, args, node, made, needs, symbolic, why)
            if divided is not None:
                return divided
        reduced = self._infer(row, args, made, _reduced)
        if not _is_lost(reduced):
            needs |= {self._repair(args, node, _by_reducing, why)}
            if any(d.whole for _, value in args.all() for d in self.run.objects.leaves(value)):
                return self._whole(row, args, self._infer(row, args, made, _virtual), needs, symbolic)
            return self._value(reduced, needs, symbolic)
        return self._gathered(row, path, args, node, made, needs, symbolic, why)

    def _drawn(self, row: Op, args: Arguments, node: cst.CSTNode, needs: frozenset[Repair], why: str) -> Value | None:
        """Random numbers for the rows of a worker: its own of those for the whole batch, which all workers draw alike.
        None where that cannot be written down, or its rows are not simply its part of the batch."""
        kind = row.kind
        drawn = self._infer(replace(row, kind=kind.made), args, None, _plain) if isinstance(kind, Draws) else Arg()
        given = [(place, value, list(self.run.objects.leaves(value))) for place, value in args.all()]
        apart = [(place, value, leaves) for place, value, leaves in given if any(not d.is_replicated for d in leaves)]
        if drawn.placement != Sharded(0) or len(apart) != 1 or any(d.whole for _, _, found in given for d in found):
            return None
        place, value, leaves = apart[0]
        if any(d.several or d.symbolic for d in leaves):
            return None
        shape = next((d for d in leaves if isinstance(d.placement, Shape)), None)
        rank = drawn.rank if shape is None else shape.rows
        least = drawn.least if shape is None else cast(Shape, shape.placement).least
        result = Data(Sharded(0), rank=rank, least=least, needs=needs)
        if row.path.startswith("numpy.") and self.run.makes_graph:
            return Value(result)  # constants of the graph
        found: set[Operand] = set()
        if shape is not None:
            array = self._of_shape(place)
            blocked = self._wrap(array, self.run.seen[array], _by_gathering, found) if array is not None else "unseen"
        else:
            blocked = self._wrap(place, value, _by_reducing, found)
        if self.blocked or blocked or len(found) != 1:
            return None
        repair = Repair(node, frozenset(found), why, form="drawn")
        self.run.note_repair(repair)
        return Value(replace(result, needs=needs | {repair}))

    def _of_shape(self, node: cst.CSTNode | None) -> cst.BaseExpression | None:
        """The array of which the expression is the shape: `x.shape`, `tf.shape(x)`."""
        array: cst.BaseExpression | None = None
        if isinstance(node, cst.Attribute) and node.attr.value == "shape":
            array = node.value
        elif isinstance(node, cst.Call) and len(node.args) == 1 and not node.args[0].star:
            function = self.run.seen.get(node.func)
            row = ops.lookup(function.only.path) if function and isinstance(function.only, External) else None
            array = node.args[0].value if row is not None and row.kind == Sizes("shape") else None
        held = self.run.seen.get(array) if array is not None else None
        is_rows = held is not None and held.data is not None and held.data.placement == Sharded(0)
        return array if is_rows else None

    def _divided(
        self,
        row: Op | None,
        args: Arguments,
        node: cst.CSTNode,
        made: Arguments | None,
        needs: frozenset[Repair],
        symbolic: bool,
        why: str,
    ) -> Value | None:
        """A sum over the batch by another one: all divide by the whole of that."""
        under = Arguments([args.positional[1]], nodes={0: args.nodes[1]} if 1 in args.nodes else {})
        divisor = v.mapped(args.positional[1], lambda d: replace(d, placement=_reduced(d), rank=d.rank))
        result = self._infer(row, Arguments([args.positional[0], divisor], args.keywords), made, _plain)
        if _is_lost(result):
            return None
        repair = self._repair(under, node, _by_reducing, why, "divisor")
        whole = any(d.whole for d in self.run.objects.leaves(args.positional[0]))
        return None if repair.blocked else self._value(result, needs | {repair}, symbolic, whole=whole)

    def _shared(
        self,
        row: Op | None,
        args: Arguments,
        node: cst.CSTNode,
        made: Arguments | None,
        needs: frozenset[Repair],
        symbolic: bool,
        why: str,
    ) -> Value | None:
        """A sum over the batch plus terms that all workers have, each of which counts its part of those."""
        leaves = [d for _, value in args.all() for d in self.run.objects.leaves(value)]
        if not all(d.placement == Partial("sum") or d.is_replicated for d in leaves):
            # Beside a mean the sum is put together first.
            result = self._infer(
                row, args, made, lambda d: REPLICATED if d.placement == Partial("sum") else d.placement
            )
            if _is_lost(result):
                return None
            repair = self._repair(args, node, lambda d: "sum" if d.placement == Partial("sum") else None, why, "term")
            return self._value(result, needs | {repair}, symbolic, whole=any(d.whole for d in leaves))
        if any(d.is_replicated and d.constant is not NOT_CONSTANT for d in leaves):
            return None
        repair = self._repair(args, node, lambda d: "share" if d.is_replicated else None, why, "term")
        if repair.blocked:
            return None
        return Value(Data(Partial("sum"), rank=0, symbolic=symbolic, needs=needs | {repair}))

    def _gathered(
        self,
        row: Op | None,
        path: str,
        args: Arguments,
        node: cst.CSTNode,
        made: Arguments | None,
        needs: frozenset[Repair],
        symbolic: bool,
        why: str,
    ) -> Value:
        leaves = [d for _, value in args.all() for d in self.run.objects.leaves(value)]
        given = {type(p) for d in leaves for p in _options(d.placement)}
        # Nothing puts the shape of a part together. Of one whose rank is not seen the last size is likely of features.
        is_alone = given <= {Replicated, Shape} and not any(d.whole for d in leaves)
        if Shape in given and not (is_alone and why == OF_UNSEEN_RANK):
            return Value(Data(Unknown("it makes something of the shape of the rows that a worker has"), needs=needs))
        repair = self._repair(args, node, _by_gathering, why)
        return self._whole(row, args, self._infer(row, args, made, _gathered), needs | {repair}, symbolic, why)

    def _repair(
        self, args: Arguments, node: cst.CSTNode, how: Callable[[Data], str | None], why: str, form: str = "whole"
    ) -> Repair:
        found: set[Operand] = set()
        blocked = self.blocked
        for place, value in args.all():
            blocked = self._wrap(place, value, how, found) or blocked
        repair = Repair(node, frozenset(found), why, blocked, form)
        if blocked:
            self.run.lost_at[node].update(n for n, x in args.all() if n is not None)
        self.run.note_repair(repair)
        return repair

    def _wrap(
        self, node: cst.BaseExpression | None, value: Value, how: Callable[[Data], str | None], found: set[Operand]
    ) -> str:
        """Adds what has to be wrapped of an argument; returns why that cannot be."""
        leaves = list(self.run.objects.leaves(value))
        hows = {how(d) for d in leaves} - {None}
        if not hows:
            return ""
        if node is None:
            return "what it takes is not written where it is called"
        items = self.run.sequence_items(value)
        if items is not None and isinstance(node, (cst.Tuple, cst.List)) and len(items) == len(node.elements):
            blocked = ""
            for element, item in zip(node.elements, items):
                blocked = self._wrap(element.value, item, how, found) or blocked
            return blocked
        if any(d.symbolic for d in leaves):
            return "it is part of a model that is built of Keras tensors"
        if len(hows) > 1 or any(how(d) is None for d in leaves):
            return "its parts stand in different ways"
        if "unknown" in hows:
            return "it is divided or multiplied by the number of rows that a worker has"
        if any(d.masked for d in leaves):
            return "Keras carries a mask along with it"
        cuts = [p for d in leaves for p in _options(d.placement) if isinstance(p, Sharded)]
        if any(cut.axis != 0 for cut in cuts):
            return "the samples do not lie along its first axis"
        if any(cut.blocks > 1 for cut in cuts):
            return "it is made of several batches, one behind the other"
        how_put = str(hows.pop())
        if how_put == "gather" and isinstance(node, cst.Name) and is_called(self.run, node):
            return "it is called as a function, and no rows of a batch"
        found.add(Operand(self.unlisted(node) if how_put == "gather" else node, how_put))
        return ""

    def unlisted(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The array of which the expression makes a list: `labels.numpy().tolist()`. Lists go item by item."""
        while isinstance(node, cst.Call):
            func = node.func
            inner: cst.BaseExpression = node
            if isinstance(func, cst.Attribute) and func.attr.value == "tolist" and not node.args:
                inner = func.value
            elif isinstance(func, cst.Name) and func.value in ("list", "tuple") and len(node.args) == 1:
                inner = node.args[0].value
            value = self.run.seen.get(inner)
            if inner is node or value is None or value.data is None or value.objects:
                break
            node = inner
        return node

    def as_mean(self, value: Value, place: cst.BaseExpression | None, node: cst.CSTNode) -> Value:
        """A term of a loss that is a mean: a sum over the batch is put together first."""
        data = value.data
        if data is None or data.placement != Partial("sum"):
            return value
        args = Arguments([value], nodes={0: place} if place is not None else {})
        repair = self._repair(args, node, _by_reducing, "it is a sum over the batch beside a mean", "term")
        return Value(replace(data, placement=REPLICATED, needs=data.needs | {repair}))

    def put_together(self, args: Arguments, node: cst.CSTNode) -> Repair:
        """The repair that has all rows, and sums and means over all of them, where the call keeps its arguments."""
        return self._repair(args, node, _by_gathering, "it keeps what depends on a worker's part of the batch")

    def counted_by_all(self, node: cst.CSTNode) -> Repair:
        """The repair that makes `metric.result()` that of the rows of all workers."""
        asks = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "result"
        blocked = self.blocked or ("" if asks else "the metric is given rows and asked for its result at once")
        operands = frozenset((Operand(node, "metric"),)) if isinstance(node, cst.BaseExpression) else frozenset()
        repair = Repair(node, operands, "it is of what this worker has counted", blocked, "metric")
        self.run.note_repair(repair)
        return repair

    def inferred(self, path: str, *operands: Value) -> list[Placement]:
        """Where the results of the operation stand, if nothing is put together for it."""
        found = self._infer(ops.lookup(path), Arguments(list(operands)), None, _plain)
        return [leaf.placement for leaf in found.leaves()]

    def agreed(self, node: cst.CSTNode, value: Value) -> Value:
        """What a condition is once sums and means over the batch, and numbers of rows, are those of all."""
        if not isinstance(node, cst.BaseExpression) or all(_by_reducing(d) is None for d in v.contents(value)):
            return value
        repair = self._repair(
            Arguments([value], nodes={0: node}), node, _by_reducing, "it decides by a worker's part of the batch"
        )
        needs = frozenset((repair,))
        return v.mapped(
            value, lambda d: d if _by_reducing(d) is None else replace(d, placement=REPLICATED, needs=needs | d.needs)
        )

    def given_back(self, node: cst.BaseExpression, value: Value, frame: Frame) -> Value:
        """A worker's rows of what a layer makes of all; all of them where no name holds a worker's rows any more."""
        items = self.run.sequence_items(value)
        if items is not None and isinstance(node, cst.Tuple) and len(items) == len(node.elements):
            given = [self.given_back(e.value, item, frame) for e, item in zip(node.elements, items)]
            return v.of(Tuple(tuple(given)))
        return self._shard_like(node, value, next(self._names_of_rows(frame), ""))

    def renamed(self, node: cst.BaseExpression, value: Value, name: str, frame: Frame) -> Value:
        """A worker's rows of what is made of all of them, for a name that has held a worker's."""
        return self._shard_like(node, value, name if self._holds_rows((frame.names or {}).get(name)) else "")

    def _shard_like(self, node: cst.BaseExpression, value: Value, like: str) -> Value:
        data = value.data
        if data is None or value.objects or not data.whole or not data.needs:
            self.run.plain_sources.add(node)
            return value
        if not like:
            return value
        why = "the model gives all rows of a batch, where Keras takes those of a worker"
        repair = Repair(node, frozenset((Operand(node, "shard", like),)), why, self.blocked, "given back")
        self.run.note_repair(repair)
        return Value(replace(data, placement=Sharded(0), whole=False, least=2, needs=data.needs | {repair}))

    def _names_of_rows(self, frame: Frame) -> Iterator[str]:
        """The parameters that still hold a worker's rows."""
        params = frame.scope.node.params if isinstance(frame.scope.node, (cst.FunctionDef, cst.Lambda)) else None
        for param in (*params.posonly_params, *params.params) if params is not None else ():
            if self._holds_rows((frame.names or {}).get(param.name.value)):
                yield param.name.value

    def _holds_rows(self, value: Value | None) -> bool:
        leaves = list(self.run.objects.leaves(value)) if value is not None else []
        return bool(leaves) and all(d.placement == Sharded(0) for d in leaves)

    def gather_at(self, node: cst.CSTNode, value: Value) -> Value:
        """The value of an expression around which all rows are put together."""
        if not any(not d.is_replicated for d in self.run.objects.leaves(value)):
            self.run.plain_sources.add(node)
            return value
        args = Arguments([value], nodes={0: node})  # type: ignore[dict-item]
        repair = self._repair(args, node, _by_gathering, "what follows works on the batch as a whole")
        needs = frozenset((repair,))
        return v.mapped(self._copied(value, node), lambda d: self._as_whole(d, needs))

    def gathered(self, args: Arguments, node: cst.CSTNode) -> Arguments:
        """The arguments of a function that is given all rows of the batch instead of a worker's."""
        if not any(not d.is_replicated for _, x in args.all() for d in self.run.objects.leaves(x)):
            self.run.plain_calls.add(node)
            return args
        repair = self._repair(args, node, _by_gathering, "it works on the batch as a whole", "call")
        needs = frozenset((repair,))

        def gather(value: Value) -> Value:
            return v.mapped(self._copied(value, node), lambda d: self._as_whole(d, needs))

        return Arguments(
            [gather(x) for x in args.positional],
            {name: gather(x) for name, x in args.keywords.items()},
            args.rest,
            args.nodes,
        )

    @staticmethod
    def _as_whole(data: Data, needs: frozenset[Repair]) -> Data:
        if data.is_replicated or isinstance(data.placement, (Unknown, Local)):
            return data
        is_rows = any(isinstance(p, Sharded) for p in _options(data.placement))
        return replace(data, placement=REPLICATED, whole=is_rows, needs=data.needs | needs)

    def _copied(self, value: Value, node: cst.CSTNode) -> Value:
        """The value with lists and dictionaries of its own, which hold the same."""
        objects: set[v.Atom] = set()
        for atom in value:
            if isinstance(atom, Container) and any(not d.is_replicated for d in self.run.objects.leaves(v.of(atom))):
                copy = Container(atom.kind, v.Site(node, (id(atom.site.node), *atom.site.context)))
                for key in self.run.heap.fields(atom):
                    held = self.run.heap.load(atom, key)
                    self.run.heap.store(copy, key, v.mapped(held, lambda d: self._as_whole(d, frozenset())))
                objects.add(copy)
            else:
                objects.add(atom)
        return Value(value.data, frozenset(objects))

    # -- what no row tells ---------------------------------------------------------------------------------------

    def unknown(self, args: Arguments, node: cst.CSTNode) -> Value:
        """A function that nobody knows: right on the whole batch."""
        self._run_handed(args, node)
        before = self.blocked
        if any(isinstance(a, Made) and a.path == VARIABLE for _, value in args.all() for a in value):
            self.blocked = before or "it is given the variable itself, and not what that holds"
        try:
            return self.place(None, "", args, node)
        finally:
            self.blocked = before

    def _run_handed(self, args: Arguments, node: cst.CSTNode) -> None:
        """Functions that are handed to one that nobody knows may be called by it, with whatever."""
        for _, value in args.all():
            for atom in value:
                if isinstance(atom, (Function, v.Bound, v.Curried)):
                    frame = self.run.frames[self.run.tree.module_of(node)]
                    given = Arguments(rest=v.unseen("what a function is given that another library calls is not seen"))
                    self.run.calls.call(v.of(atom), given, node, frame)

    def opaque(self, parts: Sequence[Value], why: str) -> Value:
        """Made of parts in a way that cannot be undone: the same on all workers if they are."""
        leaves = [d for value in parts for d in self.run.objects.leaves(value)]
        apart = next((d for d in leaves if not d.is_replicated), None)
        needs = frozenset(r for d in leaves for r in d.needs)
        if apart is None:
            return Value(Data(needs=needs))
        return Value(Data(LOCAL if isinstance(apart.placement, Local) else Unknown(why), needs=needs))

    # -- data ----------------------------------------------------------------------------------------------------

    def attribute(self, data: Data, name: str, node: cst.CSTNode) -> Value:
        parent = self.run.tree.parent.get(node)
        if isinstance(parent, cst.Call) and parent.func is node:
            return v.of(Method(Value(data), name))
        if name in _DESCRIPTIONS:
            return NUMBER
        if isinstance(data.placement, Shape) and name in ("rank", "ndims"):
            return Value(Data(constant=NOT_CONSTANT if data.rows is None else data.rows, rank=0, needs=data.needs))
        if data.layer and name == "layers":
            return Value(data)
        if data.layer:
            return Value(Data(Sharded(0), symbolic=True)) if name in _TENSORS_OF_LAYERS else Value(Data(nested=True))
        owner = Value(data)
        for path in (f"tensorflow.Tensor.{name}", f"numpy.ndarray.{name}"):
            row = ops.lookup(path)
            if row is not None:
                nodes = {0: node.value} if isinstance(node, cst.Attribute) else {}
                return self.place(row, path, Arguments([owner], nodes=nodes), node)  # type: ignore[arg-type]
        if name == "shape":
            return self.shape(data)
        if data.is_replicated or isinstance(data.placement, (Unknown, Local)):
            return Value(replace(data, constant=NOT_CONSTANT, rank=None, nested=True))
        if isinstance(data.placement, Sharded) and name in _VALUES_OF_RAGGED:
            return Value(replace(data, placement=replace(data.placement, rows="ragged"), rank=None, nested=False))
        if data.nested and name not in _STRUCTURE_OF_RAGGED:
            return Value(replace(data, constant=NOT_CONSTANT, rank=None, nested=True))
        return Value(Data(Unknown(f"what `.{name}` of a worker's part is cannot be seen"), needs=data.needs))

    @staticmethod
    def shape(data: Data) -> Value:
        if isinstance(data.placement, Sharded):
            cut = data.placement
            least = max(data.axes, 1)
            place = Shape(cut.axis, cut.rows, cut.blocks, least)
            return Value(Data(place, rank=1, needs=data.needs, rows=data.rank, counts=data.counts))
        if data.is_replicated or isinstance(data.placement, Partial):
            return Value(Data(rank=1, needs=data.needs))
        return Value(Data(Unknown("the shape of this is not seen"), needs=data.needs))

    def item(self, data: Data, index: Value, node: cst.Subscript) -> Value:
        key = index.constant
        if data.layer:
            return Value(data)
        if (data.nested and isinstance(key, int) and not isinstance(key, bool)) or isinstance(key, str):
            return Value(replace(data, constant=NOT_CONSTANT, rank=None, counts=()))
        entries = index.only.items if isinstance(index.only, Tuple) else (index,)
        block = row_counts.picked(data, entries[0]) if entries else None
        if block is not None and len(entries) == 1:
            return Value(block)
        if block is not None:
            data, index = block, v.of(Tuple((Value(Data(constant=v.Slice(None, None, None))), *entries[1:])))
        nodes: dict[Any, Any] = {0: node.value}
        if len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
            nodes[1] = node.slice[0].slice.value
        plain, index = Value(replace(data, nested=False)), _numbered(self._as_array(index))
        return self.place(
            ops.lookup("operator.getitem"), "operator.getitem", Arguments([plain, index], nodes=nodes), node
        )

    def _as_array(self, index: Value) -> Value:
        """The index with arrays for lists of what all workers have: `x[[0, 2]]` is not `x[0, 2]`."""
        if isinstance(index.only, Tuple):
            return v.of(Tuple(tuple(map(self._as_array, index.only.items))))
        leaves = list(self.run.objects.leaves(index))
        if not isinstance(index.only, Container) or not all(d.is_replicated for d in leaves):
            return index
        return Value(Data(needs=frozenset(r for d in leaves for r in d.needs)))

    def slice(self, bounds: Sequence[Value]) -> Value:
        lower, upper, step = (b.constant for b in bounds)
        numbers = {d.counts for b in bounds for d in v.contents(b) if d.placement == ROWS}
        cut_at = numbers.pop() if len(numbers) == 1 else ()
        apart = next((d for b in bounds for d in v.contents(b) if not d.is_replicated), None)
        needs = frozenset(r for b in bounds for d in v.contents(b) for r in d.needs)
        return Value(
            Data(apart.placement if apart is not None else REPLICATED, v.Slice(lower, upper, step, cut_at), needs=needs)
        )

    @staticmethod
    def is_slice(index: Value) -> bool:
        return isinstance(index.constant, v.Slice)

    def unpacked(self, data: Data, count: int) -> list[Value] | None:
        if isinstance(data.placement, Shape):
            axis = data.placement.axis
            counts = data.counts if len(data.counts) == 1 else ()
            several = _blocks(data) > 1
            rows = Value(Data(ROWS, rank=0, needs=data.needs, integral=True, several=several, counts=counts))
            return [rows if i == axis else Value(Data(rank=0, needs=data.needs)) for i in range(count)]
        return None

    @staticmethod
    def part(data: Data) -> Value:
        """A part of a structure of data."""
        if data.nested:
            return Value(replace(data, constant=NOT_CONSTANT, rank=None, nested=False, counts=()))
        if data.is_replicated:
            return Value(replace(data, constant=NOT_CONSTANT, rank=None))
        if isinstance(data.placement, (Unknown, Local)):
            return Value(data)
        return Value(Data(Unknown(ONE_BY_ONE, ALL_GATHER), needs=data.needs))

    def elements(self, data: Data, reader: cst.CSTNode) -> Value:
        if reader in self.run.readers:
            return self.run.batch()
        if data.is_replicated:
            return Value(replace(data, constant=NOT_CONSTANT, rank=None, nested=True))
        return self.part(data)


# -- views: how an argument's data are taken to stand -----------------------------------------------------------------


def _plain(data: Data) -> Placement:
    return data.placement


def _counts_values(row: Op | None) -> bool:
    """Whether it counts on so many values a sample, if it works along the samples."""
    kind = row.kind if row is not None else None
    return isinstance(kind, (Reduces, Moments, Average)) or (isinstance(kind, Sizes) and kind.what == "size")


def _blocks(data: Data) -> int:
    """Of how many batches it is made, one behind the other."""
    return max((p.blocks for p in _options(data.placement) if isinstance(p, (Sharded, Shape))), default=1)


def _draws_alone(row: Op) -> bool:
    """Whether it draws from a generator, of which the numbers are fixed by all that was drawn before."""
    return row.path.startswith(("numpy.", "tensorflow.random.Generator."))


def _unevenly(view: View, data: Data) -> Placement:
    """A worker's share of the values is not its share of the samples, where these may have unequally many."""
    cut = view(data)
    return replace(cut, rows="ragged") if data.ragged and isinstance(cut, Sharded) else cut


def _virtual(data: Data) -> Placement:
    """All rows as a worker's part of them: what becomes of the one becomes of the other."""
    if data.whole:
        return Sharded(0)
    return REPLICATED if isinstance(data.placement, (Partial, Scaled, Shape)) else data.placement


def _gathered(data: Data) -> Placement:
    """The same, once all workers' rows are put together."""
    return Sharded(0) if _by_gathering(data) == "gather" else _virtual(data)


def _reduced(data: Data) -> Placement:
    """Sums and means over the rows as they are once the workers have put them together."""
    return REPLICATED if isinstance(data.placement, (Partial, Scaled)) else data.placement


def _by_reducing(data: Data) -> str | None:
    if isinstance(data.placement, Partial):
        return data.placement.reduction
    return "sum" if data.placement == ROWS else "unknown" if isinstance(data.placement, Scaled) else None


def _by_gathering(data: Data) -> str | None:
    if any(isinstance(p, Sharded) for p in _options(data.placement)):
        return "gather"
    return _by_reducing(data)


def _masking(path: str, args: Arguments, value: Value) -> Value:
    """What is made of masks alone by `~`, `&`, `|` and `^`, which are also the operators of whole numbers."""
    if path not in _OF_MASKS or value.data is None or value.objects:
        return value
    is_mask = all(x.data is not None and x.data.mask and not x.objects for _, x in args.all())
    return Value(replace(value.data, mask=True)) if is_mask else value


def _numbered(index: Value) -> Value:
    """The index with zeros for numbers that are not known: they pick one along their axis, whichever it is."""

    def numbered(data: Data) -> Data:
        is_number = data.rank == 0 and data.is_replicated and data.constant is NOT_CONSTANT
        return replace(data, constant=0) if is_number else data

    return v.mapped(index, numbered)


def _inferred(row: Op, call: OpCall) -> Arg:
    try:
        return row.infer(call)
    except (IndexError, ValueError, TypeError):  # such a call would fail, or its row does not expect it
        return Arg(Unknown(UNKNOWN))


def _given(call: OpCall) -> Iterator[Arg]:
    for arg in (*call.args, *call.kwargs.values()):
        yield from arg.leaves()


def _is_open(arg: Arg) -> bool:
    """Whether the number of its axes is not known, and matters."""
    return arg.rank is None and not isinstance(arg.placement, (Partial, Replicated))


def _is_undecided(result: Arg) -> bool:
    return _is_lost(result) or any(isinstance(leaf.placement, Either) for leaf in result.leaves())


def _with_ranks(call: OpCall, rank: int) -> OpCall:
    """The call where what has axes behind that of the samples has so many in all."""

    def ranked(arg: Arg) -> Arg:
        if arg.items is not None:
            return replace(arg, items=tuple(map(ranked, arg.items)))
        return replace(arg, rank=max(rank, arg.least)) if arg.least >= 2 and _is_open(arg) else arg

    return replace(call, args=[*map(ranked, call.args)], kwargs={k: ranked(a) for k, a in call.kwargs.items()})


def _deepened(call: OpCall) -> OpCall:
    """A product of matrices: what is multiplied with a batch is one, or several."""

    def deepened(arg: Arg) -> Arg:
        if arg.items is not None or arg.rank is not None:
            return arg
        return replace(arg, least=max(arg.least, 2)) if _is_open(arg) else replace(arg, rank=2)

    return replace(call, args=[*map(deepened, call.args)])


def _are_unlike(call: OpCall) -> bool:
    """Whether labels have another number of axes than predictions: Keras's losses take `(rows, 1)` and `(rows,)` for
    the same."""
    given = {**dict(zip(("y_true", "y_pred"), call.args)), **call.kwargs}
    ranks = {given[name].rank for name in ("y_true", "y_pred") if name in given} - {None}
    return len(ranks) > 1


def _of_deep(row: Op, call: OpCall, otherwise: Arg) -> Arg:
    """The result if it is the same for every number of axes that what is known to have several may have."""
    if not any(a.least >= 2 and _is_open(a) for a in _given(call)):
        return otherwise
    results = [_inferred(row, _with_ranks(call, rank)) for rank in (2, 3, 4)]
    placements = {tuple(leaf.placement for leaf in result.leaves()) for result in results}
    if len(placements) > 1 or _is_undecided(results[0]):
        return otherwise
    return _without_rank(results[0])


def _of_labels(row: Op, call: OpCall, otherwise: Arg) -> Arg:
    """Labels have one axis less than the scores of the classes."""
    given: dict[str, Arg] = {**dict(zip(("labels", "logits"), call.args)), **call.kwargs}
    logits = given.get("logits")
    if logits is None or "labels" not in given or not (logits.least >= 2 or logits.rank):
        return otherwise
    results = []
    for rank in (logits.rank,) if logits.rank else (2, 3, 4):
        kwargs = {"labels": replace(given["labels"], rank=rank - 1), "logits": replace(logits, rank=rank)}
        results.append(_inferred(row, replace(call, args=[], kwargs=kwargs)))
    if len({result.placement for result in results}) > 1 or _is_undecided(results[0]):
        return otherwise
    return replace(results[0], rank=results[0].rank if logits.rank else None)


def _without_rank(result: Arg) -> Arg:
    if result.items is not None:
        return replace(result, items=tuple(map(_without_rank, result.items)))
    return replace(result, rank=None, least=result.rank or 0)


def _stays_deep(row: Op, call: OpCall) -> bool:
    if not any(a.least >= 2 for a in _given(call)):
        return False
    result = _inferred(row, _with_ranks(call, 2))
    return result.rank is not None and result.rank >= 2


def _with_equal_ranks(row: Op, call: OpCall, otherwise: Arg) -> Arg:
    """The result if operands of which the number of axes is not known have as many as the others: then none is
    broadcast along the axis of the samples; and if pictures come in batches. This is taken on trust."""
    cut = [a for a in call.args if sharded(a.placement) is not None]
    known = {a.rank for a in cut} - {None}
    if not cut or len(known) > 1 or any(a.items is not None for a in call.args):
        return otherwise
    least = row.kind.least if isinstance(row.kind, PerSample) else 0
    rank = next(iter(known), max(2, least))
    args = [
        replace(a, rank=rank) if sharded(a.placement) is not None else replace(a, rank=0) if a.rank is None else a
        for a in call.args
    ]
    result = _inferred(row, replace(call, args=args))
    if _is_lost(result):
        return otherwise
    # Two axes were but an example.
    if known:
        return result
    found = _without_rank(result)
    return replace(found, least=found.least if any(a.least >= 2 for a in cut) else 0)


def _joined(data: Sequence[Data], view: View) -> Placement:
    joined = Data(view(data[0]))
    for d in data[1:]:
        joined = v.join_data(joined, Data(view(d)))
    return joined.placement


def _options(placement: Placement) -> Iterator[Placement]:
    if isinstance(placement, Either):
        yield from placement.options
    else:
        yield placement


def _is_lost(result: Arg) -> bool:
    return any(isinstance(p, Unknown) for leaf in result.leaves() for p in _options(leaf.placement))


def _is_dtype(path: str) -> bool:
    return path.startswith(("tensorflow.", "numpy.")) and path.rpartition(".")[2].rstrip("0123456789_") in (
        "float", "int", "uint", "bool", "complex", "string", "bfloat", "half", "double", "str",
    )  # fmt: skip
