"""What happens to a job when a worker fails, stops, stalls or cannot join: an error soon, never a hang."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
from conftest import launch, worker_environment

# What the documentation promises.
DEATH_SECONDS = 10
Script = Callable[[str], str]
HEAD = """
import os, signal, sys, time
import tensorflow as tf
import lockstep
rank = lockstep.rank()

@tf.function
def step(x):
    return lockstep.all_reduce(x)
"""


@pytest.fixture
def script(tmp_path: Path) -> Script:
    def write(text: str, head: str = HEAD) -> str:
        path = tmp_path / "train.py"
        path.write_text(head + textwrap.dedent(text))
        return str(path)

    return write


def timed_launch(*arguments: str, **environment: str) -> tuple[subprocess.CompletedProcess[str], float]:
    began = time.monotonic()
    done = launch(*arguments, timeout=300, **environment)
    return done, time.monotonic() - began


def test_an_exception_on_one_worker_ends_all(script: Script) -> None:
    path = script(
        """
        for k in range(100):
            step(tf.constant(1.0))
            if rank == 1 and k == 5:
                raise ValueError("bad sample")
        """
    )
    done, _ = timed_launch("-n", "2", path)
    assert done.returncode == 1
    tail = done.stderr[done.stderr.index("worker 1 failed first") :]
    assert "[1] ValueError: bad sample" in tail
    assert "lockstep: rank 1 of 2 ended by ValueError" in tail


@pytest.mark.long
def test_a_failed_worker_does_not_wait_for_its_threads(script: Script) -> None:
    path = script(
        """
        import threading
        threading.Thread(target=time.sleep, args=[300]).start()
        if rank == 1:
            raise ValueError("bad sample")
        step(tf.constant(1.0))
        """
    )
    survivor, failed = run_without_launcher(path)
    assert failed.returncode == 1
    assert survivor.returncode == 1


def run_without_launcher(path: str, **environment: str) -> list[subprocess.CompletedProcess[str]]:
    """Two workers that TF_CONFIG alone connects, as other schedulers start them."""
    import socket

    with socket.socket() as first, socket.socket() as second:
        for one in (first, second):
            one.bind(("127.0.0.1", 0))
        addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in (first, second)]
    workers = []
    for rank in range(2):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}}
        workers.append(
            subprocess.Popen(
                [sys.executable, path],
                env=worker_environment(TF_CONFIG=json.dumps(config), **environment),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    finished = []
    try:
        for worker in workers:
            out, err = worker.communicate(timeout=150)
            finished.append(subprocess.CompletedProcess(worker.args, worker.returncode, out, err))
    finally:
        for worker in workers:
            worker.kill()
    return finished


def test_the_survivor_of_a_killed_worker_says_what_happened(script: Script) -> None:
    path = script(
        """
        try:
            for k in range(1000):
                if rank == 1 and k == 5:
                    os.kill(os.getpid(), signal.SIGKILL)
                before = time.monotonic()
                step(tf.constant(1.0))
        except tf.errors.OpError:
            print("noticed after", time.monotonic() - before)
            raise
        """
    )
    survivor, killed = run_without_launcher(path)
    assert killed.returncode == -9
    assert survivor.returncode == 1
    assert "lockstep: rank 0 of 2 ended at " in survivor.stderr
    assert "a collective call with the other workers failed: rank 1 (127.0.0.1:" in survivor.stderr
    assert re.search(r"ended at \S*train.py:\d+ because", survivor.stderr)
    assert float(survivor.stdout.split()[-1]) < DEATH_SECONDS


@pytest.mark.long
def test_a_stopped_worker_is_named(script: Script) -> None:
    path = script(
        """
        step(tf.constant(1.0))
        if rank == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        step(tf.constant(1.0))
        """
    )
    done, _ = timed_launch("-n", "2", path, LOCKSTEP_STALL_SECONDS="3")
    assert done.returncode == 1
    assert "rank 0 of 2 waited longer than 3 s for its peers in all_reduce (" in done.stderr
    assert "rank 1 does not answer" in done.stderr


# In each the workers make different calls from one point on. The stall limit is far away: it must not take that.
DISAGREEMENTS = {
    "order": """
        two(tf.constant(1.0)); step(tf.constant(1.0))
        for function in (step, two) if rank == 0 else (two, step):
            function(tf.constant(1.0))
        """,
    "number": """
        two(tf.constant(1.0))
        for k in range(5 + rank):
            step(tf.constant(1.0))
        two(tf.constant(1.0))
        """,
    "new": """
        step(tf.constant(1.0))
        (two if rank == 0 else step)(tf.constant(1.0))
        """,
}


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[pytest.mark.long] if what != "new" else []) for what in DISAGREEMENTS]
)
def test_workers_that_make_different_calls_in_functions(script: Script, what: str) -> None:
    two = """
        @tf.function
        def two(x):
            return lockstep.all_reduce([x, x])
        """
    path = script(textwrap.dedent(two) + textwrap.dedent(DISAGREEMENTS[what]))
    done, seconds = timed_launch("-n", "2", path)
    assert done.returncode == 1
    assert "the workers wait for each other in different calls" in done.stderr
    waits = [line for line in done.stderr.splitlines() if " waits in " in line]
    assert any("rank 0 waits in" in line and "train.py:" in line for line in waits)
    assert any("rank 1 waits in" in line and "train.py:" in line for line in waits)
    assert seconds < 90


def test_a_worker_with_fewer_steps(script: Script) -> None:
    path = script("for k in range(5 + rank): step(tf.constant(1.0))")
    done, seconds = timed_launch("-n", "2", path)
    assert done.returncode == 1
    assert "rank 0 has come to the end of its script" in done.stderr
    assert "rank 1 waits in all_reduce" in done.stderr
    assert seconds < 90


@pytest.mark.long
def test_an_exit_code_of_the_scripts_own(script: Script) -> None:
    path = script("step(tf.constant(1.0)); sys.exit(5) if rank == 1 else step(tf.constant(1.0))")
    done, _ = timed_launch("-n", "2", path)
    assert done.returncode == 5


@pytest.mark.long
def test_out_of_memory_on_one_worker(script: Script) -> None:
    path = script(
        """
        step(tf.constant(1.0))
        if rank == 1:
            import resource
            limit = int(open("/proc/self/statm").read().split()[0]) * 4096 + (300 << 20)
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
            tf.ones([400, 1000, 1000])
        step(tf.constant(1.0))
        """
    )
    done, _ = timed_launch("-n", "2", path)
    assert done.returncode not in (0, None)
    assert "worker 1 failed first" in done.stderr


def test_ctrl_c_in_the_middle_of_a_call(script: Script) -> None:
    path = script(
        """
        step(tf.constant(1.0))
        print(os.getpid(), flush=True)
        time.sleep(300) if rank == 1 else step(tf.constant(1.0))
        """
    )
    launcher = subprocess.Popen(
        [sys.executable, "-m", "lockstep", "run", "-n", "2", "--all-output", path],
        env=worker_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert launcher.stdout is not None
    workers = [psutil.Process(int(launcher.stdout.readline().split()[1])) for _ in range(2)]
    launcher.send_signal(signal.SIGINT)
    assert launcher.wait(20) == 128 + signal.SIGINT
    assert psutil.wait_procs(workers, timeout=5)[1] == []


def test_a_worker_that_exits_early_ends_the_others(script: Script) -> None:
    path = script(
        """
        step(tf.constant(1.0))
        if rank == 0:
            sys.exit(0)
        step(tf.constant(1.0))
        """
    )
    leaver, left = run_without_launcher(path)
    assert left.returncode == 1
    assert "rank 0 has come to the end of its script" in left.stderr
    assert leaver.returncode == 0


def test_a_stall_ends_with_rank_and_call(script: Script) -> None:
    path = script(
        """
        step(tf.constant(1.0))
        if rank == 1:
            time.sleep(300)
        step(tf.constant(1.0))
        """
    )
    done, seconds = timed_launch("-n", "2", path, LOCKSTEP_STALL_SECONDS="3")
    assert done.returncode == 1
    assert "rank 0 of 2 waited longer than 3 s for its peers in all_reduce (mean over 1 tensor)" in done.stderr
    assert seconds < 60


@pytest.mark.long
def test_an_eager_stall_raises_an_error_of_lockstep(script: Script) -> None:
    path = script(
        """
        if rank == 1:
            time.sleep(300)
        try:
            lockstep.barrier()
        except lockstep.LostWorkerError as error:
            print("caught:", error)
            os._exit(7)
        """
    )
    done, _ = timed_launch("-n", "2", path, LOCKSTEP_STALL_SECONDS="3")
    assert done.returncode == 7
    assert "caught: rank 0 of 2: gather" in done.stdout


@pytest.mark.long
def test_calm_exits_at_different_times(script: Script) -> None:
    path = script(
        """
        step(tf.constant(1.0))
        time.sleep(3 if lockstep.is_chief() else 0)
        print("done", rank)
        """
    )
    done, _ = timed_launch("-n", "3", "--all-output", path)
    assert done.returncode == 0
    assert sorted(done.stdout.split()) == sorted(["[0]", "done", "0", "[1]", "done", "1", "[2]", "done", "2"])
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_a_worker_that_dies_while_tensorflow_connects(script: Script) -> None:
    """TensorFlow's start waits for it inside one call that nothing interrupts, so the process itself has to end."""
    head = """
import json, os
if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
    config = os.environ.pop("TF_CONFIG")
    from lockstep.cluster import environment, rendezvous  # alone, since nothing names others any more
    os.environ["TF_CONFIG"] = config
    rendezvous.meet(environment.from_tf_config(), 60)
    os._exit(9)
import tensorflow as tf
import lockstep
"""
    survivor, died = run_without_launcher(script("", head), LOCKSTEP_JOIN_SECONDS="12")
    assert died.returncode == 9
    assert survivor.returncode == 1
    assert "Timeout" in survivor.stderr
    assert "lockstep/backends/tensorflow.py" in survivor.stderr


