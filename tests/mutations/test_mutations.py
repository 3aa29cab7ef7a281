"""A small sample of the table of `python -m tests.mutations.run`, and what can be told without running anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.verify.runs import runner
from tests.mutations.judging import SECONDS, Original, checked, scripts
from tests.mutations.mutations import Mutation, mutations
from tests.mutations.run import judged

SAMPLE = "wine_early_stop"
# Those of the sample that verify finds, and what it points to is right.
FOUND = ["M1", "M13", "M18"]


def named(name: str) -> Mutation:
    return next(one for one in mutations() if one.name == name)


@pytest.fixture(scope="module")
def originals() -> list[Original]:
    return [Original(name, path.read_text()) for name, path in scripts().items()]


def test_there_are_twenty_ways_of_being_wrong() -> None:
    assert [one.name for one in mutations()] == [f"M{number}" for number in range(1, 21)]


def test_each_mistake_can_be_made_and_most_in_several_scripts(originals: list[Original]) -> None:
    migrated = [original.migrated for original in originals]
    made = {one.name: sum(one.change(text) is not None for text in migrated) for one in mutations()}
    assert min(made.values()) >= 1
    assert sum(count >= 3 for count in made.values()) >= 16


def test_nothing_is_reported_of_scripts_as_they_are_migrated(originals: list[Original]) -> None:
    assert {original.name: said.text for original in originals if (said := checked(original.migrated)).is_found} == {}


@pytest.mark.long
def test_verify_finds_a_sample_and_points_at_it(tmp_path: Path) -> None:
    original = Original(SAMPLE, scripts()[SAMPLE].read_text())
    with runner(tmp_path, SECONDS, lambda _: None, is_warm=True) as runs:
        for name in FOUND:
            row = judged(original, named(name), tmp_path / "ports" / name, runs)
            assert row is not None
            assert (name, row.by_verify, row.verify_points) == (name, True, "rule"), row.verify_says
