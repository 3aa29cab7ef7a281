"""Whole migrated scripts, started by horovodrun as they are, train the model that one process trains."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from test_equality import OWN_ORDER, check_same_model
from training_runs import SCRIPTS, migrate, train

pytestmark = pytest.mark.skipif(
    find_spec("horovod") is None, reason="Horovod is not installed (`make test-horovod` builds it)"
)


@pytest.mark.parametrize(
    "name",
    [
        "digits_mlp_fit",  # `fit`
        "digits_trainer_class",  # a loop of its own, a moving average of the weights
        "descriptions_embedding",  # sparse gradients
    ],
)
def test_two_workers_train_the_same_model(name: str, tmp_path: Path) -> None:
    migrated = tmp_path / f"{name}.py"
    migrate(SCRIPTS / f"{name}.py", migrated)
    without_randomness = name not in OWN_ORDER
    one = train(SCRIPTS / f"{name}.py", tmp_path / "one", without_randomness=without_randomness)
    ranks = train(migrated, tmp_path / "ranks", workers=2, without_randomness=without_randomness, horovodrun=True)
    check_same_model(one, ranks)
