"""Decisions in the styles of real code: see decisions.txt."""

from __future__ import annotations

from pathlib import Path

from .case import Case
from .templates import sections

_HEAD = """\
import numpy as np
import tensorflow as tf
from tensorflow import keras

keras.utils.set_random_seed(7)
rng = np.random.RandomState(10)
LOW, MIDDLE, HIGH = 1.0, 3.5, 8.0
features = rng.normal(size=(48, 4)).astype("float32")
targets = (features @ rng.normal(size=(4, 1)) + rng.standard_t(2, size=(48, 1))).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((features, targets)).batch(12)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.05)
"""
_STEP = """

@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


"""


def _case(name: str, words: tuple[str, ...], text: str) -> Case:
    rule = "" if words else "average-metrics"
    step = _STEP if "train_step(" in text else "\n"
    return Case("decisions", name, f"{_HEAD}{step}{text}\n", repaired_by=rule)


CASES = tuple(_case(*section) for section in sections(Path(__file__).with_name("decisions.txt")))
