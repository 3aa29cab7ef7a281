"""Training steps on several workers: lockstep against MultiWorkerMirroredStrategy, Horovod and no communication.

Horovod takes part where it is installed beside this Python: `make test-horovod` leaves one in .nox/horovod.

    python benchmarks/training.py                     # prints the tables
    python benchmarks/training.py --workers 2 --turns 1 --models large   # shorter
    python benchmarks/training.py --write             # also writes them to benchmarks/results/training.md

All contenders train the same model on the same data, in short turns one after the other, so that other load on the
machine hits all alike. Every number is the median over the turns; ratios compare medians of one run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "training.md"
WORKER = str(HERE / "training_worker.py")
MODELS = {
    "small": "about 1 M parameters",
    "large": "about 27 M parameters",
    "embedding": "13 M parameters, 12.8 M of them in an embedding",
}
NAMES = {
    "tensorflow": "lockstep, tensorflow",
    "unchecked": "the same, LOCKSTEP_CHECK=0",
    "mpi": "lockstep, mpi",
    "lockstep-horovod": "lockstep, horovod",
    "strategy": "MultiWorkerMirroredStrategy",
    "tuned-strategy": "the same, 4 MB packs",
    "horovod": "Horovod",
    "none": "no communication",
}


def contenders() -> list[str]:
    """Those that can be run here."""
    absent = set()
    if find_spec("mpi4py") is None or _beside("mpiexec") is None:
        absent.add("mpi")
    if find_spec("horovod") is None:
        absent |= {"horovod", "lockstep-horovod"}
    return [name for name in NAMES if name not in absent]


def table(workers: tuple[int, ...] = (2, 4), turns: int = 3, models: tuple[str, ...] = tuple(MODELS)) -> str:
    """Run everything (many minutes) and return the section of the results as markdown."""
    running = contenders()
    lines = [
        "## Training",
        "",
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, TensorFlow "
        f"{_tensorflow_version()}; workers on this machine, global batch 64, medians of {turns} turns. The ratio is to "
        "MultiWorkerMirroredStrategy with 4 MB packs.",
        "",
        "| workers | model | style | " + " | ".join(f"{NAMES[name]}, ms a step (ratio)" for name in running) + " |",
        "|---|---|---|" + "---|" * len(running),
    ]
    for count in workers:
        for model in models:
            for style in ("loop", "fit"):
                times = _times(running, count, model, style, turns)
                cells = [f"{times[name]:.1f} ({times[name] / times['tuned-strategy']:.2f})" for name in running]
                lines.append(f"| {count} | {model} ({MODELS[model]}) | {style} | " + " | ".join(cells) + " |")
    lines += ["", *_bandwidth(running), "", *_overlap(running, turns), ""]
    overhead = statistics.median(float(_run("alone", 1, "loop", "small")) for _ in range(turns))
    lines += [f"One process, the same loop with and without the lockstep calls, in alternation: {overhead:+.2%}.", ""]
    return "\n".join(lines)


def _times(running: list[str], workers: int, model: str, style: str, turns: int) -> dict[str, float]:
    rounds = [{name: float(_run(name, workers, style, model)) for name in running} for _ in range(turns)]
    return {name: statistics.median(one[name] for one in rounds) for name in running}


def _bandwidth(running: list[str]) -> list[str]:
    """How fast all-reduces of two workers are, beside a memcpy of as many bytes in each of them."""
    engines = [name for name in ("tensorflow", "mpi", "lockstep-horovod") if name in running]
    measured = {name: _run(f"bandwidth-{name}", 2, "loop", "small") for name in engines}
    lines = [
        "All-reduce of one float32 tensor in a function, 2 workers: MB/s of the tensor's bytes.",
        "",
        "| bytes | " + " | ".join(NAMES[name] for name in engines) + " | memcpy |",
        "|---|" + "---|" * (len(engines) + 1),
    ]
    for rows in zip(*measured.values()):
        size, copied = rows[0][0], rows[0][2]
        rates = [f"{size / reduced / 1e6:.0f}" for _, reduced, _ in rows]
        lines.append(f"| {size:,} | " + " | ".join(rates) + f" | {size / copied / 1e6:.0f} |")
    return lines


def _overlap(running: list[str], turns: int) -> list[str]:
    """What it gains that reductions begin while gradients are still being computed."""
    lines = []
    for engine in ("tensorflow", "mpi"):
        if engine in running:
            ratios = [float(_run(f"overlap-{engine}", 2, "loop", "large")) for _ in range(turns)]
            lines.append(
                f"{NAMES[engine]}, 2 workers, large model: a step in which no reduction begins before the last "
                f"gradient is there takes {statistics.median(ratios):.2f} times as long."
            )
    return lines


def _run(contender: str, workers: int, style: str, model: str) -> Any:
    """One turn; what the worker of rank 0 has measured."""
    with tempfile.NamedTemporaryFile(suffix=".json") as outcome:
        command = [*_launcher(contender, workers), WORKER, contender, style, model, outcome.name]
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        # Keras 2 for all: the strategy fails with the optimizers of Keras 3.
        if find_spec("tf_keras") is not None:  # else TensorFlow is old enough to bring it itself
            environment["TF_USE_LEGACY_KERAS"] = "1"
        environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
        if "strategy" in contender:
            # lockstep would join the cluster by itself; the strategy has to.
            environment["LOCKSTEP_BACKEND"] = "single"
        if contender == "unchecked":
            environment["LOCKSTEP_CHECK"] = "0"
        if contender == "horovod":  # `lockstep run` shares out the cores to the others
            threads = max(1, (os.cpu_count() or 1) // workers)
            environment.update(TF_NUM_INTRAOP_THREADS=str(threads), TF_NUM_INTEROP_THREADS=str(max(2, threads)))
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
        return json.loads(Path(outcome.name).read_text())


def _launcher(contender: str, workers: int) -> list[str]:
    if contender == "alone":
        return [sys.executable]
    if contender == "horovod":
        return [_beside("horovodrun") or "horovodrun", "--gloo", "-np", str(workers), sys.executable]
    backend = next((name for name in ("mpi", "horovod") if contender.endswith(name)), "tensorflow")
    return [sys.executable, "-m", "lockstep", "run", "--allow-unjoined", "-n", str(workers), "--backend", backend]


def _beside(command: str) -> str | None:
    return shutil.which(command, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))


def _tensorflow_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    for distribution in ("tensorflow", "tensorflow-cpu"):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--models", choices=list(MODELS), nargs="+", default=list(MODELS))
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--write", action="store_true", help=f"write the tables to {RESULTS.name} too")
    options = parser.parse_args()
    text = table(tuple(options.workers), options.turns, tuple(options.models))
    print(text)
    if options.write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(text + "\n")


if __name__ == "__main__":
    main()
