"""Losses in the styles of real code: see losses.txt, which holds nothing but their source."""

from __future__ import annotations

from pathlib import Path

from .templates import cases

CASES = cases("losses", Path(__file__).with_name("losses.txt"))
