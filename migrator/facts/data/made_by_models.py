"""What models make of a batch in front of the tape: the answers of a teacher, targets of a network that is frozen.

They have a row for each sample of the batch, as nothing but the batch itself tells. So the batch is what is cut, in
front of the first model that takes it, and the answers then are those to a worker's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

import libcst as cst

from migrator.facts.data.data_reads import DataReads
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Member
from migrator.facts.program.tree import Binding, Statement, Tree
from migrator.facts.training.sites import Training
from migrator.records import dataclass

_ANSWERING = frozenset({"predict", "predict_on_batch"})


@dataclass(frozen=True)
class MadeOf:
    """What the step's data come down to where no model has made anything of them yet: as it is read there and by the
    step; `first`: the statement in front of which all of it is there, and no model has run; `steps`: the code that
    makes the step's data of it."""

    reads: tuple[cst.BaseExpression, ...]
    first: Statement
    steps: tuple[Statement, ...]


class MadeByModels:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, training: Training, reads: DataReads) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.training = training
        self.reads = reads

    def of(self, given: Iterable[cst.BaseExpression], turn: cst.CSTNode, block: Statement) -> MadeOf | None:
        """None where no model has made any of it in this turn, in front of the block."""
        steps: dict[Statement, None] = {}
        reads = self._down(
            given, turn, steps, lambda bindings: any(self._is_by_model(b, turn, frozenset()) for b in bindings)
        )
        first = self._first(steps, block) if steps else None
        if first is None:
            return None
        reads = self._down(reads, turn, steps, lambda bindings: any(self._is_behind(b, first) for b in bindings))
        return MadeOf((*reads,), first, (*steps,))

    def _down(
        self, given: Iterable[cst.BaseExpression], turn: cst.CSTNode, steps: dict[Statement, None],
        is_made: Callable[[list[Binding]], bool],
    ) -> list[cst.BaseExpression]:  # fmt: skip
        """What stands in the given, and in the statements of this turn that make the names in it for which it holds;
        these statements are added to the steps."""
        found: dict[cst.BaseExpression, None] = {}
        queue = [*given]
        for node in queue:
            bindings = self._in_turn(node, turn)
            if not is_made(bindings):
                found[node] = None
                continue
            for binding in bindings:
                statement = self.tree.statement_of(binding.node)
                if statement not in steps:
                    steps[statement] = None
                    queue += self.reads.of(cast(cst.CSTNode, binding.value), statement)
        return [*found]

    def _first(self, places: Iterable[Statement], block: Statement) -> Statement | None:
        """The first of the places, lifted to the statements that the block stands among, or around it."""
        for owner in self.tree.ancestors(block):
            if isinstance(owner, (cst.FunctionDef, cst.Lambda)):
                return None
            if isinstance(owner, (cst.IndentedBlock, cst.Module)):
                lifted = [self.tree.lift(place, owner) for place in places]
                if all(place is not None for place in lifted):
                    return min(cast("list[Statement]", lifted), key=lambda place: self.tree.order[place])
        return None

    def _is_behind(self, binding: Binding, place: Statement) -> bool:
        return self.tree.order[binding.node] >= self.tree.order[place]

    def _in_turn(self, node: cst.BaseExpression, turn: cst.CSTNode) -> list[Binding]:
        bindings = self.resolver.reaching(node) if isinstance(node, cst.Name) else []
        return [b for b in bindings if b.kind == "assign" and b.value is not None and self.tree.contains(turn, b.node)]

    def _is_by_model(self, binding: Binding, turn: cst.CSTNode, passed: frozenset[Binding]) -> bool:
        """Whether a model, or a function of the script's that calls one, gives the value or a part of it."""
        value = cast(cst.CSTNode, binding.value)
        bodies = self.training.reached_from(value)
        return any(self._answers(call) for call in self.tree.all_of(cst.Call) if self.tree.is_in(call, bodies)) or any(
            self._is_by_model(other, turn, passed | {binding})
            for name in self.tree.names_in(value)
            if self.tree.is_read(name)
            for other in self._in_turn(name, turn)
            if other not in passed and other is not binding
        )

    def _answers(self, call: cst.Call) -> bool:
        return bool(call.args) and any(
            self.kinds.has_weights(v)
            or (isinstance(v, Member) and v.name in _ANSWERING and self.kinds.has_weights(v.owner))
            for v in self.resolver.values(call.func)
        )
