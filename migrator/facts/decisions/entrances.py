"""Where values come into the training besides the code under tapes: what Keras runs of the script, and what layers,
models, losses and optimizers are made of."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.analysis.losses import Losses
from migrator.facts.names import api
from migrator.facts.names.packages import FRAMEWORKS
from migrator.facts.objects.functions_in import functions_in
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Member
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training

_RUN_BY_KERAS = frozenset({"__call__", "call", "build", "compute_loss", "train_step"})
_TRAINED = frozenset({"trainable_variables", "trainable_weights"})
# What Keras makes that is not trained, nor trained with.
_TOLD = ("keras.callbacks.", "keras.metrics.", "keras.utils.", "tensorflow.summary.", "tensorflow.print")
_MADE = re.compile(r"^(?:keras|tf_keras)\.(?:\w+\.)*[A-Z]\w*$")
_TELLING = frozenset({
    "summary", "save", "save_weights", "evaluate", "predict", "get_weights", "get_layer", "get_config",
})  # fmt: skip
# The updates: the loss is this worker's until its gradients are put together.
_UPDATING = frozenset({
    "minimize", "apply", "apply_gradients", "compute_gradients", "get_gradients", "get_scaled_loss", "scale_loss",
    "get_unscaled_gradients",
})  # fmt: skip
_AGREEING = frozenset(f"{api.RUNTIME}.{name}" for name in ("all_reduce", "all_gather", "unshard_batch", "broadcast"))


class Entrances:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training, losses: Losses) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.losses = losses

    def is_given(self, node: cst.BaseExpression) -> bool:
        """Whether Keras is given what the expression gives, to train it or to train with it."""
        parent = self.tree.parent.get(node)
        if isinstance(parent, cst.Arg):
            call = self.tree.parent[parent]
            return isinstance(call, cst.Call) and self._takes(call)
        if isinstance(parent, cst.Attribute):
            return parent.attr.value in _TRAINED
        return isinstance(parent, cst.Call) and parent.func is node and self._builds(parent)

    def is_agreed_around(self, node: cst.BaseExpression) -> bool:
        """Whether the script puts the workers' values together right there: `lockstep.all_reduce(0.5 + self.share)`"""
        owners = itertools.takewhile(lambda o: not isinstance(o, cst.BaseStatement), self.tree.ancestors(node))
        calls = (owner for owner in owners if isinstance(owner, cst.Call))
        return any(name in _AGREEING for c in calls for name in self.resolver.public(c.func))

    def is_within_model(self, node: cst.CSTNode) -> bool:
        """Whether the code is that of a layer, a model or a loss, which Keras runs."""
        return self.tree.is_in(node, self._run_by_keras)

    def _takes(self, call: cst.Call) -> bool:
        """Whether the call makes, or sets, something of Keras's that is trained or trains."""
        if self._builds(call):
            return True
        for value in self.resolver.values(call.func):
            if isinstance(value, External) and _MADE.match(value.path) and not value.path.startswith(_TOLD):
                return True
            if isinstance(value, Member) and value.name not in _TELLING | _UPDATING:
                kinds = self.training.kinds
                if kinds.has_weights(value.owner) or kinds.is_optimizer(value.owner):
                    return True
        return False

    def _builds(self, call: cst.Call) -> bool:
        """Whether it gives a layer or a model, or a part of a functional one."""
        return self.losses.is_symbolic(call) or any(map(self.training.kinds.has_weights, self.resolver.values(call)))

    @cached_property
    def _run_by_keras(self) -> list[cst.CSTNode]:
        return list(dict.fromkeys(self._bodies()))

    def _bodies(self) -> Iterator[cst.CSTNode]:
        for method in self.tree.functions:
            cls = self.tree.class_of(method)
            is_run = method.name.value in _RUN_BY_KERAS and method.name.value != "train_step"
            if cls is not None and is_run and self.resolver.derives_from(Class(cls), _is_trained):
                yield from self.training.reached_from(method)
        for call in self.tree.calls:
            origins = [origin(value) for value in self.resolver.values(call.func)]
            if any(_is_trained(path) and path != "tensorflow.function" for path in origins):
                for arg in call.args:
                    for function in functions_in(self.resolver, arg.value):
                        yield from self.training.reached_from(function)


def _is_trained(path: str) -> bool:
    return path.partition(".")[0] in FRAMEWORKS and not path.startswith(_TOLD)