@pytest.mark.long
def test_an_import_that_comes_too_late(script: Script) -> None:
    head = "import tensorflow as tf\nname = 'x'\nx = tf.constant(1.0)\nimport lockstep\n"
    done, _ = timed_launch("-n", "2", script("", head))
    assert done.returncode == 1
    assert 'The first tensor was made by "x = tf.constant(1.0)" (' in done.stderr
    assert "train.py:3)" in done.stderr
    assert "Move `import lockstep` right below the first TensorFlow or Keras import" in done.stderr


@pytest.mark.long
def test_the_seed_can_be_fixed(script: Script) -> None:
    path = script("import random; print(random.random())")
    done = launch("-n", "2", "--all-output", path, LOCKSTEP_SEED="12")
    drawn = random.Random(12).random()
    assert sorted(done.stdout.splitlines()) == [f"[0] {drawn}", f"[1] {drawn}"]


@pytest.mark.long
def test_what_the_script_has_seeded_before_stays_seeded(script: Script) -> None:
    head = """
        import random
        import numpy as np
        import tensorflow as tf
        random.seed(3)
        np.random.seed(4)
        import lockstep
    """
    path = script("print(random.random(), np.random.random())", textwrap.dedent(head))
    done = launch("-n", "2", "--all-output", path)
    drawn = f"{random.Random(3).random()} {np.random.RandomState(4).random_sample()}"
    assert sorted(done.stdout.splitlines()) == [f"[0] {drawn}", f"[1] {drawn}"]


@pytest.mark.long
def test_processes_that_a_worker_starts_do_not_join(script: Script) -> None:
    path = script(
        """
        import subprocess
        code = "import lockstep; print('child', lockstep.rank(), lockstep.size())"
        subprocess.run([sys.executable, "-c", code], check=True)
        print("parent", rank, lockstep.size(), flush=True)
        """
    )
    done, _ = timed_launch("-n", "2", path)
    assert done.stdout == "[0] child 0 1\n[0] parent 0 2\n"
