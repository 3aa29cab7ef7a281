"""A call of an op as the tables see it, and what comes out of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any, Callable

from migrator.analysis.placement import (
    LOCAL,
    REPLICATED,
    Either,
    Local,
    Placement,
    Replicated,
    Unknown,
    either,
    options,
)
from migrator.records import dataclass, replace


class NotConstant:
    """What an argument's `constant` is when its value is not known; false, so that `if arg.constant` is safe."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "NOT_CONSTANT"


NOT_CONSTANT = NotConstant()

# What is not seen of the rows of a batch that are taken to stay apart: how many values each has, or how many axes.
SIZE = "size"
AXES = "axes"


@dataclass(frozen=True)
class Arg:
    """An argument or a result.

    `constant` is the Python literal that it is: a number, string, None, Ellipsis, tuple or list of those; a slice,
    whose bounds may be NOT_CONSTANT; a dtype as its name ("float32"), a function as its canonical path.
    `items` are those of a list or tuple of known length, whatever they are: `placement` then matters no more.
    `least`: where the rank is not known, so many axes there are at least.
    `many`: a list of unknown length, whose items all stand as `placement` and `rank` say. `dtype` is None where it is
    not known; "bool" tells a mask from positions. `masked`: Keras carries a mask along, by which losses and metrics
    leave values out. `width`: the size of the last axis. `shape`: the sizes of a result, and of the shape of a batch,
    None for those that are not known; `sample`: how many values each row of an argument has. `first`: the whole numbers
    that its first row is written as. `on_trust`: it stands so as far as rows of a batch stay apart, which their SIZE or
    AXES would tell. `rows`: that of the first one, of values that all workers have; `as_batch`: it is as large as a
    batch of the script's.
    `choices`: the few whole numbers of which it is one. `integral`: all its numbers are whole; `positive`: it is one
    such above zero, or several in a list; `from_zero`: a list of unknown length of such numbers behind a zero.
    `listed`: a list of Python's with an item for each row.
    """

    placement: Placement = REPLICATED
    constant: Any = NOT_CONSTANT
    rank: int | None = None
    items: tuple[Arg, ...] | None = None
    many: bool = False
    least: int = 0
    dtype: str | None = None
    masked: bool = False
    width: int | None = None
    rows: int | None = None
    as_batch: bool = False
    integral: bool = False
    positive: bool = False
    from_zero: bool = False
    shape: tuple[int | None, ...] | None = None
    sample: int | None = None
    first: tuple[int, ...] | None = None
    on_trust: str = ""
    listed: bool = False
    choices: tuple[int, ...] = ()

    def leaves(self) -> Iterator[Arg]:
        """The argument, or the items that it holds."""
        if self.items is None:
            yield self
        else:
            for item in self.items:
                yield from item.leaves()

    @property
    def is_lost(self) -> bool:
        """Whether it stands nowhere on one of the ways in which it may turn out, or a part of it does."""
        return any(isinstance(p, Unknown) for leaf in self.leaves() for p in options(leaf.placement))


@dataclass
class OpCall:
    """The arguments of a call. `made`: for the call of an object, such as a loss or a layer, the call that made it."""

    args: list[Arg] = field(default_factory=list)
    kwargs: dict[str, Arg] = field(default_factory=dict)
    made: OpCall | None = None


class NeedsWhole(Exception):
    """Raised in a kind: the workers' results say nothing of the one-device result unless `repair` is made first."""

    def __init__(self, why: str, repair: str | None = None) -> None:
        super().__init__(why)
        self.unknown = Unknown(why, repair)


class Bound:
    """The arguments of a call by the names of the op's parameters; remembers which ones its kind has looked at.

    `made`: those of the call that made the object, under "*" one that the row has no name for.
    """

    def __init__(self, values: dict[str, Arg], parameters: tuple[str, ...], made: dict[str, Arg]) -> None:
        self.values = values
        self.parameters = parameters
        self.made = made
        self._seen: set[str] = set()

    def get(self, *names: str) -> Arg | None:
        """The argument of the first of these parameters that is given."""
        for name in names:
            if name in self.values:
                self._seen.add(name)
                return self.values[name]
        return None

    def all(self) -> list[Arg]:
        """The arguments, then those of the making."""
        return [*self.values.values(), *self.made.values()]

    def data(self, position: int = 0) -> Arg:
        """The argument of the parameter at this position, which must be given."""
        found = self.get(self.parameters[position])
        if found is None:
            raise NeedsWhole(f"the argument {self.parameters[position]} is not seen")
        return found

    def constant(self, *names: str, default: Any = None) -> Any:
        """The literal that one of these parameters is given, else `default`; one that is not known has no place."""
        return _known(names[0], self.get(*names), default)

    def made_with(self, name: str, default: Any) -> Any:
        """The literal that the object was made with, else `default`; one that is not known has no place."""
        return _known(name, self.made.get(name), default)

    def unseen(self) -> Iterator[tuple[str, Arg]]:
        """The leaves of the arguments that the kind has not looked at."""
        for name, value in self.values.items():
            if name not in self._seen:
                for leaf in value.leaves():
                    yield name, leaf


def _known(name: str, arg: Arg | None, default: Any) -> Any:
    value = default if arg is None else literal(arg)
    if value is NOT_CONSTANT:
        raise NeedsWhole(f"the value of {name} is not known")
    return value


