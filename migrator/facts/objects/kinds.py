"""Of what kind a value is: a model, an optimizer, a gradient tape, a dataset, an array."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Callable

import libcst as cst

from migrator.facts.names import api, packages, vocabulary
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.datasets import is_dataset
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import (
    Class,
    Element,
    External,
    Literal,
    Member,
    Object,
    Result,
    Value,
    calls,
    is_call_of,
)
from migrator.facts.program.syntax import method_called

# Methods of a numbered dataset that leave the numbers in their order.
_KEEPING_NUMBERS = frozenset({"take", "skip", "repeat", "prefetch", "cache"})
_OTHER_LIBRARIES = ("sklearn.", "xgboost.", "lightgbm.", "catboost.", "scipy.", "statsmodels.", "torch.")
_TOLD_TO_COMPILE = frozenset({"loss", "optimizer", "metrics"})
# How an array is laid out, which are no rows of it.
_FORM = frozenset({"shape", "dtype", "ndim"})


class Kinds:
    """Predicates over values of one script."""

    def __init__(self, resolver: Resolver, is_installed: Callable[[str], bool]) -> None:
        """`is_installed`: whether a name is that of a package beside the script's own interpreter."""
        self._resolver = resolver
        self._is_installed = is_installed

    def is_model(self, value: Value) -> bool:
        """A Keras model: it has `compile` and `fit`."""
        if isinstance(value, Result):
            return api.makes_model(calls(value)) or value.call in self.models_of_packages
        return isinstance(value, Object) and self._resolver.derives_from(
            value.of, lambda path: api.is_model_class(path) or api.makes_model(path)
        )

    @cached_property
    def models_of_packages(self) -> frozenset[cst.CSTNode]:
        """The calls of packages that make models, as only what the script does with them tells."""
        values = {v for receiver in self._used_as_models() for v in self._resolver.values(receiver)}
        return frozenset(v.call for v in values if isinstance(v, Result) and calls(v) and self._is_of_package(calls(v)))

    def _is_of_package(self, path: str) -> bool:
        """Whether a dotted name is that of a package of which nothing is known but that it is one."""
        root = path.partition(".")[0]
        is_there = packages.is_there(root) or self._is_installed(root)
        return is_there and not (packages.is_known(root) or path.startswith(_OTHER_LIBRARIES))

    def _used_as_models(self) -> Iterator[cst.BaseExpression]:
        """What is told to compile in Keras's words, and what a model is made of by its inputs and outputs."""
        for call in self._resolver.tree.calls:
            if _is_compile(call):
                yield cst.ensure_type(call.func, cst.Attribute).value
            parts = [
                a.value for a in call.args if isinstance(a.value, cst.Attribute) and a.value.attr.value in api.ENDS
            ]
            if parts and any(_is_model_class(v) for v in self._resolver.values(call.func)):
                yield from (part.value for part in parts)

    def is_keras_model_class(self, cls: Class) -> bool:
        return self._resolver.derives_from(cls, lambda path: api.is_model_class(path) or api.makes_model(path))

    def has_weights(self, value: Value) -> bool:
        """A model, layer, tf.Module: anything whose variables are trained together."""
        if self.is_model(value):
            return True
        if isinstance(value, Result) and isinstance(value.function, External):
            return api.is_layer_class(value.function.path)
        return isinstance(value, Object) and self._resolver.derives_from(
            value.of, lambda path: api.is_layer_class(path) or api.is_module_class(path)
        )

    def is_plain_module(self, value: Object) -> bool:
        """A tf.Module that is no Keras layer: nothing tells when it makes its variables."""
        return not self.is_model(value) and self._resolver.derives_from(value.of, api.is_module_class)

    def is_variable(self, value: Value) -> bool:
        return (
            isinstance(value, Result)
            and isinstance(value.function, External)
            and value.function.path in ("tensorflow.Variable", "keras.Variable", "keras.backend.variable")
        ) or (isinstance(value, Result) and isinstance(value.function, Member) and value.function.name == "add_weight")

    def is_variable_or_list(self, node: cst.CSTNode) -> bool:
        """Whether the expression is a variable, or a display of variables (`{"w1": tf.Variable(…)}`)."""
        if isinstance(node, cst.Dict):
            parts: list[cst.BaseExpression] = [e.value for e in node.elements]
        elif isinstance(node, (cst.List, cst.Tuple)):
            parts = [e.value for e in node.elements]
        else:
            return any(self.is_variable(v) for v in self._resolver.values(node))
        return bool(parts) and all(self.is_variable_or_list(p) for p in parts)

    def is_optimizer(self, value: Value) -> bool:
        if isinstance(value, Result) and isinstance(value.function, External):
            return api.is_optimizer_class(value.function.path) or self.is_distributed_optimizer(value)
        if isinstance(value, Member) and value.name == "optimizer":
            return self.is_model(value.owner)
        return isinstance(value, Object) and self._resolver.derives_from(value.of, api.is_optimizer_class)

    @staticmethod
    def is_distributed_optimizer(value: Value) -> bool:
        return vocabulary.has_role(calls(value), Role.OPTIMIZER)

    @staticmethod
    def is_whole_batch_loss(value: Value) -> bool:
        return is_call_of(value, f"{api.RUNTIME}.whole_batch")

    def is_metric(self, value: Value) -> bool:
        """A metric of Keras's, or of a class of the script's that derives from one."""
        if isinstance(value, Object):
            return self._resolver.derives_from(value.of, lambda path: path.startswith("keras.metrics."))
        return calls(value).startswith("keras.metrics.")

    @staticmethod
    def is_tape(value: Value) -> bool:
        return is_call_of(value, "tensorflow.GradientTape") or Kinds.is_distributed_tape(value)

    @staticmethod
    def is_distributed_tape(value: Value) -> bool:
        """A tape whose gradients come reduced."""
        return vocabulary.has_role(calls(value), Role.TAPE)

    @staticmethod
    def is_dataset(value: Value) -> bool:
        return is_dataset(value)

    def numbers_turns(self, iterated: cst.CSTNode, path: tuple[int, ...]) -> bool:
        """Whether that part of a `for` target numbers the turns: `step` of `for step, batch in enumerate(dataset)`, of
        `tqdm(enumerate(dataset))`, or of `dataset.enumerate()`, `dataset.enumerate().take(4)`."""
        if path[:1] != (0,):
            return False
        while isinstance(iterated, cst.Call) and iterated.args and self._is_share(iterated):
            iterated = iterated.args[0].value  # of which numbers of batches are not shared out
        values = self._resolver.values(iterated)
        return bool(values) and all(is_call_of(value, "builtins.enumerate") or _is_numbered(value) for value in values)

    def _is_share(self, call: cst.Call) -> bool:
        values = self._resolver.values(call.func)
        return bool(values) and all(isinstance(v, External) and vocabulary.has_role(v.path, Role.SHARD) for v in values)

    @staticmethod
    def is_array(value: Value) -> bool:
        """Surely numpy arrays, tensors or Python sequences: what `fit` batches by itself."""
        if isinstance(value, Literal):
            return True
        while isinstance(value, (Element, Member)):
            if isinstance(value, Member) and value.name in _FORM:
                return False
            value = value.of if isinstance(value, Element) else value.owner
        if not isinstance(value, Result):
            return False
        function = value.function
        if isinstance(function, Member):  # x.reshape(...), x.astype(...): an array's methods give arrays
            return Kinds.is_array(function.owner) or function.name in (
                "astype",
                "reshape",
                "numpy",
                "to_numpy",
                "values",
            )
        return isinstance(function, External) and function.path.startswith(
            (
                "numpy.",
                "sklearn.",
                "keras.datasets.",
                "pandas.",
                "tensorflow.constant",
                "tensorflow.convert_to_tensor",
                "keras.utils.to_categorical",
                "tensorflow.cast",
                "tensorflow.one_hot",
                "tensorflow.random.",
                "keras.utils.pad_sequences",
                "keras.preprocessing.sequence.pad_sequences",
            )
        )


