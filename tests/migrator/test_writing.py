"""Writes outlast what may happen to them: kills, full disks, other runs, read-only places, links of both kinds."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from command import ERROR, MIGRATED, NOTHING_LEFT, PLAIN, PROJECT, TRAINING, contents, in_process, migrate
from test_several_files import MAIN, STEP, folder_with

from migrator.files import holding, writing
from migrator.files.undo import take_back
from migrator.files.writing import NotWritten, Write, write_all

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), os.environ.get("PYTHONPATH", "")])}
OLD = {"main.py": b"old main", "steps/one.py": b"old one", "steps/two.py": b"old two"}
NEW = {name: data.replace(b"old", b"the new") for name, data in OLD.items()}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    folder = tmp_path / "program"
    (folder / "steps").mkdir(parents=True)
    for name, data in OLD.items():
        (folder / name).write_bytes(data)
    return folder


def writes(folder: Path, names: list[str]) -> list[Write]:
    return [Write(folder / name, NEW[name], like=folder / name, old=OLD[name]) for name in names]


def in_child(work: Callable[[], object]) -> int:
    """How a process of its own ends that does the work."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(3)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(number: int, work: Callable[[], object]) -> Callable[[], None]:
    """The work, killed before that many lines of the modules that write were run."""
    files = {writing.__file__, holding.__file__, sys.modules[take_back.__module__].__file__}
    lines = 0

    def trace(frame, event, _):
        nonlocal lines
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            lines += 1
            if lines == number:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    def run() -> None:
        sys.settrace(trace)
        work()

    return run


