"""tf.data: what the elements of a dataset are made of. Where they are cut is not told here, but where they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

import libcst as cst

from migrator.analysis import row_counts, same_batch
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import ELEMENT, Frame
from migrator.analysis.libraries.claims import SHAPE, TENSOR_SPEC
from migrator.analysis.libraries.tensorflow import VARIABLE
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import REPLICATED
from migrator.analysis.values import NOTHING, NUMBER, Container, Data, External, Instance, Made, Site, Tuple, Value
from migrator.facts.names import api
from migrator.facts.program.syntax import argument, dotted
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

PREFIX = "tensorflow.data."
_DATASET = f"{PREFIX}Dataset"
_CUT = f"{PREFIX}Dataset.cut"  # each worker has its part already

# Methods whose elements are those of the dataset, as far as it is told here.
_KEEPING = frozenset({
    "shuffle", "repeat", "cache", "prefetch", "take", "skip", "with_options", "shard", "filter", "take_while",
    "snapshot", "as_numpy_iterator", "make_one_shot_iterator", "make_initializable_iterator", "rebatch",
    "ignore_errors", "unique", "prefetch_to_device",
})  # fmt: skip
# So many axes more than the elements of the dataset have those of these.
_DEEPER = {"batch": 1, "padded_batch": 1, "bucket_by_sequence_length": 1, "unbatch": -1}
# Where the runtime is given the size that a worker's batches are made of.
_SIZED = {f"{api.RUNTIME}.local_batch_size": 0, f"{api.RUNTIME}.shard_and_rebatch_dataset": 1}
_BATCHING = frozenset({"batch", "padded_batch", "bucket_by_sequence_length"})
# Theirs may have axes more, or fewer.
_OTHERWISE_DEEP = frozenset({
    "apply", "ragged_batch", "dense_to_ragged_batch", "sparse_batch",
})  # fmt: skip
# What makes functions that `apply` is given; the arguments of one of these, with their positions.
_TRANSFORMATIONS = f"{PREFIX}experimental."
_OF_MAP_AND_BATCH = (("map_func", 0), ("batch_size", 1), ("drop_remainder", 3))
# The function whose results theirs are.
_HANDING_ON = {"scan": "scan_func", "group_by_window": "reduce_func"}
_ANY = Site(cst.Pass(), ())


def is_source(path: str) -> bool:
    return api.is_dataset_source(path) or path == "tensorflow_datasets.load"


# Functions of the program.
_OWN = (v.Function, v.Bound)
_NUMBERED = "numbered"
# The number of a turn: the same on all workers.
_INDEX = Value(Data(rank=0))


def _specified(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    made = Made(TENSOR_SPEC, Site(node, frame.context))
    shape = args.get("shape", 0)
    if shape is not None:
        run.heap.store(made, SHAPE, shape)
    return v.of(made)


FUNCTIONS: dict[str, Callable[..., Value]] = {TENSOR_SPEC: _specified}


class Datasets:
    def __init__(self, run: Run) -> None:
        self.run = run

    def source(self, path: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        if path == "tensorflow_datasets.load":
            return self._downloaded(args, node, frame)
        name = path.rpartition(".")[2]
        given = args.positional[0] if args.positional else args.get("tensors") or args.get("datasets")
        element = Value(Data(nested=True))
        if name == "from_tensor_slices" and given is not None:
            element = self._slice_of(given)
        elif name == "from_tensors" and given is not None:
            element = self._as_tensors(given)
        elif name in ("choose_from_datasets", "sample_from_datasets") and args.positional:
            element = self.element(self.run.objects.parts(args.positional[0]))
        elif name == "range":
            element = Value(Data(rank=0))
        elif name == "zip" and given is not None:
            element = self._zipped(args, node)
        elif name == "load":
            element = self._signed(Value(Data(nested=True)), args.get("element_spec", 1))
        elif name == "from_generator" and given is not None:
            made = self.run.calls.call(given, Arguments(), node, frame)
            element = self._signed(self.run.objects.elements(made, node, node), args.get("output_signature", 3))
        elif name in ("TextLineDataset", "TFRecordDataset", "list_files"):
            element = NUMBER
        element = element if element is not NOTHING else Value(Data(nested=True))
        if path in api.BATCHED_SOURCES:
            element = row_counts.batched(element, Site(node, frame.context))
        return self._dataset(element, node, frame)

    def _size(self, args: Arguments, frame: Frame) -> tuple[Value | None, int]:
        """The size of batches, and what it is told by: of what is shared out already, that of one process."""
        node, value = args.node("batch_size", 0), args.get("batch_size", 0)
        scope = frame.scope.lookup(node.value) if isinstance(node, cst.Name) else None
        bound = scope.bindings.get(node.value, ()) if scope is not None and isinstance(node, cst.Name) else ()
        given = [self._given(made, frame) for made in ([b.value for b in bound] if bound else [node])]
        again = [b.value for b, size in zip(bound, given) if size is not None and node and size.deep_equals(node)]
        if node and again and all(b.kind == "param" or b.value in again for b in bound):  # `data, n = shard…(data, n)`
            shared = [self.run.shared_sizes.get((made, frame.context), NOTHING) for made in again if made is not None]
            return v.join_all(shared), hash((id(scope), frame.context, dotted(node)))
        first = given[0]
        if first is not None and all(other is not None and first.deep_equals(other) for other in given):
            node, value = first, self.run.expressions.eval(first, frame)
        return value, self._told_by(node, frame)

    def _given(self, made: cst.CSTNode | None, frame: Frame) -> cst.BaseExpression | None:
        """The size that a call of the runtime is given which makes a worker's of it."""
        if not isinstance(made, cst.Call):
            return None
        functions = self.run.expressions.eval(made.func, frame)
        place = next((_SIZED[o.path] for o in functions if isinstance(o, External) and o.path in _SIZED), None)
        return made.args[place].value if place is not None and len(made.args) > place else None

    def _told_by(self, size: cst.BaseExpression | None, frame: Frame) -> int:
        """What a size is told by: a name that is set once, or attributes of what has such a name."""
        first: cst.CSTNode | None = size
        while isinstance(first, cst.Attribute):
            first = first.value
        scope = frame.scope.lookup(first.value) if isinstance(first, cst.Name) else None
        is_once = scope is not None and isinstance(first, cst.Name) and len(scope.bindings.get(first.value, ())) == 1
        if size is None or not is_once:
            return hash((id(size), frame.context))
        return hash((id(scope), frame.context if scope is frame.scope else (), dotted(size)))

    def _downloaded(self, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        supervised = args.get("as_supervised")
        pair = v.of(Tuple((Value(Data()), Value(Data()))))
        element = pair if supervised is not None and supervised.constant is True else Value(Data(nested=True))
        size = args.get("batch_size")
        if size is not None and not size.is_none:
            element = row_counts.batched(element, Site(node, frame.context))
        made = self._dataset(element, node, frame)
        split = args.get("split", 1)
        items = self.run.objects.sequence_items(split) if split is not None else None
        if split is None or split.is_none:  # a dataset for each of its splits
            splits = Container("dict", Site(node, frame.context))
            self.run.heap.store(splits, None, made)
            found = v.of(splits)
        else:
            found = v.of(Tuple(tuple(made for _ in items))) if items is not None else made
        info = args.get("with_info")
        return v.of(Tuple((found, NUMBER))) if info is not None and info.constant is True else found

    def _signed(self, element: Value, signature: Value | None) -> Value:
        """What a generator yields, with the axes that are written in its signature."""
        if signature is None or element is NOTHING:
            return element
        signs, items = self.run.objects.sequence_items(signature), self.run.objects.sequence_items(element)
        if signs is not None and items is not None and len(signs) == len(items):
            return v.of(Tuple(tuple(map(self._signed, items, signs))))
        if signs is not None and items is None and element.data is not None and not element.objects:
            part = self.run.placing.parts.part(element.data)
            return v.of(Tuple(tuple(self._signed(part, sign) for sign in signs)))
        if isinstance(signature.only, Container) and signature.only.kind == "dict":
            return self._signed_by_keys(element, signature.only)
        rank = self._signed_rank(signature)
        if rank is None or element.data is None or element.objects or element.data.rank is not None:
            return element
        return Value(replace(element.data, rank=rank, nested=False))

    def _signed_by_keys(self, element: Value, signature: Container) -> Value:
        """`{"x": tf.TensorSpec(…), …}`: batching does not go into dictionaries, see `_as_element`."""
        signs = [self.run.heap.load(signature, key) for key in self.run.heap.fields(signature)]
        ranks = [self._signed_rank(sign) for sign in signs]
        if any(not d.is_replicated or d.needs for d in self.run.objects.leaves(element)):
            return element
        return Value(Data(nested=True, least=min((rank or 0 for rank in ranks), default=0)))

    def _signed_rank(self, signature: Value) -> int | None:
        only = signature.only
        if not isinstance(only, Made) or only.path != TENSOR_SPEC:
            return None
        sizes = self.run.objects.sequence_items(self.run.heap.load(only, SHAPE))
        return None if sizes is None else len(sizes)

    def _slice_of(self, value: Value) -> Value:
        if isinstance(value.only, Tuple):
            return v.of(Tuple(tuple(self._slice_of(item) for item in value.only.items)))
        items = self.run.objects.sequence_items(value)
        if items:  # rows that are written out
            return Value(Data(rank=self._rank(items[0])))
        if value.data is not None:
            return Value(_deepened(replace(value.data, constant=NOT_CONSTANT), -1))
        is_list = bool(value.objects) and all(isinstance(a, Container) and a.kind == "list" for a in value)
        if is_list:
            rank = self._rank(self.run.objects.parts(value))
            return Value(Data(rank=rank, nested=rank is None))
        held = list(self.run.objects.leaves(value))  # of a dictionary
        return Value(Data(nested=True, least=max(min((d.axes for d in held), default=0) - 1, 0)))

    def _as_tensors(self, value: Value) -> Value:
        if isinstance(value.only, Tuple):
            return v.of(Tuple(tuple(map(self._as_tensors, value.only.items))))
        if value.data is not None and not value.objects:
            return Value(replace(value.data, constant=NOT_CONSTANT))
        return Value(Data(nested=True))

    def _as_element(self, value: Value) -> Value:
        """What a function makes of an element, without the dictionaries and objects in it: batching does not go into
        them, and what they held would still stand as it is in a single sample."""
        if isinstance(value.only, Tuple):
            return v.of(Tuple(tuple(map(self._as_element, value.only.items))))
        variables = [atom for atom in value if isinstance(atom, Made) and atom.path == VARIABLE]
        if variables:  # an element has what they hold
            held_by = v.join_all(self.run.heap.load(atom, "content") for atom in variables)
            value = v.join(Value(value.data, value.objects.difference(variables)), held_by)
        rank = self._rank(value) if isinstance(value.only, Container) and value.only.kind == "list" else None
        if rank is not None and all(d.is_replicated and not d.needs for d in self.run.objects.leaves(value)):
            return Value(Data(rank=rank))  # numbers that are written in a row
        held = any(isinstance(o, (Container, Instance)) for o in value)
        return Value(Data(nested=True)) if held else value

    def _rank(self, value: Value) -> int | None:
        items = self.run.objects.sequence_items(value)
        if items:
            inner = self._rank(items[0])
            return inner + 1 if inner is not None else None
        return value.data.rank if value.data is not None and not value.objects else None

    def _zipped(self, args: Arguments, node: cst.CSTNode) -> Value:
        given = list(args.positional) or list(args.keywords.values())
        if len(given) == 1:
            given = self.run.objects.sequence_items(given[0]) or given
        return v.of(Tuple(tuple(same_batch.read(self.element(x), node, i) for i, x in enumerate(given))))

    def _dataset(self, element: Value, node: cst.CSTNode, frame: Frame, path: str = _DATASET) -> Value:
        made = Made(path, Site(node, frame.context))
        self.run.heap.store(made, ELEMENT, element)
        return v.of(made)

    def element(self, value: Value) -> Value:
        found = NOTHING
        for atom in value:
            if isinstance(atom, Made) and atom.path.startswith(PREFIX):
                found = v.join(found, self.run.heap.load(atom, ELEMENT))
        return found if found is not NOTHING else Value(Data(nested=True))

    def cut(self, value: Value, reader: cst.CSTNode | None = None) -> Value:
        """The dataset of a worker's parts of what the dataset, or whatever else the `reader` goes over, has."""
        found = set()
        for atom in value:
            if isinstance(atom, Made) and atom.path.startswith(PREFIX):
                made = Made(_CUT, atom.site)
                for kept in (ELEMENT, _NUMBERED):
                    self.run.heap.store(made, kept, self.run.heap.load(atom, kept))
                found.add(made)
        if not found:
            made = Made(_CUT, _ANY if reader is None else Site(reader, ()))
            element = self.run.objects.elements(value, reader, reader) if reader is not None else NOTHING
            self.run.heap.store(made, ELEMENT, Value(Data(nested=True)) if element is NOTHING else element)
            found.add(made)
        return Value(None, frozenset(found))

    def read_in_parts(self, value: Value) -> Value:
        """The value, each dataset in it as that of a worker's parts."""
        made = frozenset(a for a in value if isinstance(a, Made) and a.path.startswith(PREFIX))
        return Value(value.data, (value.objects - made) | self.cut(Value(None, made)).objects) if made else value

    def method(self, atom: Made, name: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        element = self.run.heap.load(atom, ELEMENT)
        if self.run.heap.load(atom, _NUMBERED) is not NOTHING:
            element = v.of(Tuple((_INDEX, element)))
        path = atom.path
        if name in ("get_next", "__next__"):
            return self.elements(atom, node)
        if name in _BATCHING:
            self.run.note_batch_size(args.get("batch_size", 0) or NUMBER)
            drops = args.get("drop_remainder", 1 if name == "batch" else 3)
            # The buckets of bucket_by_sequence_length have batches of several sizes.
            if name in ("batch", "padded_batch") and drops is not None and drops.constant is True:
                self.run.full_batches.add(id(node))
        if name in _KEEPING:
            if name == "filter" and args.positional:
                self._applied(args.positional[0], element, node, frame)
            return v.of(atom)
        if name == "apply" and args.positional and all(isinstance(f, _OWN) for f in args.positional[0]):
            made = self.run.calls.call(args.positional[0], Arguments([v.of(atom)]), node, frame)
            if made.objects and all(isinstance(o, Made) and o.path.startswith(PREFIX) for o in made):
                return made
        transformed = self._transformed(atom, node, frame) if name == "apply" else None
        if transformed is not None:
            return transformed
        if name == "concatenate" and args.positional:
            return self._dataset(v.join(element, self.element(args.positional[0])), node, frame, path)
        if name in _DEEPER or name in _OTHERWISE_DEEP:
            element = v.mapped(element, lambda d: _deepened(d, _DEEPER.get(name)))
            if name in _BATCHING:
                element = row_counts.batched(element, Site(node, frame.context), *self._size(args, frame))
            return self._dataset(element, node, frame, path)
        if name == "map" and args.positional:
            result = self._applied(args.positional[0], element, node, frame)
            return self._dataset(self._as_element(result), node, frame, path)
        if name in ("flat_map", "interleave") and args.positional:
            inner = self._applied(args.positional[0], element, node, frame)
            return self._dataset(self.element(inner), node, frame, path)
        if name in _HANDING_ON:
            return self._dataset(self._handed_on(name, element, args, node, frame, path), node, frame, path)
        if name == "enumerate":
            made = self._dataset(element, node, frame, path)
            self.run.heap.store(made.only, _NUMBERED, v.COUNT)  # type: ignore[arg-type]
            return made
        if name in ("cardinality", "element_spec", "__len__", "save"):
            return NUMBER
        if name == "reduce":
            return self._reduced(atom, element, args, node, frame)
        return self._dataset(Value(Data(nested=True)), node, frame, path)

    def _transformed(self, atom: Made, node: cst.CSTNode, frame: Frame) -> Value | None:
        """What `apply(tf.data.experimental.map_and_batch(function, 8))` makes of the dataset, and others alike; None of
        what is not known."""
        call = node.args[0].value if isinstance(node, cst.Call) and len(node.args) == 1 else None
        if not isinstance(call, cst.Call):
            return None
        only = self.run.seen.get(call.func, NOTHING).only
        if not isinstance(only, External) or not only.path.startswith(_TRANSFORMATIONS):
            return None
        name = only.path[len(_TRANSFORMATIONS) :]
        if name in _KEEPING or name == "shuffle_and_repeat":
            return v.of(atom)
        given = [argument(call, *parameter) for parameter in _OF_MAP_AND_BATCH]
        if name != "map_and_batch" or given[0] is None:
            return None
        values = [self.run.seen.get(arg.value, NUMBER) if arg is not None else None for arg in given]
        mapped = self.method(atom, "map", Arguments([values[0] or NUMBER]), call, frame).only
        kept = {"batch_size": values[1], "drop_remainder": values[2]}
        batched = Arguments([], {word: value for word, value in kept.items() if value is not None})
        return self.method(mapped, "batch", batched, node, frame) if isinstance(mapped, Made) else None

    def _handed_on(
        self, name: str, element: Value, args: Arguments, node: cst.CSTNode, frame: Frame, path: str
    ) -> Value:
        """The elements that a function gives behind something else that it is given."""
        function = args.get(_HANDING_ON[name], 1)
        if function is None:
            return Value(Data(nested=True))
        if name == "scan":
            state = args.get("initial_state", 0) or NUMBER
            items = self.run.objects.sequence_items(self._prepared(function, [state, element], node, frame))
            return self._as_element(items[1]) if items is not None and len(items) == 2 else Value(Data(nested=True))
        window = Made(path, Site(node, (id(node), *frame.context)))
        self.run.heap.store(window, ELEMENT, element)
        return self.element(self._prepared(function, [NUMBER, v.of(window)], node, frame))

    def _prepared(self, function: Value, given: list[Value], node: cst.CSTNode, frame: Frame) -> Value:
        with self.run.placing.repairing.ruled_out("it stands in a function that prepares the data"):
            return self.run.calls.call(function, Arguments(given), node, frame)

    def _reduced(self, atom: Made, element: Value, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """`dataset.reduce(state, function)`: the same on all workers where these have whole batches, and nothing else
        enters."""
        state, function = args.get("initial_state", 0), args.get("reduce_func", 1)
        if atom.path == _DATASET and state is not None and function is not None:
            with self.run.placing.repairing.ruled_out("it stands in a function that a dataset is reduced by"):
                made = self.run.calls.call(function, Arguments([state, self.run.shares.whole(element)]), node, frame)
            leaves = [d for x in (state, made) for d in self.run.objects.leaves(x)]
            if leaves and all(d.is_replicated and not d.needs for d in leaves):
                return v.mapped(v.join(state, made), lambda d: Data(nested=d.nested))
        return v.unseen("what the dataset is reduced to is not known")

    def _applied(self, function: Value, element: Value, node: cst.CSTNode, frame: Frame) -> Value:
        """What a function makes of an element, which it gets in parts if it is a tuple."""
        items = self.run.objects.sequence_items(element)
        result = self._prepared(function, items if items is not None else [element], node, frame)
        data = result.data
        if (
            data is not None
            and not result.objects
            and items is None
            and data.nested is False
            and element.data is not None
        ):
            return Value(replace(data, nested=element.data.nested, constant=NOT_CONSTANT))
        return result if result is not NOTHING else Value(Data(nested=True))

    def elements(self, atom: Made, reader: cst.CSTNode) -> Value:
        element = v.mapped(self.run.heap.load(atom, ELEMENT), lambda d: row_counts.read(_batched(d), reader))
        given = self.run.shares.share(element) if atom.path == _CUT else self.run.shares.whole(element)
        is_numbered = self.run.heap.load(atom, _NUMBERED) is not NOTHING
        return v.of(Tuple((_INDEX, given))) if is_numbered else given

    @staticmethod
    def attribute(atom: Made, name: str) -> Value:
        return v.of(v.Method(v.of(atom), name)) if name != "element_spec" else NUMBER


def _batched(data: Data) -> Data:
    return replace(data, placement=REPLICATED, constant=NOT_CONSTANT)


def _deepened(data: Data, axes: int | None) -> Data:
    """The data with so many axes more in front; an unknown number of them, if None."""
    if axes is None or (data.rank is not None and data.rank + axes < 0):
        return replace(data, rank=None, least=0, width=None, rows=None, shape=None, counts=(), batch=frozenset())
    rank = None if data.rank is None else data.rank + axes
    has_own_width = data.width is not None and (data.axes if axes > 0 else data.axes + axes) > 0
    sizes = data.sizes
    return replace(
        data,
        rank=rank,
        least=max(data.least + axes, 0),
        width=data.width if has_own_width else None,
        rows=None,
        shape=None if sizes is None else (None,) * axes + sizes[max(-axes, 0) :],
        counts=(),
        batch=frozenset(),  # whatever batches it was in before
    )
