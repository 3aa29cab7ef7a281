"""How many axes the arrays have that functions without a row in the tables make of what all workers have: numbers in
a row, orders of rows, data sets that come with scikit-learn.

A row would say where they stand when they are made of a batch. Here that is of no account: these are made before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Callable

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.values import Container, Data, Site, Tuple, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_MATRIX_AND_LABELS = (2, 1)
_LOADED = frozenset({
    "load_iris", "load_digits", "load_wine", "load_breast_cancer", "load_diabetes", "fetch_california_housing",
    "fetch_covtype",
})  # fmt: skip
_GENERATED = frozenset({
    "make_blobs", "make_circles", "make_classification", "make_friedman1", "make_friedman2", "make_friedman3",
    "make_gaussian_quantiles", "make_hastie_10_2", "make_moons", "make_regression", "make_s_curve", "make_swiss_roll",
})  # fmt: skip
_SPLITTERS = tuple(
    f"sklearn.model_selection.{name}"
    for name in (
        "KFold", "StratifiedKFold", "GroupKFold", "StratifiedGroupKFold", "RepeatedKFold", "RepeatedStratifiedKFold",
        "ShuffleSplit", "StratifiedShuffleSplit", "GroupShuffleSplit", "TimeSeriesSplit", "LeaveOneOut",
        "LeaveOneGroupOut",
    )
)  # fmt: skip
# Their methods give a matrix for a matrix.
_SCALERS = re.compile(
    r"^sklearn\.preprocessing\.(?:_data\.)?(?:StandardScaler|MinMaxScaler|MaxAbsScaler|RobustScaler|Normalizer"
    r"|PowerTransformer|QuantileTransformer)$"
)
_SCALING = ("transform", "fit_transform", "inverse_transform")
# They pick rows of each array that they are given, the same of all, and give a list: of so many arrays at least, with
# so many for each of them.
_PICKING_ROWS = ("sklearn.utils.shuffle", "sklearn.utils.resample")
_GIVING_EACH = {**dict.fromkeys(_PICKING_ROWS, (2, 1)), "sklearn.model_selection.train_test_split": (1, 2)}
# They pick some of numbers.
_PICKING = frozenset({"random.sample", "random.choices"})
# With these it makes more than that, or other things than arrays.
_OTHERWISE = ("as_frame", "n_targets", "coef", "return_centers", "return_distributions")


def told(run: Run, path: str, args: Arguments, result: Value, at: Site | None = None) -> Value:
    """What the call of the function gives, `result`, with the axes of it that are known; `at`: where a list is made."""
    data = result.data
    if data is None or result.objects or not data.is_replicated or args.rest is not v.NOTHING:
        return result
    library, _, name = path.rpartition(".")
    if library.startswith("sklearn.datasets") and not data.needs:
        return _data_set(name, args, result)
    if not data.needs and at is not None and path in _GIVING_EACH and len(args.positional) >= _GIVING_EACH[path][0]:
        return _list(run, [_like(x, result) for x in args.positional for _ in range(_GIVING_EACH[path][1])], at)
    rule = _of_numbers if path.startswith("math.") else _RULES.get(path)
    rank = rule(args) if rule is not None else None
    if path in _PICKING and args.positional and _rank(run.objects.parts(args.positional[0])) == 0:
        rank = 1
    least = _LEAST[path](args) if rank is None and path in _LEAST else 0
    if least:
        return Value(replace(data, least=least, nested=False))
    return result if rank is None else Value(replace(data, rank=rank, nested=False))


def of_method(run: Run, owner: Data, name: str, result: Value, node: cst.CSTNode, frame: Frame) -> Value:
    """What the method of an object of scikit-learn gives: of a splitter, pairs of rows of numbers; of a scaler, a
    matrix. The `result` where the object may be another one."""
    data = result.data
    if name not in ("split", *_SCALING) or data is None or result.objects or not data.is_replicated or data.needs:
        return result
    paths = {path for path, call in run.libraries.called if call is owner.maker} if owner.maker is not None else set()
    if not paths:
        return result
    if name in _SCALING:
        return Value(replace(data, rank=2)) if all(map(_SCALERS.match, paths)) else result
    if not paths.issubset(_SPLITTERS):
        return result
    made = v.Container("iterator", v.Site(node, frame.context))
    run.heap.store(made, None, v.of(Tuple((Value(Data(rank=1)), Value(Data(rank=1))))))
    return v.of(made)


def places(path: str, args: Arguments) -> Value | None:
    """Where a condition holds, axis by axis: `np.where(labels == 1)`."""
    if path not in _PLACES or len(args.positional) != 1 or args.keywords or args.rest is not v.NOTHING:
        return None
    data = args.positional[0].data
    if data is None or args.positional[0].objects or not data.is_replicated or data.needs or not data.rank:
        return None
    return v.of(Tuple((Value(Data(rank=1)),) * data.rank))


def permuted(args: Arguments) -> int | None:
    """Of `permutation`: the numbers below one, or an array in another order."""
    rank = _rank(args.get("x", 0))
    return None if rank is None else max(rank, 1)


def _data_set(name: str, args: Arguments, result: Value) -> Value:
    asked = args.get("return_X_y")
    is_pair = name in _GENERATED or (name in _LOADED and asked is not None and asked.constant is True)
    if not is_pair or any(each in args.keywords for each in _OTHERWISE):
        return result
    return v.of(Tuple(tuple(Value(Data(rank=rank)) for rank in _MATRIX_AND_LABELS)))


def _list(run: Run, items: Sequence[Value], at: Site) -> Value:
    made = Container("list", Site(at.node, (*at.context, len(items))))
    for place, item in enumerate(items):
        run.heap.store(made, place, item)
    return v.of(made)


def _like(given: Value, otherwise: Value) -> Value:
    """Some of the rows of an array; of what may be a list or a table, nothing is told."""
    data = given.data
    is_array = data is not None and not given.objects and not data.foreign and not data.listed and data.rank is not None
    return Value(Data(rank=data.rank)) if data is not None and is_array else otherwise


def _rank(value: Value | None) -> int | None:
    if value is None or value.data is None or value.objects:
        return None
    constant = value.data.constant
    is_number = isinstance(constant, (int, float)) and not isinstance(constant, bool)
    return 0 if is_number else value.data.rank


def _always(rank: int) -> Callable[[Arguments], int | None]:
    return lambda args: rank


def _between_numbers(args: Arguments) -> int | None:
    ends = (args.get("start", 0), args.get("stop", 1))
    return 1 if all(_rank(end) == 0 for end in ends) and "axis" not in args.keywords else None


def _stacked(least: int) -> Callable[[Arguments], int | None]:
    def rank(args: Arguments) -> int | None:
        ranks = _item_ranks(args)
        return max(least, *ranks) if ranks else None

    return rank


def _item_ranks(args: Arguments) -> Sequence[int]:
    """Those of the items of a tuple that is written out, if all are known."""
    only = args.positional[0].only if args.positional else None
    ranks = [_rank(item) for item in only.items] if isinstance(only, Tuple) else []
    return [rank for rank in ranks if rank is not None] if None not in ranks else []


def _as(name: str, more: int = 0) -> Callable[[Arguments], int | None]:
    """As many axes as what is given under that name or first, and more."""

    def rank(args: Arguments) -> int | None:
        given = _rank(args.get(name, 0))
        return None if given is None else given + more

    return rank


def _of_numbers(args: Arguments) -> int | None:
    """A number, where nothing but numbers is given."""
    return 0 if all(_rank(value) == 0 for _, value in args.all()) else None


def _only_one(args: Arguments) -> int | None:
    """As many axes as one array has that is given alone."""
    return _rank(args.positional[0]) if len(args.positional) == 1 else None


def _drawn(args: Arguments) -> int | None:
    """A number, or so many in a row."""
    size = args.get("size", 2)
    return 0 if size is None else 1 if _rank(size) == 0 else None


def _classes(args: Arguments) -> int | None:
    """An axis of classes behind those of the labels, of which a last one of a single label is dropped."""
    given = args.get("x", 0) or args.get("y")
    rank, data = _rank(given), given.data if given is not None else None
    if rank is None or data is None:
        return None
    width = data.size_of_last
    return rank + 1 if rank < 2 else None if width is None else rank if width == 1 else rank + 1


def _least_classes(args: Arguments) -> int:
    """So many axes labels have at least once their classes are told."""
    given = args.get("x", 0) or args.get("y")
    axes = given.data.axes if given is not None and given.data is not None and not given.objects else 0
    return max(2, axes) if axes else 1


def _frames(args: Arguments) -> int | None:
    """One picture: none of several in a file that moves."""
    asked = args.get("expand_animations", 3)
    return 3 if asked is not None and asked.constant is False else None


def _lines(args: Arguments) -> int | None:
    """Of numbers in a text: a column, or as many axes as are asked for; else its lines tell."""
    columns, least = args.get("usecols"), args.get("ndmin")
    if least is not None and least.constant == 2:
        return 2
    is_column = columns is not None and isinstance(columns.constant, int) and "dtype" not in args.keywords
    return 1 if is_column and least is None else None


def _of_one(args: Arguments) -> int | None:
    """One array of numbers in a row, where nothing is asked for beside it."""
    return 1 if len(args.positional) < 3 and args.keywords.keys() <= {"assume_unique"} else None


# With a condition alone.
_PLACES = ("numpy.where", "numpy.nonzero")
_SETS = ("numpy.setdiff1d", "numpy.union1d", "numpy.intersect1d", "numpy.setxor1d", "numpy.flatnonzero")
# One picture each, of height, width and channels.
_PICTURES = tuple(
    f"tensorflow.{module}.decode_{form}"
    for module in ("io", "image")
    for form in ("jpeg", "png", "and_crop_jpeg", "bmp")
)
# So many at least, where no rule tells how many.
_LEAST: dict[str, Callable[[Arguments], int]] = {
    "numpy.random.permutation": lambda args: 1,
    "keras.utils.to_categorical": _least_classes,
    "keras.utils.np_utils.to_categorical": _least_classes,
    "tensorflow.io.decode_image": lambda args: 3,
    "tensorflow.image.decode_image": lambda args: 3,
}
_RULES: dict[str, Callable[[Arguments], int | None]] = {
    "builtins.min": _of_numbers,
    "builtins.max": _of_numbers,
    "builtins.ord": _always(0),
    "random.randint": _always(0),
    "random.randrange": _always(0),
    **dict.fromkeys(_PICKING_ROWS, _only_one),
    "numpy.random.random_integers": _drawn,
    "numpy.arange": _always(1),
    "numpy.linspace": _between_numbers,
    "numpy.logspace": _between_numbers,
    "numpy.eye": _always(2),
    "numpy.identity": _always(2),
    "numpy.vstack": _stacked(2),
    "numpy.column_stack": _always(2),
    **dict.fromkeys(_SETS, _of_one),
    "numpy.random.permutation": permuted,
    "numpy.array_split": _as("ary", 1),
    "numpy.loadtxt": _lines,
    "numpy.genfromtxt": _lines,
    "keras.utils.to_categorical": _classes,
    "keras.utils.np_utils.to_categorical": _classes,
    **dict.fromkeys(_PICTURES, _always(3)),
    "tensorflow.io.decode_image": _frames,
    "tensorflow.image.decode_image": _frames,
    "tensorflow.range": _always(1),
    "keras.ops.arange": _always(1),
    "tensorflow.random.shuffle": _as("value"),
    "tensorflow.random.experimental.stateless_shuffle": _as("value"),
}
