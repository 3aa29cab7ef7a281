"""Sessions of TensorFlow 1 that nothing is run in: old recipes make one, and give it to Keras, to let the memory of
GPUs grow or to fix the number of threads."""

from __future__ import annotations

import re
from functools import cached_property

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Result
from migrator.facts.program.tree import FunctionLike, Statement, Tree

MAKES_SESSION = re.compile(r"^tensorflow\.compat\.v1\.(?:Interactive)?Session$")
_SETS_SESSION = re.compile(r"^keras\.backend\.(?:tensorflow_backend\.)?set_session$")
_DEFAULT_GRAPH = re.compile(r"^tensorflow\.get_default_graph$")
_CONFIGURES = re.compile(
    r"^tensorflow\.(?:ConfigProto|GPUOptions|OptimizerOptions|GraphOptions)$"
    rf"|{MAKES_SESSION.pattern}|{_SETS_SESSION.pattern}|{_DEFAULT_GRAPH.pattern}"
)
# What may see whether a name has been bound.
_NAMESPACES = ("globals", "locals", "vars", "dir", "eval", "exec")


class Sessions:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver

    @cached_property
    def of_settings(self) -> dict[cst.Call, list[Statement]]:
        """The calls that make sessions of which only the settings count, with the statements that take part."""
        made = [call for call in self.tree.calls if self._calls(call, MAKES_SESSION)]
        if any(self.tree.is_read(name) for name in self.tree.all_of(cst.Name) if name.value in _NAMESPACES):
            return {}
        found = {call: self._only_set_up(call) for call in made if self._is_configured(call)}
        return {call: statements for call, statements in found.items() if statements is not None}

    def _is_configured(self, call: cst.Call) -> bool:
        """Whether it is made for this process and its default graph."""
        names = {arg.keyword.value if arg.keyword is not None else "": arg.value for arg in call.args if not arg.star}
        graph = names.pop("graph", None)
        is_default = graph is None or (isinstance(graph, cst.Call) and self._calls(graph, _DEFAULT_GRAPH))
        return is_default and set(names) <= {"config"} and len(call.args) == len(names) + (graph is not None)

    def _only_set_up(self, made: cst.Call) -> list[Statement] | None:
        """The statements that make the session and hand it to Keras; None where anything else may be done with it."""
        nodes = [*self.tree.all_of(cst.Name), *self.tree.all_of(cst.Attribute), *self.tree.calls]
        statements: dict[Statement, None] = {}
        for node in nodes:
            if node is not made and not (self._is_looked_up(node) and self._may_be(node, made)):
                continue
            parent = self.tree.parent[node]
            if isinstance(parent, cst.Return) and node is made:
                continue  # made where the function is called
            if not self._is_set_up(node, parent):
                return None
            statements[self.tree.statement_of(node)] = None
        return list(statements) if all(map(self._does_nothing_else, statements)) else None

    def _does_nothing_else(self, statement: Statement) -> bool:
        """Whether nothing is missed where the statement does not run, but the settings."""
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            return False
        inside = [call for call in self.tree.calls if self.tree.contains(statement, call)]
        return all(self._calls(call, _CONFIGURES) or self._calls_maker(call) for call in inside)

    def _calls_maker(self, call: cst.Call) -> bool:
        """Whether the call runs a function of the script that fills a configuration, and makes a session of it."""
        values = self.resolver.values(call.func)
        return bool(values) and all(isinstance(v, Function) and self._only_makes(v.node) for v in values)

    def _only_makes(self, function: FunctionLike) -> bool:
        inside = [call for call in self.tree.calls if self.tree.contains(function.body, call)]
        bound = [
            target.target
            for assign in self.tree.all_of(cst.Assign)
            if self.tree.contains(function.body, assign)
            for target in assign.targets
        ]
        others = (cst.Global, cst.Nonlocal, cst.AugAssign, cst.AnnAssign, cst.Del, cst.NamedExpr, cst.Import, cst.Raise)
        return (
            all(self._calls(call, _CONFIGURES) for call in inside)
            and all(self._is_of_function(target, function) for target in bound)
            and not any(self.tree.contains(function.body, node) for node in self.tree.all_of(*others))
        )

    def _is_of_function(self, target: cst.BaseExpression, function: FunctionLike) -> bool:
        """Whether it is a name of the function's own, or an attribute of a configuration that is made there."""
        if isinstance(target, cst.Name):
            return True
        while isinstance(target, cst.Attribute):
            target = target.value
        if not isinstance(target, cst.Name):
            return False
        made = self.resolver.reaching(target)
        return bool(made) and all(self.tree.contains(function.body, b.node) for b in made)

    def _is_looked_up(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Name):
            return self.tree.is_read(node)
        return not isinstance(self.tree.parent.get(node), (cst.AssignTarget, cst.AnnAssign, cst.AugAssign))

    def _may_be(self, node: cst.CSTNode, made: cst.Call) -> bool:
        return any(isinstance(value, Result) and value.call is made for value in self.resolver.values(node))

    def _is_set_up(self, node: cst.CSTNode, parent: cst.CSTNode | None) -> bool:
        if isinstance(parent, cst.Arg):
            call = self.tree.parent[parent]
            if not isinstance(call, cst.Call) or not self._calls(call, _SETS_SESSION):
                return False
            node, parent = call, self.tree.parent[call]
        if isinstance(parent, cst.Assign):
            names = [target.target.value for target in parent.targets if isinstance(target.target, cst.Name)]
            is_named = parent.value is node and len(names) == len(parent.targets)
            return is_named and self._imported.isdisjoint(names)
        return isinstance(parent, cst.Expr)

    @cached_property
    def _imported(self) -> set[str]:
        """The names that files take from others, which would miss what is not bound there."""
        aliases = self.tree.all_of(cst.ImportAlias)
        return {alias.name.value for alias in aliases if isinstance(alias.name, cst.Name)}

    def _calls(self, call: cst.Call, pattern: re.Pattern[str]) -> bool:
        values = self.resolver.values(call.func)
        return bool(values) and all(isinstance(v, External) and pattern.match(v.path) for v in values)
