"""What Keras calls of the script with rows of this worker: steps, losses, metrics, layers, activations."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.decisions.called_alone import CalledAlone
from migrator.facts.dependence.functions import is_member_of_unknown
from migrator.facts.names import api
from migrator.facts.objects.functions_in import functions_in
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, Element, Object, Parameter, Result, Unknown
from migrator.facts.program.syntax import is_none
from migrator.facts.program.tree import Binding, FunctionLike, Tree
from migrator.facts.training.sites import Training

# What Keras calls with rows of the batches, and what it calls with weights.
_RUN_BY_MODELS = (
    (("keras.layers.", "keras.Model", "keras.models.", "keras.Sequential"), ("call",)),
    (("keras.losses.",), ("call", "__call__")),
    (("keras.metrics.",), ("update_state",)),
)
_TAKING_FUNCTIONS = ("keras.layers.", "keras.losses.", "keras.metrics.", "tensorflow.feature_column.")
_STEPS = ("train_step", "compute_loss")
_UNSEEN = (Parameter, Unknown, Element)
_OF_MODES = frozenset({"training", "mask"})

# It gives its functions text, most often in a `map`, and what they make of it to the model, which is followed there.
_OF_TEXT = ".TextVectorization"


class GivenByKeras:
    """The parameters that get a worker's rows."""

    def __init__(self, tree: Tree, resolver: Resolver, training: Training, alone: CalledAlone) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self._alone = alone

    def by_fit(self) -> Iterator[Binding]:
        """What `fit` gives a `train_step` of the script's own, or a `compute_loss`."""
        classes = [self.training.step_class(update) for update in self.training.updates]
        classes += [v.of for fit in self.training.fits for v in fit.values if isinstance(v, Object)]
        methods = [self.resolver.method(cls, name) for cls in dict.fromkeys(classes) if cls for name in _STEPS]
        for method in filter(None, methods):
            params = [*method.params.params[1:], *method.params.kwonly_params]
            for param in (p for p in params if p.name.value not in _OF_MODES):
                yield from (b for b in self.tree.scopes[method].bindings[param.name.value] if b.node is param)

    def by_models(self) -> Iterator[Binding]:
        """What Keras gives the script's own layers, losses, metrics and activations in a model that is trained."""
        for function in dict.fromkeys(self._run_by_models()):
            placed = [*function.params.posonly_params, *function.params.params]
            is_method = isinstance(function, cst.FunctionDef) and self.resolver.owner_class(function) is not None
            for position, param in enumerate([*placed[is_method:], *function.params.kwonly_params]):
                has_place = param not in function.params.kwonly_params
                is_option = _is_option(param) and not self._may_be_given(param, position if has_place else None)
                if param.name.value not in _OF_MODES and not is_option:
                    yield from (b for b in self.tree.scopes[function].bindings[param.name.value] if b.node is param)

    def _may_be_given(self, param: cst.Param, position: int | None) -> bool:
        """Whether a call gives an option, at that position or by its name alone, of which it is not seen what it calls;
        others are followed."""
        stars = ("*", "**") if position is not None else ("**",)
        for call in self.tree.calls:
            named = any(
                arg.star in stars or (arg.keyword and arg.keyword.value == param.name.value) for arg in call.args
            )
            if named or (position is not None and len(call.args) > position):
                values = self.resolver.values(call.func)
                if not values or any(isinstance(v, _UNSEEN) or is_member_of_unknown(v) for v in values):
                    return True
        return False

    def _run_by_models(self) -> Iterator[FunctionLike]:
        fitted = [v for fit in self.training.fits for v in fit.values]
        are_seen = all(isinstance(v, (Object, Result)) for v in fitted)
        for node in self.tree.classes:
            cls = Class(node)
            is_fitted = any(isinstance(v, Object) and cls in self.resolver.lineage(v.of) for v in fitted)
            if self.training.kinds.is_keras_model_class(cls) and are_seen and not is_fitted:
                continue  # the script calls it itself
            if self._alone.is_called_alone(cls):
                continue
            for kind, names in _RUN_BY_MODELS:
                if self.resolver.derives_from(cls, lambda path, kind=kind: path.startswith(kind)):  # type: ignore[misc]
                    yield from (m for m in (self.resolver.method(cls, name) for name in names) if m is not None)
        for call in self.tree.calls:
            func = call.func
            compiles = isinstance(func, cst.Attribute) and func.attr.value == "compile"
            makes = any(
                name.startswith(_TAKING_FUNCTIONS) and not name.endswith(_OF_TEXT)
                for name in self.resolver.public(func)
            )
            for arg in call.args if compiles or makes else ():
                keyword = arg.keyword.value if arg.keyword is not None else ""
                if not keyword.endswith("optimizer") and not api.takes_weights(keyword):
                    yield from functions_in(self.resolver, arg.value)


def _is_option(param: cst.Param) -> bool:
    """Whether nobody gives it but who calls the function by hand: Keras gives tensors, and has no others than `None` to
    begin with."""
    return param.default is not None and not is_none(param.default)
