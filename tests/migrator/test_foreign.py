"""Of which packages that nobody knows something comes into the training."""

from __future__ import annotations

import pytest
from script_nodes import Script

SCRIPT = """
import functools
import numpy as np
import tensorflow as tf
import unknown
class Holder: scale = 1.0
holder = Holder()
X, Y = np.zeros((9, 2), "float32"), np.zeros((9, 1), "float32")
scale, width, settings = 1.0, 4, {{"scale": 1.0}}
{before}
model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(width), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.1)
def train():
    for step in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(Y - model(X))) * {factor}
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
        {told}
train()
"""


def trained_with(before: str = "", factor: str = "1.0", told: str = "pass") -> str:
    parsed = Script(SCRIPT.format(before=before, factor=factor, told=told))
    return parsed.facts.foreign.trained_with


@pytest.mark.parametrize(
    "told",
    [
        "pass",
        "unknown.show(float(loss))",
        "print(unknown.pretty(float(loss)))",
        "if unknown.is_verbose(): print(float(loss))",
        "if unknown.is_verbose(): unknown.show(float(loss))",
        "tf.print(unknown.pretty(float(loss)))",
    ],
)
def test_what_is_only_told(told: str) -> None:
    assert trained_with(told=told) == ""


def test_what_a_logger_is_given() -> None:
    assert trained_with("import wandb\nrun = wandb.init()", told="run.log({'loss': loss})") == ""


def test_layers_that_draw_as_tensorflow_does() -> None:
    assert trained_with("import tensorflow_addons as tfa\nX = tfa.image.gaussian_filter2d(X)") == ""


@pytest.mark.parametrize("package", ["bs4", "librosa", "pycocotools", "spektral", "tensorflow_text"])
def test_packages_whose_source_draws_as_the_workers_do(package: str) -> None:
    assert trained_with(f"import {package}\nX = {package}.load('samples')") == ""


@pytest.mark.parametrize("package", ["albumentations", "imgaug", "sentencepiece"])
def test_packages_with_generators_of_their_own(package: str) -> None:
    assert trained_with(f"import {package}\nX = {package}.load('samples')") == package


@pytest.mark.parametrize(
    "before",
    [
        "X = unknown.load()",
        "from unknown import *",
        "from unknown import load\nX = load()",
        "unknown.shuffle(X)",
        "X[:] += unknown.noise()",
        "width = unknown.parse().width",
        "np.random.seed(unknown.seed())",
        "class Data(unknown.Data): pass\nX = Data().get()",
        "@unknown.jit\ndef make(): return np.zeros((9, 2))\nX = make()",
        "with unknown.opened() as f:\n    X = np.loadtxt(f)",
        "for _ in unknown.items():\n    X = X + 1",
        "if unknown.large():\n    width = 8",
        "@unknown.main\ndef run(): train()",
    ],
)
def test_what_comes_into_the_data_or_the_model(before: str) -> None:
    assert trained_with(before) == "unknown"


@pytest.mark.parametrize(
    ("before", "factor"),
    [
        ("", "unknown.scale()"),
        ("unknown.fill(holder)", "holder.scale"),
        ("setattr(Holder, 'scale', unknown.scale())", "holder.scale"),
        ("settings['scale'] = unknown.scale()", "settings['scale']"),
        ("settings.update(unknown.read())", "settings['scale']"),
        ("f = lambda: unknown.scale()", "f()"),
        ("f = functools.partial(np.multiply, unknown.scale())", "f(2.0)"),
        ("def tune():\n    global scale\n    scale = unknown.scale()\ntune()", "scale"),
    ],
)
def test_what_comes_into_the_loss(before: str, factor: str) -> None:
    assert trained_with(before, factor) == "unknown"


@pytest.mark.parametrize(
    "told",
    [
        "if unknown.should_stop(float(loss)): break",
        "optimizer.learning_rate = unknown.rate(step)",
        "optimizer.learning_rate.assign(unknown.rate(step))",
        "unknown.prune(model)",
        "model.layers[0].kernel.assign(unknown.pruned())",
        "unknown.run(train)",
    ],
)
def test_what_steers(told: str) -> None:
    assert trained_with(told=told) == "unknown"
