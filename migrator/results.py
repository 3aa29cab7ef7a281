"""What comes of the files of a run: findings, outcomes and failures as values, which reports are made from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Finding:
    """What a rule says of one site, as the user reads it. Lines and columns count from 1."""

    line: int
    column: int
    rule: str
    message: str
    advice: str = ""
    is_refusal: bool = False


class Failure(Exception):
    """Why a file is left alone. Lines and columns count from 1; None where no place is to blame."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message, line, column)
        self.message = message
        self.line = line
        self.column = column

    def __str__(self) -> str:
        return self.message if self.line is None else f"{self.line}:{self.column}: {self.message}"


class Defect(Failure):
    """An error of this tool, not of the script."""


@dataclass(frozen=True)
class Outcome:
    """What came of one file. `data` is the new content; equal to the old where nothing was to be done."""

    old: bytes
    data: bytes
    findings: tuple[Finding, ...] = ()
    old_text: str = ""
    text: str = ""

    @property
    def is_changed(self) -> bool:
        return self.data != self.old

    @property
    def refusals(self) -> list[Finding]:
        return [f for f in self.findings if f.is_refusal]

    @property
    def is_ported(self) -> bool:
        """Whether nothing is left to do."""
        return not self.is_changed and not self.refusals
