"""All facts of one script, each worked out when a rule first asks for it."""

from __future__ import annotations

from functools import cached_property

import libcst as cst
import libcst.matchers as m

from migrator.facts import api
from migrator.facts.decisions import Decisions
from migrator.facts.files import Files
from migrator.facts.kinds import Kinds
from migrator.facts.losses import Losses
from migrator.facts.pipelines import Pipelines
from migrator.facts.reading import Reading
from migrator.facts.resolve import Resolver
from migrator.facts.sharding import Sharding
from migrator.facts.syntax import imported_modules
from migrator.facts.trained import Trained
from migrator.facts.training import Training
from migrator.facts.tree import Statement, Tree
from migrator.facts.unsupported import Unsupported
from migrator.facts.values import External
from migrator.spans import Spans
from migrator.targets import lockstep as target


class Facts:
    """What the rules may ask of a script."""

    def __init__(self, module: cst.Module, text: str) -> None:
        """`text` is what the module was parsed from."""
        self._text = text
        self.tree = Tree(module)
        self.resolver = Resolver(self.tree)
        self.kinds = Kinds(self.resolver)

    @cached_property
    def spans(self) -> Spans:
        return Spans(self.tree.module, self._text)

    @cached_property
    def training(self) -> Training:
        return Training(self.tree, self.resolver, self.kinds)

    @cached_property
    def pipelines(self) -> Pipelines:
        return Pipelines(self.tree, self.resolver, self.kinds)

    @cached_property
    def reading(self) -> Reading:
        return Reading(self.tree, self.resolver, self.kinds, self.training, self.pipelines)

    @cached_property
    def unsupported(self) -> Unsupported:
        return Unsupported(self.tree, self.resolver, self.kinds, self.training)

    @cached_property
    def trained(self) -> Trained:
        return Trained(self.tree, self.resolver, self.kinds, self.training)

    @cached_property
    def losses(self) -> Losses:
        return Losses(self.tree, self.resolver, self.kinds, self.training)

    @cached_property
    def sharding(self) -> Sharding:
        return Sharding(self.tree, self.resolver, self.training, self.reading)

    @cached_property
    def decisions(self) -> Decisions:
        return Decisions(self.tree, self.resolver, self.training, self.sharding, self.files)

    @cached_property
    def files(self) -> Files:
        return Files(self.tree, self.resolver, self.kinds, self.training)

    @property
    def trains(self) -> bool:
        return bool(self.training.fits or self.training.updates)

    # -- text ----------------------------------------------------------------------------------------------------

    def source(self, node: cst.CSTNode) -> str:
        """The node as the script writes it; a node that a rule made prints itself."""
        return self.spans.source(node) if node in self.tree.order else self.tree.module.code_for_node(node)

    @cached_property
    def runtime(self) -> str:
        """The name by which the script calls the runtime: its own import's, or one that is free."""
        scope = self.tree.scopes[self.tree.module]
        for name, bindings in scope.bindings.items():
            for binding in bindings:
                if binding.kind == "import" and External(api.RUNTIME) in self.resolver.binding_values(binding):
                    return name
        return self.fresh_name(api.RUNTIME)

    @property
    def imports_runtime(self) -> bool:
        return any(b.kind == "import" for b in self.tree.scopes[self.tree.module].bindings.get(self.runtime, ()))

    def call(self, function: str, *args: str) -> str:
        """A call of the runtime's function in the spelling of the target."""
        return target.call(self.runtime, function, *args)

    def fresh_name(self, wanted: str) -> str:
        """The wanted name, or one derived from it that the script does not use."""
        name, number = wanted, 2
        while name in self.tree.names:
            name, number = f"{wanted}_{number}", number + 1
        return name

    # -- imports -------------------------------------------------------------------------------------------------

    @cached_property
    def framework_import(self) -> Statement | None:
        """The first statement at the top level that imports TensorFlow or Keras, or holds such an import."""
        for node in self.tree.imports:
            if any(_is_framework(name) for name in imported_modules(node)):
                statement = self.tree.lift(node, self.tree.module)
                if statement is not None and self.tree.function_of(node) is None:
                    inside = self.tree.statement_of(node)
                    return self._last_of_imports(inside) if _is_main(statement) else self._after_settings(statement)
        return None

    def _last_of_imports(self, statement: Statement) -> Statement:
        """The last of the framework's imports that stand together with this one: none of them makes a tensor."""
        body = list(getattr(self.tree.block_of(statement), "body", ()))
        for following in body[body.index(statement) + 1 :]:
            nodes = following.body if isinstance(following, cst.SimpleStatementLine) else ()
            imports = [n for n in nodes if isinstance(n, (cst.Import, cst.ImportFrom))]
            framework = [n for n in imports if any(_is_framework(name) for name in imported_modules(n))]
            if len(framework) != len(nodes) or not nodes or following.leading_lines:
                break
            statement = following
        return statement

    def _after_settings(self, statement: Statement) -> Statement:
        """The last top-level statement that sets devices up, if any: they must be set before the workers join."""
        statement = self._last_of_imports(statement)
        for call in self.device_settings:
            later = self.tree.lift(call, self.tree.module)
            if self.tree.function_of(call) is None and later is not None:
                statement = max(statement, later, key=self.tree.order.__getitem__)
        return statement

    @cached_property
    def device_settings(self) -> list[cst.Call]:
        """Calls that configure devices or threads before TensorFlow starts up."""
        return [
            call
            for call in self.tree.calls
            if any(
                isinstance(v, External) and api.DEVICE_SETTINGS.match(v.path) for v in self.resolver.values(call.func)
            )
        ]


def _is_main(statement: Statement) -> bool:
    """`if __name__ == "__main__":`: what it imports, it also uses."""
    return isinstance(statement, cst.If) and m.matches(
        statement.test, m.Comparison(left=m.Name("__name__"), comparisons=[m.ComparisonTarget(operator=m.Equal())])
    )


def _is_framework(module: str) -> bool:
    return module.split(".")[0] in ("tensorflow", "keras", "tf_keras")
