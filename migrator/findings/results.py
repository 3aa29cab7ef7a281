"""What comes of the files of a run: findings, outcomes and failures as values, which reports are made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from migrator.records import dataclass


@dataclass(frozen=True, order=True)
class Finding:
    """What a rule says of one site, as the user reads it. Lines and columns count from 1.

    The site ends before `end_column` of `end_line`; of a compound statement it is the header. `scope` is the dotted
    name of the function or class that holds it, empty at the top of the file. `ignored_by` is the user's word that has
    it ignored, with the reason that it gives.
    """

    line: int
    column: int
    rule: str
    message: str
    advice: str = ""
    is_refusal: bool = False
    end_line: int = 0
    end_column: int = 0
    scope: str = ""
    ignored_by: str = ""


@dataclass(frozen=True)
class Change:
    """A piece of the old text, from offset `start` to before `end`, and what stands in its place in the new one.

    `findings` are those that it comes of; none where it only serves others, as the import of the runtime does.
    """

    start: int
    end: int
    new: str
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Remarks:
    """What the user should know beside the findings: what was taken on trust, with the rule that did (none where the
    user's word on a value was), and which comments of the user's nothing needed."""

    trusted: tuple[Finding, ...] = ()
    unused: tuple[Finding, ...] = ()


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
    """What came of one file. `data` is the new content; equal to the old where nothing was to be done.

    `findings` have their places in the old text, `findings_after`, the same ones, in the new one. `changes` made
    together, and in their order, give the new text. `lacking` are rules that were not asked, although those that
    changed the file rely on them, as (rule, rule that it relies on). `read` are the functions and classes of packages,
    by their dotted names, whose code its program was understood by. `trains_whole`: every worker trains on all of the
    data of the program.
    """

    old: bytes
    data: bytes
    findings: tuple[Finding, ...] = ()
    old_text: str = ""
    text: str = ""
    findings_after: tuple[Finding, ...] = ()
    lacking: tuple[tuple[str, str], ...] = ()
    changes: tuple[Change, ...] = ()
    remarks: Remarks = Remarks()
    remarks_after: Remarks = Remarks()
    read: tuple[str, ...] = ()
    trains_whole: bool = False

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


# What the user made of the changes to a file, where each training was asked about: left them, or wrote other ones.
LEFT, EDITED = "left", "edited"


@dataclass(frozen=True)
class FileResult:
    """A file of the run, by the name that the user gave it, with what came of it."""

    name: str
    outcome: Outcome | Failure
    # Where its new content is now; empty where nothing was written.
    written: str = ""
    # A unit test in a folder: left as it is.
    is_passed_over: bool = False
    # Python starts here: no other file of its program imports it.
    is_start: bool = False
    # The files of its program that it imports, by their names.
    imports: tuple[str, ...] = ()
    # Those of the outcome's findings that the baseline has.
    accepted: frozenset[Finding] = frozenset()
    # LEFT or EDITED; empty where all was taken or nobody was asked. The outcome of an edited file is what is left now.
    answer: str = ""

    @property
    def is_in_place(self) -> bool:
        """Whether the file of this name has the new content."""
        return self.written != "" and self.written == self.name

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Where they stand in the file of this name as it is now; without the accepted ones."""
        return tuple(now for before, now in self.found if before not in self.accepted)

    @property
    def found(self) -> Iterator[tuple[Finding, Finding]]:
        """Each finding, where it stood in the file and where it stands now."""
        if not isinstance(self.outcome, Outcome):
            return iter(())
        return zip(self.outcome.findings, self.outcome.findings_after if self.is_in_place else self.outcome.findings)

    @property
    def remarks(self) -> Remarks:
        """As the findings."""
        if not isinstance(self.outcome, Outcome):
            return Remarks()
        return self.outcome.remarks_after if self.is_in_place else self.outcome.remarks

    @property
    def is_changed(self) -> bool:
        return isinstance(self.outcome, Outcome) and self.outcome.is_changed

    @property
    def refusals(self) -> list[Finding]:
        return [f for f in self.findings if f.is_refusal]


@dataclass(frozen=True, order=True)
class Gone:
    """So many findings of a rule that were accepted in a scope of a file and are not there any more."""

    path: str
    rule: str
    scope: str
    count: int


NOTHING_LEFT, SOMETHING_LEFT, ERROR, INTERRUPTED = 0, 1, 2, 130


@dataclass
class RunResult:
    """What came of a run: what every report is made from."""

    files: list[FileResult] = field(default_factory=list)
    is_interrupted: bool = False
    # What the baseline has, but was not found; None where no baseline was asked for.
    gone: tuple[Gone, ...] | None = None
    # What a run that was killed had written of a program, and this one has put back before it began.
    put_back: tuple[str, ...] = ()

    @property
    def failed(self) -> list[FileResult]:
        return [f for f in self.files if isinstance(f.outcome, Failure)]

    @property
    def changed(self) -> list[FileResult]:
        """The files that changed as the rules have it, or would."""
        return [f for f in self.files if f.is_changed and not f.answer]

    @property
    def answered(self) -> list[FileResult]:
        """The files whose changes the user left or edited."""
        return [f for f in self.files if f.answer and not isinstance(f.outcome, Failure)]

    @property
    def refused(self) -> list[FileResult]:
        return [f for f in self.files if f.refusals]

    @property
    def passed_over(self) -> list[FileResult]:
        return [f for f in self.files if f.is_passed_over]

    @property
    def unchanged(self) -> list[FileResult]:
        """The files with nothing to do."""
        return [
            f
            for f in self.files
            if not (f.is_passed_over or f.is_changed or f.answer or f.refusals or isinstance(f.outcome, Failure))
        ]

    def exit_code(self, *, writes: bool) -> int:
        if self.is_interrupted:
            return INTERRUPTED
        if self.failed:
            return ERROR
        unwritten = [f for f in (self.answered if writes else self.files) if f.is_changed]
        return SOMETHING_LEFT if self.refused or any(map(self._is_to_change, unwritten)) else NOTHING_LEFT

    def _is_to_change(self, file: FileResult) -> bool:
        """Whether not all of its changes are accepted."""
        return self.gone is None or bool(file.findings)
