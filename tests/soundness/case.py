"""One case: a script, and what else is known of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """`script` trains something, on its own in one process; migrated, it has to train the same on several.

    `parts` are the script on parts of its first batch: with them it is measured what the loss really is, see truth.py.
    `documented`: another result is right by an exception of the contract, as statistics of a worker's batch are.
    `untrained`: it has weights that nothing trains or sends; the common seed makes them equal on all ranks.
    `open`: known to come out wrong, since nothing in the text tells.
    `repaired_by`: a rule without which the migrated script trains something else, or the case proves nothing.
    """

    group: str
    name: str
    script: str
    parts: tuple[str, ...] = ()
    documented: bool = False
    untrained: bool = False
    open: bool = False
    repaired_by: str = ""

    @property
    def title(self) -> str:
        return f"{self.group}/{self.name}"
