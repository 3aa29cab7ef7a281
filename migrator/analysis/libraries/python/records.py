"""The fields of dataclasses: what an object has there that is called with nothing for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis.calls import Arguments, Handler
from migrator.analysis.frames import Frame
from migrator.analysis.values import Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run


def _field(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    factory, default = args.keywords.get("default_factory"), args.keywords.get("default")
    if factory is not None:
        return run.calls.call(factory, Arguments([]), node, frame)
    return default if default is not None else run.libraries.unread("dataclasses.field", args, node, frame)


FUNCTIONS: dict[str, Handler] = {"dataclasses.field": _field}
