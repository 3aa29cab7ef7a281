"""The command on scripts of which the verdict is known, with real workers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
SAME, DIFFERENT, ERROR = 0, 1, 2

ORIGINAL = """import numpy as np
import tensorflow as tf

x = np.random.RandomState(0).normal(size=(96, 5)).astype("float32")
y = (x @ np.arange(1.0, 6.0, dtype="float32"))[:, None]
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(96).batch(16)
model = tf.keras.Sequential([tf.keras.Input((5,)), tf.keras.layers.Dense(4, "tanh"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.05)
for epoch in range(2):
    for inputs, targets in dataset:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs, training=True) - targets) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""
APPLIES = "        optimizer.apply_gradients"


def verify(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", "migrator", "verify", *arguments, "--output-format", "json"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=580)


def ported(*without: str) -> str:
    """The original as it is migrated, without the lines that hold these."""
    from migrator.engine import migrate
    from migrator.registry import choose

    text = migrate(ORIGINAL.encode(), choose()).text
    kept = [line for line in text.splitlines() if not any(part in line for part in without)]
    assert len(kept) == len(text.splitlines()) - len(without)
    return "\n".join(kept) + "\n"


def test_a_migrated_script_trains_the_same(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ORIGINAL)
    ran = verify(tmp_path, "train.py", "-n", "2")
    assert ran.returncode == SAME, ran.stdout + ran.stderr
    found = json.loads(ran.stdout)
    assert found["verdict"]["kind"] == "SAME"
    assert [run["processes"] for run in found["runs"]] == [1, 2]
    assert found["compared_steps"] == found["steps"] == 12
    on_two = found["runs"][1]["figures"]
    assert len(on_two["weights"]) == 12
    assert 0 < max(size for _, size, _ in on_two["weights"]) < 1e-5
    assert sorted(path.name for path in tmp_path.iterdir()) == ["train.py"]


@pytest.mark.parametrize(
    ("without", "what", "rule"),
    [
        ("lockstep.broadcast", "first weights", "broadcast-weights"),
        ("lockstep.all_reduce", "gradients", "all-reduce-gradients"),
    ],
    ids=["no-broadcast", "no-all-reduce"],
)
def test_a_wrong_port_is_different(tmp_path: Path, without: str, what: str, rule: str) -> None:
    (tmp_path / "train.py").write_text(ORIGINAL)
    port = ported(without)
    (tmp_path / "port.py").write_text(port)
    ran = verify(tmp_path, "port.py", "--original", "train.py")
    assert ran.returncode == DIFFERENT, ran.stdout + ran.stderr
    verdict = json.loads(ran.stdout)["verdict"]
    line = next(number for number, text in enumerate(port.splitlines(), 1) if text.startswith(APPLIES))
    assert (verdict["kind"], verdict["rule"]) == ("DIFFERENT", rule)
    assert (verdict["difference"]["what"], verdict["difference"]["step"]) == (what, 1)
    assert verdict["difference"]["line"] == f"port.py:{line}"


def test_an_original_that_fails_is_told_with_its_traceback(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ORIGINAL + "raise RuntimeError('out of luck')\n")
    ran = verify(tmp_path, "train.py")
    assert ran.returncode == ERROR
    assert "RuntimeError: out of luck" in ran.stderr
    assert "the original fails by itself" in ran.stderr
