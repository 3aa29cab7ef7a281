"""Files that a script imports by their names as texts: `importlib.import_module("exp1")`."""

from __future__ import annotations

import re
from collections.abc import Iterator

_CALL = re.compile(
    rb"\b(?:import_module|__import__|run_module)\(\s*(?:name\s*=\s*)?"
    rb"(?:(?P<quote>[\"'])(?P<dots>\.*)(?P<module>[\w.]+)(?P=quote)\s*[,)])?"
)
_WORD = re.compile(rb"(?<![\w\"'])(?P<quote>[\"'])(?P<dots>\.*)(?P<words>[\w.]+(?:,[\w.]+)*)(?P=quote)")
# What may give something of another file, or of a library, another value.
_SETTING = re.compile(rb"^[ \t]*(?:\w+\.)+\w+[ \t]*(?::[^=\n]+)?=[^=]|\bsetattr\(|\bmock\b|__dict__|\bmodules\b", re.M)


def told(data: bytes) -> Iterator[tuple[int, str]]:
    """The modules that are imported by a text that stands there: dots, and the name."""
    for match in _CALL.finditer(data):
        if match["module"] is not None:
            yield len(match["dots"]), match["module"].decode()


def is_open(data: bytes) -> bool:
    """Whether the script imports something by a name that does not stand there."""
    return any(match["module"] is None for match in _CALL.finditer(data))


def perhaps(data: bytes) -> Iterator[tuple[int, str]]:
    """The names that the texts of a script may be where it imports by one that does not stand in the call."""
    if is_open(data):
        for match in _WORD.finditer(data):
            for word in match["words"].split(b","):
                yield len(match["dots"]), word.decode().strip(".")


def may_set(data: bytes) -> bool:
    """Whether the file may change what others see: one that is imported by a name does that by itself."""
    return bool(_SETTING.search(data))
