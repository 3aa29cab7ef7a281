"""What may happen around a run: files that change or are none, streams that break, Ctrl-C, processes that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
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
    contents,
    migrate,
)
from test_several_files import MAIN, STEP, folder_with

from migrator.command import run as run_module
from migrator.command.workers import Died, shared_out
from migrator.files import writing
from migrator.registry import all_rules

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])}
COMMAND = [sys.executable, "-m", "migrator"]
as_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may give files away")


# -- nothing is lost -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["edited", "deleted"])
def test_a_file_that_changes_meanwhile_is_left_alone_with_its_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    folder = folder_with(tmp_path, main=MAIN, steps=STEP, other=TRAINING)
    migrated = run_module._migrated

    def change_first(*arguments):
        if change == "edited":
            (folder / "steps.py").write_text(STEP + "# edited\n")
        else:
            (folder / "steps.py").unlink(missing_ok=True)
        return migrated(*arguments)

    monkeypatch.setattr(run_module, "_migrated", change_first)
    result = migrate(folder)
    assert result.exit_code == ERROR
    after = contents(folder)
    assert after["main.py"] == MAIN.encode()
    assert after.get("steps.py") == ((STEP + "# edited\n").encode() if change == "edited" else None)
    assert after["other.py"] == MIGRATED.encode()
    assert f"steps.py: left as it was: it {'changed' if change == 'edited' else 'vanished'}" in result.stderr
    assert "main.py: left as it was, for " in result.stderr


def test_files_of_a_program_are_written_all_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_with(tmp_path, main=MAIN, steps=STEP)
    before, replace = contents(folder), os.replace

    def fail_for_steps(source: str, target: Path) -> None:
        if Path(target).name == "steps.py":
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(writing.os, "replace", fail_for_steps)
    assert migrate(folder).exit_code == ERROR
    assert contents(folder) == before


@as_root
def test_owner_mode_and_attributes_stay(script: Path) -> None:
    os.chown(script, 1234, 1235)
    script.chmod(0o640)
    try:
        os.setxattr(script, "user.origin", b"here")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    assert migrate(script).exit_code == NOTHING_LEFT
    after = script.stat()
    assert (after.st_uid, after.st_gid, after.st_mode & 0o777) == (1234, 1235, 0o640)
    assert os.getxattr(script, "user.origin") == b"here"
    assert time.time() - after.st_mtime < 60


def test_links_that_leave_the_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.py").write_text(TRAINING)
    folder = tmp_path / "project"
    folder.mkdir()
    folder_with(folder, train=TRAINING)
    (folder / "out.py").symlink_to("../elsewhere.py")
    (folder / "within.py").symlink_to("train.py")
    assert migrate(folder).exit_code == NOTHING_LEFT
    assert (tmp_path / "elsewhere.py").read_text() == TRAINING
    assert (folder / "train.py").read_text() == MIGRATED
    assert (folder / "within.py").is_symlink()
    assert migrate(folder / "out.py").exit_code == NOTHING_LEFT  # named, it counts
    assert (tmp_path / "elsewhere.py").read_text() == MIGRATED


@pytest.mark.parametrize("arguments", [[""], ["-o", "", "train.py"]])
def test_empty_paths_are_usage_errors(script: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.chdir(script.parent)
    result = migrate(*arguments)
    assert (result.exit_code, "Usage: " in result.stderr) == (ERROR, True)
    assert contents(script.parent) == {"train.py": TRAINING.encode()}


def test_copies_within_the_folder_are_not_read_again(script: Path) -> None:
    folder = script.parent
    for _ in range(2):
        assert migrate(folder, "-o", folder / "out").exit_code == NOTHING_LEFT
        assert contents(folder) == {"train.py": TRAINING.encode(), "out/train.py": MIGRATED.encode()}


def test_a_copy_to_its_own_place_is_none(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(script.parent)
    result = migrate("train.py", "-o", script)
    assert (result.exit_code, script.read_text()) == (NOTHING_LEFT, MIGRATED)
    assert contents(script.parent) == {"train.py": MIGRATED.encode()}


def test_pipes_are_passed_over_in_folders_and_errors_by_name(script: Path) -> None:
    os.mkfifo(script.parent / "pipe.py")
    assert migrate(script.parent).exit_code == NOTHING_LEFT
    result = migrate(script.parent / "pipe.py")
    assert result.exit_code == ERROR
    assert "no file, but a pipe" in result.stderr


# -- which files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("notebook.ipynb", b"{}", "this is no notebook"),
        ("wide.py", TRAINING.encode("utf-16"), "UTF-16"),
        ("weights.h5", b"\x89HDF\0\0", "binary"),
    ],
)
def test_what_is_no_python_is_an_error_by_name(script: Path, name: str, data: bytes, message: str) -> None:
    (script.parent / name).write_bytes(data)
    result = migrate(script.parent / name, script)
    assert result.exit_code == ERROR
    assert message in result.stderr
    assert script.read_text() == MIGRATED


def test_ignored_files_count_only_by_name(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("old_*.py\n/generated/\n!old_but_gold.py\n")
    project = tmp_path / "project"
    for name in ("train.py", "old_train.py", "old_but_gold.py", "build/a.py", "own_env/a.py", "kept/a.py", "kept/b.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(TRAINING)
    (project / "own_env" / "pyvenv.cfg").touch()
    (project / "kept" / ".gitignore").write_text("b.py\n")
    (tmp_path / "generated").mkdir()
    (tmp_path / "generated" / "a.py").write_text(TRAINING)
    migrate(tmp_path)
    changed = {name for name, data in contents(tmp_path).items() if data == MIGRATED.encode()}
    assert changed == {f"project/{name}" for name in ("train.py", "old_but_gold.py", "kept/a.py")}
    migrate(project / "old_train.py", tmp_path / "generated", project / "build")
    changed = {name for name, data in contents(tmp_path).items() if data == MIGRATED.encode()}
    assert {"project/old_train.py", "generated/a.py", "project/build/a.py"} <= changed


# -- reports ---------------------------------------------------------------------------------------------------------


def test_refusals_have_the_lines_of_the_file_as_it_is_now(script: Path) -> None:
    script.write_text("import os\n" + HALF_REFUSED)
    first = migrate(script).stdout
    assert "refused" in first
    assert migrate("--check", script).stdout == first


def test_a_failed_file_is_not_blamed_on_the_others(tmp_path: Path) -> None:
    main = "from steps import train_step\n" + TRAINING
    folder = folder_with(tmp_path, main=main, steps=STEP + "x = = 1\n")
    result = migrate(folder)
    assert result.exit_code == ERROR
    assert f"{folder / 'steps.py'}:9:5: not valid Python" in result.stderr
    first, *_ = refusals = [line for line in result.stdout.splitlines() if "refused" in line]
    assert len(refusals) == 1
    assert first.startswith(f"{folder / 'main.py'}:1:1:")
    assert "this runs steps.py, which cannot be analysed (9:5: not valid Python" in first
    assert contents(folder)["main.py"] == main.encode()


def test_one_command_names_all_missing_files(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, main="import more\n" + MAIN, steps=STEP, more=TRAINING)
    result = migrate(folder / "main.py")
    assert result.exit_code == SOMETHING_LEFT
    assert "this runs more.py, steps.py, which take part in the training and are not among" in result.stdout
    names = " ".join(str(folder / f"{name}.py") for name in ("main", "more", "steps"))
    assert f"migrate {names}\n" in result.stdout


@pytest.mark.parametrize(
    ("options", "left_out"),
    [(["--ignore", "broadcast-weights"], "broadcast-weights"), (["--select", "shard-arrays"], "wrap-optimizer")],
)
def test_half_a_port_is_warned_of(script: Path, options: list[str], left_out: str) -> None:
    result = migrate(*options, script)
    assert f"this is half a port: {left_out} was left out" in result.stderr
    script.write_text(MIGRATED)
    assert "half a port" not in migrate(*options, script).stderr


def test_rules_rely_on_rules_that_are_there() -> None:
    assert {name for rule in all_rules().values() for name in rule.needs} <= all_rules().keys()


@pytest.mark.parametrize("name", ["lockstep.py", "lockstep/__init__.py"])
def test_what_would_be_imported_in_the_place_of_the_runtime_is_refused(script: Path, name: str) -> None:
    (script.parent / "lockstep").mkdir()
    assert migrate("--check", script).stdout.count("refused") == 0  # a folder alone is no package
    (script.parent / name).write_text(PLAIN)
    result = migrate(script)
    assert result.exit_code == SOMETHING_LEFT
    assert "has the name of the runtime" in result.stdout
    assert script.read_text() == TRAINING


def test_a_script_with_the_name_of_the_runtime_is_refused(script: Path) -> None:
    own = script.rename(script.with_name("lockstep.py"))
    assert "has the name of the runtime" in migrate(own).stdout
    assert own.read_text() == TRAINING


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False), ({"FORCE_COLOR": "0"}, False)],
)
def test_colours_can_be_asked_for_and_forbidden(script: Path, variables: dict[str, str], coloured: bool) -> None:
    kept = {k: v for k, v in ENVIRONMENT.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    result = subprocess.run([*COMMAND, "--check", script], env={**kept, **variables}, capture_output=True, timeout=300)
    assert (b"\x1b[" in result.stdout) is coloured


def test_warnings_of_the_script_are_not_printed(script: Path) -> None:
    script.write_text(TRAINING + 'path = "\\d"\nif 1 is 1:\n    pass\n')
    command = [sys.executable, "-W", "always", "-m", "migrator", script]
    result = subprocess.run(command, env=ENVIRONMENT, capture_output=True, timeout=300)
    assert (result.returncode, b"Warning" in result.stderr) == (NOTHING_LEFT, False)


# -- the terminal ----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", [["--check"], ["--dry-run"]])
def test_full_standard_output_is_one_line(script: Path, arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        command = [*COMMAND, *arguments, script]
        result = subprocess.run(command, env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, timeout=300)
    assert result.returncode == ERROR
    assert b"standard output: No space left" in result.stderr
    assert b"Traceback" not in result.stderr


def test_closed_standard_output_stops_no_writing(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.py").write_text(REFUSED if number else TRAINING)
    reading, writing_end = os.pipe()
    os.close(reading)
    result = subprocess.run(
        [*COMMAND, tmp_path], env=ENVIRONMENT, stdout=writing_end, stderr=subprocess.PIPE, timeout=300
    )
    os.close(writing_end)
    assert (result.returncode, b"Traceback" in result.stderr) == (SOMETHING_LEFT, False)
    assert (tmp_path / "0.py").read_text() == MIGRATED


def test_a_deleted_working_directory_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    program = "import os, sys; os.rmdir(os.getcwd()); from migrator.command.cli import main; main(['../train.py'])"
    (tmp_path / "train.py").write_text(TRAINING)
    command = [sys.executable, "-c", program]
    result = subprocess.run(command, cwd=tmp_path / "gone", env=ENVIRONMENT, capture_output=True, timeout=300)
    assert (result.returncode, b"Traceback" in result.stderr) == (ERROR, False)


def _started(folder: Path, jobs: int) -> subprocess.Popen[bytes]:
    """The command in a group of its own, once it has written something."""
    for number in range(150):
        (folder / f"{number}.py").write_text(TRAINING)
    command = [*COMMAND, f"--jobs={jobs}", folder]
    process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and process.poll() is None:
        if any(b"lockstep" in path.read_bytes() for path in folder.glob("*.py")):
            break
        time.sleep(0.02)
    return process


def _members(group: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="processes are looked up in /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_ended_early_it_leaves_no_processes_and_no_half_files(tmp_path: Path, how: signal.Signals) -> None:
    process = _started(tmp_path, jobs=2)
    if how == signal.SIGINT:
        os.killpg(process.pid, how)
    else:
        process.send_signal(how)
    stderr = process.communicate(timeout=200)[1].decode()
    deadline = time.monotonic() + 60
    while _members(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _members(process.pid)
    assert {data for name, data in contents(tmp_path).items() if name.endswith(".py")} <= {
        TRAINING.encode(), MIGRATED.encode(),
    }  # fmt: skip
    if how == signal.SIGINT:
        assert process.returncode == 130
        written = sum(data == MIGRATED.encode() for data in contents(tmp_path).values())
        assert f"interrupted: {written} file" in stderr
        assert "Traceback" not in stderr


def test_a_worker_that_dies_costs_its_item_only() -> None:
    def task(item: int) -> int:
        if item == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return item * item

    done = dict(shared_out(task, range(8), 2))
    assert done == {**{i: i * i for i in range(8)}, 3: Died(-signal.SIGKILL)}


def test_a_program_that_takes_too_long_costs_itself_only(tmp_path: Path) -> None:
    chain = "".join(f"h{i + 1} = h{i}.map(f)\n" for i in range(3000))
    folder_with(tmp_path, train=TRAINING, slow=f"{TRAINING}h0 = x\n{chain}model.fit(h3000)\n")
    result = migrate("--time-limit", "2", tmp_path)
    assert result.exit_code == ERROR
    assert "slow.py: its analysis took longer than 2 seconds of CPU time: allow more with --time-limit" in result.stderr
    assert (tmp_path / "train.py").read_text() == MIGRATED


def test_a_file_that_is_mostly_data_costs_itself_only(tmp_path: Path) -> None:
    folder_with(tmp_path, train=TRAINING, data=TRAINING + "table = [" + "1, " * 400_000 + "]\n")
    result = migrate(tmp_path)
    assert result.exit_code == ERROR
    assert "data.py: too large to be analysed" in result.stderr
    assert (tmp_path / "train.py").read_text() == MIGRATED
