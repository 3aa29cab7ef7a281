"""Forward passes in the styles of real code: see forward_passes.txt, which holds nothing but their source."""

from __future__ import annotations

from pathlib import Path

from .templates import cases

CASES = cases("forward_passes", Path(__file__).with_name("forward_passes.txt"))
