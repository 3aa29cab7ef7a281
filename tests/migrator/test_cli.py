"""The command `migrate` as its user sees it: what it prints, what it writes, and its three exit codes."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from command import (
    ERROR,
    HALF_REFUSED,
    MIGRATED,
    NOTHING_LEFT,
    PLAIN,
    PROJECT,
    REFUSED,
    SOMETHING_LEFT,
    TRAINING,
    UNMIXED,
    migrate,
)

from lockstep._version import __version__
from migrator.command.cli import main
from migrator.registry import all_rules

# -- in place --------------------------------------------------------------------------------------------------------


def test_file_is_migrated_in_place(script: Path) -> None:
    result = migrate(script)
    assert (result.exit_code, result.stdout) == (NOTHING_LEFT, "")
    assert result.stderr == f"1 file migrated\nnext: lockstep run -n 2 {script}\n"
    assert script.read_text() == MIGRATED
    assert [p.name for p in script.parent.iterdir()] == ["train.py"]


def test_second_run_changes_nothing(script: Path) -> None:
    migrate(script)
    before = script.stat()
    result = migrate(script)
    assert result.exit_code == NOTHING_LEFT
    assert result.stderr == "1 file with nothing to do\n"
    assert script.read_text() == MIGRATED
    assert (script.stat().st_mtime_ns, script.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_folder_is_migrated_with_all_below(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "one.py").write_text(TRAINING)
    (tmp_path / "two.py").write_text(TRAINING)
    (tmp_path / "plain.py").write_text(PLAIN)
    (tmp_path / "notes.txt").write_text(TRAINING)
    result = migrate(tmp_path)
    assert result.exit_code == NOTHING_LEFT
    one, two = tmp_path / "a" / "one.py", tmp_path / "two.py"
    assert result.stderr.splitlines() == [
        f"migrated: {one}",
        f"migrated: {two}",
        "2 files migrated, 1 file with nothing to do",
        f"next: lockstep run -n 2 {one}, lockstep run -n 2 {two}",
    ]
    assert (tmp_path / "a" / "one.py").read_text() == MIGRATED
    assert (tmp_path / "plain.py").read_text() == PLAIN
    assert (tmp_path / "notes.txt").read_text() == TRAINING


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_mode_and_line_ends_are_kept(script: Path, newline: str) -> None:
    script.write_bytes(TRAINING.replace("\n", newline).encode())
    script.chmod(0o750)
    assert migrate(script).exit_code == NOTHING_LEFT
    assert script.read_bytes() == MIGRATED.replace("\n", newline).encode()
    assert stat.S_IMODE(script.stat().st_mode) == 0o750


def test_refused_file_is_left_alone_and_reported(script: Path) -> None:
    script.write_text(REFUSED)
    result = migrate(script)
    assert result.exit_code == SOMETHING_LEFT
    first, advice = result.stdout.splitlines()
    assert re.fullmatch(rf"{re.escape(str(script))}:6:1: wrap-optimizer: refused: .+", first)
    assert advice.startswith("    ")
    assert result.stderr == "1 file with refusals\n"
    assert script.read_text() == REFUSED


def test_site_that_breaks_nothing_is_refused_alone(script: Path) -> None:
    script.write_text(HALF_REFUSED)
    result = migrate(script)
    assert result.exit_code == SOMETHING_LEFT
    line = next(i for i, text in enumerate(script.read_text().splitlines(), start=1) if "model.save" in text)
    assert f"{script}:{line}:8: write-once: refused: " in result.stdout
    assert "lockstep.broadcast(model)" in script.read_text()
    assert migrate(script).exit_code == SOMETHING_LEFT


# -- looking only ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--dry-run", "--diff"])
def test_dry_run_prints_a_diff_and_writes_nothing(script: Path, option: str) -> None:
    result = migrate(option, script)
    assert result.exit_code == SOMETHING_LEFT
    assert "+lockstep.broadcast(model)\n" in result.stdout
    assert "-model.fit(x, y, batch_size=32)\n" in result.stdout
    assert "\x1b" not in result.stdout
    assert result.stderr == "1 file would be migrated\n"
    assert script.read_text() == TRAINING


def test_dry_run_does_not_hide_refusals(script: Path) -> None:
    script.write_text(HALF_REFUSED)
    result = migrate("--dry-run", script)
    assert result.exit_code == SOMETHING_LEFT
    assert "write-once: refused: " in result.stdout
    assert "+lockstep.broadcast(model)\n" in result.stdout


def test_dry_run_of_a_migrated_file_prints_nothing(script: Path) -> None:
    script.write_text(MIGRATED)
    result = migrate("--dry-run", script)
    assert (result.exit_code, result.stdout) == (NOTHING_LEFT, "")


@pytest.mark.skipif(shutil.which("patch") is None, reason="the program patch is not installed")
@pytest.mark.parametrize("text", [TRAINING, TRAINING.rstrip("\n"), TRAINING.replace("\n", "\r\n"), "# \f\n" + TRAINING])
def test_patch_makes_of_the_diff_what_the_command_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    script = tmp_path / "train.py"
    script.write_bytes(text.encode())
    monkeypatch.chdir(tmp_path)
    diff = migrate("--dry-run", "train.py").stdout_bytes
    migrate("train.py", "-o", "written.py")
    subprocess.run(["patch", "--binary", "-p1"], input=diff, check=True, capture_output=True, timeout=60)
    assert script.read_bytes() == (tmp_path / "written.py").read_bytes() != text.encode()


def test_check_lists_every_site_and_writes_nothing(script: Path) -> None:
    result = migrate("--check", script)
    assert result.exit_code == SOMETHING_LEFT
    sites = [line.split(": ")[:2] for line in result.stdout.splitlines()]
    assert [f"{script}:5:1", "broadcast-weights"] in sites
    assert {rule for _, rule in sites} == {
        "broadcast-weights", "shard-arrays", "synchronise-callbacks", "wrap-optimizer",
    }  # fmt: skip
    assert script.read_text() == TRAINING


def test_check_of_a_migrated_file_passes(script: Path) -> None:
    script.write_text(MIGRATED)
    result = migrate("--check", script)
    assert (result.exit_code, result.stdout) == (NOTHING_LEFT, "")


def test_quiet_prints_refusals_and_errors_only(script: Path) -> None:
    assert migrate("-q", script).stderr == ""
    script.write_text(REFUSED)
    result = migrate("--quiet", script, script.parent / "missing.py")
    assert "refused: " in result.stdout
    assert "missing.py" in result.stderr
    assert len(result.stderr.splitlines()) == 1


# -- rules -----------------------------------------------------------------------------------------------------------


def test_select_applies_these_rules_only(script: Path) -> None:
    assert migrate("--select", "broadcast-weights", script).exit_code == NOTHING_LEFT
    assert script.read_text() == TRAINING.replace(
        "from tensorflow import keras\n", "from tensorflow import keras\nimport lockstep\n"
    ).replace("model.compile", "lockstep.broadcast(model)\nmodel.compile")


@pytest.mark.parametrize(
    "options",
    [
        ["--select", "broadcast-weights,wrap-optimizer"],
        ["--select", "broadcast-weights", "--select", "wrap-optimizer"],
        ["--select", "broadcast-weights, wrap-optimizer, shard-arrays", "--ignore", "shard-arrays"],
        ["--ignore", ",".join(set(all_rules()) - {"broadcast-weights", "wrap-optimizer"})],
    ],
)
def test_rules_are_chosen_by_lists_and_repetition(script: Path, options: list[str]) -> None:
    result = migrate(*options, "--check", script)
    assert {line.split(": ")[1] for line in result.stdout.splitlines()} == {"broadcast-weights", "wrap-optimizer"}


@pytest.mark.parametrize("option", ["--select", "--extend-select", "--ignore", "--explain"])
def test_unknown_rule_is_an_error_that_lists_the_rules(script: Path, option: str) -> None:
    result = migrate(option, "shard-everything", script)
    assert result.exit_code == ERROR
    assert "there is no rule 'shard-everything'" in result.stderr
    assert "shard-dataset" in result.stderr
    assert script.read_text() == TRAINING


@pytest.mark.parametrize("rule", all_rules())
def test_explain_prints_the_manual(rule: str) -> None:
    result = migrate("--explain", rule)
    assert result.exit_code == 0
    assert result.stdout == f"{rule}\n\n{all_rules()[rule].manual}\n"


def test_list_rules_prints_each_with_its_summary() -> None:
    result = migrate("--list-rules")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"{rule.id}  {rule.summary}{' (--extend-select)' if rule.opt_in else ''}" for rule in all_rules().values()
    ]


def test_opt_in_rule_acts_where_it_is_asked_for(script: Path) -> None:
    script.write_text(TRAINING.replace("keras.layers.Dense(1)", "keras.layers.BatchNormalization()"))
    rule = "synchronise-batch-normalization"
    assert rule not in migrate("--check", script).stdout
    assert {line.split(": ")[1] for line in migrate("--select", rule, "--check", script).stdout.splitlines()} == {rule}
    migrate("--extend-select", rule, script)
    assert "lockstep.broadcast(model)\nlockstep.synchronise_batch_normalization(model)\n" in script.read_text()
    assert migrate("--check", script).exit_code == NOTHING_LEFT
    assert migrate("--extend-select", rule, "--check", script).exit_code == NOTHING_LEFT


# -- usage -----------------------------------------------------------------------------------------------------------


def test_version() -> None:
    result = migrate("--version")
    assert (result.exit_code, result.stdout) == (0, f"migrate {__version__}\n")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_names_every_option_and_the_exit_codes(option: str) -> None:
    result = migrate(option)
    assert result.exit_code == 0
    for wanted in ("--dry-run", "--check", "--output", "--select", "--ignore", "--quiet", "--explain", "Exit codes"):
        assert wanted in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--dry-run", "--check", "x.py"],
        ["-o", "y", "--check", "x.py"],
        ["-o", "y", "--diff", "x.py"],
        ["--nonsense"],
    ],
)
def test_wrong_usage_is_an_error(arguments: list[str]) -> None:
    result = migrate(*arguments)
    assert result.exit_code == ERROR
    assert "Usage: " in result.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["--list-rules"], ["--dry-run", "train.py"]])
def test_tensorflow_is_never_imported(script: Path, arguments: list[str]) -> None:
    program = (
        "import sys, atexit\n"
        "atexit.register(lambda: print(sorted({m.partition('.')[0] for m in sys.modules}), file=sys.stderr))\n"
        "from migrator.command.cli import main\n"
        f"main({arguments!r})\n"
    )
    path = os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, cwd=script.parent, env=environment, capture_output=True, text=True, timeout=60)
    modules = result.stderr.splitlines()[-1]
    assert "'click'" in modules
    for heavy in ("tensorflow", "keras", "tf_keras", "numpy", *(["libcst"] if arguments == ["--help"] else [])):
        assert f"'{heavy}'" not in modules


def test_diff_is_coloured_where_colour_is_shown(script: Path) -> None:
    result = CliRunner(**UNMIXED).invoke(main, ["--dry-run", str(script)], color=True)
    assert "\x1b[32m+import lockstep\x1b[0m" in result.stdout
