"""Where a thread is in the user's script: the innermost line that is neither lockstep's nor a library's."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator
from types import FrameType, TracebackType

_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # all of lockstep
# A function that AutoGraph has rewritten, into a temporary file of its own, knows AutoGraph by this name.
_AUTOGRAPH = "ag__"


def while_tracing() -> str:
    """The line of the script, "train.py:21", that makes this call while TensorFlow traces it; "" if none does."""
    from tensorflow.python.util import tf_stack

    # AutoGraph has entered the rewritten lines into TensorFlow's stack, under their lines in the script.
    return _first_of_script((frame.filename, frame.lineno) for frame in reversed(list(tf_stack.extract_stack())))


def of_thread(identity: int) -> str:
    """The line of the script where a thread is right now."""
    return _first_of_script(_callers(sys._current_frames().get(identity)))


def of_main_thread() -> str:
    return of_thread(threading.main_thread().ident or 0)


def traced_and_run(traced: str, running: str) -> str:
    """The line inside a traced function, and the one that runs the function."""
    return f"{traced}, run by {running}" if traced and running and traced != running else traced or running


def of_traceback(trace: TracebackType | None) -> str:
    """The innermost line of the script that an exception passed through."""
    frames = []
    while trace is not None:
        frames.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return _first_of_script((frame.f_code.co_filename, line) for frame, line in reversed(frames) if _is_own(frame))


def _callers(frame: FrameType | None) -> Iterator[tuple[str, int]]:
    while frame is not None:
        if _is_own(frame):
            yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def _is_own(frame: FrameType) -> bool:
    return _AUTOGRAPH not in frame.f_code.co_freevars


def _first_of_script(lines: Iterable[tuple[str, int]]) -> str:
    for file, number in lines:
        if is_of_script(file):
            return f"{shown(file)}:{number}"
    return ""


def is_of_script(file: str) -> bool:
    """Whether a source file belongs to the user: not to lockstep, an installed package or Python itself."""
    path = os.path.abspath(file)
    # An environment may be laid over another one, whose packages lie elsewhere.
    is_package = any(f"{os.sep}{folder}{os.sep}" in path for folder in ("site-packages", "dist-packages"))
    return not file.startswith("<") and not is_package and not path.startswith(_library_folders())


def shown(file: str) -> str:
    """The file as the user knows it: from the current folder if it is below."""
    return os.path.relpath(file) if os.path.abspath(file).startswith(os.getcwd() + os.sep) else file


def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [site.getusersitepackages(), *getattr(site, "getsitepackages", list)()]
    return (_OWN + os.sep, *(folder + os.sep for folder in folders))