def restore(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            path.unlink()
    for name, data in OLD.items():
        (folder / name).write_bytes(data)


@pytest.mark.parametrize(
    "names",
    [["main.py"], pytest.param(["main.py", "steps/one.py"], marks=pytest.mark.long)],
    ids=["one", "program"],
)
def test_killed_at_any_line_it_leaves_all_or_none(
    program: Path, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "_YOUNGEST_LEFTOVER", -1.0)
    folders = [program, program / "steps"]
    seen = set()
    number = 0
    while True:
        number += 1
        restore(program)
        code = in_child(killed_at(number, lambda: write_all(writes(program, names))))
        after = contents(program)
        assert all(after[name] in (OLD[name], NEW[name]) for name in names), f"half a file at line {number}"
        seen.add(tuple(after[name] == NEW[name] for name in names))
        take_back(folders)
        for folder in folders:
            holding.sweep(folder)
        now = contents(program)
        assert now in ({**OLD}, {**OLD, **{name: NEW[name] for name in names}}), f"killed at line {number}"
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert number > 50
    # The kills came between the files, too.
    assert len(seen) == len(names) + 1


def test_a_kill_while_half_is_taken_back_loses_nothing(program: Path) -> None:
    names = list(OLD)
    number = 0
    while True:
        number += 1
        restore(program)
        replace, calls = os.replace, []

        def die_at_second(source: str, target: Path, replace=replace, calls=calls) -> None:
            calls.append(source)
            if len(calls) == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            replace(source, target)

        def half() -> None:
            os.replace = die_at_second
            write_all(writes(program, names))

        assert in_child(half) == -signal.SIGKILL
        folders = [program, program / "steps"]
        code = in_child(killed_at(number, lambda: take_back(folders)))  # noqa: B023
        take_back(folders)
        assert {name: contents(program)[name] for name in names} == OLD
        if code == 0:
            break
    assert number > 10


DIES_AT_SECOND_FILE = """
import os, signal, sys
from pathlib import Path
from migrator.files import writing
replace = os.replace
def dying(source, target):
    if Path(target).suffix == ".py":
        dying.files += 1
        if dying.files == 2:
            os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
dying.files = 0
os.replace = dying
from migrator.command.cli import main
main(sys.argv[1:])
"""


def test_the_next_run_puts_half_a_program_back_and_migrates_it(tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    (tmp_path / "whole").mkdir()
    folder = folder_with(tmp_path / "half", main=MAIN, steps=STEP)
    expected = folder_with(tmp_path / "whole", main=MAIN, steps=STEP)
    assert migrate(expected).exit_code == NOTHING_LEFT
    command = [sys.executable, "-c", DIES_AT_SECOND_FILE, folder]
    killed = subprocess.run(command, env=ENVIRONMENT, capture_output=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL
    half = contents(folder)
    assert (half["main.py"] == MAIN.encode()) != (half["steps.py"] == STEP.encode())
    result = migrate(folder)
    assert result.exit_code == NOTHING_LEFT
    assert "put back as it was, since a run was killed" in result.stderr
    assert {name: contents(folder)[name] for name in half if name.endswith(".py")} == contents(expected)
    assert "put back" not in migrate(folder).stderr


def test_what_was_edited_after_the_kill_is_not_put_back(program: Path) -> None:
    def half() -> None:
        replace = os.replace
        os.replace = lambda source, target: (replace(source, target), os.kill(os.getpid(), signal.SIGKILL))
        write_all(writes(program, list(OLD)))

    assert in_child(half) == -signal.SIGKILL
    (program / "main.py").write_bytes(b"edited")
    assert take_back([program]) == []
    assert contents(program)["main.py"] == b"edited"


def test_leftovers_of_others_stay(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "_YOUNGEST_LEFTOVER", -1.0)
    handle, held_by_a_run = holding.own_file(program)
    foreign = program / ".migrate-notes.tmp.txt"
    foreign.write_text("mine")

    def sweep_as_another() -> None:
        holding.sweep(program)

    assert in_child(sweep_as_another) == 0
    assert foreign.exists()
    assert os.path.exists(held_by_a_run)
    os.close(handle)
    holding.sweep(program)
    assert not os.path.exists(held_by_a_run)
    assert foreign.exists()


def test_a_full_disk_leaves_all_as_it_was(program: Path) -> None:
    """The limit on a file's size ends a write in its midst, as a full disk does."""
    large = [Write(w.path, w.data * 10_000, like=w.like, old=w.old) for w in writes(program, list(OLD))]

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        with pytest.raises(NotWritten, match="File too large"):
            write_all(large)

    assert in_child(work) == 0
    assert contents(program) == OLD


def test_a_full_disk_is_one_line(script: Path) -> None:
    limits = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({len(TRAINING)}, {len(TRAINING)}))"
    program = f"{limits}; from migrator.command.cli import main; main(['{script}'])"
    result = subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, capture_output=True, timeout=300)
    assert result.returncode == ERROR
    assert b"left as it was: cannot be written: File too large" in result.stderr
    assert b"Traceback" not in result.stderr
    assert contents(script.parent) == {"train.py": TRAINING.encode()}


def test_of_several_runs_at_once_each_writes_whole_programs(program: Path) -> None:
    """Whoever wins, the files belong together, and who lost says so."""

    def work(tag: bytes) -> None:
        for turn in range(20):
            old = {name: (program / name).read_bytes() for name in OLD}
            new = dict.fromkeys(OLD, b"%s %d" % (tag, turn))
            try:
                write_all([Write(program / n, new[n], like=program / n, old=old[n]) for n in OLD])
            except NotWritten as error:
                if "it changed while it was analysed" not in str(error):
                    raise

    children = []
    for tag in (b"a", b"b", b"c"):
        child = os.fork()
        if child == 0:
            try:
                work(tag)
            except BaseException:
                os._exit(3)
            os._exit(0)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    after = contents(program)
    assert after.keys() == OLD.keys()
    assert len(set(after.values())) == 1


def test_two_runs_at_once_come_to_the_same(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, main=MAIN, steps=STEP, train=TRAINING)
    command = [sys.executable, "-m", "migrator", folder]
    runs = [subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE) for _ in range(2)]
    results = [(run.communicate(timeout=300)[1], run.returncode)[::-1] for run in runs]
    assert [code for code, _ in results] == [NOTHING_LEFT, NOTHING_LEFT], results
    assert contents(folder)["train.py"] == MIGRATED.encode()
    assert contents(folder).keys() == {"main.py", "steps.py", "train.py"}
    assert migrate("--check", folder).exit_code == NOTHING_LEFT


