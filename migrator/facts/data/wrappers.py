"""What goes through a dataset for somebody else: `enumerate(ds)`, `tqdm(ds)`, `iter(ds)`."""

from __future__ import annotations

import libcst as cst

from migrator.facts.objects.loads import Loads
from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.tree import Tree

# Iterating over these is iterating over their first argument.
_ITERATION_WRAPPERS = frozenset({
    "builtins.enumerate", "builtins.iter", "builtins.list", "itertools.cycle", "itertools.islice", "tqdm.tqdm",
    "tqdm.auto.tqdm", "tqdm.notebook.tqdm",
})  # fmt: skip


class Wrappers:
    def __init__(self, tree: Tree, resolver: Resolver, loads: Loads) -> None:
        self.tree = tree
        self.resolver = resolver
        self.loads = loads

    def core(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The dataset inside `enumerate(ds)`, `tqdm(ds)`, `iter(ds)`, also where such a call has a name."""
        passed = set()
        while node not in passed:
            passed.add(node)
            if isinstance(node, cst.Call) and node.args and self._is_wrapper(node):
                node = node.args[0].value
            else:
                node = self._named_wrapper(node) or node
        return node

    def read(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The same as far as a worker's parts may take its place: a list of batches that is also sorted, say, or asked
        for some of them, has whole ones."""
        while isinstance(node, cst.Call) and node.args and self._is_wrapper(node):
            node = node.args[0].value
        made = self._named_wrapper(node)
        is_list = made is not None and "builtins.list" in self.resolver.public(made.func)
        if not is_list or not isinstance(node, cst.Name):
            return self.core(node)
        uses = [use for b in self.resolver.reaching(node) for use in self.loads.of(b)]
        return self.core(node) if all(map(self._only_iterates, uses)) else node

    def _only_iterates(self, use: cst.CSTNode) -> bool:
        """Whether all that is asked of the list there are its items, one after the other, or how many there are."""
        parent = self.tree.parent.get(use)
        if isinstance(parent, cst.Arg):
            call = self.tree.parent[parent]
            length = isinstance(call, cst.Call) and "builtins.len" in self.resolver.public(call.func)
            return length or (isinstance(call, cst.Call) and self._is_wrapper(call) and self._only_iterates(call))
        return isinstance(parent, (cst.For, cst.CompFor)) and parent.iter is use

    def _named_wrapper(self, node: cst.BaseExpression) -> cst.Call | None:
        """`progress = tqdm(ds)` behind the name `progress`."""
        bindings = self.resolver.reaching(node) if isinstance(node, cst.Name) else []
        value = bindings[0].value if len(bindings) == 1 and bindings[0].kind == "assign" else None
        is_wrapper = isinstance(value, cst.Call) and not bindings[0].path and value.args and self._is_wrapper(value)
        return value if is_wrapper and isinstance(value, cst.Call) else None

    def _is_wrapper(self, call: cst.Call) -> bool:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "as_numpy_iterator":
            return False
        return any(name in _ITERATION_WRAPPERS for name in self.resolver.public(call.func))
