"""Names and the bindings behind them, within a file and through the imports between the files of a program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Callable, cast

import libcst as cst

from migrator.facts.objects.classes import Classes
from migrator.facts.objects.flow import Flow
from migrator.facts.objects.values import Class, File, Object, Values
from migrator.facts.program.modules import Modules, module_name
from migrator.facts.program.syntax import dotted
from migrator.facts.program.tree import Binding, Tree

# The scope that binds it, and its name there.
Variable = tuple[cst.CSTNode, str]


class Names:
    """`values` evaluates an expression."""

    def __init__(self, tree: Tree, modules: Modules, classes: Classes, values: Callable[[cst.CSTNode], Values]) -> None:
        self.tree = tree
        self.flow = Flow(tree)
        self._modules = modules
        self._classes = classes
        self._values = values
        self._reaching: dict[cst.Name, list[Binding]] = {}
        # By what they are called.
        self._reads: dict[str, dict[Variable | None, list[cst.Name]]] = {}

    def reaching(self, node: cst.Name) -> list[Binding]:
        """The bindings that the name may have its value from where it stands, latest first; an imported name has it
        from where the other file binds it."""
        found = self._reaching.get(node)
        if found is None:
            found = self._reaching[node] = self._found_reaching(node)
        return list(found)  # callers take theirs apart

    def _found_reaching(self, node: cst.Name) -> list[Binding]:
        found = [b for binding in self.flow.reaching(node) for b in self._beyond(binding, ())]
        home = self.tree.scope_of(node).lookup(node.value)
        if home is not None and not (isinstance(home.node, cst.Module) and self._is_set_later(node, found)):
            return [*self._taken_over(home.node, node.value, found), *found]
        starred = self._lent(self.tree.module_of(node), node.value)
        return [*starred, *(found if self.tree.loops_around(node) or not starred else ())]

    def reaching_at(self, node: cst.CSTNode, name: str) -> list[Binding]:
        """The same for any name, which need not be written there, nor bound."""
        return [b for binding in self.flow.reaching_at(node, name) for b in self._beyond(binding, ())]

    def _is_set_later(self, node: cst.Name, found: list[Binding]) -> bool:
        """Whether the file gives the name a value of its own only behind the read, `data = data.map(…)` below `from
        train import *`."""
        around = (binding.node for binding in found)
        return self.tree.module_of(node) in self.starred and all(self.tree.contains(each, node) for each in around)

    def _lent(
        self, importer: cst.Module, name: str, passed: tuple[Binding, ...] = (), behind: int = 0
    ) -> list[Binding]:
        """The bindings of the name in the files from which this one imports `*` behind a place, and in those from
        which they do."""
        found: dict[Binding, None] = {}
        entered = {importer}
        queue = [node for node in self.starred.get(importer, ()) if self.tree.order[node] > behind]
        while queue:
            node = queue.pop(0)
            module = self._modules.named(self.tree.module_of(node), module_name(node))
            if module is None or module in entered:
                continue
            entered.add(module)
            bindings = self.tree.scopes[module].bindings.get(name)
            latest = self.flow.latest(bindings) if bindings else ()
            found.update(dict.fromkeys(b for binding in latest for b in self._beyond(binding, passed)))
            queue += self.starred.get(module, ())
        return list(found)

    def _taken_over(
        self, home: cst.CSTNode, name: str, found: list[Binding], passed: tuple[Binding, ...] = ()
    ) -> list[Binding]:
        """The bindings that an `import *` behind those of the file itself may put in their place."""
        if not found or not isinstance(home, cst.Module) or home not in self.starred:
            return []
        behind = min(self.tree.order[b.node] for b in self.tree.scopes[home].bindings[name])
        lent = self._lent(home, name, passed, behind)
        if all(binding.kind == "import" for binding in (*found, *lent)):  # `np` of both
            return []
        return [binding for binding in lent if binding not in found]

    def _beyond(self, binding: Binding, passed: tuple[Binding, ...]) -> list[Binding]:
        if binding.kind != "import" or not isinstance(binding.node, cst.ImportFrom):
            return [binding]
        if binding in passed:  # it is asked for by way of itself, which gives nothing
            return []
        alias = cast(cst.ImportAlias, binding.value)
        module = self._modules.named(self.tree.module_of(binding.node), module_name(binding.node))
        found = self.bound_in(module, dotted(alias.name), (*passed, binding)) if module is not None else []
        return found or [binding]

    def bound_in(self, module: cst.Module, name: str, passed: tuple[Binding, ...] = ()) -> list[Binding]:
        """The bindings that other files find under the name in the file, latest first."""
        bindings = self.tree.scopes[module].bindings.get(name)
        if not bindings:
            return self._lent(module, name, passed) if module in self.starred else []
        found = [b for binding in self.flow.latest(bindings) for b in self._beyond(binding, passed)]
        return [*self._taken_over(module, name, found, passed), *found]

    def bound(self, node: cst.CSTNode) -> list[Binding]:
        """Where the name, or the attribute, gets its value; nowhere of all else."""
        if isinstance(node, cst.Name):
            return self.reaching(node)
        return self.bindings_of(node) if isinstance(node, cst.Attribute) else []

    def bindings_of(self, node: cst.Attribute) -> list[Binding]:
        """Where `obj.name` gets its value, obj being an object of the program's classes or one of its files."""
        found: dict[Binding, None] = {}
        for owner in self._values(node.value):
            if isinstance(owner, Object):
                found.update(dict.fromkeys(self._classes.attribute_bindings(owner.of, node.attr.value)))
            elif isinstance(owner, File):
                found.update(dict.fromkeys(self.bound_in(owner.node, node.attr.value)))
        return list(found)  # callers take theirs apart

    def class_bindings_of(self, node: cst.Attribute) -> list[Binding]:
        """Where the bodies of classes give `obj.name`, or `Class.name`, a value, and where `Class.name = …` does."""
        found: dict[Binding, None] = {}
        for owner in self._values(node.value):
            if isinstance(owner, (Object, Class)):
                cls = owner if isinstance(owner, Class) else owner.of
                is_self = isinstance(owner, Object) and owner.call is None
                found.update(dict.fromkeys(self._classes.class_bindings(cls, node.attr.value, is_self)))
        return list(found)

    def variable(self, node: cst.Name) -> Variable | None:
        """What tells two names apart from one: the scope that binds it, in the file where it is defined, and its name
        there."""
        scope = self.tree.scope_of(node).lookup(node.value)
        bindings = scope.bindings[node.value] if scope is not None else []
        elsewhere = (
            self.reaching(node) if scope is None else self._beyond(bindings[0], ()) if len(bindings) == 1 else []
        )
        if elsewhere and elsewhere[0] not in bindings:
            return self.tree.module_of(elsewhere[0].node), elsewhere[0].name
        return (scope.node, node.value) if scope is not None else None

    def reads_of(self, variable: Variable) -> Sequence[cst.Name]:
        """The names that read the variable, and are written as it is where it is defined."""
        name = variable[1]
        if name not in self._reads:
            reads: dict[Variable | None, list[cst.Name]] = defaultdict(list)
            for node in filter(self.tree.is_read, self.tree.names.get(name, ())):
                reads[self.variable(node)].append(node)
            self._reads[name] = reads
        return self._reads[name].get(variable, ())

    def uses(self, name: cst.Name) -> Iterator[cst.Name | cst.Attribute]:
        """All places that mean the same variable, in other files too: `SIZE`, `config.SIZE`."""
        wanted = self.variable(name)
        if wanted is None:
            return
        for other in self.tree.names.get(wanted[1], ()):
            parent = self.tree.parent.get(other)
            if isinstance(parent, cst.Attribute) and parent.attr is other:
                if any(isinstance(v, File) and v.node is wanted[0] for v in self._values(parent.value)):
                    yield parent
            elif isinstance(parent, cst.ImportAlias):
                alias = parent.asname.name if parent.asname is not None else None
                for use in self.tree.names.get(alias.value, ()) if isinstance(alias, cst.Name) else ():
                    if use is not alias and self.variable(use) == wanted:
                        yield use
            elif self.variable(other) == wanted:
                yield other

    @cached_property
    def starred(self) -> dict[cst.Module, list[cst.ImportFrom]]:
        found: dict[cst.Module, list[cst.ImportFrom]] = defaultdict(list)
        for node in self.tree.imports:
            if isinstance(node, cst.ImportFrom) and isinstance(node.names, cst.ImportStar):
                found[self.tree.module_of(node)].append(node)
        return found
