"""Where the command writes: `-o`, folders, standard input and output."""

from __future__ import annotations

import stat
from pathlib import Path

from command import (
    ERROR,
    HALF_REFUSED,
    MIGRATED,
    NOTHING_LEFT,
    PLAIN,
    REFUSED,
    SOMETHING_LEFT,
    TRAINING,
    contents,
    in_process,
    migrate,
)


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
    assert "<stdin>:8:8: write-once: refused: " in result.stderr


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


def test_output_folder_that_is_not_there_yet(script: Path, tmp_path: Path) -> None:
    assert migrate(script, "--output", f"{tmp_path}/other/").exit_code == NOTHING_LEFT
    assert (tmp_path / "other" / "train.py").read_text() == MIGRATED


def test_two_files_never_go_to_one_path(tmp_path: Path) -> None:
    for folder, size in (("a", 32), ("b", 64)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "train.py").write_text(TRAINING.replace("32", str(size)))
    result = migrate(tmp_path / "a" / "train.py", tmp_path / "b" / "train.py", "-o", tmp_path / "out")
    assert result.exit_code == ERROR
    assert str(tmp_path / "b" / "train.py") in result.stderr
    assert contents(tmp_path / "out") == {"train.py": MIGRATED.encode()}


def test_standard_input_to_a_file_in_a_new_folder(tmp_path: Path) -> None:
    assert migrate("-", "-o", tmp_path / "new" / "out.py", stdin=TRAINING).exit_code == NOTHING_LEFT
    assert (tmp_path / "new" / "out.py").read_text() == MIGRATED
