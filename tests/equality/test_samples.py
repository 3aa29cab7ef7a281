"""With real shuffling, the workers together train once an epoch on each sample."""

from __future__ import annotations

import pytest
from campaign import Campaign, Run
from proof import check_ranks_agree, check_samples, rows_of_epoch

EPOCHS = {
    "digits_mlp_fit": 4,  # fit on arrays
    "digits_legacy_keras": 3,  # fit on arrays, an odd number of them, after validation_split
    "cancer_subclassed": 5,  # fit on tf.data, an odd number of elements
    "digits_eager_loop": 3,  # custom loop on tf.data
    "digits_trainer_class": 4,  # the same, cached before it is shuffled
}


@pytest.mark.parametrize(
    ("original", "migrated", "epochs"),
    [
        pytest.param(Run(name, samples=True), Run(name, migrated=True, workers=2, samples=True), epochs, id=name)
        for name, epochs in EPOCHS.items()
    ],
)
def test_each_sample_once_an_epoch(original: Run, migrated: Run, epochs: int, campaign: Campaign) -> None:
    (expected,), ranks = campaign.result(original), campaign.result(migrated)
    check_samples(expected, ranks, epochs)
    check_ranks_agree(ranks)
    for trained in (expected, *ranks):  # or else the order has not been shuffled, and little is shown
        assert rows_of_epoch(trained, 0, epochs) != rows_of_epoch(trained, 1, epochs)
