"""What a worker reads in its environment, and how workers meet: quickly, in threads, without TensorFlow."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from lockstep._errors import JoinError
from lockstep.cluster import choice, rendezvous
from lockstep.cluster.addresses import exchanged
from lockstep.cluster.connection import Connection
from lockstep.cluster.devices import claim_gpu, gpu_number
from lockstep.cluster.environment import Cluster, from_tf_config
from lockstep.cluster.ports import free_ports
from lockstep.cluster.rendezvous import meet
from lockstep.cluster.slurm import expand_counts, expand_hosts
from lockstep.cluster.torchrun import Place, place

LAUNCHED_BY = {
    "TF_CONFIG": (
        "tensorflow",
        {"TF_CONFIG": '{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":1}}'},
    ),
    "one TF_CONFIG": ("single", {"TF_CONFIG": '{"cluster":{"worker":["a:1"]},"task":{"type":"worker","index":0}}'}),
    "Open MPI": ("mpi", {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "1", "PMIX_RANK": "1"}),
    "MPICH": ("mpi", {"PMI_SIZE": "4", "PMI_RANK": "1", "MPI_LOCALNRANKS": "2"}),
    "one rank of MPICH": ("single", {"PMI_SIZE": "1", "PMI_RANK": "0", "MPI_LOCALNRANKS": "1"}),
    "MVAPICH": ("mpi", {"MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_RANK": "0"}),
    "horovodrun": ("horovod", {"HOROVOD_SIZE": "2", "HOROVOD_RANK": "0"}),
    "Ascend": ("npu", {"RANK_TABLE_FILE": "/table.json", "RANK_ID": "0", "RANK_SIZE": "8"}),
    "rank numbers of something else": ("single", {"RANK_ID": "0", "RANK_SIZE": "8"}),
    "torchrun": ("tensorflow", {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}),
    "torchrun in MPI": (
        "mpi",
        {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "1", "OMPI_COMM_WORLD_SIZE": "4"},
    ),
    "torchrun of one": ("single", {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}),
    "a master of something else": ("single", {"MASTER_ADDR": "a"}),
    "a rank of something else": ("single", {"RANK": "3"}),
    "a container of one": ("single", {"PET_NNODES": "1", "PET_NPROC_PER_NODE": "auto"}),
    "nothing": ("single", {}),
    "a name": ("mpi", {"LOCKSTEP_BACKEND": " MPI "}),
    "a worker": ("single", {"LOCKSTEP_JOINED_PID": "1", "OMPI_COMM_WORLD_SIZE": "4"}),
}
STEP = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "2",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_NODELIST": "node[9-10]",
    "SLURM_STEP_TASKS_PER_NODE": "2,1",
}
OF_LAUNCHERS = ("SLURM_", "OMPI_", "PMI", "MV2_", "HOROVOD_", "RANK_", "LOCKSTEP_", "TF_CONFIG", "MPI_", "CM_")
OF_LAUNCHERS += ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "PET_", "TORCHELASTIC_")


@pytest.fixture(autouse=True)
def _nothing_launched_us(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(OF_LAUNCHERS)]:
        monkeypatch.delenv(name)


def set_all(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("launcher", list(LAUNCHED_BY))
def test_the_backend_fits_the_launcher(monkeypatch: pytest.MonkeyPatch, launcher: str) -> None:
    backend, environment = LAUNCHED_BY[launcher]
    set_all(monkeypatch, environment)
    assert choice.choose().backend == backend


@pytest.mark.parametrize(
    ("more", "backend"),
    [
        ({}, "tensorflow"),
        ({"PMI_SIZE": "3", "PMI_RANK": "2"}, "tensorflow"),  # srun sets these for programs without MPI too
        ({"PMI_SIZE": "8", "PMI_RANK": "2", "MPI_LOCALNRANKS": "4"}, "mpi"),  # mpiexec, which uses srun itself
        ({"OMPI_COMM_WORLD_SIZE": "8"}, "mpi"),
        ({"SLURM_STEP_NUM_TASKS": "1"}, "single"),
    ],
)
def test_the_backend_in_a_slurm_step(monkeypatch: pytest.MonkeyPatch, more: dict[str, str], backend: str) -> None:
    set_all(monkeypatch, {**STEP, **more})
    assert choice.choose().backend == backend


TORCHRUN = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"MASTER_PORT": ""}, "RANK, WORLD_SIZE, MASTER_ADDR say.*MASTER_PORT is not set"),
        ({"RANK": "", "MASTER_ADDR": ""}, "RANK, MASTER_ADDR are not set"),
        ({"WORLD_SIZE": ""}, "WORLD_SIZE is not set"),
        ({"RANK": "4"}, "RANK 4 is not below WORLD_SIZE 4"),
        ({"RANK": "one"}, "RANK should be a number"),
        ({"MASTER_PORT": "0"}, "MASTER_PORT 0 is no port"),
        ({"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "2"}, "do not fit together"),
        ({"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "8"}, "do not fit together"),
        ({"TF_CONFIG": '{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":1}}'}, "unset those"),
    ],
)
def test_torchruns_variables_that_do_not_fit(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], complaint: str
) -> None:
    set_all(monkeypatch, {**TORCHRUN, **changed})
    with pytest.raises(JoinError, match=complaint):
        choice.choose()


def test_under_torchrun_itself_the_workers_meet_beside_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, {**TORCHRUN, "TORCHELASTIC_USE_AGENT_STORE": "True"})
    found = place()
    assert found is not None
    assert found.master == "a:29501"


def test_a_container_that_was_meant_for_a_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many processes alone would train as many models."""
    set_all(monkeypatch, {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": "0"})
    with pytest.raises(JoinError, match="lockstep run"):
        choice.choose()
    set_all(monkeypatch, TORCHRUN)  # by torchrun
    assert choice.choose().backend == "tensorflow"


def test_a_step_that_exports_some_variables_is_slurms(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, {**STEP, "WORLD_SIZE": "3", "MASTER_ADDR": "node9", "MASTER_PORT": "29500"})
    assert choice.choose().reason.startswith("SLURM")
    assert choice.cluster().rank == 2


def test_torchruns_workers_tell_each_other_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_ports(1)[0]
    found: dict[int, Cluster] = {}

    def join(rank: int, master: str, local: tuple[int, int] | None) -> None:
        found[rank] = exchanged(Place(rank, 3, master, local))

    # Rank 0 may know its own machine by another name.
    masters = [f"localhost:{port}", f"127.0.0.1:{port}", f"127.0.0.1:{port}"]
    threads = [threading.Thread(target=join, args=(rank, masters[rank], None), daemon=True) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len({cluster.addresses for cluster in found.values()}) == 1
    assert found[0].addresses[0] == f"127.0.0.1:{port}"
    assert len(set(found[0].addresses)) == 3
    assert [(found[r].rank, found[r].local_rank, found[r].local_size) for r in range(3)] == [
        (r, r, 3) for r in range(3)
    ]


def test_a_batch_script_is_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"})
    assert choice.choose().backend == "single"


def test_slurm_ranks_keep_the_order_of_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, STEP)
    cluster = choice.cluster()
    hosts = [address.split(":")[0] for address in cluster.addresses]
    assert (cluster.rank, cluster.size, cluster.local_rank, cluster.local_size) == (2, 3, 0, 1)
    assert hosts == ["node9", "node9", "node10"]
    assert len(set(cluster.addresses)) == 3


def test_slurm_steps_have_ports_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set()
    for job, step in [("4711", "0"), ("4711", "1"), ("4712", "0")]:
        set_all(monkeypatch, {**STEP, "SLURM_JOB_ID": job, "SLURM_STEP_ID": step})
        seen.update(choice.cluster().addresses)
    assert len(seen) == 9
    monkeypatch.setenv("LOCKSTEP_PORT", "7000")
    assert choice.cluster().addresses == ("node9:7000", "node9:7001", "node10:7000")


@pytest.mark.parametrize(
    ("more", "complaint"),
    [
        ({"SLURM_NODEID": "0", "SLURM_LOCALID": "1"}, "--distribution=block"),
        ({"SLURM_STEP_TASKS_PER_NODE": "2"}, "do not fit together"),
        ({"SLURM_STEP_NODELIST": "node[9"}, "not understood"),
        ({"SLURM_STEP_TASKS_PER_NODE": "two"}, "not understood"),
    ],
)
def test_slurm_that_is_not_understood(monkeypatch: pytest.MonkeyPatch, more: dict[str, str], complaint: str) -> None:
    set_all(monkeypatch, {**STEP, **more})
    with pytest.raises(JoinError, match=complaint):
        choice.cluster()


def test_slurm_lists_written_out() -> None:
    assert expand_hosts("a[01-03,7],b,c-[9-10]x[1,2]") == [
        *("a01", "a02", "a03", "a7", "b"),
        *("c-9x1", "c-9x2", "c-10x1", "c-10x2"),
    ]
    assert expand_counts("2(x3),1") == [2, 2, 2, 1]


@pytest.mark.parametrize(("role", "complaint"), [("ps", "parameter servers"), ("evaluator", "evaluator")])
def test_other_roles_are_refused(monkeypatch: pytest.MonkeyPatch, role: str, complaint: str) -> None:
    workers = {"chief": ["a:1"], "worker": ["b:1"]}
    for cluster in (workers, {**workers, role: ["c:1"]}):
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": role, "index": 0}}))
        with pytest.raises(JoinError, match=complaint):
            choice.choose()


def test_the_chief_is_rank_0_and_machines_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = {"worker": ["a:2", "b:1", "b:2"], "chief": ["a:1"], "evaluator": ["c:1"]}
    places = []
    for kind, index in [("chief", 0), ("worker", 0), ("worker", 1), ("worker", 2)]:
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}))
        found = from_tf_config()
        places.append((found.rank, found.local_rank, found.local_size))
    assert places == [(0, 0, 2), (1, 1, 2), (2, 0, 2), (3, 1, 2)]


