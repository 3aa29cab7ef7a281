"""Packages that nobody knows, whose values may differ from worker to worker: which of them come into the training."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from migrator.facts.data.sharding import Sharding
from migrator.facts.decisions.consequences import HARMLESS
from migrator.facts.decisions.into_training import IntoTraining, decorated_by
from migrator.facts.files.writes import Files
from migrator.facts.names.packages import draws_alike
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.syntax import imported_modules
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training


class Foreign:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training, sharding: Sharding, files: Files) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        # What the packages' own calls give, and change, is followed in any case.
        self._into_training = IntoTraining(tree, resolver, training, sharding, files, self._packages)

    @cached_property
    def trained_with(self) -> str:
        """The first package of which something may come into the training; empty where there is none."""
        return next((package for package in self._packages if self._reaches(package)), "")

    @cached_property
    def _packages(self) -> dict[str, list[cst.Import | cst.ImportFrom]]:
        found: dict[str, list[cst.Import | cst.ImportFrom]] = {}
        for node in self.tree.imports:
            for name in imported_modules(node):
                if not draws_alike(name) and not self.resolver.imports_file(self.tree.module_of(node), name):
                    found.setdefault(name.partition(".")[0], []).append(node)
        return found

    # -- what is made of it --------------------------------------------------------------------------------------

    def _reaches(self, package: str) -> bool:
        imports = self._packages[package]
        if all(map(self._comes_too_late, imports)):
            return False
        if any(isinstance(node, cst.ImportFrom) and isinstance(node.names, cst.ImportStar) for node in imports):
            return True
        of_package = [b for b in self.tree.bindings if b.kind == "import" and b.node in imports]
        called = [call for call in self.tree.calls if self._calls(call, package)]
        return self._into_training.comes([*of_package, *called], lambda number: self._link(number, package))

    def _comes_too_late(self, node: cst.Import | cst.ImportFrom) -> bool:
        """Whether it is imported behind all that trains: with it, a notebook shows what has come of it."""
        is_at_once = self.tree.function_of(node) is None and not any(True for _ in self.tree.loops_around(node))
        return is_at_once and all(self._runs_before(site, node, frozenset()) for site in self.training.sites)

    def _runs_before(self, code: cst.CSTNode, node: cst.CSTNode, passed: frozenset[cst.FunctionDef]) -> bool:
        """Whether the code surely runs no more once the module has come to the node, as a line of the same module, or
        in functions that nothing names from there on."""
        function = self.tree.function_of(code)
        if self.tree.module_of(code) is not self.tree.module_of(node) or function in passed:
            return False
        if self.tree.callable_of(code) is not function:
            return False  # a lambda, which may be called whenever
        if function is None:
            return self.tree.order[code] < self.tree.order[node]
        if self.tree.class_of(function) is not None or function.decorators or self._runs_later(function):
            return False
        named = [name for name in self.tree.names[function.name.value] if name is not function.name]
        return all(
            isinstance(call := self.tree.parent[name], cst.Call)
            and call.func is name
            and self._runs_before(name, node, passed | {function})
            for name in named
        )

    def _runs_later(self, function: cst.FunctionDef) -> bool:
        """Whether a call only makes a generator, or something to be awaited."""
        return function in self.tree.yields or function.asynchronous is not None

    def _calls(self, call: cst.Call, package: str) -> bool:
        """Whether it may call something of the package's."""
        return any(origin(v).partition(".")[0] == package for v in self.resolver.values(call.func))

    def _link(self, number: int, package: str) -> None:
        """What follows from a value of the package's besides what is computed from it."""
        dependence = self._into_training.dependence
        key = dependence.keys[number]
        if isinstance(key, cst.Call) and self._calls(key, package) and not self._only_tells(key):
            for arg in key.args:  # it may be changed in place
                for holder in dependence.contents(arg.value):
                    dependence.link(key, holder)
        if not isinstance(key, cst.BaseExpression):
            return
        decorated = decorated_by(self.tree, key)
        for binding in self.tree.bindings if decorated is not None else ():
            if binding.node is decorated:
                dependence.link(key, binding)
                dependence.link(key, ("changed", decorated))
                dependence.link(key, ("handed to", decorated))

    def _only_tells(self, call: cst.Call) -> bool:
        return all(f"{origin(v)}.".startswith(HARMLESS) for v in self.resolver.values(call.func))
