"""Rows, sums and means that a function needs whole in several places: put together once.

Where all reads of a name need them so, what the name is given is put together, or the name gets the whole in front of
the first of them; else the whole gets a name of its own, and what reads the worker's part stays as it is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Union

import libcst as cst

from migrator.analysis.values import Operand
from migrator.edits import InsertBefore, Refusal, Replace, Wrap
from migrator.facts.data.batch_cuts import CutArguments, CutExpressions, CutNames
from migrator.facts.objects.values import is_call_of
from migrator.facts.program.tree import Binding, nodes_in
from migrator.facts.script import Facts
from migrator.insertion.changed_arrays import ChangedArrays
from migrator.insertion.of_names import OfNames
from migrator.insertion.repairs import loop_around, waits

Edits = Sequence[Union[InsertBefore, Replace, Wrap]]
_PUT = {"gather": ("all_{}", "all_gather", ""), "mean": ("global_{}", "all_reduce", "")}
_PUT["sum"] = ("global_{}", "all_reduce", ', reduction="sum"')
# They run what they hold later, or not whenever the statement runs.
_AT_WILL = (cst.Lambda, cst.BaseComp, cst.Assert)
_LEAVING = (cst.Return, cst.Raise, cst.Break, cst.Continue, cst.Assert, cst.Yield, cst.Await)
_TURNING = (cst.For, cst.While, cst.BaseComp)
_WAITING = (cst.Yield, cst.Await)
# What is asked of these for a tensor has to be the one that they have seen.
_WATCHING = re.compile(r"watch|gradients?|(batch_)?jacobian|hessians?|ForwardAccumulator|jvp|vjp")
_MADE = (cst.Call, cst.BinaryOperation, cst.UnaryOperation)


def put_once(facts: Facts, operands: Collection[Operand]) -> Iterator[tuple[list[cst.CSTNode], Edits]]:
    """The names that several operands read, each time for the same: gives the operands' nodes with the edits that do
    for all of them."""
    once = _Once(facts)
    groups: dict[tuple[object, ...], list[cst.Name]] = defaultdict(list)
    for operand in sorted(operands, key=lambda o: facts.tree.order[o.node]):
        node = operand.node
        if operand.how in _PUT and isinstance(node, cst.Name) and once.may_be_named(node):
            groups[_key(facts, operand.how, node)].append(node)
    behind = OfNames(facts, operands)
    for read in behind.of:
        if once.may_be_named(read):
            groups[_key(facts, "gather", read)].append(read)
    done: set[cst.CSTNode] = set()
    # Numbers of rows last: those of what is put together need nothing more.
    for (how, *_), several in sorted(groups.items(), key=lambda group: group[0][0] != "gather"):
        reads = sorted((read for read in several if read not in done), key=facts.tree.order.__getitem__)
        while len(reads) > 1 and not behind.counts.issuperset(reads):
            made = once.where_made(str(how), reads)
            place, together = (None, reads) if made is not None else once.together(reads)
            if len(together) > 1 and not behind.counts.issuperset(together):
                nodes = [node for read in together for node in behind.of.get(read, [read])]
                done.update(nodes)
                yield nodes, [made] if made is not None else once.in_front(str(how), place, together)
            reads = reads[len(together) :]


def _key(facts: Facts, how: str, name: cst.Name) -> tuple[object, ...]:
    return how, name.value, tuple(facts.resolver.reaching(name))


class _Once:
    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.tree = facts.tree
        self.changed = ChangedArrays(facts.tree, facts.resolver)
        plans = [plan for plan in facts.sharding.minibatch_plans if not isinstance(plan, Refusal)]
        self._cut: set[cst.CSTNode] = set()
        self._cut_before: set[cst.CSTNode] = set()
        for plan in plans:
            if isinstance(plan, CutNames):
                self._cut_before.add(facts.tree.statement_of(plan.before))
            elif isinstance(plan, CutExpressions):
                self._cut.update(plan.expressions)
            elif isinstance(plan, CutArguments):
                self._cut.update(arg.value for arg in plan.batches)
        self._repaired = {o.node for repair in facts.repairs for o in repair.operands}
        self._likes = [(o.node, o.like) for repair in facts.repairs for o in repair.operands if o.like]

    def may_be_named(self, name: cst.Name) -> bool:
        """Whether it is numbers that a function, or the script itself, has under a name of its own."""
        scope = self.tree.scope_of(name).lookup(name.value)
        function = self.tree.function_of(name)
        if scope is None or scope.node is not (function or self.tree.module_of(name)):
            return False
        if self.tree.callable_of(name) is not function or name in self._cut or not self.facts.losses.is_array(name):
            return False
        bindings = scope.bindings[name.value]  # `nonlocal` and `global` bind it from elsewhere
        return all(b.kind == "param" or self.tree.function_of(b.node) is function for b in bindings)

    # -- where ---------------------------------------------------------------------------------------------------

    def together(self, reads: Sequence[cst.Name]) -> tuple[cst.CSTNode, list[cst.Name]]:
        """The first of the reads with all that come after it for which one line does, too; and what that stands in
        front of."""
        place: cst.CSTNode = reads[0]
        found = [reads[0]]
        if loop_around(self.facts, reads[0]) is None:
            for statement in self._places(reads[0]):
                count = next(
                    (i for i, read in enumerate(reads) if not self._reaches(statement, read, reads)), len(reads)
                )
                if count > len(found):
                    place, found = statement, [*reads[:count]]
        return place, found

    def _places(self, read: cst.Name) -> Iterator[cst.CSTNode]:
        """The statements that the line may stand in front of: that of the read, and the tapes around it."""
        statement: cst.CSTNode = self.tree.statement_of(read)
        if not self._surely_runs(statement, read):
            return
        while True:
            if statement in self._cut_before:
                return
            yield statement
            block = self.tree.block_of(statement)
            around = self.tree.parent.get(block)
            beside = self.tree.statements_beside(statement)
            before = beside[: beside.index(statement)]
            if not isinstance(around, cst.With) or any(map(self._may_leave, before)):
                return
            if not all(self._is_tape(item.item) for item in around.items):
                return
            if not isinstance(self.tree.block_of(around), (cst.Module, cst.IndentedBlock)):
                return
            statement = around

    def _is_tape(self, node: cst.BaseExpression) -> bool:
        values = self.facts.resolver.values(node)
        return bool(values) and all(is_call_of(value, "tensorflow.GradientTape") for value in values)

    def _may_leave(self, line: cst.CSTNode) -> bool:
        return any(isinstance(inner, _LEAVING) for inner in nodes_in(line))

    def _reaches(self, statement: cst.CSTNode, read: cst.Name, reads: Collection[cst.CSTNode]) -> bool:
        """Whether a line in front of the statement gives the read what it asks for."""
        if self.tree.lift(read, self.tree.block_of(statement)) is None:
            return False
        if any(waits(self.facts, owner) for owner in self.tree.ancestors(read)):
            return False
        bound = (self.tree.order[b.node] for b in self.facts.resolver.reaching(read))
        start = self.tree.order[statement]
        in_front = all(order < start or order > self.tree.order[read] for order in bound)
        return in_front and self._stays(self.tree.block_of(statement), start, read, reads)

    def _surely_runs(self, statement: cst.CSTNode, read: cst.Name) -> bool:
        """Whether lines can stand above the statement, and the read runs whenever it does."""
        block = self.tree.block_of(statement)
        if not isinstance(block, (cst.Module, cst.IndentedBlock)):
            return False
        if isinstance(statement, cst.If):
            header: cst.CSTNode = statement.test
        elif isinstance(statement, cst.For):
            header = statement.iter
        elif isinstance(statement, cst.SimpleStatementLine):
            header = statement
        else:
            return False
        if not self.tree.contains(header, read):
            return False
        small: cst.CSTNode = read
        for owner in self.tree.ancestors(read):
            if owner is statement:
                return True
            if isinstance(owner, cst.BaseComp) and self.tree.contains(owner.for_in.iter, read):
                small = owner  # it is asked for once, at first
                continue
            if isinstance(owner, _AT_WILL) or (isinstance(owner, cst.Comparison) and len(owner.comparisons) > 1):
                return False
            if isinstance(owner, cst.BooleanOperation) and small is owner.right:
                return False
            if isinstance(owner, cst.IfExp) and small is not owner.test:
                return False
            small = owner
        return False

    def _stays(self, block: cst.CSTNode, start: int, read: cst.Name, reads: Collection[cst.CSTNode]) -> bool:
        """Whether the name holds the same from `start`, a place in the block, to the last time that this read runs;
        and no tape is told to watch it."""
        order = self.tree.order
        last = self.tree.lift(read, block)
        if last is None:
            return False
        turns = any(
            self.tree.contains(last, owner) for owner in self.tree.ancestors(read) if isinstance(owner, _TURNING)
        )
        end = self.tree.last_order_in(last) if turns else order[read]
        around = set() if turns else set(self.tree.ancestors(read))
        beside = self.tree.statements_beside(last)
        scope = self.tree.scope_of(read).lookup(read.value)
        bindings = scope.bindings[read.value] if scope is not None else []
        if any(start <= order[b.node] <= end and b.node not in around for b in bindings):
            return False
        run = [
            node
            for line in beside
            if start <= self.tree.last_order_in(line) and order[line] <= end
            for node in nodes_in(line)
            if start <= order.get(node, -1) <= end and node not in around
        ]
        if any(isinstance(node, _WAITING) or self._is_watched(node, read.value, reads) for node in run):
            return False
        return not self.changed.by_any(run, [read])

    def _is_watched(self, node: cst.CSTNode, name: str, reads: Collection[cst.CSTNode]) -> bool:
        if not isinstance(node, cst.Call):
            return False
        func = node.func
        called = (
            func.attr.value if isinstance(func, cst.Attribute) else func.value if isinstance(func, cst.Name) else ""
        )
        if not _WATCHING.fullmatch(called):
            return False
        return any(n.value == name and n not in reads for arg in node.args for n in self.tree.names_in(arg.value))

    # -- what ----------------------------------------------------------------------------------------------------

    def where_made(self, how: str, reads: Sequence[cst.Name]) -> Wrap | None:
        """The value put together where the name gets it, if nobody else reads that."""
        binding = self._only_for(reads)
        if binding is None or not self._may_be_made_whole(binding, reads):
            return None
        _, function, tail = _PUT[how]
        return Wrap(binding.value, f"{self.facts.runtime}.{function}(", f"{tail})") if binding.value else None

    def in_front(self, how: str, place: cst.CSTNode | None, reads: Sequence[cst.Name]) -> Edits:
        """The whole under the same name, if nobody else reads the part, or under another."""
        wanted, function, tail = _PUT[how]
        binding, part = self._only_for(reads), reads[0].value
        place = place or reads[0]
        is_given = binding is not None and self._is_once(binding, place)
        name = part if is_given else self.facts.fresh_variable(wanted.format(part.lstrip("_")), place)
        line = InsertBefore(place, (f"{name} = {self.facts.runtime}.{function}({part}{tail})",))
        return [line] if is_given else [line, *(Replace(read, (name,)) for read in reads)]

    def _only_for(self, reads: Sequence[cst.Name]) -> Binding | None:
        """What gives the name the value that nobody but these reads."""
        first = reads[0]
        bindings = self.facts.resolver.reaching(first)
        scope = self.tree.scope_of(first).lookup(first.value)
        if len(bindings) != 1 or scope is None or (isinstance(scope.node, cst.Module) and len(self.tree.modules) > 1):
            return None
        others = [n for n in self.tree.names[first.value] if n not in reads and self.tree.is_variable(n)]
        others = [n for n in others if self.tree.scope_of(n).lookup(n.value) is scope and self.tree.is_read(n)]
        if any(bindings[0] in self.facts.resolver.reaching(other) for other in others):
            return None
        function = self.tree.function_of(first)
        likes = [like for node, like in self._likes if self.tree.function_of(node) is function]
        is_like = any(re.search(rf"\b{first.value}\b", like) for like in likes)
        return None if is_like else bindings[0]

    def _is_once(self, binding: Binding, place: cst.CSTNode) -> bool:
        """Whether the name gets its value anew whenever the line of this read runs."""
        around = list(self.tree.loops_around(place))
        if binding.kind == "param":
            return not around
        if binding.kind == "for":
            return isinstance(binding.node, cst.For) and around == [
                binding.node,
                *self.tree.loops_around(binding.node),
            ]
        return binding.kind == "assign" and around == list(self.tree.loops_around(binding.node))

    def _may_be_made_whole(self, binding: Binding, reads: Sequence[cst.Name]) -> bool:
        """Whether the value can be put together where the name gets it: it is made of a worker's rows right there, and
        the first read runs whenever that does."""
        node, value = binding.node, binding.value
        if binding.kind != "assign" or binding.path or not isinstance(node, cst.Assign) or len(node.targets) != 1:
            return False
        if not isinstance(value, _MADE) or value in self._repaired or value in self._cut:
            return False
        losses = self.facts.losses
        if not losses.meets_rows(value) or not any(map(losses.meets_rows, self.tree.names_in(value))):
            return False
        line, statement = self.tree.statement_of(node), self.tree.statement_of(reads[0])
        beside = self.tree.statements_beside(line)
        if statement not in beside or beside.index(statement) <= beside.index(line):
            return False
        if any(map(self._may_leave, beside[beside.index(line) + 1 : beside.index(statement)])):
            return False
        start = self.tree.last_order_in(line) + 1
        return self._surely_runs(statement, reads[0]) and all(
            self._stays(self._block_around(line, read), start, read, reads) for read in reads
        )

    def _block_around(self, line: cst.CSTNode, read: cst.CSTNode) -> cst.CSTNode:
        """The innermost block that holds both."""
        owners = self.tree.ancestors(line)
        return next(o for o in owners if isinstance(o, (cst.Module, cst.IndentedBlock)) and self.tree.contains(o, read))
