"""Names of attributes that are made as the program runs."""

import keras
import libcst as cst
import pytest
import tensorflow as tf

from migrator.analysis.libraries.python.made_names import beginning, spelled
from migrator.facts.names.of_libraries import OF_LIBRARIES


@pytest.mark.parametrize(
    ("expression", "name", "other"),
    [
        ('f"conv{i}"', "conv12", "con1"),
        ('f"conv{i}_bn"', "conv1_bn", "conv1"),
        ('"conv_" + str(i)', "conv_3", "conv3"),
        ('"conv%d" % i', "conv3", "c3"),
        ('"conv_%(i)s" % names', "conv_3", "conv3"),
        ('"block{}.{}".format(i, j)', "block1.2", "bloc"),
    ],
)
def test_names_that_an_expression_may_spell(expression: str, name: str, other: str) -> None:
    names = spelled(cst.parse_expression(expression))
    assert names is not None
    assert names.match(name)
    assert not names.match(other)


@pytest.mark.parametrize(
    "expression", ["name", 'f"{kind}_layer"', r'f"con\x76{i}"', '"%(i)s_conv" % names', "prefix + str(i)", "names[i]"]
)
def test_a_name_whose_beginning_is_not_seen_may_be_any(expression: str) -> None:
    assert spelled(cst.parse_expression(expression)) is None


def test_the_beginning_of_names_is_their_text() -> None:
    assert beginning(spelled(cst.parse_expression('f"conv.{i}_a"'))) == "conv."
    assert beginning(None) == ""


def test_what_libraries_call_their_own_is_known() -> None:
    classes = (keras.Model, keras.Sequential, keras.layers.Layer, keras.layers.RNN, keras.losses.Loss,
               keras.metrics.Metric, keras.callbacks.Callback, keras.optimizers.Optimizer, tf.Module)  # fmt: skip
    names = {name for cls in classes for name in dir(cls)} | set(vars(keras.Model()))
    assert {name for name in names if not name.startswith("_")} <= OF_LIBRARIES
