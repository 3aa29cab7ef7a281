"""What is still to be looked at, and grows while it is."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)


class Worklist(list[Item]):
    """Going through it gives each item once, the latest first, with those that are added meanwhile; and empties it."""

    def __iter__(self) -> Iterator[Item]:
        met: set[Item] = set()
        while self:
            item = self.pop()
            if item not in met:
                met.add(item)
                yield item
