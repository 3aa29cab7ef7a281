"""Python's own functions, and the methods of its containers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Callable

import libcst as cst

from migrator.analysis import namespaces
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import LOCAL, REPLICATED, ROWS, Partial, Scaled, Shape, Sharded
from migrator.analysis.shortened import is_of_numbers, scatter, without_item, without_number
from migrator.analysis.values import (
    NONE,
    NOTHING,
    NUMBER,
    Bound,
    Container,
    Curried,
    Data,
    External,
    File,
    Function,
    Made,
    Site,
    Tuple,
    Value,
)
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

Handler = Callable[["Run", Arguments, cst.CSTNode, Frame], Value]

# They are read one element after the other, where somebody loops over them.
_LAZY = "python."
_SAME = frozenset({
    "builtins.iter", "builtins.reversed", "tqdm.tqdm", "tqdm.auto.tqdm", "tqdm.notebook.tqdm",
    "tqdm.tqdm_notebook", "itertools.islice", "itertools.cycle", "itertools.chain", "rich.progress.track",
    "tqdm.rich.tqdm", "tensorflow.nest.flatten", "tree.flatten",
})  # fmt: skip
# Each worker has its own.
_LOCAL = frozenset({
    "time.time", "time.monotonic", "time.perf_counter", "time.process_time", "timeit.default_timer", "os.getpid",
    "uuid.uuid4", "uuid.uuid1", "os.urandom", "secrets.token_hex", "socket.gethostname", "platform.node",
    "tempfile.mkdtemp", "tempfile.mkstemp", "tempfile.mktemp", "datetime.datetime.now", "datetime.datetime.utcnow",
    "datetime.datetime.today", "time.strftime", "builtins.id", "builtins.input", "tensorflow.timestamp",
})  # fmt: skip


_CONTAINERS = frozenset(
    {"builtins.list", "builtins.dict", "builtins.set", "collections.deque", "collections.OrderedDict"}
)


def _lazy(kind: str) -> Handler:
    def handler(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        made = Made(f"{_LAZY}{kind}", Site(node, frame.context))
        for i, value in enumerate(args.positional):
            run.heap.store(made, i, value)
        if args.rest is not NOTHING:
            run.heap.store(made, "rest", args.rest)
        return v.of(made)

    return handler


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
        if rest is not NOTHING:
            return v.join_all([run.objects.elements(rest, reader, node), *elements])
        return NOTHING if NOTHING in elements else v.of(Tuple(tuple(elements)))
    if kind == "enumerate":
        element = run.objects.elements(given[0], reader, node) if given else NUMBER
        return NOTHING if element is NOTHING else v.of(Tuple((NUMBER, element)))
    if kind in ("map", "filter"):
        items = [run.objects.elements(x, reader, node) for x in given[1:]]
        if NOTHING in items:
            return NOTHING
        frame = run.frames[run.tree.module_of(reader)]
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
    kept = v.join_all(run.objects.elements(x, reader, node) for x in given)
    return _ordered(run, kept) if kind == "sorted" else kept


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
            return Value(Data(count, rank=0, needs=data.needs, integral=True, several=several, counts=counts))
        return Value(Data(data.placement if not data.is_replicated else REPLICATED, rank=0, needs=data.needs))
    return Value(Data(rank=0))


def _range(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    apart = next((d for x in args.positional for d in v.contents(x) if not d.is_replicated), None)
    if apart is not None and isinstance(node, cst.Call):
        run.decide(node, Value(apart))
    made = Container("iterator", Site(node, frame.context))
    needs = frozenset(r for x in args.positional for d in v.contents(x) for r in d.needs)
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


def _sequence(kind: str) -> Handler:
    def handler(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        made = Container(kind, Site(node, frame.context))
        value = args.positional[0] if args.positional else NOTHING
        if value is NOTHING:
            return v.of(made)
        items = run.objects.sequence_items(value)
        if items is not None and kind == "tuple":
            return v.of(Tuple(tuple(items)))
        if items is not None:
            for i, item in enumerate(items):
                run.heap.store(made, i, item)
            return v.of(made)
        if value.data is not None and not value.objects:
            if kind == "set" and isinstance(value.data.placement, Sharded):
                return run.placing.unknown(args, node)
            return value
        counted = value.only
        is_known = isinstance(counted, Container) and (counted.kind == "iterator" or is_of_numbers(run, counted))
        if isinstance(counted, Container) and is_known and kind != "set" and 0 in run.heap.fields(counted):
            for key in run.heap.fields(counted):
                run.heap.store(made, key, run.heap.load(counted, key))
        else:
            run.heap.store(made, None, run.objects.elements(value, node, node))
        return v.of(Container("list", made.site)) if kind == "tuple" else v.of(made)

    def as_list(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        result = handler(run, args, node, frame)
        atom = result.only
        if isinstance(atom, Container) and atom.kind == "list" and kind == "tuple":
            for key in run.heap.fields(Container(kind, atom.site)):
                run.heap.store(atom, key, run.heap.load(Container(kind, atom.site), key))
        return result

    return as_list


def _dictionary(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    made = v.of(Container("dict", Site(node, frame.context)))
    for value in args.positional:
        _fill(run, made, value, node)
    for name, value in args.keywords.items():
        run.objects.store_item(made, v.constant(name), value, node)
    if args.rest is not NOTHING:
        run.objects.store_item(made, NUMBER, args.rest, node)
    return made


def _counter(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    made = Container("counter", Site(node, frame.context))
    run.heap.store(made, None, Value(Data(rank=0)))
    if args.positional or args.keywords or args.rest is not NOTHING:
        _count(run, made, args, node)
    return v.of(made)


def _count(run: Run, owner: Container, args: Arguments, node: cst.CSTNode) -> None:
    """Counts elements: of a worker's rows only once these are put together."""
    counted = run.placing.unknown(args, node)
    run.heap.store(owner, None, v.mapped(counted, lambda d: replace(d, rank=0, whole=False, nested=False)))


