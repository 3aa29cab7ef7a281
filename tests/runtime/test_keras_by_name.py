"""A script may name its Keras itself; what lockstep makes for it must come from the same one."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import launch

SCRIPT = """
import tensorflow as tf
import {keras} as K
import lockstep
import numpy as np
model = K.Sequential([K.layers.Dense(1)])
{broadcast}
model.compile(lockstep.distributed_optimizer("adam"), "mse")
model.fit(np.ones((8, 3)), np.ones((8, 1)), verbose=0, callbacks=lockstep.callbacks())
print(isinstance(model.optimizer, K.optimizers.Adam))
"""


@pytest.mark.parametrize(
    ("keras", "broadcast"),
    [
        ("keras", ""),
        pytest.param("tf_keras", "lockstep.broadcast(model)", marks=pytest.mark.long),
        pytest.param("keras", "lockstep.broadcast(model)", marks=pytest.mark.long),
        pytest.param("tf_keras", "", marks=pytest.mark.long),
    ],
)
def test_names_become_optimizers_of_the_scripts_keras(keras: str, broadcast: str, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT.format(keras=keras, broadcast=broadcast))
    done = launch("-n", "2", str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "True"
