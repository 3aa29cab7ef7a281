"""An instance that behaves otherwise in one respect, and is in all others what it was: of its class, saved as ever.

Its type becomes a subclass of its own class, which it still names as its `__class__`.
"""

from __future__ import annotations

import contextlib
import copy
import types
from collections.abc import Callable, Iterator
from typing import Any


def disguised(cls: type, members: dict[str, Any], again: Callable[[Any], Any]) -> type:
    """A subclass with these members; `again` makes such an instance of a plain copy."""

    def deepcopy(self: Any, memo: Any) -> Any:
        with _as_plain(self, cls):
            duplicate = copy.deepcopy(self, memo)
        return again(duplicate)

    def reduce_ex(self: Any, protocol: Any) -> Any:
        with _as_plain(self, cls):
            return self.__reduce_ex__(protocol)

    def fill(namespace: dict[str, Any]) -> None:
        namespace.update(members)
        namespace["__deepcopy__"] = deepcopy
        namespace["__reduce_ex__"] = reduce_ex
        # What Keras writes about an object of a class that it knows differs from what it writes about any other.
        namespace["__class__"] = property(lambda self: cls)
        namespace["__module__"] = cls.__module__
        namespace["__qualname__"] = cls.__qualname__
        namespace["__doc__"] = cls.__doc__

    return types.new_class(cls.__name__, (cls,), exec_body=fill)


def become(instance: Any, cls: type) -> None:
    vars(object)["__class__"].__set__(instance, cls)


@contextlib.contextmanager
def _as_plain(instance: Any, cls: type) -> Iterator[None]:
    """Inside, the instance is of its own class: it is copied as ever, and pickled as one that does nothing else."""
    other = type(instance)
    become(instance, cls)
    try:
        yield
    finally:
        become(instance, other)
