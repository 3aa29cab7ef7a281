"""The command `migrate`. What costs time to import is imported when a script is there to be read."""

from __future__ import annotations

import sys
from pathlib import Path

import click


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

    options = Options(
        rules=tuple(rule.id for rule in rules),
        target=target,
        writes=not (dry_run or check),
        shows_diff=dry_run,
        lists_edits=check,
        output=output,
        quiet=quiet,
        jobs=jobs,
    )
    sys.exit(Run(options).migrate(paths))
