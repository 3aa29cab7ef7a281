"""The start of a recorded process."""

from __future__ import annotations

import sys
from pathlib import Path

from migrator.verify.plan import Plan
from migrator.verify.recorder.running import run

if __name__ == "__main__":
    run(Plan.read(Path(sys.argv[1])))
