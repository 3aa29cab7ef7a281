"""How numbers of a script grow with the number of workers: as a power of it, where each has its share of the data.

A worker's share of the samples and its local batch size go with the power -1, the number of workers itself with 1,
and what means the whole data with 0. Full samples by the global batch, or the share by the local batch, are as many
steps as one device makes: 0. The full data by the local batch are too many: 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Union

import libcst as cst

from migrator.facts.names.vocabulary import Role, has_role
from migrator.facts.objects.kinds import Kinds, origin
from migrator.facts.objects.origins import Origins
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Object, Value
from migrator.facts.ports.ranks import Ranks
from migrator.facts.ports.shares import Shares
from migrator.facts.program.tree import Binding, Tree

# What tells one number of a script from another: where it is bound, or how it is written.
Key = Union[cst.CSTNode, str]

# They give back the number that they are given, nearly.
_ROUNDING = frozenset({
    "builtins.int", "builtins.float", "builtins.round", "builtins.abs", "math.ceil", "math.floor", "numpy.ceil",
    "numpy.floor", "numpy.round", "numpy.int64", "numpy.int32", "tensorflow.cast", "tensorflow.constant",
    "tensorflow.math.ceil", "tensorflow.math.floor",
})  # fmt: skip
_EXTREMES = frozenset({"builtins.max", "builtins.min", "numpy.maximum", "numpy.minimum"})
_QUOTIENTS = (cst.Divide, cst.FloorDivide)
_DEEPEST = 40


class Scale:
    def __init__(
        self, tree: Tree, resolver: Resolver, kinds: Kinds, ranks: Ranks, origins: Origins, shares: Shares,
        batch_sizes: list[cst.BaseExpression],
    ) -> None:  # fmt: skip
        """`batch_sizes`: what training data are batched by, on each worker."""
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.ranks = ranks
        self.origins = origins
        self.shares = shares
        self._batch_sizes = batch_sizes
        self._depth = 0

    def power(self, node: cst.CSTNode | None) -> int | None:
        """The power of the number of workers that the number goes with; None where that is not seen."""
        return self._power(node, self._local)

    def mentions_batch(self, node: cst.CSTNode) -> bool:
        """Whether the number is made of a batch size of the training data."""
        return any(
            self._is_local_batch(part) or (isinstance(part, cst.BaseExpression) and self.key(part) in self._sizes)
            for part in self.origins.behind(node)
        )

    # -- batch sizes ---------------------------------------------------------------------------------------------

    @cached_property
    def _local(self) -> frozenset[Key]:
        """The numbers that are local batch sizes by their use alone: nothing divides them by the number of workers."""
        return frozenset(
            key for size in self._batch_sizes if self._power(size, frozenset()) == 0 and (key := self.key(size))
        )

    @cached_property
    def _sizes(self) -> frozenset[Key]:
        """The numbers that batch sizes of the training data are made of."""
        parts = (part for size in self._batch_sizes for part in self.origins.behind(size))
        keys = {self.key(part) for part in parts if isinstance(part, (cst.Name, cst.Attribute))}
        return frozenset(k for k in (*keys, *self._local) if k is not None)

    def key(self, node: cst.BaseExpression) -> Key | None:
        """The identity of a number that has a name, or is written out."""
        for _ in range(_DEEPEST):
            if isinstance(node, (cst.Integer, cst.Float)):
                return node.value
            if isinstance(node, cst.Attribute):
                return self.tree.modules[0].code_for_node(node)
            if not isinstance(node, cst.Name):
                return None
            bindings = self.resolver.reaching(node)
            if len(bindings) != 1 or bindings[0].path:
                return None
            binding = bindings[0]
            following = self.origins.bound(binding)
            if len(following) != 1 or not isinstance(following[0], (cst.Name, cst.Attribute)):
                return binding.node
            node = following[0]
        return None

    def _is_local_batch(self, node: cst.CSTNode) -> bool:
        """A call of a library that gives the local batch size, by itself or beside the share."""
        if not isinstance(node, cst.Call):
            return False
        functions = self.resolver.public(node.func)
        return any(has_role(path, Role.LOCAL_BATCH) for path in functions) or any(
            share.node is node and share.size is not None for share in self.shares.found
        )

    # -- powers --------------------------------------------------------------------------------------------------

    def _power(self, node: cst.CSTNode | None, local: frozenset[Key]) -> int | None:
        if node is None or self._depth > _DEEPEST:
            return None
        self._depth += 1
        try:
            return self._evaluated(node, local)
        finally:
            self._depth -= 1

    def _evaluated(self, node: cst.CSTNode, local: frozenset[Key]) -> int | None:
        role = self.ranks.role(node)
        if role is not None:
            return 1 if role is Role.SIZE else None
        if isinstance(node, cst.BaseExpression) and not isinstance(node, cst.Call) and self.key(node) in local:
            return -1
        if isinstance(node, (cst.Integer, cst.Float)):
            return 0
        if isinstance(node, cst.Name):
            return self._agreed(self._of_binding(b, local) for b in self.resolver.reaching(node))
        if isinstance(node, cst.BinaryOperation):
            return self._of_operation(node, local)
        if isinstance(node, cst.UnaryOperation):
            return self._power(node.expression, local)
        if isinstance(node, cst.IfExp):
            return self._agreed([self._power(node.body, local), self._power(node.orelse, local)])
        if isinstance(node, cst.Call):
            return self._of_call(node, local)
        if isinstance(node, cst.Attribute):
            return self._of_attribute(node, local)
        if (
            isinstance(node, cst.Subscript)
            and isinstance(node.value, cst.Attribute)
            and node.value.attr.value == "shape"
        ):
            return self._of_length(node.value.value)
        return None

    @staticmethod
    def _agreed(powers: Iterator[int | None] | list[int | None]) -> int | None:
        found = set(powers)
        return found.pop() if len(found) == 1 else None

    def _of_binding(self, binding: Binding, local: frozenset[Key]) -> int | None:
        if binding.kind == "import":
            return 0
        if binding.path == (1,) and binding.value is not None and self._is_local_batch(binding.value):
            return -1
        if binding.kind not in ("assign", "param"):
            return None
        values = self.origins.bound(binding)
        return self._agreed([self._power(value, local) for value in values])

    def _of_operation(self, node: cst.BinaryOperation, local: frozenset[Key]) -> int | None:
        left, right = self._power(node.left, local), self._power(node.right, local)
        if left is None or right is None:
            return None
        if isinstance(node.operator, cst.Multiply):
            return left + right
        if isinstance(node.operator, _QUOTIENTS):
            return left - right
        if isinstance(node.operator, (cst.Add, cst.Subtract)):
            if isinstance(node.right, cst.Integer):  # `(n + b - 1) // b`
                return left
            return left if left == right or (isinstance(node.operator, cst.Add) and right < left) else None
        return None

    def _of_call(self, call: cst.Call, local: frozenset[Key]) -> int | None:
        if self._is_local_batch(call):
            return -1
        powers: list[int | None] = []
        for function in self.resolver.values(call.func):
            if isinstance(function, Function) and isinstance(function.node, cst.FunctionDef):
                powers.extend(self._power(r, local) for r in self.resolver.returned(function.node))
            elif isinstance(function, External):
                powers.append(self._of_outside(function.path, call, local))
            else:
                return None
        return self._agreed(powers)

    def _of_outside(self, path: str, call: cst.Call, local: frozenset[Key]) -> int | None:
        arguments = [arg.value for arg in call.args]
        if path in _ROUNDING and arguments:
            return self._power(arguments[0], local)
        if path in _EXTREMES:
            return self._agreed([self._power(a, local) for a in arguments if not isinstance(a, cst.Integer)])
        return self._of_length(arguments[0]) if path == "builtins.len" and arguments else None

    def _of_length(self, data: cst.BaseExpression) -> int | None:
        """The number of samples of an array."""
        values = self.resolver.values(data)
        if not values or not all(map(self.kinds.is_array, values)):
            return None
        shares = {share.node for share in self.shares.found}
        if any(part in shares for part in self.origins.behind(data)):
            return -1
        return None if self.ranks.roles(data) else 0

    def _of_attribute(self, node: cst.Attribute, local: frozenset[Key]) -> int | None:
        found: list[int | None] = []
        for owner in self.resolver.values(node.value):
            if isinstance(owner, Object):
                bindings = self.resolver.attribute_bindings(owner.of, node.attr.value)
                found.extend(self._of_binding(b, local) for b in bindings)
            else:
                found.append(0 if self._is_given(owner) else None)
        return self._agreed(found)

    @staticmethod
    def _is_given(owner: Value) -> bool:
        """Options of the command line, and what tensorflow_datasets tells of a dataset."""
        return origin(owner).startswith(("argparse.", "absl.", "tensorflow_datasets."))
