from __future__ import annotations

from pathlib import Path

import pytest
from command import TRAINING


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAINING)
    return path
