"""Whole scripts: see scripts.txt.

A section of that file is `== name : words`, then the script. Words: `open`, `untrained`, as in case.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .case import Case


def _cases() -> Iterator[Case]:
    text = Path(__file__).with_name("scripts.txt").read_text()
    for section in ("\n" + text).split("\n== ")[1:]:
        head, _, script = section.partition("\n")
        name, _, words = head.partition(" : ")
        known = words.split()
        yield Case(
            "scripts", name.strip(), script.strip("\n") + "\n", untrained="untrained" in known, open="open" in known
        )


CASES = tuple(_cases())
