"""The job files of docs/jobs start what they say, with stand-ins for the schedulers that run them."""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lockstep.cluster import choice
from lockstep.cluster.environment import from_tf_config

PROJECT = Path(__file__).parent.parent.parent
JOBS = PROJECT / "docs" / "jobs"

# Does what srun does on two machines that are both this one: every task gets the variables of its step.
SRUN = """#!{python}
import os, subprocess, sys
command = [word for word in sys.argv[1:] if not word.startswith("--")]
nodes, per_node = int(os.environ["SLURM_JOB_NUM_NODES"]), int(os.environ["SLURM_NTASKS_PER_NODE"])
tasks = []
for rank in range(nodes * per_node):
    step = dict(STEP_ID="0", STEP_NUM_TASKS=nodes * per_node, STEP_NODELIST="localhost", PROCID=rank,
                STEP_TASKS_PER_NODE=str(nodes * per_node), LOCALID=rank, NODEID="0")
    variables = {{"SLURM_" + name: str(value) for name, value in step.items()}}
    tasks.append(subprocess.Popen(command, env={{**os.environ, **variables, "PMI_RANK": str(rank),
                                                  "PMI_SIZE": str(nodes * per_node)}}))
sys.exit(max(task.wait() for task in tasks))
"""


def options(job_file: Path) -> dict[str, str]:
    """What sbatch reads in the file's comments."""
    return dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)$", job_file.read_text(), re.MULTILINE))


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IEXEC)


