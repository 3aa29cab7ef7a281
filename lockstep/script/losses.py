"""What Keras's losses give for no rows: Keras 3 an empty array, where a sum over no rows is zero.

Of a batch with fewer rows than there are workers, some have none. An empty array empties what it is added to, a penalty
or a mean over all rows, and is no number that could be told. Keras 2 gives zero.
"""

from __future__ import annotations

import sys
from typing import Any

from lockstep.script.wrapping import wraps

_taught: set[Any] = set()


def give_zero_for_no_rows() -> None:
    """Let the losses of Keras 3 that are sums or means be zero where there are no rows, once for all."""
    keras = sys.modules.get("keras")
    cls = getattr(getattr(keras, "losses", None), "Loss", None)
    if cls is not None and cls not in _taught and str(getattr(keras, "__version__", "")).startswith("3"):
        _taught.add(cls)
        cls.__call__ = _of_any_rows(keras, cls.__call__)


def _of_any_rows(keras: Any, call: Any) -> Any:
    @wraps(call)
    def of_any_rows(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = call(self, *args, **kwargs)
        is_of_rows = self.reduction in (None, "none") or tuple(getattr(result, "shape", ())) != (0,)
        return result if is_of_rows else keras.ops.sum(result)

    return of_any_rows
