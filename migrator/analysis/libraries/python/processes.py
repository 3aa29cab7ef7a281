"""How a program starts, what it says, and what each process has of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis.calls import Arguments, Handler
from migrator.analysis.frames import Frame
from migrator.analysis.placement import LOCAL
from migrator.analysis.values import NONE, NUMBER, Data, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run

# Each worker has its own.
_LOCAL = frozenset({
    "time.time", "time.monotonic", "time.perf_counter", "time.process_time", "timeit.default_timer", "os.getpid",
    "uuid.uuid4", "uuid.uuid1", "os.urandom", "secrets.token_hex", "socket.gethostname", "platform.node",
    "tempfile.mkdtemp", "tempfile.mkstemp", "tempfile.mktemp", "datetime.datetime.now", "datetime.datetime.utcnow",
    "datetime.datetime.today", "time.strftime", "builtins.id", "builtins.input", "tensorflow.timestamp",
})  # fmt: skip


def _nothing(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    return NONE


def _local(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    return Value(Data(LOCAL))


def _main(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`app.run(main)`: what a program starts with."""
    for _, value in args.all():
        if value.objects:
            run.calls.call(value, Arguments(rest=NUMBER), node, frame)
    return NONE


FUNCTIONS: dict[str, Handler] = {
    "builtins.print": _nothing,
    "builtins.open": lambda run, args, node, frame: NUMBER,
    "absl.app.run": _main,
    "tensorflow.compat.v1.app.run": _main,
    "tensorflow.app.run": _main,
    "fire.Fire": _main,
    **dict.fromkeys(_LOCAL, _local),
}
