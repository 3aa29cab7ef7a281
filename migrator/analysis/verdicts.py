"""How what an abstract run has found adds up over the workers: given which repairs, or why in no way."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from migrator.analysis.placement import ALL_GATHER, Partial, Replicated, Scaled, Sharded, Unknown, options
from migrator.analysis.placing import MEETS
from migrator.analysis.placing.parts import SIZELESS
from migrator.analysis.placing.ranks import UNKNOWN
from migrator.analysis.run import Run
from migrator.analysis.values import NOTHING, Data, Repair, Value
from migrator.facts.program.tree import Tree
from migrator.records import dataclass, replace

MEAN, SUM, NONE = "mean", "sum", ""


@dataclass(frozen=True)
class Verdict:
    """How gradients of a loss are put together: by their "mean" or "sum", given the repairs; or why by neither."""

    reduction: str
    repairs: frozenset[Repair] = frozenset()
    why: str = ""
    node: cst.CSTNode | None = None
    is_agreed: bool = False  # the same on all workers, once it is repaired
    takes_samples: bool = False  # by themselves, at the node: known of all rows, and not of a worker's

    @property
    def meets_unknown(self) -> bool:
        """Whether it is made by what nobody knows, of what is put together for that: it may take gradients, of which
        each worker has its own."""
        return any(repair.why == UNKNOWN for repair in self.repairs)


RUNS_WHOLE = "it also runs on whole batches, as in an evaluation"
NOT_RUN = Verdict(NONE, why="nothing in the program is seen to run this")


def puts_together(repairs: Iterable[Repair]) -> bool:
    """Whether rows, or sums over them, are exchanged in the forward pass, and not only means and what sums are divided
    by: then no row may be computed twice, so that workers have unequally many where they do not divide a batch."""
    return any(
        operand.how in ("gather", "sum", "metric", "unknown")
        for repair in repairs
        if repair.form in ("whole", "call", "term", "metric", "drawn")
        for operand in repair.operands
    )


def puts_in_order(repairs: Iterable[Repair]) -> bool:
    """Whether rows are put together as such: as the batch has them only where they were dealt out by the block."""
    return any(operand.how in ("gather", "unknown") for repair in repairs for operand in repair.operands)


class Verdicts:
    def __init__(self, tree: Tree, run: Run) -> None:
        self.tree = tree
        self._run = run

    def of(self, value: Value, node: cst.CSTNode) -> Verdict:
        """How the value adds up, at the node that asks."""
        if value == NOTHING:
            return Verdict(NONE, why="nothing is seen that could make it", node=node)
        leaves = list(self._run.objects.leaves(value))
        lost = next((k for data in leaves for k in kinds_of(data) if isinstance(k, Unknown)), None)
        if lost is not None:
            by_itself = lost.repair == ALL_GATHER
            return Verdict(NONE, why=lost.why, node=self.where(lost, node), takes_samples=by_itself)
        kinds = {kind for data in leaves for kind in kinds_of(data)}
        if len(kinds - {_SAME}) > 1 or (kinds - {_SAME} == {SUM} and _SAME in kinds):
            return Verdict(NONE, why="some of it is a mean over the batch, some a sum", node=node)
        verdict = self.repairable(SUM if SUM in kinds else MEAN, frozenset(r for d in leaves for r in d.needs))
        return replace(verdict, is_agreed=kinds == {_SAME} and bool(verdict.reduction))

    @property
    def changed(self) -> Verdict | None:
        """Why no loss is known: which names hold the rows that are changed in place somewhere is not followed; a graph
        cannot be made."""
        for node in sorted(self._run.sizeless & self.tree.order.keys(), key=self.tree.order.__getitem__):
            return Verdict(NONE, why=SIZELESS, node=node)
        repair = next(iter(self._run.changed.values()), None)
        return Verdict(NONE, why=f"{repair.why}; {repair.blocked}", node=repair.node) if repair is not None else None

    def where(self, lost: Unknown, asked: cst.CSTNode) -> cst.CSTNode:
        """The very expression that is not understood, where it stands in the file that asks."""
        node = self._run.where_lost(lost)
        return node if node is not None and self.tree.module_of(node) is self.tree.module_of(asked) else asked

    def repairable(self, reduction: str, repairs: frozenset[Repair]) -> Verdict:
        for repair in sorted(repairs, key=lambda r: (self.tree.order.get(r.node, -1), r.why)):
            obstacle = self.obstacle(repair)
            if obstacle:
                place = repair.node if repair.node in self.tree.order else None  # none is in the code of packages
                return Verdict(NONE, why=f"{repair.why}; {obstacle}" if repair.why else obstacle, node=place)
        return Verdict(reduction, repairs)

    def obstacle(self, repair: Repair) -> str:
        """Why the repair cannot be written down; empty where it can."""
        if repair.blocked:
            return repair.blocked
        if self.tree.callable_of(repair.node) in self._run.barred:
            return "it also runs where nothing can be put together, as in a function that prepares the data"
        if repair.node in self._run.torn:
            return "one of several functions is called here, and others take a worker's part"
        if any(_excludes(repair, other) for other in self._run.repairs[repair.node]):
            return "it gets other parts of a batch on other ways"
        if repair.form == "once":
            return "it also counts a worker's part of the rows" if repair.node in self._run.fed_parts else ""
        # A mean of what all workers have is that itself, one of their rows is not.
        harmless = all(o.how == "mean" and o.node not in self._run.not_means for o in repair.operands)
        runs_whole = self._run.runs_plain(repair) or (self._run.left_alone.has(repair) and not _is_left_alone(repair))
        if runs_whole and not harmless:
            return RUNS_WHOLE
        return ""


def needed_anyway(run: Run, verdicts: Verdicts) -> set[Repair]:
    """What is put together whether it is trained on or not: random numbers that are drawn for the rows of a worker,
    where all can draw those of the whole batch; and rows that meet what came as a whole with the batch, which fits to
    no part of it."""
    found = {r for repairs in run.repairs.values() for r in repairs if r.form == "drawn"}
    met = [node for node, several in run.meetings.items() if frozenset() in several]
    found |= {r for node in met for r in run.repairs.get(node, ()) if r.why == MEETS}
    return {repair for repair in found if not verdicts.obstacle(repair)}


_SAME = "same"  # on all workers: as good as a mean


def _excludes(repair: Repair, other: Repair) -> bool:
    """Whether one operation is repaired in two ways, of which each is right on its own way to it alone."""
    if repair.form == other.form:
        return repair != other
    is_around = any(operand.node is r.node for r in (repair, other) for operand in r.operands)
    return not other.blocked and not is_around and {repair.form, other.form} <= {"whole", "term", "divisor"}


def _is_left_alone(repair: Repair) -> bool:
    """Whether all that is written down is calls of the runtime that do nothing where Keras evaluates."""
    is_put_together = repair.form in ("whole", "call", "given back")
    return is_put_together and all(operand.how in ("gather", "mean", "sum", "shard") for operand in repair.operands)


def kinds_of(data: Data) -> Iterable[object]:
    if data.mixed:
        yield _SAME
    for placement in options(data.placement):
        if isinstance(placement, Partial):
            yield placement.reduction
        elif isinstance(placement, Sharded):
            yield SUM  # a tape sums up what is no number
        elif isinstance(placement, Replicated):
            yield _SAME
        elif isinstance(placement, Scaled):
            yield Unknown("it is divided or multiplied by the size of the batch once too often")
        elif isinstance(placement, Unknown):
            yield placement
        else:
            yield Unknown("each worker has a value of its own")
