"""The backend horovod: how jobs start and end. That its collectives are right is in test_programs."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import launch, why_no_horovod, worker_environment

pytestmark = pytest.mark.skipif(bool(why_no_horovod()), reason=why_no_horovod())

# How long after it happened a fault has ended the job: what the documentation promises of the death of a worker,
DEATH_SECONDS = 10
# and of a stall beyond the limit: the others are asked where they are, a stopped one keeps Horovod from ending.
STALL_SECONDS = 3
BEYOND_STALL_SECONDS = 15
Script = Callable[[str], str]
HEAD = """
import os, signal, sys, time
import tensorflow as tf
import lockstep
rank = lockstep.rank()

@tf.function
def step(x):
    return lockstep.all_reduce(x)

def fault():
    open(sys.argv[0] + ".fault", "w").close()
"""


@pytest.fixture
def script(tmp_path: Path) -> Script:
    def write(text: str) -> str:
        path = tmp_path / "train.py"
        path.write_text(HEAD + textwrap.dedent(text))
        return str(path)

    return write


def run(path: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return launch("-n", "2", "--backend", "horovod", *arguments, path, timeout=120, **environment)


def seconds_since_fault(path: str) -> float:
    """A launcher that has just ended: how long ago the script marked the beginning of its fault."""
    return time.time() - Path(f"{path}.fault").stat().st_mtime


def test_leaves_calmly(script: Script) -> None:
    path = script(
        """
        x = step(tf.constant(1.0 * rank))
        time.sleep(2 if rank == 0 else 0)
        print("done", rank, float(x), lockstep.size(), lockstep.local_rank())
        """
    )
    done = run(path, "--all-output")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{rank}] done {rank} 0.5 2 {rank}" for rank in (0, 1)]
    assert "Traceback" not in done.stderr


def test_an_exception_on_one_rank_ends_all(script: Script) -> None:
    path = script(
        """
        for k in range(100):
            step(tf.constant(1.0))
            if rank == 1 and k == 5:
                fault()
                raise ValueError("bad sample")
        """
    )
    done = run(path, "--all-output")
    assert seconds_since_fault(path) < DEATH_SECONDS
    assert done.returncode == 1
    tail = done.stderr[done.stderr.index("worker 1 failed first") :]
    assert "[1] ValueError: bad sample" in tail
    assert "lockstep: rank 1 of 2 ended by ValueError" in tail


def test_a_killed_rank_is_named(script: Script) -> None:
    path = script(
        """
        for k in range(10000):
            step(tf.constant(1.0))
            if rank == 1 and k == 5:
                fault()
                os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    done = run(path)
    assert seconds_since_fault(path) < DEATH_SECONDS
    assert done.returncode == 137
    assert "rank 0 of 2 ended at" in done.stderr
    assert "a collective call with the other workers failed: rank 1 (127.0.0.1, process" in done.stderr


def test_a_rank_killed_before_an_eager_call_is_named(script: Script) -> None:
    path = script(
        """
        lockstep.all_reduce(1.0)
        if rank == 1:
            fault()
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            lockstep.all_reduce(1.0)
        except lockstep.LostWorkerError as error:
            print("caught:", error)
        """
    )
    done = run(path)
    assert seconds_since_fault(path) < DEATH_SECONDS
    assert "caught: rank 0 of 2: gather (" in done.stdout
    assert "rank 1 (127.0.0.1, process" in done.stdout


@pytest.mark.parametrize("how", ["time.sleep(300)", "os.kill(os.getpid(), signal.SIGSTOP)"])
def test_a_stall_ends_with_rank_and_call(script: Script, how: str) -> None:
    path = script(
        f"""
        step(tf.constant(1.0))
        if rank == 1:
            fault()
            {how}
        step(tf.constant(1.0))
        """
    )
    done = run(path, LOCKSTEP_STALL_SECONDS=str(STALL_SECONDS))
    assert seconds_since_fault(path) < STALL_SECONDS + BEYOND_STALL_SECONDS
    assert done.returncode == 1
    assert (
        "rank 0 of 2 waited longer than 3 s for its peers in all_reduce (mean over 1 tensor of 1 element) at "
        in done.stderr
    )
    assert ("rank 1 is in no collective call" if "sleep" in how else "rank 1 does not answer") in done.stderr


