"""Places that no run of a program comes to both: the branch that trains a model, and the one that predicts with it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from migrator.facts.names import api
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External
from migrator.facts.program.tree import Tree, nodes_in, semantic_children
from migrator.facts.training.sites import Training
from migrator.worklist import Worklist


class Apart:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training

    def are_apart(self, node: cst.CSTNode, others: Collection[cst.CSTNode]) -> bool:
        """Whether all the others stand in branches that no run takes which comes to the node, on whichever way."""
        return all(map(self._is_seen_to_run, others)) and self._are_apart(node, others, frozenset())

    def _are_apart(
        self, node: cst.CSTNode, others: Collection[cst.CSTNode], passed: frozenset[cst.FunctionDef]
    ) -> bool:
        if any(self._runs(beside, others) for beside in self._beside(node)):
            return False
        function = self.tree.function_of(node)
        if function is None:
            elsewhere = [module for module in self.tree.modules if module is not self.tree.module_of(node)]
            return not any(self._runs(statement, others) for module in elsewhere for statement in module.body)
        callers = list(self.resolver.callers(function)) if function not in passed else []
        return bool(callers) and all(self._are_apart(caller, others, passed | {function}) for caller in callers)

    def _is_seen_to_run(self, node: cst.CSTNode) -> bool:
        """Whether it stands at the top of a file, or in functions that run at the calls which name them, and nowhere
        else: no library is handed one of them."""
        queue = Worklist([self.tree.function_of(node)])
        for function in queue:
            if function is None:
                continue
            callers = self.resolver.callers(function)
            if not callers or not all(map(self._is_called, self.tree.names[function.name.value])):
                return False
            queue += map(self.tree.function_of, callers)
        return True

    def _is_called(self, name: cst.Name) -> bool:
        """Whether the function of this name is called here, or defined, or imported."""
        parent = self.tree.parent[name]
        is_member = isinstance(parent, cst.Attribute) and parent.attr is name
        if not is_member and not self.tree.is_read(name):
            return True
        read = parent if is_member else name
        call = self.tree.parent[read]
        return isinstance(call, cst.Call) and call.func is read

    def _runs(self, node: cst.CSTNode, others: Collection[cst.CSTNode]) -> bool:
        if isinstance(node, cst.FunctionDef):
            return False  # not where it is defined
        if isinstance(node, cst.ClassDef):
            return any(self._runs(statement, others) for statement in node.body.body)
        reached = self.training.reached_from(node)
        return any(self.tree.contains(body, other) for body in reached for other in others)

    def _beside(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """What else of its function, or of its file, may run where the node does."""
        here: cst.CSTNode = self.tree.statement_of(node)
        yield from self._beside_in(here, node)
        is_left = False  # before what stands behind would run
        for owner in self.tree.ancestors(here):
            if isinstance(owner, (cst.Module, cst.IndentedBlock)):
                at = self.tree.statements_beside(here).index(here)
                yield from owner.body[:at]
                if not is_left:
                    yield from owner.body[at + 1 :]
                is_left |= self._leaves(owner.body[at:])
            elif isinstance(owner, cst.If):
                yield owner.test  # the branches beside are those which such a run does not take
            elif isinstance(owner, (cst.For, cst.While)):
                yield owner  # another turn may take them
            elif isinstance(owner, (cst.FunctionDef, cst.ClassDef)):
                return
            else:
                is_left &= not isinstance(owner, (cst.Try, cst.TryStar))
                yield from (child for child in semantic_children(owner) if child is not here)
            here = owner

    def _beside_in(self, statement: cst.CSTNode, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """What the statement runs beside the node; all of it where it may run that again."""
        around = [owner for owner in self.tree.ancestors(node) if self.tree.contains(statement, owner)]
        calls = [owner for owner in around if isinstance(owner, cst.Call)]
        values = [value for call in calls for value in self.resolver.values(call.func)]
        is_again = any(isinstance(owner, (cst.BaseComp, cst.Lambda)) for owner in around)
        if is_again or not all(isinstance(value, External) for value in values):
            yield statement
        yield from (
            call
            for call in self.tree.calls
            if self.tree.contains(statement, call) and call is not node and call not in calls
        )

    def _leaves(self, statements: Sequence[cst.BaseStatement]) -> bool:
        """Whether they surely leave the function, or the program, at their end."""
        if any(isinstance(node, (cst.Break, cst.Continue)) for each in statements for node in nodes_in(each)):
            return False
        last = statements[-1].body[-1] if isinstance(statements[-1], cst.SimpleStatementLine) else None
        if isinstance(last, cst.Expr) and isinstance(last.value, cst.Call):
            names = self.resolver.public_alone(last.value.func)
            return bool(names) and all(name in api.EXITS for name in names)
        return isinstance(last, cst.Return)
