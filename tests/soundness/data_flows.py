"""Ways in which scripts get their batches, in the styles of real code: see data_flows.txt and layouts.txt.

A section of such a file is

    == name : words
    the snippet

With the word `loop` (the default) the snippet makes `ds`, which a loop of two epochs trains on, step by step; with
`fit` it makes `ds` for `fit`; `loops` and `fits` are snippets with loops, or calls of `fit`, of their own; `whole` is a
whole script. `documented`: it differs by an exception of the contract (samples that are trained on twice to even out
shares).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .case import Case

_HEAD = """\
import numpy as np
import tensorflow as tf
from tensorflow import keras

keras.utils.set_random_seed(7)
rng = np.random.RandomState(3)
x = rng.normal(size=(72, 4)).astype("float32")
y = rng.normal(size=(72, 1)).astype("float32")
BATCH = 12

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, activation="tanh"), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.05)
"""
_STEP = """

@tf.function
def train_step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(a, training=True) - b))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


"""
_LOOP = """
for epoch in range(2):
    for a, b in ds:
        train_step(a, b)
"""
_COMPILE = 'model.compile(optimizer, "mse")\n'
_FIT = "model.fit(ds, epochs=2, verbose=0)\n"


def _script(word: str, snippet: str) -> str:
    if word == "whole":
        return snippet
    if word in ("fit", "fits"):
        return _HEAD + _COMPILE + snippet + (_FIT if word == "fit" else "")
    return _HEAD + _STEP + snippet + (_LOOP if word == "loop" else "")


def _cases(group: str) -> Iterator[Case]:
    text = Path(__file__).with_name(f"{group}.txt").read_text()
    for section in ("\n" + text).split("\n== ")[1:]:
        head, _, snippet = section.partition("\n")
        name, _, words = head.partition(" : ")
        form = next(iter(words.split()), "loop")
        documented = "documented" in words
        yield Case(group, name.strip(), _script(form, snippet.strip("\n") + "\n"), documented=documented)


CASES = (*_cases("data_flows"), *_cases("layouts"))
