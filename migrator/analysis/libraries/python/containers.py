"""Lists, sets, dictionaries and records: how they are made, and their methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import handles, one_each
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments, Handler
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.python import defaults
from migrator.analysis.libraries.python.ordering import ordered
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import Sharded
from migrator.analysis.shortened import is_of_numbers, scatter, without_item, without_number
from migrator.analysis.values import NONE, NOTHING, NUMBER, Class, Container, Data, Instance, Made, Site, Tuple, Value
from migrator.facts.names import api
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_CONTAINERS = frozenset(
    {"builtins.list", "builtins.dict", "builtins.set", "collections.deque", "collections.OrderedDict"}
)

# What they are given decides which item stands where, or is there.
_MOVING = frozenset({"pop", "remove", "discard", "rotate"})


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
            return Value(replace(value.data, listed=True))
        counted = value.only
        is_known = isinstance(counted, Container) and (counted.kind == "iterator" or is_of_numbers(run, counted))
        if isinstance(counted, Container) and is_known and kind != "set" and 0 in run.heap.fields(counted):
            for key in run.heap.fields(counted):
                run.heap.store(made, key, run.heap.load(counted, key))
        else:
            item = run.objects.elements(value, node, node)
            several = one_each.of_each(run, value, item) if kind != "set" else None
            if several is not None:
                return several
            run.heap.store(made, None, item)
        return v.of(Container("list", made.site)) if kind == "tuple" else v.of(made)

    def as_list(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        result = handler(run, args, node, frame)
        atom = result.only
        if isinstance(atom, Container) and atom.kind == "list" and kind == "tuple":
            for key in run.heap.fields(Container(kind, atom.site)):
                run.heap.store(atom, key, run.heap.load(Container(kind, atom.site), key))
        return result

    return as_list


# Methods by which Python makes a copy of an object of what they give, or of what they keep.
_REBUILDING = (
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__setstate__",
    "__getnewargs__",
    "__getnewargs_ex__",
)


def _copied(path: str) -> Handler:
    """A tensor, an array or a number as it is, and an object or a metric, of which what it holds is told as of the one
    that is copied; of what else there is the parts may be shared or not."""

    def handler(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        value = args.positional[0] if args.positional else NOTHING
        if value.data is not None and not value.objects:
            return Value(value.data)
        told = _told_by_itself(run, value, path, node, frame)
        if told is not None:
            return told
        if value.data is None and value.objects and all(_is_told_alike(run, atom) for atom in value):
            return value
        return run.libraries.unread(path, args, node, frame)

    return handler


def _told_by_itself(run: Run, value: Value, path: str, node: cst.CSTNode, frame: Frame) -> Value | None:
    """The copy of objects whose classes tell what that is, or what it is made of; None where none does so."""
    is_deep = path == "copy.deepcopy"
    own = "__deepcopy__" if is_deep else "__copy__"
    if not any(name in run.tree.methods for name in (own, *_REBUILDING)):
        return None
    found = []
    for atom in value:
        hook = run.classes.method(atom, own) if isinstance(atom, Instance) else None
        if hook is not None:
            found.append(run.calls.call(hook, Arguments([NUMBER] if is_deep else []), node, frame))
        elif isinstance(atom, Instance) and any(run.classes.of_class(atom.cls, name) for name in _REBUILDING):
            found.append(v.unseen("what a copy is made of is told by a method of its class"))
        elif is_deep and handles.given(run, (v.of(atom),)):  # of what it holds a copy is made, too
            found.append(v.unseen("what a copy is made of may be told by methods of what it holds"))
    return v.join_all(found) if found else None


def _is_told_alike(run: Run, atom: v.Atom) -> bool:
    if isinstance(atom, Made):
        return api.METRIC_CLASS.match(atom.path) is not None
    return isinstance(atom, Instance) and atom in handles.given(run, (v.of(atom),))


def _dictionary(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    return _filled(run, Container("dict", Site(node, frame.context)), args, node)


def _filled(run: Run, dictionary: Container, args: Arguments, node: cst.CSTNode) -> Value:
    made = v.of(dictionary)
    for name, value in args.keywords.items():  # first: what is filled in stands beside these
        run.objects.store_item(made, v.constant(name), value, node)
    for value in args.positional:
        _fill(run, made, value, node)
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
    # Of several tensors, such as a batch of a dataset of dictionaries, the parts stand alike, by name or in pairs; but
    # beside others it is not seen which is which.
    is_structure = added.is_structure and all(key is None for atom in owner for key in run.heap.fields(atom))
    run.objects.update(owner, added, node)
    if not is_structure and not any(isinstance(a, Container) and a.kind == "dict" for a in added):
        pair = run.objects.elements(added, node, node)
        key, item = run.objects.unpacked(pair, 2, None) if pair is not NOTHING else (NUMBER, NOTHING)
        run.objects.store_item(owner, key, item, node)
        name = key.constant
        if isinstance(name, str) and run.objects.sequence_items(added) is None:  # there may be no pair
            for atom in owner:
                if isinstance(atom, Container):
                    run.lacking.note(atom, name)


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
    fields = run.heap.load(atom, "fields").constant
    names = fields.split() if isinstance(fields, str) else []
    others = [args.rest] * len(names) if args.rest is not NOTHING else []  # `Batch(*zip(*samples))`
    for name, value in zip(names, [*args.positional, *others]):
        if name not in args.keywords:
            run.heap.store(made, name, value)
    for name, value in args.keywords.items():
        run.heap.store(made, name, value)
    return v.of(made)


def is_record_class(run: Run, atom: v.Atom) -> bool:
    """Whether it makes named tuples."""
    is_class = isinstance(atom, Class) and run.classes.is_named_tuple(atom)
    return is_class or (isinstance(atom, Made) and atom.path == "collections.namedtuple")


def make_of_items(run: Run, atom: v.Atom, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`Batch._make(items)`"""
    names = run.classes.fields(atom) if isinstance(atom, Class) else run.heap.load(atom, "fields").constant
    names = names.split() if isinstance(names, str) else names
    if len(args.positional) != 1 or not isinstance(names, list) or not names:
        return run.placing.unknown(args, node)
    items = run.objects.unpacked(args.positional[0], len(names), None)
    return run.calls.call(v.of(atom), Arguments(items), node, frame)


