"""Prints what came of a run: the migrated script or the diff, the report in its form, and a summary aside."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import click

from migrator.command.baseline import Baseline
from migrator.command.terminal import ERROR, complain
from migrator.files.writing import NotWritten, Write, write_all
from migrator.findings.results import INTERRUPTED, NOTHING_LEFT, SOMETHING_LEFT, Outcome, RunResult
from migrator.records import dataclass
from migrator.report import DATA, View, diff, lines, text
from migrator.report.sites import lines_of

_FEWEST_FOR_BAR = 12
_BAR = 30
_CLEAR = "\r\x1b[K"


@dataclass
class Done:
    """What came of a run. `stdin`: what standard output is to hold; None where nothing was read from it."""

    result: RunResult
    writes: bool
    stdin: Outcome | None = None


@dataclass(frozen=True)
class Wanted:
    """What the user wants to read of the run. `launch` is the command that starts a migrated script."""

    form: str
    output_file: str | None
    page: str | None
    statistics: bool
    exit_zero: bool
    shows_diff: bool
    lists_edits: bool
    is_quiet: bool
    is_verbose: bool
    launch: str


def show(run: Done, wanted: Wanted) -> int:
    """Prints all; gives the exit code of the command."""
    code = run.result.exit_code(writes=run.writes)
    if wanted.exit_zero and code == SOMETHING_LEFT:
        code = NOTHING_LEFT
    try:
        _show(run, wanted, code)
    except BrokenPipeError:
        # Who reads has seen enough; what was asked for is done.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        complain(f"error: standard output: {error.strerror}")
        code = ERROR
    with suppress(OSError):
        _show_aside(run, wanted)
    reports: list[tuple[str, Callable[[], str]]] = []
    if wanted.output_file is not None:
        reports.append((wanted.output_file, lambda: _as_file(_report(run, wanted, code))))
    if wanted.page is not None:
        reports.append((wanted.page, lambda: _page(run)))
    # Each is written, whatever became of the others.
    are_written = [is_written(Path(name), report()) for name, report in reports]
    return code if all(are_written) else ERROR


def _page(run: Done) -> str:
    from migrator.report.page.writing import page

    return page(run.result, is_dry=not run.writes)


def _as_file(report: Iterable[str]) -> str:
    return "".join(f"{click.unstyle(line)}\n" for line in report)


@contextmanager
def progress(*, is_quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar on the terminal while many programs are worked on; it goes when they are done."""
    last = 0.0
    is_shown = False

    def tell(done: int, total: int) -> None:
        nonlocal last, is_shown
        if is_shown and done == total:
            is_shown = False
            return click.echo(_CLEAR, err=True, nl=False)
        if total < _FEWEST_FOR_BAR or time.monotonic() - last < 0.1:
            return
        last, is_shown = time.monotonic(), True
        filled = _BAR * done // total
        click.echo(f"\r[{'#' * filled}{'-' * (_BAR - filled)}] {done} of {total}", err=True, nl=False)

    try:
        yield tell if not is_quiet and sys.stderr is not None and sys.stderr.isatty() else lambda done, total: None
    finally:
        if is_shown:
            click.echo(_CLEAR, err=True, nl=False)


def accept(run: Done, file: Path, *, is_quiet: bool) -> int:
    """Writes all that is left to the baseline; gives the exit code of the command."""
    baseline = Baseline.of(file, run.result)
    if not run.result.is_interrupted and not _is_stored(baseline):
        return ERROR
    for line in text.errors(run.result):
        click.echo(line, err=True)
    if run.result.is_interrupted:
        complain("interrupted: nothing was written")
        return INTERRUPTED
    if not is_quiet:
        click.echo(f"{sum(baseline.counts.values())} findings are accepted in {file}", err=True)
    return ERROR if run.result.failed else NOTHING_LEFT


