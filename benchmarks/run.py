"""Measures everything anew and writes benchmarks/RESULTS.md.

    python benchmarks/run.py

Takes some minutes on a quiet machine; the machine is written down with the numbers.
"""

from __future__ import annotations

import datetime
import os
import platform
from pathlib import Path

import migrating
import training

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "RESULTS.md"


def main() -> None:
    parts = [
        "# Results",
        "",
        f"Written by `make benchmarks` on {datetime.date.today()}: {os.cpu_count()} cores, {_processor()}, "
        f"Python {platform.python_version()}. Ratios are measured side by side in one run; absolute times are those of "
        "this machine.",
        "",
        "## Migrating",
        "",
        migrating.table([HERE.parent / "fixtures"]),
        "",
        training.table().rstrip(),
    ]
    RESULTS.write_text("\n".join(parts) + "\n", encoding="utf-8")
    print(RESULTS.read_text(encoding="utf-8"))


def _processor() -> str:
    """The name of the processor where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
