"""How a rule is declared: a function from facts to edits and refusals, in a module whose docstring is its manual."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Callable, Union, overload

from migrator.edits import Edit, Refusal, Trust
from migrator.facts.script import Facts
from migrator.records import dataclass

Found = Union[Edit, Refusal, Trust]
Findings = Iterator[Found]
Find = Callable[[Facts], Findings]


@dataclass(frozen=True)
class Rule:
    """One rule: its id (the module's name with dashes), its manual and the function that finds its sites.

    What it writes trains the same model only together with what the rules `needs` write, where these find anything.
    An audit reads a port, in whichever library it is written; the other rules make one, and are not asked about a
    script that goes another way to many devices already. A rule that is `opt_in` acts where it is asked for by name.
    The edits of one that is `optional` may be left out, one by one: the rest trains the same model without them.
    """

    id: str
    manual: str
    find: Find
    is_audit: bool = False
    needs: tuple[str, ...] = ()
    opt_in: bool = False
    optional: bool = False

    @property
    def summary(self) -> str:
        return self.manual.splitlines()[0]


@overload
def rule(find: Find) -> Rule: ...


@overload
def rule(*, needs: tuple[str, ...] = ..., opt_in: bool = ..., optional: bool = ...) -> Callable[[Find], Rule]: ...


def rule(
    find: Find | None = None, *, needs: tuple[str, ...] = (), opt_in: bool = False, optional: bool = False
) -> Rule | Callable[[Find], Rule]:
    """Declares the decorated function to be the rule of its module; `needs` are the ids of others."""
    if find is None:
        return lambda find: _declare(find, Rule("", "", find, needs=needs, opt_in=opt_in, optional=optional))
    return _declare(find, Rule("", "", find))


def audit(find: Find) -> Rule:
    """Declares the decorated function to be the rule of its module, one that reads ports in any library."""
    return _declare(find, Rule("", "", find, is_audit=True))


def _declare(find: Find, declared: Rule) -> Rule:
    module = sys.modules[find.__module__]
    name = find.__module__.rpartition(".")[2].replace("_", "-")
    return replace(declared, id=name, manual=(module.__doc__ or "").strip())