def _replaced(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`dataclasses.replace(batch, x=…)`"""
    given = args.positional[0] if args.positional else NOTHING
    if given.data is not None or not all(isinstance(a, Instance) and _is_filled(run, a) for a in given):
        return run.libraries.unread("dataclasses.replace", args, node, frame)
    return v.join_all(_with_others(run, a, args, node, frame) for a in given if isinstance(a, Instance))


def _is_filled(run: Run, atom: Instance) -> bool:
    """Whether its fields are what it is made with, and nothing is computed of them then."""
    return all(run.classes.method(atom, name) is None for name in ("__init__", "__post_init__"))


def _with_others(run: Run, atom: Container | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """The record with other values in the fields that are named."""
    made = replace(atom, site=Site(node, frame.context))
    for key in run.heap.fields(atom):
        run.heap.store(made, key, args.keywords.get(str(key), run.heap.load(atom, key)))
    for name, value in args.keywords.items():
        run.heap.store(made, name, value)
    return v.of(made)


def unbound(run: Run, path: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value | None:
    """`list.append(items, item)`: a method of what it is given first; None for other functions."""
    owner, _, name = path.rpartition(".")
    if owner not in _CONTAINERS or not args.positional:
        return None
    held = Value(None, frozenset(a for a in args.positional[0] if isinstance(a, Container)))
    nodes = {k - 1 if isinstance(k, int) else k: n for k, n in args.nodes.items() if k != 0}
    given = Arguments(args.positional[1:], args.keywords, args.rest, nodes)
    return run.libraries.call_method(held, name, given, node, frame) if held is not NOTHING else None


def sent_to(function: cst.CSTNode) -> Made:
    """Holds what differs from worker to worker and is sent to generators of the function."""
    return Made("sent", Site(function, ()))


def container_method(run: Run, atom: Container, name: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    given = args.positional[0] if args.positional else NOTHING
    if name == "send" and atom.kind == "iterator" and run.may_differ(given):
        run.heap.store(sent_to(atom.site.node), None, given)
    if name in ("append", "add", "appendleft"):
        run.put_in[atom].add(args.nodes.get(0))
        run.heap.store(atom, None, given)
        return NONE
    if name == "__setitem__" and len(args.positional) == 2:
        run.objects.store_item(v.of(atom), given, args.positional[1], node)
        return NONE
    if name == "insert" and len(args.positional) > 1:
        scatter(run, atom)
        run.heap.store(atom, None, run.chosen(run.objects.parts(v.of(atom)), args.positional[:1]))
        run.put_in[atom].add(args.nodes.get(1))
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
    if atom.kind == "dict" and name in ("pop", "popitem", "clear"):
        run.lacking.note_removed(atom, given.constant if name == "pop" else None)
    if name == "clear":
        run.changing.note_cleared(atom, node)
    everything = run.objects.parts(v.of(atom))
    if name in _MOVING and any(map(run.may_differ, args.positional)):
        run.heap.store(atom, None, run.chosen(everything, args.positional))
    if name == "setdefault" and len(args.positional) > 1:
        run.objects.store_item(v.of(atom), given, args.positional[1], node)
        return run.chosen(run.objects.container_item(atom, given), [given])
    if name in ("get", "pop", "__getitem__") and atom.kind in ("dict", "counter"):
        found = run.objects.container_item(atom, given)
        default = args.positional[1] if len(args.positional) > 1 else NONE
        return run.chosen(v.join(found, default), [given])
    if name in ("pop", "popleft", "remove", "discard", "reverse") and is_of_numbers(run, atom):
        _lose(run, atom, name, args, node, frame)
    elif name in ("popleft", "remove", "reverse", "rotate") or (
        name == "pop" and args.positional and given.constant != -1
    ):
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
        run.heap.store(atom, None, ordered(run, everything, args.keywords.get("key"), node, frame))
    if name in ("copy", "__iter__", "union", "reverse", "sort", "__enter__"):
        return v.of(atom)
    if name == "_replace":
        return _with_others(run, atom, args, node, frame)
    if name == "_asdict":
        return v.of(atom)
    if name == "rotate":
        return NONE
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


def _of_defaults(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    made = Container("dict", Site(node, frame.context))
    factory = args.get("default_factory", 0)
    if factory is not None and (factory.data is not None or any(_counts(run, atom) for atom in factory)):
        run.growing.add(made)
    default = defaults.run_factory(run, factory, node, frame)
    if default is not NOTHING:
        run.heap.store(made, None, default)
    named = {name: value for name, value in args.keywords.items() if name != defaults.FACTORY}
    return _filled(run, made, Arguments(args.positional[1:], named, args.rest), node)


def _counts(run: Run, atom: v.Atom) -> bool:
    """Whether a factory of defaults may give another one each time: `lambda: len(table)`, `count().__next__`."""
    if not isinstance(atom, v.Function):
        return not isinstance(atom, (v.External, v.Class))
    for name in run.tree.names_in(atom.node.body):
        scope = run.tree.scope_of(name).lookup(name.value)
        bindings = scope.bindings[name.value] if scope is not None else []
        if any(b.kind not in ("import", "def", "class") for b in bindings):
            return True
    return False


def nested_method(run: Run, data: Data, name: str, site: Site) -> Value:
    """The parts of a dictionary of tensors of which nothing is known. What has a method `values` is one: of tensors and
    arrays that are no rows of a worker's, nothing hangs on it."""
    part = Value(replace(data, constant=NOT_CONSTANT))
    if name == "values" and isinstance(data.placement, Sharded):
        several = Container("list", site)
        run.heap.store(several, None, part)
        return v.of(several)
    return v.of(Tuple((v.of(Tuple((NUMBER, part))),))) if name == "items" else NUMBER if name == "keys" else part


FUNCTIONS: dict[str, Handler] = {
    "builtins.list": _sequence("list"),
    "builtins.tuple": _sequence("tuple"),
    "builtins.set": _sequence("set"),
    "builtins.dict": _dictionary,
    "copy.copy": _copied("copy.copy"),
    "copy.deepcopy": _copied("copy.deepcopy"),
    "collections.OrderedDict": _dictionary,
    "collections.defaultdict": _of_defaults,
    "collections.defaultdict.__init__": defaults.initialised,
    "collections.Counter": _counter,
    "collections.deque": _sequence("list"),
    "collections.namedtuple": _record,
    "dataclasses.replace": _replaced,
}
