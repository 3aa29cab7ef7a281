"""What the script writes: noted with its line, kept in the scratch copy of the user's files, stopped outside."""

from __future__ import annotations

import inspect
import os
import shutil
import sys
import tempfile
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from migrator.verify.recorder.journal import Journal

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_TRUNC
# Folders of a user's in which libraries keep what can be had again.
_CACHES = (".cache", ".keras", ".config", ".matplotlib", ".nv", ".local/state")


class WritesOutside(PermissionError):
    """The script would write to a file of the user's."""


class Files:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._root = os.path.realpath(journal.plan.root)
        self._own = os.path.realpath(journal.plan.folder)
        home = os.path.expanduser("~")
        caches = [os.path.join(home, name) for name in _CACHES]
        caches += [os.environ[name] for name in ("XDG_CACHE_HOME", "KERAS_HOME", "MPLCONFIGDIR") if name in os.environ]
        self._allowed = [os.path.realpath(path) for path in (tempfile.gettempdir(), "/dev", "/proc", *caches)]
        self._is_noting = False

    def watch_python(self) -> None:
        """All that Python opens."""
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not self._is_noting:
            path, mode, flags = arguments
            writes = any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool(flags & _WRITING)
            if writes and isinstance(path, (str, bytes, os.PathLike)):
                self.writes(path)

    def writes(self, path: Any) -> None:
        """Raises WritesOutside for a path that is neither in the scratch copy nor temporary."""
        self._is_noting = True
        try:
            self._note(os.path.abspath(os.fsdecode(path)))
        finally:
            self._is_noting = False

    def _note(self, path: str) -> None:
        if os.path.islink(path) and _is_below(os.path.realpath(os.path.dirname(path)), self._root):
            _replace_link(path)
        real = os.path.realpath(path)
        if _is_below(real, self._own):
            return
        if _is_below(real, self._root):
            self._journal.wrote(os.path.relpath(real, self._root))
        elif _is_below(real, self._journal.plan.user_root) or not any(_is_below(real, p) for p in self._allowed):
            raise WritesOutside(
                f"migrate verify: the script writes to {real}, outside of its folder; nothing of yours is to be "
                "changed here: give it another path, by an argument, that is relative to the current folder"
            )

    def watch_tensorflow(self, tf: Any) -> None:
        """What TensorFlow writes without Python's open: files, records, checkpoints, summaries."""
        from tensorflow.python.lib.io import file_io
        from tensorflow.python.ops import gen_io_ops, gen_summary_ops

        prewrite = file_io.FileIO._prewrite_check

        @wraps(prewrite)
        def _prewrite_check(file: Any) -> None:
            self.writes(file.name)
            prewrite(file)

        file_io.FileIO._prewrite_check = _prewrite_check
        self._wrap(tf.io, "write_file", "filename")
        self._wrap(gen_io_ops, "write_file", "filename")
        self._wrap(gen_io_ops, "merge_v2_checkpoints", "destination_prefix")
        self._wrap(gen_summary_ops, "create_summary_file_writer", "logdir")
        start = tf.io.TFRecordWriter.__init__

        @wraps(start)
        def __init__(writer: Any, path: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            self.writes(path)
            start(writer, path, *args, **kwargs)

        tf.io.TFRecordWriter.__init__ = __init__

    def watch_h5py(self, h5py: ModuleType) -> None:
        original = h5py.File.__init__

        @wraps(original)
        def __init__(file: Any, name: Any, mode: str = "r", *args: Any, **kwargs: Any) -> None:  # noqa: N807
            if mode != "r" and isinstance(name, (str, bytes, os.PathLike)):
                self.writes(name)
            original(file, name, mode, *args, **kwargs)

        h5py.File.__init__ = __init__

    def _wrap(self, module: Any, name: str, argument: str) -> None:
        original = getattr(module, name, None)
        if original is None:
            return
        signature = inspect.signature(original)

        @wraps(original)
        def write(*args: Any, **kwargs: Any) -> Any:
            path = signature.bind(*args, **kwargs).arguments[argument]
            value = path.numpy() if hasattr(path, "numpy") else path
            if isinstance(value, (str, bytes, os.PathLike)):
                self.writes(value)
            return original(*args, **kwargs)

        setattr(module, name, write)


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _replace_link(path: str) -> None:
    """A file that the copy only links to is copied before it is written."""
    source = Path(os.path.realpath(path))
    os.unlink(path)
    if source.is_file():
        shutil.copy(source, path)
