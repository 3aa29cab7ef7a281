"""The result of a run in short: `path:line:column: rule: message` for each site, and what became of the files."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator

import click

from migrator.findings.results import EDITED, LEFT, Defect, Failure, FileResult, Finding, Outcome, RunResult
from migrator.notebooks.cells import SUFFIX, is_notebook
from migrator.report import View
from migrator.report.sites import spot, where

# So many scripts are named to be started next.
_MOST_STARTS = 3
# So many lines are named in which the same is taken on trust once more.
_MOST_LINES = 8
_ANSWERS = {EDITED: "written as you edited it", LEFT: "left at your word"}


def concise(result: RunResult, view: View) -> Iterator[str]:
    """The refusals, and the edits where they are asked for (`--check`)."""
    for file in result.files:
        yield from findings(file, with_edits=view.with_edits)


def findings(file: FileResult, *, with_edits: bool) -> Iterator[str]:
    """The refusals of a file, and its edits where they are asked for."""
    seen = set()
    for finding in file.findings:
        key = (finding.line, finding.rule, finding.message)
        if (finding.is_refusal or with_edits) and key not in seen:
            seen.add(key)
            yield _line(file, finding)
            if finding.is_refusal and finding.advice:
                yield f"    {finding.advice}"


def _line(file: FileResult, finding: Finding) -> str:
    place = _place(file, finding)
    rule = click.style(finding.rule, fg="yellow" if finding.is_refusal else "cyan")
    verb = "refused: " if finding.is_refusal else ""
    return f"{place} {rule}: {verb}{finding.message}"


def _place(file: FileResult, finding: Finding) -> str:
    return click.style(f"{where(file, finding)}:", bold=True)


def remarks(result: RunResult) -> Iterator[str]:
    """What was taken on trust, and which comments of the user's nothing needed."""
    for file in result.files:
        for finding, *others in _alike(file.remarks.trusted):
            rule = f" {click.style(finding.rule, fg='cyan')}:" if finding.rule else ""
            yield f"{_place(file, finding)}{rule} on trust: {finding.message}{_further(file, finding, others)}"
        for finding in file.remarks.unused:
            yield f"{_place(file, finding)} {click.style('unused:', fg='yellow')} {finding.message}"


def _alike(findings: Iterable[Finding]) -> Iterable[list[Finding]]:
    """Those of one rule that say the same, together, as of all layers of one class."""
    found: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        found.setdefault((finding.rule, finding.message, finding.ignored_by), []).append(finding)
    return found.values()


def _further(file: FileResult, first: Finding, others: Iterable[Finding]) -> str:
    """The lines in which the same is said once more."""
    lines = sorted({other.line: other for other in others if other.line != first.line}.items())
    if not lines:
        return ""
    named = ", ".join(spot(file, other).rpartition(":")[0] for _, other in lines[:_MOST_LINES])
    more = f" and {len(lines) - _MOST_LINES} more" if len(lines) > _MOST_LINES else ""
    kind = "" if is_notebook(file.name) else "line " if len(lines) == 1 else "lines "
    return f"; so in {kind}{named}{more}"


def packages(result: RunResult) -> Iterator[str]:
    """What of packages was understood by its code."""
    for file in result.files:
        for name in file.outcome.read if isinstance(file.outcome, Outcome) else ():
            yield f"{click.style(f'{file.name}:', bold=True)} read: {name}"


def errors(result: RunResult) -> Iterator[str]:
    """A line for each failure; files that one failure took together share it."""
    names: dict[tuple[str, str], list[str]] = {}
    for file in result.failed:
        failure = file.outcome
        assert isinstance(failure, Failure)
        if failure.line is not None:
            yield error(f"{file.name}:{_failure(failure)}")
        else:
            names.setdefault((type(failure).__name__, _failure(failure)), []).append(file.name)
    for (_, message), (first, *others) in names.items():
        more = f" and {len(others)} other {'file' if len(others) == 1 else 'files'}" if others else ""
        yield error(f"{first}{more}: {message}")


def _failure(failure: Failure) -> str:
    if isinstance(failure, Defect):
        return f"not migrated, by a defect of this tool ({failure}); please report it with the script"
    return str(failure)


def error(message: str) -> str:
    return f"{click.style('error:', fg='red', bold=True)} {message}"


