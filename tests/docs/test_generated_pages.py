"""The pages that are printed from the code say what the code says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from migrator.registry import all_rules

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = runpy.run_path(str(REPOSITORY / "docs" / "generate.py"))["PAGES"]


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_page_is_fresh(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == PAGES[path](), "stale: run `make docs`"


def test_every_rule_is_in_the_readme() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    rules = sorted(all_rules())
    assert rules
    missing = [rule for rule in rules if f"`{rule}`" not in readme]
    assert not missing
