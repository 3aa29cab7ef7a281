"""Where the text is going to take a worker's share, or the user says what something is; and what such a share is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import same_batch
from migrator.analysis import values as v
from migrator.analysis.classes import CUT
from migrator.analysis.libraries.python.holders import is_namespace
from migrator.analysis.libraries.python.iterating import listed
from migrator.analysis.libraries.tensorflow import VARIABLE
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import REPLICATED, ROWS, Partial, Placement, Scaled, Shape, Sharded, Unknown
from migrator.analysis.placing import BESIDE_WHOLE
from migrator.analysis.placing.ranks import UNKNOWN
from migrator.analysis.placing.views import once_reduced
from migrator.analysis.values import NOTHING, Atom, Container, Data, Instance, Made, Site, Tuple, Value
from migrator.facts.program.syntax import part_at
from migrator.facts.program.tree import nodes_in
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_TEXT = cst.Module([])
_NUMBER = "it is one number for a batch, or for a worker's part of it"
_FROM_A_FILE = "it is read from a file into which the chief writes what it has made of its part of the batch"


class Shares:
    def __init__(self, run: Run) -> None:
        self.run = run

    def cut(self, node: cst.CSTNode, value: Value) -> Value:
        """The value, or a worker's part of it where the text is going to take that; what the user says that it is."""
        if node in self.run.said:
            value = self._as_said(node, value)
        if node in self.run.written:
            self._note_written(node, value)
        if node in self._reads:
            value = v.join(value, self.run.heap.load(_content(node), None))
        if node in self.run.datasets:
            value = self.run.libraries.datasets.read_in_parts(value)
        if node in self.run.sizes:
            self.run.note_batch_size(value)
            return Value(Data(ROWS, rank=0, integral=True, batch=same_batch.OF_ALL))
        if node in self.run.rows:
            value = self._rows(node, value)
        if node in self.run.plan.expressions:
            return self.run.placing.gathering.at(node, value)
        return self.whole(value) if node in self._rows_beside else value

    def _rows(self, node: cst.CSTNode, value: Value) -> Value:
        """A worker's part of what a loop has made; a number beside it, the label of a bag of samples, has no rows."""
        value = listed(self.run, value, node)
        is_number = _is_number(value)
        (self.run.numbers if is_number else self.run.batches).add(node)
        if any(isinstance(o, Instance) and not self.run.classes.is_record(o.cls) for o in value):
            self.run.objects_cut.add(node)
        return value if is_number else same_batch.named(self.share(value, node), Site(node, ()))

    @cached_property
    def nodes(self) -> set[int]:
        """The ids of the nodes that `cut` is about: all others are told by one look-up."""
        several = (
            self.run.said,
            self.run.datasets,
            self.run.sizes,
            self.run.plan.expressions,
            self.combined_there,
            self._rows_beside,
            self.run.rows,
            self.run.written,
            self._reads,
        )
        return {id(node) for nodes in several for node in nodes}

    @cached_property
    def _reads(self) -> set[cst.CSTNode]:
        return {read for reads in self.run.written.values() for read in reads}

    @cached_property
    def combined_there(self) -> set[cst.CSTNode]:
        """What is combined where it stands, and not when a name has got it."""
        tree = self.run.tree
        return {node for node in self.run.combined if not isinstance(node, cst.Name) or tree.is_read(node)}

    def _note_written(self, node: cst.CSTNode, value: Value) -> None:
        """Notes what is written into a file as what is read from it: the chief's, as it is whenever a worker reads."""
        if any(map(self.run.may_differ, (Value(d) for d in self.run.objects.leaves(value)))):
            for read in self.run.written[node]:
                self.run.heap.store(_content(read), None, v.unseen(_FROM_A_FILE))

    @cached_property
    def _rows_beside(self) -> set[cst.CSTNode]:
        """Items by the indices of a batch that all workers have, in a loop that cuts others by the same indices; and
        what came with a batch."""
        loops = defaultdict(set)
        for node in self.run.rows:
            loop = next(iter(self.run.tree.loops_around(node)), None)
            if loop is not None:
                for index in map(_index_of, (node, *self._made_in(loop, node))):
                    if index:
                        loops[index].add(loop)
        items = self.run.tree.all_of(cst.Subscript) if loops else []
        return {
            *self.run.whole,
            *(
                item
                for item in items
                if item not in self.run.rows
                and any(self.run.tree.contains(loop, item) for loop in loops[_index_of(item)])
            ),
        }

    def _made_in(self, loop: cst.CSTNode, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """What the name of a batch gets in the loop, in front of the cut: `x[batch]`."""
        scope = self.run.tree.scope_of(node).lookup(node.value) if isinstance(node, cst.Name) else None
        for binding in scope.bindings[cst.ensure_type(node, cst.Name).value] if scope is not None else ():
            if binding.kind == "assign" and binding.value is not None and self.run.tree.contains(loop, binding.value):
                made = part_at(binding.value, binding.path)
                if made is not None:
                    yield made

    def _as_said(self, node: cst.CSTNode, value: Value) -> Value:
        said = self.run.said[node]
        placement: Placement | None = {"mean": Partial("mean"), "sum": Partial("sum")}.get(said)
        if said in ("rows", "replicated"):
            placement = Sharded(0) if said == "rows" else REPLICATED
        if placement is None:
            return value  # what is to be gathered is seen where the function is called

        def stated(data: Data) -> Data:
            if _is_seen(data):
                if data.placement != placement and not (said == "sum" and isinstance(data.placement, Sharded)):
                    self.run.contradicted[node] = data.placement
                return data
            if _is_combined(data):
                self.run.combined_by_itself.add(node)
                return data
            if self._is_put_together(data, said):
                return data
            is_put_together = any(repair.form != "done" for repair in data.needs)
            is_whole = data.is_replicated and not is_put_together and (data.whole or said != "mean")
            if is_whole or data.constant is not NOT_CONSTANT or (data.placement == placement and not data.needs):
                return data
            self.run.needed_words.add(node)
            if isinstance(placement, Partial):
                self.run.reductions.add(said)
            return replace(data, placement=placement, constant=NOT_CONSTANT, whole=False, needs=frozenset())

        return v.mapped(value, stated)

    def _is_put_together(self, data: Data, said: str) -> bool:
        """Whether rows are put together for something else, so that all of it must be: a part of it, or what stands
        beside it. Workers have unequally many then, of which means are none of the batch."""
        plan = self.run.plan
        planned = (r.node in plan.expressions or r.why.endswith(BESIDE_WHOLE) for r in data.undone)
        return said in plan.reductions or any(planned)

    def need_word(self, node: cst.CSTNode, values: Iterable[Value]) -> None:
        """Notes that the user's word on this matters, if any of these is a worker's own, or was put together for it."""
        leaves = (data for value in values for data in self.run.objects.leaves(value))
        if any(not data.is_replicated or data.needs for data in leaves):
            self.run.needed_words.add(node)

    def share(self, value: Value, at: cst.CSTNode | None = None, whole: Collection[str] = ()) -> Value:
        """A worker's part of a batch that all have as a whole. `at`: where the text is going to take it, which notes
        the numbers in it. `whole`: the names under which it stays as it is."""
        if not self.run.cuts:
            return value
        if _holds_container(value):
            items = self.run.objects.sequence_items(value)
            if items is not None:
                return v.of(Tuple(tuple(self.share(item, at, whole) for item in items)))
            return self._share_of_display(value, at, whole)
        ragged = self._has_ragged

        def part(data: Data) -> Data:
            if data.is_replicated and data.rank == 0 and not data.nested:
                return replace(data, placement=Unknown(_NUMBER), constant=NOT_CONSTANT)
            return replace(data, placement=Sharded(0), constant=NOT_CONSTANT, whole=False, ragged=ragged)

        cut = v.mapped(value, part)
        if not any(isinstance(o, Instance) for o in value):
            return cut
        share = partial(self._share_in, at, whole)
        stays = partial(self._stays, at, whole)
        objects = (self.run.classes.cut(o, share, stays) if isinstance(o, Instance) else o for o in cut)
        return Value(cut.data, frozenset(objects))

    def _share_of_display(self, value: Value, at: cst.CSTNode | None, whole: Collection[str]) -> Value:
        """`{"image": x, "label": y}`, with a worker's part under each key; some batch where it may be another value."""
        display = value.only
        if not isinstance(display, (Container, Made)) or not _has_names(display):
            return self.batch()
        site, heap = display.site, self.run.heap
        if site.context[-1:] == (CUT,):
            return value
        part = replace(display, site=Site(site.node, (*site.context, CUT)))
        if at is not None and heap.load(display, None) is not NOTHING:  # any name may have that
            self.run.rows_in[at].update(key for key in heap.fields(display) if isinstance(key, str))
            at = None
        for key in (*heap.fields(display), None):
            heap.store(part, key, self._share_in(at, whole, key, heap.load(display, key)))
        return v.of(part)

    def _share_in(self, at: cst.CSTNode | None, whole: Collection[str], name: object, held: Value) -> Value:
        """A worker's part of what the batch holds under that name."""
        if self._stays(at, whole, name, held):
            if at is not None and not held.is_none:
                self.run.numbers_in[at].add(str(name))
            return held
        if at is not None and isinstance(name, str):
            self.run.rows_in[at].add(name)
        return self.share(held, at, whole)

    @staticmethod
    def _stays(at: cst.CSTNode | None, whole: Collection[str], name: object, held: Value) -> bool:
        """Whether that is no rows: a number for all of them, of which the text can tell the name."""
        return isinstance(name, str) and (name in whole or (at is not None and _is_number(held)))

    def once_combined(self, value: Value, node: cst.CSTNode) -> Value:
        """A number of a worker's part, as all have it once that of the batch is bound to the name, or stands there;
        of a variable, what that holds."""
        if isinstance(value.only, Made) and value.only.path == VARIABLE:
            value = v.join_all(map(Value, self.run.objects.leaves(value)))
        bound = frozenset((v.Repair(node, frozenset(), "", form="bound"),))
        return v.with_needs(v.mapped(value, lambda d: replace(d, placement=once_reduced(d))), bound)

    def whole(self, value: Value) -> Value:
        """A batch that every worker has as a whole."""
        return v.mapped(value, lambda d: replace(d, whole=True) if d.is_replicated and d.rank != 0 else d)

    def batch(self) -> Value:
        """A worker's part of some batch."""
        return Value(Data(Sharded(0), nested=True, ragged=self._has_ragged)) if self.run.cuts else self.unseen()

    def unseen(self) -> Value:
        """What all workers have, whatever it is."""
        return Value(Data(nested=True, ragged=self._has_ragged))

    @cached_property
    def _has_ragged(self) -> bool:
        """Whether the program makes ragged tensors somewhere. Which data hold them is not followed."""
        return any("ragged" in name.lower() for name in self.run.tree.names)


def _is_number(value: Value) -> bool:
    """Whether it is one number, or text, that all workers have."""
    data = value.data if not value.objects else None
    return data is not None and data.is_replicated and data.rank == 0 and not data.nested


def _is_seen(data: Data) -> bool:
    """Whether it is proven how a worker's own value stands, so that nobody's word is asked for. What may be several
    values, such as those that a model gives of which nothing is known, may hold others than rows."""
    is_known = isinstance(data.placement, (Sharded, Partial, Scaled, Shape)) and not data.undone and not data.mixed
    return is_known and not (data.nested and isinstance(data.placement, Sharded))


def _is_combined(data: Data) -> bool:
    """Whether nothing but means and sums of the workers' parts are needed for it, and all that is made of these is
    seen: none of it is made by a function that a library is handed, `tf.py_function(lambda loss: …, [loss])`."""
    hows = {operand.how if repair.why != UNKNOWN else "" for repair in data.undone for operand in repair.operands}
    if not hows or not hows <= {"mean", "sum"}:
        return False
    return not any(
        isinstance(part, cst.Lambda)
        for repair in data.undone
        for operand in repair.operands
        for part in nodes_in(operand.node)
    )


def _content(read: cst.CSTNode) -> Made:
    """Holds what is read from a file that the program writes."""
    return Made("file", Site(read, ()))


def _index_of(node: cst.CSTNode) -> str:
    """`batch` for `x[batch]`, `i:i + n` for `x[i:i + n]`; empty for what has another form."""
    place = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
    if isinstance(place, cst.Slice) and place.lower is not None and not isinstance(place.lower, cst.BaseNumber):
        return _TEXT.code_for_node(place).replace(" ", "")
    return place.value.value if isinstance(place, cst.Index) and isinstance(place.value, cst.Name) else ""


def _has_names(atom: Atom) -> bool:
    """Whether it holds what it holds under names: a dictionary, a named tuple, a namespace."""
    return is_namespace(atom) or (isinstance(atom, Container) and atom.kind in ("dict", "record"))


def _holds_container(value: Value) -> bool:
    """Whether it is a list or a dictionary, or a tuple with one in it, or with an object: `{"id": a, "text": b}, y`."""
    held = [item for o in value if isinstance(o, Tuple) for item in o.items]
    return any(isinstance(o, Container) or is_namespace(o) for o in value) or any(
        _holds_container(item) or any(isinstance(o, Instance) for o in item) for item in held
    )
