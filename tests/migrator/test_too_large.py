"""Programs that are too large to be followed: refused, whatever is asked about them."""

from __future__ import annotations

import pytest

from migrator.analysis import run
from migrator.engine import migrate
from migrator.registry import all_rules
from tests.migrator.fixture_cases import cases

RULES = list(all_rules().values())
AT_ONCE = 100


@pytest.mark.parametrize("start", range(0, len(cases()), AT_ONCE))
def test_what_comes_to_no_end_is_no_defect(monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    monkeypatch.setattr(run, "_MOST_STEPS", 1)
    for case in cases()[start : start + AT_ONCE]:
        migrate(case.before.encode(), RULES)
