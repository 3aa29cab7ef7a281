"""Records: dataclasses that nobody changes once they are made, and copies of them with some fields changed.

That they are frozen is what type checkers hold everyone to. At run time it would cost a call for each field of each
record that is made, and an abstract run makes tens of thousands, of up to twenty fields; and a third of the time that
it takes to make the classes, whenever the tool starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, TypeVar

__all__ = ["dataclass", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass, replace
else:
    import dataclasses

    Record = TypeVar("Record")

    def dataclass(
        cls: type | None = None, *, frozen: bool = False, eq: bool = True, **options: Any
    ) -> type | Callable[[type], type]:
        """`dataclasses.dataclass`, without what keeps others from changing a frozen one. Hashed as that is."""

        def made(cls: type) -> type:
            is_hashed = frozen and eq and vars(cls).get("__hash__") is None
            return dataclasses.dataclass(cls, eq=eq, unsafe_hash=is_hashed, **options)

        return made if cls is None else made(cls)

    def replace(record: Record, **changes: Any) -> Record:
        """`dataclasses.replace` without its `__init__`. No record that this is asked of has slots, or a
        `__post_init__`."""
        copied = object.__new__(type(record))
        fields = record.__dict__.copy()
        fields.update(changes)
        copied.__dict__ = fields
        return copied
