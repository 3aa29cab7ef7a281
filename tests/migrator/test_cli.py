"""The command `migrate` as its user sees it: what it prints, what it writes, and its three exit codes."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lockstep._version import __version__
from migrator.cli import main
from migrator.registry import all_rules

PROJECT = Path(__file__).resolve().parents[2]
NOTHING_LEFT, SOMETHING_LEFT, ERROR = 0, 1, 2

TRAINING = """import numpy as np
from tensorflow import keras

x, y = np.load("x.npy"), np.load("y.npy")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse")
model.fit(x, y, batch_size=32)
"""
MIGRATED = """import numpy as np
from tensorflow import keras
import lockstep

x, y = np.load("x.npy"), np.load("y.npy")
model = keras.Sequential([keras.layers.Dense(1)])
lockstep.broadcast(model)
model.compile(optimizer=lockstep.distributed_optimizer("adam"), loss="mse")
model.fit(*lockstep.shard_arrays(x, y), batch_size=lockstep.local_batch_size(32),
          callbacks=lockstep.callbacks())
"""
REFUSED = TRAINING.replace('optimizer="adam", loss="mse"', "**config")
HALF_REFUSED = TRAINING + 'model.save("m.keras"); print("saved")\n'
PLAIN = "print('nothing to train')\n"
_UNMIXED: dict[str, Any] = (
    {"mix_stderr": False} if "mix_stderr" in inspect.signature(CliRunner).parameters else {}  # click before 8.2
)


def migrate(*arguments: object, stdin: bytes | str = b"") -> Result:
    return CliRunner(**_UNMIXED).invoke(main, [str(a) for a in arguments], input=stdin)


def in_process(*arguments: object, cwd: Path | None = None, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """The command as a process of its own."""
    path = os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "migrator", *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, input=stdin, env={**os.environ, "PYTHONPATH": path}, capture_output=True, timeout=60
    )


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAINING)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# -- in place --------------------------------------------------------------------------------------------------------


def test_file_is_migrated_in_place(script: Path) -> None:
    result = migrate(script)
    assert (result.exit_code, result.stdout) == (NOTHING_LEFT, "")
    assert result.stderr == "1 file migrated\n"
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
    assert result.stderr == "2 files migrated, 1 file with nothing to do\n"
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
    assert f"{script}:8:1: write-once: refused: " in result.stdout
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


# -- somewhere else --------------------------------------------------------------------------------------------------


def test_output_file_leaves_the_original(script: Path, tmp_path: Path) -> None:
    script.chmod(0o755)
    target = tmp_path / "new" / "train_many.py"
    assert migrate(script, "-o", target).exit_code == NOTHING_LEFT
    assert target.read_text() == MIGRATED
    assert stat.S_IMODE(target.stat().st_mode) == 0o755
    assert script.read_text() == TRAINING


def test_output_folder_for_one_file(script: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert migrate(script, "--output", tmp_path / "out").exit_code == NOTHING_LEFT
    assert (tmp_path / "out" / "train.py").read_text() == MIGRATED


def test_output_folder_for_a_folder_is_a_whole_copy(tmp_path: Path) -> None:
    source, out = tmp_path / "src", tmp_path / "out"
    (source / "models").mkdir(parents=True)
    (source / "train.py").write_text(TRAINING)
    (source / "models" / "net.py").write_text(PLAIN)
    assert migrate(source, "-o", out).exit_code == NOTHING_LEFT
    assert contents(out) == {"train.py": MIGRATED.encode(), "models/net.py": PLAIN.encode()}
    assert (source / "train.py").read_text() == TRAINING


def test_output_folder_for_several_files(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(TRAINING)
    assert migrate(tmp_path / "a.py", tmp_path / "b.py", "-o", tmp_path / "out").exit_code == NOTHING_LEFT
    assert contents(tmp_path / "out") == {"a.py": MIGRATED.encode(), "b.py": MIGRATED.encode()}


def test_output_of_a_refused_file_is_its_copy(script: Path, tmp_path: Path) -> None:
    script.write_text(REFUSED)
    assert migrate(script, "-o", tmp_path / "out.py").exit_code == SOMETHING_LEFT
    assert (tmp_path / "out.py").read_text() == REFUSED


def test_output_that_cannot_be_written_is_an_error(script: Path, tmp_path: Path) -> None:
    (tmp_path / "occupied").write_text("")
    result = migrate(script, "-o", tmp_path / "occupied" / "train.py")
    assert result.exit_code == ERROR
    assert "cannot be written" in result.stderr


def test_standard_input_to_standard_output() -> None:
    result = in_process("-", stdin=TRAINING.replace("\n", "\r\n").encode())
    assert result.returncode == NOTHING_LEFT
    assert result.stdout == MIGRATED.replace("\n", "\r\n").encode()


def test_standard_input_keeps_the_output_clean_of_reports() -> None:
    result = migrate("-", stdin=HALF_REFUSED)
    assert result.exit_code == SOMETHING_LEFT
    assert "lockstep.broadcast(model)" in result.stdout
    assert "refused" not in result.stdout
    assert "<stdin>:8:1: write-once: refused: " in result.stderr


def test_standard_input_without_training_comes_out_as_it_is() -> None:
    result = migrate("-", stdin=PLAIN)
    assert (result.exit_code, result.stdout) == (NOTHING_LEFT, PLAIN)


def test_standard_input_to_a_file(tmp_path: Path) -> None:
    result = migrate("-", "-o", tmp_path / "out.py", stdin=TRAINING)
    assert (result.exit_code, result.stdout) == (NOTHING_LEFT, "")
    assert (tmp_path / "out.py").read_text() == MIGRATED


def test_standard_input_as_a_diff() -> None:
    result = migrate("--dry-run", "-", stdin=TRAINING)
    assert result.exit_code == SOMETHING_LEFT
    assert "+import lockstep\n" in result.stdout


# -- bad files -------------------------------------------------------------------------------------------------------

BAD = {
    "syntax.py": (b"import tensorflow\nmodel.fit(\nx = = 1\n", r"syntax\.py:\d+:\d+: not valid Python"),
    "python2.py": (b'import keras\nmodel.fit(x)\nprint "done"\n', r"python2\.py:3:\d+: this is Python 2"),
    "latin.py": (b"import keras\nmodel.fit(x)  # \xe9\n", r"latin\.py: line 2 is not UTF-8"),
    "cookie.py": (b"# coding: klingon\nimport keras\nmodel.fit(x)\n", r"cookie\.py: unknown encoding"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_file_is_one_line_and_does_not_stop_the_others(tmp_path: Path, name: str) -> None:
    data, message = BAD[name]
    (tmp_path / name).write_bytes(data)
    for good in ("a.py", "z.py"):
        (tmp_path / good).write_text(TRAINING)
    result = migrate(tmp_path)
    assert result.exit_code == ERROR
    error, summary = result.stderr.splitlines()
    assert error.startswith("error: ")
    assert re.search(message, error)
    assert summary == "2 files migrated, 1 file failed"
    assert (tmp_path / name).read_bytes() == data
    assert (tmp_path / "a.py").read_text() == (tmp_path / "z.py").read_text() == MIGRATED


def test_missing_path_is_one_line_and_does_not_stop_the_others(script: Path, tmp_path: Path) -> None:
    result = migrate(tmp_path / "missing.py", script)
    assert result.exit_code == ERROR
    assert result.stderr.splitlines()[0] == f"error: {tmp_path / 'missing.py'}: no such file or folder"
    assert script.read_text() == MIGRATED


def test_folder_without_python_files_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    result = migrate(tmp_path)
    assert result.exit_code == ERROR
    assert f"{tmp_path}: no Python files in this folder" in result.stderr


def test_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "dangling.py").symlink_to("nowhere.py")
    (tmp_path / "train.py").write_text(TRAINING)
    result = migrate(tmp_path)
    assert result.exit_code == ERROR
    assert re.match(r"error: .*dangling\.py: cannot be read: .+\n", result.stderr)
    assert (tmp_path / "train.py").read_text() == MIGRATED


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read every file")
def test_file_without_permission_is_one_line(script: Path) -> None:
    script.chmod(0)
    result = migrate(script)
    assert result.exit_code == ERROR
    assert "cannot be read: Permission denied" in result.stderr


def test_bad_standard_input_is_an_error() -> None:
    result = migrate("-", stdin=BAD["syntax.py"][0])
    assert (result.exit_code, result.stdout) == (ERROR, "")
    assert "<stdin>:" in result.stderr


def test_broken_file_that_does_not_train_is_nobodys_business(tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text('print "hello"\n')
    assert migrate(tmp_path / "old.py").exit_code == NOTHING_LEFT


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


@pytest.mark.parametrize("option", ["--select", "--ignore", "--explain"])
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
    assert result.stdout.splitlines() == [f"{rule.id}  {rule.summary}" for rule in all_rules().values()]


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
        "from migrator.cli import main\n"
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
    result = CliRunner(**_UNMIXED).invoke(main, ["--dry-run", str(script)], color=True)
    assert "\x1b[32m+import lockstep\x1b[0m" in result.stdout
