"""Where the files of a program import the runtime.

The workers join when `lockstep` is first imported. That must happen before the first tensor, variable or dataset
exists and before anything is drawn that no seed of the script's fixes, and after all settings of devices and threads.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path

import libcst as cst

from migrator.facts.names import api
from migrator.facts.names.packages import FRAMEWORKS, STANDARD_LIBRARY, WITHOUT_TENSORS
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Literal
from migrator.facts.program.modules import Modules, module_name
from migrator.facts.program.syntax import argument, dotted, imported_modules
from migrator.facts.program.tree import Binding, Statement, Tree
from migrator.facts.startup.early_draws import EarlyDraws, Import
from migrator.files.imports import reachable

# What TensorFlow, or what it stands on, may read once it is imported.
_ENVIRONMENT = re.compile(r"\benviron\b|\bputenv\b")


class Joining:
    """The imports of the framework, of the runtime and of each other in the files of a program."""

    def __init__(self, tree: Tree, resolver: Resolver, modules: Modules) -> None:
        self._tree = tree
        self._resolver = resolver
        self._modules = modules

    # -- the runtime's name --------------------------------------------------------------------------------------

    def runtime_name(self, module: cst.Module) -> str:
        """The name by which the file calls the runtime: its own import's, or one that is free there."""
        own = self._runtime_import(module)
        return own.name if own is not None else self._tree.fresh_name(api.RUNTIME, module)

    def imports_runtime(self, module: cst.Module) -> bool:
        return self._runtime_import(module) is not None

    def _runtime_import(self, module: cst.Module) -> Binding | None:
        for bindings in self._tree.scopes[module].bindings.values():
            for binding in bindings:
                if binding.kind == "import" and External(api.RUNTIME) in self._resolver.binding_values(binding):
                    return binding
        return None

    def is_of_program(self, node: Import) -> bool:
        """Whether the statement imports a file of the program."""
        importer = self._tree.module_of(node)
        return any(self._modules.named(importer, name) is not None for name in _names(node))

    # -- where it goes -------------------------------------------------------------------------------------------

    def after(self, module: cst.Module) -> Statement | None:
        """The top-level statement after which the runtime is imported; None where the file does not import the
        framework."""
        for node in self._imports_of(module):
            if any(_is_framework(name) for name in imported_modules(node)) and self._is_top_level(node):
                statement = self._tree.lift(node, module)
                if statement is not None:
                    inside = self._tree.statement_of(node)
                    return self._last_of_imports(inside) if _is_main(statement) else self._after_settings(statement)
        return None

    def used_before(self, module: cst.Module, nodes: Collection[cst.CSTNode], place: Statement) -> Statement | None:
        """The first statement that runs one of the nodes, where it stands above the place, beside it or beside what
        holds it: a file that is written before TensorFlow is imported, or a function that does so."""
        order = self._tree.order
        ran = [*self._run_at_top(module, nodes)]
        for block in (module, self._tree.block_of(place)):
            lifted = [statement for node in ran if (statement := self._tree.lift(node, block)) is not None]
            first, end = min(lifted, key=order.__getitem__, default=None), self._tree.lift(place, block)
            if first is not None and end is not None and order[first] < order[end]:
                return first
        return None

    def drawn_above(self, module: cst.Module, place: cst.CSTNode) -> list[cst.CSTNode]:
        """What the file draws above the place, where each worker would draw its own before they have joined."""
        return [node for node in self._early_draws.of(module) if self._tree.order[node] < self._tree.order[place]]

    @cached_property
    def _early_draws(self) -> EarlyDraws:
        return EarlyDraws(self._tree, self._resolver, self._imported)

    def runtime_import(self, module: cst.Module) -> Statement | None:
        """The file's own import of the runtime."""
        own = self._runtime_import(module)
        return self._tree.statement_of(own.node) if own is not None else None

    def settings_between(self, module: cst.Module, first: Statement, last: Statement) -> Statement | None:
        """The first statement from below the one to the other that sets devices or the environment."""
        body, end = list(module.body), self._tree.lift(last, module)
        assert end is not None
        settings = {self._tree.lift(call, module) for call in self.device_settings}
        for statement in body[body.index(first) + 1 : body.index(end) + 1]:
            if statement in settings or _ENVIRONMENT.search(module.code_for_node(statement)):
                return statement
        return None

    def _run_at_top(self, module: cst.Module, nodes: Collection[cst.CSTNode]) -> Iterator[cst.CSTNode]:
        """The nodes outside of functions, and the calls there of functions that run one of the others."""
        inside: set[cst.CSTNode] = set()
        for node in nodes:
            function = node if isinstance(node, cst.FunctionDef) else self._tree.function_of(node)
            if function is None:
                yield node
            else:
                inside.add(function)
        calls = [
            (
                call,
                self._tree.function_of(call),
                {v.node for v in self._resolver.values(call.func) if isinstance(v, Function)},
            )
            for call in (self._tree.calls if inside else ())
            if self._tree.module_of(call) is module
        ]
        count = 0
        while count != len(inside):
            count = len(inside)
            inside |= {caller for _, caller, called in calls if caller is not None and called & inside}
        yield from (call for call, caller, called in calls if caller is None and called & inside)

    def must_join(self, edited: Collection[cst.Module]) -> list[cst.Module]:
        """The files that have no edit of their own, but make tensors, or draw, before they import one that has."""
        return [
            module
            for module in self._tree.modules
            if module not in edited and not self.imports_runtime(module) and self._joins_too_late(module, edited)
        ]

    def entries(self, edited: Collection[cst.Module]) -> set[cst.Module]:
        """The files that no other of the program imports, and that run one of the given ones."""
        imported = {module for edges in self._imported.values() for _, module in edges}
        return {
            module
            for module in self._tree.modules
            if module not in imported
            and (module in edited or any(self._leads_to(node, edited) for node, _ in self._imported[module]))
        }

    def settings_after_joining(self, edited: Collection[cst.Module]) -> Iterator[tuple[cst.Call, Import]]:
        """Device settings that stand below the import of a file which joins the workers, with that import; those that
        come late anyway are the rule's."""
        for call in self.device_settings:
            if self.comes_late(call):
                continue
            above = [
                node
                for node in self._imports_of(self._tree.module_of(call))
                if self._is_top_level(node) and self._tree.order[node] < self._tree.order[call]
            ]
            joining = next((node for node in above if self._leads_to(node, edited)), None)
            if joining is not None:
                yield call, joining

    @cached_property
    def device_settings(self) -> list[cst.Call]:
        """Calls that configure devices or threads before TensorFlow starts up."""
        return [call for call in self._tree.calls if self._calls(call, api.DEVICE_SETTINGS)]

    def comes_late(self, setting: cst.Call) -> bool:
        """Whether the workers have joined by then, or may have: in a function, below `if __name__ == "__main__":` of a
        file that others import, too, below what they must have joined for as no seed fixes it, or, of GPUs, below the
        import of another file of the program."""
        if not self._is_top_level(setting) or self.block_of_script(setting) is not None:
            return True
        if self.drawn_above(self._tree.module_of(setting), setting):
            return True
        return self._is_of_gpus(setting) and self._is_below_program(setting)

    def block_of_script(self, setting: cst.Call) -> Statement | None:
        """The `if __name__ == "__main__":` around it, of a file that others import, too."""
        module = self._tree.module_of(setting)
        top = self._tree.lift(setting, module)
        is_shared = any(imported is module for edges in self._imported.values() for _, imported in edges)
        return top if is_shared and top is not None and _is_main(top) else None

    def _is_below_program(self, setting: cst.Call) -> bool:
        """Whether a file of the program that uses the framework is imported above, in which the workers may join."""
        module, order = self._tree.module_of(setting), self._tree.order
        using = {self._tree.module_of(n) for n in self._tree.imports if any(map(_is_framework, imported_modules(n)))}
        above = [n for n, _ in self._imported[module] if self._is_top_level(n) and order[n] < order[setting]]
        return any(self._leads_to(node, using - {module}) for node in above)

    def is_made_by_runtime(self, setting: cst.Call) -> bool:
        """Whether the runtime sets this up by itself on several workers: each gets a GPU of its own there, and its
        share of the cores."""
        return self._calls(setting, api.SETS_THREADS) or self._is_of_gpus(setting)

    def _is_of_gpus(self, setting: cst.Call) -> bool:
        """Whether it chooses GPUs, or lets their memory grow. A script that hides all GPUs means to do without."""
        if self._calls(setting, api.SETS_MEMORY_GROWTH):
            return True
        devices, kind = argument(setting, "devices", 0), argument(setting, "device_type", 1)
        if not self._calls(setting, api.SETS_VISIBLE_DEVICES) or devices is None or kind is None:
            return False
        is_of_gpus = isinstance(kind.value, cst.SimpleString) and kind.value.evaluated_value == "GPU"
        return is_of_gpus and not any(
            isinstance(v, Literal) and not getattr(v.node, "elements", True)
            for v in self._resolver.values(devices.value)
        )

    def lists_devices(self, node: cst.BaseExpression) -> bool:
        """Whether the expression asks for the devices, or names what was asked for, and does nothing else."""
        if isinstance(node, cst.Call):
            return self._calls(node, api.LISTS_DEVICES)
        return isinstance(node, (cst.Name, cst.Attribute))

    # -- imports of the program's own files ----------------------------------------------------------------------

    @cached_property
    def _imported(self) -> dict[cst.Module, list[tuple[Import, cst.Module]]]:
        """For each file, its import statements with the files of the program that they run."""
        found: dict[cst.Module, list[tuple[Import, cst.Module]]] = {module: [] for module in self._tree.modules}
        for node in self._tree.imports:
            importer = self._tree.module_of(node)
            for name in _names(node):
                module = self._modules.named(importer, name)
                if module is not None and module is not importer:
                    found[importer].append((node, module))
        return found

    def import_of(self, importer: cst.Module, module: cst.Module) -> Import | None:
        """The statement by which the file runs the other, directly or through others."""
        return next((node for node in self._imports_of(importer) if self._leads_to(node, {module})), None)

    def import_leading_to(
        self, importer: cst.Module, wanted: Collection[Path], imported: Mapping[Path, set[Path]]
    ) -> Import | None:
        """The statement by which the file runs one of the paths, which need not be among the parsed files."""
        for node in self._imports_of(importer):
            paths = {self._modules.path_named(importer, name, imported) for name in _names(node)} - {None}
            if not reachable([path for path in paths if path is not None], imported).isdisjoint(wanted):
                return node
        return None

    def _leads_to(self, node: Import, wanted: Collection[cst.Module]) -> bool:
        """Whether the import runs one of the wanted files, directly or through others."""
        importer = self._tree.module_of(node)
        queue = [module for statement, module in self._imported[importer] if statement is node]
        seen = {importer, *queue}
        while queue:
            module = queue.pop()
            if module in wanted:
                return True
            following = {inner for _, inner in self._imported[module]} - seen
            seen |= following
            queue.extend(following)
        return False

    def _joins_too_late(self, module: cst.Module, edited: Collection[cst.Module]) -> bool:
        joining = [node for node, _ in self._imported[module] if self._leads_to(node, edited)]
        at_top = [self._tree.order[node] for node in joining if self._is_top_level(node)]
        makes = [self._tree.order[call] for call in self._first_tensors if self._tree.module_of(call) is module]
        makes += [self._tree.order[node] for node in self._early_draws.of(module)]
        if not makes:
            return False
        return bool(joining) and (not at_top or min(makes) < min(at_top))

    @cached_property
    def _first_tensors(self) -> list[cst.Call]:
        """Calls of the framework at the top level that may make a tensor."""
        return [
            call
            for call in self._tree.calls
            if self._is_top_level(call)
            and self._calls(call, api.FRAMEWORK)
            and not self._calls(call, api.MAKES_NO_TENSOR)
        ]

    # -- places --------------------------------------------------------------------------------------------------

    def _calls(self, call: cst.Call, pattern: re.Pattern[str]) -> bool:
        values = self._resolver.values(call.func)
        return any(isinstance(value, External) and pattern.match(value.path) for value in values)

    def _is_top_level(self, node: cst.CSTNode) -> bool:
        return self._tree.function_of(node) is None

    def _imports_of(self, module: cst.Module) -> list[Import]:
        return [node for node in self._tree.imports if self._tree.module_of(node) is module]

    def _last_of_imports(self, statement: Statement) -> Statement:
        """The last of the imports that stand together with this one and make no tensor: the framework's own, and those
        of well-known libraries, so that a block of them stays together."""
        body = list(getattr(self._tree.block_of(statement), "body", ()))
        for following in body[body.index(statement) + 1 :]:
            nodes = following.body if isinstance(following, cst.SimpleStatementLine) else ()
            imports = [n for n in nodes if isinstance(n, (cst.Import, cst.ImportFrom))]
            harmless = [n for n in imports if any(map(_is_framework, imported_modules(n))) or self._makes_none(n)]
            if len(harmless) != len(nodes) or not nodes or following.leading_lines:
                break
            statement = following
        return statement

    def _makes_none(self, node: Import) -> bool:
        """Whether the import surely makes no tensor: that of a well-known library, and no file of the program."""
        names = [name.split(".")[0] for name in imported_modules(node)]
        return not self.is_of_program(node) and all(
            name in WITHOUT_TENSORS or name in STANDARD_LIBRARY for name in names
        )

    def _after_settings(self, statement: Statement) -> Statement:
        """The last statement that sets devices up outside of functions, if any: they must be set before the workers
        join."""
        statement = self._last_of_imports(statement)
        module = self._tree.module_of(statement)
        for call in self.device_settings:
            later = self._tree.lift(call, module)
            if later is not None and not self.comes_late(call):
                # What follows under `if __name__ == "__main__":` is the program, and needs the workers.
                inside = self._tree.lift(call, later.body) if isinstance(later, cst.If) and _is_main(later) else None
                statement = max(statement, inside or later, key=self._tree.order.__getitem__)
        return statement


def _names(node: Import) -> list[str]:
    """The dotted names that the statement may run as files: the module, and what is taken from it."""
    if isinstance(node, cst.Import):
        return [dotted(alias.name) for alias in node.names]
    source = module_name(node)
    if isinstance(node.names, cst.ImportStar):
        return [source]
    separator = "" if source.endswith(".") else "."
    return [source, *(f"{source}{separator}{dotted(alias.name)}" for alias in node.names)]


def _is_main(statement: Statement) -> bool:
    """`if __name__ == "__main__":`: what it imports, it also uses."""
    test = statement.test if isinstance(statement, cst.If) else None
    if not isinstance(test, cst.Comparison) or dotted(test.left) != "__name__":
        return False
    return [type(target.operator) for target in test.comparisons] == [cst.Equal]


def _is_framework(module: str) -> bool:
    return module.split(".")[0] in FRAMEWORKS
