"""The options of the command `migrate`: how each is written, and what was given of them."""

from __future__ import annotations

from pathlib import Path as FilePath
from typing import Callable, TypeVar

import click

from migrator.command.terminal import Path, colour
from migrator.records import dataclass
from migrator.report import FORMATS

_Command = TypeVar("_Command", bound=Callable[..., object])


@dataclass(frozen=True)
class Given:
    """What stands on the command line."""

    paths: tuple[FilePath, ...]
    dry_run: bool
    check: bool
    interactive: bool
    output: str | None
    target: str | None
    select: tuple[str, ...]
    extend_select: tuple[str, ...]
    ignore: tuple[str, ...]
    stdin_filename: str | None
    exclude: tuple[str, ...]
    extend_exclude: tuple[str, ...]
    respect_gitignore: bool | None
    line_length: int | None
    config: tuple[str, ...]
    baseline: str | None
    write_baseline: bool
    add_ignore: str
    prune_baseline: bool
    cache: bool
    cache_dir: str | None
    isolated: bool
    show_settings: bool
    show_files: bool
    strict: bool | None
    whole: bool | None
    python: str | None
    per_file_ignores: dict[str, tuple[str, ...]] | None
    no_suppressions: bool
    jobs: int | None
    time_limit: float
    output_format: str
    output_file: str | None
    report: str | None
    statistics: bool
    exit_zero: bool
    quiet: bool
    explain: str | None
    verbose: bool
    version: bool

    @property
    def writes(self) -> bool:
        """Whether the migrated files are to be written."""
        return not (self.dry_run or self.check or self.write_baseline)