def environment(folder: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join([str(folder), os.path.dirname(sys.executable), os.environ["PATH"]])
    quiet = {"CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "3", "LOCKSTEP_JOIN_SECONDS": "120"}
    return {**os.environ, **quiet, "PATH": path, "PYTHONPATH": str(PROJECT), **more}


@pytest.mark.long
def test_the_slurm_job_trains_in_step(tmp_path: Path) -> None:
    job = options(JOBS / "slurm.sbatch")
    assert (job["nodes"], job["ntasks-per-node"], job["distribution"]) == ("2", "4", "block")
    program(tmp_path, "srun", SRUN.format(python=sys.executable))
    (tmp_path / "train.py").write_text("import runpy; runpy.run_module('lockstep.launcher.trial', run_name='__main__')")
    # A job of its own number has ports of its own; two workers are enough to see that they find each other.
    number = str(1 + os.getpid())
    allocation = {"SLURM_JOB_ID": number, "SLURM_JOB_NUM_NODES": "2", "SLURM_NTASKS_PER_NODE": "1"}
    done = subprocess.run(
        ["bash", str(JOBS / "slurm.sbatch")],
        env=environment(tmp_path, SLURM_CPUS_PER_TASK="1", LOCKSTEP_PORT=str(two_free_ports()), **allocation),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("2 workers agree") == 2


def two_free_ports() -> int:
    """The first of two neighbours that are free."""
    for port in range(15_000 + os.getpid() % 10_000, 32_000, 2):
        with socket.socket() as first, socket.socket() as second:
            try:
                first.bind(("", port))
                second.bind(("", port + 1))
            except OSError:
                continue
            return port
    raise AssertionError("no free ports")


def test_the_mpi_job_asks_for_as_many_ranks_as_it_has(tmp_path: Path) -> None:
    program(tmp_path, "mpirun", '#!/bin/sh\necho ran "$@" hash=$PYTHONHASHSEED threads=$OMP_NUM_THREADS\n')
    done = subprocess.run(
        ["bash", str(JOBS / "mpirun.sbatch")],
        env=environment(tmp_path, SLURM_NTASKS="8", SLURM_CPUS_PER_TASK="4"),
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.stdout == "ran -n 8 python train.py hash=0 threads=4\n"


def test_the_kubernetes_job_gives_every_replica_its_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    job = yaml.safe_load((JOBS / "tfjob.yaml").read_text())
    replicas = job["spec"]["tfReplicaSpecs"]
    assert set(replicas) <= {"Chief", "Worker"}
    for replica in replicas.values():
        (container,) = replica["template"]["spec"]["containers"]
        assert container["name"] == "tensorflow"
        assert container["command"] == ["python", "train.py"]
        assert replica["restartPolicy"] == "OnFailure"
    # As the operator writes it: one service name a replica.
    count = replicas["Worker"]["replicas"]
    hosts = [f"train-worker-{index}.default.svc:2222" for index in range(count)]
    ranks = []
    for index in range(count):
        task = {"type": "worker", "index": index}
        config = {"cluster": {"worker": hosts}, "task": task, "environment": "cloud"}
        monkeypatch.setenv("TF_CONFIG", json.dumps(config))
        assert choice.choose().backend == "tensorflow"
        found = from_tf_config()
        ranks.append(found.rank)
        assert (found.size, found.local_rank, found.addresses) == (count, 0, tuple(hosts))
    assert ranks == list(range(count))


def test_the_train_job_is_one_of_the_public_schema() -> None:
    models = pytest.importorskip("kubeflow_trainer_api.models")
    job = yaml.safe_load((JOBS / "trainjob.yaml").read_text())
    # What the schema does not know is left out, and another type is an error.
    assert models.TrainerV1alpha1TrainJob.from_dict(job).to_dict() == job


def test_the_train_job_makes_one_cluster_of_its_containers(tmp_path: Path) -> None:
    trainer = yaml.safe_load((JOBS / "trainjob.yaml").read_text())["spec"]["trainer"]
    program(tmp_path, "lockstep", f'#!/bin/sh\nexec {sys.executable} -m lockstep "$@"\n')
    (tmp_path / "train.py").write_text(
        "import json, os; print(len(json.loads(os.environ['TF_CONFIG'])['cluster']['worker']))"
    )
    # As the plugin of the operator for torchrun sets them; the machines are both this one.
    variables = {
        "PET_NNODES": str(trainer["numNodes"]),
        "PET_NPROC_PER_NODE": str(trainer["numProcPerNode"]),
        "PET_MASTER_ADDR": "127.0.0.1",
        "PET_MASTER_PORT": str(two_free_ports()),
    }
    command = [*trainer["command"][:2], "--allow-unjoined", *trainer["command"][2:]]
    containers = [
        subprocess.Popen(
            [str(tmp_path / command[0]), *command[1:]],
            env=environment(tmp_path, PET_NODE_RANK=node, **variables),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
        )
        for node in "01"
    ]
    shown = [container.communicate(timeout=150)[0] for container in containers]
    assert shown == ["[0] 8\n", ""]
    assert [container.returncode for container in containers] == [0, 0]


@pytest.mark.long
def test_the_ray_job_trains_in_step(tmp_path: Path) -> None:
    pytest.importorskip("ray.train")
    results = tmp_path / "results"
    (tmp_path / "train.py").write_text(
        "import tensorflow as tf, lockstep\n"
        "total = lockstep.all_reduce(tf.constant([lockstep.rank() + 1.0]), 'sum').numpy()[0]\n"
        f"open({str(results)!r}, 'a').write(f'{{lockstep.size()}} {{total}}\\n')\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(JOBS)!r}); "
            "import ray, ray_train; ray.init(num_cpus=2, include_dashboard=False); ray_train.main('train.py', 2)",
        ],
        env=environment(tmp_path),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr
    assert results.read_text() == "2 3.0\n" * 2


def test_the_job_of_two_machines_runs_on_both(tmp_path: Path) -> None:
    program(tmp_path, "lockstep", f'#!/bin/sh\nshift\nexec {sys.executable} -m lockstep run --allow-unjoined "$@"\n')
    (tmp_path / "train.py").write_text(
        "import json, os; print(len(json.loads(os.environ['TF_CONFIG'])['cluster']['worker']))"
    )
    master = f"127.0.0.1:{two_free_ports()}"
    nodes = [
        subprocess.Popen(
            ["sh", str(JOBS / "machines.sh"), node, master],
            env=environment(tmp_path),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
        )
        for node in "01"
    ]
    shown = [node.communicate(timeout=150)[0] for node in nodes]
    assert shown == ["[0] 8\n", ""]
    assert [node.returncode for node in nodes] == [0, 0]
