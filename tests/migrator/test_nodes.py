"""libcst's nodes answer what they did, only faster."""

from __future__ import annotations

from abc import ABCMeta

import libcst as cst
import pytest

import migrator.facts.program  # noqa: F401  makes them quick

CLASSES = [cls for cls in vars(cst).values() if isinstance(cls, type) and issubclass(cls, cst.CSTNode)]


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if cls.__subclasses__()], ids=lambda cls: cls.__name__)
def test_what_derives_from_a_class_of_nodes_is_what_it_was(cls: type) -> None:
    for other in (*CLASSES, int, object):
        assert issubclass(other, cls) == ABCMeta.__subclasscheck__(cls, other)


def test_nodes_are_hashed_and_compared_by_identity() -> None:
    node, same_text = cst.Name("x"), cst.Name("x")
    assert node == node
    assert node != same_text
    assert len({node, node, same_text}) == 2
    assert {hash(cls.__hash__) for cls in CLASSES} == {hash(object.__hash__)}
