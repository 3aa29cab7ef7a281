"""Files that one process holds, so that no other writes or takes them away meanwhile; the system lets go of them when
the process ends, however it does. Where a file system has no such locks, nothing is held and nothing taken away."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # a system without such locks
    fcntl = None  # type: ignore[assignment]

_PREFIX, _SUFFIX = ".migrate-", ".tmp"
_OWN_NAME = re.compile(r"\.migrate-[a-z0-9_]{8}\.tmp")
# Seconds. A run holds a file for as long as its few writes take.
_LONGEST_WAIT = 20.0
# Seconds, after which a file of a run has got its lock.
_YOUNGEST_LEFTOVER = 60.0


def own_file(folder: Path, suffix: str = _SUFFIX) -> tuple[int, str]:
    """A new file of this tool's in the folder, held until its handle is closed; its name is swept if it stays."""
    handle, name = tempfile.mkstemp(dir=folder, prefix=_PREFIX, suffix=suffix)
    lock(handle)
    return handle, name


def own_name(folder: Path) -> str:
    """A name for a link, which is swept if it stays."""
    return tempfile.mktemp(dir=folder, prefix=_PREFIX, suffix=_SUFFIX)


def lock(handle: int) -> bool:
    """Whether no other process holds the file; so it counts where there are no locks. This one does from now on."""
    return _lock(handle) is not False


def _lock(handle: int) -> bool | None:
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


@contextmanager
def held(target: Path) -> Iterator[None]:
    """Waits until no other run writes the file, and keeps others waiting. Raises OSError if one does not end."""
    deadline = time.monotonic() + _LONGEST_WAIT
    while True:
        try:
            handle = os.open(target, os.O_RDONLY)
        except (FileNotFoundError, PermissionError):
            yield  # a new file, or one that may not be read: whoever comes last has written it
            return
        try:
            if lock(handle):
                if _is_named(handle, target):
                    yield
                    return
            elif time.monotonic() > deadline:
                raise OSError(0, "another process holds it")
            else:
                time.sleep(0.02)
        finally:
            os.close(handle)


def _is_named(handle: int, path: Path) -> bool:
    """Whether this is still the file of that name: the run that held it may have replaced it."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return True  # what is to be said of that is said by who reads it


@contextmanager
def abandoned(name: str) -> Iterator[bytes | None]:
    """What a file holds whose process is gone; it is held meanwhile. None where the process may be at work."""
    try:
        handle = os.open(name, os.O_RDONLY)
    except OSError:
        yield None
        return
    try:
        with os.fdopen(handle, "rb", closefd=False) as file:
            yield file.read() if _lock(handle) else None
    finally:
        os.close(handle)


def sweep(folder: Path) -> None:
    """Takes away what runs have left in the folder that were killed."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not _OWN_NAME.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                continue
            if time.time() - entry.stat().st_mtime < _YOUNGEST_LEFTOVER:
                continue
            with abandoned(entry.path) as data, suppress(OSError):
                if data is not None:
                    os.unlink(entry.path)
