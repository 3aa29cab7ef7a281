"""Scripts migrated to npu_device train the same model, too, over a stand-in that has no NPUs."""

from __future__ import annotations

import pytest
from campaign import Campaign, Run
from proof import check_bit_equal
from test_equality import OWN_ORDER, check_same_model, original
from training_runs import SCRIPTS

from migrator.engine import migrate
from migrator.registry import choose
from migrator.targets import target_named

# One of each style that can be written in npu_device.
TRAINED = (
    "cancer_clipped_schedule",  # a pipeline that drops its last batch, gradients clipped after the reduction
    "diabetes_module",  # a tf.Module without Keras
    "digits_cnn_argparse",  # a seeded shuffle before the shard, in a function
    "digits_superres_gan",  # two models, two optimizers
    "digits_two_heads",  # `fit` on several arrays, with callbacks that decide and write
    "resnet_loop",  # the porting guide's own example: a program of several files, of which one opens the device
    "iris_model_add",  # a default batch size and a default optimizer
    "wine_l2",  # data that evaluation shares, gradients without a name
)
# These are left to `make test-long`: others train the same way.
LONG = {"digits_cnn_argparse", "digits_superres_gan", "iris_model_add", "wine_l2"}
# What npu_device has no way for, by a piece of the reason.
REFUSED = {
    "cancer_subclassed": "gets its variables only with its first batch",
    "descriptions_embedding": "sparse",
    "digits_autoencoder": "gets its variables only with its first batch",
    "digits_legacy_keras": "for validation by itself",
    "digits_quickstart": "gets its variables only with its first batch",
    "digits_trainer_class": "has a state that npu.distribute.broadcast cannot send",
}
NPU = target_named("npu")


def ported(name: str, workers: int | None = None, *, without_randomness: bool = False) -> Run:
    return Run(name, migrated=True, target="npu", workers=workers, without_randomness=without_randomness)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            original(name),
            ported(name, 2, without_randomness=name not in OWN_ORDER),
            id=name,
            marks=[pytest.mark.long] if name in LONG else [],
        )
        for name in TRAINED
    ],
)
def test_two_workers_train_the_same_model(one: Run, other: Run, campaign: Campaign) -> None:
    check_same_model(campaign.result(one), campaign.result(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [pytest.param(Run("wine_l2"), ported("wine_l2"), id="wine_l2")],
)
def test_one_process_trains_the_same_bits(one: Run, other: Run, campaign: Campaign) -> None:
    (expected,), (found,) = campaign.result(one), campaign.result(other)
    check_bit_equal(expected, found)
    assert expected.losses == found.losses


@pytest.mark.parametrize("name", sorted(path.stem for path in SCRIPTS.glob("*.py")))
def test_migrated_or_refused(name: str) -> None:
    outcome = migrate((SCRIPTS / f"{name}.py").read_bytes(), choose(), NPU)
    assert outcome.is_changed != bool(outcome.refusals)
    again = migrate(outcome.data, choose(), NPU)
    assert not again.is_changed
    assert [r.message for r in again.refusals] == [r.message for r in outcome.refusals]


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_for_its_reason(name: str) -> None:
    outcome = migrate((SCRIPTS / f"{name}.py").read_bytes(), choose(), NPU)
    assert any(REFUSED[name] in refusal.message for refusal in outcome.refusals)
