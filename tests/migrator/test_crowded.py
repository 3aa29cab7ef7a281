"""Statements that share a line get lines of their own where an edit parts them, and only there."""

from __future__ import annotations

from textwrap import dedent

import pytest
from fixture_cases import run

HEAD = """
    import numpy as np
    import tensorflow as tf
    {imported}
    def make():
        return tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(1)])

    x, y = np.load("x.npy"), np.load("y.npy").reshape(-1, 1)
"""
STEP = """
    def step(model, opt, a, b):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(a) - b) ** 2)
        grads = tape.gradient(loss, model.trainable_variables)
        {reduced}opt.apply_gradients(zip(grads, model.trainable_variables))

"""
REDUCED = "grads = lockstep.all_reduce(grads)\n        "


def script(body: str, *, is_migrated: bool) -> str:
    head = HEAD.format(imported="import lockstep\n" if is_migrated else "")
    step = STEP.format(reduced=REDUCED if is_migrated else "")
    return dedent(head).lstrip("\n") + dedent(step) + body


LAYOUTS = {
    "defined on the same line": (
        """
        ds = tf.data.Dataset.from_tensor_slices((x, y)); n = 4  # rows
        ds = ds.batch(n); model = make(); opt = tf.keras.optimizers.SGD(0.1)
        for a, b in ds: step(model, opt, a, b)
        """,
        """
        ds = tf.data.Dataset.from_tensor_slices((x, y)); n = 4  # rows
        ds, local_batch_size = lockstep.shard_and_rebatch_dataset(ds, n)
        ds = ds.batch(local_batch_size)
        model = make()
        lockstep.broadcast(model)
        opt = tf.keras.optimizers.SGD(0.1)
        for a, b in ds: step(model, opt, a, b)
        """,
    ),
    "the block of a header": (
        """
        ds = tf.data.Dataset.from_tensor_slices((x, y))
        if len(x): ds = ds.repeat(2); n = 4
        else: n = 2
        ds = ds.batch(n)
        opt = tf.keras.optimizers.SGD(0.1)
        if len(x): model = make(); model.summary()
        else: model = None
        for a, b in ds: step(model, opt, a, b)
        """,
        """
        ds = tf.data.Dataset.from_tensor_slices((x, y))
        if len(x): ds = ds.repeat(2); n = 4
        else: n = 2
        ds, local_batch_size = lockstep.shard_and_rebatch_dataset(ds, n)
        ds = ds.batch(local_batch_size)
        opt = tf.keras.optimizers.SGD(0.1)
        if len(x):
            model = make()
            lockstep.broadcast(model)
            model.summary()
        else:
            model = None
        for a, b in ds: step(model, opt, a, b)
        """,
    ),
    "a loop with its body on its line": (
        """
        opt = tf.keras.optimizers.SGD(0.1)
        model = make()
        ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(4, drop_remainder=False)
        for epoch in range(3):
            for a, b in ds: step(model, opt, a, b); print(epoch)
        print(len(ds))
        """,
        None,
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layout(layout: str) -> None:
    before, after = LAYOUTS[layout]
    outcome = run(script(dedent(before), is_migrated=False))
    if after is not None:
        assert outcome.text == script(dedent(after), is_migrated=True)
    assert not outcome.refusals
    assert not run(outcome.text).is_changed


def test_places_are_told_as_the_file_is_written() -> None:
    body = 'ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(4); model = make(); model.compile("sgd", "mse")\n'
    text = dedent(HEAD.format(imported="")) + body + 'model.fit(ds); assert model.save("a.keras") is None\n'
    outcome = run(text)
    line = text.splitlines().index('model.fit(ds); assert model.save("a.keras") is None') + 1
    assert outcome.is_changed
    assert [(f.line, f.column) for f in outcome.refusals] == [(line, 23)]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("indent", ["    ", "\t"])
def test_lines_are_made_as_the_others(newline: str, indent: str) -> None:
    body = "if len(x):\n    model = make(); model.compile('sgd', 'mse')\n    model.fit(x, y)\n"
    text = (dedent(HEAD.format(imported="")) + body).replace("    ", indent).replace("\n", newline)
    lines = run(text).text.split(newline)
    assert f"{indent}model = make()" in lines
    assert f"{indent}lockstep.broadcast(model)" in lines
