"""Train a script in processes of its own, bounded in time, and read back what they trained."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parents[2]
RECORDER = Path(__file__).with_name("recorder.py")
WARM_START = Path(__file__).with_name("warm_start.py")
SCRIPTS = REPOSITORY / "fixtures" / "scripts"
PROGRAMS = REPOSITORY / "fixtures" / "programs"

SEED = 20
TIME_LIMIT_SECONDS = 600  # many times what a run needs: a run that gets here hangs
# Runs are started in threads, while pytest sets a variable for each test in the main one.
_AT_START = dict(os.environ)


class RunFailedError(Exception):
    """A process ended with an error or not in time. The message carries its command and its output."""


@dataclass(frozen=True)
class Trained:
    """What one process trained."""

    weights: tuple[np.ndarray, ...]  # every trainable variable, in the order of creation
    steps: tuple[int, ...]  # of each optimizer that made any
    losses: tuple[float, ...]  # of each epoch of `fit`
    samples: np.ndarray  # int64[rows]: a hash of each row trained on; empty if not asked for

    @classmethod
    def read(cls, path: Path) -> Trained:
        with np.load(path) as record:
            # Saving a model makes copies of its optimizer that never step.
            steps = tuple(count for count in record["steps"].tolist() if count)
            weights = [record[f"weight/{i}"] for i in range(sum(key.startswith("weight/") for key in record))]
            samples = record["samples"] if "samples" in record else np.zeros(0, np.int64)
            return cls(tuple(weights), steps, tuple(record["losses"].tolist()), samples)


def names() -> list[str]:
    """The scripts, and the programs of several files, that are migrated whole and so can be compared."""
    programs = [path for path in PROGRAMS.iterdir() if not (path / "refused.txt").exists()]
    return sorted(path.stem for path in [*SCRIPTS.glob("*.py"), *programs])


def original(name: str) -> Path:
    """The file that starts the training of that name."""
    script = SCRIPTS / f"{name}.py"
    return script if script.exists() else PROGRAMS / name / "before" / "main.py"


def train(
    script: Path,
    folder: Path,
    *,
    workers: int | None = None,
    without_randomness: bool = False,
    samples: bool = False,
    stand_in: bool = False,
    warm: Path | None = None,
    horovodrun: bool = False,
) -> list[Trained]:
    """Run `script` in the new folder `folder`; what each rank trained, in the order of the ranks.

    With `workers` the script is started by `lockstep run`, or by `horovodrun`, else as `python script` would be. With
    `stand_in`, npu_device is its stand-in. With `warm`, the socket of a server of warm_start.py, each process starts
    with TensorFlow imported.

    Raises RunFailedError if it fails, or if it has not ended in time.
    """
    working_directory = folder / "working-directory"
    working_directory.mkdir(parents=True)
    command = [str(RECORDER)] if warm is None else [str(WARM_START), str(warm)]
    command += ["--record", str(folder), "--seed", str(SEED)]
    command += ["--without-randomness"] * without_randomness + ["--samples"] * samples
    command += ["--stand-in"] * stand_in + [str(script)]
    if horovodrun:
        launcher = Path(sys.executable).with_name("horovodrun")
        command = [str(launcher), "--gloo", "-np", str(workers), sys.executable, *command]
    elif workers is not None:
        unjoined = ["--allow-unjoined"] if stand_in else []  # such scripts import npu_device
        command = [sys.executable, "-m", "lockstep", "run", *unjoined, "-n", str(workers), *command]
    else:
        command = [sys.executable, *command]
    run(command, working_directory)
    return [Trained.read(folder / f"rank-{rank}.npz") for rank in range(workers or 1)]


def migrate(source: Path, destination: Path, target: str = "lockstep", options: Sequence[str] = ()) -> str:
    """Migrate a script or a folder of them with the command line tool, which must then accept it; its output."""
    command = [sys.executable, "-m", "migrator", "--target", target, *options]
    output = run([*command, str(source), "-o", str(destination)], destination.parent)
    run([*command, "--check", str(destination)], destination.parent)
    return output


def run(command: Sequence[str], working_directory: Path) -> str:
    """The output of a command that succeeds. Raises RunFailedError if it does not, or not in time."""
    process = subprocess.Popen(
        command,
        cwd=working_directory,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=TIME_LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        output = end(process)
        raise RunFailedError(f"still running after {TIME_LIMIT_SECONDS} s: {describe(command, output)}") from None
    except BaseException:
        end(process)
        raise
    if process.returncode != 0:
        raise RunFailedError(f"ended with exit code {process.returncode}: {describe(command, output)}")
    return output


def end(process: subprocess.Popen[str]) -> str:
    """End a process with all that it started, and return what it had printed."""
    process.send_signal(signal.SIGTERM)  # a launcher takes its workers along, wherever they are
    try:
        output, _ = process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
    return output


def environment() -> dict[str, str]:
    """The environment of every run: nothing of a cluster that the tests themselves may be running in."""
    inherited = {
        name: value
        for name, value in _AT_START.items()
        if name not in ("TF_CONFIG", "TF_USE_LEGACY_KERAS") and not name.startswith("LOCKSTEP_")
    }
    return {
        **inherited,
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONHASHSEED": "0",
        "LOCKSTEP_SEED": str(SEED),
        "CUDA_VISIBLE_DEVICES": "",
        "TF_CPP_MIN_LOG_LEVEL": "2",
    }


def describe(command: Sequence[str], output: str) -> str:
    return "{}\n{}".format(" ".join(command), "\n".join(output.splitlines()[-60:]))
