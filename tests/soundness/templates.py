"""Whole training scripts around the snippets of losses.txt and forward_passes.txt.

A section of such a file is

    == name : words
    definitions of the script, if it needs any
    --
    the snippet

The words choose the template and the data: `loop` (the default), where the snippet makes `loss` under the tape of `x`,
`y` (and `w`, a weight for each sample, with the word `weights`) and the model's predictions `p`; `step`, the same in a
tf.function; `train_step`, the same in a Keras model's own; `fit`, where it is the arguments of `compile`; `model`,
where it is a whole model, by the name `model`, that a loop trains with a mean of squares, and `fit-model`, which `fit`
trains. A snippet of another form is the whole loop (`body`), and has models of its own, too (`bare`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .case import Case
from .truth import PARTS, ROWS


@dataclass(frozen=True)
class Data:
    """How features and targets are made of `rng`, and the layers of a model for them."""

    features: str
    targets: str
    layers: str


_ROW = 'rng.normal(size=(COUNT, 6)).astype("float32")'
_DENSE = 'keras.Input((6,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense({})'
DATA = {
    "regression": Data(_ROW, 'rng.normal(size=(COUNT, 1)).astype("float32")', _DENSE.format(1)),
    "wide": Data(_ROW, 'rng.normal(size=(COUNT, 4)).astype("float32")', _DENSE.format(4)),
    "positive": Data(_ROW, 'rng.gamma(2.0, size=(COUNT, 1)).astype("float32")', _DENSE.format(1)),
    "binary": Data(_ROW, 'rng.randint(0, 2, size=(COUNT, 1)).astype("float32")', _DENSE.format(1)),
    "classes": Data(_ROW, "rng.randint(0, 3, size=COUNT)", _DENSE.format(3)),
    "onehot": Data(_ROW, 'np.eye(3, dtype="float32")[rng.randint(0, 3, size=COUNT)]', _DENSE.format(3)),
    "tokens": Data(
        "rng.randint(0, 7, size=(COUNT, 5))",
        "rng.randint(0, 7, size=(COUNT, 5))",
        "keras.Input((5,)), keras.layers.Embedding(7, 4), keras.layers.Dense(7)",
    ),
    "images": Data(
        'rng.uniform(size=(COUNT, 6, 6, 1)).astype("float32")',
        'rng.uniform(size=(COUNT, 6, 6, 1)).astype("float32")',
        'keras.Input((6, 6, 1)), keras.layers.Conv2D(2, 3, padding="same", activation="tanh"), '
        'keras.layers.Conv2D(1, 3, padding="same")',
    ),
    "masks": Data(
        'rng.uniform(size=(COUNT, 6, 6, 1)).astype("float32")',
        'rng.randint(0, 2, size=(COUNT, 6, 6, 1)).astype("float32")',
        'keras.Input((6, 6, 1)), keras.layers.Conv2D(2, 3, padding="same", activation="tanh"), '
        'keras.layers.Conv2D(1, 3, padding="same", activation="sigmoid")',
    ),
    "sequences": Data(
        'rng.normal(size=(COUNT, 5, 3)).astype("float32")',
        'rng.normal(size=(COUNT, 2)).astype("float32")',
        "keras.Input((5, 3)), keras.layers.LSTM(4), keras.layers.Dense(2)",
    ),
}

_HEAD = """\
import numpy as np
import tensorflow as tf
from tensorflow import keras

