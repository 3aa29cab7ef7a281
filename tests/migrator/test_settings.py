"""The settings of a project: where they are found, what they change, and how mistakes in them are told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from command import ERROR, MIGRATED, NOTHING_LEFT, SOMETHING_LEFT, TRAINING, migrate

from migrator.command.settings import BadSetting, settings_for
from migrator.verify.proof import Unverifiable


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "src" / "jobs").mkdir(parents=True)
    (tmp_path / "src" / "jobs" / "train.py").write_text(TRAINING)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configure(project: Path, text: str, name: str = "pyproject.toml") -> None:
    (project / name).write_text(f"[tool.migrate]\n{text}\n")


def rules_of(*arguments: object) -> set[str]:
    return {line.split(": ")[1] for line in migrate("--check", *arguments).stdout.splitlines()}


# -- found -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["src", "src/jobs", "src/jobs/train.py", "."])
def test_settings_are_found_upward(project: Path, path: str) -> None:
    configure(project, 'select = ["broadcast-weights"]')
    assert rules_of(path) == {"broadcast-weights"}


def test_the_nearest_file_with_settings_counts(project: Path) -> None:
    configure(project, 'select = ["broadcast-weights"]')
    (project / "src" / "pyproject.toml").write_text("[tool.ruff]\nline-length = 80\n")
    assert rules_of("src/jobs") == {"broadcast-weights"}
    configure(project / "src", 'select = ["wrap-optimizer"]')
    assert rules_of("src/jobs") == {"wrap-optimizer"}
    assert rules_of(".") == {"broadcast-weights"}


def test_standard_input_has_the_settings_of_this_folder(project: Path) -> None:
    configure(project, 'select = ["broadcast-weights"]')
    result = migrate("--check", "-", stdin=TRAINING)
    assert {line.split(": ")[1] for line in result.stdout.splitlines()} == {"broadcast-weights"}


def test_isolated_heeds_no_file(project: Path) -> None:
    configure(project, 'select = ["broadcast-weights"]')
    assert len(rules_of("--isolated", "src")) > 1
    assert migrate("--isolated", "--config", "pyproject.toml", "src").exit_code == ERROR


@pytest.mark.parametrize("name", ["other/pyproject.toml", "migrate.toml"])
def test_a_named_file_counts_instead(project: Path, name: str) -> None:
    configure(project, 'select = ["broadcast-weights"]')
    (project / "other").mkdir()
    configure(project, 'select = ["wrap-optimizer"]', name)
    assert rules_of("--config", name, "src") == {"wrap-optimizer"}


def test_a_file_of_its_own_needs_no_table(project: Path) -> None:
    (project / "migrate.toml").write_text('select = ["wrap-optimizer"]\n')
    assert rules_of("--config", "migrate.toml", "src") == {"wrap-optimizer"}


def test_single_settings_count_more_than_the_file(project: Path) -> None:
    configure(project, 'select = ["broadcast-weights"]\nline-length = 40')
    assert rules_of("--config", 'select = ["wrap-optimizer"]', "src") == {"wrap-optimizer"}
    told = migrate("--config", "target=npu", "--show-settings", "src").stdout
    assert 'target = "npu"' in told
    assert "line-length = 40" in told


def test_the_command_line_counts_most(project: Path) -> None:
    configure(project, 'select = ["broadcast-weights"]\nignore = ["wrap-optimizer"]')
    assert rules_of("--select", "wrap-optimizer", "src") == {"wrap-optimizer"}
    configure(project, 'ignore = ["wrap-optimizer"]')
    assert rules_of("--ignore", "shard-arrays", "src") == {"broadcast-weights", "synchronise-callbacks"}


# -- what they change ------------------------------------------------------------------------------------------------


def test_target_is_a_setting(project: Path) -> None:
    configure(project, 'target = "npu"')
    assert "npu_device" in migrate("--dry-run", "src").stdout
    assert "npu_device" not in migrate("--dry-run", "--target", "lockstep", "src").stdout


def test_backend_is_a_setting(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(project, 'backend = "mpi"')
    assert "next: lockstep run --backend mpi -n 2 src/" in migrate("src").stderr
    wanted = []

    def prove(settings: Any, progress: object) -> None:
        wanted.append(settings.backend)
        raise Unverifiable("no more is needed here")

    monkeypatch.setattr("migrator.verify.proof.prove", prove)
    script = next((project / "src").rglob("*.py"))
    for arguments in ([], ["--backend", "horovod"]):
        assert migrate("verify", *arguments, script).exit_code == ERROR
    assert wanted == ["mpi", "horovod"]


def test_line_length_is_a_setting(project: Path) -> None:
    script = project / "src" / "jobs" / "train.py"
    configure(project, "line-length = 130")
    migrate("--config", "line-length=130", script)
    start, _, arguments = MIGRATED.partition("model.fit(\n")
    one_line = " ".join(line.strip() for line in arguments[: -len(",\n)\n")].splitlines())
    wide = f"{start}model.fit({one_line})\n"
    assert script.read_text() == wide != MIGRATED
    script.write_text(TRAINING)
    assert migrate("--line-length", "60", script).exit_code == NOTHING_LEFT
    calls = script.read_text().partition("model.fit")[2]
    assert max(map(len, calls.splitlines())) <= 60
    assert migrate("--check", script).exit_code == NOTHING_LEFT


@pytest.mark.parametrize("pattern", ["src/jobs", "jobs/", "train.py", "/src/**/train.py"])
def test_patterns_are_left_out_of_folders(project: Path, pattern: str) -> None:
    (project / "src" / "other.py").write_text(TRAINING)
    configure(project, f'extend-exclude = ["{pattern}"]')
    assert migrate("--show-files", ".").stdout.split() == [str(Path("src/other.py"))]
    assert migrate("--show-files", "src").stdout.split() == [str(Path("src/other.py"))]
    assert migrate("--show-files", "src/jobs/train.py").stdout.split() == [str(Path("src/jobs/train.py"))]


def test_exclude_takes_the_place_of_the_build_folders(project: Path) -> None:
    (project / "build").mkdir()
    (project / "build" / "made.py").write_text(TRAINING)
    assert migrate("--show-files", ".").stdout.split() == [str(Path("src/jobs/train.py"))]
    assert migrate("--show-files", "--extend-exclude", "src", ".").exit_code == ERROR
    assert migrate("--show-files", "--exclude", "src", ".").stdout.split() == [str(Path("build/made.py"))]


def test_a_named_folder_counts_although_it_is_excluded(project: Path) -> None:
    (project / "build" / "sub" / "build").mkdir(parents=True)
    (project / "build" / "sub" / "made.py").write_text(TRAINING)
    (project / "build" / "sub" / "build" / "twice.py").write_text(TRAINING)
    assert migrate("--show-files", "build").stdout.split() == [str(Path("build/sub/made.py"))]
    assert migrate("--show-files", project / "build").stdout.split() == [str(project / "build" / "sub" / "made.py")]


def test_gitignore_is_heeded_unless_it_is_not_to_be(project: Path) -> None:
    (project / ".gitignore").write_text("jobs/\n")
    (project / "a.py").write_text(TRAINING)
    assert migrate("--show-files", ".").stdout.split() == ["a.py"]
    both = ["a.py", str(Path("src/jobs/train.py"))]
    assert migrate("--show-files", "--no-respect-gitignore", ".").stdout.split() == both
    configure(project, "respect-gitignore = false")
    assert migrate("--show-files", ".").stdout.split() == both
    assert migrate("--show-files", "--respect-gitignore", ".").stdout.split() == ["a.py"]


def test_show_files_writes_nothing_and_tells_what_is_missing(project: Path) -> None:
    result = migrate("--show-files", "src", "missing.py")
    assert (result.exit_code, result.stdout.split()) == (ERROR, [str(Path("src/jobs/train.py"))])
    assert "missing.py: no such file or folder" in result.stderr
    assert (project / "src" / "jobs" / "train.py").read_text() == TRAINING


def test_show_settings_can_be_read_back(project: Path) -> None:
    configure(project, "extend-exclude = ['a\"b', 'c\\d']\nline-length = 77")
    told = migrate("--show-settings", "src")
    assert told.exit_code == 0
    assert told.stdout.startswith(f"# from {project / 'pyproject.toml'}\n")
    (project / "copy.toml").write_text(told.stdout)
    again = migrate("--show-settings", "--config", "copy.toml", "src").stdout
    assert again.splitlines()[1:] == told.stdout.splitlines()[1:]
    assert "line-length = 77" in again
    assert "defaults" in migrate("--show-settings", "--isolated").stdout


# -- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('selct = ["broadcast-weights"]', "there is no setting 'selct': did you mean 'select'?"),
        ("zzz = 1", "there is no setting 'zzz': the settings are target, select"),
        ("line_length = 80", "did you mean 'line-length'?"),
        ('line-length = "80"', "'line-length' takes a number from 20 to 320"),
        ("line-length = true", "'line-length' takes a number"),
        ("line-length = 5", "'line-length' takes a number"),
        ('select = "broadcast-weights"', "'select' takes a list of rules"),
        ("select = [1]", "'select' takes a list of rules"),
        ('select = ["broadcast"]', "there is no rule 'broadcast'"),
        ('target = "gpu"', "there is no target 'gpu'"),
        ('respect-gitignore = "no"', "'respect-gitignore' takes true or false"),
        ('backend = "nccl"', "'backend' takes tensorflow or mpi or horovod"),
        ("select = [", "this is not TOML"),
    ],
)
def test_mistake_is_told_with_its_place(project: Path, text: str, message: str) -> None:
    configure(project, text)
    result = migrate("src")
    assert result.exit_code == ERROR
    assert message in result.stderr
    if "no rule" not in message and "no target" not in message:
        assert str(project / "pyproject.toml") in result.stderr
    assert (project / "src" / "jobs" / "train.py").read_text() == TRAINING


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["nothing"], "neither a file nor key=value"),
        (["missing.toml"], "cannot be read"),
        (["selct=['a']"], "'selct=['a']': there is no setting"),
        (["line-length=wide"], "'line-length' takes a number"),
        (["a.toml", "b.toml"], "one file of settings at a time"),
    ],
)
def test_mistake_on_the_command_line_is_told(project: Path, given: list[str], message: str) -> None:
    result = migrate(*[part for one in given for part in ("--config", one)], "src")
    assert result.exit_code == ERROR
    assert message in result.stderr


def test_table_of_another_kind_is_told(project: Path) -> None:
    (project / "pyproject.toml").write_text("[tool]\nmigrate = 3\n")
    with pytest.raises(BadSetting, match="is no table"):
        settings_for([project])


def test_paths_without_anything_in_common_have_defaults(project: Path) -> None:
    assert settings_for([Path(os.sep) / "nowhere", project]).source is None
    assert migrate("--check", "src").exit_code == SOMETHING_LEFT