def test_a_file_that_another_process_holds_is_waited_for(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "_LONGEST_WAIT", 0.1)
    with (program / "main.py").open() as file:
        assert holding.lock(file.fileno())

        def work() -> None:
            with pytest.raises(NotWritten, match="another process holds it"):
                write_all(writes(program, list(OLD)))

        assert in_child(work) == 0
    assert contents(program) == OLD
    write_all(writes(program, list(OLD)))
    assert contents(program) == NEW


@pytest.mark.parametrize("place", ["file", "folder"])
def test_read_only_places_are_left_alone_with_their_program(tmp_path: Path, place: str) -> None:
    (tmp_path / "lib").mkdir()
    folder = folder_with(tmp_path, main=MAIN.replace("from steps", "from lib.steps"), train=TRAINING)
    folder_with(tmp_path / "lib", steps=STEP, __init__="")
    marked = folder / "lib" / "steps.py" if place == "file" else folder / "lib"
    mode = marked.stat().st_mode
    marked.chmod(mode & ~0o222)
    before = contents(folder)
    try:
        result = migrate(folder)
    finally:
        marked.chmod(mode)
    assert result.exit_code == ERROR
    what = "it is read-only" if place == "file" else f"its folder, {folder / 'lib'}, is read-only"
    assert f"steps.py: left as it was: cannot be written: {what}" in result.stderr
    assert "main.py: left as it was, for " in result.stderr
    assert contents(folder) == {**before, "train.py": MIGRATED.encode()}


def test_a_link_stays_and_its_target_is_rewritten(tmp_path: Path) -> None:
    shared, folder = tmp_path / "shared", tmp_path / "project"
    shared.mkdir()
    folder.mkdir()
    folder_with(shared, train=TRAINING)
    (folder / "first.py").symlink_to(shared / "train.py")
    (folder / "second.py").symlink_to("first.py")
    folder.chmod(0o555)  # nothing is to be written there
    try:
        assert migrate(folder / "second.py").exit_code == NOTHING_LEFT
    finally:
        folder.chmod(0o755)
    assert os.readlink(folder / "first.py") == str(shared / "train.py")
    assert os.readlink(folder / "second.py") == "first.py"
    assert contents(shared) == {"train.py": MIGRATED.encode()}


def test_a_file_with_other_names_is_refused(tmp_path: Path) -> None:
    """The other name may be a snapshot, which is not to change, or the same script, which is: nobody can tell."""
    folder = folder_with(tmp_path, train=TRAINING, other=TRAINING, plain=PLAIN)
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    for name in ("train.py", "plain.py"):
        os.link(folder / name, snapshot / name)
    result = migrate(folder / "train.py", folder / "other.py", folder / "plain.py")
    assert result.exit_code == ERROR
    assert "train.py: left as it was: cannot be written: it has 2 names (hard links)" in result.stderr
    assert "plain.py" not in result.stderr
    assert (folder / "train.py").read_text() == TRAINING
    assert (folder / "train.py").samefile(snapshot / "train.py")
    assert (folder / "other.py").read_text() == MIGRATED
    assert migrate(folder / "train.py", "-o", tmp_path / "copy.py").exit_code == NOTHING_LEFT
    assert (tmp_path / "copy.py").read_text() == MIGRATED


def test_a_pipe_gets_the_report_and_stays_a_pipe(script: Path) -> None:
    pipe = script.parent / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    result = in_process("--check", "--output-format=json", "--output-file", pipe, script)
    reader.join(timeout=60)
    assert result.returncode == 1, result.stderr
    assert '"broadcast-weights"' in read[0]
    assert pipe.is_fifo()