keras.utils.set_random_seed(7)
rng = np.random.RandomState(3)
features = {features}
targets = {targets}
{weights}{rows}dataset = tf.data.Dataset.from_tensor_slices(({columns})).batch(24)
"""
_MODEL = """
model = keras.Sequential([{layers}])
"""
_OPTIMIZER = """optimizer = keras.optimizers.SGD({rate})
"""
_LOOP = """
for {names} in dataset:
    with tf.GradientTape() as tape:
        p = model(x, training=True)
{snippet}
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""
_STEP = """
@tf.function
def train_step({names}):
    with tf.GradientTape() as tape:
        p = model(x, training=True)
{snippet}
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for {names} in dataset:
    train_step({names})
"""
_TRAIN_STEP = """
class Trained(keras.Model):
    def __init__(self):
        super().__init__()
        self.network = keras.Sequential([{layers}])

    def call(self, x, training=False):
        return self.network(x, training=training)

    def train_step(self, data):
        {names} = data
        with tf.GradientTape() as tape:
            p = self(x, training=True)
{snippet}
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {{"loss": loss}}


model = Trained()
model.compile(optimizer=keras.optimizers.SGD({rate}){compile})
model.fit(dataset, epochs=1, verbose=0)
"""
_FIT = """
model.compile(optimizer=keras.optimizers.SGD({rate}), {snippet})
model.fit(dataset, epochs=1, verbose=0)
"""
_MODEL_LOOP = """
for {names} in dataset:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""


def cases(group: str, path: Path) -> tuple[Case, ...]:
    """The cases of all sections of the file."""
    return tuple(_case(group, *section) for section in sections(path))


def sections(path: Path) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Name, words and text of each section; comments stand above the first."""
    for section in ("\n" + path.read_text()).split("\n== ")[1:]:
        head, _, text = section.partition("\n")
        name, _, words = head.partition(" : ")
        yield name.strip(), tuple(words.split()), text.strip("\n")


def _case(group: str, name: str, words: tuple[str, ...], text: str) -> Case:
    scripts = [_script(words, text), _script(words, text, rows=ROWS, rate=0.0)]
    scripts += [_script(words, text, rows=part) for part in PARTS]
    whole, *parts = (script.replace("COUNT", "72") for script in scripts)
    known = {word: word in words for word in ("documented", "untrained", "open")}
    return Case(group, name, whole, tuple(parts), **known)


def _script(words: tuple[str, ...], text: str, rows: tuple[int, ...] | None = None, rate: float = 0.05) -> str:
    definitions, separator, snippet = text.rpartition("\n--\n")
    if not separator and text.startswith("--\n"):
        snippet = text[3:]
    data = next((DATA[word] for word in words if word in DATA), DATA["wide" if _is_model(words) else "regression"])
    form = next((w for w in words if w in ("step", "train_step", "fit", "model", "fit-model", "body", "bare")), "loop")
    columns = ["features", "targets"] + ["weights"] * ("weights" in words)
    chosen = f"{', '.join(columns)} = {', '.join(f'{c}[{list(rows)}]' for c in columns)}\n" if rows is not None else ""
    values = {
        "features": data.features,
        "targets": data.targets,
        "weights": 'weights = rng.uniform(0.2, 3.0, size=COUNT).astype("float32")\n' * ("weights" in words),
        "rows": chosen,
        "columns": ", ".join(columns),
        "names": "x, y, w" if "weights" in words else "x, y",
        "layers": data.layers,
        "rate": rate,
        "compile": "",
    }
    definitions = f"\n{definitions}\n" if definitions else ""
    head = _HEAD.format(**values)
    model, optimizer = _MODEL.format(**values), _OPTIMIZER.format(**values)
    if form in ("model", "fit-model"):
        training = _MODEL_LOOP if form == "model" else _FIT
        built = f"{definitions}\n{snippet}\n" + (optimizer if form == "model" else "")
        return head + built + training.format(**values, snippet='loss="mse"')
    if form == "fit":
        return head + model + definitions + _FIT.format(**values, snippet=snippet)
    if form == "train_step":
        compiled = [w[len("compile=") :] for w in words if w.startswith("compile=")]
        values["compile"] = "".join(f", {w}" for w in compiled)
        return head + definitions + _TRAIN_STEP.format(**values, snippet=textwrap.indent(snippet, " " * 12))
    if form in ("body", "bare"):
        given = model + optimizer if form == "body" else ""
        return head + given + (definitions + "\n" + snippet + "\n").replace("RATE", str(rate))
    template = _STEP if form == "step" else _LOOP
    return head + model + optimizer + definitions + template.format(**values, snippet=textwrap.indent(snippet, " " * 8))


def _is_model(words: tuple[str, ...]) -> bool:
    return "model" in words or "fit-model" in words
