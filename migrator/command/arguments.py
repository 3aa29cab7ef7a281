"""What stands on the command line, as the settings, options and baseline of a run; mistakes are those of usage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from migrator.command.baseline import Baseline
    from migrator.command.options import Given
    from migrator.command.run import Options
    from migrator.command.settings import Settings


# Of the settings, those that an option of the same name replaces.
_REPLACED = (
    "target", "select", "exclude", "respect_gitignore", "line_length", "strict", "whole", "per_file_ignores", "python",
)  # fmt: skip
# Those that an option of the same name adds to.
_ADDED = ("ignore", "extend_select", "extend_exclude")


def settings_of(given: Given) -> Settings:
    """The project's settings, with what stands on the command line in their place; `--ignore` and the like add."""
    from migrator.command.settings import BadSetting, settings_for

    is_named = given.stdin_filename is not None
    paths = [FilePath(given.stdin_filename or "") if is_named and str(path) == "-" else path for path in given.paths]
    try:
        found = settings_for(paths, given.config, isolated=given.isolated)
        if given.select:
            found = replace(found, select=(), ignore=())
        changed: dict[str, Any] = {name: (*getattr(found, name), *getattr(given, name)) for name in _ADDED}
        changed |= {name: getattr(given, name) for name in _REPLACED}
        return replace(found, **{name: value for name, value in changed.items() if value not in (None, ())})
    except BadSetting as error:
        raise click.UsageError(str(error)) from None


def options_of(settings: Settings, given: Given) -> Options:
    """The same for the run, with the names of rules and the target looked up."""
    from migrator.command.environment import NoEnvironment, site_packages
    from migrator.command.run import Options
    from migrator.registry import UnknownRule, choose
    from migrator.targets import UnknownTarget, target_named

    try:
        choose([rule for rules in settings.per_file_ignores.values() for rule in rules])
        return Options(
            rules=tuple(rule.id for rule in choose(settings.select, settings.ignore, settings.extend_select)),
            target=target_named(settings.target).name,
            writes=given.writes,
            output=given.output,
            jobs=given.jobs,
            time_limit=given.time_limit,
            without=settings.filter(),
            line_length=settings.line_length,
            heeds_formatters=not given.isolated,
            stdin_name=given.stdin_filename or "",
            is_strict=settings.strict,
            may_train_whole=settings.whole,
            heeds_ignores=not given.no_suppressions,
            per_file=settings.per_file(),
            add_ignore=given.add_ignore,
            site_packages=site_packages(settings.python),
        )
    except (UnknownRule, UnknownTarget, NoEnvironment) as error:
        raise click.UsageError(str(error)) from None


def baseline_of(settings: Settings, given: Given) -> Baseline | None:
    """The accepted findings; where they are to be written anew, none of them, with the file's name."""
    from collections import Counter

    from migrator.command.baseline import NAME, BadBaseline, Baseline

    file = FilePath(given.baseline) if given.baseline is not None else settings.baseline_file
    if given.write_baseline:
        return Baseline(file or settings.root / NAME, Counter())
    if file is None:
        if given.prune_baseline:
            raise click.UsageError("--prune-baseline needs a baseline: name it with --baseline")
        return None
    try:
        return Baseline.read(file)
    except BadBaseline as error:
        raise click.UsageError(str(error)) from None
