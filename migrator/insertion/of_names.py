"""What is put together of a name's rows, and needs nothing more where the name has all of them: their number
`tf.shape(x)[0]`, and each row as something else, `x[:, None]` or `x.numpy()`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

import libcst as cst

from migrator.analysis.values import Operand
from migrator.facts.objects.values import External
from migrator.facts.script import Facts
from migrator.insertion.repairs import PUT_TOGETHER

# They count at the time: what `x.shape` has is not known of what is put together in a graph.
_SHAPES = frozenset({"tensorflow.shape", "keras.ops.shape"})


class OfNames:
    """`of`: where a name is read, with the operands that are made of it there, be it by another name that is read for
    nothing else; `counts`: where that is the number of rows."""

    def __init__(self, facts: Facts, operands: Collection[Operand]) -> None:
        self.facts = facts
        self.of: dict[cst.Name, list[cst.CSTNode]] = {}
        self.counts: set[cst.Name] = set()
        other = {o.node for repair in facts.repairs if repair.form not in PUT_TOGETHER for o in repair.operands}
        for operand in operands:
            name = self._by_rows(operand.node) if operand.how == "gather" and operand.node not in other else None
            if name is not None:
                self.of[name] = [operand.node]
        sums = {o.node for o in operands if o.how == "sum"} - other
        by_name: dict[cst.CSTNode, list[cst.Name]] = defaultdict(list)
        for node in sums:
            counted = self._counted(node)
            if counted is not None:
                self._note(counted, [node])
            elif isinstance(node, cst.Name):
                bindings = facts.resolver.reaching(node)
                if len(bindings) == 1 and bindings[0].kind == "assign" and not bindings[0].path:
                    by_name[bindings[0].node].append(node)
        for reads in by_name.values():
            counted = self._counted(facts.resolver.reaching(reads[0])[0].value)
            if counted is not None and self._are_all(reads):
                self._note(counted, [*reads])

    def _note(self, counted: cst.Name, operands: list[cst.CSTNode]) -> None:
        self.of[counted] = operands
        self.counts.add(counted)

    @staticmethod
    def _by_rows(node: cst.CSTNode) -> cst.Name | None:
        """The name of which each row is made into one: `x[:, None]`, `x.numpy()`."""
        if isinstance(node, cst.Subscript) and isinstance(node.value, cst.Name):
            first = node.slice[0].slice
            is_all = isinstance(first, cst.Slice) and first.lower is first.upper is first.step is None
            return node.value if is_all else None
        func = node.func if isinstance(node, cst.Call) and not node.args else None
        if isinstance(func, cst.Attribute) and func.attr.value == "numpy" and isinstance(func.value, cst.Name):
            return func.value
        return None

    def _counted(self, node: cst.CSTNode | None) -> cst.Name | None:
        given: cst.BaseExpression | None = None
        if isinstance(node, cst.Subscript) and self._is_first(node) and self._is_call(node.value, _SHAPES):
            given = cst.ensure_type(node.value, cst.Call).args[0].value
        elif node is not None and self._is_call(node, {"builtins.len"}):
            given = cst.ensure_type(node, cst.Call).args[0].value
        return given if isinstance(given, cst.Name) else None

    @staticmethod
    def _is_first(node: cst.Subscript) -> bool:
        index = node.slice[0].slice
        return isinstance(index, cst.Index) and isinstance(index.value, cst.Integer) and index.value.value == "0"

    def _is_call(self, node: cst.CSTNode, paths: Collection[str]) -> bool:
        if not isinstance(node, cst.Call) or not node.args:
            return False
        values = self.facts.resolver.values(node.func)
        return bool(values) and all(isinstance(value, External) and value.path in paths for value in values)

    def _are_all(self, reads: Collection[cst.Name]) -> bool:
        """Whether nothing else reads what their name gets."""
        tree, first = self.facts.tree, next(iter(reads))
        scope = tree.scope_of(first).lookup(first.value)
        if scope is None or (not scope.is_function and len(tree.modules) > 1):
            return False
        others = (n for n in tree.names[first.value] if n not in reads and tree.is_variable(n) and tree.is_read(n))
        return (
            not any(tree.scope_of(n).lookup(n.value) is scope for n in others) and len(scope.bindings[first.value]) == 1
        )
