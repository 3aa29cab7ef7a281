"""Variables of the runtime's own, which traced functions write, and by which their collective calls are in order.

TensorFlow runs writes to one variable in the order of the program, but not in graphs of gradients: there each call is
told to come after the last one.

The gradient of a branch (tf.cond) or of a loop cannot be traced with a variable that the branch has not seen:
"Tensor.graph is undefined when eager execution is enabled". So what has a gradient captures the registers where it is
traced itself, and its gradient reaches them by these handles.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import tensorflow as tf

Handles = Mapping["Register", Any]

_LAST = "_lockstep_last_call"  # an attribute of graphs
_registers: list[Register] = []
_handles: contextvars.ContextVar[Handles | None] = contextvars.ContextVar("lockstep_handles", default=None)


class Register:
    """A scalar that starts at 0, on the given device; lives as long as the process."""

    def __init__(self, name: str, dtype: Any, device: str) -> None:
        self._device = device
        self._variable = _made_aside(name, dtype, device)
        _registers.append(self)

    @property
    def handle(self) -> Any:
        return (_handles.get() or {}).get(self, self._variable.handle)

    def assign(self, value: Any) -> Any:
        """The op that does it; nothing is read."""
        with tf.device(self._device):
            return tf.raw_ops.AssignVariableOp(resource=self.handle, value=tf.cast(value, self._variable.dtype))

    def add(self, value: Any) -> Any:
        """The op that does it; nothing is read."""
        with tf.device(self._device):
            return tf.raw_ops.AssignAddVariableOp(resource=self.handle, value=tf.cast(value, self._variable.dtype))

    def read(self) -> Any:
        with tf.device(self._device):
            return tf.raw_ops.ReadVariableOp(resource=self.handle, dtype=self._variable.dtype)

    def now(self) -> int:
        """What it holds, from any thread."""
        return int(self._variable.numpy())


def _made_aside(name: str, dtype: Any, device: str) -> Any:
    """A variable that no function which is being traced has seen: one in whose first trace variables are made is traced
    again in its next call, and what the script does in Python runs once more than on one device."""

    def make() -> Any:
        with tf.init_scope(), tf.device(device):
            return tf.Variable(0, dtype=dtype, trainable=False, name=name)

    with ThreadPoolExecutor(1) as aside:
        return aside.submit(make).result()


def captured() -> Handles:
    """The registers as the graph has them that is being traced; none eagerly."""
    if tf.executing_eagerly():
        return {}
    graph = tf.compat.v1.get_default_graph()
    return {register: graph.capture(register.handle) for register in _registers}


def last_call() -> list[Any]:
    """The end of the last call in the graph that is being traced, after which the next one has to come."""
    return getattr(tf.compat.v1.get_default_graph(), _LAST, [])


def end_call(ops: list[Any]) -> None:
    setattr(tf.compat.v1.get_default_graph(), _LAST, ops)


@contextlib.contextmanager
def by(handles: Handles) -> Iterator[None]:
    """The scope of a gradient whose graph knows the registers by these handles."""
    token = _handles.set(handles)
    try:
        yield
    finally:
        _handles.reset(token)
