"""Every row of the op tables holds: on uneven parts, for values and gradients, in both Keras generations."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

import tensorflow as tf
import tf_keras
from proving import Finding, Outcome, holds, leaves, prove, resolved, runner
from samples import samples_for, variants

from migrator.analysis.ops import ACTIVITY_PENALTY, Arg, Op, OpCall, lookup, rows
from migrator.analysis.placement import Partial, Sharded, Unknown

# Kinds that say of nothing but whole values where they stand.
ONLY_WHOLE = {"WholeValue", "Constant"}
BOTH_GENERATIONS = ("keras.losses.", "keras.metrics.", "keras.layers.", "keras.activations.", "keras.regularizers.")


def groups() -> dict[str, list[Op]]:
    """The rows by library and kind, and again as tf_keras has them."""
    found = defaultdict(list)
    for op in rows():
        found[f"{op.path.partition('.')[0]}-{type(op.kind).__name__}"].append(op)
        if op.path.startswith((*BOTH_GENERATIONS, "keras.backend.")):
            older = replace(op, path=f"tf_{op.path}")
            if _exists(older.path):
                found[f"tf_keras-{type(op.kind).__name__}"].append(older)
    return dict(found)


def _exists(path: str, library: Any = tf_keras) -> bool:
    found: Any = library
    for piece in path.split(".")[1:]:
        found = getattr(found, piece, None)
    return found is not None


def findings(op: Op) -> list[Finding]:
    """All that the row says of its samples; a sample of other types stands in where the op takes no floats."""
    found: list[Finding] = []
    for sample in samples_for(op):
        for variant in variants(sample):
            try:
                Outcome(runner(op, variant), variant, [leaf.value for leaf in leaves(variant)])
            except Exception:  # the op takes no such values: the next type may do
                continue
            found += prove(op, variant)
            break
    return found


@pytest.mark.parametrize("group", [pytest.param(ops, id=name) for name, ops in groups().items()])
def test_rows_hold(group: list[Op]) -> None:
    wrong, unproven = [], []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for op in group:
            found = findings(op)
            wrong += [f"{op.path}{f.inputs} = {f.claimed}: {f.error}" for f in found if f.error]
            scalars = all(leaf.value.ndim == 0 for s in samples_for(op) for leaf in leaves(s)) if found else False
            claims = any(not isinstance(f.claimed, Unknown) for f in found)
            if not claims and not scalars and type(op.kind).__name__ not in ONLY_WHOLE:
                unproven.append(op.path)
    assert not wrong, "\n".join(wrong)
    assert not unproven, f"no placement of a sample shows that these hold: {unproven}"


def test_parameters_stand_in_their_order() -> None:
    wrong = []
    for op in rows():
        found = _parameters(op)
        if found is not None and found[: len(op.parameters)] != list(op.parameters):
            wrong.append(f"{op.path}: {op.parameters} for {found}")
    assert not wrong, "\n".join(wrong)


def _parameters(op: Op) -> list[str] | None:
    """The op's positional parameters without a name for graphs; None where Python cannot tell them."""
    owned = any(
        f".{kind}." in op.path for kind in ("Tensor", "ndarray", "TensorShape", "Variable", "losses", "regularizers")
    )
    if (
        owned
        or any(name.startswith("*") for name in op.parameters)
        or op.path.startswith(("operator", "builtins", "math"))
    ):
        return None
    function = resolved(op.path)
    if inspect.isclass(function):
        if ".metrics." in op.path:
            return None
        function = function.call
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None
    return [name for name in names if name not in ("name", "layout", "self")]


@pytest.mark.parametrize("library", ["keras", "tf_keras"])
def test_a_class_is_made_with_its_parameters_in_their_order(library: str) -> None:
    wrong = []
    for op in rows():
        path = op.path.replace("keras.", f"{library}.", 1)
        if not op.made or (library == "tf_keras" and not _exists(path)):
            continue
        found = list(inspect.signature(resolved(path).__init__).parameters)[1:]
        if found[: len(op.made)] != list(op.made):
            wrong.append(f"{path}: {op.made} for {found}")
    assert not wrong, "\n".join(wrong)


def test_tensorflow_1_has_the_same_parameters_under_the_same_name() -> None:
    wrong = []
    for op in rows():
        library, _, name = op.path.partition(".")
        for module in ("compat.v1", "compat.v1.math", "compat.v1.nn", "compat.v1.linalg"):
            path = f"tensorflow.{module}.{name}"
            if (
                library != "tensorflow"
                or "." in name
                or "*" in op.parameters
                or not _exists(path, tf)
                or lookup(path) is None
            ):
                continue
            found = inspect.signature(resolved(path)).parameters
            if [p for p in found if p not in ("name", "layout")][: len(op.parameters)] != list(op.parameters):
                wrong.append(path)
    assert not wrong


@pytest.mark.parametrize("keras", [tf.keras, tf_keras], ids=["keras", "tf_keras"])
def test_an_activity_penalty_is_a_mean(keras: Any) -> None:
    layer = keras.layers.Dense(3, activity_regularizer=keras.regularizers.L2(0.1))
    rows = np.random.default_rng(0).uniform(size=(8, 4)).astype("float32")

    def penalty(part: np.ndarray) -> np.ndarray:
        layer(tf.constant(part))
        return layer.losses[-1].numpy()

    assert not holds(ACTIVITY_PENALTY, penalty(rows), [penalty(rows[:5]), penalty(rows[5:])])


@pytest.mark.parametrize("keras", [tf.keras, tf_keras], ids=["keras", "tf_keras"])
def test_a_mask_of_keras_makes_a_loss_a_ratio(keras: Any) -> None:
    words = np.asarray([[1, 2, 0], [3, 0, 0], [1, 1, 1], [2, 0, 0], [1, 0, 0], [1, 2, 3], [3, 2, 0], [1, 2, 2]])
    wanted = np.random.default_rng(0).uniform(size=(8, 3, 4)).astype("float32")
    embedding, loss = keras.layers.Embedding(4, 4, mask_zero=True), keras.losses.MeanSquaredError()
    row, embedded = lookup("keras.losses.MeanSquaredError"), lookup("keras.layers.Embedding")
    assert row is not None
    assert embedded is not None

    whole, *each = (float(loss(wanted[part], embedding(words[part]))) for part in (slice(8), slice(5), slice(5, 8)))
    output = embedded.infer(OpCall([Arg(Sharded(0))], made=OpCall(kwargs={"mask_zero": Arg(constant=True)})))

    assert holds(Partial("mean"), whole, each), "the mask makes no difference"
    assert isinstance(row.place(OpCall([Arg(Sharded(0)), output])), Unknown)


@pytest.mark.parametrize("module", ["math", "nn", "linalg", "signal", "bitwise", "compat.v2"])
def test_a_folded_name_is_the_same_function(module: str) -> None:
    other: Any = tf
    for piece in module.split("."):
        other = getattr(other, piece)
    wrong = []
    for name in dir(other):
        row = lookup(f"tensorflow.{module}.{name}")
        if row is not None and "." not in row.path.partition(".")[2] and resolved(row.path) is not getattr(other, name):
            wrong.append(name)
    assert not wrong
