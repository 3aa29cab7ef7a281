"""Where the result of an operation stands; what has to be put together first, where it would stand nowhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import handles, lookups, one_each, ops, row_counts, same_batch
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.libraries.tensorflow import VARIABLE
from migrator.analysis.ops.call import Arg, Op
from migrator.analysis.ops.contracting import PRODUCTS
from migrator.analysis.ops.making import Makes, Sizes, Stacked
from migrator.analysis.ops.picking import Gather, GetItem
from migrator.analysis.placement import (
    LOCAL,
    REPLICATED,
    Local,
    Partial,
    Placement,
    Scaled,
    Shape,
    Sharded,
    Unknown,
    options,
)
from migrator.analysis.placing import giving_back, traits, whole
from migrator.analysis.placing.gathering import Gathering
from migrator.analysis.placing.inference import as_value, infer
from migrator.analysis.placing.operation import Operation, operation
from migrator.analysis.placing.parts import Parts
from migrator.analysis.placing.ranks import UNKNOWN
from migrator.analysis.placing.repaired import gathered, repaired
from migrator.analysis.placing.repairing import Repairing, by_gathering
from migrator.analysis.placing.views import as_it_is
from migrator.analysis.values import NOTHING, NUMBER, Data, Function, Made, Repair, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

# What puts lists of Python's one behind the other, and adds and multiplies arrays.
_OF_LISTS = frozenset(f"operator.{name}" for name in ("add", "iadd", "concat", "iconcat", "mul", "imul"))
MEETS = "a worker's part of the batch meets what is made of all of it"
BESIDE_WHOLE = "over the rows of a worker meets what is made of all rows"
# They make arrays of whatever objects they are given, and give these again.
_WITH_OBJECTS = ("numpy.", "tensorflow.Tensor.")
_REPEATED = "the one row of a batch may meet each row of another"
_DEEPEST = 3
_GIVEN = v.unseen("what a function is given that another library calls is not seen")
# Of such a function, whatever is made of it is a worker's own, whatever it is given.
HELD = Unknown("what a function gives that another library calls is a worker's part of the batch")
UNLIKE = "a mean is taken over several batches at once, and they may be of different sizes"

# The sizes of one of Keras's tensors that they tell are no such tensors themselves.
_NUMBERS_OF_PYTHON = frozenset({"tensorflow.Tensor.shape", "numpy.ndarray.shape", "keras.backend.int_shape"})


class Placing:
    def __init__(self, run: Run) -> None:
        self.run = run
        self.repairing = Repairing(run)
        self.gathering = Gathering(run)
        self.parts = Parts(run)

    def op(self, path: str, args: Arguments, node: cst.CSTNode, made: Arguments | None = None) -> Value:
        """What the operation of that name gives; `made` are the arguments that its object was made with."""
        return self.place(ops.lookup(path), path, args, node, made)

    def place(
        self, row: Op | None, path: str, args: Arguments, node: cst.CSTNode, made: Arguments | None = None
    ) -> Value:
        """The same for an operation of which the row is known, or that has none."""
        op = operation(self.run, row, path, args, node, made)
        value = self._placed(op)
        self._note_table(op)
        lookups.note(self.run, op)
        if self.run.packages.inside:
            self.run.packages.met.note_lost(op, value)
        value = traits.kept(self.run, op, value)
        if op.symbolic and path in _NUMBERS_OF_PYTHON:
            value = v.mapped(value, lambda d: replace(d, symbolic=False))
        given = [x for _, x in args.all() if x.objects or (x.data is not None and x.data.behind)]
        if given and path.startswith(_WITH_OBJECTS):
            value = handles.behind(value, handles.given(self.run, given))
        if op.symbolic and not path.startswith("keras.layers.") and len(list(args.all())) > 1:
            self.run.has_odd_layers = True  # of Keras 2 it is a layer that forgets what else it was given
        return giving_back.cut_again(self.run, node, args, value) if node in self.run.plan.cut_again else value

    def _note_table(self, op: Operation) -> None:
        """Notes what rows look up in, by what they hold: however long it is, none of it stands beside them."""
        node = op.args.nodes.get(0)
        if node is None or op.row is None or not isinstance(op.row.kind, (Gather, GetItem)):
            return
        table, index = [*op.args.positional, NOTHING, NOTHING][:2]
        is_whole = table.data is not None and table.data.is_replicated and not table.objects
        is_by_rows = index.data is not None and isinstance(index.data.placement, Sharded) and not index.data.mask
        has_axis_alone = len(op.args.positional) == 2 and op.args.keywords.keys() <= {"axis"}
        (self.run.tables if is_whole and is_by_rows and has_axis_alone else self.run.not_tables).add(node)

    def _placed(self, op: Operation) -> Value:
        asked = next((d for d in op.leaves if d.sizeless), None)
        if op.row is not None and isinstance(op.row.kind, Makes):
            self.parts.note_sizeless(op.node, op.leaves)
        if asked is not None and not (op.row is not None and isinstance(op.row.kind, (GetItem, Sizes))):
            return self.parts.sizeless(asked)
        poison = next((d for d in op.leaves if isinstance(d.placement, Unknown)), None)
        if poison is not None:
            return Value(Data(poison.placement, nested=poison.nested, needs=op.needs))
        if any(isinstance(d.placement, Local) for d in op.leaves):
            return Value(Data(LOCAL, needs=op.needs))
        if op.path in _OF_LISTS and any(map(_is_list_of_rows, op.args.positional)):
            return Value(Data(Unknown("lists of a batch's rows stand one behind the other"), needs=op.needs))
        apart = [d for d in op.leaves if not d.is_replicated]
        if not apart:
            self.run.note_plain(op.node)
            return whole.replicated(self.run, op)
        if any(self.run.objects.holds_apart(value) for _, value in op.args.all()):
            return Value(Data(Unknown("what it makes of an object of the script's is not seen"), needs=op.needs))
        if one_each.may_lose_form(op.leaves) and not _tells_form(op):
            return gathered(self.run, op, "of no rows, a list does not tell what numbers it would hold")
        if op.whole and any(isinstance(d.placement, (Sharded, Shape)) for d in apart):
            value = gathered(self.run, op, MEETS)
            self._note_meeting(op.leaves, op.node)
            return value
        if not op.symbolic and same_batch.may_be_repeated(op.row, op.leaves):
            return gathered(self.run, op, _REPEATED)
        result = infer(self.run, op.row, op.args, op.made, as_it_is)
        if result.is_lost:
            return repaired(self.run, op, result)
        if result.on_trust and not op.symbolic:
            self.run.trust(op.node, self.run.trusted_rows, result.on_trust)
        if not op.symbolic and same_batch.are_of_several(op.row, op.leaves, result):
            return gathered(self.run, op, UNLIKE, ordered=False)
        reduction = _reduction(result, op.leaves)
        if reduction:
            self.run.reductions.add(reduction)
            if reduction == "mean" and any(map(row_counts.are_unlike, op.leaves)):
                return gathered(self.run, op, UNLIKE, ordered=False)
            if reduction in self.run.plan.reductions and not op.symbolic and not self.repairing.blocked:
                why = f"a {reduction} {BESIDE_WHOLE}"
                return gathered(self.run, op, why, ordered=False)
        self.run.note_plain(op.node)
        made = as_value(self.run, op, result, op.needs, whole=op.whole)
        return self.run.note_work(op.node, made) if _is_work(op) else made

    def meet(self, args: Arguments, node: cst.CSTNode) -> Repair | None:
        """The repair where what is called keeps its arguments, of which some are made of all rows; it is noted."""
        leaves = [d for _, value in args.all() for d in self.run.objects.leaves(value)]
        if any(d.whole for d in leaves) and any(isinstance(d.placement, Sharded) for d in leaves):
            self._note_meeting(leaves, node)
            return self.repairing.make(args, node, by_gathering, MEETS)
        self.run.note_plain(node)
        return None

    def _note_meeting(self, leaves: Sequence[Data], node: cst.CSTNode) -> None:
        """Notes where rows meet what is made of all rows, by the repairs that make it so; by none where it came with a
        batch as it is, and meets the rows whatever is put together."""
        needs = frozenset(r for d in leaves if d.whole for r in d.needs)
        if needs or (self.run.whole and any(d.whole for d in leaves)):
            self.run.meetings[node].add(needs)

    def inferred(self, path: str, *operands: Value) -> list[Placement]:
        """Where the results of the operation stand, if nothing is put together for it."""
        found = infer(self.run, ops.lookup(path), Arguments(list(operands)), None, as_it_is)
        return [leaf.placement for leaf in found.leaves()]

    # -- what no row tells ---------------------------------------------------------------------------------------

    def unknown(self, args: Arguments, node: cst.CSTNode) -> Value:
        """A function that nobody knows: right on the whole batch."""
        handed = [d for value in self._run_handed(args, node, _GIVEN) for d in self.run.objects.leaves(value)]
        if self.run.packages.inside:
            self.run.packages.met.note_handed(handed)
        # What they are given is put together; what they hold is not, which the numbers below do not hide.
        held = [d for value in self._run_handed(args, node, NUMBER) for d in self.run.objects.leaves(value)]
        if any(d.needs or not (d.is_replicated or isinstance(d.placement, Unknown)) for d in handed) or any(
            not d.is_replicated or _is_gathered(d) for d in held
        ):
            return Value(Data(HELD))
        if not any(isinstance(a, Made) and a.path == VARIABLE for _, value in args.all() for a in value):
            return self._of_unknown(args, node)
        with self.repairing.ruled_out("it is given the variable itself, and not what that holds"):
            return self._of_unknown(args, node)

    def _of_unknown(self, args: Arguments, node: cst.CSTNode) -> Value:
        """Of what is put together further up, the function may take gradients, of which each worker has its own."""
        value = handles.behind(self.place(None, "", args, node), handles.given(self.run, (x for _, x in args.all())))
        if not any(d.undone for _, given in args.all() for d in self.run.objects.leaves(given)):
            return value
        met = v.Repair(node, frozenset(), UNKNOWN, form="done")
        return v.mapped(value, lambda d: replace(d, needs=d.needs | {met}))

    def _run_handed(self, args: Arguments, node: cst.CSTNode, given: Value) -> Iterator[Value]:
        """Functions that are handed to one that nobody knows may be called by it, with whatever: what they give."""
        for _, value in args.all():
            for atom in self._functions_in(value):
                frame = self.run.frames[self.run.tree.module_of(node)]
                self.run.note_handed(v.of(atom))
                yield self.run.calls.call(v.of(atom), Arguments(rest=given), node, frame)

    def _functions_in(self, value: Value, depth: int = 0) -> Iterator[v.Atom]:
        """The functions among the values, in lists and the like too."""
        for atom in value:
            if isinstance(atom, (Function, v.Bound, v.Curried)):
                yield atom
            elif isinstance(atom, (v.Tuple, v.Container)) and depth < _DEEPEST:
                for item in self.run.objects.sequence_items(v.of(atom)) or (self.run.objects.parts(v.of(atom)),):
                    yield from self._functions_in(item, depth + 1)

    def opaque(self, parts: Sequence[Value], why: str) -> Value:
        """Made of parts in a way that cannot be undone: the same on all workers if they are."""
        leaves = [d for value in parts for d in self.run.objects.leaves(value)]
        apart = next((d for d in leaves if not d.is_replicated), None)
        needs = frozenset(r for d in leaves for r in d.needs)
        behind = handles.given(self.run, parts)
        if apart is None:
            return Value(Data(needs=needs, behind=behind))
        place = LOCAL if isinstance(apart.placement, Local) else Unknown(why)
        return Value(Data(place, needs=needs, behind=behind))

    def text(self, parts: Sequence[Value]) -> Value:
        """A text of Python's with these parts in it."""
        return v.mapped(self.opaque(parts, "text is made of this"), lambda d: replace(d, text=True))


