"""What a loss expression is over the batch decides how gradients are reduced, or that they cannot be."""

from __future__ import annotations

import pytest
from script_nodes import Script

from migrator.facts.loss_kinds import DATA, FREE, MEAN, PENALTY, SAMPLES, SUM, UNSPLIT

SETTING = """
import argparse
import numpy as np
import tensorflow as tf
from tensorflow import keras
from elsewhere import strange

BATCH = 64
args = argparse.ArgumentParser().parse_args()
model = keras.Sequential([keras.layers.Dense(1)])
w = tf.Variable(tf.ones([3, 1]))
mse = keras.losses.MeanSquaredError()
mae_sum = keras.losses.MeanAbsoluteError(reduction="sum")
each = keras.losses.SparseCategoricalCrossentropy(reduction=keras.losses.Reduction.NONE)
mask_of = lambda t: tf.cast(t > 0, tf.float32)

class Weighted(keras.losses.Loss):
    def call(self, y_true, y_pred):
        return tf.square(y_true - y_pred)

own = Weighted()

def per_sample(y, p):
    return tf.reduce_mean(tf.square(y - p), axis=1)

def averaged(y, p):
    return tf.reduce_mean(per_sample(y, p))

dataset = tf.data.Dataset.load("pairs").batch(BATCH)
for x, y in dataset:
    p = model(x)
    n = tf.cast(tf.shape(x)[0], tf.float32)
"""

MEANS = [
    "mse(y, p)",
    "tf.reduce_mean(tf.square(y - p))",
    "tf.math.reduce_mean((y - p) ** 2)",
    "keras.ops.mean(keras.ops.abs(y - p))",
    "tf.reduce_mean(each(y, p))",
    "tf.reduce_mean(keras.losses.binary_crossentropy(y, p))",
    "tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=p))",
    "tf.reduce_mean(tf.reduce_sum(tf.square(y - p), axis=1))",
    "tf.reduce_mean(tf.reduce_sum(tf.square(y - p), axis=[1, 2]))",
    "tf.reduce_mean(tf.square(y - p), axis=0)",
    "mse(y, p) + 0.1 * tf.reduce_mean(p)",
    "0.5 * mse(y, p)",
    "-tf.reduce_mean(p)",
    "mse(y, p) / 4.0",
    "mse(y, p) + sum(model.losses)",
    "mse(y, p) + tf.add_n(model.losses)",
    "mse(y, p) + 1e-4 * tf.nn.l2_loss(w)",
    "mse(y, p) + 1e-4 * tf.add_n([tf.nn.l2_loss(v) for v in model.trainable_variables])",
    "tf.add_n([mse(y, p), mse(y, 2 * p)])",
    "tf.reduce_sum(tf.square(y - p)) / n",
    "tf.reduce_sum(each(y, p)) / tf.cast(tf.shape(y)[0], tf.float32)",
    "tf.reduce_sum(each(y, p)) / len(y)",
    "tf.reduce_sum(each(y, p)) / y.shape[0]",
    "tf.nn.compute_average_loss(each(y, p))",
    "own(y, p)",
    "averaged(y, p)",
    "averaged(y, model(x))",
    "tf.cast(mse(y, p), tf.float32)",
    "tf.reduce_mean(mse(y, p))",
    "tf.reduce_mean(p) - tf.reduce_mean(y)",
    "mse(y, p) if args.square else tf.reduce_mean(tf.abs(y - p))",
]
SUMS = [
    "mae_sum(y, p)",
    "tf.reduce_sum(tf.square(y - p))",
    "tf.nn.l2_loss(y - p)",
    "0.5 * tf.reduce_sum(tf.square(y - p))",
    "tf.reduce_sum(each(y, p)) / BATCH",
    "tf.reduce_sum(each(y, p)) * (1.0 / BATCH)",
    "tf.reduce_sum(each(y, p)) / args.batch_size",
    "tf.nn.compute_average_loss(each(y, p), global_batch_size=BATCH)",
    "tf.reduce_sum(tf.reduce_mean(tf.square(y - p), axis=1))",
    "tf.reduce_sum(y) + tf.reduce_sum(p)",
    "tf.reduce_sum(tf.square(y - p), axis=[0, 1])",
]
PER_SAMPLE = [
    "each(y, p)",
    "per_sample(y, p)",
    "keras.losses.mse(y, p)",
    "tf.nn.sigmoid_cross_entropy_with_logits(y, p)",
    "each(y, p) + per_sample(y, p)",
    "2.0 * each(y, p)",
    "each(y, p) + sum(model.losses)",
]
UNSPLITTABLE = [
    "tf.sqrt(mse(y, p))",
    "tf.sqrt(tf.reduce_mean(tf.square(y - p)))",
    "tf.math.log(tf.reduce_sum(p))",
    "mse(y, p) ** 0.5",
    "tf.sqrt(mse(y, p)) / args.scale",
    "mse(y, p) * tf.reduce_mean(p)",
    "tf.reduce_sum(each(y, p)) / tf.reduce_sum(mask_of(y))",
    "tf.reduce_sum(each(y, p)) / tf.maximum(tf.reduce_sum(y), 1.0)",
    "mse(y, p) + tf.reduce_sum(p)",
    "tf.reduce_sum(each(y, p)) + sum(model.losses)",
    "tf.reduce_sum(each(y, p)) / BATCH + 1e-4 * tf.nn.l2_loss(w)",
    "tf.matmul(p, p, transpose_b=True)",
    "p @ tf.transpose(p)",
    "tf.exp(-mse(y, p))",
]
NOT_OF_THE_DATA = [
    ("1.0", FREE),
    ("BATCH / 2", FREE),
    ("tf.add_n(model.losses)", PENALTY),
    ("tf.nn.l2_loss(w)", PENALTY),
]
NOT_SEEN = ["strange(y, p)", "strange.loss(p)", "p"]

