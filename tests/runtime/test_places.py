"""The variables of Kubeflow Trainer, as defaults of `lockstep run`, and of torchrun, for scripts that others start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import launch, worker_environment

from lockstep.cluster.ports import free_ports
from lockstep.launcher import machine
from lockstep.launcher.place import Place, of_this_machine

PET = {
    "PET_NNODES": "2",
    "PET_NPROC_PER_NODE": "3",
    "PET_NODE_RANK": "1",
    "PET_MASTER_ADDR": "train-node-0-0.train",
    "PET_MASTER_PORT": "29400",
}


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("PET_", "TF_CONFIG", "RANK", "WORLD_SIZE"))]:
        monkeypatch.delenv(name)


def set_all(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_without_variables_and_options() -> None:
    assert of_this_machine(None, None, None, None) == Place(2, 1, 0, "")


def test_variables_are_the_defaults_of_options(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, PET)
    assert of_this_machine(None, None, None, None) == Place(3, 2, 1, "train-node-0-0.train:29400")
    assert of_this_machine(1, 4, 3, "a:1") == Place(1, 4, 3, "a:1")
    assert of_this_machine(None, 1, None, None) == Place(3, 1, 0, "")
    monkeypatch.setenv("PET_MASTER_ADDR", "fd00::1")
    assert of_this_machine(None, None, None, None).master == "[fd00::1]:29400"


@pytest.mark.parametrize(("text", "gpus", "workers"), [("auto", 0, 1), ("auto", 4, 4), ("gpu", 4, 4), ("5", 4, 5)])
def test_workers_by_what_the_machine_has(monkeypatch: pytest.MonkeyPatch, text: str, gpus: int, workers: int) -> None:
    monkeypatch.setattr(machine, "gpu_count", lambda: gpus)
    monkeypatch.setenv("PET_NPROC_PER_NODE", text)
    assert of_this_machine(None, None, None, None) == Place(workers, 1, 0, "")


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"PET_MASTER_PORT": ""}, "PET_MASTER_PORT is not set"),
        ({"PET_NNODES": ""}, "PET_NNODES is not set"),
        ({"PET_NODE_RANK": "", "PET_MASTER_ADDR": ""}, "PET_NODE_RANK, PET_MASTER_ADDR are not set"),
        ({"PET_NODE_RANK": "2"}, "not below"),
        ({"PET_NNODES": "1:4"}, "range of machines"),
        ({"PET_NPROC_PER_NODE": "many"}, "PET_NPROC_PER_NODE should be a number"),
        ({"PET_NPROC_PER_NODE": "gpu"}, "no GPU"),
        ({"PET_MASTER_PORT": "http"}, "HOST:PORT"),
    ],
)
def test_variables_that_are_half_set_or_do_not_fit(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], complaint: str
) -> None:
    set_all(monkeypatch, {**PET, **changed})
    with pytest.raises(ValueError, match=complaint):
        of_this_machine(None, None, None, None)


def test_a_launcher_does_not_make_jobs_of_workers(tmp_path: Path) -> None:
    """Four processes that each started a job of its own would train four models."""
    script = tmp_path / "train.py"
    script.write_text("import os; print('RANK' in os.environ, 'PET_NNODES' in os.environ)")
    worker = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "1"}
    done = launch(str(script), **worker)
    assert done.returncode == 2
    assert "one worker of several already" in done.stderr
    done = launch("--nnodes", "1", "--allow-unjoined", str(script), **worker)
    assert done.stdout == "[0] False False\n"


TRAINS = """
import tensorflow as tf
import lockstep
total = lockstep.all_reduce(tf.constant([lockstep.rank() + 1.0]), "sum").numpy()[0]
print(lockstep.rank(), lockstep.size(), lockstep.local_rank(), total)
"""


@pytest.mark.long
def test_a_script_under_torchruns_variables_joins(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINS)
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}
    port = str(free_ports(1)[0])
    workers = [
        subprocess.Popen(
            [sys.executable, str(script)],
            env=worker_environment(RANK=rank, LOCAL_RANK=rank, MASTER_PORT=port, **shared),
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    assert [worker.communicate(timeout=150)[0] for worker in workers] == ["0 2 0 3.0\n", "1 2 1 3.0\n"]
