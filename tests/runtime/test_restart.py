"""A job whose workers are killed comes to the weights of an undisturbed run, by what its script has saved."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import HERE, launch, worker_environment

PROGRAM = str(HERE / "programs" / "resumes.py")


def weights(file: Path) -> list[np.ndarray]:
    with np.load(file) as arrays:
        return [arrays[name] for name in arrays.files]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, subprocess.CompletedProcess[str]]:
    """The folders of an undisturbed run in one process and of a disturbed one on two workers, which printed this."""
    alone, disturbed = tmp_path_factory.mktemp("alone"), tmp_path_factory.mktemp("disturbed")
    subprocess.run([sys.executable, PROGRAM, str(alone)], env=worker_environment(), timeout=300, check=True)
    done = launch("-n", "2", "--max-restarts", "2", PROGRAM, str(disturbed), "--disturbed", timeout=300)
    assert done.returncode == 0, done.stderr
    return alone, disturbed, done


def test_checkpoint_manager(runs: tuple[Path, Path, subprocess.CompletedProcess[str]]) -> None:
    alone, disturbed, done = runs
    begins = [line.split()[-1] for line in done.stdout.splitlines() if "loop begins" in line]
    assert begins == ["0", "2", "4"]
    for mine, wanted in zip(weights(disturbed / "loop.npz"), weights(alone / "loop.npz")):
        np.testing.assert_allclose(mine, wanted, atol=1e-6)


def test_backup_and_restore(runs: tuple[Path, Path, subprocess.CompletedProcess[str]]) -> None:
    alone, disturbed, done = runs
    epochs = [line.split()[-1] for line in done.stdout.splitlines() if "fit begins" in line]
    assert epochs == ["0", "1", "2", "2", "3"]
    for mine, wanted in zip(weights(disturbed / "fit.npz"), weights(alone / "fit.npz")):
        np.testing.assert_allclose(mine, wanted, atol=1e-6)
    assert done.stderr.count("worker 1 failed first (signal SIGKILL)") == 2
