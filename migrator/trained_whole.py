"""The last resort: what cannot be split is trained on as a whole by every worker, which is right and gains nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import libcst as cst

from migrator.edits import InsertAfter, InsertBefore, InsertFirst, Refusal, Trust
from migrator.facts.names.vocabulary import Role
from migrator.facts.program.syntax import argument, method_called
from migrator.facts.script import Facts
from migrator.files.imports import reachable
from migrator.files.programs import Program
from migrator.findings.found import Found, site
from migrator.findings.missing import names_a_file
from migrator.rule import Rule
from migrator.targets import Target

# With fewer, something would be missing that makes the workers' models the same.
_NEEDED = frozenset({
    "all-reduce-gradients", "broadcast-randomness", "broadcast-weights", "shard-dataset", "synchronise-callbacks",
    "wrap-optimizer", "write-once",
})  # fmt: skip
# What they refuse is refused whatever becomes of the data.
REFUSED_ANYWAY = frozenset({"already-distributed", "broadcast-weights"})
_SPLITTING = frozenset({"shard-arrays", "shard-batch", "shard-dataset", "shard-made-tensors", "shard-minibatches"})
# What they put together of whole batches would hold each row as often as there are workers.
_PUTTING_TOGETHER = frozenset({"gather-batch", "scale-loss"})
_CUTTING = (Role.SHARD, Role.LOCAL_BATCH)
_SHARING = (*_CUTTING, Role.SIZE, Role.NORMALISE)
# Of rows that are dealt out and put together again with nothing done to them between; what the user can do.
AT_ONCE = "all rows are put together for that before the model or its weights work on any"
BY_ROWS = "write it so that it works on each sample by itself, to share out the batches"
_TOLD = "; so every worker trains on all of the data: the same model as on one device, and no faster"
# What is refused without this advice only keeps the data from being split.
_ENOUGH = "; once all that say so are mended, every worker can train on all of the data"


def unsplit(found: Sequence[Found]) -> list[Found]:
    """The refusals of which nothing would be left, were the data not split."""
    return [f for f in found if isinstance(f.what, Refusal) and (f.breaks_training or f.rule in _SPLITTING)]


def left_whole(facts: Facts, found: Mapping[Path, Sequence[Found]]) -> dict[Path, list[Found]]:
    """What is refused so, of each file; where nothing stops the training, what it is told that all rows are put
    together for at once: to split the data gains nothing then."""
    left = {path: unsplit(several) for path, several in found.items()}
    if any(one.breaks_training for several in found.values() for one in several):
        return left
    for path, several in found.items():
        for one in several:
            why = facts.put_together_at_once.get(one.what.node) if isinstance(one.what, Trust) else None
            if isinstance(one.what, Trust) and why is not None:
                reason = f"{why}; {AT_ONCE}"
                refusal = Refusal(one.what.node, reason, one.what.advice, breaks_training=True)
                left[path].append(replace(one, what=refusal))
    return left


def is_half_split(found: Mapping[Path, Sequence[Found]]) -> bool:
    """Whether rows of the workers would be put together that are refused to be shared out."""
    several = [one for of_file in found.values() for one in of_file]
    is_refused = any(isinstance(one.what, Refusal) and one.rule in _SPLITTING for one in several)
    return is_refused and any(one.edit is not None and one.rule in _PUTTING_TOGETHER for one in several)


def may_train_whole(
    facts: Facts,
    found: Mapping[Path, Sequence[Found]],
    left: Mapping[Path, Sequence[Found]],
    rules: Sequence[Rule],
    target: Target,
    program: Program,
) -> bool:
    """Whether it may be tried: something is `left` that no other file could explain, the files are one program, and
    nothing in them is shared out already."""
    several = [one for of_file in left.values() for one in of_file]
    is_split = any(one.rule in _SPLITTING and one.edit is not None for of_file in found.values() for one in of_file)
    if is_split and not any(one.breaks_training for one in several):
        return False  # some of the data are, and the rest is right as it is
    if not several or not target.tells_whole or not {rule.id for rule in rules} >= _NEEDED:
        return False
    if any(one.rule in REFUSED_ANYWAY or names_a_file(one.what) for one in several if isinstance(one.what, Refusal)):
        return False
    sites = [*facts.training.sites, *(site(one.what) for one in several)]
    return _are_of_one(sites, facts, program) and not _is_shared_out(facts)


def _are_of_one(nodes: Sequence[cst.CSTNode], facts: Facts, program: Program) -> bool:
    """Whether one of the files runs all of these, alone or by what it imports."""
    files = {facts.scripts[facts.tree.module_of(node)].path for node in nodes}
    return any(files <= reachable([path], program.imported) for path in facts.scripts_at)


def may_be_written(found: Mapping[Path, Sequence[Found]]) -> bool:
    """Whether nothing is refused without a split either, and what is written tells that there is none."""
    several = [one for of_file in found.values() for one in of_file]
    return not any(one.breaks_training for one in several) and any(
        one.rule == "broadcast-weights" and isinstance(one.edit, (InsertAfter, InsertBefore, InsertFirst))
        for one in several
    )


def with_what_is_left(
    found: Mapping[Path, Sequence[Found]], whole: Mapping[Path, Sequence[Found]]
) -> dict[Path, list[Found]]:
    """The findings of a program that is refused; where less would be refused were its data not split, with that, which
    says so: to mend it is enough for a program that trains the same model."""
    left = {path: [f for f in several if f.breaks_training] for path, several in whole.items()}
    if sum(map(len, left.values())) >= sum(len(unsplit(several)) for several in found.values()):
        return {path: list(several) for path, several in found.items()}
    told: dict[Path, list[Found]] = {}
    for path, several in found.items():
        enough = {(one.rule, site(one.what)): _enough(one) for one in left[path]}
        told[path] = [enough.pop((one.rule, site(one.what)), one) for one in several]
        told[path] += enough.values()
    return told


def _enough(found: Found) -> Found:
    refusal = found.what
    if not isinstance(refusal, Refusal):
        return found
    return replace(found, what=replace(refusal, advice=f"{refusal.advice}{_ENOUGH}"))


def sends_as_much(whole: Facts, split: Facts) -> bool:
    """Whether all workers take from the chief what each would have its own of, such as a draw of the system's: what
    of it comes into the training as data is followed to the places where these are split."""
    sent = {number.expression for number in whole.decisions.local_numbers if number.reduction == "chief"}
    return all(number.expression in sent for number in split.decisions.local_numbers if number.reduction == "chief")


def is_trained_whole(facts: Facts, program: Program) -> bool:
    """Whether the program says that every worker trains on all of the data, and does."""
    said = facts.ports.said_whole
    is_one = bool(said) and _are_of_one([*facts.training.sites, *said], facts, program)
    return is_one and not facts.ports.has(*_CUTTING)


def _is_shared_out(facts: Facts) -> bool:
    ports = facts.ports
    if ports.is_foreign or ports.has(*_SHARING) or ports.has_gathers:
        return True
    ranks = [method_called(call.call) for call in ports.of(Role.RANK)]
    return any(name != "is_chief" for name in ranks) or any(_is_other_than_mean(c.call) for c in ports.of(Role.REDUCE))


def _is_other_than_mean(call: cst.Call) -> bool:
    reduction = argument(call, "reduction", 1)
    given = reduction.value if reduction is not None else None
    return given is not None and not (isinstance(given, cst.SimpleString) and given.evaluated_value == "mean")


def trained_whole(refused: Found) -> Found:
    """What is told of the place that is refused where the data are split."""
    assert isinstance(refused.what, Refusal)
    return replace(refused, what=Trust(refused.what.node, refused.what.reason + _TOLD, refused.what.advice))
