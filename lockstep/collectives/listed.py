"""Lists that are one array, as the labels of a batch: a row for each entry, and not a value to be sent for each."""

from __future__ import annotations

import numbers
from typing import Any


class NoRows(list):  # type: ignore[type-arg]
    """The list that is left of another one to a worker without rows; `like`: one of the rows that others have, which
    tells what is to be gathered."""

    def __init__(self, like: Any) -> None:
        super().__init__()
        self.like = [like]


def first_rows(value: Any) -> Any:
    """Of a list that is one array, rows as they all are."""
    return value.like if isinstance(value, NoRows) else value


def is_array(value: Any) -> bool:
    """Whether this is a list or tuple of nothing but numbers or texts, or a list of such that are equally long: the
    cuts take it for one array. A tuple of lists is several."""
    value = first_rows(value)
    if not isinstance(value, (list, tuple)) or hasattr(value, "_fields") or not value:
        return False
    if all(isinstance(entry, (numbers.Number, str, bytes)) for entry in value):
        return True
    return isinstance(value, list) and all(map(is_array, value)) and len({len(entry) for entry in value}) == 1
