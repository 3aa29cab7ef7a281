"""What is seen of the workers' output, and when; and what happens when it cannot be shown. No TensorFlow needed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from conftest import launch, worker_environment


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "train.py"


def command(script: Path, text: str, *options: str) -> list[str]:
    script.write_text("import os, sys, time\n" + textwrap.dedent(text))
    return [sys.executable, "-m", "lockstep", "run", "--allow-unjoined", "-n", "2", *options, str(script)]


def moments(script: Path, text: str, *options: str) -> list[tuple[float, bytes]]:
    """What is shown on stdout and stderr, with the seconds since the first of it."""
    with subprocess.Popen(
        command(script, text, *options), env=worker_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as launcher:
        assert launcher.stdout is not None
        seen = []
        while chunk := os.read(launcher.stdout.fileno(), 65536):
            seen.append((time.monotonic(), chunk))
    return [(at - seen[0][0], chunk) for at, chunk in seen]


@pytest.mark.parametrize(
    ("stream", "state"),
    [
        ("stdout", r"\rstep {k}/3 "),
        ("stderr", r"\rstep {k}/3 "),
        ("stdout", r"step {k}/3\r"),
        ("stdout", r"\b\b\b\r\x1b[1mstep {k}/3"),
        ("stdout", r"step {k}/3 "),
        ("stdout", r"step {k}/3\r\n"),
    ],
)
def test_progress_is_seen_within_half_a_second(script: Path, state: str, stream: str) -> None:
    text = f"""
        for k in range(1, 4):
            sys.{stream}.write(f"{state}")
            sys.{stream}.flush()
            time.sleep(1)
        """
    seen = moments(script, text)
    for k in range(1, 4):
        at = next(at for at, chunk in seen if f"step {k}/3".encode() in chunk)
        assert abs(at - (k - 1)) < 0.5, seen


def test_a_progress_bar_keeps_its_rank(script: Path) -> None:
    done = subprocess.run(
        command(script, r"sys.stdout.write('\r1/2\r2/2 done\nnext\r\n\nno end')"),
        env=worker_environment(),
        capture_output=True,
    )
    assert done.stdout == b"[0] 1/2\r[0] 2/2 done\n[0] next\n[0] \n[0] no end\n"


def test_an_unfinished_line_is_not_continued_by_another_worker(script: Path) -> None:
    text = """
        import json
        rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
        time.sleep(0.5 * rank)
        print("begun", end="", flush=True)
        time.sleep(1)
        print(", ended", flush=True)
        """
    shown = b"".join(chunk for _, chunk in moments(script, text, "--all-output"))
    assert sorted(shown.splitlines()) == [b"[0] , ended", b"[0] begun", b"[1] , ended", b"[1] begun"]


FILLS = """
    for k in range(100_000):
        print("line", k, "x" * 100, flush=True)
        if k > 2000:
            time.sleep(0.01)
"""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_ends_the_job(script: Path) -> None:
    began = time.monotonic()
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command(script, FILLS), env=worker_environment(), stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert done.returncode == 1
    assert "cannot write to stdout (No space left on device)" in done.stderr
    assert "Traceback" not in done.stderr
    assert time.monotonic() - began < 20


def test_a_closed_pipe_ends_the_job(script: Path) -> None:
    launcher = subprocess.Popen(
        command(script, FILLS), env=worker_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert launcher.stdout is not None
    launcher.stdout.readline()
    launcher.stdout.close()
    launcher.stdout = None
    _, errors = launcher.communicate(timeout=30)
    assert launcher.returncode == 1
    assert errors.decode().splitlines() == ["lockstep: cannot write to stdout (Broken pipe), so all were ended"]


def test_a_failure_of_the_chief_is_told_once(script: Path) -> None:
    text = """
        try:
            raise KeyError("what led to it")
        except KeyError:
            raise ValueError("bad sample")
        """
    for options in ([], ["--all-output"]):
        errors = subprocess.run(
            command(script, text, *options), env=worker_environment(), capture_output=True, text=True
        ).stderr
        assert errors.count("ValueError: bad sample") == errors.count("KeyError: 'what led to it'") == 1
        assert errors.splitlines()[-1].endswith("ValueError: bad sample")


def test_what_only_follows_is_not_told(script: Path) -> None:
    text = """
        import json
        if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
            raise ValueError("bad sample")

        def excepthook(*error):
            sys.__excepthook__(*error)
            why = "a collective call with the other workers failed"
            print("lockstep: rank 0 of 2 ended because", why, file=sys.stderr)

        sys.excepthook = excepthook
        time.sleep(0.5)
        raise ConnectionError("the peer is gone")
        """
    errors = subprocess.run(command(script, text), env=worker_environment(), capture_output=True, text=True).stderr
    assert errors.splitlines()[-1] == "[1] ValueError: bad sample"
    assert "ConnectionError" not in errors


def test_a_traceback_that_ends_nothing_is_shown_soon(script: Path) -> None:
    text = """
        import traceback
        print("begins", file=sys.stderr)
        try:
            1 / 0
        except ZeroDivisionError:
            traceback.print_exc()
        time.sleep(3)
        print("goes on", file=sys.stderr)
        """
    seen = moments(script, text)
    assert next(at for at, chunk in seen if b"ZeroDivisionError" in chunk) < 2
    shown = b"".join(chunk for _, chunk in seen)
    assert shown.count(b"ZeroDivisionError") == 1
    assert shown.endswith(b"[0] goes on\n")


LOGS = """
    print("WARNING: All log messages before absl::InitializeLog() is called are written to STDERR", file=sys.stderr)
    print("I0000 00:00:1795296318.434131   21506 port.cc:153] oneDNN custom operations are on.", file=sys.stderr)
    print("2024-05-05 12:00:00.123456: W tensorflow/core/rt.cc:38] TensorRT is missing", file=sys.stderr)
    print("E0000 00:00:1795296326.673127   21506 cuda_platform.cc:52] failed call to cuInit", file=sys.stderr)
    print("level", os.environ["TF_CPP_MIN_LOG_LEVEL"], file=sys.stderr)
