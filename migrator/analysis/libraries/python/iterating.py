"""What loops read one element after the other: `zip`, `map`, `range`; and how many they read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import one_each, same_batch
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments, Handler
from migrator.analysis.frames import Frame
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import ALL_GATHER, REPLICATED, ROWS, Partial, Shape, Sharded, Unknown
from migrator.analysis.values import NOTHING, NUMBER, Container, Data, Instance, Made, Site, Tuple, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

# They are read one element after the other, where somebody loops over them.
_LAZY = "python."
_SAME = frozenset({
    "builtins.reversed", "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm",
    "tqdm.tqdm_notebook", "itertools.islice", "itertools.cycle", "itertools.chain", "rich.progress.track",
    "tqdm.rich.tqdm",
})  # fmt: skip
# They give the leaves of what is nested: of a dictionary what it holds, and not its keys.
_FLATTENING = frozenset({"tensorflow.nest.flatten", "tree.flatten", "keras.tree.flatten"})
_DEEPEST_STRUCTURE = 5

# Of a worker's rows, each counts its own from zero.
_OWN = Unknown("each worker counts the rows of its own part from zero", ALL_GATHER)
_OWN_COUNT = Value(Data(_OWN, rank=0))


def _lazy(kind: str) -> Handler:
    def handler(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        made = Made(f"{_LAZY}{kind}", Site(node, frame.context))
        for i, value in enumerate(args.positional):
            run.heap.store(made, i, value)
        if args.rest is not NOTHING:
            run.heap.store(made, "rest", args.rest)
        return v.of(made)

    return handler


def _iter(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`iter(queue.get, None)` calls the function until that gives the second."""
    return _lazy("same" if len(args.positional) < 2 else "calls")(run, args, node, frame)


def lazy_elements(run: Run, atom: Made, reader: cst.CSTNode, node: cst.CSTNode) -> Value | None:
    """The elements of `zip(…)`, `enumerate(…)` and the like; None for other objects."""
    if not atom.path.startswith(_LAZY):
        return None
    kind = atom.path[len(_LAZY) :]
    given = [run.heap.load(atom, i) for i in run.heap.fields(atom) if isinstance(i, int)]
    rest = run.heap.load(atom, "rest")
    if kind == "zip" and atom.site.node not in run.datasets:
        reader = atom.site.node  # of what it goes through, each is cut by itself, or not at all
    if kind == "zip":
        elements = [run.objects.elements(x, reader, node) for x in given]
        # Of one iterator that stands there twice, each gets another batch.
        elements = [same_batch.read(element, node, i) for i, element in enumerate(elements)]
        if any(one_each.are_rows(run, x) for x in given):
            elements = [x if one_each.are_rows(run, y) else _own_of(x) for x, y in zip(elements, given)]
        if rest is not NOTHING:
            joined = v.join_all([run.objects.elements(rest, reader, node), *elements])
            return v.mapped(v.forgotten(joined), _several)  # each is of another batch
        return NOTHING if NOTHING in elements else v.of(Tuple(tuple(elements)))
    if kind == "enumerate":
        element = run.objects.elements(given[0], reader, node) if given else NUMBER
        counter = _OWN_COUNT if given and one_each.are_rows(run, given[0]) else v.COUNT
        return NOTHING if element is NOTHING else v.of(Tuple((counter, element)))
    if kind in ("map", "filter"):
        items = [run.objects.elements(x, reader, node) for x in given[1:]]
        if NOTHING in items:
            return NOTHING
        frame = run.frames[run.tree.module_of(reader)]
        turns = [settling for x in given[1:] for settling in run.settling_turns(x)]
        with run.decided_by(turns, run.running[-1]):  # what the function does besides
            result = run.calls.call(given[0], Arguments(items), reader, frame) if given else NUMBER
        apart = kind == "filter" and any(not d.is_replicated or d.needs for d in run.objects.leaves(result))
        kept = v.join_all(items)
        return (
            result
            if kind == "map"
            else run.placing.opaque([kept, result], "it is picked by what it is")
            if apart
            else kept
        )
    if kind == "calls":
        return run.calls.call(given[0], Arguments(), reader, run.frames[run.tree.module_of(reader)])
    if kind == "flat":
        return v.join_all(_leaf_of(run, x, 0) for x in given[:1])
    return v.join_all(run.objects.elements(x, reader, node) for x in given)


def _own_of(item: Value) -> Value:
    """What stands beside the rows of a worker's part, by the places that these have in it."""
    own = v.mapped(item, lambda d: replace(d, placement=_OWN) if d.is_replicated and d.constant is NOT_CONSTANT else d)
    is_list = any(isinstance(atom, Container) for atom in item.objects)
    return v.join(own, _OWN_COUNT) if is_list else own


def _several(data: Data) -> Data:
    """A tuple of such values, where all workers have them."""
    rank = data.rank + 1 if data.rank is not None else None
    return replace(data, constant=NOT_CONSTANT, rank=rank, least=data.axes + 1) if data.is_replicated else data


def _leaf_of(run: Run, value: Value, depth: int) -> Value:
    """What a leaf of the structure may be, whichever it is."""
    data = value.data
    found = [] if data is None else [Value(replace(data, rank=None, nested=False) if data.nested else data)]
    for atom in value.objects:
        is_known = isinstance(atom, (Tuple, Container)) or (
            isinstance(atom, Instance) and run.classes.is_named_tuple(atom.cls)
        )
        if is_known and depth < _DEEPEST_STRUCTURE:
            found.append(_leaf_of(run, run.objects.parts(v.of(atom)), depth + 1))
        elif is_known:
            found.append(v.unseen("what lies so deep in this structure is not seen"))
        else:
            found.append(v.of(atom))
    return v.join_all(found)