def literal(arg: Arg) -> Any:
    """The Python literal that an argument is, a list of literals included, else NOT_CONSTANT."""
    if arg.items is None or arg.constant is not NOT_CONSTANT:
        return arg.constant
    values = [literal(item) for item in arg.items]
    return NOT_CONSTANT if any(value is NOT_CONSTANT for value in values) else values


Kind = Callable[[Bound], Arg]


@dataclass(frozen=True)
class Op:
    """A row of the tables: the op's public path, its parameters in their order, and the kind that places its result.

    `note` is what a reader of the docs has to know of it; `made` are the parameters of a class's making.
    """

    path: str
    parameters: tuple[str, ...]
    kind: Kind
    kind_name: str
    note: str = ""
    made: tuple[str, ...] = ()

    def place(self, call: OpCall) -> Placement:
        """The placement of the result. Of a tuple: of each of its items, or Unknown where they differ (see `infer`)."""
        result = self.infer(call)
        placements = list(dict.fromkeys(leaf.placement for leaf in result.leaves()))
        return placements[0] if len(placements) == 1 else Unknown("its parts stand in different places")

    def infer(self, call: OpCall) -> Arg:
        """The result with its rank and its items."""
        leaves = [leaf for value in (*call.args, *call.kwargs.values()) for leaf in value.leaves()]
        for leaf in leaves:
            if isinstance(leaf.placement, Unknown):
                return Arg(leaf.placement)
        if any(isinstance(leaf.placement, Local) for leaf in leaves):
            return Arg(LOCAL)
        try:
            bound = self._bind(call)
        except NeedsWhole as error:
            return Arg(REPLICATED if _all_replicated(leaves) else error.unknown)
        if any(isinstance(leaf.placement, Either) for leaf in leaves) or any(map(_has_choices, bound.all())):
            return self._either(bound)
        return self._result(bound)

    def _result(self, bound: Bound) -> Arg:
        try:
            result = self.kind(bound)
            for name, leaf in bound.unseen():
                if not isinstance(leaf.placement, Replicated):
                    raise NeedsWhole(f"{name} is not the same on all workers")
        except NeedsWhole as error:
            result = Arg(error.unknown)
        except (AssertionError, LookupError, TypeError, ValueError):
            result = Arg(Unknown("its arguments are none that it takes"))  # the op itself would fail on them
        leaves = [leaf for value in bound.values.values() for leaf in value.leaves()]
        return _replicated(result) if _all_replicated(leaves) else result

    def _either(self, bound: Bound) -> Arg:
        """Each way in which the arguments' placements, and numbers that a condition chooses, may turn out, up to as
        many as are worth telling apart."""
        count = len(bound.values)
        ways = list(itertools.islice(itertools.product(*map(_options, bound.all())), 17))
        if len(ways) > 16:
            return Arg(Unknown("too many ways in which its arguments may stand"))
        results = [
            self._result(Bound(dict(zip(bound.values, way)), bound.parameters, dict(zip(bound.made, way[count:]))))
            for way in ways
        ]
        placements = [leaf.placement for result in results for leaf in result.leaves()]
        ranks = {result.rank for result in results}
        return Arg(either(placements), rank=ranks.pop() if len(ranks) == 1 else None)

    def _bind(self, call: OpCall) -> Bound:
        """Raises NeedsWhole for an argument that the row does not name; a name for graphs is of no account."""
        values = {name: arg for name, arg in call.kwargs.items() if name != "name"}
        making = call.made or OpCall()
        made = {**dict(zip(self.made + ("*",) * len(making.args), making.args)), **making.kwargs}
        if self.parameters[:1] == ("*",):
            return Bound({**{str(i): arg for i, arg in enumerate(call.args)}, **values}, self.parameters, made)
        count = len(self.parameters)
        if len(call.args) > count + self._is_named(call.args[count:]):
            raise NeedsWhole("more arguments than its row knows")
        values.update(zip(self.parameters, call.args))
        for name in values:
            if name not in self.parameters:
                raise NeedsWhole(f"its row does not know the argument {name}")
        return Bound(values, self.parameters, made)

    def _is_named(self, further: Sequence[Arg]) -> bool:
        """Whether a name for graphs stands behind the parameters, where TensorFlow's functions have it."""
        is_of_tensorflow = self.path.startswith("tensorflow.") and ".compat." not in self.path
        return is_of_tensorflow and bool(further) and isinstance(further[0].constant, str)


def _all_replicated(leaves: list[Arg]) -> bool:
    return all(isinstance(leaf.placement, Replicated) for leaf in leaves)


def _replicated(result: Arg) -> Arg:
    items = None if result.items is None else tuple(_replicated(item) for item in result.items)
    return replace(result, placement=REPLICATED, items=items)


def _options(arg: Arg) -> list[Arg]:
    if arg.items is not None:
        return [replace(arg, items=items) for items in itertools.product(*(_options(item) for item in arg.items))]
    if isinstance(arg.placement, Either):
        return [replace(arg, placement=option) for option in arg.placement.options]
    if _has_choices(arg):
        return [replace(arg, constant=choice, choices=()) for choice in arg.choices]
    return [arg]


def _has_choices(arg: Arg) -> bool:
    return any(leaf.choices and isinstance(leaf.placement, Replicated) for leaf in arg.leaves())
