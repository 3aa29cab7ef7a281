"""What an expression may be: data, with their placement, or objects that the program can call and look into.

A `Value` is a set of alternatives. Data of several alternatives are joined into one; objects stay apart, up to a bound.
All values are immutable; what objects hold lies in the heap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any, Union

import libcst as cst

from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import (
    LOCAL,
    REPLICATED,
    Partial,
    Placement,
    Replicated,
    Scaled,
    Sharded,
    Unknown,
    either,
    options,
)
from migrator.records import dataclass, replace

if TYPE_CHECKING:
    from migrator.analysis.frames import Frame

# More alternatives than these tell nothing; deeper tuples are data.
_MOST_ALTERNATIVES = 64
_MOST_CHOICES = 4
_DEEPEST_TUPLE = 5
_MOST_PLACEMENTS = 4
PARTLY_WHOLE = Unknown("it holds all rows of the batch on one way, and a worker's part of them on another")


@dataclass(frozen=True)
class Operand:
    """An expression that a repair wraps.

    `how`: "gather", "mean" or "sum" (all-reduced), "share" (divided by the number of workers), "shard" (of what is
    made of all rows, a worker's own: those that stand where the rows of the name `like` do), "once" (of rows that all
    workers have, each on one of them), or "samples" (gradients of samples, as large as in one process).
    """

    node: cst.CSTNode
    how: str
    like: str = ""

    def __hash__(self) -> int:
        return hash((id(self.node), self.how))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Operand) and other.node is self.node and (other.how, other.like) == (self.how, self.like)
        )


@dataclass(frozen=True)
class Repair:
    """Where an operation needs the whole batch: what has to be put together in front of it, and why.

    `blocked` says why that cannot be written down there; empty where it can. `form`: "term" of a sum, "divisor",
    "call" of a function whose arguments are meant, "given back" for what a layer returns, "drawn" for random numbers of
    the whole batch, of which a worker takes its rows, "once" where a metric counts rows that all have, "done" where the
    script has done it, "bound" where a name gets what all workers have, or "whole" for all others.
    """

    node: cst.CSTNode
    operands: frozenset[Operand]
    why: str
    blocked: str = ""
    form: str = "whole"

    def __hash__(self) -> int:
        return hash((id(self.node), self.operands))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Repair) and other.node is self.node and other.operands == self.operands
        )


@dataclass(frozen=True)
class Slice:
    """`lower:upper:step` of a subscript; bounds that are no literals are NOT_CONSTANT.

    `cut_at`: the batch whose number of rows one bound is, see row_counts.py.
    """

    lower: Any
    upper: Any
    step: Any
    cut_at: tuple[Any, ...] = ()


# Of a tuple or list, of which each is told by itself where something is made of them one by one.
MOST_ITEMS = 8
_NO_REPAIRS: frozenset[Repair] = frozenset()
_NO_BATCH: frozenset[Any] = frozenset()
_NOT_FILLED: frozenset[tuple[cst.CSTNode, bool]] = frozenset()
_NONE_BEHIND: frozenset[Any] = frozenset()


@dataclass(frozen=True)
class Data:
    """Numbers, text, arrays, tensors.

    `constant`: the Python literal, where it is one; `choices`: the few whole numbers of which it is one, as a condition
    has it. `whole`: every worker has all rows of the batch, so that it does
    not fit beside a worker's part. `nested`: may be a tuple or dictionary of tensors. `symbolic`: a Keras tensor of a
    functional model. `least`: where the rank is not known, so many axes there are at least. `width`: the size of the
    last axis. `masked`: Keras carries a mask along. `needs`: the repairs without which the placement does not hold.
    `layer`: stands for a layer, or the layers, that a model is asked for. `built`: of a model that is made of Keras's
    tensors. `rows`: the size of the first axis, of what all workers have. `integral`: its numbers are whole. `mask`: it
    is true or false for each value of another one.
    `counted`: see `is_positive`. `several`: made of a number of rows, and perhaps another number; of all rows,
    perhaps more or fewer than these. `foreign`: an
    object of another package, perhaps a layer. `maker`: the call that makes it, or the model of which a layer is one,
    where nothing is seen of what that does with a batch. `ragged`: its samples may have unequally many values.
    `pairs`: has all rows along another axis than the first, too, or may have; `across`: that axis, where it is known
    and alone has them.
    `counts`: the batches of which it has the rows, or the number of rows, see row_counts.py. `shape`: its sizes, None
    for those that are not known; of no account unless it is as long as the rank. `multiple_of`: where the whole numbers
    stand of which it is a multiple that is rounded, as 0.7 * len(x) is. `sizeless`: a shape of which the graph is not
    told the first size. `first`: the whole numbers that the first row of a tensor is written as. `listed`: a list or
    tuple of Python's, of which `+` puts several one behind the other. `mixed`: on one way rows of a worker, on another
    what all workers have, which a sum over the workers counts several times. `sized`: of the sizes of all rows, or of
    their number, where those of a worker's part would stand: what is made by them are all rows, too. `tells`: of the
    shape of a batch, the last of the sizes of its rows, as far as they are known. `batch`: the names of the one batch
    that it is made of, none where that is not proven, see same_batch.py. `filled`: what makes it, as far as that is
    rows of one number or another, and not of a batch, and whether that is a tensor: see lookups.py. `behind`: the
    objects of the program that it may be, or give, see handles.py. `table`: what a variable holds, of which the
    gradient comes with one part for each index that looks rows up in it. `text`: it is a text, whichever. `item`: of
    an array or a list, the one that a number picks which a name stands for, or perhaps.
    """

    placement: Placement = REPLICATED
    constant: Any = NOT_CONSTANT
    rank: int | None = None
    whole: bool = False
    nested: bool = False
    symbolic: bool = False
    least: int = 0
    width: int | None = None
    masked: bool = False
    needs: frozenset[Repair] = _NO_REPAIRS
    layer: bool = False
    rows: int | None = None
    integral: bool = False
    mask: bool = False
    counted: bool = False
    several: bool = False
    foreign: bool = False
    ragged: bool = False
    pairs: bool = False
    counts: tuple[Any, ...] = ()
    shape: tuple[int | None, ...] | None = None
    multiple_of: frozenset[cst.BaseExpression] = frozenset()
    sizeless: bool = False
    across: int = 0
    first: tuple[int, ...] | None = None
    listed: bool = False
    mixed: bool = False
    maker: cst.CSTNode | None = None
    sized: Placement | None = None
    built: bool = False
    choices: tuple[int, ...] = ()
    tells: tuple[int | None, ...] = ()
    batch: frozenset[Any] = _NO_BATCH
    filled: frozenset[tuple[cst.CSTNode, bool]] = _NOT_FILLED
    behind: frozenset[Any] = _NONE_BEHIND
    table: bool = False
    text: bool = False
    item: bool = False

    # Met over and over, and made of tuples of all fields by dataclasses.

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Data) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((self.placement, self.rank, self.rows, self.needs))

    @property
    def sizes(self) -> tuple[int | None, ...] | None:
        """Those of its axes, as far as these are known."""
        return self.shape if self.shape is not None and len(self.shape) == self.rank else None

    @property
    def size_of_last(self) -> int | None:
        """That of its last axis; of one with more than two it tells less than their sizes together."""
        sizes = self.sizes
        return sizes[-1] if self.width is None and sizes and len(sizes) <= 2 else self.width

    @property
    def is_replicated(self) -> bool:
        return isinstance(self.placement, Replicated)

    @property
    def undone(self) -> frozenset[Repair]:
        """What is still to be put together for it."""
        return frozenset(repair for repair in self.needs if repair.form != "done") if self.needs else self.needs

    @property
    def axes(self) -> int:
        """So many it surely has."""
        return self.least if self.rank is None else self.rank

    @property
    def is_text(self) -> bool:
        """Whether it surely is a text of Python's."""
        return self.text or isinstance(self.constant, str)

    @property
    def is_positive(self) -> bool:
        """Whether it surely is a whole number above zero."""
        if isinstance(self.constant, int) and not isinstance(self.constant, bool):
            return self.constant > 0
        return self.counted and self.rank == 0

    @property
    def is_zero(self) -> bool:
        return self.constant is None or (self.constant is not NOT_CONSTANT and self.constant == 0)


