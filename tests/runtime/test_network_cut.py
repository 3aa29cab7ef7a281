"""Two machines that lose each other: two network namespaces, whose link is taken down in the middle of training."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from conftest import why_no_mpi, worker_environment

# The documentation says 10: the kernel's last probe comes after that, and a busy machine is late itself.
NOTICED_SECONDS = 10 + 5
PROGRAM = """
import time
import tensorflow as tf
import lockstep

@tf.function
def step(x):
    return lockstep.all_reduce(x)

try:
    while True:
        before = time.time()
        step(tf.constant(1.0))
        print("step", flush=True)
        time.sleep(0.1)
except tf.errors.OpError:
    print("noticed at", time.time(), flush=True)
    raise
"""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)


@contextlib.contextmanager
def linked_namespaces() -> Iterator[tuple[str, str]]:
    """Two namespaces with the addresses 10.77.0.1 and 10.77.0.2, linked by l0 and l1. Skips where that cannot be."""
    names = (f"lockstep{os.getpid()}a", f"lockstep{os.getpid()}b")
    try:
        try:
            for name in names:
                ip("netns", "add", name)
            ip("link", "add", "l0", "netns", names[0], "type", "veth", "peer", "name", "l1", "netns", names[1])
            for number, name in enumerate(names):
                ip("-n", name, "address", "add", f"10.77.0.{number + 1}/24", "dev", f"l{number}")
                ip("-n", name, "link", "set", f"l{number}", "up")
                ip("-n", name, "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespaces here: {error}")
        yield names
    finally:
        for name in names:
            if shutil.which("ip"):
                subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=20)


@pytest.mark.long
def test_both_sides_of_a_cut_network_end(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    with linked_namespaces() as names, contextlib.ExitStack() as stack:
        workers = []
        for rank, name in enumerate(names):
            cluster = {"worker": ["10.77.0.1:2222", "10.77.0.2:2222"]}
            config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})
            worker = subprocess.Popen(
                ["ip", "netns", "exec", name, sys.executable, str(tmp_path / "train.py")],
                env=worker_environment(TF_CONFIG=config, LOCKSTEP_JOIN_SECONDS="120"),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.callback(worker.wait)
            stack.callback(worker.kill)
            workers.append(worker)
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "step\n"
        ip("-n", names[0], "link", "set", "l0", "down")
        cut = time.time()
        for rank, worker in enumerate(workers):
            shown, errors = worker.communicate(timeout=100)
            assert worker.returncode == 1
            noticed = float(re.findall(r"noticed at (\S+)", shown)[0])
            assert noticed - cut < NOTICED_SECONDS
            # Recent versions of TensorFlow notice it too, at about the same time, and call the rank a task.
            assert re.search(rf"rank {1 - rank} \(10.77.0.{2 - rank}:2222\) is gone|/task:{1 - rank}", errors)
            assert re.search(r"ended at \S*train.py:\d+ because", errors)


def mpich() -> str:
    """The mpiexec of MPICH, whose options name the addresses to use. Skips where it is another or none."""
    if why_no_mpi():
        pytest.skip(why_no_mpi())
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    mpiexec = shutil.which("mpiexec", path=beside) or ""
    if "HYDRA" not in subprocess.run([mpiexec, "--version"], capture_output=True, text=True).stdout:
        pytest.skip("mpiexec is not that of MPICH")
    return mpiexec


@pytest.mark.long
def test_both_ranks_of_an_mpi_job_end(tmp_path: Path) -> None:
    """The ranks do; mpiexec itself waits for its other half, which it cannot reach."""
    mpiexec = mpich()
    shown = [tmp_path / f"{rank}.txt" for rank in range(2)]
    program = "import os, sys\nsys.stdout = open(sys.argv[1] + os.environ['PMI_RANK'] + '.txt', 'w')\n"
    program += "print(os.getpid(), flush=True)\n" + PROGRAM
    (tmp_path / "train.py").write_text(program)
    with linked_namespaces() as names:
        elsewhere = tmp_path / "elsewhere"  # what mpiexec calls to start something on another machine
        elsewhere.write_text(f'#!/bin/sh\nshift\nexec ip netns exec {names[1]} sh -c "$*"\n')
        elsewhere.chmod(0o755)
        reached = ["-launcher", "rsh", "-launcher-exec", str(elsewhere), "-localhost", "10.77.0.1"]
        hosts = ["-hosts", "10.77.0.1,10.77.0.2", "-n", "2", "-ppn", "1"]
        command = [sys.executable, str(tmp_path / "train.py"), f"{tmp_path}/"]
        job = subprocess.Popen(
            ["ip", "netns", "exec", names[0], mpiexec, *reached, *hosts, *command],
            env=worker_environment(UCX_TLS="tcp"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            wait_until(lambda: all(file.exists() and "step" in file.read_text() for file in shown), 90)
            ranks = [psutil.Process(int(file.read_text().split()[0])) for file in shown]
            ip("-n", names[0], "link", "set", "l0", "down")
            assert psutil.wait_procs(ranks, timeout=NOTICED_SECONDS + 10)[1] == []
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)
            for process in psutil.process_iter():
                with contextlib.suppress(psutil.Error):
                    if str(elsewhere) in " ".join(process.cmdline()):
                        process.kill()
        assert job.stderr is not None
        assert re.search(r"rank 0 of 2 ended in all_reduce .* because .*: rank 1 .* is gone", job.stderr.read())


def wait_until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
