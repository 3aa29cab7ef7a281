"""Where all workers surely meet on the way from one place to another: in an exchange that none leaves before all have
come to it, be it a step of the training, weights that are sent, or a barrier."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.files.writes import Files
from migrator.facts.names.vocabulary import Role, has_role
from migrator.facts.objects.met_alike import is_main
from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.tree import Tree, nodes_in
from migrator.facts.training.sites import Training
from migrator.facts.training.trained import Trained

_BARRIER = "lockstep.barrier"
_MAY_NOT_RUN = (cst.IfExp, cst.BooleanOperation, cst.Lambda)


class Meetings:
    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        files: Files,
        training: Training,
        trained: Trained,
        sent: Collection[cst.BaseExpression],
        barriers: Collection[cst.CSTNode],
    ) -> None:
        """`sent`: what the tool has the chief send; `barriers`: the statements at which, or behind which, it writes a
        barrier."""
        self.tree = tree
        self.resolver = resolver
        self.files = files
        self.training = training
        self.trained = trained
        self._sent = sent
        self._barriers = barriers
        self._looked_at: set[cst.CSTNode] = set()
        # Of nodes that were asked for before: the same are looked at on each way to a write.
        self._known_calls: dict[cst.CSTNode, list[cst.Call]] = {}
        self._known_jumps: dict[cst.CSTNode, bool] = {}

    def behind(self, node: cst.CSTNode, outer: cst.CSTNode | None) -> bool:
        """Whether all meet after the node has run, before what is around it is left: a block, a loop, or with None its
        function."""
        statement = self.tree.statement_of(node)
        for call in self._calls_in(statement):
            is_given = call is not node and self.tree.contains(call, node)
            is_met = call in self._exchanges and (call is node or is_given)
            if is_met or (is_given and self._runs_exchange(call)):
                return True
        for here in self._around(statement, outer):
            beside = self.tree.statements_beside(here)
            for following in beside[beside.index(here) + 1 :]:
                if self.at(following):
                    return True
                if self._jumps(following):
                    return False
        return False

    def above(self, node: cst.CSTNode, outer: cst.CSTNode | None) -> bool:
        """Whether all meet in what is around the node, a block, a loop, or with None its function, before it runs."""
        for here in self._around(self.tree.statement_of(node), outer):
            beside = self.tree.statements_beside(here)
            if any(self.at(earlier) for earlier in beside[: beside.index(here)]):
                return True
        return False

    def between(self, first: cst.CSTNode, last: cst.CSTNode) -> bool:
        """Whether all meet in one of the statements between these two of one block."""
        beside = self.tree.statements_beside(first)
        return any(self.at(each) for each in beside[beside.index(first) + 1 : beside.index(last)])

    def at(self, statement: cst.CSTNode) -> bool:
        """Whether all meet in the statement, whichever way it runs."""
        if statement in self._barriers:
            return True
        if isinstance(statement, cst.If):
            if self._meets_in(statement.test):
                return True
            branches = [statement.body, statement.orelse] if not is_main(statement) else [statement.body]
            return all(branch is not None and self._in_block(branch) for branch in branches)
        if isinstance(statement, cst.For):
            return self._meets_in(statement.iter) or (_has_turns(statement) and self.training.is_within(statement))
        if isinstance(statement, cst.While):
            return _is_endless(statement) and self.training.is_within(statement)
        if isinstance(statement, (cst.With, cst.Try)):
            return self._in_block(statement.body)
        return isinstance(statement, cst.SimpleStatementLine) and self._meets_in(statement)

    def _in_block(self, owner: cst.CSTNode) -> bool:
        """Whether all meet in a block before anything leaves it."""
        if isinstance(owner, cst.If):
            return self.at(owner)
        block = owner.body if isinstance(owner, cst.Else) else owner
        if not isinstance(block, cst.IndentedBlock):
            return self._meets_in(block)
        for statement in block.body:
            if self.at(statement):
                return True
            if self._jumps(statement):
                return False
        return False

    def _meets_in(self, node: cst.CSTNode) -> bool:
        return any(call in self._exchanges or self._runs_exchange(call) for call in self._calls_in(node))

    def _runs_exchange(self, call: cst.Call) -> bool:
        functions = self.resolver.run_by.get(call, ())
        return bool(functions) and all(self._in_function(function) for function in functions)

    def _in_function(self, function: cst.CSTNode) -> bool:
        if not isinstance(function, cst.FunctionDef) or function in self._looked_at:
            return False
        self._looked_at.add(function)  # it may call itself
        found = self._in_block(function.body)
        self._looked_at.remove(function)
        return found

    def _calls_in(self, node: cst.CSTNode) -> list[cst.Call]:
        """The calls that run when the node does. What is made of each row of a list counts: it has rows, as a rule."""
        if node not in self._known_calls:
            self._known_calls[node] = list(_calls_in(node))
        return self._known_calls[node]

    def _jumps(self, statement: cst.CSTNode) -> bool:
        if statement not in self._known_jumps:
            self._known_jumps[statement] = _jumps(statement)
        return self._known_jumps[statement]

    @cached_property
    def _exchanges(self) -> set[cst.CSTNode]:
        found: set[cst.CSTNode] = {*self.training.sites, *self._sent}
        for call in self.files.restores.calls:
            if any(self.trained.of(model) for model in self.files.restores.models_of(call.func)):
                found.add(call)  # the weights are sent then
        for call in self.tree.calls:
            if any(map(_exchanges, self.resolver.public(call.func))):
                found.add(call)
        return found

    def _around(self, statement: cst.CSTNode, outer: cst.CSTNode | None) -> Iterator[cst.CSTNode]:
        """The statement and those around it, up to what is around it all."""
        while not isinstance(statement, (cst.FunctionDef, cst.ClassDef)) and statement is not outer:
            block = self.tree.block_of(statement)
            if block is outer:
                return
            yield statement
            if isinstance(block, cst.Module):
                return
            statement = self.tree.statement_of(block)


def _exchanges(path: str) -> bool:
    return path == _BARRIER or has_role(path, Role.BROADCAST) or has_role(path, Role.REDUCE)


def _calls_in(node: cst.CSTNode) -> Iterator[cst.Call]:
    if isinstance(node, _MAY_NOT_RUN):
        return
    if isinstance(node, cst.Call):
        yield node
    for child in node.children:
        yield from _calls_in(child)


def _jumps(statement: cst.CSTNode) -> bool:
    """Whether control may leave the block in the statement."""
    inner = [node for node in nodes_in(statement) if isinstance(node, (cst.For, cst.While))]
    loops = {id(part) for loop in inner for part in nodes_in(loop.body)}
    return not isinstance(statement, (cst.FunctionDef, cst.ClassDef)) and any(
        isinstance(node, cst.Return) or (isinstance(node, (cst.Break, cst.Continue)) and id(node) not in loops)
        for node in nodes_in(statement)
    )


def _has_turns(loop: cst.For) -> bool:
    """Whether a loop that trains has a turn, as it seems: not where it goes on from a number that the run tells, which
    may be the last one already."""
    call = loop.iter
    is_range = isinstance(call, cst.Call) and isinstance(call.func, cst.Name) and call.func.value == "range"
    args = call.args if isinstance(call, cst.Call) and is_range else ()
    return len(args) < 2 or isinstance(args[0].value, cst.Integer)


def _is_endless(loop: cst.While) -> bool:
    return isinstance(loop.test, cst.Integer) or (isinstance(loop.test, cst.Name) and loop.test.value == "True")
