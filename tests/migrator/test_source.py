"""Bytes become text as the interpreter reads them, and text becomes the same bytes again."""

from __future__ import annotations

import codecs

import pytest

from migrator.engine import migrate
from migrator.registry import choose
from migrator.text.source import Source, UnreadableSource, is_about_training

FIT = """import tensorflow as tf
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])  # é
model.compile("sgd", "mse")
x = tf.zeros([8, 1])
model.fit(x, x, batch_size=4)
"""


@pytest.mark.parametrize(
    ("data", "encoding", "has_bom"),
    [
        (b"x = 1\n", "utf-8", False),
        ("x = 'é'\n".encode(), "utf-8", False),
        (codecs.BOM_UTF8 + "x = 'é'\n".encode(), "utf-8", True),
        (codecs.BOM_UTF8 + b"# coding: utf-8\nx = 1\n", "utf-8", True),
        ("# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1"), "iso-8859-1", False),
        ("#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nx = '€'\n".encode("cp1252"), "cp1252", False),
        ("# coding: gbk\nx = '模型'\n".encode("gbk"), "gbk", False),
        (b"# coding: utf8\r\nx = 1\r\n", "utf-8", False),
        (b"", "utf-8", False),
    ],
)
def test_round_trip_keeps_every_byte(data: bytes, encoding: str, has_bom: bool) -> None:
    source = Source.decode(data)
    assert (codecs.lookup(source.encoding).name, source.has_bom) == (codecs.lookup(encoding).name, has_bom)
    assert source.encode(source.text) == data
    assert not source.text.startswith("\ufeff")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("x = 1\ny = 'é'\n".encode("latin-1"), "line 2 is not UTF-8"),
        (b"# coding: ascii\nx = '\xe9'\n", "line 2 is not ASCII"),
        (b"# coding: klingon\nx = 1\n", "unknown encoding"),
        (codecs.BOM_UTF16_LE + "x = 1\n".encode("utf-16-le"), "this is UTF-16"),
        ("x = 1\n".encode("utf-16-be"), "binary file"),
        (b"# coding: rot13\nx = 1\n", "rot13 is no encoding of text"),
    ],
)
def test_undeclared_or_wrong_encoding_is_one_clear_error(data: bytes, message: str) -> None:
    with pytest.raises(UnreadableSource, match="convert") as caught:
        Source.decode(data)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
@pytest.mark.parametrize(
    ("prefix", "encoding"),
    [(b"", "utf-8"), (codecs.BOM_UTF8, "utf-8"), (b"# -*- coding: latin-1 -*-\n", "latin-1")],
)
def test_migration_keeps_encoding_mark_and_line_ends(prefix: bytes, encoding: str, newline: bytes) -> None:
    data = (prefix + FIT.encode(encoding)).replace(b"\n", newline)
    migrated = migrate(data, choose()).data
    assert migrated.startswith(prefix.replace(b"\n", newline))
    assert "# é".encode(encoding) in migrated
    assert b"import tensorflow as tf" + newline + b"import lockstep" + newline in migrated
    assert migrated.count(b"\n") == migrated.count(newline)
    # Nothing but insertions: the old bytes are all there, in order.
    rest = iter(migrated)
    assert all(byte in rest for byte in data)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (b"import tensorflow as tf\nmodel.fit(x)\n", True),
        (b"from keras import Model\nopt.apply_gradients(g)\n", True),
        (b"import torch\nmodel.fit(x)\n", False),
        (b"import tensorflow as tf\nprint(tf.__version__)\n", False),
        (b"", False),
    ],
)
def test_files_without_training_are_told_by_their_bytes(script: bytes, expected: bool) -> None:
    assert is_about_training(script) is expected
