"""Whether what follows a training step holds a batch against what the step has returned of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from migrator.facts.data.earlier_cuts import EarlierCuts
from migrator.facts.names import api
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External
from migrator.facts.program.tree import Statement, Tree

_EXPRESSIONS = (cst.Call, cst.BinaryOperation, cst.Comparison)


class MetBehind:
    def __init__(self, tree: Tree, resolver: Resolver, earlier: EarlierCuts) -> None:
        self.tree = tree
        self.resolver = resolver
        self.earlier = earlier

    def meets_result(self, step: cst.Call, batches: Sequence[cst.Name]) -> bool:
        """`accuracy(y, prediction)` behind `prediction = train_step(x, y)`, in the same turn: where the step is given a
        worker's rows, the prediction is of these alone."""
        statement = self.tree.statement_of(step)
        return isinstance(statement, cst.SimpleStatementLine) and any(
            self._is_of_result(together, statement)
            for name in batches
            for read in self._reads_behind(name, statement)
            for together in self._around(read)
        )

    def same_rows(self, step: cst.Call, batches: Sequence[cst.BaseExpression]) -> list[cst.BaseExpression]:
        """What the rest of the turn takes of the arrays once more, as it is given to the step, and holds against the
        result: `accuracy(y[i : i + n], prediction)`."""
        statement = self.tree.statement_of(step)
        turn = self._turn(statement)
        taken = [batch for batch in batches if isinstance(batch, cst.Subscript)]
        if not taken or turn is None or not isinstance(statement, cst.SimpleStatementLine):
            return []
        return [
            each
            for each in self.tree.all_of(cst.Subscript)
            if self.tree.order[each] > self.tree.last_order_in(statement)
            and self.tree.contains(turn, each)
            and any(self._is_same(each, batch) for batch in taken)
            and any(self._is_of_result(together, statement) for together in self._around(each))
        ]

    def _is_same(self, one: cst.Subscript, other: cst.Subscript) -> bool:
        """Whether they are written alike, of names that have not been given another value between them."""
        pairs = zip(self.tree.names_in(one), self.tree.names_in(other))
        return one.deep_equals(other) and all(
            set(self.resolver.reaching(a)) == set(self.resolver.reaching(b)) for a, b in pairs
        )

    def _turn(self, statement: Statement) -> cst.CSTNode | None:
        return next(iter(self.tree.loops_around(statement)), self.tree.function_of(statement))

    def _reads_behind(self, name: cst.Name, statement: Statement) -> Iterator[cst.Name]:
        """Where the rest of the turn reads what the name holds, but for how many rows that has."""
        turn = self._turn(statement)
        for read in self.tree.names[name.value] if turn is not None else ():
            if (
                self.tree.order[read] > self.tree.last_order_in(statement)
                and turn is not None
                and self.tree.contains(turn, read)
                and self.tree.is_read(read)
                and not is_size(self.tree, self.resolver, read)
                and set(self.resolver.reaching(name)) & set(self.resolver.reaching(read))
            ):
                yield read

    def _around(self, read: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """The calls and operators that take it, or what is made of it, within its statement: what is printed beside it
        it does not meet."""
        for owner in self.tree.ancestors(read):
            if isinstance(owner, cst.BaseStatement) or self._prints(owner):
                return
            if isinstance(owner, _EXPRESSIONS):
                yield owner

    def _prints(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.Call) and External("builtins.print") in self.resolver.values(node.func)

    def _is_of_result(self, expression: cst.BaseExpression, statement: Statement) -> bool:
        return any(
            self.tree.contains(statement, binding.node)
            for name in self.earlier.names_behind(expression, statement)
            for binding in self.resolver.reaching(name)
            if binding.node in self.tree.order
        )


def is_size(tree: Tree, resolver: Resolver, read: cst.Name) -> bool:
    """`len(x)`, `x.shape[0]`, `tf.shape(x)[0]`"""
    parent = tree.parent.get(read)
    if isinstance(parent, cst.Attribute):
        return parent.value is read and parent.attr.value in ("shape", "size")
    call = tree.parent.get(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and any(
        (name == "builtins.len" or name in api.SHAPES) for name in resolver.public(call.func)
    )
