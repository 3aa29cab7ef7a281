"""The command `migrate`. What costs time to import is imported when a script is there to be read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from migrator.run import Run


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


def _target(_: click.Context, __: click.Parameter, name: str) -> str:
    from migrator.targets import UnknownTarget, target_named

    try:
        return target_named(name).name
    except UnknownTarget as error:
        raise click.BadParameter(str(error)) from None


class _Path(click.Path):
    """A path that is not empty: the empty one would be the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("an empty path names nothing", param, ctx)
        return super().convert(value, param, ctx)


class _Command(click.Command):
    """Answers what may happen to any command of a terminal: Ctrl-C, streams that are full or closed, no colours."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        kwargs.setdefault("color", _colour())
        with _interruptible():
            return super().make_context(*args, **kwargs)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            _complain(f"error: standard output: {error.strerror}")
            sys.exit(_ERROR)

    def invoke(self, ctx: click.Context) -> Any:
        with _interruptible():
            return super().invoke(ctx)


@contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        _complain("interrupted: nothing was written")
        sys.exit(_INTERRUPTED)


_ERROR, _INTERRUPTED = 2, 130


def _colour() -> bool | None:
    """Whether to colour the output: as no-color.org and force-color.org have it; None where the stream decides."""
    if os.environ.get("NO_COLOR"):
        return False
    return True if os.environ.get("FORCE_COLOR", "0") not in ("", "0") else None


def _complain(message: str) -> None:
    with suppress(OSError):
        click.echo(message, err=True)


@click.command(cls=_Command, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.argument("paths", nargs=-1, required=True, metavar="PATHS...", type=_Path(path_type=Path, allow_dash=True))
@click.option("--dry-run", "--diff", "dry_run", is_flag=True, help="Print a unified diff and write nothing.")
@click.option("--check", is_flag=True, help="Write nothing; list the sites that are not ported.")
@click.option(
    "-o",
    "--output",
    type=_Path(),
    metavar="PATH",
    help="Write the migrated copy there (a folder for several files); leave the original alone.",
)
@click.option(
    "--target",
    default="lockstep",
    show_default=True,
    callback=_target,
    metavar="API",
    help="The API to write: lockstep, the bundled runtime, or npu, Ascend's npu_device.",
)
@click.option(
    "--select",
    multiple=True,
    callback=_names,
    metavar="RULE",
    help="Apply this rule only (repeatable, comma-separated).",
)
@click.option("--ignore", multiple=True, callback=_names, metavar="RULE", help="Do not apply this rule.")
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes to use for many files (default: one for each core).",
)
@click.option(
    "--time-limit",
    type=click.FloatRange(min=0, min_open=True),
    default=120,
    show_default=True,
    envvar="MIGRATE_TIME_LIMIT",
    metavar="SECONDS",
    help="The CPU time that the analysis of one program may take (or MIGRATE_TIME_LIMIT).",
)
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
    target: str,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    jobs: int | None,
    time_limit: float,
    quiet: bool,
) -> None:
    """Migrate single-device TensorFlow 2 training scripts to many devices, in place.

    PATHS are files, folders, or - for standard input; files that import each other are understood as one program.
    On one process a migrated script does what it did before; on N workers (lockstep run -n N script.py) it trains
    the same model, or the site is refused with the reason.

    \b
    Exit codes: 0  nothing is left to do
                1  something is left: a refusal, or a change that was only shown
                2  an error; the other files are still processed
              130  interrupted
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
    from migrator.run import Options, Run
    from migrator.targets import target_named

    options = Options(
        rules=tuple(rule.id for rule in rules),
        target=target,
        writes=not (dry_run or check),
        output=output,
        jobs=jobs,
        time_limit=time_limit,
    )
    run = Run(options)
    result = run.migrate(paths)
    code = result.exit_code(writes=options.writes)
    try:
        _tell(run, shows_diff=dry_run, lists_edits=check)
    except BrokenPipeError:
        # Who reads has seen enough; what was asked for is done.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        _complain(f"error: standard output: {error.strerror}")
        code = _ERROR
    with suppress(OSError):
        _tell_aside(run, quiet=quiet, launch=target_named(target).launch)
    sys.exit(code)


def _tell(run: Run, *, shows_diff: bool, lists_edits: bool) -> None:
    """What was found, on standard output; beside it, where that holds the migrated script itself."""
    from migrator.report import diff, text
    from migrator.results import Outcome

    if run.stdin is not None:
        if sys.stdout is None:
            raise OSError(0, "it is closed")
        sys.stdout.buffer.write(run.stdin.data)
        sys.stdout.buffer.flush()
    for file in run.result.files:
        if shows_diff and isinstance(file.outcome, Outcome) and file.is_changed:
            for line in diff.unified(file.name, file.outcome.old_text, file.outcome.text):
                click.echo(line)
        for line in text.findings(file, with_edits=lists_edits):
            click.echo(line, err=run.stdin is not None and file.name == "<stdin>")


def _tell_aside(run: Run, *, quiet: bool, launch: str) -> None:
    """What became of the files, on standard error."""
    from migrator.report import text

    result, dry = run.result, not run.options.writes
    for line in (*text.errors(result), *text.warnings(result)):
        click.echo(line, err=True)
    if result.is_interrupted:
        click.echo(text.interruption(result), err=True)
    elif not quiet:
        for line in (*text.listing(result, dry=dry), text.summary(result, dry=dry), text.following(result, launch)):
            if line:
                click.echo(line, err=True)
