"""What cannot be split, every worker trains on as a whole: also with dropout and noise as one process does."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaign import Campaign
from proof import check_close, check_ranks_agree, check_steps
from training_runs import migrate, train

SCRIPTS = Path(__file__).with_name("whole")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem == "looped_digits" else [pytest.mark.long])
        for path in sorted(SCRIPTS.glob("*.py"))
    ],
)
def test_two_workers_train_the_same_model(script: Path, tmp_path: Path, campaign: Campaign) -> None:
    migrated = tmp_path / "migrated.py"
    told = migrate(script, migrated)
    assert "so every worker trains on all of the data" in told
    assert "shard" not in migrated.read_text()
    (one,) = train(script, tmp_path / "one", warm=campaign.warm())
    ranks = train(migrated, tmp_path / "two", workers=2, warm=campaign.warm())
    check_ranks_agree(ranks)
    check_steps(one, ranks)
    check_close(one, ranks, 1e-5)
