"""The call that the rule writes."""

from __future__ import annotations

from migrator.facts.script import Facts


def call_on(facts: Facts, names: list[str], *, are_variables: bool = False) -> str:
    names = list(dict.fromkeys(names))
    # On data that nobody shares out all workers have to drop the same; where sharing is given up, it also tells that.
    is_said = facts.trains_whole and not (facts.cuts and are_variables)
    noise = ['noise="same"'] if is_said else []
    return facts.call("broadcast", names[0] if len(names) == 1 else f"[{', '.join(names)}]", *noise)
