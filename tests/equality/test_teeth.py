"""The proof fails, and for the right reason, when one thing is taken out of a migrated script."""

from __future__ import annotations

import pytest
from campaign import Campaign, Run
from proof import (
    RanksDisagreeError,
    SamplesDifferError,
    StepsDifferError,
    check_ranks_agree,
    check_samples,
    check_steps,
)


def damaged(script: str, function: str, *, samples: bool = False) -> Run:
    return Run(script, migrated=True, workers=2, without_randomness=True, samples=samples, damage=function)


@pytest.mark.parametrize(
    "run",
    [
        damaged("digits_mlp_fit", "broadcast"),
        damaged("cancer_subclassed", "broadcast"),  # has no variables yet where it is broadcast
        damaged("digits_eager_loop", "all_reduce"),
        damaged("digits_mlp_fit", "distributed_optimizer"),
        pytest.param(damaged("digits_eager_loop", "broadcast"), marks=pytest.mark.long),
        pytest.param(damaged("diabetes_module", "all_reduce"), marks=pytest.mark.long),
        pytest.param(damaged("cancer_subclassed", "distributed_optimizer"), marks=pytest.mark.long),
    ],
    ids=lambda run: f"{run.script}-{run.damage}",
)
def test_ranks_that_do_not_communicate_disagree(run: Run, campaign: Campaign) -> None:
    with pytest.raises(RanksDisagreeError):
        check_ranks_agree(campaign.result(run))


@pytest.mark.parametrize(
    ("original", "run", "epochs"),
    [
        pytest.param(
            Run("digits_eager_loop", without_randomness=True, samples=True),
            damaged("digits_eager_loop", "shard_and_rebatch_dataset", samples=True),
            3,
            id="digits_eager_loop",
        ),
    ],
)
def test_ranks_that_all_train_on_everything_repeat_samples(
    original: Run, run: Run, epochs: int, campaign: Campaign
) -> None:
    """Their weights are equal, and even the right ones: but no worker has saved another any work."""
    (expected,), ranks = campaign.result(original), campaign.result(run)
    check_ranks_agree(ranks)
    with pytest.raises(SamplesDifferError):
        check_samples(expected, ranks, epochs)


@pytest.mark.parametrize(
    ("original", "run"),
    [
        pytest.param(
            Run("digits_mlp_fit", without_randomness=True),
            damaged("digits_mlp_fit", "shard_arrays"),
            id="digits_mlp_fit",
        ),
    ],
)
def test_ranks_that_cut_the_batch_but_not_the_data_make_more_steps(original: Run, run: Run, campaign: Campaign) -> None:
    with pytest.raises(StepsDifferError):
        check_steps(campaign.result(original)[0], campaign.result(run))
