"""Names that are bound to what is made of themselves (`f = partial(f, …)`): every question about them has an end."""

import itertools

import pytest

from migrator.engine import Outcome, migrate
from migrator.registry import choose

SCRIPT = """\
import functools

import tensorflow as tf

rows = tf.data.Dataset.from_tensor_slices((tf.ones((24, 4)), tf.ones((24, 1)))).batch(6)
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.1)
loss_fn = tf.keras.losses.MeanSquaredError()
metric = tf.keras.metrics.Mean()
weights = model.trainable_variables


def wrap(function):
    def inner(*args):
        return function(*args)

    return inner


def nested(value):
    return nested([value]) or value


def step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True))
    gradients = tape.gradient(loss, weights)
    optimizer.apply_gradients(zip(gradients, weights))
    return loss


for _ in range(3):
    BOUND
for x, y in rows:
    loss = step(x, y)
model.compile(optimizer, loss_fn, metrics=[metric])
model.fit(rows, epochs=2)
"""
FORMS = (
    "{0} = [{0}, {0}]",
    "{0} = {{'of': {0}}}",
    "{0} = functools.partial({0}, 1)",
    "{0} = wrap({0})",
    "{0} = functools.partial(wrap({0}), {0})",
    "{0} = nested({0})",
    "{0} = tf.function({0})",
)
NAMES = ("step", "loss_fn", "model", "metric", "weights")
CALLED = [("{0} = lambda *args, f={0}: f(*args)", name) for name in ("model", "metric")]


@pytest.mark.parametrize(("form", "name"), [*itertools.product(FORMS, NAMES), *CALLED])
def test_the_analysis_ends(form: str, name: str) -> None:
    outcome = migrate(SCRIPT.replace("BOUND", form.format(name)).encode(), choose())
    assert isinstance(outcome, Outcome)
