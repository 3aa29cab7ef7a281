"""What happens to an MPI job when a rank fails, stops, stalls or does not come: it ends soon, and says why."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from conftest import launch, why_no_mpi, worker_environment

from lockstep.launcher import mpirun
from lockstep.launcher.launch import Job

pytestmark = pytest.mark.skipif(bool(why_no_mpi()), reason=why_no_mpi())

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
def script(tmp_path: Path) -> Iterator[Script]:
    """Writes a script; nothing that runs it may be left when the test is over."""
    path = tmp_path / "train.py"

    def write(text: str, head: str = HEAD) -> str:
        path.write_text(head + textwrap.dedent(text))
        return str(path)

    yield write
    deadline = time.monotonic() + 5
    while (left := processes_with(str(path))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []


def processes_with(argument: str) -> list[str]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if argument in command:
                found.append(" ".join(command))
    return found


@dataclass(frozen=True)
class Fault:
    """What a script does in its sixth step, the job's exit code, and patterns that its stderr has to show.

    seconds: how long it may take from there to the end of the job.
    """

    text: str
    code: int
    shows: tuple[str, ...]
    seconds: float = 10.0
    environment: dict[str, str] = field(default_factory=dict)


FAULTS = {
    "exception": Fault(
        "raise ValueError('bad sample')",
        1,
        (
            # The call is named where rank 1's word comes while rank 0 is in it; by chance the call fails before.
            r"\[0\] lockstep: rank 0 of 2 ended( in all_reduce \(mean over 1 tensor\) at \S*train.py:\d+, run by "
            r"| at )\S*train.py:\d+ because .*: rank 1 of 2 ended by ValueError at \S*train.py:\d+: bad sample",
            r"(?s)worker 1 failed first .*\[1\] ValueError: bad sample",
        ),
    ),
    "kill -9": Fault(
        "os.kill(os.getpid(), signal.SIGKILL)",
        137,
        (r"because .*: rank 1 \(\S+\) is gone without a word", "rank 1 was killed by SIGKILL"),
    ),
    "SIGSTOP": Fault(
        "os.kill(os.getpid(), signal.SIGSTOP)",
        1,
        (
            r"rank 0 of 2 waited longer than 3 s for its peers in all_reduce \(mean over 1 tensor\) at \S*train.py:\d+",
            "rank 1 does not answer: it is stopped",
        ),
        seconds=20.0,
        environment={"LOCKSTEP_STALL_SECONDS": "3"},
    ),
}
RARE_FAULTS = {
    "sys.exit": Fault("sys.exit(7)", 7, ("rank 0: all_reduce", "rank 1: the end of its script")),
    "fewer steps": Fault("break", 1, ("do not make the same collective calls", "rank 1: the end of its script")),
    "stall": Fault(
        "time.sleep(300)",
        1,
        ("rank 0 of 2 waited longer than 3 s", r"rank 1 is in no collective call, but at \S*train.py:\d+"),
        seconds=20.0,
        environment={"LOCKSTEP_STALL_SECONDS": "3"},
    ),
    "leaving with 0": Fault("os._exit(0)", 1, ("rank 1 left early, with exit code 0", "rank 1 .* is gone")),
    "an exit code": Fault("os._exit(9)", 9, ("rank 1 left early, with exit code 9",)),
    "out of memory": Fault(
        "limit_memory(); tf.ones([400, 1000, 1000])",
        1,
        ("worker 1 failed first", r"rank 1 of 2 ended by \w+ at "),
        seconds=30.0,
    ),
}
LOOP = """
def limit_memory():
    import resource
    limit = int(open("/proc/self/statm").read().split()[0]) * 4096 + (300 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

for k in range(1000):
    step(tf.constant(1.0))
    if rank == 1 and k == 5:
        print("fault at", time.time(), flush=True)
        {fault}
"""


@pytest.mark.parametrize(
    "fault",
    [
        *(pytest.param(fault, id=name) for name, fault in FAULTS.items()),
        *(pytest.param(fault, id=name, marks=pytest.mark.long) for name, fault in RARE_FAULTS.items()),
    ],
)
def test_a_fault_of_one_rank(script: Script, fault: Fault) -> None:
    path = script(LOOP.format(fault=fault.text))
    done = launch("-n", "2", "--backend", "mpi", "--all-output", path, timeout=300, **fault.environment)
    ended = time.time()
    assert done.returncode == fault.code, done.stderr
    for pattern in fault.shows:
        assert re.search(pattern, done.stderr), done.stderr
    assert ended - float(re.findall(r"fault at (\S+)", done.stdout)[0]) < fault.seconds


DIFFERENCES = ["dtype", "shape", "number", "call", "order", "rows"]


def test_calls_that_differ_raise_on_all_ranks(script: Script) -> None:
    """In functions the calls are compared whenever they run: other numbers of them, another order, other shapes."""
    path = script(
        """
        two = tf.function(lambda x: lockstep.all_reduce([x, x]))
        rows = tf.function(lambda x: lockstep.all_reduce(x), input_signature=[tf.TensorSpec([None])])
        step(tf.constant(1.0)); two(tf.constant(1.0)); rows(tf.ones([4]))
        first = rank == 0

        def differ(what, call):
            try:
                call()
            except (lockstep.MismatchError, tf.errors.OpError) as error:
                print(what, "rank 0:" in str(error) and "rank 1:" in str(error), flush=True)

        differ("dtype", lambda: lockstep.all_reduce(tf.ones([4], tf.float32 if first else tf.float64)))
        differ("shape", lambda: lockstep.all_reduce(tf.ones([4 if first else 8])))
        differ("number", lambda: lockstep.all_reduce([tf.ones([4])] * (1 + rank)))
        differ("call", lambda: lockstep.barrier() if first else lockstep.all_gather(tf.ones([4])))
        differ("order", lambda: (step if first else two)(tf.constant(1.0)))
        differ("rows", lambda: rows(tf.ones([4 if first else 8])))
        print("after", float(step(tf.constant(1.0 + rank))), flush=True)
        """
    )
    done = launch("-n", "2", "--backend", "mpi", "--all-output", path, timeout=300)
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        shown = [line[4:] for line in done.stdout.splitlines() if line.startswith(f"[{rank}] ")]
        assert shown == [f"{what} True" for what in DIFFERENCES] + ["after 1.5"]


@pytest.mark.long
def test_a_rank_that_never_comes_is_named(script: Script) -> None:
    head = "import os, time\nif '1' in (os.environ.get('PMI_RANK'), os.environ.get('OMPI_COMM_WORLD_RANK')):\n"
    path = script("", head + "    time.sleep(300)\nimport lockstep\n")
    done = launch("-n", "2", "--backend", "mpi", path, timeout=200, LOCKSTEP_JOIN_SECONDS="6")
    assert done.returncode == 1
    assert "the others waited for rank 1, which did not come to `import lockstep`" in done.stderr
    assert re.search(r'train.py", line 4 in <module>', done.stderr)


def test_an_mpiexec_that_misses_the_end_of_a_rank_does_not_hold_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ranks = tmp_path / "mpiexec.py"  # starts the ranks, and ends when all have
    ranks.write_text(
        "import os, subprocess, sys\n"
        "every = [subprocess.Popen(sys.argv[3:], env={**os.environ, 'PMI_RANK': str(i)}) for i in range(2)]\n"
        "for rank in every: rank.wait()\n"
    )
    path = tmp_path / "train.py"
    path.write_text("import os, sys, time\nif os.environ['PMI_RANK'] == '0': sys.exit(3)\ntime.sleep(300)\n")
    monkeypatch.setattr(mpirun, "_mpiexec", lambda: [sys.executable, str(ranks)])
    monkeypatch.setattr(mpirun, "_LAGGING_SECONDS", 1.0)
    began = time.monotonic()
    assert mpirun.launch(Job([sys.executable, str(path)], 2, allow_unjoined=True)) == 3
    assert time.monotonic() - began < 100
    assert "the job ended with exit code 3" in capfd.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.long)])
def test_the_launcher_is_ended_in_the_middle_of_a_call(script: Script, number: signal.Signals) -> None:
    path = script(
        """
        step(tf.constant(1.0))
        print("ready", flush=True)
        time.sleep(300) if rank == 1 else step(tf.constant(1.0))
        """
    )
    launcher = subprocess.Popen(
        [sys.executable, "-m", "lockstep", "run", "-n", "2", "--backend", "mpi", "--all-output", path],
        env=worker_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert launcher.stdout is not None
    assert [launcher.stdout.readline().split()[1] for _ in range(2)] == ["ready", "ready"]
    launcher.send_signal(number)
    assert launcher.wait(20) == (130 if number == signal.SIGINT else -signal.SIGKILL)
