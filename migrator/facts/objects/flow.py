"""Which of a name's bindings may reach the place where it is read."""

from __future__ import annotations

import libcst as cst

from migrator.facts.program.tree import COMPREHENSIONS, Binding, Scope, Tree


class Flow:
    """Reaching definitions, by the order and nesting of statements."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    def reaching(self, node: cst.Name) -> list[Binding]:
        """The bindings that the name may have its value from where it stands, latest first."""
        scope = self._tree.scope_of(node).lookup(node.value)
        bindings = scope.bindings[node.value] if scope is not None else []
        return bindings if len(bindings) == 1 else self.reaching_at(node, node.value)

    def reaching_at(self, node: cst.CSTNode, name: str) -> list[Binding]:
        """The same where the node stands, if the name has any value there."""
        here = self._tree.scope_of(node)
        scope = here.lookup(name)
        if scope is None:
            return []
        bindings = scope.bindings[name]
        if self._same_flow(here, scope):
            return self._reaching_within(node, bindings)
        return self.latest(bindings)

    def _same_flow(self, here: Scope, scope: Scope) -> bool:
        """Whether code of `here` runs in line with the statements of `scope`: a comprehension does, a function not."""
        current: Scope | None = here
        while current is not None and current is not scope:
            if current.is_function or current.is_class:
                return False
            current = current.parent
        return current is scope and (scope.is_function or scope.parent is None or scope.is_class)

    def _reaching_within(self, node: cst.CSTNode, bindings: list[Binding]) -> list[Binding]:
        order, tree = self._tree.order, self._tree
        here = order[node]
        loops = [*tree.loops_around(node), *self._tested_in(node)]
        found: list[Binding] = []
        later: list[Binding] = []
        certain: Binding | None = None
        for binding in sorted(bindings, key=lambda b: order[b.node], reverse=True):
            if self._takes_effect(binding) >= here:
                later.append(binding)
            elif not self._tree.are_exclusive(binding.node, node):
                found.append(binding)
                if self._always_runs(binding.node, node) or self._all_branches_bind(binding, bindings, node):
                    certain = binding
                    break
        # What is bound further down comes round the loop, unless each turn binds anew before the use.
        made_in = (
            [] if certain is None else [x for x in loops if certain.node is x or tree.contains(x.body, certain.node)]
        )
        open_loops = [x for x in loops if x not in made_in]
        turned: list[cst.CSTNode] = [x.body for x in open_loops]
        turned += (x for x in tree.ancestors(node) if isinstance(x, COMPREHENSIONS))  # what it makes stands in front
        carried = [b for b in later if any(tree.contains(x, b.node) for x in turned)]
        return [*found, *carried]

    def _tested_in(self, node: cst.CSTNode) -> list[cst.While]:
        """The loops that the node takes part in the condition of: names are read there again after each turn."""
        owners = [owner for owner in self._tree.ancestors(node) if type(owner) is cst.While]
        return [owner for owner in owners if self._tree.contains(owner.test, node)]

    def _takes_effect(self, binding: Binding) -> int:
        node = binding.node
        if isinstance(node, cst.For):
            return self._tree.last_order_in(node.iter)
        if isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Param)):
            return self._tree.order[node]
        return self._tree.last_order_in(node)

    def _always_runs(self, node: cst.CSTNode, use: cst.CSTNode) -> bool:
        """Whether control that comes to `use` has passed `node`: its block also encloses the use."""
        if isinstance(node, cst.Param):
            return True
        if self._may_be_left_out(node):
            return False
        tree = self._tree
        statement = tree.statement_of(node)
        if isinstance(statement, (cst.With, cst.For)) and not tree.contains(statement.body, node):
            # `for x in ...` and `with ... as x` bind for their body; after it, `for` may have run no turn.
            if isinstance(statement, cst.For) and not tree.contains(statement.body, use):
                return False
            return tree.contains(statement.body, use) or tree.contains(tree.block_of(statement), use)
        block = tree.block_of(statement)
        while isinstance(tree.parent.get(block), cst.With):  # a with block always runs
            block = tree.block_of(tree.parent[block])
        return tree.contains(block, use)

    def _may_be_left_out(self, node: cst.CSTNode) -> bool:
        """Whether it is a `:=` that its statement may run without: of a comprehension over nothing, of an operand that
        is not asked."""
        if not isinstance(node, cst.NamedExpr):
            return False
        child: cst.CSTNode = node
        for owner in self._tree.ancestors(node):
            if isinstance(owner, COMPREHENSIONS):
                return True
            if isinstance(owner, (cst.BooleanOperation, cst.IfExp)):
                asked_first = owner.left if isinstance(owner, cst.BooleanOperation) else owner.test
                if child is not asked_first:
                    return True
            if isinstance(owner, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
                return False
            child = owner
        return False

    def _all_branches_bind(self, first: Binding, bindings: list[Binding], use: cst.CSTNode) -> bool:
        """Whether the binding is the first in an `if` that control comes through to the use, and that binds the name
        whichever way is taken."""
        tree = self._tree
        outer = [o for o in tree.ancestors(first.node) if isinstance(o, cst.If) and not tree.contains(o, use)]
        return any(
            self._always_runs(owner, use)
            and not any(b is not first and tree.contains(owner, b.node) and self._is_before(b, first) for b in bindings)
            and self._binds(owner, [b.node for b in bindings if b.value and not self._may_be_left_out(b.node)])
            for owner in outer
        )

    def _is_before(self, one: Binding, other: Binding) -> bool:
        return self._tree.order[one.node] < self._tree.order[other.node]

    def _binds(self, statement: cst.If, bound: list[cst.CSTNode]) -> bool:
        """Whether each branch has one of the bindings on all its ways, or does not come out at the end."""
        if statement.orelse is None:
            return False
        other = statement.orelse if isinstance(statement.orelse, cst.If) else statement.orelse.body
        return self._block_binds(statement.body, bound) and (
            self._binds(other, bound) if isinstance(other, cst.If) else self._block_binds(other, bound)
        )

    def _block_binds(self, block: cst.BaseSuite, bound: list[cst.CSTNode]) -> bool:
        for statement in block.body:
            if isinstance(statement, cst.If):
                if self._binds(statement, bound):
                    return True
            elif isinstance(statement, cst.SimpleStatementLine):
                if any(self._tree.contains(statement, node) for node in bound):
                    return True
                if any(isinstance(part, (cst.Return, cst.Raise, cst.Continue, cst.Break)) for part in statement.body):
                    return True
        # `if a: x = 1` on one line
        return not isinstance(block, cst.IndentedBlock) and any(self._tree.contains(block, node) for node in bound)

    def latest(self, bindings: list[Binding]) -> list[Binding]:
        """Seen from another function or file: each binding that is no mere step of the next (`ds = ds.batch(8)`)."""
        ordered = sorted(bindings, key=lambda b: self._tree.order[b.node])
        kept = []
        for binding, following in zip(ordered, [*ordered[1:], None]):
            if following is None or not self._is_step(binding, following):
                kept.append(binding)
        return kept[::-1]

    def _is_step(self, binding: Binding, following: Binding) -> bool:
        is_bound = following.value is not None
        return is_bound and (self._continues(following) or self._is_replaced_at_once(binding, following))

    def _is_replaced_at_once(self, binding: Binding, following: Binding) -> bool:
        """`first = step()`, and in the next line `first = all_reduce(first)`"""
        one, other = self._tree.statement_of(binding.node), self._tree.statement_of(following.node)
        beside = self._tree.statements_beside(one)
        if not isinstance(following.value, cst.Call) or other not in beside[beside.index(one) + 1 :][:1]:
            return False
        given = [arg.value for arg in following.value.args if isinstance(arg.value, cst.Name)]
        return any(name.value == binding.name for name in given)

    def _continues(self, binding: Binding) -> bool:
        node: cst.CSTNode | None = binding.value
        while isinstance(node, (cst.Call, cst.Attribute)):
            node = node.func if isinstance(node, cst.Call) else node.value
        return isinstance(node, cst.Name) and node.value == binding.name