def warnings(result: RunResult) -> Iterator[str]:
    """What a killed run had left by half, and what the user left out although what was done relies on it."""
    for name in result.put_back:
        start = click.style("warning:", fg="yellow", bold=True)
        yield f"{start} {name}: put back as it was, since a run was killed before it had written the whole program"
    lacking: dict[str, set[str]] = {}
    for file in result.changed:
        assert isinstance(file.outcome, Outcome)
        for rule, needed in file.outcome.lacking:
            lacking.setdefault(needed, set()).add(rule)
    for needed, rules in sorted(lacking.items()):
        start = f"{click.style('warning:', fg='yellow', bold=True)} this is half a port: "
        relying = ", ".join(sorted(rules))
        yield f"{start}{needed} was left out, but has work to do here that {relying} {_relies(rules)} on"


def _relies(rules: set[str]) -> str:
    return "relies" if len(rules) == 1 else "rely"


def gone(result: RunResult) -> Iterator[str]:
    """What the baseline has, but was not found."""
    for one in result.gone or ():
        scope = f" in {one.scope}" if one.scope else ""
        times = f" ({one.count} times)" if one.count > 1 else ""
        yield f"{click.style('gone:', fg='green')} {one.path}: {one.rule}{scope}{times}"
    if result.gone:
        yield "take them out of the baseline with --prune-baseline"


def listing(result: RunResult, *, dry: bool) -> Iterator[str]:
    """Which of several files changed, and which have refusals."""
    if len(result.files) < 2:
        return
    for file in result.files:
        refused = f"{len(file.refusals)} refused" if file.refusals else ""
        if file.answer:
            yield f"{click.style(_ANSWERS[file.answer], fg='yellow')}: {file.name}"
        elif file.is_changed:
            verb = "would be migrated" if dry else "migrated"
            yield f"{click.style(verb, fg='green')}: {file.name}{f' ({refused})' if refused else ''}"
        elif refused:
            yield f"{click.style('left as it is', fg='yellow')}: {file.name} ({refused})"


def statistics(result: RunResult) -> Iterator[str]:
    """How many sites each rule has left, or had: most first."""
    rows = counts(result)
    width = len(str(rows[0][1])) if rows else 0
    for rule, number, refused in rows:
        yield f"{number:>{width}}  {click.style(rule, fg='cyan')}{f'  ({refused} refused)' if refused else ''}"


def counts(result: RunResult) -> list[tuple[str, int, int]]:
    """Each rule with the number of its sites, and how many of them are refused; most sites first."""
    found = Counter(finding.rule for file in result.files for finding in file.findings)
    refused = Counter(finding.rule for file in result.files for finding in file.refusals)
    return [(rule, found[rule], refused[rule]) for rule in sorted(found, key=lambda rule: (-found[rule], rule))]


def summary(result: RunResult, *, dry: bool) -> str:
    """One line for the whole run: what became of how many files."""
    parts = [
        _count(len(result.changed), "would be migrated" if dry else "migrated", "green"),
        *(_count(len(several), _ANSWERS[answer], "yellow") for answer, several in _by_answer(result).items()),
        _count(len(result.refused), "with refusals", "yellow"),
        _count(len(result.unchanged), "with nothing to do", None),
        _count(len(result.passed_over), "passed over as unit tests", None),
        _count(len(result.failed), "failed", "red"),
    ]
    return ", ".join(p for p in parts if p)


def _by_answer(result: RunResult) -> dict[str, list[FileResult]]:
    return {answer: [f for f in result.answered if f.answer == answer] for answer in _ANSWERS}


def _count(number: int, what: str, colour: str | None) -> str:
    if not number:
        return ""
    return click.style(f"{number} {'file' if number == 1 else 'files'} {what}", fg=colour)


def interruption(result: RunResult) -> str:
    """What Ctrl-C left behind."""
    written = [file.written for file in result.files if file.written]
    if not written:
        return "interrupted: nothing was written"
    verb = "1 file was" if len(written) == 1 else f"{len(written)} files were"
    return f"interrupted: {verb} written before ({', '.join(written)}); all others are as they were"


def following(result: RunResult, launch: str) -> str:
    """What to do after scripts were migrated; `launch` is the command that starts one on several workers."""
    starts = [file.written for file in result.files if file.is_start and file.written and not file.answer]
    if not (starts and launch):
        return ""
    names = [f"./{name}" if name.startswith("-") else name for name in starts[:_MOST_STARTS]]
    return "next: " + ", ".join(_launched(name, launch) for name in names)


def _launched(name: str, launch: str) -> str:
    if not is_notebook(name):
        return launch.format(shlex.quote(name))
    script = shlex.quote(name[: -len(SUFFIX)] + ".py")
    return f"migrate {shlex.quote(name)} -o {script} && {launch.format(script)}"