@dataclass(frozen=True)
class External:
    """A thing of another library, by its dotted name."""

    path: str


@dataclass(frozen=True)
class File:
    """A module of the program."""

    module: cst.Module

    def __hash__(self) -> int:
        return id(self.module)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, File) and other.module is self.module


@dataclass(frozen=True)
class Function:
    """A function or lambda of the program, with the frame that it closes over. `defaults` lie in the heap."""

    node: cst.FunctionDef | cst.Lambda
    frame: Frame

    def __hash__(self) -> int:
        return hash((id(self.node), id(self.frame)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and other.node is self.node and other.frame is self.frame


@dataclass(frozen=True)
class Class:
    """A class of the program."""

    node: cst.ClassDef
    frame: Frame

    def __hash__(self) -> int:
        return id(self.node)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Class) and other.node is self.node


@dataclass(frozen=True)
class Site:
    """Where an object is made, and on which way there: a call string of bounded length."""

    node: cst.CSTNode
    context: tuple[int, ...]

    def __hash__(self) -> int:
        return hash((id(self.node), self.context))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Site) and other.node is self.node and other.context == self.context


@dataclass(frozen=True)
class Instance:
    """An object of a class of the program."""

    cls: Class
    site: Site


@dataclass(frozen=True)
class Made:
    """What a call of another library's function or class gave: a layer, a model, an optimizer, a dataset, a tape."""

    path: str
    site: Site