def _fill(run: Run, owner: Value, added: Value, node: cst.CSTNode) -> None:
    """Puts what a dictionary or a sequence of pairs holds into a dictionary."""
    run.objects.update(owner, added)
    if not any(isinstance(a, Container) and a.kind == "dict" for a in added):
        pair = run.objects.elements(added, node, node)
        key, item = run.objects.unpacked(pair, 2, None) if pair is not NOTHING else (NUMBER, NOTHING)
        run.objects.store_item(owner, key, item, node)


def _push(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`heapq.heappush(heap, item)`"""
    for atom in args.positional[0] if len(args.positional) > 1 else ():
        run.heap.store(atom, None, _ordered(run, args.positional[1]))
    return NONE


def _ordered(run: Run, item: Value) -> Value:
    """The item where what it is settles its place: numbers of a worker's own are put elsewhere than those of all."""
    apart = any(isinstance(d.placement, Partial) for d in run.objects.leaves(item))
    return run.placing.opaque([item], "its place among others is settled by what it is") if apart else item


def picked(run: Run, path: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value | None:
    """The one of several objects that `min` or `max` picks; None for numbers and all other functions."""
    if path not in ("builtins.min", "builtins.max") or len(args.positional) != 1 or args.rest is not NOTHING:
        return None
    items = run.objects.elements(args.positional[0], node, node) if args.positional[0].objects else NOTHING
    if not items.objects:
        return None
    key = args.keywords.get("key")
    settled = run.calls.call(key, Arguments([items]), node, frame) if key is not None else items
    apart = any(not d.is_replicated or d.needs for d in run.objects.leaves(settled))
    return run.placing.opaque([items, settled], "it is picked by what it is") if apart else items


def _pop(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`heapq.heappop(heap)`, after an item was pushed where one is given."""
    _push(run, args, node, frame)
    return run.objects.parts(args.positional[0]) if args.positional else NUMBER


def _curried(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    if not args.positional:
        return NUMBER
    return v.of(Curried(args.positional[0], tuple(args.positional[1:]), tuple(args.keywords.items())))


def _class_of(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`type(obj)`: the class of one of the program's, and what surely is a list, tuple or dictionary, or no such thing;
    others are not told."""
    if len(args.positional) != 1:
        return _replicated(run, args, node, frame)
    value = args.positional[0]
    classes = [v.of(a.cls) for a in value if isinstance(a, v.Instance)]
    is_all = value.data is None and len(classes) == len(value.objects)
    kinds = _structures(value)
    # Of what a call has made it is only known what it can do: a `deque` is a list here.
    is_written = not any(isinstance(a, Container) and isinstance(a.site.node, cst.Call) for a in value)
    if kinds is not None and len(kinds) == 1 and is_written:
        return v.of(External(f"builtins.{kinds.pop() or 'object'}"))
    return v.join_all([*classes, *([] if classes and is_all else [_replicated(run, args, node, frame)])])


def _bound_method(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`types.MethodType(function, obj)`"""
    if len(args.positional) != 2:
        return v.unseen("the method that is made here is not seen")
    function, receiver = args.positional
    return Value(function.data, frozenset(Bound(a, receiver) if isinstance(a, Function) else a for a in function))


def _same(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    return args.positional[0] if args.positional else _first_keyword(args)


def _cast_to(path: str) -> Handler:
    def handler(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """`np.float32(x)`"""
        if len(args.positional) != 1 or args.keywords or args.rest is not NOTHING:
            return run.placing.unknown(args, node)
        given = Arguments([args.positional[0], v.of(External(path))], nodes=args.nodes)
        return run.placing.op("numpy.ndarray.astype", given, node)

    return handler


def _first_keyword(args: Arguments) -> Value:
    return next(iter(args.keywords.values()), NUMBER)


def _get_attribute(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    if len(args.positional) < 2:
        return v.unseen("what getattr gives is not seen")
    owner, name = args.positional[0], args.positional[1].constant
    if not isinstance(name, str):
        return v.unseen("which attribute this is cannot be seen")
    found = run.objects.attribute(owner, name, node)
    return v.join(found, args.positional[2]) if len(args.positional) > 2 else found


def _namespace(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`vars(obj)`; without one, `globals()`."""
    if args.positional:
        return run.objects.attribute(args.positional[0], namespaces.ATTRIBUTE, node)
    return namespaces.of(v.of(File(run.tree.module_of(node))))


def _execute(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`exec(text)`: where it is no preparation, what it leaves behind in the names around it is not seen."""
    unseen = v.unseen("what the text that is run here sets is not seen")
    for space in args.positional[1:]:
        run.objects.store_item(space, NUMBER, unseen, node)
    if len(args.positional) == 1 and (frame.loops or frame.parent is not None):
        for name, value in (frame.names or {}).items():
            if value.data is not None and not value.objects:
                run.bindings.assign(name, unseen, frame)
    return NONE


def _set_item(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`operator.setitem(owner, key, value)`"""
    if len(args.positional) == 3:
        owner, key, value = args.positional
        run.objects.store_item(owner, key, value, node)
    return NONE


def unbound(run: Run, path: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value | None:
    """`list.append(items, item)`: a method of what it is given first; None for other functions."""
    owner, _, name = path.rpartition(".")
    if owner not in _CONTAINERS or not args.positional:
        return None
    held = Value(None, frozenset(a for a in args.positional[0] if isinstance(a, Container)))
    nodes = {k - 1 if isinstance(k, int) else k: n for k, n in args.nodes.items() if k != 0}
    given = Arguments(args.positional[1:], args.keywords, args.rest, nodes)
    return run.libraries.call_method(held, name, given, node, frame) if held is not NOTHING else None


def _set_attribute(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    if len(args.positional) == 3 and isinstance(args.positional[1].constant, str):
        run.objects.store_attribute(args.positional[0], args.positional[1].constant, args.positional[2], node)
    return NONE


def _sum(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`sum(…)` of a list is that of its terms; of an array, what the table says."""
    value = args.positional[0] if args.positional else NUMBER
    items = run.objects.sequence_items(value)
    if items:
        total = items[0]
        nodes = _element_nodes(node, len(items))
        for i, item in enumerate(items[1:], 1):
            total = run.operator("operator.add", (total, item), (nodes[0] if i == 1 else None, nodes[i]), node)
        return total
    if any(isinstance(a, (Container, Made)) for a in value):
        element = run.objects.elements(value, node, node)
        if element is NOTHING:
            return v.constant(0)
        data = element.data
        # As many terms as there are, each of one kind.
        return (
            Value(replace(data, constant=NOT_CONSTANT))
            if data is not None
            else run.placing.opaque([element], "a sum of this")
        )
    return run.placing.op("builtins.sum", args, node)


def _element_nodes(node: cst.CSTNode, count: int) -> Sequence[cst.CSTNode | None]:
    first = node.args[0].value if isinstance(node, cst.Call) and node.args else None
    if isinstance(first, (cst.List, cst.Tuple)) and len(first.elements) == count:
        return [e.value for e in first.elements]
    return [None] * count


def _scalar(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`float(x)`, `int(x)`, `str(x)`: as x is."""
    value = args.positional[0] if args.positional else NUMBER
    data = value.data
    if data is None:
        return NUMBER
    if isinstance(data.placement, Sharded) and not data.symbolic:
        return run.placing.parts.part(replace(data, nested=False))
    return Value(replace(data, constant=NOT_CONSTANT, rank=0)) if data.constant is NOT_CONSTANT else value


def _rounded(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`int(x)`, `round(x, 2)`, `bool(x)`: linear in nothing that the workers have yet to put together."""
    data = args.positional[0].data if args.positional else None
    if data is not None and isinstance(data.placement, (Partial, Scaled)):
        # However it rounds, and to how many digits.
        return run.placing.op("builtins.int", Arguments(args.positional[:1], nodes=args.nodes), node)
    return _scalar(run, args, node, frame)


def _text(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    return run.placing.opaque([x for _, x in args.all()], "text is made of this")


def _replicated(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    return NUMBER


def _structures(value: Value) -> set[str] | None:
    """The kinds of structures that the value surely is one of, "" for a tensor; None where that is not seen."""
    if value.data is not None:
        is_tensor = isinstance(value.data.placement, Sharded) and not value.data.nested and not value.objects
        return {""} if is_tensor else None
    kinds = {
        "tuple" if isinstance(a, Tuple) else a.kind if isinstance(a, Container) and a.kind in ("list", "dict") else ""
        for a in value.objects
    }
    return kinds if "" not in kinds else None


def _is_instance(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`isinstance(data, tuple)`, where a value surely is one, or a tensor; else either."""
    value = args.positional[0] if args.positional else NOTHING
    classes = args.positional[1] if len(args.positional) > 1 else NOTHING
    asked = [a.path if isinstance(a, External) else "" for x in (classes, run.objects.parts(classes)) for a in x]
    if not asked or not set(asked) <= {"builtins.tuple", "builtins.list", "builtins.dict"}:
        return NUMBER
    kinds = _structures(value)
    if kinds is None:
        return NUMBER
    found = {f"builtins.{kind}" in asked for kind in kinds}
    return v.constant(found.pop()) if len(found) == 1 else NUMBER


def _nothing(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    return NONE


def _local(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    return Value(Data(LOCAL))


def _main(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`app.run(main)`: what a program starts with."""
    for _, value in args.all():
        if value.objects:
            run.calls.call(value, Arguments(rest=NUMBER), node, frame)
    return NONE


def _record(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`namedtuple("Batch", "x y")`"""
    made = Made("collections.namedtuple", Site(node, frame.context))
    names = args.get("field_names", 1)
    fields = names.constant if names is not None else NOT_CONSTANT
    items = run.objects.sequence_items(names) if names is not None else None
    if isinstance(fields, str):
        run.heap.store(made, "fields", v.constant(fields.replace(",", " ")))
    elif items is not None:
        run.heap.store(made, "fields", v.constant(" ".join(str(i.constant) for i in items)))
    return v.of(made)


def make_record(run: Run, atom: Made, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    made = Container("record", Site(node, frame.context))
    names = run.heap.load(atom, "fields").constant
    for name, value in zip(names.split() if isinstance(names, str) else (), args.positional):
        run.heap.store(made, name, value)
    for name, value in args.keywords.items():
        run.heap.store(made, name, value)
    return v.of(made)


FUNCTIONS: dict[str, Handler] = {
    "builtins.zip": _lazy("zip"),
    "builtins.enumerate": _lazy("enumerate"),
    "builtins.map": _lazy("map"),
    "builtins.filter": _lazy("filter"),
    "builtins.sorted": _lazy("sorted"),
    "builtins.next": _next,
    "heapq.heappush": _push,
    "heapq.heappop": _pop,
    "heapq.heappushpop": _pop,
    "heapq.heapreplace": _pop,
    "bisect.insort": _push,
    "bisect.insort_left": _push,
    "bisect.insort_right": _push,
    "builtins.len": _length,
    "builtins.range": _range,
    "tqdm.trange": _range,
    "builtins.list": _sequence("list"),
    "builtins.tuple": _sequence("tuple"),
    "builtins.set": _sequence("set"),
    "builtins.dict": _dictionary,
    "collections.OrderedDict": _dictionary,
    "collections.defaultdict": lambda run, args, node, frame: v.of(Container("dict", Site(node, frame.context))),
    "collections.Counter": _counter,
    "collections.deque": _sequence("list"),
    "collections.namedtuple": _record,
    "functools.partial": _curried,
    "types.MethodType": _bound_method,
    "functools.wraps": lambda run, args, node, frame: v.of(External("python.identity")),
    "python.identity": _same,
    **{f"numpy.{name}": _cast_to(f"numpy.{name}") for name in ("float16", "float32", "float64", "int32", "int64")},
    "builtins.getattr": _get_attribute,
    "builtins.setattr": _set_attribute,
    "builtins.vars": _namespace,
    "builtins.globals": _namespace,
    "builtins.exec": _execute,
    "operator.setitem": _set_item,
    "builtins.sum": _sum,
    "builtins.float": _scalar,
    "builtins.int": _rounded,
    "builtins.bool": _rounded,
    "builtins.round": _rounded,
    "builtins.str": _text,
    "builtins.repr": _text,
    "builtins.format": _text,
    "builtins.print": _nothing,
    "builtins.isinstance": _is_instance,
    "builtins.hasattr": _replicated,
    "builtins.callable": _replicated,
    "builtins.type": _class_of,
    "builtins.issubclass": _replicated,
    "builtins.open": _replicated,
    "contextlib.contextmanager": _same,
    "absl.app.run": _main,
    "tensorflow.compat.v1.app.run": _main,
    "tensorflow.app.run": _main,
    "fire.Fire": _main,
    **{path: _lazy("same") for path in _SAME},
    **dict.fromkeys(_LOCAL, _local),
}


# -- containers ------------------------------------------------------------------------------------------------------


def container_method(run: Run, atom: Container, name: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    given = args.positional[0] if args.positional else NOTHING
    if name in ("append", "add", "appendleft"):
        run.heap.store(atom, None, given)
        return NONE
    if name == "__setitem__" and len(args.positional) == 2:
        run.objects.store_item(v.of(atom), given, args.positional[1], node)
        return NONE
    if name == "insert" and len(args.positional) > 1:
        scatter(run, atom)
        run.heap.store(atom, None, args.positional[1])
        return NONE
    if name in ("extend", "extendleft"):
        run.heap.store(atom, None, run.objects.elements(given, node, node))
        return NONE
    if atom.kind == "counter" and name in ("update", "subtract"):
        _count(run, atom, args, node)
        return NONE
    if name == "update":
        if atom.kind == "dict":
            _fill(run, v.of(atom), given, node)
        else:
            run.heap.store(atom, None, run.objects.elements(given, node, node))
        for key, value in args.keywords.items():
            run.objects.store_item(v.of(atom), v.constant(key), value, node)
        return NONE
    everything = run.objects.parts(v.of(atom))
    if name == "setdefault" and len(args.positional) > 1:
        run.objects.store_item(v.of(atom), given, args.positional[1], node)
        return run.objects.container_item(atom, given)
    if name in ("get", "pop", "__getitem__") and atom.kind in ("dict", "counter"):
        found = run.objects.container_item(atom, given)
        default = args.positional[1] if len(args.positional) > 1 else NONE
        return v.join(found, default)
    if name in ("pop", "popleft", "remove", "discard", "reverse") and is_of_numbers(run, atom):
        _lose(run, atom, name, args, node, frame)
    elif name in ("popleft", "remove", "reverse") or (name == "pop" and args.positional and given.constant != -1):
        scatter(run, atom)
    if name in ("pop", "popleft", "__next__", "send", "popitem"):
        return everything
    if name == "values":
        return _listed(run, everything, node, frame)
    if name == "keys":
        return _listed(run, run.objects.elements(v.of(atom), node, node), node, frame)
    if name == "items":
        keys = run.objects.elements(v.of(atom), node, node)
        return _listed(run, v.of(Tuple((keys, everything))) if everything is not NOTHING else NOTHING, node, frame)
    if name == "sort":
        run.heap.store(atom, None, _ordered(run, everything))
    if name in ("copy", "__iter__", "union", "reverse", "sort", "__enter__"):
        return v.of(atom)
    if name == "_asdict":
        return v.of(atom)
    if name in ("index", "count", "__len__", "clear", "remove", "discard", "close"):
        return NUMBER
    return run.placing.opaque([everything, *args.positional], "what this method gives is not known")


def _lose(run: Run, atom: Container, name: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> None:
    owner = node.func.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else node
    first = v.constant({"pop": -1, "popleft": 0}.get(name, NOT_CONSTANT))
    given = args.positional[0] if args.positional else first
    if name == "reverse":
        scatter(run, atom)
    elif name in ("pop", "popleft"):
        without_item(run, atom, given, owner, node, frame)
    else:
        without_number(run, atom, given, owner, node, frame)


def _listed(run: Run, element: Value, node: cst.CSTNode, frame: Frame) -> Value:
    made = Container("iterator", Site(node, (*frame.context, -1)))
    if element is not NOTHING:
        run.heap.store(made, None, element)
    return v.of(made)


def nested_method(data: Data, name: str) -> Value:
    """The parts of a dictionary of tensors of which nothing is known."""
    part = Value(replace(data, constant=NOT_CONSTANT))
    return v.of(Tuple((v.of(Tuple((NUMBER, part))),))) if name == "items" else NUMBER if name == "keys" else part