def test_a_rank_that_stops_early_is_named(script: Script) -> None:
    path = script(
        """
        for k in range(3 - rank):
            step(tf.constant(1.0))
        fault()
        """
    )
    done = run(path)
    assert seconds_since_fault(path) < 2 * DEATH_SECONDS
    assert done.returncode == 1
    assert "rank 0 waits in all_reduce (mean over 1 tensor of 1 element) at" in done.stderr
    assert "rank 1 has come to the end of its script" in done.stderr


def test_functions_whose_shapes_differ_raise_on_all_at_once(script: Script) -> None:
    path = script(
        """
        pair = tf.function(lambda x, y: lockstep.all_reduce([x, y]))
        short, long = tf.zeros([1 << 20]), tf.zeros([3 << 20])
        for k in range(3):
            pair(short, long)
            pair(long, short)
        fault()
        try:
            pair(*((long, short) if rank == 1 else (short, long)))
        except tf.errors.FailedPreconditionError as error:
            print("rank", rank, "caught:", error.message)
        """
    )
    done = run(path, "--all-output")
    assert seconds_since_fault(path) < DEATH_SECONDS
    for rank in (0, 1):
        assert f"[{rank}] rank {rank} caught: " in done.stdout
        assert re.search(rf"^\[{rank}\] .*Mismatched ALLREDUCE tensor shapes: ", done.stdout, re.MULTILINE)


def test_functions_that_differ_are_named(script: Script) -> None:
    path = script(
        """
        other = tf.function(lambda x: lockstep.all_reduce(x, "max"))
        for k in range(3):
            step(tf.constant(1.0))
            other(tf.constant(1.0))
        fault()
        (other if rank == 1 else step)(tf.constant(1.0))
        """
    )
    done = run(path)
    assert seconds_since_fault(path) < 2 * DEATH_SECONDS
    assert done.returncode == 1
    assert "rank 0 waits in all_reduce (mean over 1 tensor of 1 element) at" in done.stderr
    assert "rank 1 waits in all_reduce (max over 1 tensor of 1 element) at" in done.stderr


def test_horovodrun_alone_is_enough(script: Script) -> None:
    """No launcher of ours, no variable of ours; and lockstep may come after the first tensors."""
    path = script("print('sum', float(step(tf.constant(1.0 * rank))), flush=True)")
    late = "import tensorflow as tf\nx = tf.constant(1.0)\n"
    Path(path).write_text(late + Path(path).read_text())
    horovodrun = str(Path(sys.executable).with_name("horovodrun"))
    done = subprocess.run(
        [horovodrun, "--gloo", "-np", "2", sys.executable, path],
        env=worker_environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("sum 0.5") == 2


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({}, "alone in its job"),
        ({"HOROVOD_ELASTIC": "1", "HOROVOD_SIZE": "2", "HOROVOD_RANK": "0"}, "without --min-np"),
    ],
)
def test_a_job_that_cannot_be_joined_says_so(environment: dict[str, str], complaint: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import lockstep"],
        env=worker_environment(LOCKSTEP_BACKEND="horovod", **environment),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert complaint in done.stderr


def test_a_rank_that_never_starts_is_named(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("import os, time\nif os.environ['HOROVOD_RANK'] == '1':\n    time.sleep(300)\nimport lockstep\n")
    done = run(str(path), LOCKSTEP_JOIN_SECONDS="5")
    assert done.returncode == 1
    assert "rank 0 of 2 could not join: rank 1 did not start within 5 s" in done.stderr


def test_workers_start_anew_after_a_failure(script: Script) -> None:
    path = script(
        """
        step(tf.constant(1.0))
        if rank == 1 and os.environ["LOCKSTEP_RESTARTS"] == "0":
            raise ValueError("bad sample")
        step(tf.constant(1.0))
        print("through")
        """
    )
    done = run(path, "--max-restarts", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0] through\n"


def test_the_doctor_tries_it() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lockstep", "doctor"],
        env=worker_environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    trial = done.stdout[done.stdout.index("trial: two workers on this machine, backend horovod") :]
    assert "2 workers agree" in trial
    assert "trial: passed" in trial
