"""Ctrl-C and SIGTERM: workers get each once, and time to save. No TensorFlow needed."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from conftest import why_no_mpi, worker_environment

COUNTS = """
    import os, signal, sys, time
    came = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: came.append(number))
    print("ready", flush=True)
    while not came:
        time.sleep(0.01)
    time.sleep(SAVING)
    print("saved after", [signal.Signals(number).name for number in came], flush=True)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "train.py"


def start(script: Path, text: str, *options: str, workers: int = 2) -> subprocess.Popen[str]:
    """The launcher, when all its workers are ready."""
    script.write_text(textwrap.dedent(text))
    launcher = subprocess.Popen(
        [sys.executable, "-m", "lockstep", "run", "--allow-unjoined", "--all-output", "-n", "2", *options, str(script)],
        env=worker_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert launcher.stdout is not None
    for _ in range(workers):
        assert "ready" in launcher.stdout.readline()
    return launcher


BACKENDS = [
    "tensorflow",
    pytest.param("mpi", marks=pytest.mark.skipif(bool(why_no_mpi()), reason=why_no_mpi())),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_workers_get_a_signal_once_and_save(script: Path, number: signal.Signals, backend: str) -> None:
    launcher = start(script, COUNTS.replace("SAVING", "3"), "--backend", backend)
    launcher.send_signal(number)
    shown, errors = launcher.communicate(timeout=20)
    assert launcher.returncode == 128 + number
    assert sorted(shown.splitlines()) == [f"[{rank}] saved after ['{number.name}']" for rank in range(2)], errors
    assert "30 s" in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_time_is_bounded(script: Path, backend: str) -> None:
    launcher = start(script, COUNTS.replace("SAVING", "60"), "--grace", "1.5", "--backend", backend)
    launcher.terminate()
    began = time.monotonic()
    shown, _ = launcher.communicate(timeout=20)
    assert 1.4 < time.monotonic() - began < 10
    assert launcher.returncode == 143
    assert shown == ""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_second_interrupt_ends_at_once(script: Path, backend: str) -> None:
    launcher = start(script, COUNTS.replace("SAVING", "60"), "--backend", backend)
    launcher.send_signal(signal.SIGINT)
    time.sleep(1)
    assert launcher.poll() is None
    launcher.send_signal(signal.SIGINT)
    began = time.monotonic()
    launcher.communicate(timeout=20)
    assert time.monotonic() - began < 8
    assert launcher.returncode == 130


def test_a_signal_that_comes_twice_by_itself_does_not_cut_the_time_short(script: Path) -> None:
    """As SIGHUP, from the kernel and from the shell, when a terminal is closed."""
    launcher = start(script, COUNTS.replace("SAVING", "2"))
    launcher.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    launcher.send_signal(signal.SIGHUP)
    shown, _ = launcher.communicate(timeout=20)
    assert shown.count("saved after ['SIGHUP']") == 2


def test_what_an_interrupt_raises_is_no_news_but_what_fails_then_is(script: Path) -> None:
    launcher = start(script, "import time; print('ready', flush=True); time.sleep(60)")
    launcher.send_signal(signal.SIGINT)
    assert "Traceback" not in launcher.communicate(timeout=20)[1]
    launcher = start(
        script,
        """
        import time
        try:
            print("ready", flush=True)
            time.sleep(60)
        except KeyboardInterrupt:
            raise OSError("cannot save")
        """,
    )
    launcher.send_signal(signal.SIGINT)
    assert "OSError: cannot save" in launcher.communicate(timeout=20)[1]


def test_ctrl_c_in_a_terminal(script: Path) -> None:
    """The terminal sends Ctrl-C to all processes of its foreground: the launcher's workers are none of them."""
    script.write_text(textwrap.dedent(COUNTS.replace("SAVING", "1")))
    child, user = pty.fork()
    if child == 0:
        os.environ.clear()
        os.environ.update(worker_environment())
        options = ["--allow-unjoined", "--all-output", "-n", "2"]
        os.execv(sys.executable, [sys.executable, "-m", "lockstep", "run", *options, str(script)])
    seen = b""
    while seen.count(b"ready") < 2:
        seen += os.read(user, 4096)
    os.write(user, b"\x03")
    try:
        while chunk := os.read(user, 4096):
            seen += chunk
    except OSError:  # the terminal is gone with its last process
        pass
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 130
    assert seen.count(b"saved after ['SIGINT']") == 2, seen


def test_a_job_can_be_ended_while_nobody_reads_what_it_shows(script: Path) -> None:
    text = """
        import time
        print("ready", flush=True)
        time.sleep(1)
        while True:
            print("x" * 1000, flush=True)
        """
    launcher = start(script, text, "--grace", "1")
    time.sleep(4)
    launcher.terminate()
    assert launcher.wait(30) == 143
    launcher.communicate()
