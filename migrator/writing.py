"""How results are written: the files of a program all or none, and never over what somebody else has changed."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType


@dataclass(frozen=True)
class Write:
    """New content for a path. `like` has the mode and the attributes that it gets.

    `old` is what the file held when it was read; None for a copy, which may replace anything.
    """

    path: Path
    data: bytes
    like: Path
    old: bytes | None = None


class NotWritten(Exception):
    """Nothing was written, because of this path; the message says why."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


def write_all(writes: Sequence[Write]) -> None:
    """Replaces the files, each in one step: a reader sees the old content or the new, whole.

    Owner, mode and extended attributes stay. A symbolic link stays one: the file that it points to is replaced.
    Raises NotWritten with all files as they were.
    """
    staged: list[tuple[Write, Path, str]] = []
    done: list[tuple[Write, Path]] = []
    current = writes[0].path if writes else Path()
    try:
        for write in writes:
            current = write.path
            target = Path(os.path.realpath(write.path))
            staged.append((write, target, _staged(target, write)))
        for write, target, _ in staged:
            current = write.path
            if write.old is not None and target.read_bytes() != write.old:
                raise NotWritten(write.path, "it changed while it was analysed")
        for write, target, name in staged:
            current = write.path
            os.replace(name, target)
            done.append((write, target))
    except OSError as error:
        for write, target in done:
            if write.old is not None:
                os.replace(_staged(target, Write(write.path, write.old, like=target)), target)
        vanished = isinstance(error, FileNotFoundError) and any(w.path == current and w.old is not None for w in writes)
        problem = "it vanished while it was analysed" if vanished else f"cannot be written: {error.strerror}"
        raise NotWritten(current, problem) from None
    finally:
        for _, _, name in staged[len(done) :]:
            with suppress(FileNotFoundError):
                os.unlink(name)


def _staged(target: Path, write: Write) -> str:
    """A new file beside the target that has all but its name."""
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(0, "it is read-only")
    if write.old is None:
        target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=".migrate-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(write.data)
            file.flush()
            os.fsync(file.fileno())
        if write.like.exists():
            if write.old is not None:
                _give_owner(name, os.stat(write.like))
            shutil.copystat(write.like, name)
            os.utime(name)
        else:
            os.chmod(name, 0o666 & ~_umask())
    except BaseException:
        os.unlink(name)
        raise
    return name


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _give_owner(name: str, wanted: os.stat_result) -> None:
    mine = os.stat(name)
    if (mine.st_uid, mine.st_gid) != (wanted.st_uid, wanted.st_gid):
        try:
            os.chown(name, wanted.st_uid, wanted.st_gid)
        except PermissionError:
            raise PermissionError(0, "it belongs to another user, and would not any more") from None


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Puts Ctrl-C off until the block is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came and callable(before):
            before(*came[0])


def is_regular(path: Path) -> bool:
    """Whether the path, or what it points to, is a file of bytes: reading a pipe or a device may never end."""
    return stat.S_ISREG(os.stat(path).st_mode)