def _is_model_class(value: Value) -> bool:
    return isinstance(value, External) and api.is_model_class(value.path)


def _is_compile(call: cst.Call) -> bool:
    if method_called(call) != "compile":
        return False
    named = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    return bool(named & _TOLD_TO_COMPILE)


def _is_numbered(value: Value) -> bool:
    """`dataset.enumerate()`, `dataset.enumerate().take(4)`"""
    made = value.function if isinstance(value, Result) else None
    while isinstance(made, Member) and made.name in _KEEPING_NUMBERS and isinstance(made.owner, Result):
        made = made.owner.function
    return isinstance(made, Member) and made.name == "enumerate" and is_dataset(made.owner)


def origin(value: Value) -> str:
    """The dotted name of the outside function or class that a value comes from; empty where there is none.

    `pathlib.Path` for `Path("a") / "b"`, `sklearn.svm.SVC` for the fitted estimator.
    """
    while not isinstance(value, External):
        if isinstance(value, Result):
            value = value.function
        elif isinstance(value, Member):
            value = value.owner
        elif isinstance(value, Element):
            value = value.of
        else:
            return ""
    return value.path


def is_of_options(value: Value) -> bool:
    """What the command line says: numbers and texts, but for what the script gives an attribute itself."""
    return origin(value).startswith(("argparse.", "absl.flags."))


def is_of_other_library(value: Value) -> bool:
    """Whether an object is surely none of Keras's: scikit-learn's estimators have a `fit`, too."""
    return origin(value).startswith(_OTHER_LIBRARIES)
