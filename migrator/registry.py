"""Finds the rules: every module of `migrator.rules` that declares one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Collection
from functools import cache

from migrator.rule import Rule


class UnknownRule(Exception):
    """A rule id that no module declares."""

    def __init__(self, name: str, known: Collection[str]) -> None:
        super().__init__(f"there is no rule '{name}': the rules are {', '.join(sorted(known))}")


@cache
def all_rules() -> dict[str, Rule]:
    """The rules by id, in alphabetical order."""
    package = importlib.import_module("migrator.rules")
    found = {}
    for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda i: i.name):
        module = importlib.import_module(f"migrator.rules.{info.name}")
        for value in vars(module).values():
            if isinstance(value, Rule):
                found[value.id] = value
    return found


def choose(
    select: Collection[str] = (), ignore: Collection[str] = (), extend_select: Collection[str] = ()
) -> list[Rule]:
    """The selected rules (all but the opt-in ones, where none is named), with those that extend them, without the
    ignored ones. Raises UnknownRule."""
    rules = all_rules()
    for name in (*select, *extend_select, *ignore):
        if name not in rules:
            raise UnknownRule(name, rules)
    wanted = {*(select or (name for name, rule in rules.items() if not rule.opt_in)), *extend_select} - {*ignore}
    return [rule for name, rule in rules.items() if name in wanted]


def needed(acting: Collection[Rule], chosen: Collection[Rule]) -> list[Rule]:
    """The rules that the acting ones rely on and that are not chosen."""
    wanted = {name for rule in acting for name in rule.needs} - {rule.id for rule in chosen}
    return [rule for rule in all_rules().values() if rule.id in wanted]
