from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PROJECT = HERE.parent.parent
LEFT_OUT = HERE / "left_out"  # what Keras imports where it is there, and no test of the runtime needs
STAND_IN = HERE.parent / "stand_in"  # its sitecustomize tells the rank as launchers of NPU jobs do
JOB_SECONDS = 600  # several times what a job needs on a machine with other work: one that gets here hangs


def launch(*arguments: str, timeout: float = JOB_SECONDS, **environment: str) -> subprocess.CompletedProcess[str]:
    """`lockstep run` with these arguments, as a user starts it."""
    return subprocess.run(
        [sys.executable, "-m", "lockstep", "run", *arguments],
        env=worker_environment(**environment),
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def worker_environment(**more: str) -> dict[str, str]:
    path = os.pathsep.join([str(PROJECT), str(HERE), str(LEFT_OUT), os.environ.get("PYTHONPATH", "")])
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LOCKSTEP_", "TF_CONFIG"))}
    return {**kept, **quiet, "PYTHONPATH": path, **more}


@dataclass(frozen=True)
class Job:
    """A program of tests/runtime/programs on so many workers, with the Keras that TensorFlow brings or Keras 2."""

    program: str
    workers: int
    legacy_keras: bool = False
    backend: str = "tensorflow"
    long: bool = False  # left out of `make test`, and runs the long checks, too

    def __str__(self) -> str:
        other = "" if self.backend == "tensorflow" else f"-{self.backend}"
        return f"{self.workers}-workers{other}" + ("-tf_keras" if self.legacy_keras else "")

    def why_impossible(self) -> str:
        """What this machine lacks for the job; empty if nothing."""
        if self.legacy_keras and TENSORFLOW >= (2, 16) and find_spec("tf_keras") is None:
            return "tf_keras is not installed"
        if self.legacy_keras and TENSORFLOW < (2, 16):
            return "tf.keras is Keras 2 here in any case"
        if self.backend == "mpi":
            return why_no_mpi()
        if self.backend == "horovod":
            return why_no_horovod()
        return ""


def why_no_mpi() -> str:
    """What this machine lacks for the backend mpi; empty if nothing."""
    if find_spec("mpi4py") is None:
        return "mpi4py is not installed"
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return "" if shutil.which("mpiexec", path=beside) else "there is no mpiexec"


def why_no_horovod() -> str:
    """What this machine lacks for the backend horovod; empty if nothing."""
    return "" if find_spec("horovod") else "Horovod is not installed (`make test-horovod` builds it)"


def _tensorflow_version() -> tuple[int, ...]:
    for distribution in ("tensorflow", "tensorflow-cpu"):
        with contextlib.suppress(PackageNotFoundError):
            return tuple(int(part) for part in version(distribution).split(".")[:2])
    raise RuntimeError("the tests of the runtime need TensorFlow")


TENSORFLOW = _tensorflow_version()


class Outcomes:
    """What the checks of each job came to; a job runs once, when its first check is asked for."""

    def __init__(self, folder: Any) -> None:
        self._folder = folder
        self._of_job: dict[Job, tuple[list[dict[str, str]], str]] = {}

    def assert_passed(self, job: Job, check: str) -> None:
        if job.why_impossible():
            pytest.skip(job.why_impossible())
        if job not in self._of_job:
            self._of_job[job] = self._run(job)
        ranks, output = self._of_job[job]
        for rank, outcomes in enumerate(ranks):
            if check not in outcomes:
                failed = [name for name, outcome in outcomes.items() if outcome != "passed"]
                pytest.fail(f"rank {rank} failed in {failed[0]} before" if failed else output[-6000:], pytrace=False)
            assert outcomes[check] == "passed", f"rank {rank}:\n{outcomes[check]}"

    def _run(self, job: Job) -> tuple[list[dict[str, str]], str]:
        folder = self._folder.mktemp(f"{job.program}-{job}")
        environment = {"LOCKSTEP_TEST_OUTCOMES": str(folder)}
        if job.legacy_keras:
            environment["TF_USE_LEGACY_KERAS"] = "1"
        if job.long:
            environment["LOCKSTEP_TEST_LONG"] = "1"
        if job.backend == "npu":
            environment |= {
                "LOCKSTEP_BACKEND": "npu",
                "PYTHONPATH": os.pathsep.join(map(str, (PROJECT, HERE, STAND_IN))),
            }
        program = str(HERE / "programs" / f"{job.program}.py")
        backend = ("--backend", job.backend) if job.backend in ("mpi", "horovod") else ()
        try:
            done = launch("-n", str(job.workers), *backend, "--all-output", program, **environment)
        except subprocess.TimeoutExpired as late:
            # Kept like any outcome: the job's other checks do not wait for it again.
            return [{} for _ in range(job.workers)], f"{late}\n{(late.stderr or b'').decode(errors='replace')}"
        files = [folder / f"{rank}.json" for rank in range(job.workers)]
        ranks = [json.loads(file.read_text()) if file.exists() else {} for file in files]
        if done.returncode == 0:
            # Nobody may fail on the way out either.
            assert "Traceback" not in done.stderr, done.stderr
        return ranks, done.stdout + done.stderr


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return Outcomes(tmp_path_factory)
