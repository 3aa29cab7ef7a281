"""Runs the command `migrate` for the tests, on a script of which the outcome is known."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from migrator.command.cli import main

PROJECT = Path(__file__).resolve().parents[2]
NOTHING_LEFT, SOMETHING_LEFT, ERROR = 0, 1, 2

TRAINING = """import numpy as np
from tensorflow import keras

x, y = np.load("x.npy"), np.load("y.npy")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse")
model.fit(x, y, batch_size=32)
"""
MIGRATED = """import numpy as np
from tensorflow import keras
import lockstep

x, y = np.load("x.npy"), np.load("y.npy")
model = keras.Sequential([keras.layers.Dense(1)])
lockstep.broadcast(model)
model.compile(optimizer=lockstep.distributed_optimizer("adam"), loss="mse")
model.fit(
    *lockstep.shard_arrays(x, y, batch_size=32),
    batch_size=lockstep.local_batch_size(32),
    callbacks=lockstep.callbacks(),
)
"""
REFUSED = TRAINING.replace('optimizer="adam", loss="mse"', "**config")
HALF_REFUSED = TRAINING + 'assert model.save("m.keras") is None\n'
PLAIN = "print('nothing to train')\n"
UNMIXED: dict[str, Any] = (
    {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}  # click before 8.2
)


def migrate(*arguments: object, stdin: bytes | str = b"") -> Result:
    return CliRunner(**UNMIXED).invoke(main, [str(a) for a in arguments], input=stdin)


def in_process(*arguments: object, cwd: Path | None = None, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """The command as a process of its own."""
    path = os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "migrator", *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, input=stdin, env={**os.environ, "PYTHONPATH": path}, capture_output=True, timeout=60
    )


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
