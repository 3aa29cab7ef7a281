"""Parts of data: attributes, shapes, items, slices, elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import libcst as cst

from migrator.analysis import ops, row_counts, same_batch
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.dictionaries import is_asked_for_a_key
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import ALL_GATHER, REPLICATED, ROWS, Local, Partial, Shape, Sharded, Unknown
from migrator.analysis.placing import ragged, shapes
from migrator.analysis.values import NUMBER, Container, Data, Method, Tuple, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

ONE_BY_ONE = "the samples of a worker's part are taken one by one"
SIZELESS = "a graph is not told how many rows there are: tf.shape gives their number"
_DESCRIPTIONS = frozenset({"dtype", "ndim", "name", "device", "op", "graph"})
# The Keras tensors of a functional model that its layers know.
_TENSORS_OF_LAYERS = frozenset({"input", "output"})
_BEFORE = "what comes before this layer is not seen to work on each sample by itself"


class Parts:
    def __init__(self, run: Run) -> None:
        self.run = run

    def attribute(self, data: Data, name: str, node: cst.CSTNode) -> Value:
        parent = self.run.tree.parent.get(node)
        if isinstance(parent, cst.Call) and parent.func is node:
            return v.of(Method(Value(data), name))
        if data.foreign and data.maker is not None:  # what was fitted: `scaler.mean_`
            data = replace(data, needs=data.needs.union(self.run.given_to.get(data.maker, ())))
        if name in _DESCRIPTIONS:
            return NUMBER
        if isinstance(data.placement, Shape) and name in ("rank", "ndims"):
            return Value(Data(constant=NOT_CONSTANT if data.rows is None else data.rows, rank=0, needs=data.needs))
        if data.layer and name == "layers":
            return Value(data)
        if data.layer and name in _TENSORS_OF_LAYERS:
            if data.maker is not None:
                self.run.trust(data.maker, self.run.trusted, "")
            elif self.run.has_odd_layers:
                return Value(Data(Unknown(_BEFORE), symbolic=True))
            return Value(Data(Sharded(0), symbolic=True))
        if data.layer:
            return Value(Data(nested=True))
        owner = Value(data)
        for path in (f"tensorflow.Tensor.{name}", f"numpy.ndarray.{name}"):
            row = ops.lookup(path)
            if row is not None:
                nodes = {0: node.value} if isinstance(node, cst.Attribute) else {}
                found = self.run.placing.place(row, path, Arguments([owner], nodes=nodes), node)  # type: ignore[arg-type]
                is_lost = name == "shape" and self._is_sizeless(data)
                return v.mapped(found, lambda d: replace(d, sizeless=True)) if is_lost else found
        if name == "shape":
            return self.shape(data)
        if data.is_replicated or isinstance(data.placement, (Unknown, Local)):
            if not data.nested or name in ragged.VALUES | ragged.STRUCTURE:  # other numbers of these than of rows
                data = replace(data, counts=(), batch=frozenset())
            return Value(replace(data, constant=NOT_CONSTANT, rank=None, nested=True, maker=None))
        if isinstance(data.placement, Sharded) and name in ragged.VALUES:
            return Value(replace(data, placement=replace(data.placement, rows="ragged"), rank=None, nested=False))
        if data.nested and name not in ragged.STRUCTURE:
            return Value(replace(data, constant=NOT_CONSTANT, rank=None, nested=True))
        return Value(Data(Unknown(f"what `.{name}` of a worker's part is cannot be seen"), needs=data.needs))

    def _is_sizeless(self, data: Data) -> bool:
        if isinstance(data.placement, Sharded):
            return data.placement.axis == 0 and self.run.has_open_size
        gathers = [r.node for r in data.needs if any(o.how == "gather" for o in r.operands)]
        return data.whole and not data.across and any(map(self.run.is_traced_with, gathers))

    @staticmethod
    def shape(data: Data) -> Value:
        if isinstance(data.placement, Sharded):
            cut = data.placement
            least = max(data.axes, 1)
            place = Shape(cut.axis, cut.rows, cut.blocks, least)
            return Value(Data(place, rank=1, needs=data.needs, rows=data.rank, counts=data.counts, batch=data.batch))
        if data.is_replicated or isinstance(data.placement, Partial):
            return Value(Data(rank=1, needs=data.needs))
        return Value(Data(Unknown("the shape of this is not seen"), needs=data.needs))

    def item(self, data: Data, index: Value, node: cst.Subscript) -> Value:
        key = index.constant
        if data.layer:
            return Value(data)
        is_number = isinstance(key, int) and not isinstance(key, bool)
        is_part = data.nested and (is_number or is_asked_for_a_key(self.run.tree, node))
        if is_part or index.is_text:  # of several texts, whichever it is: a text picks no rows
            return v.with_needs(_part_of(data), index.data.needs if index.data is not None else frozenset())
        if data.sizeless and key in (0, NOT_CONSTANT):
            return self.sizeless(data)
        entries = index.only.items if isinstance(index.only, Tuple) else (index,)
        block = row_counts.picked(data, entries[0]) if entries else None
        if block is not None and len(entries) == 1:
            return Value(block)
        if block is not None:
            data, index = block, v.of(Tuple((Value(Data(constant=v.Slice(None, None, None))), *entries[1:])))
        nodes: dict[Any, Any] = {0: node.value}
        if len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
            nodes[1] = node.slice[0].slice.value
        plain, numbered = Value(replace(data, nested=False)), _numbered(self._as_array(index))
        found = self.run.placing.place(
            ops.lookup("operator.getitem"), "operator.getitem", Arguments([plain, numbered], nodes=nodes), node
        )
        return v.mapped(found, _without_rows) if self._is_one_row(data, entries) else found

    def _is_one_row(self, data: Data, entries: Sequence[Value]) -> bool:
        """Whether it is `x[-1]`, one row of all, as a script keeps it: no rows of the batch are left in it. What a loop
        takes one after the other may be put together again, and of a loss gradients go back to that row."""
        first = entries[0].constant if entries else None
        has_rows = data.whole and data.rank is not None and not (data.pairs or data.across)
        is_number = isinstance(first, int) and not isinstance(first, bool)
        return is_number and (data.placement == Sharded(0) or has_rows) and not self.run.in_loss

    def _as_array(self, index: Value) -> Value:
        """The index with arrays for lists of what all workers have: `x[[0, 2]]` is not `x[0, 2]`."""
        if isinstance(index.only, Tuple):
            return v.of(Tuple(tuple(map(self._as_array, index.only.items))))
        leaves = list(self.run.objects.leaves(index))
        are_lists = index.data is None and bool(index.objects) and all(isinstance(a, Container) for a in index)
        if not are_lists or not all(d.is_replicated for d in leaves):
            return index
        items = self.run.objects.sequence_items(index) or [self.run.objects.parts(index)]
        is_flat = all(i.data is not None and not i.objects and i.data.rank == 0 for i in items)
        return Value(Data(rank=1 if is_flat else None, needs=frozenset(r for d in leaves for r in d.needs)))

    def slice(self, bounds: Sequence[Value]) -> Value:
        lower, upper, step = (b.constant for b in bounds)
        numbers = {d.counts for b in bounds for d in v.contents(b) if d.placement == ROWS}
        cut_at = numbers.pop() if len(numbers) == 1 else ()
        apart = next((d for b in bounds for d in v.contents(b) if not d.is_replicated), None)
        needs = frozenset(r for b in bounds for d in v.contents(b) for r in d.needs)
        bound = v.Slice(lower, upper, step, cut_at)
        if apart is None:
            return Value(Data(REPLICATED, bound, needs=needs))
        return Value(Data(apart.placement, bound, needs=needs, batch=apart.batch))

    @staticmethod
    def is_slice(index: Value) -> bool:
        return isinstance(index.constant, v.Slice)

    def sizeless(self, data: Data) -> Value:
        """What is made, in a graph that is not told it, of the number of rows. A signature tells it where all rows are
        put together outside."""
        if isinstance(data.placement, Shape):
            self.run.of_fixed_size.update(self.run.traced.intersection(self.run.calls.stack))
        return Value(Data(Unknown(SIZELESS), needs=data.needs))

    def note_sizeless(self, node: cst.CSTNode, given: Sequence[Data]) -> None:
        """Notes what is made there of so many rows as a graph is not told, an error whether it is used or not."""
        is_lost = any(d.sizeless or (isinstance(d.placement, Unknown) and d.placement.why == SIZELESS) for d in given)
        if is_lost and self.run.is_seen_to_run and not self.run.is_left_alone:
            self.run.sizeless.add(node)

    def unpacked(self, data: Data, count: int) -> list[Value] | None:
        if data.sizeless:
            return [self.sizeless(data), *[Value(Data(rank=0, needs=data.needs))] * (count - 1)]
        if isinstance(data.placement, Shape):
            axis = data.placement.axis
            counts = data.counts if len(data.counts) == 1 else ()
            several = row_counts.blocks(data) > 1
            rows = Value(
                Data(ROWS, rank=0, needs=data.needs, integral=True, several=several, counts=counts, batch=data.batch)
            )
            sizes = [shapes.size_at(data, i - count) for i in range(count)]
            return [
                rows if i == axis else Value(Data(constant=sizes[i], rank=0, needs=data.needs)) for i in range(count)
            ]
        if isinstance(data.sized, Shape):
            axis = data.sized.axis
            return [Value(Data(rank=0, needs=data.needs, sized=ROWS if i == axis else None)) for i in range(count)]
        return None

    @staticmethod
    def part(data: Data) -> Value:
        """A part of a structure of data."""
        if data.nested:
            return v.mapped(_part_of(data), lambda d: replace(d, nested=False))
        if data.is_replicated:
            return Value(replace(data, constant=NOT_CONSTANT, rank=None, least=max(data.axes - 1, 0)))
        if isinstance(data.placement, (Unknown, Local)):
            return Value(data)
        return Value(Data(Unknown(ONE_BY_ONE, ALL_GATHER), needs=data.needs))

    def elements(self, data: Data, reader: cst.CSTNode) -> Value:
        rank = data.rank - 1 if data.rank and not data.nested and data.is_replicated else None
        if reader in self.run.readers:
            batch = self.run.shares.batch()
            return v.mapped(batch, lambda d: replace(d, rank=rank, nested=False)) if rank else batch
        if data.is_replicated:
            return Value(replace(data, constant=NOT_CONSTANT, rank=rank, least=0, nested=rank is None))
        if isinstance(data.placement, Sharded) and data.placement.axis > 0 and not data.nested:
            return self.run.placing.op("operator.getitem", Arguments([Value(data), v.constant(0)]), reader)
        return self.part(data)


def _part_of(data: Data) -> Value:
    return Value(same_batch.of_parts(replace(data, constant=NOT_CONSTANT, rank=None, counts=())))


def _without_rows(data: Data) -> Data:
    return replace(data, whole=False) if data.is_replicated else data


def _numbered(index: Value) -> Value:
    """The index with zeros for numbers that are not known: they pick one along their axis, whichever it is."""

    def numbered(data: Data) -> Data:
        is_number = data.rank == 0 and data.is_replicated and data.constant is NOT_CONSTANT
        return replace(data, constant=0) if is_number else data

    return v.mapped(index, numbered)
