"""What depends on which process runs it, and on how many there are; what one process alone runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Callable

import libcst as cst

from migrator.facts.names import api, vocabulary
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.origins import Origins
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Object, Parameter, Unknown, Value
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import Tree

_ENVIRONMENT = ("os.environ", "os.environ.get", "os.getenv", "os.environb")
_OPTIONS = ("argparse.", "absl.flags.", "absl.app.", "click.")
_MPI = {"Get_rank": Role.RANK, "rank": Role.RANK, "Get_size": Role.SIZE, "size": Role.SIZE}
# How people call the flags that tell one process from the others, where it is not seen what they come from.
_CHIEF = re.compile(r"rank|chief|master|main|root|primary|worker|local")
_KNOWN = ("tensorflow.", "keras.", "numpy.", "builtins.", "math.", "os.", "time.", "re.", "tqdm", "argparse.")
_ARITHMETIC = frozenset({
    "builtins.int", "builtins.float", "builtins.round", "builtins.min", "builtins.max", "builtins.range",
    "builtins.slice", "numpy.arange",
})  # fmt: skip
_LEAVING = (cst.Return, cst.Continue, cst.Break, cst.Raise)


class Ranks:
    def __init__(self, tree: Tree, resolver: Resolver, origins: Origins) -> None:
        self.tree = tree
        self.resolver = resolver
        self.origins = origins
        self._roles: dict[cst.CSTNode, frozenset[Role]] = {}

    def roles(self, node: cst.CSTNode) -> frozenset[Role]:
        """Whether the value depends on the rank, the number of processes, or both; what is reduced depends on
        neither, as it is the same everywhere."""
        known = self._roles.get(node)
        if known is None:
            parts = self.origins.behind(node, self._is_agreed) if self._marked else ()
            known = frozenset(self._marked[part] for part in parts if part in self._marked)
            self._roles[node] = known
        return known

    def role(self, node: cst.CSTNode) -> Role | None:
        """What the expression is by itself: the rank, or the number of processes."""
        return self._marked.get(node)

    def depends_on_rank(self, node: cst.CSTNode) -> bool:
        return Role.RANK in self.roles(node)

    def is_computed_from(self, role: Role, node: cst.CSTNode) -> bool:
        """Whether the value is the rank (the number of processes), or comes from it by arithmetic alone, not through
        what was done with data."""
        parts = self.origins.behind(node, self._is_no_arithmetic) if self._marked else ()
        return any(self._marked.get(part) is role for part in parts)

    def _is_no_arithmetic(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.Call) and not any(name in _ARITHMETIC for name in self.resolver.public(node.func))

    def is_share(self, node: cst.CSTNode) -> bool:
        """Whether the value is cut by the rank, here or where its parts got their values: `x[rank::size]`."""
        return bool(self._marked) and any(map(self.is_slice, self.origins.behind(node)))

    def is_slice(self, node: cst.CSTNode) -> bool:
        """Whether the expression takes the items of this process out of others."""
        return isinstance(node, cst.Subscript) and any(self.is_computed_from(Role.RANK, part) for part in node.slice)

    def depends_on_size(self, node: cst.CSTNode) -> bool:
        return Role.SIZE in self.roles(node)

    def made_of(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The node and what its value is made of, up to what all processes have agreed on."""
        return self.origins.behind(node, self._is_agreed)

    # -- guards --------------------------------------------------------------------------------------------------

    def is_guarded(self, node: cst.CSTNode) -> bool:
        """Whether the rank decides if the node runs: by a condition around it, a process that left before, or in all
        the places that call its function."""
        return self._is_guarded(node, frozenset({Role.RANK}), set())

    def runs_everywhere(self, node: cst.CSTNode) -> bool:
        """Whether all processes surely run the node: no condition that may ask for the rank keeps one from it."""
        return self._runs(node, set(), may_ask=self._may_ask)

    def runs_at_start(self, node: cst.CSTNode) -> bool:
        """Whether starting the script runs the node, under some condition or none."""
        return self._runs(node, set(), may_ask=lambda test: False)

    def _runs(self, node: cst.CSTNode, seen: set[cst.CSTNode], may_ask: Callable[[cst.BaseExpression], bool]) -> bool:
        child = node
        for owner in self.tree.ancestors(node):
            if isinstance(owner, (cst.If, cst.IfExp)) and child is not owner.test and may_ask(owner.test):
                return False
            child = owner
        function = self.tree.function_of(node)
        if function is None:
            return not self.is_guarded(node)
        if function in seen or self._is_conditional(node, frozenset({Role.RANK})):
            return False
        callers = self.resolver.callers(function) or self._constructions(function)
        return any(self._runs(caller, seen | {function}, may_ask) for caller in callers)

    def _may_ask(self, test: cst.BaseExpression) -> bool:
        """Whether a condition asks for the rank, or hands that to what is not seen."""
        if self.depends_on_rank(test):
            return True
        for part in self.origins.behind(test, self._is_agreed):
            if isinstance(part, (cst.Name, cst.Attribute)):
                name = part.value if isinstance(part, cst.Name) else part.attr.value
                if _CHIEF.search(name) and any(map(_is_unseen, self.resolver.values(part))):
                    return True
            elif isinstance(part, cst.Call) and any(map(_is_unseen, self.resolver.values(part.func))):
                return True
        return False

    def is_alone(self, node: cst.CSTNode) -> bool:
        """Whether the node is guarded, or the number of processes decides if it runs."""
        return self._is_guarded(node, frozenset({Role.RANK, Role.SIZE}), set())

    def _is_guarded(self, node: cst.CSTNode, by: frozenset[Role], seen: set[cst.CSTNode]) -> bool:
        if not self._marked:
            return False
        if self._is_conditional(node, by):
            return True
        function = self.tree.function_of(node)
        if function is None or function in seen:
            return False
        callers = self.resolver.callers(function) or self._constructions(function)
        return bool(callers) and all(self._is_guarded(c, by, seen | {function}) for c in callers)

    def _constructions(self, function: cst.FunctionDef) -> list[cst.Call]:
        """For a method that the framework calls (of a callback): the calls that make its object."""
        cls = self.tree.class_of(function)
        return [
            call
            for call in (self.tree.calls if cls is not None else ())
            if any(isinstance(v, Object) and v.call is call and v.of.node is cls for v in self.resolver.values(call))
        ]

    def _is_conditional(self, node: cst.CSTNode, by: frozenset[Role]) -> bool:
        child = node
        for owner in self.tree.ancestors(node):
            if isinstance(owner, (cst.If, cst.IfExp)) and child is not owner.test and by & self.roles(owner.test):
                return True
            if isinstance(owner, cst.BooleanOperation) and child is owner.right and by & self.roles(owner.left):
                return True
            if isinstance(owner, (cst.Module, cst.IndentedBlock)) and self._left_before(owner, child, by):
                return True
            if isinstance(owner, cst.FunctionDef):
                return False
            child = owner
        return False

    def _left_before(self, block: cst.Module | cst.IndentedBlock, statement: cst.CSTNode, by: frozenset[Role]) -> bool:
        """`if rank != 0: return` earlier in the block."""
        for earlier in block.body:
            if earlier is statement:
                return False
            if isinstance(earlier, cst.If) and self.leaves(earlier.body) and by & self.roles(earlier.test):
                return True
        return False

    def leaves(self, branch: cst.BaseSuite | cst.If | cst.Else | None) -> bool:
        """Whether the branch ends its block, its function or the script."""
        if branch is None:
            return False
        if isinstance(branch, cst.If):
            return self.leaves(branch.body) and self.leaves(branch.orelse)
        body = branch.body if isinstance(branch, cst.Else) else branch
        last = body.body[-1] if body.body else None
        if isinstance(last, cst.SimpleStatementLine):
            last = last.body[-1]
        if isinstance(last, cst.Expr) and isinstance(last.value, cst.Call):
            return any(name in api.EXITS for name in self.resolver.public(last.value.func))
        return isinstance(last, _LEAVING)

    # -- what tells the rank -------------------------------------------------------------------------------------

    @cached_property
    def _marked(self) -> dict[cst.CSTNode, Role]:
        """The expressions of the program that are the rank or the number of processes by themselves."""
        nodes = self.tree.all_of(cst.Call, cst.Subscript, cst.Attribute)
        return {node: role for node in nodes if (role := self._role(node)) is not None}

    def _is_agreed(self, node: cst.CSTNode) -> bool:
        """What is reduced or broadcast is the same in all processes."""
        return isinstance(node, cst.Call) and any(
            vocabulary.has_role(name, Role.REDUCE, Role.BROADCAST) for name in self.resolver.public(node.func)
        )

    def _role(self, node: cst.CSTNode) -> Role | None:
        if isinstance(node, cst.Call):
            for value in self.resolver.values(node.func):
                if isinstance(value, External):
                    found = vocabulary.meaning(value.path)
                    if found is not None and found[1] in (Role.RANK, Role.SIZE):
                        return found[1]
                    if value.path in _ENVIRONMENT:
                        name = argument(node, "key", 0)
                        return _variable_role(name.value) if name is not None else None
        elif isinstance(node, cst.Subscript):
            index = node.slice[0].slice
            if isinstance(index, cst.Index) and External("os.environ") in self.resolver.values(node.value):
                return _variable_role(index.value)
        elif isinstance(node, cst.Attribute):
            return self._attribute_role(node)
        return None

    def _attribute_role(self, node: cst.Attribute) -> Role | None:
        """`MPI.COMM_WORLD.rank`, and options of the command line that say which process this is."""
        if node.attr.value not in _MPI and vocabulary.named_role(node.attr.value) is None:
            return None
        for value in self.resolver.values(node.value):
            path = origin(value)
            if path.startswith("mpi4py.") and node.attr.value in _MPI:
                return _MPI[node.attr.value]
            if path.startswith(_OPTIONS):
                return vocabulary.named_role(node.attr.value)
        return None


def _is_unseen(value: Value) -> bool:
    """A value of which it is not seen what it comes from."""
    if isinstance(value, (Parameter, Unknown)):
        return True
    path = origin(value)
    return bool(path) and not path.startswith(_KNOWN) and vocabulary.meaning(path) is None


def _variable_role(name: cst.BaseExpression) -> Role | None:
    return vocabulary.named_role(str(name.evaluated_value)) if isinstance(name, cst.SimpleString) else None