def _names(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """`--select a,b --select c` names a, b and c."""
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


def _mapping(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, tuple[str, ...]] | None:
    """`--per-file-ignores a.py:x,b/:y`; None where nothing is given."""
    found: dict[str, tuple[str, ...]] = {}
    for value in _names(context, parameter, values):
        pattern, _, rule = value.rpartition(":")
        if not (pattern and rule):
            raise click.BadParameter(f"'{value}' is not PATTERN:RULE", param=parameter)
        found[pattern] = (*found.get(pattern, ()), rule)
    return found or None


def _reason(_: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """Text that a comment can hold."""
    reason = (value or "").strip()
    if value is not None and (not reason or any(character in reason for character in "#\r\n")):
        raise click.BadParameter("a reason is one line of text without #", param=parameter)
    return reason


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


_OPTIONS = (
    click.argument("paths", nargs=-1, metavar="PATHS...", type=Path(path_type=FilePath, allow_dash=True)),
    click.option("--dry-run", "--diff", "dry_run", is_flag=True, help="Print a unified diff and write nothing."),
    click.option("--check", is_flag=True, help="Write nothing; list the sites that are not ported."),
    click.option("-i", "--interactive", is_flag=True, help="Ask about each training, as git add -p does; ? explains."),
    click.option(
        "-o",
        "--output",
        type=Path(),
        metavar="PATH",
        help="Write the migrated copy there (a folder for several files); leave the original alone.",
    ),
    click.option(
        "--target",
        metavar="API",
        help="The API to write: lockstep, the bundled runtime and the default, or npu, Ascend's npu_device.",
    ),
    click.option(
        "--select",
        multiple=True,
        callback=_names,
        shell_complete=_rules_like,
        metavar="RULE",
        help="Apply this rule only (repeatable, comma-separated).",
    ),
    click.option(
        "--extend-select",
        multiple=True,
        callback=_names,
        shell_complete=_rules_like,
        metavar="RULE",
        help="Apply this rule beside the others: one that is off by default.",
    ),
    click.option(
        "--ignore",
        multiple=True,
        callback=_names,
        shell_complete=_rules_like,
        metavar="RULE",
        help="Do not apply this rule.",
    ),
    click.option(
        "--stdin-filename",
        type=Path(),
        metavar="FILE",
        help="The file that standard input is the content of: for reports, settings and imports.",
    ),
    click.option(
        "--strict/--no-strict",
        default=None,
        help="Whether to refuse layers and models of packages that would be taken on trust.",
    ),
    click.option(
        "--whole/--no-whole",
        default=None,
        help="Whether every worker may train on all of the data where these cannot be split.",
    ),
    click.option(
        "--python",
        metavar="PATH",
        help="Read the packages of this interpreter, of an environment's folder, or none (default: those beside "
        "this tool).",
    ),
    click.option(
        "--per-file-ignores",
        multiple=True,
        callback=_mapping,
        metavar="PATTERN:RULE",
        help="Ignore this rule in the files of this pattern of .gitignore.",
    ),
    click.option(
        "--no-suppressions",
        is_flag=True,
        help="Heed no comment # migrate: ignore[...]: see all that is found.",
    ),
    click.option(
        "--exclude",
        multiple=True,
        callback=_names,
        metavar="PATTERN",
        help="Leave out of folders what this pattern of .gitignore matches, instead of build folders and the like.",
    ),
    click.option(
        "--extend-exclude", multiple=True, callback=_names, metavar="PATTERN", help="Leave this out of folders, too."
    ),
    click.option(
        "--respect-gitignore/--no-respect-gitignore",
        default=None,
        help="Whether to leave out of folders what .gitignore names (it is).",
    ),
    click.option(
        "--line-length",
        type=click.IntRange(20, 320),
        metavar="N",
        help="The longest line to write (default: as ruff or black is told, as each file shows, or 100).",
    ),
    click.option(
        "--config",
        multiple=True,
        metavar="FILE|KEY=VALUE",
        help="Take the settings of this file, or this one setting in TOML, instead of [tool.migrate] in "
        "pyproject.toml.",
    ),
    click.option(
        "--baseline",
        type=Path(dir_okay=False),
        metavar="FILE",
        help="Accept the findings that this file has: they do not count as left.",
    ),
    click.option(
        "--write-baseline",
        is_flag=True,
        help="Accept all that is left now: write it to the baseline, and nothing else.",
    ),
    click.option(
        "--add-ignore",
        metavar="REASON",
        callback=_reason,
        help="Accept all that is left now by comments # migrate: ignore[...] with this reason, and write nothing else.",
    ),
    click.option("--prune-baseline", is_flag=True, help="Take out of the baseline what is not found any more."),
    click.option(
        "--cache/--no-cache", default=True, help="Whether --check remembers what it found in unchanged files (it does)."
    ),
    click.option(
        "--cache-dir", type=Path(), envvar="MIGRATE_CACHE_DIR", metavar="FOLDER", help="Where (or MIGRATE_CACHE_DIR)."
    ),
    click.option("--isolated", is_flag=True, help="Heed no file of settings."),
    click.option("--show-settings", is_flag=True, help="Print the settings of the run and exit."),
    click.option("--show-files", is_flag=True, help="Print the files that would be read and exit."),
    click.option(
        "-j",
        "--jobs",
        type=click.IntRange(min=1),
        metavar="N",
        help="Processes to use for many files (default: one for each core).",
    ),
    click.option(
        "--time-limit",
        type=click.FloatRange(min=0, min_open=True),
        default=20,
        show_default=True,
        envvar="MIGRATE_TIME_LIMIT",
        metavar="SECONDS",
        help="CPU time for the analysis of each file of a program (or MIGRATE_TIME_LIMIT).",
    ),
    click.option(
        "--output-format",
        type=click.Choice(FORMATS),
        default=FORMATS[0],
        show_default=True,
        envvar="MIGRATE_OUTPUT_FORMAT",
        metavar="FORM",
        help=f"How to report: {', '.join(FORMATS)} (or MIGRATE_OUTPUT_FORMAT).",
    ),
    click.option(
        "--output-file",
        type=Path(dir_okay=False),
        envvar="MIGRATE_OUTPUT_FILE",
        metavar="FILE",
        help="Write the report there (or MIGRATE_OUTPUT_FILE).",
    ),
    click.option(
        "--report",
        type=Path(dir_okay=False),
        metavar="FILE.html",
        help="Write a page for review there: one file, with every change beside its rule.",
    ),
    click.option("--statistics", is_flag=True, help="Report how many sites each rule has, instead of each site."),
    click.option("-e", "--exit-zero", is_flag=True, help="Exit with 0 where something is left; errors still give 2."),
    click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        callback=colour,
        expose_value=False,
        is_eager=True,
        help="Whether to colour the output.",
    ),
    click.option("-q", "--quiet", is_flag=True, help="Print errors and refusals only."),
    click.option(
        "--explain", shell_complete=_rules_like, metavar="RULE", help="Print a rule's manual, also as json, and exit."
    ),
    click.option(
        "--list-rules",
        is_flag=True,
        callback=_list_rules,
        expose_value=False,
        is_eager=True,
        help="List the rules and exit.",
    ),
    click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="Tell which code of packages was read. With --version: of Python, of the parser and the like, too.",
    ),
    click.option("--version", is_flag=True, help="Print the version and exit."),
)


def with_options(command: _Command) -> _Command:
    """Gives a command all of them; its parameters are the fields of `Given`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
