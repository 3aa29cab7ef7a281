"""One collective call: what the ranks compare of it, and how a message names it to the user."""

from __future__ import annotations

from dataclasses import dataclass

import tensorflow as tf

from lockstep.peers import call_names
from lockstep.script import lines


@dataclass(frozen=True)
class Call:
    """name: as the user knows it; description: equal on all ranks; traced_from: a line of the script, "" if eager."""

    name: str
    description: str
    traced_from: str

    def __str__(self) -> str:
        line = self.traced_from or lines.of_main_thread()
        return f"{self.name} at {line}" if line else self.name


def call_of(description: str) -> Call:
    """The call that is being made, or traced, right now."""
    traced_from = "" if tf.executing_eagerly() else lines.while_tracing()
    return Call(call_names.current() or description, description, traced_from)
