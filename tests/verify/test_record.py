"""What a process leaves behind can be read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from migrator.verify.record import GRADIENTS, WEIGHTS, Optimizer, Record, Step, digest


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    arrays = {GRADIENTS: [np.array([1.5, 2.5]), None], WEIGHTS: [np.zeros(0), np.array([3.0])]}
    step = Step(0, 1, "/a/train.py:3", [0.25], 1.5, 1e-3, "arrays", True, np.ones((4, 2)), arrays)
    record = Record(1, [Optimizer("adam", ["w", "b"], [[2], []])], [step], untouched=["c"], end="stopped")
    record.save(tmp_path / "rank-1.npz")
    found = Record.load(tmp_path / "rank-1.npz")
    assert (found.rank, found.optimizers, found.untouched, found.end) == (1, record.optimizers, ["c"], "stopped")
    again = found.steps[0]
    assert (again.line, again.losses, again.learning_rate, again.source) == ("/a/train.py:3", [0.25], 1e-3, "arrays")
    assert again.rows.tolist() == step.rows.tolist()
    assert again.arrays[GRADIENTS][1] is None
    assert [t.tolist() for t in again.arrays[WEIGHTS] if t is not None] == [[], [3.0]]


def test_the_digest_of_a_small_tensor_is_all_of_it() -> None:
    assert digest(np.arange(6, dtype=np.float32).reshape(2, 3)).tolist() == [0, 1, 2, 3, 4, 5]


def test_any_change_of_a_large_tensor_shows_in_its_digest() -> None:
    tensor = np.random.RandomState(0).normal(size=100_003).astype(np.float32)
    before = digest(tensor)
    assert before.size <= 2048
    for place in (1, 54_321, 100_002):
        changed = tensor.copy()
        changed[place] += 0.5
        assert np.abs(digest(changed) - before).max() > 1e-3