def gone_through(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Arguments:
    """The arguments of a function that knows nothing of `map(…)` and the like, with lists of what these give."""
    is_any = any(isinstance(x.only, Made) and x.only.path.startswith(_LAZY) for x in args.positional)
    return args.mapped(lambda value: listed(run, value, node, frame.context)) if is_any else args


def listed(run: Run, value: Value, node: cst.CSTNode, context: tuple[int, ...] = ()) -> Value:
    """The list of what `map(…)` and the like give; all else as it is."""
    only = value.only
    if not isinstance(only, Made) or not only.path.startswith(_LAZY):
        return value
    items = _mapped_one_by_one(run, only, node)
    item = v.join_all(items) if items else lazy_elements(run, only, node, node) or NOTHING
    several = one_each.of_each(run, value, item)
    if several is not None:
        return several
    made = Container("list", Site(node, (*context, len(items)) if items else context))
    for place, each in enumerate(items or [item]):
        run.heap.store(made, place if items else None, each)
    return v.of(made)


def _mapped_one_by_one(run: Run, atom: Made, node: cst.CSTNode) -> list[Value]:
    """What `map(function, (x, y))` gives for each of the few arrays of a tuple or list; empty of others."""
    given = [run.heap.load(atom, i) for i in run.heap.fields(atom) if isinstance(i, int)]
    several = [run.objects.sequence_items(x) or [] for x in given[1:]]
    lengths = {len(items) for items in several}
    if atom.path != f"{_LAZY}map" or len(lengths) != 1 or not 1 < lengths.pop() <= v.MOST_ITEMS:
        return []
    if not all(item.picks_nothing for items in several for item in items):  # see Expressions._one_by_one
        return []
    frame = run.frames[run.tree.module_of(node)]
    return [run.calls.call(given[0], Arguments([*each]), node, frame) for each in zip(*several)]


def _next(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    default = args.positional[1] if len(args.positional) > 1 else NOTHING
    return v.join(run.objects.elements(args.positional[0], node, node), default) if args.positional else NUMBER


def _length(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    value = args.positional[0] if args.positional else NUMBER
    items = run.objects.sequence_items(value)
    if items is not None:
        return v.constant(len(items))
    data = value.data
    if data is not None and not value.objects:
        if isinstance(data.placement, Shape):
            return Value(Data(constant=NOT_CONSTANT if data.rows is None else data.rows, rank=0, needs=data.needs))
        cut = data.placement
        if isinstance(cut, Sharded) and cut.axis == 0:
            count = Partial("sum") if cut.rows == "ragged" else ROWS
            several = cut.rows == "even" or cut.blocks > 1
            counts = () if several else data.counts
            return Value(
                Data(count, rank=0, needs=data.needs, integral=True, several=several, counts=counts, batch=data.batch)
            )
        counts_all = data.whole and not (data.across or data.pairs or data.several)
        return Value(Data(data.placement, rank=0, needs=data.needs, sized=ROWS if counts_all else None))
    # What it holds may have decided how many there are of it.
    leaves = list(run.objects.leaves(value))
    lost = next((d.placement for d in leaves if isinstance(d.placement, Unknown)), REPLICATED)
    return Value(Data(lost, rank=0, needs=frozenset(repair for d in leaves for repair in d.needs)))


def _range(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    apart = next((d for x in args.positional for d in v.contents(x) if not d.is_replicated), None)
    if apart is not None and isinstance(node, cst.Call):
        run.decide(node, Value(apart))
    given = [run.agreed(args.nodes.get(i) or node, x) for i, x in enumerate(args.positional)]
    made = Container("iterator", Site(node, frame.context))
    run.turns[made] = given
    needs = frozenset(r for x in given for d in v.contents(x) for r in d.needs)
    number = Data(rank=0, needs=needs)
    start, stop, step = _bounds(args)
    # Above zero, but for the first one where it begins there.
    if (step > 0 and start >= 0) or (step < 0 and stop >= 0):
        number = replace(number, counted=True)
        if start == 0:
            run.heap.store(made, 0, Value(replace(number, constant=0)))
    run.heap.store(made, None, Value(number))
    return v.of(made)


def _bounds(args: Arguments) -> tuple[int, int, int]:
    """Start, stop and step of a `range`; -1, or 0 for the step, where they are not known."""
    given = [x.constant if isinstance(x.constant, int) else None for x in args.positional]
    start, stop, step = ([0, *given, 1] if len(given) == 1 else [*given, 1, None, None])[:3]
    return -1 if start is None else start, -1 if stop is None else stop, step or 0


FUNCTIONS: dict[str, Handler] = {
    "builtins.zip": _lazy("zip"),
    "builtins.enumerate": _lazy("enumerate"),
    "builtins.map": _lazy("map"),
    "builtins.filter": _lazy("filter"),
    "builtins.next": _next,
    "builtins.len": _length,
    "builtins.range": _range,
    "tqdm.trange": _range,
    **{path: _lazy("same") for path in _SAME},
    "builtins.iter": _iter,
    **{path: _lazy("flat") for path in _FLATTENING},
}
