"""Calls: how arguments meet parameters, and what functions, classes and objects of the program give back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import libcst as cst

from migrator.analysis import curried, in_place, same_batch
from migrator.analysis import values as v
from migrator.analysis.frames import Cell, Frame, join_names
from migrator.analysis.values import (
    NONE,
    NOTHING,
    Bound,
    Class,
    Container,
    Curried,
    External,
    Function,
    Instance,
    Made,
    Method,
    Site,
    Super,
    Tuple,
    Value,
)

if TYPE_CHECKING:
    from migrator.analysis.run import Run

# Objects that are made on ways of calls which differ in the last so many are kept apart.
_CALL_STRING = 3
_DEEPEST_CALLS = 40
_MOST_WAYS = 32  # of giving keywords to one call
_MOST_ROUNDS = 3  # until a function that calls itself has given all that it gives


@dataclass
class Arguments:
    """The arguments of a call. `rest` is what `*args` and `**kwargs` of unknown length hold, `starred` that of which
    it holds the items, where it is but one; `nodes` say where the script writes which argument, by position or
    keyword, and `unpacked` which come of one expression: the first position, their number, and what is unpacked.
    `ways`: where `**kwargs` is one of several dictionaries, the keywords on each of these ways; `keywords` are those of
    all ways then."""

    positional: list[Value] = field(default_factory=list)
    keywords: dict[str, Value] = field(default_factory=dict)
    rest: Value = NOTHING
    nodes: dict[int | str, cst.BaseExpression] = field(default_factory=dict)
    starred: tuple[cst.BaseExpression, Value] | None = None
    unpacked: list[tuple[int, int, cst.BaseExpression, Value]] = field(default_factory=list)
    ways: list[dict[str, Value]] = field(default_factory=list)

    def each_way(self) -> list[Arguments]:
        """What may be given, one way at a time."""
        return [replace(self, keywords=keywords, ways=[]) for keywords in self.ways] or [self]

    def take(self, ways: list[dict[str, Value]]) -> None:
        """Takes the keywords of whichever of these ways."""
        self.ways = ways if len(ways) > 1 else []
        self.keywords = {name: v.join_all(way.get(name, NOTHING) for way in ways) for way in ways for name in way}

    def may_lack(self, name: str) -> bool:
        """Whether a keyword is not given on all ways."""
        return any(name not in keywords for keywords in self.ways)

    def mapped(self, change: Callable[[Value], Value]) -> Arguments:
        """These arguments, of which those that are known one by one are changed."""
        each = [{name: change(x) for name, x in given.items()} for given in (self.keywords, *self.ways)]
        return Arguments([change(x) for x in self.positional], each[0], self.rest, self.nodes, ways=each[1:])

    def get(self, name: str, position: int | None = None) -> Value | None:
        """The argument of that keyword, or at that position."""
        if name in self.keywords:
            return self.keywords[name]
        if position is not None and position < len(self.positional):
            return self.positional[position]
        return self.rest if self.rest is not NOTHING else None

    def node(self, name: str, position: int | None = None) -> cst.BaseExpression | None:
        found = self.nodes.get(name)
        return found if found is not None or position is None else self.nodes.get(position)

    def all(self) -> Iterator[tuple[cst.BaseExpression | None, Value]]:
        for i, value in enumerate(self.positional):
            yield self.nodes.get(i), value
        for name, value in self.keywords.items():
            yield self.nodes.get(name), value
        if self.rest is not NOTHING:
            yield None, self.rest

    def written(self) -> Iterator[tuple[cst.BaseExpression | None, Value]]:
        """As `all`, but what is unpacked as one: it can only be put together before it is."""
        within = {i for first, number, *_ in self.unpacked for i in range(first, first + number)}
        for i, value in enumerate(self.positional):
            if i not in within:
                yield self.nodes.get(i), value
        for *_, node, value in self.unpacked:
            yield node, value
        yield from replace(self, positional=[], unpacked=[]).all()

    def behind(self, first: Value) -> Arguments:
        """These arguments after another one, as a method has them behind its object."""
        nodes: dict[int | str, cst.BaseExpression] = {
            (k + 1 if isinstance(k, int) else k): n for k, n in self.nodes.items()
        }
        unpacked = [(first + 1, number, node, value) for first, number, node, value in self.unpacked]
        return Arguments([first, *self.positional], self.keywords, self.rest, nodes, unpacked=unpacked, ways=self.ways)

    def key(self) -> tuple[object, ...]:
        lacking = frozenset(name for name in self.keywords if self.ways and self.may_lack(name))
        return (tuple(self.positional), tuple(sorted(self.keywords.items(), key=lambda kv: kv[0])), self.rest, lacking)


@dataclass
class _Summary:
    """What a call gave, and put into the arrays that it was given, by where they are written; and what it has read to
    get there: it holds as long as that has not changed."""

    result: Value
    version: int
    elsewhere: int
    reads: dict[tuple[Frame, str], Value | None]
    cells: set[Cell]
    loops: tuple[cst.CSTNode, ...]
    filled: dict[cst.BaseExpression, Value]


# What a function of a library does: it gives what a call of it gives.
Handler = Callable[["Run", Arguments, cst.CSTNode, Frame], Value]


class Calls:
    def __init__(self, run: Run) -> None:
        self.run = run
        self._keys: dict[object, int] = {}
        self._summaries: dict[int, _Summary] = {}
        # Calls that run, and what they have given so far.
        self._running: dict[int, Value] = {}
        self._met: set[int] = set()  # of these, the ones that were called again inside
        self._reads: list[dict[tuple[Frame, str], Value | None]] = []
        self.stack: list[cst.CSTNode] = []
        self._sites: list[cst.CSTNode] = []  # the calls that run them

    def forget(self) -> None:
        """Forgets what calls gave."""
        self._summaries.clear()
        self._keys.clear()

    def begin_anew(self) -> tuple[Any, ...]:
        """Begins with no calls known; gives those that are, to go on with."""
        known = (self._keys, self._summaries, self._running, self._met)
        self._keys, self._summaries, self._running, self._met = {}, {}, {}, set()
        return known

    def go_on(self, known: tuple[Any, ...]) -> None:
        self._keys, self._summaries, self._running, self._met = known

    @property
    def site(self) -> cst.CSTNode | None:
        """The innermost call of which a function runs now."""
        return self._sites[-1] if self._sites else None

    @property
    def is_in_layer(self) -> bool:
        """Whether code runs that a layer or a model does with its inputs."""
        names = [function.name.value for function in self.stack if isinstance(function, cst.FunctionDef)]
        return "call" in names or "__call__" in names

    # -- evaluating ----------------------------------------------------------------------------------------------

    def evaluate(self, node: cst.Call, frame: Frame) -> Value:
        if isinstance(node.func, cst.Name) and node.func.value == "super" and frame.scope.lookup("super") is None:
            behind = self._super(node, frame)
            if behind is not None:
                return behind
        function = self.run.expressions.eval(node.func, frame)
        args = self.arguments(node, frame)
        if self.run.bindings.has_nothing(node, frame):
            return NOTHING
        if self.run.said.get(node) == "gather":
            self.run.shares.need_word(node, [value for _, value in args.all()])
            args = self.run.placing.gathering.arguments(args, node)
        out = in_place.taken_out(function, args)
        is_planned = node in self.run.plan.undivided
        with self.run.evaluations.calling(function, args, node) if is_planned else nullcontext():
            result = self.call(function, args, node, frame)
        in_place.note(self.run, function, args, out, result, node)
        return result

    def _super(self, node: cst.Call, frame: Frame) -> Value | None:
        """`super()`, which is asked behind the class that it stands in; or `super(C, self)`, behind that class, which
        may be another one, wherever it stands."""
        if not node.args:
            owner = self.run.classes.at(frame.owner) if frame.owner is not None else None
            return v.of(Super(owner, frame.receiver)) if owner is not None else None
        given = [self._unused(arg.value, frame) for arg in node.args]
        asked = given[0]
        if len(given) != 2 or asked.data is not None or not all(isinstance(a, Class) for a in asked.objects):
            return v.unseen("behind which class this `super` looks is not seen")
        return v.join_all(v.of(Super(atom, given[1])) for atom in asked if isinstance(atom, Class))

    def _unused(self, node: cst.BaseExpression, frame: Frame) -> Value:
        """What a name holds, without a note that anything is done with it."""
        if isinstance(node, cst.Name):
            return self.run.bindings.load(node.value, frame)
        return self.run.expressions.eval(node, frame)

    def arguments(self, node: cst.Call, frame: Frame) -> Arguments:
        found = Arguments()
        for arg in node.args:
            value = self.run.expressions.eval(arg.value, frame)
            if arg.star == "*":
                items = self.run.objects.sequence_items(value)
                if items is None:
                    found.starred = (arg.value, value) if found.rest is NOTHING else None
                    each = v.forgotten(self.run.objects.elements(value, node, arg.value))
                    found.rest = v.join(found.rest, each)
                else:
                    found.unpacked.append((len(found.positional), len(items), arg.value, value))
                    found.positional.extend(items)
            elif arg.star == "**":
                self.unpack_keywords(value, found)
            elif arg.keyword is not None:
                found.take([{**way, arg.keyword.value: value} for way in found.ways or [found.keywords]])
                found.nodes[arg.keyword.value] = arg.value
            else:
                found.nodes[len(found.positional)] = arg.value
                found.positional.append(value)
        return found

    def unpack_keywords(self, value: Value, found: Arguments) -> None:
        """Takes what the dictionary holds, or each of those that it may be."""
        given: list[dict[str, Value]] = []
        for atom in value:
            if not isinstance(atom, Container) or atom.kind != "dict":
                found.rest = v.join(found.rest, self.run.objects.parts(v.of(atom)))
                continue
            named: dict[str, Value] = {}
            for name in self.run.heap.fields(atom):
                if isinstance(name, str):
                    named[name] = self.run.heap.load(atom, name)
                else:
                    found.rest = v.join(found.rest, self.run.heap.load(atom, name))
            given += self.run.lacking.ways(atom, named, _MOST_WAYS)
        if value.data is not None and not (value.is_none and given):
            found.rest = v.join(found.rest, self.run.objects.parts(Value(value.data)))
        ways = found.ways or [found.keywords]
        if len(ways) * len(given) > _MOST_WAYS:
            found.rest = v.join_all([found.rest, *(x for named in given for x in named.values())])
        elif given:
            found.take([{**way, **named} for way in ways for named in given])

    # -- calling -------------------------------------------------------------------------------------------------

    def call(self, function: Value, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """What the call gives, whichever of the functions it calls."""
        if node in self.run.plan.calls:
            args = self.run.placing.gathering.arguments(args, node)
        return self._each(function, args, node, frame)

    def _each(self, function: Value, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        # What an attribute holds at another time, a list of layers that a model is made of, cannot be what is called.
        callable_ = [atom for atom in function if not _is_structure(atom)]
        results = [self._call(atom, args, node, frame) for atom in callable_ or function]
        if len(results) > 1:
            self._note_torn(results, node, function)
        found = v.join_all(results)
        if function.data is not None and function.data.constant is not None:
            found = v.join(found, self.run.unknown_call(function, args, node))
            if function.data.behind:
                found = v.join(found, self.run.libraries.call_behind(function.data, args, node, frame))
        return found

    def _call(self, atom: v.Atom, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        read = self.run.packages.call_object(atom, args, node, frame)
        if read is not None:
            return read
        if isinstance(atom, Function):
            return self.function(atom, args, node, frame)
        if isinstance(atom, Bound):
            return self.function(atom.function, args.behind(atom.receiver), node, frame, atom.receiver)
        if isinstance(atom, Class):
            return self.construct(atom, args, node, frame)
        if isinstance(atom, Instance):
            return self.instance(atom, args, node, frame)
        if isinstance(atom, Curried):
            nodes = {(k + len(atom.args) if isinstance(k, int) else k): n for k, n in args.nodes.items()}
            own, others = curried.keywords(self.run, atom)
            first, *ways = ({**own, **given} for given in (args.keywords, *args.ways))
            rest = v.join(args.rest, others)
            joined = Arguments([*atom.args, *args.positional], first, rest, nodes, ways=ways)
            return self._each(atom.function, joined, node, frame)
        return self._each_way(lambda given: self._call_library(atom, given, node, frame), args, node, atom)

    def _call_library(self, atom: v.Atom, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        if isinstance(atom, External):
            return self.run.libraries.call(atom.path, args, node, frame)
        if isinstance(atom, Made):
            return self.run.libraries.call_made(atom, args, node, frame)
        if isinstance(atom, Method):
            return self.run.libraries.call_method(atom.owner, atom.name, args, node, frame)
        if isinstance(atom, Instance):
            return self.run.libraries.call_instance(atom, args, node, frame)
        return self.run.unknown_call(v.of(atom), args, node)

    def _each_way(
        self, call: Callable[[Arguments], Value], args: Arguments, node: cst.CSTNode, function: v.Atom
    ) -> Value:
        """What the call gives, whichever of several dictionaries has the keywords."""
        if not args.ways:
            return call(args)
        results = [call(given) for given in args.each_way()]
        self._note_torn(results, node, v.of(function))
        return v.join_all(results)

    def _note_torn(self, results: Sequence[Value], node: cst.CSTNode, called: Value) -> None:
        """Notes a call that is repaired on some ways: what is given on one would be given on the others, too. Functions
        can be given all rows on each of them; a layer, which Keras may call, is not."""
        if len({any(r.node is node for d in self.run.objects.leaves(x) for r in d.needs) for x in results}) > 1:
            self.run.torn.add(node)
            if all(isinstance(atom, (External, Function)) for atom in called):
                self.run.torn_functions.add(node)

    def instance(self, atom: Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """`obj(…)`: its `__call__`, or that which a base class of Keras's makes of its `call`."""
        own = self.run.classes.method(atom, "__call__")
        if own is not None:
            self.run.note_applied(atom, args, node)
            return self.call(own, args, node, frame)
        return self._each_way(lambda given: self._call_library(atom, given, node, frame), args, node, atom)

    def construct(self, cls: Class, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """`Class(…)`: what its `__new__` gives, a new object where the program has none."""
        maker = self.run.classes.maker(cls)
        made = v.of(Instance(cls, Site(node, frame.context))) if maker is None else self.call(maker, args, node, frame)
        for atom in made:
            if isinstance(atom, Instance):
                self.run.changing.note_made(atom)
            if isinstance(atom, Instance) and cls in self.run.classes.lineage(atom.cls):
                self._initialise(atom, args, node, frame)
        return made

    def _initialise(self, made: Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> None:
        for given in args.each_way():
            self.run.libraries.prepare(made, given, node, frame)
        init = self.run.classes.method(made, "__init__")
        if init is not None:
            self.call(init, args, node, frame)
        else:
            self.run.classes.fill_fields(made, args)
            later = self.run.classes.method(made, "__post_init__")
            if later is not None and all(_takes_itself_alone(atom) for atom in later):
                self.call(later, Arguments([]), node, frame)
        leave = self.run.classes.method(made, "__del__")
        if leave is not None:  # some time from here on, wherever nothing holds it any more
            self.call(leave, Arguments([]), node, frame)

    def function(
        self, function: Function, args: Arguments, node: cst.CSTNode, frame: Frame, receiver: Value = NOTHING
    ) -> Value:
        args = self.run.lifted(function, args, node, is_method=receiver is not NOTHING)
        self.run.called_at[function.node].add(node)
        self.run.evaluations.note_called(function, node)
        if function.node in self.run.traced - self.run.signatures.keys() and not self.run.changing.is_tracing:
            with self.run.changing.traced(function.node, [value for _, value in args.all()]):
                result = self._known_or_run(function, args, node, frame, receiver)
        else:
            result = self._known_or_run(function, args, node, frame, receiver)
        result = same_batch.returned(result, function.node, node, self.run.tree)
        return self.run.redefined.called(function, result, args, node)

    def _known_or_run(
        self, function: Function, args: Arguments, node: cst.CSTNode, frame: Frame, receiver: Value
    ) -> Value:
        known_by = (
            function,
            self.run.loss_made,
            frozenset(r for c in self.run.conditions for d in v.contents(c) for r in d.needs),
            args.key() if _takes_any(function.node.params) else (),
            receiver,
            self._context(node, frame),
            self.run.changing.is_tracing,
            self.run.evaluations.are_running,
            self.run.evaluations.entered,
            self.run.placing.repairing.blocked,
        )
        # What a call is told apart by is deep, and slow to hash: once is enough.
        key = self._keys.setdefault(known_by, len(self._keys))
        if key in self._running:
            self._met.add(key)
            return self._running[key]
        known = self._summaries.get(key)
        if known is not None and self._holds(known) and self.still_reads(known.reads):
            self._note_reads(known.reads)
            self.run.heap.reads |= known.cells
            self.run.statements.hand_back(known.filled, frame)
            return known.result
        if len(self.stack) >= _DEEPEST_CALLS:
            return v.unseen("the calls are nested too deeply")
        result = NOTHING
        self.stack.append(function.node)
        self._sites.append(node)
        heap = self.run.heap
        read_before, heap.reads = heap.reads, set()
        filled: dict[cst.BaseExpression, Value] = {}
        try:
            for _ in range(_MOST_ROUNDS):
                before = result
                self._running[key] = result
                self._reads.append({})
                try:
                    result = v.join(result, self._body(function, args, node, frame, receiver, filled))
                finally:
                    reads = self._reads.pop()
                    self._note_reads(reads)
                if key not in self._met or result == before:
                    break
        finally:
            self.stack.pop()
            self._sites.pop()
            self._running.pop(key, None)
            self._met.discard(key)
            cells, heap.reads = heap.reads, read_before
            heap.reads |= cells
        self.run.statements.hand_back(filled, frame)
        if not self._met:
            loops = tuple(self.run.changing.loops)
            self._summaries[key] = _Summary(result, heap.version, heap.elsewhere, reads, cells, loops, filled)
        return result

    def _holds(self, known: _Summary) -> bool:
        """Whether nothing has changed that objects held when the call read it; in other loops, nothing at all: what is
        set in which of them is noted as it is set."""
        heap = self.run.heap
        if known.version == heap.version:
            return True
        is_as_before = known.elsewhere == heap.elsewhere and known.loops == tuple(self.run.changing.loops)
        return is_as_before and all(cell.version <= known.version for cell in known.cells)

    @staticmethod
    def _context(node: cst.CSTNode, frame: Frame) -> tuple[int, ...]:
        return (*frame.context[1 - _CALL_STRING :], id(node))

    @staticmethod
    def still_reads(reads: Mapping[tuple[Frame, str], Value | None]) -> bool:
        """Whether these names hold what they have held."""
        return all(
            (owner.names or {}).get(name) == value if value is not None else name not in (owner.names or {})
            for (owner, name), value in reads.items()
        )

    @contextmanager
    def reading(self) -> Iterator[Mapping[tuple[Frame, str], Value | None]]:
        """Gives the names that are read meanwhile from outside of the calls that run."""
        reads: dict[tuple[Frame, str], Value | None] = {}
        self._reads.append(reads)
        try:
            yield reads
        finally:
            self._reads.pop()
            self._note_reads(reads)

    def note_read(self, owner: Frame, name: str, value: Value | None) -> None:
        """Tells the calls that run of a name that they read from outside."""
        if self._reads:
            self._reads[-1][owner, name] = value

    def _note_reads(self, reads: dict[tuple[Frame, str], Value | None]) -> None:
        if self._reads:
            self._reads[-1].update(reads)

    def _body(
        self,
        function: Function,
        args: Arguments,
        node: cst.CSTNode,
        frame: Frame,
        receiver: Value,
        filled: dict[cst.BaseExpression, Value],
    ) -> Value:
        """`filled` gets what the function puts into arrays that it is given, by where they are written."""
        owner = self.run.definitions.owner_of(function)
        if receiver is NOTHING and owner is not None and args.positional:
            receiver = args.positional[0]  # `Base.step(self, x)`, or `step(self, x)` in a decorator
        inner = Frame(
            self.run.tree.scopes[function.node],
            function.frame,
            self._context(node, frame),
            receiver=receiver if receiver is not NOTHING else function.frame.receiver,
            owner=owner if owner is not None else function.frame.owner,
        )
        self.run.running.append(inner)
        try:
            self._bind(function, args, inner)
            if isinstance(function.node, cst.Lambda):
                result = self.run.expressions.eval(function.node.body, inner)
                return self.run.given_back(function.node.body, result, inner)
            self.run.statements.body(function.node.body, inner)
        finally:
            self.run.running.pop()
            inner.has_ended = True
            self._note_filled(function, args, node, inner, filled)
        if inner.names is not None:
            inner.returned = v.join(inner.returned, NONE)
        inner.names = join_names([*inner.ended, inner.names])
        if self.run.definitions.is_generator(function.node):
            made = Container("iterator", Site(function.node, inner.context))
            self.run.heap.store(made, None, inner.yielded)
            return v.of(made)
        return inner.returned

    def _note_filled(
        self,
        function: Function,
        args: Arguments,
        node: cst.CSTNode,
        inner: Frame,
        filled: dict[cst.BaseExpression, Value],
    ) -> None:
        params = function.node.params
        named = (*params.posonly_params, *params.params)
        starred = (params.star_arg, params.star_kwarg)
        several = (*named, *params.kwonly_params, *(p for p in starred if isinstance(p, cst.Param)))
        known = {p.name.value for p in several}
        for name in known.intersection(inner.filled):
            position = next((i for i, p in enumerate(named) if p.name.value == name), None)
            place = args.node(name, position)
            if place is not None:
                filled[place] = inner.filled[name]
            elif args.nodes or args.unpacked or self._is_written(function, node):
                in_place.note_unnamed(self.run, node)

    def _is_written(self, function: Function, node: cst.CSTNode) -> bool:
        """Whether the program calls the function there, and not a library that is called."""
        called = self.run.seen.get(node.func, NOTHING) if isinstance(node, cst.Call) else NOTHING
        return any(isinstance(atom, Function) and atom.node is function.node for atom in called)

    def _bind(self, function: Function, args: Arguments, inner: Frame) -> None:
        params = function.node.params
        names = inner.names if inner.names is not None else {}
        positional = [*params.posonly_params, *params.params]
        for i, param in enumerate(positional):
            name = param.name.value
            given = args.positional[i] if i < len(args.positional) else self._by_keyword(function, param, args)
            names[name] = same_batch.named(given, Site(param, inner.context))
        for param in params.kwonly_params:
            given = self._by_keyword(function, param, args)
            names[param.name.value] = same_batch.named(given, Site(param, inner.context))
        if isinstance(params.star_arg, cst.Param):
            names[params.star_arg.name.value] = self._starred(args, len(positional), inner)
        if params.star_kwarg is not None:
            taken = {p.name.value for p in (*positional, *params.kwonly_params)}
            made = Container("dict", Site(params.star_kwarg, inner.context))
            for name, value in args.keywords.items():
                if name not in taken:
                    self.run.heap.store(made, name, value)
                    if args.may_lack(name):
                        self.run.lacking.note(made, name)
            if args.rest is not NOTHING:
                self.run.heap.store(made, None, args.rest)
            names[params.star_kwarg.name.value] = v.of(made)

    def _starred(self, args: Arguments, first: int, inner: Frame) -> Value:
        if args.rest is NOTHING:
            return v.of(Tuple(tuple(args.positional[first:])))
        made = Container("list", Site(inner.scope.node, inner.context))
        self.run.heap.store(made, None, v.join_all([args.rest, *args.positional[first:]]))
        return v.of(made)

    def _by_keyword(self, function: Function, param: cst.Param, args: Arguments) -> Value:
        given = args.keywords.get(param.name.value)
        if given is None:
            return self._default(function, param, args)
        # On a way that gives nothing to a parameter without a default, it is not this function that is called.
        if param.default is not None and args.may_lack(param.name.value):
            return v.join(given, self._default(function, param, args))
        return given

    def _default(self, function: Function, param: cst.Param, args: Arguments) -> Value:
        if args.rest is not NOTHING:
            return v.join(args.rest, self.run.definitions.default(function, param) or NOTHING)
        found = self.run.definitions.default(function, param)
        return found if found is not None else v.unseen(f"nothing is given for {param.name.value}")


def _takes_any(params: cst.Parameters) -> bool:
    """Whether the function may be given anything."""
    starred = isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None
    return starred or bool(params.params or params.posonly_params or params.kwonly_params)


def _takes_itself_alone(method: v.Atom) -> bool:
    """Whether it is a method that is given no fields of the kind of InitVar."""
    return isinstance(method, v.Bound) and len(method.function.node.params.params) == 1


def _is_structure(atom: v.Atom) -> bool:
    """Whether it surely is a list, dictionary, set or tuple of Python's."""
    return isinstance(atom, v.Tuple) or (isinstance(atom, Container) and atom.kind in ("list", "dict", "set"))
