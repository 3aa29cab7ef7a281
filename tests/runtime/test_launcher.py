"""`lockstep run`: what is shown, how failures end, and that nothing is left behind. No TensorFlow needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import conftest
import psutil
import pytest
from conftest import worker_environment

Script = Callable[[str], str]


def launch(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`lockstep run` of scripts that do without lockstep, to be quick."""
    return conftest.launch("--allow-unjoined", *arguments, **environment)


RANK = "import json, os, sys, time\nrank = json.loads(os.environ['TF_CONFIG'])['task']['index']\n"


@pytest.fixture
def script(tmp_path: Path) -> Script:
    def write(text: str) -> str:
        path = tmp_path / "train.py"
        path.write_text(RANK + textwrap.dedent(text))
        return str(path)

    return write


def test_shows_the_chief_with_its_rank(script: Script) -> None:
    done = launch("-n", "3", script("print('hello', rank); print('beware', file=sys.stderr)"))
    assert done.returncode == 0
    assert done.stdout == "[0] hello 0\n"
    assert done.stderr.splitlines()[-1] == "[0] beware"


def test_shows_all_when_asked(script: Script) -> None:
    done = launch("-n", "3", "--all-output", script("print('hello', rank)"))
    assert sorted(done.stdout.splitlines()) == ["[0] hello 0", "[1] hello 1", "[2] hello 2"]


def test_passes_the_scripts_own_options_untouched(script: Script) -> None:
    own = ["--lr", "0.1", "-n", "7", "--all-output", "--help", "--", "x y"]
    done = launch("-n", "2", script("print(sys.argv[1:])"), *own)
    assert done.stdout == f"[0] {own}\n"


def test_starts_modules(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "train.py").write_text("import sys; print(__name__, sys.argv[1:])")
    path = os.pathsep.join([worker_environment()["PYTHONPATH"], str(tmp_path)])
    done = launch("-n", "2", "-m", "package.train", "--epochs", "3", PYTHONPATH=path)
    assert done.stdout == "[0] __main__ ['--epochs', '3']\n"


