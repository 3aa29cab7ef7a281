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
    """One rule: its id (the module's name with dashes), its manual and the function that finds its sites."""

    id: str
    manual: str
    find: Callable[[Facts], Findings]

    @property
    def summary(self) -> str:
        return self.manual.splitlines()[0]


def rule(find: Callable[[Facts], Findings]) -> Rule:
    """Declares the decorated function to be the rule of its module."""
    module = sys.modules[find.__module__]
    return Rule(find.__module__.rpartition(".")[2].replace("_", "-"), (module.__doc__ or "").strip(), find)
