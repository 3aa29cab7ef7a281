"""What stands on the command line, as the settings, options and baseline of a run; mistakes are those of usage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from migrator.baseline import Baseline
    from migrator.run import Options
    from migrator.settings import Settings


def names(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """`--select a,b --select c` names a, b and c."""
    return tuple(name.strip() for value in values for name in value.split(",") if name.strip())


def mapping(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, tuple[str, ...]] | None:
    """`--per-file-ignores a.py:x,b/:y`; None where nothing is given."""
    found: dict[str, tuple[str, ...]] = {}
    for value in names(context, parameter, values):
        pattern, _, rule = value.rpartition(":")
        if not (pattern and rule):
            raise click.BadParameter(f"'{value}' is not PATTERN:RULE", param=parameter)
        found[pattern] = (*found.get(pattern, ()), rule)
    return found or None


def reason(_: click.Context, parameter: click.Parameter, value: str | None) -> str:
    """Text that a comment can hold."""
    reason = (value or "").strip()
    if value is not None and (not reason or any(character in reason for character in "#\r\n")):
        raise click.BadParameter("a reason is one line of text without #", param=parameter)
    return reason


def settings_of(paths: Sequence[FilePath], config: Sequence[str], *, isolated: bool, **given: Any) -> Settings:
    """The project's settings, with what stands on the command line in their place; `--ignore` and the like add."""
    from migrator.settings import BadSetting, settings_for

    try:
        found = settings_for(paths, config, isolated=isolated)
        if given["select"]:
            found = replace(found, select=(), ignore=())
        for name in ("ignore", "extend_select", "extend_exclude"):
            given[name] = (*getattr(found, name), *given[name])
        found = replace(found, **{name: value for name, value in given.items() if value not in (None, ())})
    except BadSetting as error:
        raise click.UsageError(str(error)) from None
    return found


def options_of(settings: Settings, **given: Any) -> Options:
    """The same for the run, with the names of rules and the target looked up."""
    from migrator.registry import UnknownRule, choose
    from migrator.run import Options
    from migrator.targets import UnknownTarget, target_named

    try:
        choose([rule for rules in settings.per_file_ignores.values() for rule in rules])
        return Options(
            rules=tuple(rule.id for rule in choose(settings.select, settings.ignore, settings.extend_select)),
            target=target_named(settings.target).name,
            without=settings.filter(),
            line_length=settings.line_length,
            heeds_formatters=not click.get_current_context().params["isolated"],
            is_strict=settings.strict,
            per_file=settings.per_file(),
            **given,
        )
    except (UnknownRule, UnknownTarget) as error:
        raise click.UsageError(str(error)) from None


def baseline_of(settings: Settings, given: str | None, *, write: bool, prune: bool) -> Baseline | None:
    """The accepted findings; where they are to be written anew, none of them, with the file's name."""
    from collections import Counter

    from migrator.baseline import NAME, BadBaseline, Baseline

    file = FilePath(given) if given is not None else settings.baseline_file
    if write:
        return Baseline(file or settings.root / NAME, Counter())
    if file is None:
        if prune:
            raise click.UsageError("--prune-baseline needs a baseline: name it with --baseline")
        return None
    try:
        return Baseline.read(file)
    except BadBaseline as error:
        raise click.UsageError(str(error)) from None
