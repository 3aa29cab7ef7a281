"""The backend mpi: how jobs start and end. What goes wrong is in test_mpi_faults, collectives in test_programs."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import launch, why_no_mpi, worker_environment

pytestmark = pytest.mark.skipif(bool(why_no_mpi()), reason=why_no_mpi())

Script = Callable[[str], str]
HEAD = """
import sys, time
import tensorflow as tf
import lockstep
rank = lockstep.rank()

@tf.function
def step(x):
    return lockstep.all_reduce(x)
"""


@pytest.fixture
def script(tmp_path: Path) -> Script:
    def write(text: str) -> str:
        path = tmp_path / "train.py"
        path.write_text(HEAD + textwrap.dedent(text))
        return str(path)

    return write


def test_shows_lines_with_their_rank_and_leaves_calmly(script: Script) -> None:
    path = script(
        """
        x = step(tf.constant(1.0 * rank))
        time.sleep(2 if rank == 0 else 0)
        print("done", rank, float(x), lockstep.size(), lockstep.local_rank(), sys.argv[1:])
        print("beware", file=sys.stderr)
        """
    )
    done = launch("-n", "2", "--backend", "mpi", "--all-output", path, "--lr", "0.1")
    assert done.returncode == 0, done.stderr
    options = ["--lr", "0.1"]
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] done {rank} 0.5 2 {rank} {options}" for rank in (0, 1)]
    assert {"[0] beware", "[1] beware"} <= set(done.stderr.splitlines())
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_mpiexec_alone_is_enough(script: Script) -> None:
    """No launcher of ours, no variable of ours; and lockstep may come after the first tensors."""
    path = script("print(float(step(tf.constant(1.0 * rank))), flush=True)")
    late = "import tensorflow as tf\nx = tf.constant(1.0)\n"
    Path(path).write_text(late + Path(path).read_text())
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        ["mpiexec", "-n", "2", sys.executable, path],
        env=worker_environment(PATH=beside, **as_root),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "".join(done.stdout.split()) == "0.5" * 2  # mpiexec may put what both print on one line


def test_a_process_that_is_alone_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import lockstep"],
        env=worker_environment(LOCKSTEP_BACKEND="mpi"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "alone in its MPI job" in done.stderr
