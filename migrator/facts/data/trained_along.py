"""What a pipeline asks that is trained while it reads ahead: a model in training, an optimizer that counts its steps.

Their answers are those of the moment in which a sample is read, and time decides when that is."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.data.run_ahead import RunAhead
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.values import Object, Result, Value, calls
from migrator.facts.training.sites import Training
from migrator.facts.training.trained import Trained

# Layers of Keras's that have nothing to train: what they know they are told before.
_PREPROCESSING = frozenset({
    "Normalization", "StringLookup", "IntegerLookup", "TextVectorization", "Discretization", "CategoryEncoding",
    "Hashing", "HashedCrossing", "Rescaling", "Resizing", "CenterCrop", "MelSpectrogram", "STFTSpectrogram",
    "AutoContrast", "CutMix", "Equalization", "MixUp", "AugMix", "Solarization", "Flatten", "Reshape", "Permute",
    "RepeatVector", "ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D", "Cropping1D", "Cropping2D", "Cropping3D",
    "RandAugment", "Pipeline", "FeatureSpace",
})  # fmt: skip


class TrainedAlong:
    def __init__(self, training: Training) -> None:
        self.tree = training.tree
        self.resolver = training.resolver
        self.kinds = training.kinds
        self.training = training

    def first(self, run: RunAhead) -> cst.CSTNode | None:
        """Where a function of the pipeline asks what the training changes."""
        functions = [*run.in_graphs, *run.in_python]
        for node in self.tree.all_of(cst.Name, cst.Attribute) if functions else ():
            if self.tree.is_in(node, functions) and self._is_read(node) and self._changes(node):
                return node
        return None

    def _is_read(self, node: cst.CSTNode) -> bool:
        return self.tree.is_read(node) if isinstance(node, cst.Name) else True

    def _changes(self, node: cst.CSTNode) -> bool:
        return any(
            value in self._optimizers or _identity(value) in self._trained or self._is_part(value)
            for value in self.resolver.values(node)
        )

    @cached_property
    def _optimizers(self) -> set[Value]:
        owners = [u.call.func.value for u in self.training.updates if isinstance(u.call.func, cst.Attribute)]
        owners += [arg.value for compile_ in self.training.compiles for arg in compile_.call.args]
        return {v for owner in owners for v in self.resolver.values(owner) if self.kinds.is_optimizer(v)}

    @cached_property
    def _trained(self) -> set[object]:
        roots = Trained(self.tree, self.resolver, self.kinds, self.training).roots()
        values = (v for root in roots for v in self.resolver.values(root))
        return {_identity(v) for v in values if self.kinds.has_weights(v) or self.kinds.is_variable(v)}

    def _is_part(self, value: Value) -> bool:
        """Whether something that has weights may be a part of what is trained: it is handed on to somebody, or put
        among the layers of a model."""
        if not self._has_weights(value):
            return False
        return _identity(value) in self._handed_on

    def _has_weights(self, value: Value) -> bool:
        name = calls(value).rpartition(".")[2]
        return self.kinds.has_weights(value) and name not in _PREPROCESSING and not name.startswith("Random")

    @cached_property
    def _handed_on(self) -> set[object]:
        return {_identity(v) for node in self._given() for v in self.resolver.values(node) if self._has_weights(v)}

    def _given(self) -> Iterator[cst.BaseExpression]:
        """What calls and displays are given, and the layers that are called with those of others."""
        for call in self.tree.calls:
            yield from (arg.value for arg in call.args if isinstance(arg.value, (cst.Name, cst.Attribute)))
            if any(self._is_symbolic(v) for arg in call.args[:1] for v in self.resolver.values(arg.value)):
                yield call.func
        displays: list[cst.List | cst.Tuple] = [*self.tree.all_of(cst.List), *self.tree.all_of(cst.Tuple)]
        for display in displays:
            elements = (element.value for element in display.elements)
            yield from (e for e in elements if isinstance(e, (cst.Name, cst.Attribute)))
        for statement in self.tree.all_of(cst.Assign):
            if any(isinstance(target.target, cst.Attribute) for target in statement.targets):
                yield statement.value

    def _is_symbolic(self, value: Value) -> bool:
        """Whether it is a `keras.Input`, or what a layer has made of one."""
        return origin(value).endswith("keras.Input") or (
            isinstance(value, Result) and isinstance(value.function, Result) and self.kinds.has_weights(value.function)
        )


def _identity(value: Value) -> object:
    return value.of if isinstance(value, Object) else value
