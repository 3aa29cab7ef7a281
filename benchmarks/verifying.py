"""How long `migrate verify` takes for each whole script of fixtures/scripts, one after the other.

    python benchmarks/verifying.py                    # prints the table
    python benchmarks/verifying.py digits_dcgan       # of these only
    python benchmarks/verifying.py --write            # also writes it to benchmarks/results/verifying.md

Other load on the machine makes the seconds more, but hardly those of the processor.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE.parent / "fixtures" / "scripts"
RESULTS = HERE / "results" / "verifying.md"
MOST_SECONDS = 120


@dataclass(frozen=True)
class Row:
    """What one script took. processor: seconds of all processes together."""

    script: str
    verdict: str
    seconds: float
    processor: float
    updates: int
    compared: int
    is_wide: bool


def measured(script: Path) -> Row:
    """Verify the script on two workers, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / script.name).write_bytes(script.read_bytes())
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        command = [sys.executable, "-m", "migrator", "verify", script.name, "--output-format", "json"]
        before, start = _processor_seconds(), time.monotonic()
        ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        seconds, processor = time.monotonic() - start, _processor_seconds() - before
    if not ran.stdout:
        return Row(script.stem, f"error: {ran.stderr[-200:]}", seconds, processor, 0, 0, False)
    proof = json.loads(ran.stdout)
    is_wide = any(run["float64"] is not None for run in proof["runs"])
    verdict = proof["verdict"]["kind"]
    return Row(script.stem, verdict, seconds, processor, proof["steps"], proof["compared_steps"], is_wide)


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The page, in Markdown, slowest first."""
    slow = [row.script for row in rows if row.seconds > MOST_SECONDS]
    yield "# How long a proof takes"
    yield ""
    yield (
        f"Written by `python benchmarks/verifying.py --write`: {os.cpu_count()} cores, {platform.machine()}, "
        f"Python {platform.python_version()}; `migrate verify` with its defaults, so 2 workers and 20 steps, one "
        f"script after the other; {os.getloadavg()[2]:.1f} processes at work on the machine, on average of 15 minutes."
    )
    yield ""
    yield f"Longer than {MOST_SECONDS} seconds: {', '.join(slow) or 'none'}."
    yield ""
    yield "| script | verdict | seconds | seconds of the processor | steps | compared by number | repeated in float64 |"
    yield "|---|---|---|---|---|---|---|"
    for row in sorted(rows, key=lambda row: -row.seconds):
        again = "yes" if row.is_wide else ""
        yield (
            f"| {row.script} | {row.verdict} | {row.seconds:.0f} | {row.processor:.0f} | {row.updates} | "
            f"{row.compared} | {again} |"
        )


def rows_of(scripts: Iterable[Path]) -> Iterator[Row]:
    for script in scripts:
        row = measured(script)
        print(f"{row.script}: {row.verdict}, {row.seconds:.0f} s, processor {row.processor:.0f} s", flush=True)
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", help="names of scripts, without .py")
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/results")
    arguments = parser.parse_args()
    scripts = [path for path in sorted(SCRIPTS.glob("*.py")) if not arguments.scripts or path.stem in arguments.scripts]
    text = "\n".join(table(list(rows_of(scripts)))) + "\n"
    print(text)
    if arguments.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
