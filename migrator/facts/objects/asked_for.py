"""Whether what asks for a method by its name gets that of another class."""

from __future__ import annotations

import libcst as cst

from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Function, Member

_KERAS = ("keras.", "tensorflow.keras.")


def is_anothers(resolver: Resolver, asked: cst.Attribute, method: cst.FunctionDef) -> bool:
    """Whether the attribute surely is no method of that class: one of another class of the program, or of an object
    that a class or function of Keras's has made."""
    values = resolver.values(asked)
    return bool(values) and all(
        v.node is not method if isinstance(v, Function) else isinstance(v, Member) and _is_kerass(v) for v in values
    )


def _is_kerass(member: Member) -> bool:
    return not isinstance(member.owner, Member) and origin(member.owner).startswith(_KERAS)
