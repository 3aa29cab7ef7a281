"""The classes of layers that programs ask for know what derives from them."""

from __future__ import annotations

import pytest

from migrator.analysis.instances import DERIVED

keras = pytest.importorskip("keras")


@pytest.mark.parametrize("name", sorted(DERIVED))
def test_all_that_derives_from_a_layer_is_known(name: str) -> None:
    asked = getattr(keras.layers, name)
    others = {n for n in dir(keras.layers) if n != name and isinstance(getattr(keras.layers, n), type)}
    derived = {n for n in others if issubclass(getattr(keras.layers, n), asked)}
    assert derived <= set(DERIVED[name])