@dataclass(frozen=True)
class Container:
    """A list, dictionary, set or iterator of the program; its elements lie in the heap."""

    kind: str
    site: Site


@dataclass(frozen=True)
class Tuple:
    """A tuple of known length."""

    items: tuple[Value, ...]


@dataclass(frozen=True)
class Bound:
    """A function of the program with the object that it is a method of."""

    function: Function
    receiver: Value


@dataclass(frozen=True)
class Method:
    """An attribute of data, or of another library's object, of which only the name is known."""

    owner: Value
    name: str


@dataclass(frozen=True)
class Curried:
    """`functools.partial(function, …)`"""

    function: Value
    args: tuple[Value, ...]
    keywords: tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Super:
    """`super()` of a method of the class, or `super(cls, receiver)`."""

    cls: Class
    receiver: Value


Atom = Union[External, File, Function, Class, Instance, Made, Container, Tuple, Bound, Method, Curried, Super]


@dataclass(frozen=True)
class Value:
    """The alternatives of an expression: data (joined), objects. Neither: nothing gets there."""

    data: Data | None = None
    objects: frozenset[Atom] = field(default_factory=frozenset)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Value):
            return False
        return (self.data is other.data or self.data == other.data) and self.objects == other.objects

    def __hash__(self) -> int:
        return hash((self.data, self.objects))

    def __iter__(self) -> Iterator[Atom]:
        return iter(self.objects)

    @property
    def constant(self) -> Any:
        """The Python literal, where it surely is that one."""
        return self.data.constant if self.data is not None and not self.objects else NOT_CONSTANT

    @property
    def picks_nothing(self) -> bool:
        """Whether it is data, and no number or text by which something else may be picked."""
        data = self.data
        is_known = data is None or data.is_text or bool(data.choices) or data.constant is not NOT_CONSTANT
        return not (is_known or self.objects) and data is not None and data.rank != 0

    @property
    def is_text(self) -> bool:
        """Whether it surely is a text, the same on all workers, whichever that is."""
        return self.data is not None and not self.objects and self.data.is_replicated and self.data.is_text

    @property
    def is_structure(self) -> bool:
        """Whether it is a tuple or dictionary of tensors that stand alike, such as a batch of a dataset."""
        return self.data is not None and self.data.nested and not self.objects

    @property
    def is_none(self) -> bool:
        return self.constant is None

    @property
    def only(self) -> Atom | None:
        """The one object that it surely is."""
        return next(iter(self.objects)) if self.data is None and len(self.objects) == 1 else None

    def without_data(self) -> Value:
        return Value(None, self.objects) if self.data is not None else self


_MEAN = Partial("mean")
NOTHING = Value()
NONE = Value(Data(constant=None))


def of(atom: Atom) -> Value:
    return Value(None, frozenset((atom,)))


def constant(value: Any) -> Value:
    return Value(Data(constant=value, rank=0))


def unseen(why: str) -> Value:
    """What is not understood: it may be anything, and stand anywhere."""
    return Value(Data(Unknown(why), nested=True))


