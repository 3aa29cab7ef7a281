"""No case of the soundness tables is migrated into another training. All of them: `make test-long`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .groups import CASES

REPOSITORY = Path(__file__).resolve().parents[2]
SAMPLE = Path(__file__).with_name("sample.txt")


def test_every_case_has_a_name_of_its_own() -> None:
    titles = [case.title for case in CASES]
    assert len(set(titles)) == len(titles)


def test_a_sample_trains_the_same_or_is_refused(tmp_path: Path) -> None:
    expected = dict(line.split() for line in SAMPLE.read_text().splitlines())
    names = tmp_path / "names.txt"
    names.write_text("\n".join(expected))
    found = _judged(tmp_path, "--names-from", str(names))
    wrong = {name: found.get(name) for name in expected if found.get(name) not in (expected[name], "same")}
    assert not wrong


@pytest.mark.long
def test_all_train_the_same_or_are_refused(tmp_path: Path) -> None:
    found = _judged(tmp_path)
    assert len(found) == len(CASES)
    assert not {name: verdict for name, verdict in found.items() if verdict in ("WRONG", "INVALID")}


def _judged(folder: Path, *options: str) -> dict[str, str]:
    """The verdicts by the names of the cases; in a process of its own, which forks."""
    verdicts = folder / "verdicts.json"
    command = [sys.executable, "-m", "tests.soundness.run", "--json", str(verdicts), *options]
    subprocess.run(command, cwd=REPOSITORY, check=False, stdin=subprocess.DEVNULL)
    return {one["name"]: one["verdict"] for one in json.loads(verdicts.read_text())}
