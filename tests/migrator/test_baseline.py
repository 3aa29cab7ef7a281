"""The baseline: what is accepted passes, what is new fails, what is gone is told, wherever the lines are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command import ERROR, MIGRATED, NOTHING_LEFT, REFUSED, SOMETHING_LEFT, TRAINING, migrate

BASELINE = "migrate-baseline.json"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files, all of which is accepted."""
    (tmp_path / "train.py").write_text(TRAINING)
    (tmp_path / "refused.py").write_text(REFUSED)
    monkeypatch.chdir(tmp_path)
    result = migrate("--write-baseline", ".")
    assert result.exit_code == NOTHING_LEFT
    assert result.stderr == f"6 findings are accepted in {tmp_path / BASELINE}\n"
    return tmp_path


def check(*arguments: object) -> Any:
    return migrate("--check", "--baseline", BASELINE, *arguments)


def test_writing_it_leaves_the_scripts_alone(project: Path) -> None:
    assert (project / "train.py").read_text() == TRAINING
    document = json.loads((project / BASELINE).read_text())
    assert {"path": "refused.py", "rule": "wrap-optimizer", "scope": "", "count": 1} in document["findings"]
    assert {"path": "train.py", "rule": "shard-arrays", "scope": "", "count": 2} in document["findings"]


@pytest.mark.parametrize("form", ["concise", "full", "grouped", "json-lines", "github", "gitlab", "junit", "rdjson"])
def test_what_is_accepted_passes_and_is_not_told(project: Path, form: str) -> None:
    result = check(".", "--output-format", form)
    assert result.exit_code == NOTHING_LEFT
    assert "refused: " not in result.stdout
    if form == "json-lines":
        assert all(json.loads(line)["accepted"] for line in result.stdout.splitlines())
    else:
        assert "wrap-optimizer" not in result.stdout


def test_sarif_has_it_as_suppressed(project: Path) -> None:
    (project / "new.py").write_text(REFUSED)
    results = json.loads(check(".", "--output-format", "sarif").stdout)["runs"][0]["results"]
    suppressed = {
        r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in results if r["suppressions"]
    }
    assert suppressed == {"train.py", "refused.py"}
    assert len([r for r in results if not r["suppressions"]]) == 1


def test_lines_may_move(project: Path) -> None:
    for name in ("train.py", "refused.py"):
        script = project / name
        script.write_text("import os\n\n\n" + script.read_text())
    assert check(".").exit_code == NOTHING_LEFT


def test_what_is_new_fails_and_is_told_alone(project: Path) -> None:
    with (project / "train.py").open("a") as script:
        script.write("model.fit(x, y, batch_size=32)\n")
    result = check(".")
    assert result.exit_code == SOMETHING_LEFT
    assert {line.split(": ")[0] for line in result.stdout.splitlines()} == {"train.py:8:1", "train.py:8:11"}
    (project / "new.py").write_text(REFUSED)
    assert "new.py:6:1: wrap-optimizer: refused" in check(".").stdout


def test_same_finding_in_another_scope_is_new(project: Path) -> None:
    (project / "refused.py").write_text(
        REFUSED.replace("model.compile", "def build():\n    model.compile").replace("model.fit", "    model.fit")
    )
    result = check(".")
    assert result.exit_code == SOMETHING_LEFT
    assert "gone: refused.py: wrap-optimizer\n" in result.stderr


def test_what_is_gone_is_told_until_it_is_pruned(project: Path) -> None:
    (project / "train.py").write_text(MIGRATED)
    result = check(".")
    assert result.exit_code == NOTHING_LEFT
    assert "gone: train.py: shard-arrays (2 times)\n" in result.stderr
    assert "--prune-baseline" in result.stderr
    assert "gone" not in check(".", "--prune-baseline").stderr
    assert [f["path"] for f in json.loads((project / BASELINE).read_text())["findings"]] == ["refused.py"]
    assert "gone" not in check(".").stderr
    (project / "train.py").write_text(TRAINING)
    assert check(".").exit_code == SOMETHING_LEFT


def test_files_that_were_not_read_are_not_gone_but_deleted_ones_are(project: Path) -> None:
    assert "gone" not in check("train.py").stderr
    (project / "refused.py").unlink()
    assert "gone: refused.py: wrap-optimizer\n" in check("train.py").stderr


def test_file_that_cannot_be_analysed_is_not_gone(project: Path) -> None:
    (project / "refused.py").write_text(REFUSED + "def f(:\n")
    result = check(".")
    assert result.exit_code == ERROR
    assert "gone" not in result.stderr


def test_migrating_goes_on_as_without_it(project: Path) -> None:
    result = migrate("--baseline", BASELINE, ".")
    assert result.exit_code == NOTHING_LEFT
    assert (project / "train.py").read_text() == MIGRATED
    assert "gone: train.py: wrap-optimizer\n" in result.stderr


def test_baseline_of_the_settings_is_found_beside_them(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "pyproject.toml").write_text(f'[tool.migrate]\nbaseline = "sub/{BASELINE}"\n')
    assert migrate("--write-baseline", ".").exit_code == NOTHING_LEFT
    assert (project / "sub" / BASELINE).exists()
    monkeypatch.chdir(project / "sub")
    assert migrate("--check", "../train.py", "../refused.py").exit_code == NOTHING_LEFT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        ("{", "no baseline of this tool"),
        ("[]", "no baseline of this tool"),
        ('{"format_version": 99, "findings": []}', "another version"),
        ('{"format_version": 1, "findings": [{"path": "a"}]}', "no baseline of this tool"),
        ('{"format_version": 1, "findings": [{"path": "a", "rule": "b", "scope": "", "count": -1}]}', "no baseline"),
    ],
)
def test_bad_baseline_is_an_error(project: Path, text: str | None, message: str) -> None:
    (project / BASELINE).unlink()
    if text is not None:
        (project / BASELINE).write_text(text)
    result = check(".")
    assert result.exit_code == ERROR
    assert message in result.stderr


def test_pruning_needs_a_baseline(project: Path) -> None:
    assert migrate("--check", "--prune-baseline", ".").exit_code == ERROR
    assert migrate("--write-baseline", "--dry-run", ".").exit_code == ERROR
