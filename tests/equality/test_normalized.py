"""With the rule synchronise-batch-normalization, models with BatchNormalization train what one process trains."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from campaign import Campaign
from proof import check_close, check_ranks_agree, check_steps
from training_runs import Trained, migrate, train

SCRIPTS = Path(__file__).with_name("normalized")
OPTION = "--extend-select=synchronise-batch-normalization"
ROUNDING = 1e-5


def trained(script: Path, folder: Path, warm: Path, *options: str) -> tuple[list[Trained], list[Trained]]:
    """What one process trains with the script, and two workers with what the options migrate it to."""
    migrated = folder / "migrated.py"
    migrate(script, migrated, options=options)
    one = train(script, folder / "one", warm=warm, without_randomness=True)
    return one, train(migrated, folder / "two", workers=2, warm=warm, without_randomness=True)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(path, id=path.stem, marks=[] if path.stem == "fitted_digits" else [pytest.mark.long])
        for path in sorted(SCRIPTS.glob("*.py"))
    ],
)
def test_two_workers_train_the_same_model(script: Path, tmp_path: Path, campaign: Campaign) -> None:
    one, ranks = trained(script, tmp_path, campaign.warm(), OPTION)
    assert one[0].steps == (20,)
    check_ranks_agree(ranks)
    check_steps(one[0], ranks)
    check_close(one[0], ranks, ROUNDING)


@pytest.mark.long
def test_without_the_rule_they_do_not(tmp_path: Path, campaign: Campaign) -> None:
    """Else the test above would say nothing."""
    one, ranks = trained(SCRIPTS / "looped_cancer.py", tmp_path, campaign.warm())
    check_ranks_agree(ranks)
    apart = [np.abs(a - b).max() / np.abs(a).max() for a, b in zip(one[0].weights, ranks[0].weights)]
    assert max(apart) > 100 * ROUNDING
