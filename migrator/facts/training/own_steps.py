"""Methods named `train_step` of a script's models: whether `fit` calls them, or the script's own loop alone."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.objects.kinds import is_of_other_library
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, Object, Value, calls
from migrator.facts.program.tree import Tree

# What runs the step of a model.
_RUNNING = frozenset({"fit", "fit_generator", "train_on_batch", "make_train_function"})


class OwnSteps:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self._tree = tree
        self._resolver = resolver
        self._found: dict[cst.FunctionDef, bool] = {}

    def is_run_by_fit(self, step: cst.FunctionDef) -> bool:
        """Whether the method, the `train_step` of a model class, may be called by Keras."""
        if step not in self._found:
            called = [call for call in self._resolver.callers(step) if not _is_of_super(call)]
            self._found[step] = not called or (_takes_a_batch(step) and self._may_be_fitted(step))
        return self._found[step]

    def _may_be_fitted(self, step: cst.FunctionDef) -> bool:
        cls = self._tree.class_of(step)
        return cls is None or any(self._may_be(owner, Class(cls)) for owner in self._fitted())

    def _fitted(self) -> Iterator[cst.BaseExpression]:
        for name in _RUNNING:
            for found in self._tree.names.get(name, ()):
                node = self._tree.parent.get(found)
                if isinstance(node, cst.Attribute) and node.attr is found:
                    yield node.value

    def _may_be(self, owner: cst.BaseExpression, cls: Class) -> bool:
        values = self._resolver.values(owner)
        return not values or any(self._is_unseen_or_of(value, cls) for value in values)

    def _is_unseen_or_of(self, value: Value, cls: Class) -> bool:
        if isinstance(value, Object):
            return cls in self._resolver.lineage(value.of)
        return not (calls(value).startswith("keras.") or is_of_other_library(value))


def _is_of_super(call: cst.Call) -> bool:
    owner = call.func.value if isinstance(call.func, cst.Attribute) else None
    return isinstance(owner, cst.Call) and isinstance(owner.func, cst.Name) and owner.func.value == "super"


def _takes_a_batch(step: cst.FunctionDef) -> bool:
    """Whether it can be called as Keras does: with one batch."""
    params = (*step.params.posonly_params, *step.params.params)
    needed = [p for p in params if p.default is None]
    takes_more = isinstance(step.params.star_arg, cst.Param)
    return (
        len(needed) <= 2
        and (len(params) >= 2 or takes_more)
        and all(p.default is not None for p in step.params.kwonly_params)
    )
