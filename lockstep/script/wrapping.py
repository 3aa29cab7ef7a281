"""functools.wraps for what scripts call in a tf.function: AutoGraph would convert what is wrapped, and leave out the
wrapper, if the wrapper told of it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def wraps(wrapped: Any) -> Callable[[Any], Any]:
    def named(wrapper: Any) -> Any:
        functools.update_wrapper(wrapper, wrapped)
        del wrapper.__wrapped__
        return wrapper

    return named
