"""Blocks that a training loop enters now and then, and that leave nothing behind: they draw pictures of fresh noise.

What they make of as many rows as a batch has meets no rows of a batch, and trains nothing: all workers make all of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.syntax import method_called
from migrator.facts.program.tree import Binding, Tree, nodes_in
from migrator.facts.training.sites import Training

_LEAVING = (cst.Return, cst.Continue, cst.Break, cst.Raise, cst.Yield, cst.Global, cst.Nonlocal, cst.Del)
# They put what they are given somewhere.
_PUTTING = frozenset({
    "append", "extend", "insert", "add", "update", "put", "put_nowait", "appendleft", "push", "setdefault", "write",
    "assign", "assign_add", "assign_sub", "update_state", "enqueue", "scatter_update", "set_weights", "__setitem__",
})  # fmt: skip


class Displays:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training

    def holds(self, made: cst.CSTNode, bodies: Sequence[cst.CSTNode], passed: tuple[cst.CSTNode, ...] = ()) -> bool:
        """Whether what is made there stays in such a block. `bodies`: the code that runs for each batch, that of the
        loop first."""
        block = self._block_around(made, bodies[0])
        if block is not None:
            return self._leaves_nothing(block, bodies)
        function = self.tree.function_of(made)
        if function is None or function in passed or not self.tree.is_in(function, bodies[1:]):
            return False
        callers = self.resolver.callers(function)
        return bool(callers) and all(self.holds(caller, bodies, (*passed, function)) for caller in callers)

    def _block_around(self, node: cst.CSTNode, body: cst.CSTNode) -> cst.BaseSuite | None:
        """The outermost branch that it stands in, which the loop enters or not."""
        if not self.tree.contains(body, node):
            return None
        found: cst.BaseSuite | None = None
        child = node
        for owner in self.tree.ancestors(node):
            if isinstance(owner, cst.If) and child is owner.body and owner.orelse is None:
                found = owner.body
            if owner is body or isinstance(owner, (cst.FunctionDef, cst.Lambda)):
                break
            child = owner
        return found

    def _leaves_nothing(self, block: cst.BaseSuite, bodies: Sequence[cst.CSTNode]) -> bool:
        inside = self.training.reached_from(block)
        if self.training.is_within(block) or any(isinstance(node, _LEAVING) for node in nodes_in(block)):
            return False
        nodes = [node for code in inside for node in nodes_in(code)]
        if any(isinstance(node, cst.Subscript) and self._is_set(node) for node in nodes):
            return False
        return not any(isinstance(node, cst.Call) and method_called(node) in _PUTTING for node in nodes) and all(
            self._comes_from_outside(name, inside, bodies) for name in nodes if isinstance(name, cst.Name)
        )

    def _comes_from_outside(self, name: cst.Name, inside: Sequence[cst.CSTNode], bodies: Sequence[cst.CSTNode]) -> bool:
        """Whether the name, or the attribute of that name, is not of the batch if it is read, and read nowhere else if
        it is set."""
        owner = self.tree.parent.get(name)
        if isinstance(owner, cst.Attribute) and owner.attr is name:
            if self._is_set(owner):
                return self._is_read_inside(name.value, inside)
            return all(self._is_earlier(b, inside, bodies) for b in self.resolver.bindings_of(owner))
        if self.tree.is_read(name):
            return all(self._is_earlier(b, inside, bodies) for b in self.resolver.reaching(name))
        if isinstance(owner, (cst.Arg, cst.Param)):
            return True
        return all(
            self.tree.is_in(read, inside)
            for read in self.tree.names[name.value]
            if self.tree.is_read(read) and any(self.tree.is_in(b.node, inside) for b in self.resolver.reaching(read))
        )

    def _is_set(self, node: cst.CSTNode) -> bool:
        child, owner = node, self.tree.parent.get(node)
        while isinstance(owner, (cst.Element, cst.StarredElement, cst.Tuple, cst.List)):
            child, owner = owner, self.tree.parent.get(owner)
        if isinstance(owner, (cst.AugAssign, cst.AnnAssign, cst.For, cst.CompFor)):
            return owner.target is child
        return isinstance(owner, (cst.AssignTarget, cst.AsName, cst.NamedExpr))

    def _is_earlier(self, binding: Binding, inside: Sequence[cst.CSTNode], bodies: Sequence[cst.CSTNode]) -> bool:
        """Whether the block itself has set it, or something that does not run for each batch."""
        return self.tree.is_in(binding.node, inside) or not (
            self.tree.is_in(binding.node, bodies) or self._reads_batches(binding, bodies[0])
        )

    def _reads_batches(self, binding: Binding, body: cst.CSTNode) -> bool:
        """Whether the loop itself gives it the value."""
        return self.tree.parent.get(body) is binding.node

    def _is_read_inside(self, attribute: str, inside: Sequence[cst.CSTNode]) -> bool:
        for name in self.tree.names[attribute]:
            owner = self.tree.parent.get(name)
            is_attribute = isinstance(owner, cst.Attribute) and owner.attr is name
            if is_attribute and not self.tree.is_in(name, inside):
                return False
        return True
