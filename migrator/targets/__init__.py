"""The APIs that a migrated script can be written against.

Rules speak the language of the runtime `lockstep`: which of its calls belongs where. A target spells these calls in
an API, or says that the API has no way to. Nothing outside of this package asks which target it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import libcst as cst

from migrator.edits import Edit, Refusal
from migrator.facts.script import Facts


class Spelling(Protocol):
    """How one file is written in the API of a target."""

    def spell(self, edit: Edit) -> Iterator[Edit | Refusal]:
        """What a rule's edit is in this API: edits, a refusal where it lacks a way, or nothing where none is needed."""

    def refused(self, rule: str, refusal: Refusal) -> Refusal:
        """A rule's refusal, as it weighs in this API."""

    def calls(self, edit: Edit) -> bool:
        """Whether what has been spelled needs the API's import."""

    def imports(self, nodes: Sequence[cst.CSTNode]) -> Iterator[Edit]:
        """What the file needs once for all that calls the API, at these nodes."""


class Target(Protocol):
    """An API, by the name that `--target` takes."""

    name: str
    # The package that scripts in this API import.
    package: str
    # The command that starts a script on several workers, with {} for the script; empty where it depends on the site.
    launch: str
    # Whether its import may stand above that of TensorFlow.
    joins_anywhere: bool
    # Whether scripts can say in this API that every worker trains on all of the data.
    tells_whole: bool

    def spelling(self, facts: Facts, module: cst.Module) -> Spelling:
        """The spelling of one file of the program."""

    def joining(self, facts: Facts, edited: set[cst.Module]) -> set[cst.Module]:
        """The files that must import the API: the edited ones, and those that would make tensors before them."""


class UnknownTarget(Exception):
    """A target that is not there; the message names those that are."""


def target_named(name: str) -> Target:
    """The target of that name. Raises UnknownTarget."""
    from migrator.targets.lockstep import LOCKSTEP
    from migrator.targets.npu import NPU

    choices: tuple[Target, ...] = (LOCKSTEP, NPU)
    targets = {target.name: target for target in choices}
    if name not in targets:
        raise UnknownTarget(f"there is no target '{name}': the targets are {', '.join(sorted(targets))}")
    return targets[name]
