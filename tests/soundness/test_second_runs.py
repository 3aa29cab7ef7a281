"""The tool accepts what it has written of the scripts of the soundness tables. All of them: `make test-long`."""

from __future__ import annotations

import pytest

from migrator.engine import migrate
from migrator.registry import choose

from .case import Case
from .groups import CASES


def test_a_second_run_of_a_sample_changes_nothing() -> None:
    assert not [case.title for case in CASES[::30] if not _is_accepted(case)]


@pytest.mark.long
def test_second_runs_change_nothing() -> None:
    assert not [case.title for case in CASES if not _is_accepted(case)]


def _is_accepted(case: Case) -> bool:
    first = migrate(case.script.encode(), choose())
    if first.refusals or not first.is_changed:
        return True
    second = migrate(first.data, choose())
    return second.data == first.data and not second.refusals
