"""What is run once for several questions, or calls, gives what each would get of a run of its own."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from migrator.analysis import calls, losses, run
from migrator.engine import migrate
from migrator.facts.decisions.deciding import Deciding
from migrator.facts.program.modules import Script
from migrator.facts.script import Facts
from migrator.registry import choose
from migrator.text.parsing import parse

_SCRIPT = """
import tensorflow as tf


class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.layers_of = [tf.keras.layers.Dense(4) for _ in range(3)]
        self.calls = 0

    def call(self, x):
        self.calls += 1
        for layer in self.layers_of:
            x = scaled(layer(x))
        return x


def scaled(x):
    history.append(tf.reduce_mean(x))
    return x * factors["scale"]


def distance(a, b):
    return tf.sqrt(tf.reduce_mean((a - b) ** 2))


factors = {}
factors["scale"] = 1.0
history = []
model = Net()
optimizer = tf.keras.optimizers.SGD(0.1)
data = tf.data.Dataset.from_tensor_slices((tf.random.normal((24, 3)), tf.random.normal((24, 1)))).batch(6)
for epoch in range(3):
    factors["bias"] = float(epoch)
    for x, y in data:
        with tf.GradientTape() as tape:
            output = model(x)
            loss = distance(output, y) + factors["bias"]
        grads = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
    total = tf.reduce_sum(history[-1])
    if distance(output, y) + total < 0.1:
        break
"""


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[run.Run]:
    """The runs that are made."""
    found: list[run.Run] = []

    class Counted(run.Run):
        def run(self, entries):  # type: ignore[no-untyped-def]
            found.append(self)
            super().run(entries)

    monkeypatch.setattr(losses, "Run", Counted)
    return found


def test_questions_with_the_same_plan_share_its_run(runs: list[run.Run]) -> None:
    facts = Facts([Script(Path("script.py"), parse(_SCRIPT), _SCRIPT)])
    first, second = (node for node in facts.tree.names["distance"] if facts.tree.is_read(node))
    shared = Deciding(facts)
    shared._losses([first])
    number = len(runs)
    answers = shared._losses([second])
    assert len(runs) == number
    alone = Deciding(facts)._losses([second])
    assert len(runs) > number
    for node in facts.tree.order:
        assert answers.of_number(node) == alone.of_number(node)
        assert answers.is_rows(node) == alone.is_rows(node)
        if isinstance(node, cst.Call):
            assert answers.of(node) == alone.of(node)


def test_calls_are_known_as_long_as_what_they_read_is_as_it_was(
    runs: list[run.Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = choose()
    known = migrate(_SCRIPT.encode(), rules)
    first, number = runs[0], len(runs)
    monkeypatch.setattr(calls.Calls, "_holds", lambda self, known: known.version == self.run.heap.version)
    anew = migrate(_SCRIPT.encode(), rules)
    assert (known.text, known.findings) == (anew.text, anew.findings)
    assert first.steps_left > runs[number].steps_left
