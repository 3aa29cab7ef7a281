"""What comes into the training: what makes, chooses or steers what is trained, or what it is trained on.

All that is made of a value is followed through the graph of dependence/. What is only printed, drawn or logged comes
into nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.data.sharding import Sharding
from migrator.facts.decisions.consequences import Consequences
from migrator.facts.dependence import Dependence, Key, Way
from migrator.facts.dependence.regions import Regions
from migrator.facts.dependence.spreading import Spread
from migrator.facts.files.writes import Files
from migrator.facts.names.packages import FRAMEWORKS
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function
from migrator.facts.program.tree import Binding, Tree
from migrator.facts.training.sites import Training

_ANY_WAY = [[0, 1] for _ in Way]
# What TensorFlow is given to tell the user.
_TELLING = ("tensorflow.print", "tensorflow.summary.", "keras.utils.Progbar")
# They may change whatever the program names.
_SETTING = frozenset({"builtins.setattr", "builtins.exec", "builtins.eval"})
_RUN_BY_KERAS = frozenset({"__call__", "call", "build", "compute_loss", "update_state", "result", "train_step"})


class IntoTraining:
    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        training: Training,
        sharding: Sharding,
        files: Files,
        harmless: Iterable[str] = (),
    ) -> None:
        """`harmless`: see Consequences."""
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.regions = Regions(tree, resolver, training)
        self.consequences = Consequences(tree, resolver, training, sharding, files, self.regions, harmless=harmless)

    @cached_property
    def dependence(self) -> Dependence:
        return Dependence(self.tree, self.resolver, self.training.kinds)

    def comes(self, keys: Iterable[Key], link: Callable[[int], None] = lambda _: None) -> bool:
        """Whether any of the values does, or what is made of it; `link` links what else follows from a value."""
        dependence = self.dependence

        def link_all(number: int, _: object) -> None:
            key = dependence.keys[number]
            if isinstance(key, cst.BaseExpression):
                for chosen in self.regions.chosen_by(key, dependence):
                    dependence.link(key, chosen, Way.CHOICE)
            link(number)

        spread = Spread(dependence, _ANY_WAY, lambda _: True, link_all)
        spread.add(((dependence.number(key), 1) for key in keys), (), ())
        reached = [dependence.keys[number] for number in spread.marks]
        return any(map(self._trains, reached)) or self._is_computed_with(reached)

    def _trains(self, key: Key) -> bool:
        """Whether the value makes, chooses or steers what is trained, or what it is trained on."""
        if isinstance(key, Binding):
            return key in self._settings
        if not isinstance(key, cst.BaseExpression):
            return False
        if isinstance(key, cst.Call) and any(map(self._runs_training, self._functions_given(key))):
            return True
        parent, decorated = self.tree.parent.get(key), decorated_by(self.tree, key)
        if isinstance(parent, cst.Arg):
            owner = self.tree.parent[parent]
            return isinstance(owner, cst.ClassDef) or (isinstance(owner, cst.Call) and self._matters_to(owner))
        if isinstance(parent, cst.Decorator):
            return decorated is None or self._runs_training(decorated)
        return self.consequences.follow(key)

    @cached_property
    def _settings(self) -> set[Binding]:
        return set(self.consequences.settings_made)

    def _functions_given(self, call: cst.Call) -> list[cst.CSTNode]:
        return [v.node for arg in call.args for v in self.resolver.values(arg.value) if isinstance(v, Function)]

    def _runs_training(self, function: cst.CSTNode) -> bool:
        reached = self.training.reached_from(function)
        return any(self.tree.contains(body, site) for body in reached for site in self.training.sites)

    def _matters_to(self, call: cst.Call) -> bool:
        """Whether what the call is given may be trained, or trained on: all that the frameworks take, and what is not
        known to be harmless."""
        values = self.resolver.values(call.func)
        paths = [origin(v) for v in values]
        if values and all(path.startswith(_TELLING) for path in paths):
            return False
        if any(path.partition(".")[0] in FRAMEWORKS or path in _SETTING for path in paths):
            return True
        return self.consequences.call_matters(call)

    def _is_computed_with(self, reached: list[Key]) -> bool:
        """Whether any of the values stands where gradients are computed or used, or Keras may run it."""
        nodes = [key for key in reached if isinstance(key, cst.CSTNode)]
        nodes += [key.node for key in reached if isinstance(key, Binding) and key.kind != "import"]
        return any(self.tree.contains(body, node) for body in self._computing for node in nodes)

    @cached_property
    def _computing(self) -> list[cst.CSTNode]:
        return list(dict.fromkeys(self._bodies()))

    def _bodies(self) -> Iterator[cst.CSTNode]:
        for update in self.training.updates:
            yield update.call
            tapes = [self.training.tape_of(call) for g in update.gradients for call in g.tape_calls]
            for tape in tapes or [None]:
                # Where no tape is seen the whole program may compute what is trained on.
                yield from self.training.run_by(tape) if tape is not None else self.tree.modules
        for method in self.tree.functions:
            if self._is_run_by_keras(method):
                yield from self.training.reached_from(method)
        for call in self.tree.calls:
            values = self.resolver.values(call.func)
            paths = [v.path for v in values if isinstance(v, External)]
            if paths != ["tensorflow.function"] and any(origin(v).partition(".")[0] in FRAMEWORKS for v in values):
                for function in self._functions_given(call):
                    yield from self.training.reached_from(function)

    def _is_run_by_keras(self, method: cst.FunctionDef) -> bool:
        cls = self.tree.class_of(method)
        if cls is None or not self.resolver.derives_from(Class(cls), _is_of_framework):
            return False
        return method.name.value in _RUN_BY_KERAS or not self.resolver.callers(method)


def _is_of_framework(path: str) -> bool:
    return path.partition(".")[0] in FRAMEWORKS and not path.startswith("keras.callbacks.")


def decorated_by(tree: Tree, node: cst.BaseExpression) -> cst.FunctionDef | None:
    """The function that the expression decorates."""
    decorator = tree.parent.get(node)
    owner = tree.parent.get(decorator) if isinstance(decorator, cst.Decorator) else None
    return owner if isinstance(owner, cst.FunctionDef) else None
