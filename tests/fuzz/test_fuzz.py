"""The parts of the fuzzer; `make fuzz` runs it as long as one likes."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge import judged
from mutate import Mutator, corpus, pieces_of, seeds

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


def test_corpus_is_the_training_code_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "train.py").write_text("import keras\nm.fit(x)\n")
    (tmp_path / "plain.py").write_text("print(1)\n")
    (tmp_path / "bad.py").write_bytes(b"import keras\nm.fit(x)  # \xff\n")
    (tmp_path / "long.py").write_text("import keras\nm.fit(x)\n" + "x = 1\n" * 9000)
    assert corpus(tmp_path) == ["import keras\nm.fit(x)\n"]


def test_pieces_are_the_text_and_seeds_repeat() -> None:
    assert all("".join(pieces_of(text)) == text for text in SEEDS)
    assert Mutator(7, SEEDS).script() == Mutator(7, SEEDS).script()
    assert len({Mutator(seed, SEEDS[:5]).script() for seed in range(30)}) > 25
