"""A file that a script imports by its name, as a text, may change what others see: it is part of the program."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import contents, migrate

COMMON = "import tensorflow as tf\n\n\ndef normalise(z):\n    return tf.math.l2_normalize(z, axis=-1)\n"
NET = """import tensorflow as tf
import common


class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.a = tf.keras.layers.Dense(3)
        self.b = tf.keras.layers.Dense(1)

    def call(self, x):
        return self.b(common.normalise(self.a(x)))
"""
TRAIN = """import importlib, os, sys
import numpy as np
import tensorflow as tf
from net import Net

{imported}
x = np.random.default_rng(3).normal(size=(30, 4)).astype("float32")
net = Net()
net.compile("sgd", "mse")
net.fit(x, x[:, :1], batch_size=8, epochs=2, shuffle=False)
"""
OVER_THE_BATCH = "lambda z: tf.math.l2_normalize(z, axis=0)"
PATCH = f"import common, tensorflow as tf\ncommon.normalise = {OVER_THE_BATCH}\n"
LATER = f"import common, tensorflow as tf\ndef setup():\n    common.normalise = {OVER_THE_BATCH}\n"
BY_TEXT = f'import sys, tensorflow as tf\nsetattr(sys.modules["common"], "normalise", {OVER_THE_BATCH})\n'
LIST = 'for name in os.environ.get("PLUGINS", "other,patch").split(","):\n    importlib.import_module(name)'


def migrated(folder: Path, imported: str, patch: str, *given: str) -> str:
    for name, text in (("common", COMMON), ("net", NET), ("patch", patch), ("train", TRAIN.format(imported=imported))):
        (folder / f"{name}.py").write_text(text)
    migrate(*([folder / name for name in given] or [folder]))
    return contents(folder)["net.py"].decode()


@pytest.mark.parametrize(
    ("imported", "patch"),
    [
        ('importlib.import_module("patch")', PATCH),
        ('__import__("patch")', BY_TEXT),
        ('importlib.import_module("patch").setup()', LATER),
        (LIST, PATCH),
        ("importlib.import_module(sys.argv[1])", PATCH),
    ],
)
def test_what_it_changes_is_seen(tmp_path: Path, imported: str, patch: str) -> None:
    assert "lockstep.all_gather(self.a(x))" in migrated(tmp_path, imported, patch)


def test_it_is_looked_for_beside_the_script(tmp_path: Path) -> None:
    given = ("train.py", "net.py")
    assert "all_gather" in migrated(tmp_path, 'importlib.import_module("patch")', PATCH, *given)


@pytest.mark.parametrize("patch", [COMMON, PATCH.replace("axis=0", "axis=1")])
def test_one_that_changes_nothing_of_rows_costs_nothing(tmp_path: Path, patch: str) -> None:
    assert "lockstep" not in migrated(tmp_path, 'importlib.import_module("patch")', patch)
    assert b"lockstep.shard_arrays" in contents(tmp_path)["train.py"]
