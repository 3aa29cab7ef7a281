"""What a step reads beside its batches that was made before the loop: a weight of the loss, a table, a full batch.

It stays whole. A value for each row of a batch would not fit beside a worker's rows, and how many rows it has is not
seen: where it may meet them, nothing is split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Union

import libcst as cst

from migrator.analysis.uncut import Uncut
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, calls
from migrator.facts.program.tree import Binding, Statement, Tree

Read = Union[cst.Name, cst.Attribute]

# They take a whole value beside rows, which are put together for them where that is needed.
_TAKING = frozenset({
    "tensorflow.gather", "tensorflow.nn.embedding_lookup", "tensorflow.matmul", "tensorflow.linalg.matmul",
    "tensorflow.concat", "tensorflow.boolean_mask",
})  # fmt: skip
# What they are told beside the rows: how to lay them out, and nothing that could be a value for each row.
_LAYING_OUT = frozenset({
    "tensorflow.pad", "numpy.pad", "tensorflow.reshape", "numpy.reshape", "tensorflow.transpose", "numpy.transpose",
    "tensorflow.tile", "numpy.tile",
})  # fmt: skip
_THROUGH = (
    cst.Arg, cst.Call, cst.BinaryOperation, cst.UnaryOperation, cst.Subscript, cst.SubscriptElement, cst.Index,
    cst.Attribute,
)  # fmt: skip
_REDUCING = frozenset({"mean", "sum", "max", "min"})


class MadeBefore:
    def __init__(self, tree: Tree, resolver: Resolver, uncut: Uncut) -> None:
        self.tree = tree
        self.resolver = resolver
        self.uncut = uncut

    def stays_whole(self, node: cst.BaseExpression, block: Statement) -> bool:
        """Whether it is the same in all turns of the loop that the tape stands in, or in all calls of its function, and
        meets no rows of a batch."""
        loop = next(iter(self.tree.loops_around(block)), None) or self.tree.function_of(block)
        return loop is not None and self._is_before(node, loop) and not self._may_meet_rows(node, loop)

    def is_handed_on(
        self, node: cst.BaseExpression, call: cst.Call, reads: Iterable[cst.Name], function: cst.FunctionDef
    ) -> bool:
        """Whether it is the same in all turns of the loop that the call stands in, and meets no rows of a batch in the
        function, which `reads` it."""
        loop = next(iter(self.tree.loops_around(call)), None)
        is_before = loop is not None and self._is_before(node, loop)
        return is_before and not any(self._may_meet_rows(read, function) for read in reads)

    def _is_before(self, node: cst.BaseExpression, loop: cst.CSTNode) -> bool:
        if not isinstance(node, (cst.Name, cst.Attribute)):
            return False
        found = self.resolver.bound(node)
        if isinstance(loop, cst.FunctionDef) and not (
            all(map(self._is_made_once, found)) or self._is_kept_from_the_start(node, found)
        ):
            return False
        return bool(found) and not any(self.tree.contains(loop, b.node) for b in found)

    def _is_kept_from_the_start(self, node: cst.Name | cst.Attribute, found: Iterable[Binding]) -> bool:
        """Whether it is what an object that is made once gets as it is made, and at no other time."""
        if not isinstance(node, cst.Attribute) or not isinstance(node.value, cst.Name):
            return False
        makers = [(binding, self.tree.function_of(binding.node)) for binding in found]
        return all(map(self._is_made_once, self.resolver.bound(node.value))) and all(
            binding.kind == "assign"
            and function is not None
            and function.name.value == "__init__"
            and not any(True for _ in self.tree.loops_around(binding.node))
            for binding, function in makers
        )

    def _is_made_once(self, binding: Binding) -> bool:
        """Whether a name of the module gets it, outside of loops and functions."""
        is_outside = self.tree.function_of(binding.node) is None and not any(
            True for _ in self.tree.loops_around(binding.node)
        )
        return is_outside and binding.kind == "assign" and isinstance(binding.target, cst.Name)

    def _may_meet_rows(self, node: cst.BaseExpression, loop: cst.CSTNode) -> bool:
        """Whether what is made of it may stand beside rows, up to where it is reduced, or gone through."""
        child: cst.CSTNode = node
        for owner in self.tree.ancestors(node):
            if isinstance(owner, (cst.For, cst.CompFor)) or self._is_item(owner, child) or self._takes(owner, child):
                return False
            if not isinstance(owner, _THROUGH):
                return True
            if isinstance(owner, cst.BinaryOperation) and self._is_for_each_row(owner, child):
                return False
            if isinstance(owner, (cst.BinaryOperation, cst.Call)) and any(self._made_meanwhile(owner, child, loop)):
                return True
            child = owner
        return True

    def _is_for_each_row(self, owner: cst.BinaryOperation, child: cst.CSTNode) -> bool:
        """Whether it stands beside each row as a whole, having fewer axes than these together: weights of classes."""
        other = owner.left if owner.right is child else owner.right
        is_product = isinstance(owner.operator, cst.MatrixMultiply)
        return not is_product and self.uncut.is_called(owner) and self.uncut.has_fewer_axes(child, other)

    def reduced_at(self, node: cst.BaseExpression) -> cst.CSTNode | None:
        """What takes all that is made of it, and gives a number, or one part of it; None where that is not seen."""
        child: cst.CSTNode = node
        for owner in self.tree.ancestors(node):
            if self._is_item(owner, child) or self._takes(owner, child):
                return owner
            if not isinstance(owner, _THROUGH):
                return None
            child = owner
        return None

    def _is_item(self, owner: cst.CSTNode, child: cst.CSTNode) -> bool:
        """`weights[0]`"""
        index = owner.slice[0].slice if isinstance(owner, cst.Subscript) and len(owner.slice) == 1 else None
        is_asked = isinstance(owner, cst.Subscript) and owner.value is child
        return is_asked and isinstance(index, cst.Index) and isinstance(index.value, cst.Integer)

    def _takes(self, owner: cst.CSTNode, child: cst.CSTNode) -> bool:
        """Whether it is a loss of Keras's, or reduces what it is given, or takes whole values and rows alike."""
        values = self.resolver.values(owner.func) if isinstance(owner, cst.Call) else ()
        is_told = isinstance(owner, cst.Call) and any(child is arg for arg in owner.args[1:])
        if is_told and values and all(isinstance(v, External) and v.path in _LAYING_OUT for v in values):
            return True
        return bool(values) and all(
            calls(v).startswith("keras.losses.")
            or (isinstance(v, External) and (v.path in _TAKING or _reduces(v.path)))
            for v in values
        )

    def _made_meanwhile(self, owner: cst.CSTNode, child: cst.CSTNode, loop: cst.CSTNode) -> Iterator[bool]:
        """For each name that stands beside it, whether the loop makes what that is."""
        names = (n for n in self.tree.names_in(owner) if self.tree.is_read(n) and not self.tree.contains(child, n))
        for name in names:
            kept = self.tree.parent.get(name)
            found = self.resolver.bindings_of(kept) if isinstance(kept, cst.Attribute) else []
            yield any(self.tree.contains(loop, b.node) for b in (*self.resolver.reaching(name), *found))


def _reduces(path: str) -> bool:
    last = path.rpartition(".")[2]
    return path.startswith(("tensorflow.", "keras.", "numpy.")) and (last.startswith("reduce_") or last in _REDUCING)
