"""How results are written: the files of a program all or none, and never over what somebody else has changed."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType

from migrator.files.holding import held, own_file, own_name, sweep
from migrator.files.undo import Record, Replacement
from migrator.records import dataclass


@dataclass(frozen=True)
class Write:
    """New content for a path. `like` has the mode and the attributes that it gets.

    `old` is what the file held when it was read; None for a copy, which may replace anything.
    """

    path: Path
    data: bytes
    like: Path
    old: bytes | None = None

    @property
    def target(self) -> Path:
        """The file that is replaced: behind symbolic links."""
        return Path(os.path.realpath(self.path))


class NotWritten(Exception):
    """Nothing was written, because of this path; the message says why."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


def write_all(writes: Sequence[Write]) -> None:
    """Replaces the files, each in one step: a reader sees the old content or the new, whole, whenever this ends.

    Owner, mode and extended attributes stay. A symbolic link stays one: the file that it points to is replaced. What
    is no file, but a pipe or a device, is written to. Of two runs at once, one waits until the other has written.
    Raises NotWritten with all files as they were, but for copies.
    """
    with ExitStack() as stack:
        files = [write for write in writes if not _is_stream(write.path)]
        # In one order, so that two runs never wait for each other.
        for write in sorted(files, key=lambda write: write.target):
            with _blamed(write):
                _check_writable(write.target)
                stack.enter_context(held(write.target))
        for folder in {write.target.parent for write in files}:
            sweep(folder)
        ready: list[tuple[Write, Replacement]] = []
        for write in files:
            with _blamed(write):
                if write.old is None or _is_to_be_written(write):
                    _check_single(write.target)
                    ready.append((write, _prepared(write, stack)))
        if len(ready) > 1 and all(write.old is not None for write in files):
            _replace_all(ready)
        else:
            for write, replacement in ready:
                with _blamed(write):
                    os.replace(replacement.staged, replacement.target)
        for folder in {replacement.target.parent for _, replacement in ready}:
            _sync(folder)
    for write in writes:
        if write not in files:
            with _blamed(write):
                write.path.write_bytes(write.data)


def _replace_all(ready: Sequence[tuple[Write, Replacement]]) -> None:
    """All or none, even if this process is killed: the next run takes back what the record tells of."""
    with _blamed(ready[0][0]):
        record = Record([replacement for _, replacement in ready])
    done: list[Replacement] = []
    try:
        for write, replacement in ready:
            with _blamed(write):
                replacement.keep()
        for write, replacement in ready:
            with _blamed(write):
                os.replace(replacement.staged, replacement.target)
            done.append(replacement)
    except NotWritten:
        for replacement in done:
            replacement.take_back()
        record.end()
        raise
    record.end()


@contextmanager
def _blamed(write: Write) -> Iterator[None]:
    """Errors of the system within the block become NotWritten for this file."""
    try:
        yield
    except FileNotFoundError as error:
        message = f"cannot be written: {error.strerror}" if write.old is None else "it vanished while it was analysed"
        raise NotWritten(write.path, message) from None
    except OSError as error:
        raise NotWritten(write.path, f"cannot be written: {error.strerror}") from None


def _is_stream(path: Path) -> bool:
    """Whether there is a pipe or a device, as /dev/stdout is one: a file in its place would be of no use to anyone."""
    try:
        return not stat.S_ISREG(os.stat(path).st_mode) and not path.is_dir()
    except OSError:
        return False


def _is_to_be_written(write: Write) -> bool:
    """False where another run has written the same. Raises NotWritten where the file holds something else."""
    now = write.target.read_bytes()
    if now not in (write.old, write.data):
        raise NotWritten(write.path, "it changed while it was analysed")
    return now == write.old


def _check_writable(target: Path) -> None:
    """Raises PermissionError for what is marked as read-only: for root, too, to whom the system lets pass all."""
    for path, what in ((target, "it"), (target.parent, f"its folder, {target.parent},")):
        with suppress(FileNotFoundError):
            any_write = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
            if not os.stat(path).st_mode & any_write or not os.access(path, os.W_OK):
                raise PermissionError(0, f"{what} is read-only")


def _check_single(target: Path) -> None:
    """Refuses a file with other names: nobody can tell whether they are to follow it.

    The other name may be the same script in another place, or the only copy of how it was: `cp -al` makes such
    snapshots. Besides, all names follow only where the text is written over, which half-written files come of.
    """
    with suppress(FileNotFoundError):
        names = os.stat(target).st_nlink
        if names > 1:
            what = f"it has {names} names (hard links), and the others would keep the old text"
            raise OSError(0, f"{what}: write a copy with --output, or part them first (cp it, then mv the copy back)")


def _prepared(write: Write, stack: ExitStack) -> Replacement:
    """What takes the file's place, complete but for its name; nothing else stays when the stack ends."""
    folder = write.target.parent
    if write.old is None:
        folder.mkdir(parents=True, exist_ok=True)
    replacement = Replacement(write.target, _staged(write, stack), own_name(folder))
    stack.callback(_forget, replacement.kept)
    return replacement


def _forget(name: str) -> None:
    with suppress(OSError):
        os.unlink(name)


def _staged(write: Write, stack: ExitStack) -> str:
    handle, name = own_file(write.target.parent)
    stack.callback(os.close, handle)
    stack.callback(_forget, name)
    with os.fdopen(handle, "wb", closefd=False) as file:
        file.write(write.data)
        file.flush()
        os.fsync(handle)
    if write.like.exists():
        if write.old is not None:
            _give_owner(name, os.stat(write.like))
        shutil.copystat(write.like, name)
        os.utime(name)
    else:
        os.chmod(name, 0o666 & ~_umask())
    return name


def _sync(folder: Path) -> None:
    """Has the new names outlast a loss of power, where the file system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
