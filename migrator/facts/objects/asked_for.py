"""Whether what asks for a method by its name gets that of another class."""

from __future__ import annotations

import libcst as cst

from migrator.facts.names import api
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Member, Result, Value


def is_anothers(resolver: Resolver, asked: cst.Attribute, method: cst.FunctionDef) -> bool:
    """Whether the attribute surely is no method of that class: one of another class of the program, or of an object
    that one of Keras's own classes has made."""
    values = resolver.values(asked)
    return bool(values) and all(
        v.node is not method if isinstance(v, Function) else isinstance(v, Member) and _is_made_by_keras(v.owner)
        for v in values
    )


def _is_made_by_keras(owner: Value) -> bool:
    """Whether it is what a class of Keras's makes: a loader, or a list of layers, may give the program's."""
    path = owner.function.path if isinstance(owner, Result) and isinstance(owner.function, External) else ""
    return path in api.MODEL_CLASSES or api.is_layer_class(path)