TABLE = [
    *((e, MEAN) for e in MEANS),
    *((e, SUM) for e in SUMS),
    *((e, SAMPLES) for e in PER_SAMPLE),
    *((e, UNSPLIT) for e in UNSPLITTABLE),
    *NOT_OF_THE_DATA,
    *((e, DATA) for e in NOT_SEEN),
]


def kind(loss: str, *more: str) -> str:
    lines = [f"loss = {loss}", *more, "use(loss)"]
    script = Script(SETTING + "".join(f"    {line}\n" for line in lines))
    return script.facts.losses.kind(script.call("use(loss)").args[0].value)


@pytest.mark.parametrize(("expression", "expected"), TABLE)
def test_kind_of_an_expression(expression: str, expected: str) -> None:
    assert kind(expression) == expected


@pytest.mark.parametrize(("expression", "expected"), [e for e in TABLE if e[1] in (MEAN, SUM, UNSPLIT)])
def test_kind_does_not_change_by_a_factor(expression: str, expected: str) -> None:
    assert kind(f"3.0 * ({expression})") == expected


@pytest.mark.parametrize(
    ("first", "later", "expected"),
    [
        ("mse(y, p)", "loss += sum(model.losses)", MEAN),
        ("mse(y, p)", "loss = loss + 0.1 * tf.reduce_mean(p)", MEAN),
        ("0.0", "loss += mse(y, p)", MEAN),
        ("tf.reduce_sum(p)", "loss /= BATCH", SUM),
        ("tf.reduce_sum(p)", "loss /= n", MEAN),
        ("tf.reduce_sum(p)", "loss += 1e-4 * tf.nn.l2_loss(w)", UNSPLIT),
        ("mse(y, p)", "loss *= 0.5", MEAN),
        ("mse(y, p)", "loss += tf.reduce_sum(p)", UNSPLIT),
        ("0.0", "for t in range(3): loss += mse(y, p)", MEAN),
        ("0.0", "for t in range(3): loss += tf.reduce_sum(p)", SUM),
    ],
)
def test_kind_of_a_loss_that_is_built_up(first: str, later: str, expected: str) -> None:
    assert kind(first, later) == expected


@pytest.mark.parametrize(
    "expression",
    [
        "tf.reduce_sum(each(y, p)) / tf.cast(tf.math.count_nonzero(y), tf.float32)",
        "tf.reduce_mean(tf.boolean_mask(each(y, p), y > 0))",
        "tf.reduce_mean(each(y, p)[y > 0])",
        "tf.reduce_mean(tf.gather(each(y, p), tf.where(y > 0)))",
        "tf.math.reduce_std(p)",
        "tf.reduce_max(each(y, p))",
        "tf.reduce_logsumexp(p)",
        "tf.norm(y - p)",
        "tf.reduce_mean(tf.math.top_k(each(y, p), 8)[0])",
        "tf.reduce_mean(tf.sort(each(y, p))[:8])",
        "tf.reduce_prod(p)",
        "tf.reduce_mean(tf.nn.softmax(p, axis=0))",
    ],
)
def test_what_looks_at_the_batch_as_a_whole_is_neither_mean_nor_sum(expression: str) -> None:
    assert kind(expression) in (UNSPLIT, DATA)


@pytest.mark.parametrize(
    "expression", ["tf.reduce_mean(each(y, p), axis=-1)", "tf.reduce_mean(keras.losses.mse(y, p), axis=-1)"]
)
def test_last_axis_of_a_vector_of_samples_is_the_batch(expression: str) -> None:
    assert kind(expression) in (MEAN, DATA, UNSPLIT)
