"""What stays refused where all workers might train on whole batches: what none of them is seen to have alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixture_cases import FIXTURES

from migrator.engine import migrate
from migrator.findings.results import Outcome
from migrator.registry import choose

_CLASS = FIXTURES / "all-reduce-gradients/class_that_nobody_runs/before.py"
_SEARCH = FIXTURES / "all-reduce-gradients/gradients_for_a_search_of_the_script/before.py"
_NET = "self.net = tf.keras.Sequential([tf.keras.Input((6,)), tf.keras.layers.Dense(1)])"
_STEP = "flat = flat - step * gradient"


def _migrated(path: Path, *changes: tuple[str, str]) -> Outcome:
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return migrate(text.encode(), choose())


@pytest.mark.parametrize("path", [_CLASS, _SEARCH])
def test_is_trained_whole(path: Path) -> None:
    outcome = _migrated(path)
    assert outcome.trains_whole
    assert not outcome.refusals


@pytest.mark.parametrize(
    ("made", "called"),
    [
        ("pass", "self.aim(x)"),  # what an heir has
        ("self.net = None", "self.net(x)"),
        ("self.nets = {}", "self.nets['aim'](x)"),
        ("self.nets = []", "sum(net(x) for net in self.nets)"),
        ("pass", "data.net(x)"),
        ("pass", "data.net.predict(x)"),
        ("pass", "tf.map_fn(data.net, x)"),
    ],
)
def test_nobody_knows_what_models_run_in_what_nobody_runs(made: str, called: str) -> None:
    outcome = _migrated(_CLASS, (_NET, made), ("self.net(x)", called))
    assert outcome.refusals


@pytest.mark.parametrize(
    ("imported", "step"),
    [
        ("time", "flat = flat - step * (time.time() % 1) * gradient"),
        ("os", "flat = flat - step * (1 + os.getpid() % 2) * gradient"),
        ("os", "flat = flat - step * np.random.default_rng().random() * gradient"),
        ("somelibrary", "flat = somelibrary.step(flat, gradient)"),
    ],
)
def test_a_search_by_what_each_worker_has_of_its_own_is_refused(imported: str, step: str) -> None:
    outcome = _migrated(_SEARCH, (_STEP, step), ("import numpy", f"import {imported}\nimport numpy"))
    assert outcome.refusals


def test_a_search_for_weights_that_nothing_sends_is_refused() -> None:
    text = _SEARCH.read_text()
    loop = text[text.index("        for epoch in range(3)") : text.index("        descend(self.objective")]
    outcome = _migrated(_SEARCH, (loop, ""))
    assert outcome.refusals


def test_what_is_refused_of_whole_batches_too_says_so() -> None:
    outcome = _migrated(FIXTURES / "shard-arrays/keywords_filled_up/before.py")
    advice = {refusal.rule: refusal.advice for refusal in outcome.refusals}
    assert advice.keys() == {"shard-arrays", "synchronise-callbacks"}
    enough = "; once all that say so are mended, every worker can train on all of the data"
    assert [rule for rule, text in advice.items() if text.endswith(enough)] == ["synchronise-callbacks"]
