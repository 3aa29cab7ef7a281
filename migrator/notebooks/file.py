"""A notebook's file: only the sources of cells that change are written anew, every other byte stays.

nbformat would write the whole file in its own layout.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from migrator.findings.results import Defect, Failure
from migrator.notebooks.cells import joined, parted
from migrator.notebooks.magics import commented, masked, unmasked
from migrator.records import dataclass
from migrator.text.parsing import is_python

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_FORMAT = 4


class UnreadableNotebook(Failure):
    """The bytes are no notebook of Python; the message says why and what to do."""


@dataclass(frozen=True)
class _Cell:
    """A code cell. Its source stands from `start` to before `end` in the file: a string, or a list of them."""

    source: str
    start: int
    end: int


@dataclass(frozen=True)
class Notebook:
    """`cells`: the code cells by their numbers among all cells."""

    text: str
    has_bom: bool
    cells: dict[int, _Cell]

    @classmethod
    def read(cls, data: bytes) -> Notebook:
        """Raises UnreadableNotebook."""
        has_bom = data.startswith(b"\xef\xbb\xbf")
        try:
            text = data.decode("utf-8-sig")
            document = json.loads(text)
            _expect_python(document)
            found = cls(text, has_bom, dict(_cells(text)))
        except (ValueError, RecursionError) as error:
            raise UnreadableNotebook(f"this is no notebook: {error}") from None
        except (KeyError, TypeError, AttributeError):
            raise UnreadableNotebook("this is no notebook: it has no cells as nbformat describes them") from None
        script = found.script
        if {n: unmasked(cell) for n, cell in parted(script).items()} != {n: c.source for n, c in found.cells.items()}:
            raise UnreadableNotebook("a line of it looks like one that this tool writes to keep cells or magics apart")
        return found

    @property
    def script(self) -> str:
        """The code of the notebook as one script."""
        return joined({number: masked(cell.source) for number, cell in self.cells.items()})

    def rewritten(self, script: str) -> bytes:
        """The file with what the script has in its cells. Raises Defect where the cells are not those of the file."""
        old, new = parted(self.script), parted(script)
        if old.keys() != new.keys():
            raise Defect("the changes would not leave the cells apart")
        pieces, position = [], 0
        for number, cell in self.cells.items():
            if new[number] != old[number]:
                if not is_python(new[number]):
                    raise Defect(f"a change would reach beyond cell {number}")
                pieces += [self.text[position : cell.start], self._encoded(cell, unmasked(new[number]))]
                position = cell.end
        text = "".join((*pieces, self.text[position:]))
        return text.encode("utf-8-sig" if self.has_bom else "utf-8")

    def launchable(self, script: str) -> bytes:
        """The script as a file that Python runs, with the commands of IPython as comments. Raises Failure."""
        cells = {}
        for number, cell in parted(script).items():
            text = commented(cell)
            if text is None:
                raise Failure(f"cell {number} needs a magic, which a script has not: do the same in Python")
            cells[number] = text
        text = joined(cells)
        try:
            compile(text, "script", "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise Failure(f"as a script this would not run: {getattr(error, 'msg', error)}") from None
        return text.encode("utf-8")

    def _encoded(self, cell: _Cell, source: str) -> str:
        """The source as it is written in JSON, in the layout of the old one; lines that stay keep their spelling."""
        old = self.text[cell.start : cell.end]
        is_ascii = self.text.isascii() and "\\u" in self.text
        if old.startswith('"'):
            return json.dumps(source, ensure_ascii=is_ascii)
        items = list(_items(self.text, cell.start))
        if not items:
            return json.dumps([source], ensure_ascii=is_ascii)
        spelled = {json.loads(self.text[start:end]): self.text[start:end] for start, end in items}
        opening = self.text[cell.start + 1 : items[0][0]]
        closing = self.text[items[-1][1] : cell.end - 1]
        lines = [line for line in re.split(r"(?<=\n)", source) if line]
        written = [spelled.get(line) or json.dumps(line, ensure_ascii=is_ascii) for line in lines]
        return f"[{opening}{(',' + (opening or ' ')).join(written)}{closing}]"


def script_of(data: bytes) -> bytes:
    """The script of a notebook; nothing for one of another language. Raises Failure."""
    try:
        return Notebook.read(data).script.encode("utf-8")
    except OtherLanguage:
        return b""


class OtherLanguage(UnreadableNotebook):
    """A notebook of another kernel than Python's."""


def _expect_python(document: Any) -> None:
    if document["nbformat"] != _FORMAT:
        advice = "jupyter nbconvert --to notebook --inplace makes a new one of it"
        raise UnreadableNotebook(f"this is a notebook of format {document['nbformat']}, not {_FORMAT}: {advice}")
    metadata = document.get("metadata", {})
    language = metadata.get("kernelspec", {}).get("language") or metadata.get("language_info", {}).get("name")
    if language and language.lower() not in ("python", "ipython"):
        raise OtherLanguage(f"this is a notebook in {language}")


def _cells(text: str) -> Iterator[tuple[int, _Cell]]:
    cells = _members(text, _after_space(text, 0))["cells"]
    for number, (start, _) in enumerate(_items(text, cells[0]), start=1):
        members = _members(text, start)
        if json.loads(text[slice(*members["cell_type"])]) == "code":
            source = json.loads(text[slice(*members["source"])])
            yield number, _Cell(source if isinstance(source, str) else "".join(source), *members["source"])


def _members(text: str, at: int) -> dict[str, tuple[int, int]]:
    """Where the values of an object stand, by their keys; `text` is JSON, and the object begins at `at`."""
    found = {}
    at = _after_space(text, at + 1)
    while text[at] != "}":
        key, at = scanstring(text, at + 1)
        start = _after_space(text, _after_space(text, at) + 1)
        _, at = _DECODER.raw_decode(text, start)
        found[key] = (start, at)
        at = _next(text, at)
    return found


def _items(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Where the values of a list stand."""
    at = _after_space(text, at + 1)
    while text[at] != "]":
        start = at
        _, at = _DECODER.raw_decode(text, start)
        yield start, at
        at = _next(text, at)


def _next(text: str, at: int) -> int:
    at = _after_space(text, at)
    return _after_space(text, at + 1) if text[at] == "," else at


def _after_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()
