"""Optimizers: losses that they minimize themselves, and scaled ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries import tensorflow
from migrator.analysis.libraries.keras.objects import Methods
from migrator.analysis.values import NUMBER, Bound, Curried, Function, Instance, Made, Site, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run


def _minimize(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    loss = args.get("loss", 0) or NUMBER
    if any(isinstance(a, (Function, Bound, Curried)) for a in loss):
        with run.making_loss():
            loss = run.calls.call(loss, Arguments(), node, frame)
    run.differentiate(node, loss)
    return NUMBER


def _own_gradients(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    tape = tensorflow.method(run, Made(tensorflow.TAPE, Site(node, ())), "gradient", args, node)
    return tape if tape is not None else NUMBER


def _scaled(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    return args.positional[0] if args.positional else NUMBER


METHODS: Methods = {
    "minimize": _minimize,
    "get_gradients": _own_gradients,
    "get_scaled_loss": _scaled,
    "scale_loss": _scaled,
    "get_unscaled_gradients": _scaled,
}
