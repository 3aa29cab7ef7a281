"""What Python takes is taken, what it refuses is told in Python's own words, and what is too deep is named."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from command import ERROR, NOTHING_LEFT, TRAINING, migrate
from test_source import FIT

from migrator.engine import migrate as migrate_bytes
from migrator.facts.program.modules import Script
from migrator.facts.script import Facts
from migrator.registry import choose
from migrator.text.parsing import DEEPEST, OLDEST_PYTHON, ScriptSyntaxError, is_python, parse, version_needed

SAVE = 'if True:\n    model.save_weights("w")\n    x = 1\n'
ODD = {
    "spaces at the end": FIT + "\n    ",
    "blank line and spaces at the end": FIT + "\n\n  ",
    "tab at the end": FIT + "\t",
    "no line end": FIT.rstrip(),
    "form feed first": "\f" + FIT,
    "form feed before a statement": FIT.replace("model.compile", "\fmodel.compile"),
    "form feeds between blocks": FIT + "\f\nif True:\n    model.save('m')\n\f\n    z = 1\n",
    "backslash on a line of its own": "\\\n" + FIT,
    "backslash behind an import": FIT.replace("as tf\n", "as tf\\\n\n", 1),
    "backslash behind a model": FIT.replace("é\n", "é\\\n\n", 1),
    "backslash before a blank line": FIT + "y = 1 \\\n\nz = 2\n",
    "carriage returns": FIT.replace("\n", "\r"),
    "all ends of lines": FIT.replace(")\n", ")\r\n", 2) + "z = 1\r",
    "tabs": FIT + "if True:\n\tmodel.save('m')\n",
    "tabs below spaces": "def f():\n    return 1\n" + FIT + "if True:\n\tmodel.save('m')\n\tif f():\n\t    f()\n",
    "spaces below tabs": "def f():\n\treturn 1\n" + FIT + "if True:\n    model.save('m')\n    if f():\n        f()\n",
    "tabs in a block that is guarded": "def f():\n  return 1\n"
    + FIT
    + "if True:\n\twith open('a', 'w') as o:\n\t\tprint(1, file=o)\n",
}


@pytest.mark.parametrize("name", ODD)
def test_odd_white_space_is_taken(name: str) -> None:
    text = ODD[name]
    ast.parse(text)
    outcome = migrate_bytes(text.encode(), choose())
    assert b"lockstep.broadcast(model)" in outcome.data
    ast.parse(outcome.text)
    # All characters of the script are still there, in order.
    rest = iter(outcome.text)
    assert all(character in rest for character in text if character not in "' \f")
    assert not migrate_bytes(outcome.data, choose()).is_changed


def test_form_feed_in_an_indentation_is_told() -> None:
    with pytest.raises(ScriptSyntaxError, match=r"^7:1: a form feed in the indentation"):
        migrate_bytes((FIT + "if True:\n  \f    model.save('m')\n").encode(), choose())


@pytest.mark.parametrize(
    "script",
    [
        "import tensorflow\n\nx = = 2\n",
        "x = 1\n  y = 2\n",
        "x = 'abc\n",
        "x = (1,\n",
        "f() = 1\n",
        "f('a' b'b')\n",
        "if x:\n\ty\n        z\n",
    ],
)
def test_syntax_error_has_the_place_and_the_words_of_python(script: str) -> None:
    with pytest.raises(SyntaxError) as expected:
        ast.parse(script)
    with pytest.raises(ScriptSyntaxError) as caught:
        parse(script)
    assert (caught.value.line, caught.value.column) == (expected.value.lineno, max(expected.value.offset or 1, 1))
    assert str(expected.value.msg) in str(caught.value)


@pytest.mark.parametrize(
    "script",
    [
        'print "loss:", loss\n',
        "print loss\n",
        'print >>sys.stderr, "loss"\n',
        'raise ValueError, "no data"\n',
        "try:\n    f()\nexcept IOError, error:\n    pass\n",
        "try:\n    f()\nexcept (IOError, OSError), error:\n    pass\n",
        'exec "x = 1" in scope\n',
        "x = `y`\n",
        "if x <> y: pass\n",
        "mode = 0755\n",
        "x = 10L\n",
        "x = ur'a'\n",
        "def f(a, (b, c)): pass\n",
        "f = lambda (a, b): a\n",
    ],
)
def test_python_2_is_named(script: str) -> None:
    with pytest.raises(ScriptSyntaxError, match=r"^\d+:\d+: this is Python 2: convert it"):
        parse(script)


@pytest.mark.parametrize("script", ["lr = = 0.01\n", "print(x) y\n", "def f(x=(1, 2), y): pass pass\n"])
def test_other_errors_are_not_taken_for_python_2(script: str) -> None:
    with pytest.raises(ScriptSyntaxError, match="not valid Python"):
        parse(script)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python takes the scripts itself")
@pytest.mark.parametrize("script", ["type X = int\n", "def f[T](x: T): pass\n", "x = f'{d['a']}'\n", "x = f'{y\n}'\n"])
def test_syntax_of_a_newer_python_is_taken(script: str) -> None:
    assert version_needed(parse(script)) == (3, 12)


DEEP = {
    "sum": "x = (\n" + "1 +\n" * 5000 + "1)\n",
    "and": "x = " + "a and " * 30_000 + "b\n",
    "strings": "x = (\n" + "'a'\n" * 30_000 + ")\n",
    "calls": "x = d" + ".map(f)" * 1000 + "\n",
    "not": "x = " + "not " * 50_000 + "a\n",
    "parentheses": "x = " + "(" * 5000 + ")" * 5000 + "\n",
    "elif": "if a: pass\n" + "elif a: pass\n" * 400,
    "conditions": "x = " + "1 if a else " * 300 + "2\n",
}


@pytest.mark.parametrize("name", DEEP)
def test_what_is_too_deep_is_named_and_the_rest_goes_on(name: str, tmp_path: Path) -> None:
    (tmp_path / "deep.py").write_text(TRAINING + DEEP[name])
    (tmp_path / "train.py").write_text(TRAINING)
    result = migrate(tmp_path)
    assert result.exit_code == ERROR
    line = 1 + TRAINING.count("\n") + (DEEPEST if name == "elif" else 0)
    assert f"deep.py:{line}:" in result.stderr
    assert "nested too deeply" in result.stderr
    assert "lockstep" in (tmp_path / "train.py").read_text()


@pytest.mark.parametrize(
    "statement",
    [
        "x = " + "1 + " * (DEEPEST - 50) + "1\n",
        "d = d" + ".map(f)" * (DEEPEST // 2 - 20) + "\n",
        "x = (\n" + "    'a'\n" * (DEEPEST - 50) + ")\n",
        "x = a\n" + "x = f(x)\n" * 1000,
        "x = [" + "'a', " * 20_000 + "]\n",
    ],
)
def test_what_is_long_but_not_too_deep_is_migrated(statement: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING + statement)
    assert migrate(tmp_path).exit_code == NOTHING_LEFT
    assert "lockstep" in (tmp_path / "train.py").read_text()


STRINGS = """import tensorflow as tf
model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
inputs_of_the_training_set, targets_of_the_training_set = tf.zeros([8, 1]), tf.zeros([8, 1])
print(f"the history of the training: {CALL.history['loss']}")
"""
CALL = "model.fit(inputs_of_the_training_set, targets_of_the_training_set, batch_size=4, epochs=12, verbose=0)"


def test_no_line_ends_within_the_braces_of_an_f_string() -> None:
    """Before Python 3.12 that is a SyntaxError; the check does not need such a Python."""
    text = STRINGS.replace("CALL", CALL)
    outcome = migrate_bytes(text.encode(), choose())
    assert "lockstep.shard_arrays(inputs_of_the_training_set" in outcome.text
    assert version_needed(parse(outcome.text)) == OLDEST_PYTHON
    assert is_python(outcome.text, OLDEST_PYTHON)


@pytest.mark.parametrize("quote", ["'", '"', "'''", '"""'])
def test_code_in_an_f_string_avoids_its_quote(quote: str) -> None:
    text = f"""import tensorflow as tf
model = tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.1)
for x, y in tf.data.Dataset.from_tensor_slices((tf.zeros([8, 1]), tf.zeros([8, 1]))).batch(4):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(y - model(x)))
    done = f{quote}{{optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables),
                     model.trainable_variables))}}{quote}
"""
    if len(quote) == 1:
        text = text.replace(",\n                    ", ",")
    outcome = migrate_bytes(text.encode(), choose())
    assert "reduction=" in outcome.text
    assert version_needed(parse(outcome.text)) == OLDEST_PYTHON


def test_depth_of_the_walks_is_within_the_bound() -> None:
    """The facts of an expression as deep as the parser lets pass are found."""
    text = FIT + "y = " + "-" * (DEEPEST - 5) + "x\n"
    assert Facts([Script(Path("a.py"), parse(text), text)]).trains
