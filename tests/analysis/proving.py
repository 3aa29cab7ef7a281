"""An op on whole inputs against the op on the workers' parts, put together again as a placement says.

The parts are uneven, and a partial value's shares are drawn at random, so that nothing matches by chance; after
PyTorch's torch/distributed/tensor/_ops/strategy_validation.py.
"""

from __future__ import annotations

import importlib
import itertools
import operator
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable

import numpy as np
import tensorflow as tf

from migrator.analysis.ops import Arg, Op, OpCall
from migrator.analysis.placement import (
    REPLICATED,
    ROWS,
    Either,
    Partial,
    Placement,
    Replicated,
    Scaled,
    Shape,
    Sharded,
    Unknown,
)

PARTS = (5, 3)
TOTAL = sum(PARTS)
CUTS = list(itertools.accumulate(PARTS))[:-1]
TOLERANCE = {"rtol": 2e-4, "atol": 2e-5}


@dataclass
class Data:
    """A tensor argument of a sample; `places`: the placements to try, by default all that fit its values."""

    value: np.ndarray
    places: tuple[Placement, ...] | None = None

    def possible(self) -> tuple[Placement, ...]:
        if self.places is not None:
            return self.places
        found: list[Placement] = [REPLICATED]
        found += [Sharded(axis) for axis, size in enumerate(self.value.shape) if size == TOTAL]
        if self.value.dtype.kind in "fc":
            found += [Partial("sum"), Partial("mean")]
        return tuple(found)


@dataclass
class Literal:
    """An argument that stands in the source: `constant` is what the analysis sees of the value."""

    value: Any
    constant: Any


@dataclass
class Sample:
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    made: dict[str, Any] | None = None


@dataclass
class Finding:
    """What a row says of one sample, and whether it holds."""

    op: Op
    sample: Sample
    inputs: tuple[Placement, ...]
    claimed: Placement
    error: str = ""


def data(*shape: int, kind: str = "float", low: float = 0.1, high: float = 0.9, seed: int = 0) -> Data:
    """A random tensor; two of the same shape differ."""
    random = np.random.default_rng([seed, *shape, next(_counter) % 7])
    values = random.uniform(low, high, shape)
    if kind == "int":
        return Data(random.integers(int(low), int(high), shape).astype("int32"))
    if kind == "bool":
        return Data(values > (low + high) / 2)
    if kind == "complex":
        return Data((values + 1j * random.uniform(low, high, shape)).astype("complex64"))
    if kind == "square":
        values = values @ np.swapaxes(values, -1, -2) + 2 * np.eye(shape[-1])
    return Data(values.astype("float32"))


_counter = itertools.count()
ROW_COUNT = Data(np.asarray(TOTAL, "int32"), (ROWS,))


def leaves(sample: Sample) -> list[Data]:
    found: list[Data] = []

    def visit(value: Any) -> None:
        if isinstance(value, Data):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            for item in value:
                visit(item)

    for value in [*sample.args, *sample.kwargs.values()]:
        visit(value)
    return found


def described(value: Any, places: Iterator[Placement], ranked: bool) -> Arg:
    """What the analysis knows of an argument."""
    if isinstance(value, Data):
        place = next(places)
        return Arg(
            place,
            rank=0 if place == ROWS else value.value.ndim if ranked else None,
            dtype="bool" if value.value.dtype == bool else None,
        )
    if isinstance(value, Literal):
        return Arg(constant=value.constant)
    if isinstance(value, (list, tuple)) and any(isinstance(v, (Data, list, tuple)) for v in value):
        return Arg(items=tuple(described(item, places, ranked) for item in value))
    return Arg(constant=value)


def parts(value: np.ndarray, place: Placement) -> list[np.ndarray]:
    """The workers' values of a whole value."""
    if isinstance(place, Sharded):
        return np.split(value, CUTS, axis=place.axis)
    if place == ROWS:
        return [np.asarray(n, value.dtype) for n in PARTS]
    if isinstance(place, Shape):
        return [np.asarray([n if axis == place.axis else size for axis, size in enumerate(value)]) for n in PARTS]
    if isinstance(place, Partial):
        random = np.random.default_rng(value.size)
        first = random.uniform(0.5, 1.5, value.shape).astype(value.dtype) * value
        if place.reduction == "sum":
            return [first, value - first]
        return [first, (TOTAL * value - PARTS[0] * first) / PARTS[1]]
    return [value] * len(PARTS)


