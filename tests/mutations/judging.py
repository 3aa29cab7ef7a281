"""What `migrate --check` and `migrate verify` say of a port, and whether they point at what is wrong with it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from migrator.engine import migrate
from migrator.registry import choose
from migrator.verify.proof import OfOriginal, Settings, Unverifiable, prove_again
from migrator.verify.runs import Runner, TimedOut

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parents[1] / "fixtures" / "scripts"
# A worker that waits for one that has stopped is ended long before that.
SECONDS = 300.0


def scripts() -> dict[str, Path]:
    """The originals, by name."""
    found = [*FIXTURES.glob("*.py"), *(HERE / "scripts").glob("*.py")]
    return {path.stem: path for path in sorted(found, key=lambda path: path.stem)}


@dataclass(frozen=True)
class Said:
    """What one of the two says. places: [line, rule], of verify the one that it points to."""

    is_found: bool
    text: str
    places: tuple[tuple[int, str], ...] = ()

    def points(self, rules: frozenset[str], lines: Sequence[int]) -> str:
        """ "rule", "line", or "" where neither is right."""
        if any(rule in rules for _, rule in self.places):
            return "rule"
        return "line" if any(line in lines for line, _ in self.places) else ""


@dataclass
class Original:
    """A script, as it is migrated, and what its own runs left."""

    name: str
    text: str
    known: OfOriginal = field(default_factory=OfOriginal)

    @property
    def migrated(self) -> str:
        return migrate(self.text.encode(), choose()).text


def checked(port: str) -> Said:
    """What `migrate --check` finds in it."""
    outcome = migrate(port.encode(), choose())
    found = tuple((one.line, one.rule) for one in outcome.findings)
    text = "; ".join(dict.fromkeys(f"{one.line}: {one.rule}" for one in outcome.findings))
    return Said(bool(found), text, found)


def verified(original: Original, port: str, folder: Path, runs: Runner) -> Said:
    """What `migrate verify port.py --original original.py` says, in this folder."""
    folder.mkdir(parents=True)
    (folder / "original.py").write_text(original.text)
    (folder / "port.py").write_text(port)
    settings = Settings((folder / "port.py",), original=folder / "original.py", timeout=SECONDS)
    with _working_in(folder):
        try:
            proof = prove_again(settings, original.known, runs)
        except (Unverifiable, TimedOut) as error:
            return Said(False, f"ERROR {error} {getattr(error, 'output', '')[-300:]}")
    verdict = proof.verdict
    difference, cause = verdict.difference, verdict.cause
    place: tuple[tuple[int, str], ...] = ()
    if difference is not None or cause is not None:
        line = int((difference.line if difference else "").rpartition(":")[2] or 0)
        place = ((line, cause.rule if cause else ""),)
    text = f"{verdict.kind}: {verdict.reason}" + (f" [{place[0][0]}: {cause}]" if place else "")
    return Said(verdict.kind == "DIFFERENT", text, place)


def changed_lines(before: str, after: str) -> list[int]:
    """The lines of `after` that are new, and the one that follows where some are gone."""
    lines: list[int] = []
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    for tag, _, _, start, end in matcher.get_opcodes():
        if tag != "equal":
            lines += range(start + 1, max(end, start + 1) + 1)
    return lines


@contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