def _is_work(op: Operation) -> bool:
    """Whether it is what a forward pass does: rows meet a weight, or are multiplied into sums."""
    if op.row is not None and isinstance(op.row.kind, PRODUCTS):
        return True
    return any(isinstance(a, Made) and a.path == VARIABLE for _, value in op.args.all() for a in value)


def _is_gathered(data: Data) -> bool:
    return any(operand.how == "gather" for repair in data.needs for operand in repair.operands)


def _is_list_of_rows(value: Value) -> bool:
    return value.data is not None and value.data.listed and isinstance(value.data.placement, Sharded)


def _tells_form(op: Operation) -> bool:
    """Whether a vector is made whose dtype is told: `tf.constant(weights, tf.float32)`"""
    is_typed = op.row is not None and isinstance(op.row.kind, Stacked) and op.args.get("dtype", 1) is not None
    return is_typed and all(d.rank == 1 for d in op.leaves if d.listed)


def _reduction(result: Arg, given: Sequence[Data]) -> str:
    """Whether a mean or a sum over the batch is taken here, of rows, or is divided by their number; empty where
    neither is."""
    made = {p.reduction for leaf in result.leaves() for p in options(leaf.placement) if isinstance(p, Partial)}
    found = {p for d in given for p in options(d.placement)}
    if any(isinstance(p, Sharded) for p in found):
        return next((kind for kind in ("mean", "sum") if kind in made), "")
    if any(d.is_replicated and d.needs for d in given) and any(
        isinstance(p, Scaled) and p.base == REPLICATED for leaf in result.leaves() for p in options(leaf.placement)
    ):
        return "sum"
    return "mean" if "mean" in made and Partial("mean") not in found else ""
