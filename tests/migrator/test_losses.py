"""What a loss is over the batch decides how its gradients are put together, and what has to be put together before."""

from __future__ import annotations

import random

import pytest
from script_nodes import Script

SETTING = """
import tensorflow as tf
from tensorflow import keras
from elsewhere import strange

BATCH = 64
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
optimizer = keras.optimizers.SGD(0.1)
mse = keras.losses.MeanSquaredError()
mae_sum = keras.losses.MeanAbsoluteError(reduction="sum")
each = keras.losses.CategoricalCrossentropy(reduction=keras.losses.Reduction.NONE)
dataset = tf.data.Dataset.load("pairs").batch(BATCH, drop_remainder=True)

class Weighted(keras.losses.Loss):
    def call(self, y_true, y_pred):
        return tf.reduce_mean(tf.square(y_true - y_pred), axis=-1)

class Paired(keras.losses.Loss):
    def call(self, y_true, y_pred):
        return tf.linalg.diag_part(tf.matmul(y_pred, y_pred, transpose_b=True))

def mixed(y, p):
    if BATCH > 1:
        return tf.reduce_mean(tf.square(y - p))
    return tf.reduce_mean(tf.abs(y - p))

for x, y in dataset:
    with tf.GradientTape() as tape:
        p = model(x, training=True)
        loss = LOSS
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""
# The loss; how gradients are put together; how many expressions have to be put together before.
LOSSES = [
    ("tf.reduce_mean(tf.square(p - y))", "mean", 0),
    ("tf.math.reduce_mean(tf.abs(y - p), axis=[0, 1])", "mean", 0),
    ("keras.ops.mean(keras.ops.square(p - y))", "mean", 0),
    ("mse(y, p)", "mean", 0),
    # pictures come in batches, of how many axes ever
    ("tf.reduce_mean(keras.layers.RandomFlip()(x)) + tf.reduce_mean(tf.image.flip_left_right(x))", "mean", 0),
    ("Weighted()(y, p)", "mean", 0),
    ("Weighted(reduction='sum')(y, p)", "sum", 0),
    ("mixed(y, p)", "mean", 0),
    ("mae_sum(y, p)", "sum", 0),
    ("mae_sum(y, p) / BATCH", "sum", 0),
    ("each(y, p)", "sum", 0),
    ("tf.nn.compute_average_loss(each(y, p), global_batch_size=BATCH)", "sum", 0),
    ("tf.reduce_mean(each(y, p))", "mean", 0),
    ("tf.reduce_sum(each(y, p)) / tf.cast(tf.shape(p)[0], tf.float32)", "mean", 0),
    ("tf.reduce_mean(tf.square(p - y)) / tf.cast(tf.shape(p)[0], tf.float32)", "mean", 2),
    ("mse(y, p) + 0.1 * tf.add_n([tf.nn.l2_loss(v) for v in model.trainable_variables])", "mean", 0),
    ("tf.reduce_sum(each(y, p)) + tf.add_n([tf.nn.l2_loss(v) for v in model.trainable_variables])", "sum", 1),
    ("tf.reduce_mean(each(y, p)) + tf.reduce_sum(tf.abs(p))", "mean", 2),
    ("tf.sqrt(tf.reduce_mean(tf.square(p - y)))", "mean", 1),
    ("tf.reduce_sum(each(y, p)) / tf.reduce_sum(tf.abs(y))", "sum", 1),
    ("1.0 - tf.reduce_sum(p * y) / tf.reduce_sum(p + y)", "mean", 2),
    ("tf.reduce_mean(tf.nn.softmax(p, 0))", "mean", 1),
    ("tf.reduce_mean(tf.reshape(p, [16, 2, -1])[:, 0])", "mean", 1),
    ("tf.reduce_mean(tf.math.top_k(tf.reduce_sum(p, axis=1), k=8).values)", "mean", 1),
    ("tf.reduce_mean(tf.random.shuffle(p) * y)", "mean", 2),
    ("strange(p, y)", "mean", 2),
    ("tf.reduce_mean(Paired()(y, p))", "mean", 2),
]  # fmt: skip


def verdict(loss: str) -> tuple[str, int]:
    script = Script(SETTING.replace("LOSS", loss))
    found = script.facts.losses.of(script.call("tape.gradient(loss, model.trainable_variables)"))
    return found.reduction, len({operand for repair in found.repairs for operand in repair.operands})


@pytest.mark.parametrize(("loss", "reduction", "operands"), LOSSES)
def test_a_loss_adds_up(loss: str, reduction: str, operands: int) -> None:
    assert verdict(loss) == (reduction, operands)


@pytest.mark.parametrize(
    ("made", "may_lack"),
    [
        ("settings = {'axis': 1}", False),
        ("settings = {}\nsettings['axis'] = 1", False),
        ("settings = dict(axis=1)", False),
        ("settings = {}\nif BATCH > SIZE:\n    settings['axis'] = 1", True),
        ("settings = {'axis': 1}\nif BATCH > SIZE:\n    settings.pop('axis')", True),
        ("settings = {'axis': 1}\nif BATCH > SIZE:\n    del settings['axis']", True),
        ("settings = {'axis': 1}\nif BATCH > SIZE:\n    settings.clear()", True),
        ("settings = {}\nsettings.update({'axis': 1} if BATCH > SIZE else {})", True),
        ("settings = {name: 1 for name in ['axis'] if BATCH > SIZE}", True),
        ("settings = dict(zip(['axis'] if BATCH > SIZE else [], [1]))", True),
        ("some = {}\nif BATCH > SIZE:\n    some['axis'] = 1\nsettings = {**some}", True),
        (
            "def make(s):\n    if SIZE:\n        return s\n    s['axis'] = 1\n    return s\nsettings = make({})",
            True,
        ),
    ],
)
def test_a_keyword_that_a_dictionary_may_lack_is_not_always_given(made: str, may_lack: bool) -> None:
    loss = "tf.reduce_sum(tf.math.reduce_logsumexp(tf.square(p - y), **settings))"
    text = SETTING.replace("LOSS", loss).replace("for x, y", f"import sys\nSIZE = len(sys.argv)\n{made}\nfor x, y")
    script = Script(text)
    found = script.facts.losses.of(script.call("tape.gradient(loss, model.trainable_variables)"))
    assert (found.reduction == "sum" and not found.repairs) == (not may_lack)


def test_a_loss_that_cannot_be_put_together_is_lost() -> None:
    script = Script(SETTING.replace("LOSS", "tf.map_fn(lambda row: strange(row, p), p)"))
    found = script.facts.losses.of(script.call("tape.gradient(loss, model.trainable_variables)"))
    assert found.reduction == ""
    assert found.why


def test_answers_do_not_depend_on_the_order_of_questions() -> None:
    text = SETTING.replace("LOSS", "mse(y, p) + tf.sqrt(tf.reduce_mean(tf.square(p - y)))")
    expected = None
    for seed in range(3):
        script = Script(text)
        nodes = [n for n in script.facts.tree.order if n in script.facts.losses._run.seen]
        random.Random(seed).shuffle(nodes)
        answers = {script.facts.tree.order[n]: script.facts.losses.of_number(n).reduction for n in nodes}
        assert expected in (None, answers)
        expected = answers


def test_a_function_that_nobody_calls_is_seen_on_some_batch() -> None:
    script = Script.of(
        """
        import tensorflow as tf

        def train_step(model, optimizer, x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(x - y))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        """
    )
    assert script.facts.losses.of(script.call("tape.gradient(loss, model.trainable_variables)")).reduction == "mean"
