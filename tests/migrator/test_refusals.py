"""A refusal leads to what is to be done: the expression, the missing file, and a script in which it was done."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from command import SOMETHING_LEFT, migrate
from fixture_cases import FIXTURES, Case, run

MENDED = sorted(FIXTURES.glob("*/*/mended.py"))


@pytest.mark.parametrize("path", MENDED, ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}")
def test_nothing_is_refused_once_the_advice_was_followed(path: Path) -> None:
    case = Case(path.parent)
    mended = path.read_text()
    ast.parse(mended)
    assert mended != case.before
    assert case.run(case.before).refusals != []
    assert case.run(mended).refusals == []


LOOP = """import tensorflow as tf
{imports}

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.1)
for x, y in {data}:
    with tf.GradientTape() as tape:
        error = tf.reduce_mean((y - model({inputs})) ** 2)
        loss = error * {factor}
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""
SINGLE = "tf.expand_dims(x, 0)"
DATA = "tf.data.Dataset.from_tensor_slices((tf.ones([64, 8]), tf.ones([64, 1]))).batch(32)"


def test_the_very_expression_is_named() -> None:
    outcome = run(LOOP.format(imports="from helpers import *", data=DATA, inputs="x", factor="scale"))
    (refusal,) = outcome.refusals
    assert outcome.old_text.splitlines()[refusal.line - 1][refusal.column - 1 :] == "scale"


@pytest.mark.parametrize(
    ("imports", "data", "inputs", "factor"),
    [
        ("from helpers import *", DATA, "x", "scale"),
        ("from helpers import samples", "samples()", SINGLE, "1.0"),
        ("import helpers", "helpers.samples()", SINGLE, "1.0"),
    ],
)
def test_the_missing_file_is_named(tmp_path: Path, imports: str, data: str, inputs: str, factor: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOOP.format(imports=imports, data=data, inputs=inputs, factor=factor))
    result = migrate(script)
    assert result.exit_code == SOMETHING_LEFT
    assert "helpers.py is imported and not among the files given: migrate train.py helpers.py; or " in result.stdout


@pytest.mark.parametrize("imports", ["import numpy", "from sklearn.datasets import load_iris", "import transformers"])
def test_packages_are_no_missing_files(tmp_path: Path, imports: str) -> None:
    name = imports.split()[-1]
    script = tmp_path / "train.py"
    script.write_text(LOOP.format(imports=imports, data=f"{name}.samples()", inputs=SINGLE, factor="1.0"))
    assert "not among the files given" not in migrate(script).stdout


OBJECTIVE = """import tensorflow as tf

weight = tf.Variable([1.0, 2.0])
optimizer = tf.keras.optimizers.SGD(0.1)


def cost():
    return {cost}


for step in range(100):
    with tf.GradientTape() as tape:
        loss = cost()
    gradients = tape.gradient(loss, [weight])
    optimizer.apply_gradients(zip(gradients, [weight]))
"""


def test_an_objective_without_data_has_nothing_to_share_out() -> None:
    (refusal,) = run(OBJECTIVE.format(cost="tf.reduce_sum(weight ** 2)")).refusals
    assert refusal.message.endswith("there are no data to share out")
    data = OBJECTIVE.format(cost="tf.reduce_sum((weight - x) ** 2)").replace("weight =", "x = load()\nweight =")
    assert not run(data).refusals
