"""What stays refused where all workers might train on whole batches: what none of them is seen to have alike."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixture_cases import FIXTURES

from migrator.engine import migrate
from migrator.findings.results import Outcome
from migrator.registry import choose

_SEARCH = FIXTURES / "all-reduce-gradients/gradients_for_a_search_of_the_script/before.py"
_STEP = "flat = flat - step * gradient"


def _migrated(path: Path, *changes: tuple[str, str]) -> Outcome:
    text = path.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return migrate(text.encode(), choose())


def test_is_trained_whole() -> None:
    outcome = _migrated(_SEARCH)
    assert outcome.trains_whole
    assert not outcome.refusals


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