def test_one_worker_is_an_ordinary_process(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("import os; print('TF_CONFIG' in os.environ)")
    assert launch("-n", "1", str(path)).stdout == "[0] False\n"


def test_describes_one_cluster_to_all(script: Script) -> None:
    done = launch("-n", "2", "--all-output", script("print(os.environ['TF_CONFIG'].split('\"task\"')[0])"))
    first, second = done.stdout.splitlines()
    assert first[4:] == second[4:]
    assert first.count("127.0.0.1:") == 2


def test_shares_the_cores_but_keeps_what_the_user_set(script: Script) -> None:
    names = ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS")
    path = script(f"print([os.environ[name] for name in {names}])")
    share = max(1, len(os.sched_getaffinity(0)) // 2)
    unset = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-m", "lockstep", "run", "--allow-unjoined", "-n", "2", path],
        env={**unset, "PYTHONPATH": worker_environment()["PYTHONPATH"]},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == f"[0] {[str(share), str(max(2, share)), str(share)]}\n"
    done = launch("-n", "2", path, TF_NUM_INTRAOP_THREADS="5", TF_NUM_INTEROP_THREADS="6", OMP_NUM_THREADS="7")
    assert done.stdout == "[0] ['5', '6', '7']\n"


def test_sets_of_strings_have_one_order(script: Script) -> None:
    path = script("print(list({f'word{i}' for i in range(50)}))")
    unset = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    done = subprocess.run(
        [sys.executable, "-m", "lockstep", "run", "--allow-unjoined", "-n", "2", "--all-output", path],
        env={**unset, "PYTHONPATH": worker_environment()["PYTHONPATH"]},
        capture_output=True,
        text=True,
        timeout=60,
    )
    first, second = sorted(done.stdout.splitlines())
    assert first[len("[0] ") :] == second[len("[1] ") :]


def test_progress_bars_and_unfinished_lines(script: Script) -> None:
    done = launch("-n", "2", script("sys.stdout.write('1/2\\r2/2\\nno end')"))
    assert done.stdout.replace("\r", "|") == "[0] 1/2|[0] 2/2\n[0] no end\n" or done.stdout == (
        "[0] 1/2\n[0] 2/2\n[0] no end\n"
    )


def test_one_failure_ends_all_with_its_traceback_last(script: Script) -> None:
    path = script(
        """
        print("started", flush=True)
        if rank == 1:
            time.sleep(0.5)
            sys.stderr.write("noise\\n")
            raise ArithmeticError("rank one cannot go on")
        time.sleep(60)
        """
    )
    began = time.monotonic()
    done = launch("-n", "3", path)
    assert time.monotonic() - began < 30
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[-1] == "[1] ArithmeticError: rank one cannot go on"
    assert any("worker 1 failed first (exit code 1)" in line for line in lines)


def test_keeps_the_exit_code_of_the_first_failure(script: Script) -> None:
    assert launch("-n", "2", script("time.sleep(0.2 * rank); sys.exit(3 + rank)")).returncode == 3
    killed = launch("-n", "2", script("os.kill(os.getpid(), 9) if rank else time.sleep(60)"))
    assert killed.returncode == 128 + 9
    assert "SIGKILL" in killed.stderr


def test_names_the_cause_not_the_consequence(script: Script) -> None:
    """A worker that fails because another is gone may well be the first to end."""
    path = script(
        """
        if rank == 0:
            sys.exit("lockstep: rank 0 of 2 ended because a collective call with the other workers failed; x")
        time.sleep(0.4)
        raise ValueError("the cause")
        """
    )
    done = launch("-n", "2", path)
    assert done.stderr.splitlines()[-1] == "[1] ValueError: the cause"


def test_backends_of_one_machine_name_the_launcher_of_several(script: Script) -> None:
    several = ("--nnodes", "2", "--master", "127.0.0.1:1")
    for backend, other in (("mpi", "mpiexec --hostfile"), ("horovod", "horovodrun -H")):
        done = launch("--backend", backend, *several, script(""))
        assert done.returncode == 2
        assert other in done.stderr


@pytest.mark.skipif(find_spec("horovod") is not None, reason="Horovod is installed")
def test_a_backend_that_is_not_installed_is_named(script: Script) -> None:
    done = launch("--backend", "horovod", script(""))
    assert done.returncode == 1
    assert "--backend horovod: Horovod is not installed" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_script_is_an_error() -> None:
    done = launch("-n", "2", "no_such_script.py")
    assert done.returncode == 2
    assert "no_such_script.py" in done.stderr


SLEEPS = """
    import subprocess
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print(os.getpid(), child.pid, flush=True)
    time.sleep(600)
"""


def start_sleepers(path: str) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """The launcher, and its two workers with a child each."""
    launcher = subprocess.Popen(
        [sys.executable, "-m", "lockstep", "run", "--allow-unjoined", "-n", "2", "--all-output", path],
        env=worker_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert launcher.stdout is not None
    lines = [launcher.stdout.readline() for _ in range(2)]
    return launcher, [psutil.Process(int(pid)) for line in lines for pid in line.split()[1:]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_leave_nothing_behind(script: Script, number: signal.Signals) -> None:
    launcher, processes = start_sleepers(script(SLEEPS))
    launcher.send_signal(number)
    assert launcher.wait(10) == 128 + number
    _, alive = psutil.wait_procs(processes, timeout=5)
    assert alive == []


def test_workers_end_with_a_killed_launcher(script: Script) -> None:
    launcher, processes = start_sleepers(script(SLEEPS))
    launcher.kill()
    launcher.wait(10)
    workers = processes[::2]
    _, alive = psutil.wait_procs(workers, timeout=5)
    for left in psutil.wait_procs(processes[1::2], timeout=0)[1]:
        left.kill()
    assert alive == []


def test_workers_that_ignore_sigterm_are_killed(script: Script) -> None:
    path = script(
        """
        import signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("deaf", flush=True)
        time.sleep(1) if rank else time.sleep(600)
        sys.exit(rank)
        """
    )
    began = time.monotonic()
    assert launch("-n", "2", path).returncode == 1
    assert time.monotonic() - began < 30