NUMBER = Value(Data())  # some replicated data
COUNT = Value(Data(rank=0, integral=True))  # one whole number


def join(a: Value, b: Value) -> Value:
    if a is b or b is NOTHING or (a.objects == b.objects and (a.data is b.data or a.data == b.data)):
        return a
    if a is NOTHING:
        return b
    joined = a.data if b.data is None else b.data if a.data is None else join_data(a.data, b.data)
    objects = a.objects | b.objects if a.objects is not b.objects else a.objects
    if len(objects) > 1 and sum(1 for o in objects if isinstance(o, Tuple)) > 1:
        objects = _with_tuples_joined(objects)
    if len(objects) > _MOST_ALTERNATIVES:
        return unseen("this may be too many things")
    return Value(joined, objects)


def join_all(values: Iterable[Value]) -> Value:
    found = NOTHING
    for value in values:
        found = join(found, value)
    return found


def _with_tuples_joined(objects: frozenset[Atom]) -> frozenset[Atom]:
    """Tuples of one length become one."""
    by_length: dict[int, Tuple] = {}
    for atom in objects:
        if isinstance(atom, Tuple):
            known = by_length.get(len(atom.items))
            by_length[len(atom.items)] = Tuple(tuple(map(join, known.items, atom.items))) if known is not None else atom
    return frozenset((*(o for o in objects if not isinstance(o, Tuple)), *by_length.values()))


def join_data(a: Data, b: Data) -> Data:
    if a == b:
        return a
    return Data(
        _join_placements(a, b),
        _join_constants(a.constant, b.constant),
        a.rank if a.rank == b.rank else None,
        a.whole or b.whole,
        a.nested or b.nested,
        a.symbolic or b.symbolic,
        min(a.axes, b.axes),
        a.width if a.width == b.width else None,
        a.masked or b.masked,
        a.needs | b.needs if a.needs is not b.needs else a.needs,
        a.layer and b.layer,
        a.rows if a.rows == b.rows else None,
        integral=a.integral and b.integral,
        mask=a.mask and b.mask,
        counted=a.is_positive and b.is_positive,
        several=a.several or b.several,
        foreign=a.foreign and b.foreign,
        ragged=a.ragged or b.ragged,
        pairs=a.pairs or b.pairs,
        counts=a.counts if a.counts == b.counts else (),
        shape=a.shape if a.shape == b.shape else None,
        multiple_of=a.multiple_of | b.multiple_of,
        sizeless=a.sizeless or b.sizeless,
        across=a.across if a.across == b.across else 0,
        listed=a.listed or b.listed,
        mixed=a.mixed or b.mixed or _are_mixed(a, b) or _are_mixed(b, a),
        maker=a.maker if a.maker is b.maker else None,
        sized=a.sized if a.sized == b.sized else None,
        built=a.built and b.built,
        choices=a.choices if a.choices == b.choices else (),
        tells=a.tells if a.tells == b.tells else (),
        batch=a.batch & b.batch if a.is_replicated is b.is_replicated else b.batch if a.is_replicated else a.batch,
        filled=a.filled | b.filled,
        behind=a.behind | b.behind,
        table=a.table or b.table,
        text=a.is_text and b.is_text,
        item=a.item or b.item,
    )


def one_of(a: Value, b: Value) -> Value:
    """What a condition has chosen: of whole numbers it is told which they are, `3 if is_last else 1`."""
    joined, first, second = join(a, b), _whole_numbers(a), _whole_numbers(b)
    numbers = {*first, *second}
    if not (first and second and 1 < len(numbers) <= _MOST_CHOICES) or joined.data is None:
        return joined
    return Value(replace(joined.data, choices=tuple(sorted(numbers))))


def _whole_numbers(value: Value) -> tuple[int, ...]:
    if value.data is None or value.objects or not value.data.is_replicated:
        return ()
    return (value.constant,) if type(value.constant) is int else value.data.choices


def _are_mixed(a: Data, b: Data) -> bool:
    return a.is_replicated and not a.is_zero and isinstance(b.placement, (Sharded, Scaled))


def _join_constants(a: Any, b: Any) -> Any:
    """The literal that both are; of slices, with those bounds that are the same."""
    if type(a) is type(b) and a == b:
        return a
    if not isinstance(a, Slice) or not isinstance(b, Slice):
        return NOT_CONSTANT
    lower, upper = _join_constants(a.lower, b.lower), _join_constants(a.upper, b.upper)
    return Slice(lower, upper, _join_constants(a.step, b.step), a.cut_at if a.cut_at == b.cut_at else ())


