"""What the script prints: standard output, its own lines on standard error, what it logs, and `tf.print`."""

from __future__ import annotations

import logging
import os
import sys
from functools import wraps
from pathlib import Path
from typing import Any

from migrator.verify.recorder import lines
from migrator.verify.recorder.journal import Journal

# The runtime's own lines are no lines of the script's.
_LOCKSTEP = str(Path(__file__).resolve().parents[3] / "lockstep") + os.sep


def watch_streams(journal: Journal) -> None:
    """Libraries print to standard error what is none of the training's: of that, only what the script prints itself."""
    sys.stdout = _Heard(sys.stdout, journal, is_all=True)
    sys.stderr = _Heard(sys.stderr, journal, is_all=False)


def watch_logging(journal: Journal) -> None:
    """The messages that the script logs, without their times."""
    original = logging.Logger.handle

    @wraps(original)
    def handle(logger: logging.Logger, message: logging.LogRecord) -> None:
        if os.path.abspath(message.pathname).startswith(journal.plan.root + os.sep):
            journal.printed(message.getMessage() + "\n", f"{os.path.abspath(message.pathname)}:{message.lineno}")
        original(logger, message)

    logging.Logger.handle = handle  # type: ignore[method-assign, assignment]


def watch_tensorflow(journal: Journal) -> None:
    """`tf.print`, which does not print through Python."""
    from tensorflow.python.ops import gen_logging_ops

    original = gen_logging_ops.print_v2

    @wraps(original)
    def print_v2(input: Any, output_stream: Any = "stderr", end: Any = "\n", name: Any = None) -> Any:
        if hasattr(input, "numpy") and output_stream in ("stdout", "stderr"):
            text = input.numpy().decode(errors="replace") + str(end)
            journal.printed(text, lines.of_script(journal.plan.root))
        return original(input, output_stream=output_stream, end=end, name=name)

    gen_logging_ops.print_v2 = print_v2


class _Heard:
    """A stream of which the journal hears what is written."""

    def __init__(self, stream: Any, journal: Journal, is_all: bool) -> None:
        self._stream = stream
        self._journal = journal
        self._is_all = is_all

    def write(self, text: str) -> Any:
        caller, root = sys._getframe(0).f_back, self._journal.plan.root
        if caller is not None:  # else Python tells an error that has ended the script
            file = os.path.abspath(caller.f_code.co_filename)
            if file.startswith(root + os.sep) or (self._is_all and not file.startswith(_LOCKSTEP)):
                self._journal.printed(text, lines.of_script(root))
        return self._stream.write(text)

    def writelines(self, several: Any) -> None:
        for text in several:
            self.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
