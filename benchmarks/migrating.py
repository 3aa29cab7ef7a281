"""How fast `migrate` is: start-up, and lines per CPU-second beside libcst's bare parse and print.

    python benchmarks/migrating.py [FOLDER...]

Without folders it reads the project's own training scripts. All figures are CPU time of this process or of the
started command, taken in turns in one run; what counts is their ratio.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

import libcst as cst  # noqa: E402

from migrator.engine import migrate  # noqa: E402
from migrator.registry import all_rules  # noqa: E402
from migrator.text.source import is_about_training  # noqa: E402

ROUNDS = 5


def table(folders: list[Path]) -> str:
    """The results as a markdown table."""
    sources = [path.read_bytes() for folder in folders for path in sorted(folder.rglob("*.py"))]
    training = [data for data in sources if is_about_training(data)]
    lines = sum(data.count(b"\n") for data in training)
    rules = list(all_rules().values())
    bare, whole = _in_turns(
        lambda: [cst.parse_module(data).code for data in training],
        lambda: [migrate(data, rules) for data in training],
    )
    rows = [
        ("`migrate --help`, CPU-seconds (at most 0.2)", f"{_start_up('--help'):.2f}"),
        ("scripts that train", f"{len(training)} files, {lines / 1000:.1f} KLOC"),
        ("libcst parse + print, KLOC per CPU-second", f"{lines / 1000 / bare:.1f}"),
        ("migrate, KLOC per CPU-second (at least 6.8 where libcst does 15)", f"{lines / 1000 / whole:.1f}"),
        ("migrate against libcst parse + print (at most 2.2)", f"{whole / bare:.2f}x the CPU time"),
    ]
    return "\n".join(["| what | measured |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])


def _in_turns(*works: Callable[[], object]) -> list[float]:
    """CPU-seconds of each work, the median of rounds that alternate between them."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(ROUNDS):
        for work, taken in zip(works, times):
            start = time.process_time()
            work()
            taken.append(time.process_time() - start)
    return [median(taken) for taken in times]


def _start_up(option: str) -> float:
    """CPU-seconds, user and system, of the command in a process of its own."""
    taken = []
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "migrator", option]
        subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return median(taken)


if __name__ == "__main__":
    print(table([Path(name) for name in sys.argv[1:]] or [REPOSITORY / "fixtures"]))
