"""Copies of the frozen dataclasses of this package with some of their fields changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["replace"]

if TYPE_CHECKING:
    from dataclasses import replace  # what a type checker knows to check the names of the fields of
else:
    Record = TypeVar("Record")

    def replace(record: Record, **changes: Any) -> Record:
        """`dataclasses.replace` without its `__init__`, which sets each of up to twenty fields by a call of its own: an
        abstract run makes tens of thousands of copies. No record has slots, or a `__post_init__`."""
        copied = object.__new__(type(record))
        copied.__dict__.update(record.__dict__, **changes)
        return copied
