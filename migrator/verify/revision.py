"""The original as a revision of its git repository has it: `--original git:REV` and `git:REV:PATH`."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

from migrator.verify.scratch import Mirror


class NoSuchRevision(Exception):
    """git knows no such revision, or no such file in it; the message says what is missing."""


@dataclass(frozen=True)
class Revision:
    """`script` as `commit` has it, in the repository at `top`. Paths are absolute."""

    name: str  # as the user gave it
    commit: str
    top: Path
    script: Path

    def __str__(self) -> str:
        return f"{self.script.relative_to(self.top)} of {self.name} ({self.commit[:7]})"

    def check_out(self, into: Mirror) -> None:
        """Put the revision's files over those of the mirror. What it does not have is left, and so is what lies in a
        folder that the mirror only links to.
        """
        inside = into.original.is_relative_to(self.top)
        folder = into.original if inside else self.top
        archive = _git(folder, "archive", "--format=tar", self.commit)
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            for member in files:
                if member.isfile() or member.issym():
                    _put(files, member, into.of(folder) / member.name, into.copy)


def find(text: str, script: Path) -> Revision:
    """The revision REV or REV:PATH. PATH is from the top of the repository that holds the script; without it, the
    script is meant.

    Raises NoSuchRevision.
    """
    name, _, path = text.partition(":")
    folder = script.absolute().parent
    try:
        up = _git(folder, "rev-parse", "--show-cdup").decode().strip()
        commit = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").decode()
    except FileNotFoundError:
        raise NoSuchRevision("git is not installed") from None
    except subprocess.CalledProcessError as error:
        is_here = "--verify" in error.cmd
        message = f"git knows no revision {name!r} here" if is_here else f"{folder} is in no git repository"
        raise NoSuchRevision(message) from None
    top = Path(os.path.normpath(folder / up))
    found = Path(os.path.normpath(top / path)) if path else folder / script.name
    revision = Revision(name, commit.strip(), top, found)
    try:
        _git(top, "cat-file", "-e", f"{revision.commit}:{found.relative_to(top).as_posix()}")
    except (subprocess.CalledProcessError, ValueError):
        missing = path or found.relative_to(top)
        raise NoSuchRevision(f"{missing} is not in {name}; git:{name}:PATH names another file") from None
    return revision


def _put(files: tarfile.TarFile, member: tarfile.TarInfo, to: Path, copy: Path) -> None:
    """Write one file. The mirror's links are the user's own files: never through one."""
    if to.parent.exists() and not Path(os.path.realpath(to.parent)).is_relative_to(copy):
        return
    to.parent.mkdir(parents=True, exist_ok=True)
    to.unlink(missing_ok=True)
    if member.issym():
        to.symlink_to(member.linkname)
        return
    content = files.extractfile(member)
    assert content is not None
    to.write_bytes(content.read())


def _git(folder: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True).stdout
