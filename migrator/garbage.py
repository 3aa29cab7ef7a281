"""How often Python looks for garbage among what an analysis makes, most of which lives until it ends."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

# As many there are between two collections of garbage.
_NEW_OBJECTS = 100_000


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Python would look through all that is made again and again while it grows, and find little but the rounds that
    are given up."""
    before = gc.get_threshold()
    gc.set_threshold(_NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def collect_seldom() -> None:
    """From here on, in a process of one command: modules, which take long to import, make nothing but what stays, and
    what is left at the end need not be told apart once more."""
    gc.set_threshold(_NEW_OBJECTS)
    atexit.register(gc.freeze)
