"""What holds of any script: never a crash, the output is Python, only what findings tell of changes, a second run and
`--check` find nothing more. The scripts are made up by hypothesis: training scripts in many layouts, and any Python."""

from __future__ import annotations

import io
import tempfile
import tokenize
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from judge import judged

from migrator.command.cli import main

# The same ones in each run of `make test`; `make test-long` looks for new ones.
FEW = settings(max_examples=30, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=500, deadline=None, database=None, suppress_health_check=list(HealthCheck))


# -- training scripts ------------------------------------------------------------------------------------------------

IMPORTS = (
    "import tensorflow as tf",
    "import tensorflow as tf\nimport numpy as np",
    "import numpy as np, tensorflow as tf",
    '"""What it does."""\nfrom __future__ import annotations\nimport os\nimport tensorflow as tf',
    "#!/usr/bin/env python\n# -*- coding: utf-8 -*-\nimport tensorflow as tf; import sys",
)
DATA = (
    "x, y = tf.zeros([64, 8]), tf.zeros([64, 1])",
    'x, y = tf.random.normal([64, 8], seed=1), (\n    tf.zeros(\n        [64, 1]\n    )  # "targets"\n)',
    "def load(\n    rows = 64,\n):\n    return tf.zeros([rows, 8]), tf.zeros([rows, 1])\n\n\nx, y = load()",
)
MODELS = (
    "model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(1)])",
    "model = tf.keras.Sequential([\n    tf.keras.Input((8,)),  # columns\n    tf.keras.layers.Dense(1),\n])",
    """def build():
    inputs = tf.keras.Input((8,))
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1)(inputs))

model = build()""",
    """class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.one = tf.keras.layers.Dense(1)

    def call(self, x): return self.one(x)

model = Net()""",
)
TRAININGS = (
    'model.compile("sgd", "mse")\nmodel.fit(x, y, batch_size=16)',
    "model.compile(optimizer=tf.keras.optimizers.Adam(1e-3), loss='mse'); model.fit(x, y, batch_size=16, verbose=0)",
    """model.compile("sgd", "mse")
for epoch in range(3):
    model.fit(
        tf.data.Dataset.from_tensor_slices((x, y)).batch(16),  # in order
    )""",
    """optimizer = tf.keras.optimizers.SGD(0.1)
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(64).batch(16)

@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(a) - b))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

for epoch in range(2):
    for a, b in data:
        loss = step(a, b)
    print(epoch, float(loss))""",
)
ENDS = (
    "",
    'model.save("m.keras")',
    'if True:\n    model.save_weights("m.weights.h5"); print("saved")',
    'with open("log.txt", "w") as log:\n    log.write("done\\n")  # told',
    'try:\n    model.save("m.keras")\nfinally:\n    pass',
)


@st.composite
def training_scripts(draw: Callable[..., object]) -> str:
    """A script that trains, in a layout of its own."""
    parts = [draw(st.sampled_from(pieces)) for pieces in (IMPORTS, DATA, MODELS, TRAININGS, ENDS)]
    between = st.sampled_from(["\n", "\n\n", "\n\n\n", "\n# ---- é\n", "\n\n# %% next\n\n"])
    text = "".join(f"{part}{draw(between)}" for part in parts)
    if draw(st.booleans()):
        head = parts[0] + "\n"
        inside = "".join(
            f"    {line}" if line.strip() else line for line in text[len(head) :].splitlines(keepends=True)
        )
        text = f"{head}\n\ndef main():\n{inside}\n\nif __name__ == '__main__':\n    main()\n"
    text = text.replace("    ", draw(st.sampled_from(["    ", "  ", "\t", "   "])))
    # Comments and white space behind the lines that end outside of strings and brackets.
    for line in {token.line for token in tokens(text) if token.type == tokenize.NEWLINE}:
        end = draw(st.sampled_from(["", "", "", " ", "  # why", "  # type: ignore", "\t#!"]))
        if line.endswith("\n") and "\n" not in line[:-1]:
            text = text.replace(f"\n{line}", f"\n{line[:-1]}{end}\n")
    text = text if draw(st.booleans()) else text.rstrip("\n")
    return text.replace("\n", draw(st.sampled_from(["\n", "\n", "\r\n"])))


def tokens(text: str) -> list[tokenize.TokenInfo]:
    return list(tokenize.generate_tokens(io.StringIO(text).readline))


def comments(text: str) -> Counter[str]:
    return Counter(token.string.rstrip() for token in tokens(text) if token.type == tokenize.COMMENT)


def migrates_well(text: str) -> None:
    """All that is promised, by the command itself."""
    data = text.encode()
    verdict = judged(data)
    assert verdict.problem == ""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "train.py")
        file.write_bytes(data)
        wrote = CliRunner().invoke(main, ["--isolated", str(file)])
        migrated = file.read_bytes()
        assert wrote.exit_code in (0, 1), wrote.output
        assert (migrated != data) is verdict.is_changed
        check = CliRunner().invoke(main, ["--isolated", "--check", "--no-cache", str(file)])
        assert check.exit_code == wrote.exit_code, check.output
    assert not comments(text) - comments(migrated.decode())
    # Every line end is as it was.
    assert (b"\r\n" in migrated) is (b"\r\n" in data)
    assert migrated.count(b"\r\n") in (0, migrated.count(b"\n"))


@FEW
@given(training_scripts())
def test_training_scripts_migrate_in_any_layout(text: str) -> None:
    migrates_well(text)


@pytest.mark.long
@MANY
@given(training_scripts())
def test_many_training_scripts_migrate_in_any_layout(text: str) -> None:
    migrates_well(text)


def test_most_training_scripts_are_migrated() -> None:
    """The scripts are no idle ones: without a layout of its own, each of them is migrated."""
    for model in MODELS:
        for training in TRAININGS:
            text = "\n".join([IMPORTS[0], DATA[0], model, training, ""])
            assert judged(text.encode()).is_changed, text


# -- any Python ------------------------------------------------------------------------------------------------------


def _programs() -> st.SearchStrategy[str]:
    import hypothesmith  # reads a grammar, which takes seconds

    return hypothesmith.from_grammar()


PROGRAMS = st.deferred(_programs)
FIT = """import tensorflow as tf
model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(tf.zeros([64, 8]), tf.zeros([64, 1]), batch_size=16)
"""


@FEW
@given(PROGRAMS, st.booleans())
@example("with a as b: yield\n", True)
def test_any_python_has_an_outcome(text: str, is_first: bool) -> None:
    assert judged((text + "\n" + FIT if is_first else FIT + text).encode("utf-8", "replace")).problem == ""


@pytest.mark.long
@MANY
@given(PROGRAMS, st.booleans())
def test_much_python_has_an_outcome(text: str, is_first: bool) -> None:
    assert judged((text + "\n" + FIT if is_first else FIT + text).encode("utf-8", "replace")).problem == ""


@FEW
@given(st.binary(max_size=200))
@example(b"\xff\xfe\x00")
@example(b"# -*- coding: utf-16 -*-\nimport tensorflow\n")
def test_any_bytes_have_an_outcome(data: bytes) -> None:
    assert judged(data).problem == ""
    assert judged(b"import tensorflow as tf\nmodel.fit(x)\n" + data).problem == ""
