"""The parts of the fuzzer; `make fuzz` runs it as long as one likes."""

from __future__ import annotations

import pytest
from judge import judged
from mutate import Mutator, pieces_of, seeds

SEEDS = seeds()[::8]


def test_mutated_scripts_have_an_outcome() -> None:
    mutator = Mutator(1, SEEDS)
    verdicts = [judged(mutator.script()) for _ in range(8)]
    assert [verdict.problem for verdict in verdicts] == [""] * 8


def test_what_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> object:
        raise KeyError("gone")

    monkeypatch.setattr("judge.migrate_program", broken)
    assert judged(b"x = 1\n").problem.startswith("KeyError at test_fuzz.py:")


def test_pieces_are_the_text_and_seeds_repeat() -> None:
    assert all("".join(pieces_of(text)) == text for text in SEEDS)
    assert Mutator(7, SEEDS).script() == Mutator(7, SEEDS).script()
    assert len({Mutator(seed, SEEDS[:5]).script() for seed in range(30)}) > 25
