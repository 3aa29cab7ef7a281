"""The command `migrate`. What costs time to import is imported when a script is there to be read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from migrator.run import Ask
    from migrator.settings import Settings

from migrator.arguments import baseline_of, mapping, names, options_of, reason, settings_of
from migrator.command import BACKENDS, Command, Path, colour
from migrator.report import FORMATS


def _rules_like(_: click.Context, __: click.Parameter, start: str) -> list[str]:
    """The rules that a shell offers, by their files: to read them would take too long."""
    import pkgutil

    import migrator.rules

    before, comma, last = start.rpartition(",")
    found = sorted(info.name.replace("_", "-") for info in pkgutil.iter_modules(migrator.rules.__path__))
    return [f"{before}{comma}{name}" for name in found if name.startswith(last)]


def _list_rules(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from migrator.registry import all_rules

        for rule in all_rules().values():
            click.echo(f"{click.style(rule.id, fg='cyan')}  {rule.summary}{' (--extend-select)' * rule.opt_in}")
        context.exit()


def _explain(name: str, output_format: str) -> None:
    import json

    from migrator.registry import UnknownRule, choose

    try:
        (rule,) = choose(select=[name])
    except UnknownRule as error:
        raise click.BadParameter(str(error), param_hint="'--explain'") from None
    if output_format == "json":
        told = {"rule": rule.id, "summary": rule.summary, "manual": rule.manual}
        click.echo(json.dumps({**told, "is_audit": rule.is_audit, "needs": list(rule.needs)}, indent=2))
    else:
        click.echo(f"{click.style(rule.id, fg='cyan', bold=True)}\n\n{rule.manual}")


class _Migrate(Command):
    """`migrate verify` is a command of its own; a file of that name is ./verify."""

    # As overloaded as click's own is from 8.2 on, for who reads types.
    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **kwargs: Any
    ) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        if given[:1] == ["verify"]:
            from migrator.verify.command import verify

            return verify.main(given[1:], f"{prog_name or 'migrate'} verify", **kwargs)
        return super().main(given, prog_name, **kwargs)

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **kwargs: Any) -> click.Context:
        # A shell that completes a command asks this one for its options, whatever stands behind its name.
        if kwargs.get("resilient_parsing") and args[:1] == ["verify"]:
            from migrator.verify.command import verify

            return verify.make_context("verify", args[1:], *rest, **kwargs)
        return super().make_context(info_name, args, *rest, **kwargs)


def _ask() -> Ask:
    from migrator.asking import Questions

    return Questions().ask


def _launch(settings: Settings) -> str:
    """The command that starts a migrated script on several workers."""
    from migrator.targets import target_named

    command = target_named(settings.target).launch
    is_default = settings.backend == BACKENDS[0]
    return command if is_default else command.replace(" -n ", f" --backend {settings.backend} -n ")


@click.command(cls=_Migrate, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.argument("paths", nargs=-1, metavar="PATHS...", type=Path(path_type=FilePath, allow_dash=True))
@click.option("--dry-run", "--diff", "dry_run", is_flag=True, help="Print a unified diff and write nothing.")
@click.option("--check", is_flag=True, help="Write nothing; list the sites that are not ported.")
@click.option("-i", "--interactive", is_flag=True, help="Ask about each training, as git add -p does; ? explains.")
@click.option(
    "-o",
    "--output",
    type=Path(),
    metavar="PATH",
    help="Write the migrated copy there (a folder for several files); leave the original alone.",
)
@click.option(
    "--target",
    metavar="API",
    help="The API to write: lockstep, the bundled runtime and the default, or npu, Ascend's npu_device.",
)
@click.option(
    "--select",
    multiple=True,
    callback=names,
    shell_complete=_rules_like,
    metavar="RULE",
    help="Apply this rule only (repeatable, comma-separated).",
)
@click.option(
    "--extend-select",
    multiple=True,
    callback=names,
    shell_complete=_rules_like,
    metavar="RULE",
    help="Apply this rule beside the others: one that is off by default.",
)
@click.option(
    "--ignore",
    multiple=True,
    callback=names,
    shell_complete=_rules_like,
    metavar="RULE",
    help="Do not apply this rule.",
)
@click.option(
    "--stdin-filename",
    type=Path(),
    metavar="FILE",
    help="The file that standard input is the content of: for reports, settings and imports.",
)
@click.option(
    "--strict/--no-strict",
    default=None,
    help="Whether to refuse layers and models of packages that would be taken on trust.",
)
@click.option(
    "--per-file-ignores",
    multiple=True,
    callback=mapping,
    metavar="PATTERN:RULE",
    help="Ignore this rule in the files of this pattern of .gitignore.",
)
@click.option(
    "--no-suppressions",
    is_flag=True,
    help="Heed no comment # migrate: ignore[...]: see all that is found.",
)
@click.option(
    "--exclude",
    multiple=True,
    callback=names,
    metavar="PATTERN",
    help="Leave out of folders what this pattern of .gitignore matches, instead of build folders and the like.",
)
@click.option(
    "--extend-exclude", multiple=True, callback=names, metavar="PATTERN", help="Leave this out of folders, too."
)
@click.option(
    "--respect-gitignore/--no-respect-gitignore",
    default=None,
    help="Whether to leave out of folders what .gitignore names (it is).",
)
@click.option(
    "--line-length",
    type=click.IntRange(20, 320),
    metavar="N",
    help="The longest line to write (default: as ruff or black is told, as each file shows, or 100).",
)
@click.option(
    "--config",
    multiple=True,
    metavar="FILE|KEY=VALUE",
    help="Take the settings of this file, or this one setting in TOML, instead of [tool.migrate] in pyproject.toml.",
)
@click.option(
    "--baseline",
    type=Path(dir_okay=False),
    metavar="FILE",
    help="Accept the findings that this file has: they do not count as left.",
)
@click.option(
    "--write-baseline", is_flag=True, help="Accept all that is left now: write it to the baseline, and nothing else."
)
@click.option(
    "--add-ignore",
    metavar="REASON",
    callback=reason,
    help="Accept all that is left now by comments # migrate: ignore[...] with this reason, and write nothing else.",
)
@click.option("--prune-baseline", is_flag=True, help="Take out of the baseline what is not found any more.")
@click.option(
    "--cache/--no-cache", default=True, help="Whether --check remembers what it found in unchanged files (it does)."
)
@click.option(
    "--cache-dir", type=Path(), envvar="MIGRATE_CACHE_DIR", metavar="FOLDER", help="Where (or MIGRATE_CACHE_DIR)."
)
@click.option("--isolated", is_flag=True, help="Heed no file of settings.")
@click.option("--show-settings", is_flag=True, help="Print the settings of the run and exit.")
@click.option("--show-files", is_flag=True, help="Print the files that would be read and exit.")
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
    default=20,
    show_default=True,
    envvar="MIGRATE_TIME_LIMIT",
    metavar="SECONDS",
    help="CPU time for the analysis of each file of a program (or MIGRATE_TIME_LIMIT).",
)
@click.option(
    "--output-format",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    envvar="MIGRATE_OUTPUT_FORMAT",
    metavar="FORM",
    help=f"How to report: {', '.join(FORMATS)} (or MIGRATE_OUTPUT_FORMAT).",
)
@click.option(
    "--output-file",
    type=Path(dir_okay=False),
    envvar="MIGRATE_OUTPUT_FILE",
    metavar="FILE",
    help="Write the report there (or MIGRATE_OUTPUT_FILE).",
)
@click.option(
    "--report",
    type=Path(dir_okay=False),
    metavar="FILE.html",
    help="Write a page for review there: one file, with every change beside its rule.",
)
@click.option("--statistics", is_flag=True, help="Report how many sites each rule has, instead of each site.")
@click.option("-e", "--exit-zero", is_flag=True, help="Exit with 0 where something is left; errors still give 2.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    callback=colour,
    expose_value=False,
    is_eager=True,
    help="Whether to colour the output.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print errors and refusals only.")
@click.option(
    "--explain", shell_complete=_rules_like, metavar="RULE", help="Print a rule's manual, also as json, and exit."
)
@click.option(
    "--list-rules",
    is_flag=True,
    callback=_list_rules,
    expose_value=False,
    is_eager=True,
    help="List the rules and exit.",
)
@click.option("-v", "--verbose", is_flag=True, help="With --version: of Python, of the parser and the like, too.")
@click.option("--version", is_flag=True, help="Print the version and exit.")
def main(
    paths: tuple[FilePath, ...],
    dry_run: bool,
    check: bool,
    interactive: bool,
    output: str | None,
    target: str | None,
    select: tuple[str, ...],
    extend_select: tuple[str, ...],
    ignore: tuple[str, ...],
    stdin_filename: str | None,
    exclude: tuple[str, ...],
    extend_exclude: tuple[str, ...],
    respect_gitignore: bool | None,
    line_length: int | None,
    config: tuple[str, ...],
    baseline: str | None,
    write_baseline: bool,
    add_ignore: str,
    prune_baseline: bool,
    cache: bool,
    cache_dir: str | None,
    isolated: bool,
    show_settings: bool,
    show_files: bool,
    strict: bool | None,
    per_file_ignores: dict[str, tuple[str, ...]] | None,
    no_suppressions: bool,
    jobs: int | None,
    time_limit: float,
    output_format: str,
    output_file: str | None,
    report: str | None,
    statistics: bool,
    exit_zero: bool,
    quiet: bool,
    explain: str | None,
    verbose: bool,
    version: bool,
) -> None:
    """Migrate single-device TensorFlow 2 training scripts to many devices, in place.

    PATHS are scripts, notebooks, folders, or - for standard input; files that import each other are understood as
    one program. On one process a migrated script does what it did before; on N workers (lockstep run -n N script.py)
    it trains the same model, or the site is refused with the reason.

    \b
    Exit codes: 0  nothing is left to do
                1  something is left: a refusal, or a change that was only shown
                2  an error; the other files are still processed
              130  interrupted

    \b
    Examples:
      migrate train.py model.py          rewrite a program in place
      migrate --dry-run src              show what would change, as a diff
      migrate -i src                     ask about each training first
      migrate train.ipynb -o train.py    make a script of a notebook
      migrate --check --output-format github .
      migrate --explain shard-dataset
      migrate verify train.py -n 2       prove it on two workers
    """
    if version:
        from migrator.report.tool import versions

        return click.echo("\n".join(versions(verbose=verbose)))
    if explain is not None:
        return _explain(explain, output_format)
    if not paths and not show_settings:
        raise click.UsageError("Missing argument 'PATHS...'.")
    if dry_run and check:
        raise click.UsageError("--dry-run and --check exclude each other")
    if output is not None and (dry_run or check):
        raise click.UsageError("--output writes; it cannot go with --dry-run or --check")
    if statistics and output_format not in ("concise", "full", "grouped", "json"):
        raise click.UsageError(f"--statistics has no form {output_format}: take concise or json")
    if write_baseline and (dry_run or output is not None or prune_baseline):
        raise click.UsageError("--write-baseline goes with no other way of writing or showing")
    if interactive and (dry_run or check or output is not None or write_baseline):
        raise click.UsageError("--interactive writes what is taken; it goes with no other way of writing or showing")
    if interactive and FilePath("-") in paths:
        raise click.UsageError("--interactive reads the answers from standard input; name the files")
    if add_ignore and (check or interactive or output is not None or write_baseline or no_suppressions):
        raise click.UsageError("--add-ignore writes comments; it goes with no other way of writing or showing")
    settings = settings_of(
        [FilePath(stdin_filename) if stdin_filename and str(path) == "-" else path for path in paths],
        config,
        isolated=isolated,
        target=target,
        select=select,
        ignore=ignore,
        exclude=exclude,
        extend_exclude=extend_exclude,
        extend_select=extend_select,
        respect_gitignore=respect_gitignore,
        line_length=line_length,
        strict=strict,
        per_file_ignores=per_file_ignores,
    )
    accepted = baseline_of(settings, baseline, write=write_baseline, prune=prune_baseline)
    from migrator.printing import Done, Wanted, accept, progress, prune, show, show_ignored, show_names

    writes = not (dry_run or check or write_baseline)
    given = {"writes": writes, "output": output, "jobs": jobs, "time_limit": time_limit}
    given["heeds_ignores"] = not no_suppressions
    given["add_ignore"] = add_ignore
    given["stdin_name"] = stdin_filename or ""
    if show_settings:
        options_of(settings, **given)
        click.echo("\n".join(settings.lines()))
        return
    if show_files:
        from migrator.run import Run

        run = Run(options_of(settings, **given))
        sys.exit(show_names(run.files(paths), run.result))
    known = None
    if check and cache:
        from migrator.known import Known

        known = Known(click.get_current_context().params, settings, paths, cache_dir)
    result = known.result if known is not None else None
    if result is not None:
        done = Done(result, writes)
    else:
        from migrator.run import Run

        with progress(is_quiet=quiet) as tell:
            run = Run(options_of(settings, **given), tell, _ask() if interactive else None)
            done = Done(run.migrate(paths), writes, run.stdin)
        if known is not None:
            known.remember(run)
    if add_ignore:
        sys.exit(show_ignored(done, shows_diff=dry_run, is_quiet=quiet))
    if accepted is not None and write_baseline:
        sys.exit(accept(done, accepted.file, is_quiet=quiet))
    if accepted is not None:
        done.result = accepted.heeded(done.result)
        if prune_baseline:
            prune(done, accepted)
    wanted = Wanted(
        form=output_format,
        output_file=output_file,
        page=report,
        statistics=statistics,
        exit_zero=exit_zero,
        shows_diff=dry_run,
        lists_edits=check,
        is_quiet=quiet,
        launch=_launch(settings) if writes else "",
    )
    sys.exit(show(done, wanted))
