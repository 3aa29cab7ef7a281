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
# These are left to `make test-long`.
LONG = {"digits_eager_loop", "digits_legacy_keras", "digits_trainer_class"}
# The rows of a last batch that two workers cannot share out evenly: 455 samples in batches of 32.
LAST_BATCH = {"cancer_subclassed": 7}


@pytest.mark.parametrize(
    ("original", "unshuffled", "migrated", "epochs"),
    [
        pytest.param(
            Run(name, samples=True),
            Run(name, samples=True, without_randomness=True),
            Run(name, samples=True, migrated=True, workers=2),
            epochs,
            id=name,
            marks=[pytest.mark.long] if name in LONG else [],
        )
        for name, epochs in EPOCHS.items()
    ],
)
def test_each_sample_once_an_epoch(
    original: Run, unshuffled: Run, migrated: Run, epochs: int, campaign: Campaign
) -> None:
    (expected,), (in_order,) = campaign.result(original), campaign.result(unshuffled)
    ranks = campaign.result(migrated)
    check_samples(expected, ranks, epochs, LAST_BATCH.get(original.script, 1))
    check_ranks_agree(ranks)
    for epoch in range(epochs):
        shuffled = rows_of_epoch(expected, epoch, epochs)
        assert shuffled != rows_of_epoch(in_order, epoch, epochs), "nothing was shuffled, so little is shown"
