"""The cases of fixtures/<rule>/<case>: what goes in, what must come out, and how the two look in other layouts."""

from __future__ import annotations

import io
import tokenize
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click

from migrator.engine import migrate
from migrator.findings.heeded import Heeding
from migrator.findings.results import FileResult, Outcome
from migrator.registry import choose
from migrator.report import text
from migrator.targets import target_named

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
INDENT = 4  # columns that the fixtures use for one level
_INSIDE_STRINGS = {getattr(tokenize, name) for name in ("FSTRING_MIDDLE",) if hasattr(tokenize, name)}


@dataclass(frozen=True)
class Case:
    """One folder: `before.py`, `after.py` where the script is changed, `refused.txt` where sites are refused, and
    `whole.py`, the script as it comes out if every worker may train on all of the data instead.

    For another target than lockstep the files carry its name (`after.npu.py`, `refused.npu.txt`), and the folder is a
    case of that target where it has one of them.
    """

    folder: Path
    target: str = "lockstep"

    @property
    def rule(self) -> str:
        return self.folder.parent.name

    @property
    def name(self) -> str:
        return f"{self.rule}/{self.folder.name}{self._mark}"

    @property
    def before(self) -> str:
        return self._read(self.folder / "before.py")

    @property
    def after(self) -> str:
        """The script as it must come out; the original where nothing may be changed."""
        return self._read(self.after_path) if self.is_changed else self.before

    @property
    def refusals(self) -> list[str]:
        return self._read(self.refused_path).splitlines() if self.is_refused else []

    @property
    def is_changed(self) -> bool:
        return self.after_path.exists()

    @property
    def is_refused(self) -> bool:
        return self.refused_path.exists()

    @property
    def whole_path(self) -> Path:
        return self.folder / "whole.py"

    @property
    def after_path(self) -> Path:
        return self.folder / f"after{self._mark}.py"

    @property
    def refused_path(self) -> Path:
        return self.folder / f"refused{self._mark}.txt"

    @property
    def _mark(self) -> str:
        return "" if self.target == "lockstep" else f".{self.target}"

    def run(self, script: str) -> Outcome:
        """What the command makes of the script with the rules that are on by default, and with that of the case."""
        return run(script, self.target, extend_select=[self.rule])

    @staticmethod
    def _read(path: Path) -> str:
        return path.read_bytes().decode()


def cases(target: str = "lockstep") -> list[Case]:
    """The cases of the target, by name."""
    found = [Case(path.parent, target) for path in sorted(FIXTURES.glob("*/*/before.py"))]
    return found if target == "lockstep" else [c for c in found if c.is_changed or c.is_refused]


def run(
    script: str, target: str = "lockstep", extend_select: Collection[str] = (), *, may_train_whole: bool = False
) -> Outcome:
    """All rules on the script, as the command runs them, most often without its last resort."""
    return _outcome(script, target, tuple(extend_select), may_train_whole)


@cache  # several tests ask what comes of the same case
def _outcome(script: str, target: str, extend_select: tuple[str, ...], may_train_whole: bool) -> Outcome:
    rules, heeding = choose(extend_select=extend_select), Heeding(may_train_whole=may_train_whole)
    return migrate(script.encode(), rules, target_named(target), heeding)


def refusal_lines(outcome: Outcome) -> list[str]:
    """What the command reports as refused, without colour, path and advice."""
    lines = [click.unstyle(line) for line in text.findings(FileResult("", outcome), with_edits=False)]
    return [line[1:] for line in lines if not line.startswith(" ")]


def with_crlf(script: str) -> str:
    return script.replace("\n", "\r\n")


def with_tabs(script: str) -> str:
    """The script with its blocks indented by tabs; what is aligned within a statement stays aligned by spaces."""
    depths = _block_depths(script)
    lines = script.splitlines(keepends=True)
    for number, depth in depths.items():
        line = lines[number - 1]
        if line.startswith(" " * (INDENT * depth)):
            lines[number - 1] = "\t" * depth + line[INDENT * depth :]
    return "".join(lines)


def _block_depths(script: str) -> dict[int, int]:
    """The depth of the block that each line belongs to, by line number; without the lines that start in a string."""
    depth, depths, inside = 0, {}, set()
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(script).readline):
        if token.type == tokenize.INDENT:
            depth += 1
        elif token.type == tokenize.DEDENT:
            depth -= 1
        elif token.type == tokenize.STRING or token.type in _INSIDE_STRINGS:
            inside.update(range(token.start[0] + 1, token.end[0] + 1))
        if token.type not in (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT):
            for number in range(last + 1, token.end[0] + 1):
                depths[number] = depth
            last = max(last, token.end[0])
    end = script.count("\n")  # the last tokens stand on a line that is not there
    return {number: depth for number, depth in depths.items() if number not in inside and number <= end}
