"""What `--check` remembers of unchanged files: told again as it was, and only while everything is as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command import MIGRATED, NOTHING_LEFT, PLAIN, PROJECT, REFUSED, SOMETHING_LEFT, TRAINING, migrate

from migrator.command import cache, run

FORMS = ("concise", "full", "grouped", "json", "github", "gitlab", "sarif", "junit", "rdjson")


@pytest.fixture
def entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "entries"
    monkeypatch.setenv("MIGRATE_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def project(tmp_path: Path, entries: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Files of each kind below a folder, of which one imports another that lies above it."""
    folder = tmp_path / "project"
    (folder / "sub").mkdir(parents=True)
    (folder / "train.py").write_text(TRAINING)
    (folder / "crowded.py").write_text(TRAINING.replace("model.fit", "a = 1; b = 2; model.fit").replace("\n", "\r\n"))
    (folder / "latin.py").write_bytes(("# coding: latin-1\n# \xe4\n" + REFUSED).encode("latin-1"))
    (folder / "done.py").write_text(MIGRATED)
    (folder / "plain.py").write_text(PLAIN)
    (folder / "sub" / "test_it.py").write_text("import unittest\n" + TRAINING)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with each analysis."""
    found: list[int] = []
    original = run.Run.migrate

    def counted(self: run.Run, paths: Any) -> Any:
        found.append(1)
        return original(self, paths)

    monkeypatch.setattr(run.Run, "migrate", counted)
    return found


def check(*arguments: object, code: int = SOMETHING_LEFT) -> str:
    result = migrate("--check", *(arguments or (".",)))
    assert result.exit_code == code, result.stderr
    return f"{result.stdout}\n{result.stderr}"


@pytest.mark.usefixtures("project")
def test_the_second_look_tells_the_same_in_every_form(analysed: list[int], tmp_path: Path) -> None:
    expected = {form: check(".", "--no-cache", "--output-format", form) for form in FORMS}
    page = tmp_path / "page.html"
    check(".", "--no-cache", "--report", page)
    expected_page = page.read_text()
    check()
    analysed.clear()
    assert {form: check(".", "--output-format", form) for form in FORMS} == expected
    check(".", "--report", page)
    assert page.read_text() == expected_page
    assert not analysed


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: (folder / "train.py").write_text(MIGRATED),
        lambda folder: (folder / "plain.py").write_text(PLAIN + "\n"),
        lambda folder: (folder / "new.py").write_text(PLAIN),
        lambda folder: (folder / "plain.py").unlink(),
        lambda folder: (folder / "plain.py").rename(folder / "other.py"),
        lambda folder: (folder / ".gitignore").write_text("plain.py\n"),
        lambda folder: (folder / "pyproject.toml").write_text('[tool.migrate]\nignore = ["shard-arrays"]\n'),
    ],
)
def test_a_change_in_the_folder_is_seen(project: Path, analysed: list[int], change: Any) -> None:
    check()
    change(project)
    analysed.clear()
    again = check()
    assert analysed
    assert again == check(".", "--no-cache")


def test_what_lies_around_the_files_is_seen(project: Path, analysed: list[int]) -> None:
    """A file above the folder that a file in it imports: it comes, changes and goes; so does a package mark."""
    package = project / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "job.py").write_text("from helper import build\n" + TRAINING)
    told = [check("package")]
    helper = project / "helper.py"
    for text in ("from tensorflow import keras\ndef build(): pass\n", TRAINING + "def build(): pass\n"):
        analysed.clear()
        helper.write_text(text)
        told.append(check("package"))
        assert analysed
        assert told[-1] == check("package", "--no-cache")
    assert "which takes part in the training and is not among the files given" in told[-1]
    helper.unlink()
    analysed.clear()
    assert check("package") == told[0]
    assert analysed


@pytest.mark.parametrize("name", ["lockstep.py", "lockstep/__init__.py"])
def test_a_file_with_the_name_of_the_runtime_is_seen(project: Path, name: str) -> None:
    check("train.py")
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text("")
    assert "has the name of the runtime" in check("train.py")


@pytest.mark.parametrize(
    "options", [["--target", "npu"], ["--ignore", "shard-arrays"], ["--select", "write-once"], ["--line-length", "60"]]
)
@pytest.mark.usefixtures("project")
def test_options_are_seen(analysed: list[int], options: list[str]) -> None:
    check()
    analysed.clear()
    migrate("--check", ".", *options)
    assert analysed


@pytest.mark.usefixtures("project")
def test_another_version_of_the_tool_is_seen(analysed: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    check()
    monkeypatch.setattr(cache, "_tool", lambda: ["another"])
    analysed.clear()
    check()
    assert analysed


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b"train", b"brain", 1),
        lambda data: b"\xff" * 100,
        lambda data: sealed({"files": 1}),
        lambda data: sealed([]),
        lambda data: sealed({**json.loads(data.partition(b"\n")[2]), "result": [{"name": "train.py"}]}),
        lambda data: sealed({**json.loads(data.partition(b"\n")[2]), "around": 3}),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_damaged_entry_counts_as_none(entries: Path, analysed: list[int], damage: Any) -> None:
    expected = check()
    (entry,) = entries.glob("*.json")
    entry.write_bytes(damage(entry.read_bytes()))
    analysed.clear()
    assert check() == expected
    assert analysed
    analysed.clear()
    assert check() == expected
    assert not analysed


def sealed(content: Any) -> bytes:
    body = json.dumps(content).encode()
    return cache._digest(body).encode() + b"\n" + body


def test_what_failed_is_looked_at_again(project: Path, analysed: list[int]) -> None:
    (project / "broken.py").write_text("import tensorflow; model.fit()\ndef f(:\n")
    check(code=2)
    analysed.clear()
    check(code=2)
    assert analysed


@pytest.mark.usefixtures("project")
def test_the_baseline_is_heeded_anew(analysed: list[int]) -> None:
    check()
    migrate("--write-baseline", ".")
    analysed.clear()
    check(".", "--baseline", "migrate-baseline.json", code=NOTHING_LEFT)
    check()
    assert not analysed


def test_only_looks_are_remembered(project: Path, entries: Path) -> None:
    migrate("--dry-run", ".")
    migrate("--check", "-", stdin=TRAINING)
    check(".", "--no-cache")
    assert not entries.exists()
    migrate(".")
    assert not entries.exists()


@pytest.mark.usefixtures("project")
def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check(".", "--cache-dir", tmp_path / "file" / "entries")


@pytest.mark.usefixtures("project")
def test_old_entries_go(entries: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MOST_ENTRIES", 2)
    for name in ("train.py", "done.py", "plain.py"):
        migrate("--check", name)
    assert len(list(entries.iterdir())) == 2


@pytest.mark.usefixtures("project")
def test_runs_at_once_do_not_disturb_each_other(entries: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", "migrator", "--check", "."]
    expected = check(".", "--no-cache").partition("\n\n")[0]
    for _ in range(2):
        several = [subprocess.Popen(command, env=environment, stdout=-1, stderr=-1, text=True) for _ in range(4)]
        told = [process.communicate(timeout=120)[0] for process in several]
        assert {one.strip() for one in told} == {expected.strip()}
    assert [path.suffix for path in entries.iterdir()] == [".json"]


def test_a_thousand_unchanged_files_need_no_parser_and_little_time(tmp_path: Path, entries: Path) -> None:
    for number in range(1000):
        folder = tmp_path / "many" / f"package{number // 25}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"module{number}.py").write_text(
            MIGRATED if number % 20 == 0 else "import os\nimport settings\n" * 20
        )
    program = (
        "import os, sys\nfrom migrator.command.cli import main\n"
        f"try:\n    main(['--check', {str(tmp_path / 'many')!r}])\n"
        "finally:\n    print('libcst' in sys.modules, sum(os.times()[:2]))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-c", program]
    for _ in range(2):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    has_parser, seconds = done.stdout.split()
    assert has_parser == "False"
    assert float(seconds) < 1.5  # 0.3 on a quiet machine