def holds(place: Placement, whole: Any, each: list[Any]) -> str:
    """Why the workers' values do not make up the whole as the placement says; empty where they do."""
    if isinstance(place, Either):
        errors = [holds(option, whole, each) for option in place.options if not isinstance(option, Unknown)]
        seen = len(errors) < len(place.options)
        return "" if seen or "" in errors else "; ".join(errors)
    if isinstance(place, Scaled):
        scaled = [np.asarray(value) / float(n) ** place.power for value, n in zip(each, PARTS)]
        return holds(place.base, np.asarray(whole) / float(TOTAL) ** place.power, scaled)
    if isinstance(place, Shape):
        whole, each = list(whole), [list(value) for value in each]
        wanted = [[n if axis == place.axis else size for axis, size in enumerate(whole)] for n in PARTS]
        return "" if wanted == each and whole[place.axis] == TOTAL else f"sizes {whole} of {each}"
    try:
        if isinstance(place, Replicated):
            pairs = [(np.asarray(value), np.asarray(whole)) for value in each]
        elif isinstance(place, Sharded):
            blocks = [np.split(np.asarray(value), place.blocks, axis=place.axis) for value in each]
            laid = [np.concatenate([b[k] for b in blocks], axis=place.axis) for k in range(place.blocks)]
            pairs = [(np.concatenate(laid, axis=place.axis), np.asarray(whole))]
        elif isinstance(place, Partial):
            weights = [1.0] * len(PARTS) if place.reduction == "sum" else [n / TOTAL for n in PARTS]
            pairs = [
                (
                    sum(np.asarray(v, "float64" if np.isrealobj(v) else None) * w for v, w in zip(each, weights)),
                    np.asarray(whole),
                )
            ]
        else:
            return "its placement cannot be checked"
    except (ValueError, IndexError) as error:
        return str(error)
    for got, wanted in pairs:
        if got.shape != wanted.shape:
            return f"shape {got.shape} for {wanted.shape}"
        if got.dtype.kind in "fc" or wanted.dtype.kind in "fc":
            if not np.allclose(got, wanted, equal_nan=True, **TOLERANCE):
                return f"off by {np.nanmax(np.abs(got - wanted))}"
        elif not np.array_equal(got, wanted):
            return "other values"
    return ""


def flat(result: Any) -> list[Any]:
    """The values of a result, in the order of an Arg's leaves."""
    if isinstance(result, (tuple, list, tf.TensorShape)) and all(isinstance(v, (int, float, list)) for v in result):
        return [np.asarray(list(result))]
    if isinstance(result, (tuple, list)) and not isinstance(result, tf.TensorShape):
        return [value for item in result for value in flat(item)]
    return [result]