def _join_placements(a: Data, b: Data) -> Placement:
    """Where a value stands that is sometimes the one, sometimes the other."""
    if a.placement == b.placement:
        return a.placement
    for one, other in ((a, b), (b, a)):
        if isinstance(one.placement, Unknown):
            return one.placement
        if one.is_replicated and not one.whole:
            # None and zero are everything; a mean over the workers of what is alike on all of them is that itself.
            if one.is_zero or other.placement == Partial("mean"):
                return other.placement
            if isinstance(other.placement, Sharded):
                return other.placement
        if one.placement is LOCAL and other.is_replicated:
            return LOCAL
    kinds = {_adds_up(p) for d in (a, b) for p in options(d.placement)} - {""}
    if len(kinds) > 1 and kinds & {"sum", "scaled"}:  # no rank tells which one it is
        return Unknown("it adds up over the batch on one way otherwise than on another")
    if a.whole != b.whole:
        return PARTLY_WHOLE
    joined = _one_cut(a.placement, b.placement) or either([a.placement, b.placement])
    return joined if len(getattr(joined, "options", ())) <= _MOST_PLACEMENTS else Unknown("it may stand in many ways")


def _one_cut(a: Placement, b: Placement) -> Placement | None:
    """What holds for both of two that are cut alike: one row a sample is a number of rows that is the same for each."""
    if isinstance(a, Sharded) and isinstance(b, Sharded) and {a.rows, b.rows} == {"one", "even"}:
        return replace(a, rows="even") if (a.axis, a.blocks) == (b.axis, b.blocks) else None
    return None


def _adds_up(placement: Placement) -> str:
    """How the workers' values make up the one-device value, where that is known of numbers."""
    if isinstance(placement, Partial):
        return placement.reduction
    if isinstance(placement, Scaled) and not isinstance(placement.base, Sharded):
        return "scaled"
    return "whole" if placement == REPLICATED else ""


def may_be_averaged(value: Value) -> bool:
    """Whether a mean over the workers changes nothing, or makes the mean over the batch."""
    if not value.objects:
        return value.data is None or _may_be_averaged(value.data)
    return all(map(_may_be_averaged, contents(value)))


def _may_be_averaged(data: Data) -> bool:
    return isinstance(data.placement, Replicated) or data.placement == _MEAN


def contents(value: Value, depth: int = 0) -> Iterator[Data]:
    """The data that the value is made of, as far as no heap is needed to see them."""
    if value.data is not None:
        yield value.data
    for atom in value.objects:
        if isinstance(atom, Tuple) and depth < _DEEPEST_TUPLE:
            for item in atom.items:
                yield from contents(item, depth + 1)


def site_of_display(node: cst.CSTNode, held: Iterable[Value], context: tuple[int, ...]) -> Site:
    """Where an object is made with what it holds: other ones of parts of batches, in training, than of whole ones."""
    stand = tuple((d.placement, d.whole) for value in held for d in contents(value))
    is_plain = all(placement == REPLICATED and not whole for placement, whole in stand)
    return Site(node, context if is_plain else (*context, hash(stand)))


def mapped(value: Value, change: Any, depth: int = 0) -> Value:
    """The value with each of its data replaced by what `change` makes of it; objects of other kinds stay."""
    changed = change(value.data) if value.data is not None else None
    if not value.objects or not any(isinstance(o, Tuple) for o in value.objects):
        return value if changed is value.data else Value(changed, value.objects)
    objects = frozenset(
        Tuple(tuple(mapped(item, change, depth + 1) for item in o.items)) if isinstance(o, Tuple) else o
        for o in value.objects
    )
    return Value(changed, objects)


def forgotten(value: Value) -> Value:
    """The value where it may be kept longer than the batch: of which batch it is, is not known by then."""
    return mapped(value, lambda d: replace(d, counts=(), batch=_NO_BATCH) if d.counts or d.batch else d)


def with_needs(value: Value, needs: frozenset[Repair]) -> Value:
    return mapped(value, lambda d: replace(d, needs=d.needs | needs)) if needs else value
