"""What the user says in comments is what workers then rely on: they train what one process trains."""

from __future__ import annotations

from pathlib import Path

import pytest
from campaign import Campaign
from proof import check_close, check_ranks_agree, check_steps
from training_runs import migrate, train

SCRIPTS = Path(__file__).with_name("stated")


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_two_workers_train_the_same_model(script: Path, tmp_path: Path, campaign: Campaign) -> None:
    migrated = tmp_path / "migrated.py"
    told = migrate(script, migrated)
    assert "on trust: rows=0" in told
    assert "on trust: replicated" in told
    assert "all_gather" not in migrated.read_text()
    (one,) = train(script, tmp_path / "one", warm=campaign.warm(), without_randomness=True)
    ranks = train(migrated, tmp_path / "two", workers=2, warm=campaign.warm(), without_randomness=True)
    check_ranks_agree(ranks)
    check_steps(one, ranks)
    check_close(one, ranks, 1e-5)
