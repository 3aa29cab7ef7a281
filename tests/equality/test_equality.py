"""Every script and program of the fixtures, migrated, trains on N workers the model that it trains on one device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from campaign import Campaign, Run
from proof import check_bit_equal, check_close, check_ranks_agree, check_steps
from training_runs import Trained, names

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

NAMES = names()

# Largest difference of a weight, relative to the largest one of its variable. Rounding differs because the
# workers' sums are added in another order; Adam and RMSprop divide by the root of a second moment that starts
# at zero, so in the first steps they magnify what is lost in small gradients.
ROUNDING = 1e-5

# These fix the order of their samples themselves, with seeds: they are compared as they are. In all others
# shuffles are unseeded, so that two runs of the same script differ: these are compared without shuffling.
OWN_ORDER = {
    "digits_cnn_argparse",
    "digits_image_folder",
    "digits_permuted_batches",
    "digits_sequence",
    "digits_tfrecords",
    "wine_l2",
}

# In one process, these are started as their user would; the others where TensorFlow is imported, which is faster.
OWN_PYTHON = {"diabetes_module", "digits_eager_loop", "digits_quickstart", "resnet_loop"}

# In one process: a sample of what `fit` trains and of loops. The others run by `make test-long`.
ONE_PROCESS = {
    "diabetes_minimize",
    "diabetes_module",
    "iris_in_files",
}

# On two workers, these are left to `make test-long`: others train the same way.
LONG_BY_TWO = {
    "cancer_accumulated",
    "cancer_clipped_schedule",
    "descriptions_embedding",
    "digits_autoencoder",
    "digits_cnn_argparse",
    "digits_dcgan",
    "digits_eager_loop",  # test_teeth.py trains it, too
    "digits_gan_on_batch",
    "digits_image_folder",
    "digits_legacy_keras",
    "digits_mlp_fit",  # on four workers, too
    "digits_package",
    "digits_quickstart",
    "digits_superres_gan",
    "digits_tfrecords",
    "digits_trainer_class",
    "digits_two_heads",
    "digits_two_optimizers",
    "iris_model_add",
    "resnet_loop",  # on four workers, too
    "trainers_of_which_one_runs",
    "wine_average_loss",
    "wine_l2",
}

# On four workers: one that `fit` trains and one with a loop of its own. The others run by `make test-long`.
FOUR_WORKERS = {
    "digits_mlp_fit",
    "resnet_loop",
}


def pairs(workers: int) -> list[ParameterSet]:
    """What one process trains and what the workers train, for every script."""
    left_out = {2: LONG_BY_TWO, 4: set(NAMES) - FOUR_WORKERS}
    return [
        pytest.param(
            original(name),
            migrated(name, workers),
            id=name,
            marks=[pytest.mark.long] if name in left_out[workers] else [],
        )
        for name in NAMES
    ]


def original(name: str) -> Run:
    return Run(name, without_randomness=name not in OWN_ORDER)


def migrated(name: str, workers: int) -> Run:
    return Run(name, migrated=True, workers=workers, without_randomness=name not in OWN_ORDER)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            Run(name, own_python=name in OWN_PYTHON),
            Run(name, migrated=True, own_python=name in OWN_PYTHON),
            id=name,
            marks=[] if name in ONE_PROCESS else [pytest.mark.long],
        )
        for name in NAMES
    ],
)
def test_one_process_trains_the_same_bits(one: Run, other: Run, campaign: Campaign) -> None:
    """As their user runs them: nothing turned off."""
    (expected,), (found,) = campaign.result(one), campaign.result(other)
    check_bit_equal(expected, found)
    assert expected.losses == found.losses


@pytest.mark.parametrize(("one", "other"), pairs(workers=2))
def test_two_workers_train_the_same_model(one: Run, other: Run, campaign: Campaign) -> None:
    check_same_model(campaign.result(one), campaign.result(other))


@pytest.mark.parametrize(("one", "other"), pairs(workers=4))
def test_four_workers_train_the_same_model(one: Run, other: Run, campaign: Campaign) -> None:
    check_same_model(campaign.result(one), campaign.result(other))


def check_same_model(one: list[Trained], ranks: list[Trained]) -> None:
    (expected,) = one
    check_ranks_agree(ranks)
    check_steps(expected, ranks)
    check_close(expected, ranks, ROUNDING)


def test_the_scripts_with_exceptions_exist() -> None:
    assert set(NAMES) >= OWN_ORDER | OWN_PYTHON | ONE_PROCESS | LONG_BY_TWO | FOUR_WORKERS
    assert len(NAMES) >= 12
