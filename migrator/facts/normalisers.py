"""What a loss is divided by where that is counted from the data: the tokens that are no padding, the rows of a class.

A sum over the samples divided by such a count is no mean over the workers, since each counts something else. With the
mean of the workers' counts in its place, it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst
import libcst.matchers as m

from migrator.facts.kinds import Kinds
from migrator.facts.origins import Origins
from migrator.facts.penalties import Penalties
from migrator.facts.resolve import Resolver
from migrator.facts.training import Training
from migrator.facts.tree import Tree
from migrator.facts.values import External
from migrator.facts.vocabulary import Role, has_role

_COUNTS = re.compile(r"^(?:tensorflow\.(?:math\.)?reduce_(?:sum|mean)|keras\.(?:backend|ops)\.(?:sum|mean))$")
_CAST = re.compile(r"^(?:tensorflow|keras\.(?:backend|ops))\.cast$")
# No gradient comes through these, so what is behind them may depend on weights.
_FLAT = re.compile(
    r"^tensorflow\.(?:math\.)?(?:equal|not_equal|greater|greater_equal|less|less_equal|logical_\w+|argmax|stop_gradient"
    r"|zeros_like|ones_like|shape|size|sequence_mask|one_hot)$"
)
_LOOPS = m.For() | m.While() | m.CompFor()


class Normalisers:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, training: Training, penalties: Penalties) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self._training = training
        self._penalties = penalties
        self._origins = Origins(tree, resolver)

    def of(self, losses: Sequence[cst.BaseExpression], bodies: Sequence[cst.CSTNode]) -> list[cst.BaseExpression]:
        """The divisors of the losses that the workers can count together, as the code in `bodies` has them."""
        found = [d for loss in losses for d in self._divisors(loss, bodies)]
        return [d for d in dict.fromkeys(found) if self._may_be_shared(d, bodies)]

    def counted_in(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """What the node takes the mean over the workers of."""
        if not isinstance(node, cst.Call) or len(node.args) != 1:
            return None
        functions = self.resolver.values(node.func)
        is_mean = any(isinstance(v, External) and has_role(v.path, Role.REDUCE) for v in functions)
        return node.args[0].value if is_mean else None

    def _divisors(self, loss: cst.BaseExpression, bodies: Sequence[cst.CSTNode]) -> Iterator[cst.BaseExpression]:
        for part in self._penalties.parts(loss, bodies):
            parent = self.tree.parent.get(part)
            if isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.Divide):
                yield part.right
            elif isinstance(parent, cst.AugAssign) and isinstance(parent.operator, cst.DivideAssign):
                yield parent.value

    def _may_be_shared(self, divisor: cst.BaseExpression, bodies: Sequence[cst.CSTNode]) -> bool:
        return (
            self._is_count(divisor)
            and not self._may_depend_on_weights(divisor)
            and not self._is_in_loop(divisor, bodies)
        )

    def _is_count(self, node: cst.CSTNode) -> bool:
        """A sum or mean itself, and nothing that is made of one: not `tf.maximum(tf.reduce_sum(mask), 1)`."""
        if isinstance(node, cst.Name):
            bindings = self.resolver.reaching(node)
            return bool(bindings) and all(
                b.kind == "assign" and not b.path and b.value is not None and self._is_count(b.value) for b in bindings
            )
        if not isinstance(node, cst.Call) or not node.args:
            return False
        paths = [v.path if isinstance(v, External) else "" for v in self.resolver.values(node.func)]
        if paths and all(map(_CAST.match, paths)):
            return self._is_count(node.args[0].value)
        return bool(paths) and all(map(_COUNTS.match, paths)) and len(node.args) == 1

    def _may_depend_on_weights(self, divisor: cst.BaseExpression) -> bool:
        """Whether the gradient of the loss may go through the divisor: the workers' exchange would cut it off."""
        for part in self._origins.behind(divisor, self._is_flat):
            if self._is_flat(part):
                continue
            if isinstance(part, cst.Name) and self._is_unseen(part):
                return True
            if isinstance(part, cst.Call):
                functions = self.resolver.values(part.func)
                if not functions or any(map(self.kinds.has_weights, functions)):
                    return True
            if isinstance(part, (cst.Name, cst.Attribute)) and any(
                map(self.kinds.is_variable, self.resolver.values(part))
            ):
                return True
        return False

    def _is_unseen(self, name: cst.Name) -> bool:
        return any(b.kind == "param" and not self._origins.bound(b) for b in self.resolver.reaching(name))

    def _is_flat(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.Comparison, cst.BaseNumber, cst.BaseString)):
            return True
        if isinstance(node, cst.Attribute) and node.attr.value in ("dtype", "shape"):
            return True
        return isinstance(node, cst.Call) and any(
            isinstance(v, External) and bool(_FLAT.match(v.path)) for v in self.resolver.values(node.func)
        )

    def _is_in_loop(self, divisor: cst.BaseExpression, bodies: Sequence[cst.CSTNode]) -> bool:
        """Whether the code counts several times, and so perhaps not equally often on all workers."""
        return any(
            self.tree.contains(reached, divisor)
            for body in bodies
            for loop in m.findall(body, _LOOPS)
            for reached in self._training.reached_from(loop)
        )
