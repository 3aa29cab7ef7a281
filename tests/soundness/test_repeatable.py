"""What comes out of a migration does not hang on where objects lie in memory, or on the hashes of texts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from .groups import CASES


def test_four_processes_write_the_same(tmp_path: Path) -> None:
    # Two places are as good for its reduction, and what is asked of them stood in a set.
    (case,) = (case for case in CASES if case.name == "ratio_to_first_loss_in_a_graph")
    found = set()
    for process in range(4):
        file = tmp_path / f"{process}.py"
        file.write_text(case.script)
        command = [sys.executable, "-m", "migrator", "--isolated", str(file)]
        subprocess.run(command, check=True, timeout=120, capture_output=True)
        found.add(file.read_text())
    assert len(found) == 1
