"""`--add-ignore`: comments that have all ignored which is found now, each above the statement that it speaks of."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from migrator.engine import migrate_program
from migrator.files.programs import Program
from migrator.findings.heeded import Heeding
from migrator.findings.results import Failure, Finding, Outcome
from migrator.findings.words import IGNORE
from migrator.records import dataclass
from migrator.registry import choose
from migrator.rule import Rule
from migrator.targets import Target
from migrator.text.lines import line_starts
from migrator.text.parsing import syntax_tree
from migrator.text.source import Source


@dataclass(frozen=True)
class _Ignore:
    """A rule that is to be ignored in the statement that begins on this line of a file, counted from 1."""

    line: int
    rule: str


def with_ignores(
    program: Program, rules: Sequence[Rule], target: Target, heeding: Heeding, reason: str
) -> dict[Path, Outcome | Failure]:
    """What comes of the files of a program with comments that have the findings of these rules ignored.

    Comments that would not be heeded, since the rest would train another model, are not written: the findings of an
    outcome are those.
    """
    looked = migrate_program(program, rules, target, replace(heeding, only_looks=True))
    texts = {path: _Text(one.old_text) for path, one in looked.items() if isinstance(one, Outcome) and one.findings}
    wanted = {path: set(texts[path].ignores(_findings(looked[path]))) for path in texts}
    # What is not asked about now counts where the comments are heeded.
    all_rules = list({rule.id: rule for rule in (*rules, *choose())}.values())
    refused: dict[tuple[Path, int, int, str], Finding] = {}
    while True:
        written = {path: text.commented(wanted[path], reason) for path, text in texts.items()}
        files = {path: Source.decode(program.files[path]).encode(text) for path, text in written.items()}
        commented = replace(program, files={**program.files, **files})
        again = migrate_program(commented, all_rules, target, heeding)
        left = {path: [f for f in _findings(again[path]) if f.rule in {rule.id for rule in rules}] for path in texts}
        before = {path: [text.before(f, wanted[path]) for f in left[path]] for path, text in texts.items()}
        unheeded = {path: wanted[path] & set(text.ignores(before[path])) for path, text in texts.items()}
        if not any(unheeded.values()):
            break
        for path, several in before.items():
            refused.update(((path, f.line, f.column, f.rule), f) for f in several)
        wanted = {path: wanted[path] - unheeded[path] for path in texts}
    done = dict(looked)
    for path, text in texts.items():
        # Without its comment, a finding does not say why that would not do.
        why = [refused.get((path, f.line, f.column, f.rule), f) for f in before[path]]
        now = [replace(f, line=at.line, end_line=at.end_line) for f, at in zip(why, left[path])]
        outcome = Outcome(program.files[path], files[path], tuple(why), text.text, written[path], tuple(now))
        failure = again[path]
        done[path] = failure if isinstance(failure, Failure) else outcome
    return done


def _findings(outcome: Outcome | Failure) -> tuple[Finding, ...]:
    return outcome.findings if isinstance(outcome, Outcome) else ()


class _Text:
    """A text with the places of its statements."""

    def __init__(self, text: str) -> None:
        self.text = text
        starts = [*line_starts(text), len(text)]
        self._lines = [text[start:end] for start, end in zip(starts, starts[1:])]
        self._statements = sorted(self._found(), key=lambda statement: statement[:2])

    def _found(self) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Where each statement begins and ends, as lines and columns from 1."""
        try:
            tree = syntax_tree(self.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return  # of a newer Python than the one at hand
        for node in ast.walk(tree):
            if isinstance(node, ast.stmt):
                first: ast.expr | ast.stmt = min(
                    (node, *getattr(node, "decorator_list", ())), key=lambda one: one.lineno
                )
                # The @ of a decorator stands before it.
                start = (first.lineno, 1) if first is not node else (first.lineno, self._column(first))
                yield start, (node.end_lineno or node.lineno, 1 + len(self._lines[(node.end_lineno or 1) - 1]))

    def _column(self, node: ast.stmt) -> int:
        line = self._lines[node.lineno - 1]
        return 1 + len(line.encode("utf-8")[: node.col_offset].decode("utf-8", "ignore"))

    def ignores(self, findings: Collection[Finding]) -> Iterator[_Ignore]:
        """The comments that have the findings ignored; none for those that no comment can stand above."""
        for finding in findings:
            line = self._line_of_statement((finding.line, finding.column))
            if line is not None:
                yield _Ignore(line, finding.rule)

    def _line_of_statement(self, place: tuple[int, int]) -> int | None:
        """The line on which the innermost statement around a place begins, if a comment may stand above it."""
        around = [start for start, end in self._statements if start <= place <= end]
        if not around:
            return None
        line = max(around)[0]
        first = min(start for start, _ in self._statements if start[0] == line)
        is_continued = line > 1 and self._lines[line - 2].rstrip("\r\n").endswith("\\")
        return None if self._lines[line - 1][: first[1] - 1].strip() or is_continued else line

    def commented(self, ignores: Collection[_Ignore], reason: str) -> str:
        """The text with the comments."""
        rules: dict[int, list[str]] = {}
        for one in sorted(ignores, key=lambda one: (one.line, one.rule)):
            rules.setdefault(one.line, []).append(one.rule)
        new = []
        for number, line in enumerate(self._lines, start=1):
            if number in rules:
                indent = line[: len(line) - len(line.lstrip(" \t\f"))]
                end = line[len(line.rstrip("\r\n")) :] or "\n"
                new.append(f"{indent}# migrate: {IGNORE}[{', '.join(rules[number])}] {reason}{end}")
            new.append(line)
        return "".join(new)

    def before(self, finding: Finding, ignores: Collection[_Ignore]) -> Finding:
        """A finding of the text with these comments, with its lines in the one without them."""
        before = self._before(finding.line, ignores)
        return replace(finding, line=before, end_line=finding.end_line - (finding.line - before))

    def _before(self, line: int, ignores: Collection[_Ignore]) -> int:
        for above in sorted({one.line for one in ignores}, reverse=True):
            # Its comment took the place of the statement, which stands one further below for each comment above it.
            shift = len({one.line for one in ignores if one.line <= above})
            if line >= above + shift:
                return line - shift
        return line
