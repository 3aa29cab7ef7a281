"""A script that amplifies rounding: float32 cannot tell whether its port is right, float64 can."""

from __future__ import annotations

from pathlib import Path

import pytest
from verification import SAME, SOMETHING_LEFT, ported, proof_of

CHAOTIC = """import numpy as np
import tensorflow as tf

rows = np.random.RandomState(0).normal(size=(240, 5)).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices(rows).batch(20)
w = tf.Variable(tf.random.normal([5, 3]), name="w")
optimizer = tf.keras.optimizers.SGD(1.5)
for x in dataset:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.cos(4.0 * tf.matmul(x, w)))
    gradients = tape.gradient(loss, [w])
    optimizer.apply_gradients(zip(gradients, [w]))
"""


def furthest(figures: dict[str, list[tuple[int, float, float]]]) -> float:
    return max(size for _, size, _ in figures["weights"])


@pytest.mark.long
def test_float64_takes_rounding_out(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CHAOTIC)
    proof = proof_of(tmp_path, "train.py", code=SAME)
    on_two = proof["runs"][-1]
    assert furthest(on_two["figures"]) > 1e-4
    assert furthest(on_two["float64"]["figures"]) < 1e-3 * furthest(on_two["figures"])
    assert "in float64" in proof["verdict"]["reason"]


@pytest.mark.long
def test_what_is_wrong_stays_as_far_apart_in_float64(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CHAOTIC)
    # A thousandth off: no cause shows, and it drowns in what rounding has become by the last steps.
    (tmp_path / "port.py").write_text(ported(CHAOTIC).replace("tf.cos(4.0", "1.0005 * tf.cos(4.0"))
    proof = proof_of(tmp_path, "port.py", "--original", "train.py", code=SOMETHING_LEFT)
    assert proof["verdict"]["kind"] == "DIFFERENT"
    assert furthest(proof["runs"][-1]["float64"]["figures"]) > 1e-4