def show_ignored(run: Done, *, shows_diff: bool, is_quiet: bool) -> int:
    """Prints where comments were put that have findings ignored, and what cannot be ignored; gives the exit code."""
    result = run.result
    if run.stdin is not None and sys.stdout is not None:
        sys.stdout.buffer.write(run.stdin.data)
        sys.stdout.buffer.flush()
    count = 0
    for file in result.changed:
        assert isinstance(file.outcome, Outcome)
        count += len(lines_of(file.outcome.text)) - len(lines_of(file.outcome.old_text))
        for line in diff.of_file(file.name, file.outcome.old_text, file.outcome.text) if shows_diff else ():
            click.echo(line)
    for file in result.files:
        for line in text.findings(file, with_edits=True):
            click.echo(line, err=run.stdin is not None)
    for line in text.errors(result):
        click.echo(line, err=True)
    if result.is_interrupted:
        click.echo(text.interruption(result), err=True)
    elif not is_quiet:
        files, verb = len(result.changed), "" if run.writes else "would be "
        comments = f"{count} {'comment' if count == 1 else 'comments'}"
        click.echo(f"{comments} {verb}written to {files} {'file' if files == 1 else 'files'}", err=True)
    left = any(file.findings for file in result.files)
    return result.exit_code(writes=True) or (SOMETHING_LEFT if left else NOTHING_LEFT)


def prune(run: Done, baseline: Baseline) -> None:
    """Takes out of the baseline what was not found; if it can be written, nothing is told as gone."""
    if run.result.is_interrupted or not run.result.gone:
        return
    if _is_stored(baseline.without(run.result.gone)):
        run.result.gone = ()


def _is_stored(baseline: Baseline) -> bool:
    try:
        baseline.write()
    except NotWritten as error:
        complain(text.error(f"{baseline.file}: {error}"))
        return False
    return True


def show_names(names: Iterable[str], result: RunResult) -> int:
    """Prints the files that a run would read, and what cannot be found; gives the exit code of the command."""
    for name in names:
        click.echo(name)
    for line in text.errors(result):
        click.echo(line, err=True)
    return result.exit_code(writes=True)


def _report(run: Done, wanted: Wanted, code: int) -> Iterator[str]:
    if wanted.statistics:
        if wanted.form != "json":
            return text.statistics(run.result)
        from migrator.report import json

        return json.statistics(run.result)
    return lines(wanted.form, run.result, View(wanted.lists_edits or wanted.form in DATA, code))


def _show(run: Done, wanted: Wanted, code: int) -> None:
    """What was found, on standard output; beside it, where that holds the migrated script itself."""
    if run.stdin is not None:
        if sys.stdout is None:
            raise OSError(0, "it is closed")
        sys.stdout.buffer.write(run.stdin.data)
        sys.stdout.buffer.flush()
    for file in run.result.files if wanted.shows_diff and wanted.form not in DATA else ():
        if isinstance(file.outcome, Outcome) and file.is_changed:
            for line in diff.of_file(file.name, file.outcome.old_text, file.outcome.text):
                click.echo(line)
    if wanted.output_file is None:
        for line in _report(run, wanted, code):
            click.echo(line, err=run.stdin is not None)


def is_written(path: Path, report: str) -> bool:
    """Whether the report could be written there."""
    try:
        write_all([Write(path, report.encode("utf-8", "surrogateescape"), like=path)])
    except NotWritten as error:
        complain(text.error(f"{path}: {error}"))
        return False
    return True


def _show_aside(run: Done, wanted: Wanted) -> None:
    """What became of the files, on standard error."""
    result, dry = run.result, not run.writes
    for line in (*text.errors(result), *text.warnings(result)):
        click.echo(line, err=True)
    if result.is_interrupted:
        click.echo(text.interruption(result), err=True)
    elif not wanted.is_quiet:
        for line in text.gone(result):
            click.echo(line, err=True)
        summary, following = text.summary(result, dry=dry), text.following(result, wanted.launch)
        for line in text.packages(result) if wanted.is_verbose else ():
            click.echo(line, err=True)
        for line in (*text.remarks(result), *text.listing(result, dry=dry), summary, following):
            if line:
                click.echo(line, err=True)
