"""How a rule is declared: a function from facts to edits and refusals, in a module whose docstring is its manual."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Callable, Union

from migrator.edits import Edit, Refusal
from migrator.facts.script import Facts

Findings = Iterator[Union[Edit, Refusal]]


@dataclass(frozen=True)
class Rule:
    """One rule: its id (the module's name with dashes), its manual and the function that finds its sites.

    An audit reads a port, in whichever library it is written; the other rules make one, and are not asked about a
    script that goes another way to many devices already.
    """

    id: str
    manual: str
    find: Callable[[Facts], Findings]
    is_audit: bool = False

    @property
    def summary(self) -> str:
        return self.manual.splitlines()[0]


def rule(find: Callable[[Facts], Findings]) -> Rule:
    """Declares the decorated function to be the rule of its module."""
    return _declare(find, is_audit=False)


def audit(find: Callable[[Facts], Findings]) -> Rule:
    """Declares the decorated function to be the rule of its module, one that reads ports in any library."""
    return _declare(find, is_audit=True)


def _declare(find: Callable[[Facts], Findings], is_audit: bool) -> Rule:
    module = sys.modules[find.__module__]
    return Rule(find.__module__.rpartition(".")[2].replace("_", "-"), (module.__doc__ or "").strip(), find, is_audit)
