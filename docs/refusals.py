"""docs/refusals.md: each reason to refuse something, with what to write instead, out of the fixtures."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from pathlib import Path

from migrator.engine import migrate
from migrator.findings.heeded import Heeding
from migrator.findings.results import Finding
from migrator.registry import all_rules, choose

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
_TITLE = """# Refusals

Printed from the rules and their fixtures by `make docs`. A refusal names a site that `migrate` leaves alone, because it
could not be changed safely. Where the rest would train another model without it, every worker trains on all of the data
instead, if nothing but the split speaks against that: the report has the reason all the same, as taken on trust. With
`--no-whole` or `--strict`, and in all other programs, the whole program stays as it is. Each
section has the reason as it is printed (`…` for what differs from script to script), what to do, and what changes in a
script in which that was done, of which `migrate` then refuses nothing; where there is no such script, the line that is
refused. What only you know, a comment can say: [words.md](words.md).
"""


@dataclass(frozen=True)
class Refused:
    """A refusal of one fixture; `mended` is the script after its advice was followed, if it is there."""

    rule: str
    reason: str
    finding: Finding
    script: str
    mended: str | None


def reason_of(finding: Finding) -> str:
    """The reason without the names and lines of one script, and how many places have it."""
    message = re.sub(r"; \d+ more places? in this file hangs? on .*$", "", finding.message)
    return re.sub(r"line \d+", "line …", re.sub(r"`[^`]*`", "`…`", message))


def refusals() -> list[Refused]:
    """One fixture for each reason of each rule: the shortest, and rather one that has been mended."""
    found: dict[tuple[str, str], Refused] = {}
    for path in sorted(FIXTURES.glob("*/*/refused.txt")):
        script = (path.parent / "before.py").read_text(encoding="utf-8")
        mended = path.parent / "mended.py"
        after = mended.read_text(encoding="utf-8") if mended.exists() else None
        rules = choose(extend_select=[path.parent.parent.name])
        for finding in migrate(script.encode(), rules, heeding=Heeding(may_train_whole=False)).refusals:
            one = Refused(finding.rule, reason_of(finding), finding, script, after)
            known = found.get((one.rule, one.reason))
            if known is None or _rank(one) < _rank(known):
                found[one.rule, one.reason] = one
    return [found[key] for key in sorted(found)]


def _rank(one: Refused) -> tuple[bool, int]:
    return one.mended is None, len(one.script)


def refusals_page() -> str:
    parts = [_TITLE]
    rule = ""
    for one in refusals():
        if one.rule != rule:
            rule = one.rule
            parts += [f"## {rule}", "", f"[{all_rules()[rule].summary}](rules.md#{rule})", ""]
        parts += [f"### {one.reason[:1].upper()}{one.reason[1:]}", "", f"{one.finding.advice}.", ""]
        if one.mended is None:
            line = one.script.splitlines()[one.finding.line - 1].strip()
            parts += ["Refused, for instance, at", "", "```python", line, "```", ""]
        else:
            parts += ["```diff", *_difference(one.script, one.mended), "```", ""]
    return "\n".join(parts).rstrip() + "\n"


def _difference(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=1)
    return [line for line in lines if not line.startswith(("---", "+++", "@@"))]