"""


def test_what_tensorflow_logs_at_its_start_is_shown_when_asked(script: Path) -> None:
    def errors(*options: str, **more: str) -> list[str]:
        unset = {name: value for name, value in worker_environment().items() if name != "TF_CPP_MIN_LOG_LEVEL"}
        done = subprocess.run(command(script, LOGS, *options), env={**unset, **more}, capture_output=True, text=True)
        return done.stderr.splitlines()

    assert errors() == ["[0] level 1"]
    assert len(errors("--tf-logs")) == 5
    assert errors("--tf-logs")[-1] == "[0] level 0"
    assert len(errors(TF_CPP_MIN_LOG_LEVEL="3")) == 5


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--wrokers", "3", "SCRIPT"], "--wrokers"),
        (["-n", "2", "-x", "SCRIPT"], "-x"),
        (["no_such_script.py"], "no script no_such_script.py"),
        (["python", "SCRIPT"], "without a python before it"),
        (["-m", "no.such.module"], "no module no.such.module"),
        (["-m", "json.no_such"], "no module json.no_such"),
        (["--nnodes", "2", "--master", "nonsense", "SCRIPT"], "HOST:PORT"),
        (["--nnodes", "2", "--master", "a:70000", "SCRIPT"], "HOST:PORT"),
        (["--master", "nonsense", "SCRIPT"], "HOST:PORT"),
        (["-n", "0", "SCRIPT"], "-n"),
    ],
)
def test_mistakes_in_the_command_are_told_before_anything_starts(
    tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    mark = tmp_path / "started"
    script = tmp_path / "train.py"
    script.write_text(f"open({str(mark)!r}, 'w')")
    done = launch(*(argument.replace("SCRIPT", str(script)) for argument in arguments), timeout=20)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert not mark.exists()


def test_more_workers_than_cores_are_warned_of(script: Path) -> None:
    script.write_text("")
    cores = len(os.sched_getaffinity(0))
    assert f"share {cores} core" in launch("--allow-unjoined", "-n", str(cores + 1), str(script)).stderr
    assert "share" not in launch("--allow-unjoined", "-n", str(cores), str(script)).stderr


def test_workers_that_never_join_are_told_and_fail(script: Path) -> None:
    script.write_text("import time; time.sleep(12)")
    done = launch("-n", "2", str(script))
    assert done.returncode == 1
    assert "has joined the others so far" in done.stderr
    assert "had joined the others: the run counts as failed" in done.stderr
    script.write_text("print('quick')")
    done = launch("-n", "2", str(script))
    assert (done.returncode, done.stdout) == (1, "[0] quick\n")
    done = launch("-n", "2", "--allow-unjoined", str(script))
    assert (done.returncode, done.stderr) == (0, "")
    assert launch("-n", "1", str(script)).returncode == 0


def test_workers_that_have_joined_need_no_word(script: Path) -> None:
    script.write_text("import tensorflow\nimport lockstep\nprint(lockstep.size())")
    done = launch("-n", "2", str(script))
    assert (done.returncode, done.stdout) == (0, "[0] 2\n")
    assert "joined" not in done.stderr
