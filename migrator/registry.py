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


def choose(select: Collection[str] = (), ignore: Collection[str] = ()) -> list[Rule]:
    """The selected rules (all, where none is named) without the ignored ones. Raises UnknownRule."""
    rules = all_rules()
    for name in (*select, *ignore):
        if name not in rules:
            raise UnknownRule(name, rules)
    return [r for r in rules.values() if (not select or r.id in select) and r.id not in ignore]


def needed(acting: Collection[Rule], chosen: Collection[Rule]) -> list[Rule]:
    """The rules that the acting ones rely on and that are not chosen."""
    wanted = {name for rule in acting for name in rule.needs} - {rule.id for rule in chosen}
    return [rule for rule in all_rules().values() if rule.id in wanted]
