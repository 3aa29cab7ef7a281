"""`lockstep doctor`: what it finds, tries and advises."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from conftest import why_no_mpi, worker_environment

from lockstep.launcher import doctor, machine


def test_the_report_as_json_and_as_text() -> None:
    command = [sys.executable, "-m", "lockstep", "doctor"]
    done = subprocess.run([*command, "--json"], env=worker_environment(), capture_output=True, text=True, timeout=200)
    report = json.loads(done.stdout)
    assert done.stderr == ""
    assert report["cores"] == machine.cores()
    assert report["free_memory_bytes"] > 0
    assert report["gpus"]["used"] == []
    assert report["joins"]["backend"] == "single"
    assert report["trials"]["tensorflow"]["passed"]
    assert "2 workers agree" in report["trials"]["tensorflow"]["output"]
    assert ("mpi" in report["trials"]) == (not why_no_mpi())
    assert "lockstep run -n 2 train.py" in report["next"]
    assert done.returncode == (0 if all(trial["passed"] for trial in report["trials"].values()) else 1)


def report(used: int = 0, present: int = 0, passed: bool = True, **more: Any) -> dict[str, Any]:
    return {
        "trials": {"tensorflow": {"passed": passed}},
        "joins": {"backend": "single"},
        "environment": {},
        "gpus": {"used": ["GPU"] * used, "present": present},
        **more,
    }


@pytest.mark.parametrize(
    ("found", "step"),
    [
        (report(), "lockstep run -n 2 train.py"),
        (report(used=4, present=4), "lockstep run -n 4 train.py"),
        (report(used=1, present=1), "on two machines"),
        (report(present=2), "tensorflow[and-cuda]"),
        (report(passed=False), "mend what the trial shows"),
        (report(trials={}), "install TensorFlow"),
        (report(joins={"backend": "mpi"}), "let this launcher start"),
        (report(joins={"error": "x"}), "mend the variables"),
        (report(joins={"error": "x"}, environment={"PET_NNODES": "2"}), "each container start `lockstep run"),
    ],
)
def test_the_next_step_fits_what_was_found(found: dict[str, Any], step: str) -> None:
    assert step in doctor._next_step(found)


def test_gpus_are_those_that_workers_see(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    monkeypatch.setattr(machine, "_GPU_DEVICES", tmp_path)
    counts = {None: 3, "": 0, "-1": 0, "0,2": 2, "GPU-abc": 1, "0,-1,2": 1}
    for visible, count in counts.items():
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if visible is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert machine.gpu_count() == count, visible


def test_the_limits_of_a_container_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    (tmp_path / "cpu.max").write_text("max 100000\n")
    unlimited = machine.cores()
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert machine.cores() == min(unlimited, 1)
    (tmp_path / "memory.max").write_text("900000000\n")
    (tmp_path / "memory.current").write_text("100000000\n")
    assert machine.memory() == 800_000_000
    assert [*machine.warnings(2)][-1].endswith("0.8 GB are free")
