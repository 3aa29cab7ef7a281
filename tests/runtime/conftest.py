from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PROJECT = HERE.parent.parent
JOB_SECONDS = 240


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
    path = os.pathsep.join([str(PROJECT), str(HERE), os.environ.get("PYTHONPATH", "")])
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LOCKSTEP_", "TF_CONFIG"))}
    return {**kept, **quiet, "PYTHONPATH": path, **more}


@dataclass(frozen=True)
class Job:
    """A program of tests/runtime/programs on so many workers, with the Keras that TensorFlow brings or Keras 2."""

    program: str
    workers: int
    legacy_keras: bool = False

    def __str__(self) -> str:
        return f"{self.workers}-workers" + ("-tf_keras" if self.legacy_keras else "")


class Outcomes:
    """What the checks of each job came to; a job runs once, when its first check is asked for."""

    def __init__(self, folder: Any) -> None:
        self._folder = folder
        self._of_job: dict[Job, tuple[list[dict[str, str]], str]] = {}

    def assert_passed(self, job: Job, check: str) -> None:
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
        program = str(HERE / "programs" / f"{job.program}.py")
        done = launch("-n", str(job.workers), "--all-output", program, **environment)
        files = [folder / f"{rank}.json" for rank in range(job.workers)]
        ranks = [json.loads(file.read_text()) if file.exists() else {} for file in files]
        if done.returncode == 0:
            # Nobody may fail on the way out either.
            assert "Traceback" not in done.stderr, done.stderr
        return ranks, done.stdout + done.stderr


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    return Outcomes(tmp_path_factory)