def plain(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") else value


def runner(op: Op, sample: Sample) -> Callable[..., Any]:
    """The op itself, called as `run(*args, **kwargs)` with numpy arrays for data."""
    tensors = not op.path.startswith(("numpy", "builtins", "math", "operator.pos"))
    call = _callable(op.path, sample)

    def run(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    run.tensors = tensors  # type: ignore[attr-defined]
    return run


def _callable(path: str, sample: Sample) -> Callable[..., Any]:
    if path == "operator.getitem":
        return operator.getitem
    owner, _, name = path.rpartition(".")
    for kind in ("Tensor", "ndarray", "TensorShape", "Variable"):
        if owner.endswith("." + kind):
            return lambda self, *a, **k: _member(OWNERS.get(kind, lambda v: v)(self), name, a, k)
    found = resolved(path)
    if owner == "tensorflow.sparse":
        return lambda dense, *rest, **options: found(tf.sparse.from_dense(dense), *rest, **options)
    if ".metrics." in path and isinstance(found, type):
        return lambda *a: found(**(sample.made or {}))(*a)
    if isinstance(found, type) and not path.startswith("builtins"):
        return found(**(sample.made or {}))
    return found


OWNERS: dict[str, Callable[[Any], Any]] = {
    "Variable": tf.Variable,
    "TensorShape": lambda sizes: tf.TensorShape(plain(sizes)),
}


def _member(value: Any, name: str, args: Any, kwargs: Any) -> Any:
    found = getattr(value, name)
    return found(*args, **kwargs) if callable(found) and not isinstance(found, (tf.DType, np.dtype)) else found


def resolved(path: str) -> Any:
    """The object of a public path."""
    pieces = path.split(".")
    found: Any = importlib.import_module(pieces[0])
    for piece in pieces[1:]:
        if not hasattr(found, piece) and pieces[0] == "tensorflow" and len(pieces) == 2:
            modules = (tf.math, tf.nn, tf.linalg, tf.signal, tf.bitwise)
            return next(getattr(module, piece) for module in modules if hasattr(module, piece))
        if pieces[:2] == ["keras", "backend"]:
            return getattr(tf.keras.backend, pieces[2])
        found = getattr(found, piece)
    return found


def filled(value: Any, values: Iterator[np.ndarray], tensors: bool) -> Any:
    """The argument with arrays in the place of data."""
    if isinstance(value, Data):
        array = next(values)
        return tf.constant(array) if tensors else array
    if isinstance(value, Literal):
        return value.value
    if isinstance(value, (list, tuple)):
        return type(value)(filled(item, values, tensors) for item in value)
    return value


def prove(op: Op, sample: Sample, gradients: bool = True) -> Iterator[Finding]:
    """Each placement of the inputs for which the row claims a placement of the result; raises where the op fails."""
    run = runner(op, sample)
    inputs = leaves(sample)
    whole = None
    for places in itertools.product(*(leaf.possible() for leaf in inputs)):
        if all(place == REPLICATED for place in places):
            continue
        claimed = []
        for ranked in (True, False):
            left = iter(places)
            args = [described(value, left, ranked) for value in sample.args]
            kwargs = {name: described(value, left, ranked) for name, value in sample.kwargs.items()}
            made = None if sample.made is None else {k: Arg(constant=v) for k, v in sample.made.items()}
            claimed.append(op.infer(OpCall(args, kwargs, None if made is None else OpCall(kwargs=made))))
        if all(isinstance(leaf.placement, Unknown) for result in claimed for leaf in result.leaves()):
            yield Finding(op, sample, places, next(claimed[0].leaves()).placement)
            continue
        if whole is None:
            whole = Outcome(run, sample, [leaf.value for leaf in inputs])
        split = [parts(leaf.value, place) for leaf, place in zip(inputs, places)]
        try:
            each = [Outcome(run, sample, [values[w] for values in split]) for w in range(len(PARTS))]
        except Exception as error:  # an error on a worker is loud, never silently wrong
            yield Finding(op, sample, places, Unknown(f"fails on a worker: {type(error).__name__}"))
            continue
        for result in claimed:
            yield _judged(op, sample, places, result, whole, each)
        if gradients and not op.note:
            yield from _gradients(op, sample, places, claimed[0], run, inputs, split)


class Outcome:
    """What a run gave, as NumPy values."""

    def __init__(self, run: Callable[..., Any], sample: Sample, values: list[np.ndarray]) -> None:
        left = iter(values)
        args = [filled(value, left, run.tensors) for value in sample.args]  # type: ignore[attr-defined]
        kwargs = {k: filled(v, left, run.tensors) for k, v in sample.kwargs.items()}  # type: ignore[attr-defined]
        self.values = [plain(value) for value in flat(run(*args, **kwargs))]


def _judged(op: Op, sample: Sample, places: Any, result: Arg, whole: Outcome, each: list[Outcome]) -> Finding:
    claims = list(result.leaves())
    if result.many or (len(claims) == 1 and len(whole.values) > 1 and not isinstance(claims[0].placement, Shape)):
        claims = claims * len(whole.values)
    if len(claims) == 1 and isinstance(claims[0].placement, Shape):
        return Finding(
            op,
            sample,
            places,
            claims[0].placement,
            holds(claims[0].placement, shape_of(whole), [shape_of(e) for e in each]),
        )
    if len(claims) != len(whole.values):
        return Finding(op, sample, places, claims[0].placement, f"{len(whole.values)} results for {len(claims)}")
    for i, claim in enumerate(claims):
        if isinstance(claim.placement, Unknown):
            continue
        if "random" in op.note or "empty" in op.path:
            whole.values[i], *drawn = (np.zeros(np.shape(v)) for v in (whole.values[i], *(e.values[i] for e in each)))
        else:
            drawn = [e.values[i] for e in each]
        error = holds(claim.placement, whole.values[i], drawn)
        if not error and claim.rank is not None and np.ndim(whole.values[i]) != claim.rank:
            error = f"rank {np.ndim(whole.values[i])} and not {claim.rank}"
        if error:
            return Finding(op, sample, places, claim.placement, error)
    return Finding(op, sample, places, claims[0].placement)


def shape_of(outcome: Outcome) -> list[int]:
    values = outcome.values
    return [int(v) for v in (values[0] if len(values) == 1 and np.ndim(values[0]) else values)]


def _gradients(
    op: Op, sample: Sample, places: Any, result: Arg, run: Any, inputs: list[Data], split: Any
) -> Iterator[Finding]:
    """The parts' gradients against the whole's, for replicated and sharded inputs of one result that is not whole."""
    place = result.placement
    floats = [leaf.value.dtype == np.float32 for leaf in inputs]
    if result.items is not None or not isinstance(place, (Sharded, Partial)) or not any(floats) or not run.tensors:
        return
    if any(isinstance(p, (Partial, Scaled)) for p in places):
        return
    wholly = _slopes(run, sample, [leaf.value for leaf in inputs], None, floats)
    if wholly is None:
        return
    slopes, cotangent = wholly
    if isinstance(place, Sharded):
        if place.blocks > 1 or place.rows != "one":
            return
        given = np.split(cotangent, CUTS, axis=place.axis)
    else:
        given = [cotangent] * len(PARTS)
    each = [_slopes(run, sample, [values[w] for values in split], given[w], floats) for w in range(len(PARTS))]
    weights = [n / TOTAL for n in PARTS] if place == Partial("mean") else [1.0] * len(PARTS)
    for i, (input_place, wanted) in enumerate(zip(places, slopes)):
        got = [None if e is None or e[0][i] is None else e[0][i] * w for e, w in zip(each, weights)]
        if wanted is None and all(g is None for g in got):
            continue
        if wanted is None or any(g is None for g in got):
            yield Finding(op, sample, places, place, "a gradient is missing")
            continue
        where = input_place if isinstance(input_place, Sharded) else Partial("sum")
        error = holds(where, wanted, got)
        yield Finding(op, sample, places, place, error and f"gradient {i}: {error}")


def _slopes(run: Any, sample: Sample, values: list[np.ndarray], cotangent: Any, floats: list[bool]) -> Any:
    tensors = [tf.constant(value) for value in values]
    with tf.GradientTape() as tape:
        tape.watch([t for t, is_float in zip(tensors, floats) if is_float])
        left = iter(tensors)
        args = [_with(value, left) for value in sample.args]
        kwargs = {k: _with(v, left) for k, v in sample.kwargs.items()}
        out = run(*args, **kwargs)
        if not isinstance(out, tf.Tensor) or out.dtype != tf.float32:
            return None
        if cotangent is None:
            cotangent = np.random.default_rng(1).uniform(0.5, 1.5, out.shape).astype("float32")
        loss = tf.reduce_sum(out * cotangent)
    try:
        found = tape.gradient(loss, [t for t, is_float in zip(tensors, floats) if is_float])
    except LookupError:  # an op without a gradient
        return None
    left_over = iter(found)
    slopes = [next(left_over) if is_float else None for is_float in floats]
    return [None if s is None else tf.convert_to_tensor(s).numpy() for s in slopes], cotangent


def _with(value: Any, tensors: Iterator[Any]) -> Any:
    if isinstance(value, Data):
        return next(tensors)
    if isinstance(value, Literal):
        return value.value
    if isinstance(value, (list, tuple)):
        return type(value)(_with(item, tensors) for item in value)
    return value
