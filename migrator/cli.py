"""The command `migrate`. What costs time to import is imported when a script is there to be read."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from migrator.engine import Outcome
    from migrator.rule import Rule

NOTHING_LEFT, SOMETHING_LEFT, ERROR = 0, 1, 2


def _version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from importlib.metadata import PackageNotFoundError, version

        try:
            number = version("tf-lockstep")
        except PackageNotFoundError:  # a bare checkout
            from lockstep._version import __version__ as number
        click.echo(f"migrate {number}")
        context.exit()


def _list_rules(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from migrator.registry import all_rules

        for rule in all_rules().values():
            click.echo(f"{click.style(rule.id, fg='cyan')}  {rule.summary}")
        context.exit()


def _explain(context: click.Context, _: click.Parameter, name: str | None) -> None:
    if name and not context.resilient_parsing:
        from migrator.registry import UnknownRule, choose

        try:
            (rule,) = choose(select=[name])
        except UnknownRule as error:
            raise click.BadParameter(str(error)) from None
        click.echo(f"{click.style(rule.id, fg='cyan', bold=True)}\n\n{rule.manual}")
        context.exit()


def _names(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """`--select a,b --select c` names a, b and c."""
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.argument("paths", nargs=-1, required=True, metavar="PATHS...", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--dry-run", "--diff", "dry_run", is_flag=True, help="Print a unified diff and write nothing.")
@click.option("--check", is_flag=True, help="Write nothing; list the sites that are not ported.")
@click.option(
    "-o",
    "--output",
    metavar="PATH",
    help="Write the migrated copy there (a folder for several files); leave the original alone.",
)
@click.option(
    "--select",
    multiple=True,
    callback=_names,
    metavar="RULE",
    help="Apply this rule only (repeatable, comma-separated).",
)
@click.option("--ignore", multiple=True, callback=_names, metavar="RULE", help="Do not apply this rule.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors and refusals only.")
@click.option(
    "--explain",
    callback=_explain,
    expose_value=False,
    is_eager=True,
    metavar="RULE",
    help="Print a rule's manual and exit.",
)
@click.option(
    "--list-rules",
    is_flag=True,
    callback=_list_rules,
    expose_value=False,
    is_eager=True,
    help="List the rules and exit.",
)
@click.option(
    "--version", is_flag=True, callback=_version, expose_value=False, is_eager=True, help="Print the version and exit."
)
def main(
    paths: tuple[Path, ...],
    dry_run: bool,
    check: bool,
    output: str | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    quiet: bool,
) -> None:
    """Migrate single-device TensorFlow 2 training scripts to many devices, in place.

    PATHS are files, folders, or - for standard input. On one process a migrated script does what it did before; on N
    workers (lockstep run -n N script.py) it trains the same model, or the site is refused with the reason.

    \b
    Exit codes: 0  nothing is left to do
                1  something is left: a refusal, or a change that was only shown
                2  an error; the other files are still processed
    """
    from migrator.registry import UnknownRule, choose

    if dry_run and check:
        raise click.UsageError("--dry-run and --check exclude each other")
    if output is not None and (dry_run or check):
        raise click.UsageError("--output writes; it cannot go with --dry-run or --check")
    try:
        rules = choose(select, ignore)
    except UnknownRule as error:
        raise click.UsageError(str(error)) from None
    run = _Run(
        rules,
        writes=not (dry_run or check),
        shows_diff=dry_run,
        lists_edits=check,
        output=output,
        quiet=quiet,
    )
    for path in paths:
        run.add(path, is_single=len(paths) == 1)
    sys.exit(run.finish())


class _Run:
    """One call of the command: processes each file by itself, so that a bad one does not stop the others."""

    def __init__(
        self,
        rules: list[Rule],
        *,
        writes: bool,
        shows_diff: bool,
        lists_edits: bool,
        output: str | None,
        quiet: bool,
    ) -> None:
        self.rules = rules
        self.writes = writes
        self.shows_diff = shows_diff
        self.lists_edits = lists_edits
        self.output = Path(output) if output is not None else None
        self.output_is_folder = output is not None and (output.endswith(os.sep) or Path(output).is_dir())
        self.destinations: dict[Path, Path] = {}
        self.quiet = quiet
        self.changed = self.refused = self.unchanged = self.failed = 0

    def add(self, path: Path, *, is_single: bool) -> None:
        from migrator.project import NoSuchScript, scripts

        if str(path) == "-":
            self._stdin()
            return
        try:
            for script in scripts(path):
                self._file(script, self._destination(script, path, is_single=is_single and not path.is_dir()))
        except NoSuchScript as error:
            self._fail(str(error))

    def finish(self) -> int:
        from migrator.report import text

        summary = text.summary(self.changed, self.refused, self.unchanged, self.failed, dry=not self.writes)
        if summary and not self.quiet:
            click.echo(summary, err=True)
        if self.failed:
            return ERROR
        return SOMETHING_LEFT if self.refused or (self.changed and not self.writes) else NOTHING_LEFT

    # -- one file ------------------------------------------------------------------------------------------------

    def _destination(self, script: Path, root: Path, *, is_single: bool) -> Path:
        if self.output is None:
            return script
        if is_single and not self.output_is_folder:
            return self.output
        return self.output / (script.relative_to(root) if root.is_dir() else script.name)

    def _file(self, script: Path, destination: Path) -> None:
        from migrator.project import write_atomically

        other = self.destinations.setdefault(destination, script)
        if other != script:
            self._fail(f"{script}: not written, since {other} goes to {destination} already: migrate them one by one")
            return
        try:
            data = script.read_bytes()
        except OSError as error:
            self._fail(f"{script}: cannot be read: {error.strerror}")
            return
        outcome = self._migrate(str(script), data)
        if outcome is None:
            return
        if self.writes and (outcome.is_changed or destination != script):
            try:
                write_atomically(destination, outcome.data, like=script)
            except OSError as error:
                self._fail(f"{destination}: cannot be written: {error.strerror}")
                return
        self._report(str(script), outcome)

    def _stdin(self) -> None:
        from migrator.project import write_atomically

        outcome = self._migrate("<stdin>", sys.stdin.buffer.read())
        if outcome is not None:
            if self.writes and self.output is not None:
                destination = self.output / "stdin.py" if self.output_is_folder else self.output
                try:
                    write_atomically(destination, outcome.data, like=destination)
                except OSError as error:
                    self._fail(f"{destination}: cannot be written: {error.strerror}")
                    return
            elif self.writes:
                sys.stdout.buffer.write(outcome.data)
            self._report("<stdin>", outcome)

    def _migrate(self, name: str, data: bytes) -> Outcome | None:
        from migrator.engine import BrokenOutput, ScriptSyntaxError, migrate
        from migrator.source import UnreadableSource

        try:
            return migrate(data, self.rules)
        except ScriptSyntaxError as error:
            self._fail(f"{name}:{error}")
        except UnreadableSource as error:
            self._fail(f"{name}: {error}")
        except BrokenOutput as error:
            self._fail(f"{name}: not migrated, by a defect of this tool: {error}; please report it with the script")
        except Exception as error:
            self._fail(
                f"{name}: not migrated, by a defect of this tool ({type(error).__name__}: {error}); "
                "please report it with the script"
            )
        return None

    def _report(self, name: str, outcome: Outcome) -> None:
        from migrator.report import diff, text

        if outcome.refusals:
            self.refused += 1
        elif not outcome.is_changed:
            self.unchanged += 1
        if outcome.is_changed:
            self.changed += 1
        to_stderr = name == "<stdin>" and self.writes
        if self.shows_diff and outcome.is_changed:
            for line in diff.unified(name, outcome.old_text, outcome.text):
                click.echo(line)
        for line in text.findings(name, outcome, with_edits=self.lists_edits):
            click.echo(line, err=to_stderr)

    def _fail(self, message: str) -> None:
        from migrator.report import text

        self.failed += 1
        click.echo(text.error(message), err=True)
