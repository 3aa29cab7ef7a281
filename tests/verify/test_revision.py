"""The original as git has it."""

from __future__ import annotations

from pathlib import Path

import pytest
from verification import ERROR, committed, verify

from migrator.verify.revision import NoSuchRevision, find
from migrator.verify.scratch import mirror


def test_files_of_the_revision_lie_over_those_of_the_mirror(tmp_path: Path) -> None:
    project = tmp_path / "project"
    committed(project, {"code/train.py": "old", "code/gone.py": "gone", "data.bin": "0" * 3_000_000, "README": "r"})
    (project / "code" / "train.py").write_text("new")
    (project / "code" / "gone.py").unlink()
    (project / "code" / "later.py").write_text("later")
    data = "1" * 3_000_000  # so large that the mirror links to it
    (project / "data.bin").write_text(data)

    copy = mirror(project, tmp_path / "copy")
    revision = find("HEAD", project / "code" / "train.py")
    revision.check_out(copy)
    of_copy = {str(p.relative_to(copy.copy)): p.read_text()[:9] for p in copy.copy.rglob("*") if p.is_file()}
    assert of_copy == {
        "code/train.py": "old",
        "code/gone.py": "gone",
        "code/later.py": "later",
        "data.bin": "0" * 9,
        "README": "r",
    }
    assert str(revision) == f"code/train.py of HEAD ({revision.commit[:7]})"
    assert (project / "data.bin").read_text() == data
    assert (project / "code" / "train.py").read_text() == "new"


@pytest.mark.parametrize("root", ["project/code", "."])
def test_the_mirror_may_begin_below_or_above_the_repository(tmp_path: Path, root: str) -> None:
    committed(tmp_path / "project", {"code/train.py": "old", "other/data.py": "data"})
    script = tmp_path / "project" / "code" / "train.py"
    script.write_text("new")
    copy = mirror(tmp_path / root, tmp_path.with_name(tmp_path.name + "-copy"))
    find("HEAD", script).check_out(copy)
    assert copy.of(script).read_text() == "old"
    assert script.read_text() == "new"


def test_a_file_of_another_name_is_named_by_its_path(tmp_path: Path) -> None:
    committed(tmp_path, {"old/name.py": "old"})
    (tmp_path / "train.py").write_text("new")
    assert find("HEAD:old/name.py", tmp_path / "train.py").script == tmp_path / "old" / "name.py"
    with pytest.raises(NoSuchRevision, match=r"train.py is not in HEAD; git:HEAD:PATH names another file"):
        find("HEAD", tmp_path / "train.py")


def test_what_git_does_not_know_is_a_clear_error(tmp_path: Path) -> None:
    committed(tmp_path, {"train.py": "old"})
    with pytest.raises(NoSuchRevision, match="git knows no revision 'HEAD~9' here"):
        find("HEAD~9", tmp_path / "train.py")
    ran = verify(tmp_path, "train.py", "--original", "git:--output=x")
    assert ran.returncode == ERROR
    assert "--original git:--output=x: git knows no revision '--output=x' here" in ran.stderr
    ran = verify(tmp_path, "train.py", "--original", "none.py")
    assert ran.returncode == ERROR
    assert "--original none.py: there is no such file" in ran.stderr


def test_outside_of_a_repository_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    (tmp_path / "train.py").write_text("new")
    with pytest.raises(NoSuchRevision, match="is in no git repository"):
        find("HEAD", tmp_path / "train.py")
