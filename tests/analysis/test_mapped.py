"""What counts as working row by row in a dataset's `map` gives of a batch what it gives of its parts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import libcst as cst
import numpy as np
import pytest

from migrator.analysis.mapped import DRAWN_PER_ROW
from migrator.facts.program import modules
from migrator.facts.script import Facts
from migrator.text.parsing import parse

FIRST = """\
import random
import numpy as np, tensorflow as tf
import unseen

BATCH = 8
images = np.random.rand(40, 6, 7, 3).astype("float32") * 3
labels = np.random.randint(0, 3, 40)
W = np.ones((3, 2), "float32")
layer = tf.keras.layers.Rescaling(0.5)
bn = tf.keras.layers.BatchNormalization()
net = tf.keras.Sequential([tf.keras.layers.Conv2D(2, 3), tf.keras.layers.BatchNormalization()])
flips = tf.keras.Sequential([tf.keras.layers.RandomFlip(), tf.keras.layers.RandomRotation(0.1)])
global_count = tf.Variable(0)
state = []
"""
LAST = "dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(BATCH).map(f)\n"
TEXT = Path(__file__).with_name("mapped_functions.txt").read_text()
ROW_BY_ROW, OTHERS = (part.strip().split("\n\n") for part in re.split("^== .*\n", TEXT, flags=re.M)[1:])


def defined(source: str) -> str:
    return source if source.startswith("def") else f"f = {source}"


def is_row_by_row(source: str) -> bool:
    text = f"{FIRST}{defined(source)}\n{LAST}"
    facts = Facts([modules.Script(Path("script.py"), parse(text), text)])
    maps = [c for c in facts.tree.calls if isinstance(c.func, cst.Attribute) and c.func.attr.value == "map"]
    return facts.mapped.is_row_by_row(maps[-1])


@pytest.mark.parametrize("source", ROW_BY_ROW)
def test_row_by_row(source: str) -> None:
    import tensorflow as tf

    names: dict[str, Any] = {}
    exec(FIRST.replace("import unseen", ""), names)
    exec(defined(source), names)
    function, batch = tf.function(names["f"]), (names["images"][:8], names["labels"][:8])
    whole, *parts = (
        tf.nest.flatten(function(*(tf.constant(x[rows]) for x in batch))) for rows in (slice(8), slice(3), slice(3, 8))
    )

    assert is_row_by_row(source)
    for value, *pieces in zip(whole, *parts):
        np.testing.assert_allclose(value, tf.concat(pieces, 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("source", OTHERS)
def test_not_seen_to_be(source: str) -> None:
    assert not is_row_by_row(source)


@pytest.mark.parametrize("path", sorted(DRAWN_PER_ROW))
def test_each_row_gets_a_draw_of_its_own(path: str) -> None:
    import tensorflow as tf

    library, name = path.rsplit(".", 2)[-2:]
    function = getattr(tf.image, name) if library == "image" else getattr(tf.keras.layers, name)
    x = np.tile(np.random.RandomState(0).uniform(size=(1, 6, 7, 3)).astype("float32"), (64, 1, 1, 1))
    made = {"RandomFlip": (), "RandomTranslation": (0.3, 0.3)}.get(name, (0.3,))
    drawn = np.asarray(function(x) if library == "image" else function(*made)(x, training=True))
    assert len({row.tobytes() for row in drawn}) > 1


def test_layers_that_draw_for_each_row() -> None:
    assert is_row_by_row("lambda x, y: (tf.image.random_flip_left_right(flips(x, training=True)), y)")