def cluster_of(size: int) -> list[Cluster]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(size)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        addresses = tuple(f"127.0.0.1:{one.getsockname()[1]}" for one in sockets)
    return [Cluster(rank, size, rank, size, addresses) for rank in range(size)]


def all_meet(clusters: list[Cluster], seconds: float) -> list[dict[int, Connection] | JoinError]:
    """What each of these workers gets, each in a thread of its own."""
    results: list[dict[int, Connection] | JoinError] = [{}] * len(clusters)

    def one(number: int) -> None:
        try:
            results[number] = meet(clusters[number], seconds)
        except JoinError as error:
            results[number] = error

    threads = [threading.Thread(target=one, args=[number]) for number in range(len(clusters))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return results


@contextlib.contextmanager
def closing(results: list[dict[int, Connection] | JoinError]) -> Iterator[None]:
    try:
        yield
    finally:
        for result in results:
            for connection in result.values() if isinstance(result, dict) else ():
                connection.close()


def test_workers_meet_in_any_order() -> None:
    workers = cluster_of(3)
    results = all_meet([workers[2], workers[0], workers[1]], 20)
    with closing(results):
        assert [sorted(result) for result in results if isinstance(result, dict)] == [[0], [1, 2], [0]]


def test_missing_workers_are_named_on_all_others() -> None:
    workers = cluster_of(4)
    results = all_meet([workers[0], workers[2]], 1.5)
    for result in results:
        assert isinstance(result, JoinError)
        assert "2 of 4 workers did not start within 1.5 s" in str(result)
        assert f"rank 1 ({workers[0].addresses[1]}), rank 3 ({workers[0].addresses[3]})" in str(result)


def test_a_missing_chief_is_named() -> None:
    with pytest.raises(JoinError, match=r"rank 1 of 2 waited 0\.5 s in vain for rank 0 at 127\.0\.0\.1:"):
        meet(cluster_of(2)[1], 0.5)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_port_that_is_taken(rank: int) -> None:
    cluster = cluster_of(2)[rank]
    with socket.create_server(("127.0.0.1", int(cluster.addresses[rank].split(":")[1]))):
        began = time.monotonic()
        with pytest.raises(JoinError, match=f"at which the others expect rank {rank} of 2, is taken"):
            meet(cluster, 60)
        assert time.monotonic() - began < 30


def test_a_worker_of_another_cluster_is_refused() -> None:
    workers = cluster_of(2)
    other = replace(
        workers[1], addresses=(workers[0].addresses[0], workers[1].addresses[1].replace("127.0.0.1", "localhost"))
    )
    first, second = all_meet([workers[0], other], 1.5)
    assert "knows of other workers" in str(second)
    assert "did not start" in str(first)


def test_one_rank_twice_is_refused() -> None:
    workers = cluster_of(3)
    results = all_meet([workers[0], workers[1], workers[1]], 2.0)
    # Rank 0 tells the second of the two, unless that finds the port of its rank taken by the first before.
    reasons = ("two workers were started with one and the same task", "is taken on this machine by another process")
    assert sum(any(reason in str(result) for reason in reasons) for result in results) == 1


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = cluster_of(2)
    real = rendezvous._introduction
    monkeypatch.setattr(
        rendezvous, "_introduction", lambda c: {**real(c), **({"lockstep": "9.9"} if c.rank == 1 else {})}
    )
    _, second = all_meet(workers, 1.5)
    assert "this worker 9.9: install the same on all" in str(second)


def test_strangers_and_workers_that_start_again_do_no_harm() -> None:
    workers = cluster_of(3)
    port = int(workers[0].addresses[0].split(":")[1])

    def disturb() -> None:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                for words in (b"", b"GET / HTTP/1.1\r\n\r\n", b'{"rank": 1}\n', b"[]\n"):
                    with socket.create_connection(("127.0.0.1", port), timeout=5) as stranger:
                        stranger.sendall(words)
                # A worker that is admitted, goes away, and comes once more.
                early = Connection(socket.create_connection(("127.0.0.1", port), timeout=5))
                early.send(rendezvous._introduction(workers[1]))
                early.close()
                return
            time.sleep(0.05)

    chief: list[dict[int, Connection]] = []
    waiting = threading.Thread(target=lambda: chief.append(meet(workers[0], 20)), daemon=True)
    waiting.start()
    disturb()
    results = all_meet(workers[1:], 20)
    waiting.join(20)
    with closing([*results, *chief]):
        assert [sorted(result) for result in (*chief, *results)] == [[1, 2], [0], [0]]  # type: ignore[arg-type]


class Devices:
    """Stands in for tf.config, with so many GPUs."""

    def __init__(self, count: int) -> None:
        self.gpus = [f"GPU:{number}" for number in range(count)]
        self.visible = list(self.gpus)
        self.growing: list[str] = []
        self.experimental = self

    def list_physical_devices(self, kind: str) -> list[str]:
        assert kind == "GPU"
        return self.gpus

    def set_visible_devices(self, device: str, kind: str) -> None:
        assert kind == "GPU"
        self.visible = [device]

    def set_memory_growth(self, device: str, enable: bool) -> None:
        assert enable
        self.growing.append(device)


def test_each_worker_of_a_machine_gets_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for local_rank in range(2):
        devices = Devices(4)
        claim_gpu(devices, Cluster(5, 8, local_rank, 2))
        assert devices.visible == devices.growing == [f"GPU:{local_rank}"]


def test_machines_without_gpus_are_left_alone() -> None:
    devices = Devices(0)
    claim_gpu(devices, Cluster(1, 2, 1, 2))
    assert devices.growing == []


def test_gpus_that_a_scheduler_deals_out() -> None:
    """Each worker sees one, its own, whatever its number on the machine."""
    assert gpu_number(1, Cluster(3, 4, 3, 4), are_dealt_out=True) == 0


@pytest.mark.parametrize("count", [1, 3])
def test_more_workers_than_gpus(count: int) -> None:
    with pytest.raises(JoinError, match=f"4 workers were started on this machine.*{count}"):
        gpu_number(count, Cluster(0, 4, 0, 4), are_dealt_out=False)
