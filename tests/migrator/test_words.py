"""What the user says in comments: heeded where it is sound, told in the report, never silently without effect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import ERROR, NOTHING_LEFT, SOMETHING_LEFT, migrate
from fixture_cases import run

from migrator.findings.results import Outcome

LOOP = """import tensorflow as tf
import helpers

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.1)
data = tf.data.Dataset.from_tensor_slices((tf.ones([64, 8]), tf.ones([64, 1]))).batch(32)
for x, y in data:
    with tf.GradientTape() as tape:
        loss = helpers.loss(y, model(x))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
model.save("model.keras")
"""
FIT = """import tensorflow as tf
import helpers

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", loss=helpers.loss)
model.fit(tf.ones([64, 8]), tf.ones([64, 1]), batch_size=32)
"""
LOSS = "loss = helpers.loss(y, model(x))"
GRADIENTS = "gradients = tape.gradient(loss, model.trainable_variables)"
MEAN = "loss = tf.reduce_mean((y - model(x)) ** 2)"
STOP = "if helpers.is_good(loss):"
SAVE = 'model.save("model.keras")'
STOPPING = LOOP.replace(LOSS, MEAN).replace(SAVE, f"    {STOP}\n        break\n{SAVE}")


def said(line: str, word: str, script: str = LOOP) -> Outcome:
    """The script with a comment behind one of its lines, migrated."""
    assert line in script
    return run(script.replace(line, f"{line}  # migrate: {word}"))


def trusted(outcome: Outcome) -> list[str]:
    return [f.message for f in outcome.remarks.trusted]


def unused(outcome: Outcome) -> list[str]:
    return [f.message for f in outcome.remarks.unused]


def refused_by(outcome: Outcome) -> list[str]:
    return [f.rule for f in outcome.refusals]


def test_without_a_word_what_nobody_knows_is_gathered() -> None:
    outcome = run(LOOP)
    assert "helpers.loss(lockstep.all_gather(y), lockstep.all_gather(model(x)))" in outcome.text
    assert outcome.remarks.trusted == ()


@pytest.mark.parametrize("line", [LOSS, GRADIENTS])
@pytest.mark.parametrize(("word", "reduction"), [("loss=mean", ""), ("loss=sum", ', reduction="sum"')])
def test_a_loss_is_what_the_user_says(line: str, word: str, reduction: str) -> None:
    outcome = said(line, word, LOOP)
    assert "all_gather" not in outcome.text
    assert f"lockstep.all_reduce(gradients{reduction})" in outcome.text
    assert trusted(outcome) == [word]
    assert unused(outcome) == []


def test_a_function_is_given_the_whole_batch_where_the_user_says_so() -> None:
    own = "def loss_of(y, p):\n    return tf.reduce_mean((y - p) ** 2)\n\n\nmodel ="
    script = LOOP.replace("model =", own, 1).replace("helpers.loss", "loss_of")
    assert "all_gather" not in run(script).text
    outcome = said("loss = loss_of(y, model(x))", "loss=gather", script)
    assert "loss_of(lockstep.all_gather(y)," in outcome.text
    assert trusted(outcome) == ["loss=gather"]


@pytest.mark.parametrize(
    ("word", "wanted"),
    [("loss=mean", "loss=helpers.loss)"), ("loss=gather", "loss=lockstep.whole_batch(helpers.loss))")],
)
def test_the_loss_of_compile_is_what_the_user_says(word: str, wanted: str) -> None:
    outcome = said('model.compile("sgd", loss=helpers.loss)', word, FIT)
    assert wanted in outcome.text
    assert trusted(outcome) == [word]


def test_a_value_has_its_rows_where_the_user_says() -> None:
    script = LOOP.replace(LOSS, "rows = helpers.of_each(y, model(x))\n        loss = tf.reduce_mean(rows)")
    assert "all_gather" in run(script).text
    outcome = said("rows = helpers.of_each(y, model(x))", "rows=0", script)
    assert "all_gather" not in outcome.text
    assert trusted(outcome) == ["rows=0"]


@pytest.mark.parametrize("word", ["rows=none", "replicated"])
def test_a_value_is_the_same_on_all_workers_where_the_user_says_so(word: str) -> None:
    script = LOOP.replace(
        LOSS, "scale = helpers.scale_of(x)\n        loss = tf.reduce_mean((y - model(x)) ** 2) * scale"
    )
    assert "all_gather" in run(script).text
    outcome = said("scale = helpers.scale_of(x)", word, script)
    assert "all_gather" not in outcome.text
    assert trusted(outcome) == [word]


def test_a_condition_is_the_same_on_all_workers_where_the_user_says_so() -> None:
    assert "average-metrics" in {f.rule for f in run(STOPPING).findings}
    outcome = said(STOP, "replicated", STOPPING)
    assert "average-metrics" not in {f.rule for f in outcome.findings}
    assert outcome.is_changed
    assert trusted(outcome) == ["replicated"]


@pytest.mark.parametrize("condition", ["loss < 0.1", "float(loss) < 0.1 and len(data) > 3"])
def test_a_condition_of_numbers_that_can_be_combined_needs_no_word(condition: str) -> None:
    script = STOPPING.replace(STOP, f"if {condition}:")
    outcome = said(f"if {condition}:", "replicated", script)
    assert outcome.text.replace("  # migrate: replicated", "") == run(script).text
    assert unused(outcome) == ["nothing here needs `# migrate: replicated`"]
    assert trusted(outcome) == []


def test_a_root_of_a_mean_is_no_mean() -> None:
    root = "loss = tf.sqrt(tf.reduce_mean((y - model(x)) ** 2))"
    script = LOOP.replace(LOSS, root)
    outcome = said(root, "loss=mean", script)
    assert "lockstep.all_reduce(tf.reduce_mean(" in outcome.text
    assert unused(outcome) == ["nothing here needs `# migrate: loss=mean`"]


@pytest.mark.parametrize(
    "lines",
    [
        ["# migrate: loss=mean", "loss = helpers.loss(y, model(x))"],
        ["# migrate: loss=mean", "# for it is one", "loss = helpers.loss(y, model(x))"],
        ["loss = helpers.loss(", "    y,  # migrate: loss=mean", "    model(x),", ")"],
        ["loss = helpers.loss(y, model(x))  # noqa # migrate: loss=mean"],
        ["loss = helpers.loss(y, model(x))  #migrate:loss = mean"],
    ],
)
def test_a_comment_speaks_of_the_statement_below_or_around_it(lines: list[str]) -> None:
    outcome = run(LOOP.replace(f"        {LOSS}\n", "".join(f"        {line}\n" for line in lines)))
    assert trusted(outcome) == ["loss=mean"]
    assert "all_gather" not in outcome.text


def test_a_text_that_looks_like_a_comment_says_nothing() -> None:
    outcome = run(LOOP.replace(SAVE, 'print("# migrate: loss=mean", """\n# migrate: nonsense\n""")'))
    assert outcome.remarks.trusted == outcome.remarks.unused == ()


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (SAVE, "loss=mean"),
        (SAVE, "rows=0"),
        (SAVE, "ignore[shard-arrays] whatever"),
        ("import helpers", "replicated"),
        ("import helpers", "file-ignore[shard-batch]"),
    ],
)
def test_a_word_that_nothing_needs_is_told(line: str, word: str) -> None:
    outcome = said(line, word)
    assert unused(outcome) == [f"nothing here needs `# migrate: {word.removesuffix(' whatever')}`"]
    assert outcome.data != outcome.old


def test_a_word_that_only_repeats_what_is_known_is_told() -> None:
    outcome = said(MEAN, "loss=mean", STOPPING.replace(STOP, "if False:"))
    assert unused(outcome) == ["nothing here needs `# migrate: loss=mean`"]


@pytest.mark.parametrize(
    ("line", "word", "seen"),
    [
        (MEAN, "loss=sum", "a mean over the samples"),
        (MEAN.replace("mean", "sum"), "loss=mean", "a sum over the samples"),
        (MEAN, "rows=none", "a mean over the samples"),
        ("loss = (y - model(x)) ** 2", "loss=mean", "a value of each sample"),
        (
            "loss = tf.reduce_sum(model(x) * 2)\n        loss *= tf.shape(x)[0]",
            "rows=0",
            "made of the number of samples",
        ),
    ],
)
def test_a_word_against_what_is_seen_is_not_heeded(line: str, word: str, seen: str) -> None:
    script = LOOP.replace(LOSS, line)
    plain, outcome = run(script), run(script.replace(line, f"{line}  # migrate: {word}"))
    assert unused(outcome) == [f"`# migrate: {word}` is not heeded: this is {seen}"]
    assert trusted(outcome) == []
    assert outcome.text.replace(f"  # migrate: {word}", "") == plain.text


def test_of_two_words_on_one_loss_one_is_heeded() -> None:
    both = LOOP.replace(LOSS, f"{LOSS}  # migrate: loss=mean").replace(GRADIENTS, f"{GRADIENTS}  # migrate: loss=sum")
    outcome = run(both)
    assert trusted(outcome) == ["loss=mean"]
    assert unused(outcome) == ["`# migrate: loss=sum` is not heeded: this is a mean over the samples"]


OWN_BATCHES = """import numpy as np
import tensorflow as tf
import mystery

x, y = np.ones((21, 4), "float32"), np.ones((21, 1), "float32")
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.1)
for i in range(0, 21, 5):
    with tf.GradientTape() as tape:
        loss = mystery.loss(y[i : i + 5], model(x[i : i + 5]))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""


@pytest.mark.parametrize("function", ["mystery.loss", "mystery.losses.Loss(0.1)", "mystery.losses.Loss(0.1).of"])
def test_what_an_unknown_function_is_given_is_seen(function: str) -> None:
    outcome = run(OWN_BATCHES.replace("mystery.loss", function))
    assert outcome.refusals == []
    assert outcome.text.count("lockstep.all_gather(") == 2


def test_what_it_gives_by_itself_may_be_data() -> None:
    assert refused_by(run(OWN_BATCHES.replace("y[i : i + 5]", "mystery.batch(i)"))) == ["shard-dataset"]


@pytest.mark.parametrize("line", ["loss = mystery.loss(y[i : i + 5], model(x[i : i + 5]))", GRADIENTS])
def test_a_loss_by_the_users_word_changes_no_batch(line: str) -> None:
    outcome = said(line, "loss=mean", OWN_BATCHES)
    assert "all_gather" not in outcome.text
    assert "lockstep.all_reduce(gradients)" in outcome.text
    assert trusted(outcome) == ["loss=mean"]


@pytest.mark.parametrize("returned", ["mystery.loss(y, p)", "e", "tf.sqrt(mystery.loss(y, p))"])
def test_so_it_does_in_a_function_of_the_script(returned: str) -> None:
    own = f"def loss_of(y, p):\n    e = mystery.error(y, p)\n    return {returned}\n\n\nx, y ="
    script = OWN_BATCHES.replace("x, y =", own, 1).replace("loss = mystery.loss", "loss = loss_of")
    line = "loss = loss_of(y[i : i + 5], model(x[i : i + 5]))"
    assert run(script).text.count("lockstep.all_gather(") == 2
    outcome = said(line, "loss=mean", script)
    assert refused_by(outcome) == []
    assert outcome.text.count("lockstep.all_gather(") == 0
    assert trusted(outcome) == ["loss=mean"]


def test_a_loss_of_compile_that_is_seen_to_be_a_sum_is_no_mean() -> None:
    own = "def loss_of(y, p):\n    return tf.reduce_sum((y - p) ** 2)\n\n\nmodel ="
    outcome = said(
        'model.compile("sgd", loss=loss_of)',
        "loss=mean",
        FIT.replace("model =", own, 1).replace("helpers.loss", "loss_of"),
    )
    assert "lockstep.whole_batch(loss_of)" in outcome.text
    assert unused(outcome) == ["nothing here needs `# migrate: loss=mean`"]


# -- what is ignored -------------------------------------------------------------------------------------------------


def test_what_the_rest_does_without_can_be_ignored() -> None:
    outcome = said(SAVE, "ignore[write-once] each worker has a disk of its own")
    assert "is_chief" not in outcome.text
    assert "lockstep.broadcast(model)" in outcome.text
    (told,) = [f for f in outcome.remarks.trusted if f.rule == "write-once"]
    assert told.message.startswith("ignore[write-once] each worker has a disk of its own (")


@pytest.mark.parametrize("word", ["ignore[all-reduce-gradients]", "ignore[all-reduce-gradients,write-once] reason"])
def test_what_the_rest_needs_takes_the_file_back(word: str) -> None:
    outcome = said(GRADIENTS, word)
    assert outcome.data == outcome.old
    assert refused_by(outcome) == ["all-reduce-gradients"]
    assert unused(outcome) == []


@pytest.mark.parametrize("rule", ["broadcast-weights", "shard-dataset", "all-reduce-gradients", "average-metrics"])
def test_so_it_does_where_the_whole_file_ignores_it(rule: str) -> None:
    script = STOPPING.replace(STOP, "if loss < 0.1:")
    assert rule in {f.rule for f in run(script).findings}
    outcome = run(f"# migrate: file-ignore[{rule}] reason\n{script}")
    assert outcome.data == outcome.old
    assert set(refused_by(outcome)) == {rule}


def test_all_of_a_file_may_be_ignored() -> None:
    rules = sorted({f.rule for f in run(LOOP).findings})
    outcome = run(f"# migrate: file-ignore[{', '.join(rules)}] trained on one device for good\n{LOOP}")
    assert outcome.data == outcome.old
    assert outcome.refusals == []


def test_a_refusal_that_breaks_nothing_can_be_ignored() -> None:
    script = FIT.replace("helpers.loss", '"mse"').replace("tf.ones([64, 8]), tf.ones([64, 1])", "*helpers.arrays()")
    (refusal,) = run(script).refusals
    outcome = said(script.splitlines()[refusal.line - 1], f"ignore[{refusal.rule}] small data", script)
    assert outcome.is_changed
    assert outcome.refusals == []
    assert trusted(outcome)[0].startswith(f"ignore[{refusal.rule}] small data (")


def test_a_refusal_that_breaks_training_stays() -> None:
    script = FIT.replace("batch_size=32)", "batch_size=32)").replace('"sgd", loss=helpers.loss', "**helpers.settings")
    before = run(script)
    assert "wrap-optimizer" in refused_by(before)
    refusal = next(f for f in before.refusals if f.rule == "wrap-optimizer")
    outcome = said(script.splitlines()[refusal.line - 1], "ignore[wrap-optimizer] trust me", script)
    assert outcome.data == outcome.old
    assert "wrap-optimizer" in refused_by(outcome)
    assert all("to ignore it does not help" in f.advice for f in outcome.refusals if f.rule == "wrap-optimizer")


def test_an_ignored_mistake_of_a_port_is_no_refusal() -> None:
    """Nothing is written there, so nothing breaks."""
    port = """import tensorflow as tf
import horovod.tensorflow as hvd

hvd.init()
model = tf.keras.Sequential([tf.keras.layers.Input((8,)), tf.keras.layers.Dense(1)])
hvd.broadcast_variables(model.variables, root_rank=0)
optimizer = tf.keras.optimizers.SGD(0.1)
for x, y in tf.data.Dataset.from_tensor_slices((tf.ones([64, 8]), tf.ones([64, 1]))).batch(32).shard(hvd.size(), 0):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((y - model(x)) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""
    (refusal,) = [f for f in run(port).refusals if f.rule == "unreduced-gradients"]
    outcome = said(port.splitlines()[refusal.line - 1], "ignore[unreduced-gradients] each trains its own", port)
    assert [f for f in outcome.refusals if f.rule == "unreduced-gradients"] == []
    assert [f.rule for f in outcome.remarks.trusted] == ["unreduced-gradients"]


# -- the report ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("lss=mean", "is not understood: the words are loss=mean|sum|gather"),
        ("loss=median", "is not understood"),
        ("loss", "is not understood"),
        ("replicated=1", "is not understood"),
        ("rows=1", "is not understood"),
        ("ignore", "is not understood"),
        ("ignore[]", "is not understood"),
        ("ignore[shard-everything] reason", "there is no rule 'shard-everything'"),
    ],
)
def test_an_unknown_word_is_one_line(tmp_path: Path, word: str, told: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOOP.replace(LOSS, f"{LOSS}  # migrate: {word}"))
    before = script.read_bytes()
    result = migrate(script)
    assert result.exit_code == ERROR
    (line, _) = result.stderr.splitlines()
    assert line.startswith(f"error: {script}:9:43: '# migrate: {word.split('] ')[0]}")
    assert told in line
    assert script.read_bytes() == before


def test_a_word_counts_with_a_capital_and_a_sentence_does_not(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"# Migrate: to Keras 3\n{LOOP.replace(LOSS, f'{LOSS}  # Migrate: loss=mean')}")
    result = migrate(script)
    assert result.exit_code == NOTHING_LEFT
    assert "loss=mean" in result.output


def test_words_are_told_with_their_places_in_the_new_file(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    text = LOOP.replace(LOSS, f"{LOSS}  # migrate: loss=mean").replace(
        SAVE, f"    {STOP}  # migrate: replicated\n        break\n{SAVE}"
    )
    script.write_text(text.replace(SAVE, f"{SAVE}  # migrate: rows=none"))
    result = migrate(script)
    assert result.exit_code == NOTHING_LEFT
    lines = script.read_text().splitlines()
    for line in result.stderr.splitlines()[:3]:
        where, _, what = line.removeprefix(f"{script}:").partition(": ")
        number, column = map(int, where.split(":"))
        wanted = {"on trust: loss=mean": "loss = ", "on trust: replicated": "if helpers"}
        wanted["unused: nothing here needs `# migrate: rows=none`"] = "# migrate: rows=none"
        assert lines[number - 1][column - 1 :].startswith(wanted[what]), (line, lines[number - 1])
    assert migrate("-q", script).stderr == ""


def test_a_comment_is_told_of_where_the_training_is_gone(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os  # migrate: ignore[write-once] kept\n")
    result = migrate("--check", tmp_path)
    assert result.exit_code == NOTHING_LEFT
    assert f"{script}:1:12: unused: nothing here needs `# migrate: ignore[write-once]`" in result.stderr


def test_json_has_what_is_trusted_and_unused(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOOP.replace(LOSS, f"{LOSS}  # migrate: loss=mean").replace(SAVE, f"{SAVE}  # migrate: rows=0"))
    document = json.loads(migrate("--check", "--output-format", "json", script).stdout)
    (trusted_one,), (unused_one,) = document["trusted"], document["unused"]
    assert (trusted_one["rule"], trusted_one["message"]) == (None, "loss=mean")
    assert trusted_one["range"]["start"] == {"line": 9, "column": 9}
    assert unused_one["message"] == "nothing here needs `# migrate: rows=0`"
    lines = [
        json.loads(line) for line in migrate("--check", "--output-format", "json-lines", script).stdout.splitlines()
    ]
    assert {line["type"] for line in lines} >= {"finding", "trusted", "unused"}


def test_a_word_is_heeded_in_the_second_run_too(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOOP.replace(LOSS, f"{LOSS}  # migrate: loss=mean"))
    migrate(script)
    once = script.read_bytes()
    result = migrate("--check", script)
    assert (result.exit_code, script.read_bytes()) == (NOTHING_LEFT, once)
    assert "on trust: loss=mean" in result.stderr
    assert "unused" not in result.stderr


def test_ignored_refusals_do_not_count(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(LOOP.replace(GRADIENTS, f"{GRADIENTS}  # migrate: ignore[all-reduce-gradients]"))
    assert migrate(script).exit_code == SOMETHING_LEFT


# -- what is taken on trust by convention ----------------------------------------------------------------------------

FOREIGN = """import tensorflow as tf
import tensorflow_hub as hub
import segmentation

inputs = tf.keras.Input((8,))
inner = hub.KerasLayer("https://tfhub.dev/some/module/1")
model = tf.keras.Sequential([inner, segmentation.Block(3), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(tf.ones([64, 8]), tf.ones([64, 1]), batch_size=32)
outputs = segmentation.Block(3)(inputs)
graph = tf.keras.Model(inputs, tf.keras.layers.Dense(1)(outputs))
graph.compile("sgd", "mse")
graph.fit(tf.ones([64, 8]), tf.ones([64, 1]), batch_size=32)
"""


def test_layers_of_packages_are_told_as_taken_on_trust() -> None:
    outcome = run(FOREIGN)
    assert outcome.is_changed
    assert outcome.refusals == []
    assert [(f.line, f.message.split(" does ")[0]) for f in outcome.remarks.trusted] == [
        (6, "what tensorflow_hub.KerasLayer"),
        (9, "what a layer of this model"),
        (10, "what `segmentation.Block(3)`"),
    ]


def test_strict_refuses_what_would_be_taken_on_trust(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(FOREIGN)
    result = migrate("--strict", script)
    assert (result.exit_code, script.read_text()) == (SOMETHING_LEFT, FOREIGN)
    assert result.stdout.count("gather-batch: refused: what ") == 3
    assert "on trust" not in result.stderr
    plain = tmp_path / "plain.py"
    plain.write_text(LOOP)
    assert migrate("--strict", plain).exit_code == NOTHING_LEFT


def test_strict_takes_the_word_of_the_user(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    text = FOREIGN.split("outputs =")[0].replace("segmentation.Block(3), ", "")
    script.write_text(text.replace('module/1")\n', 'module/1")  # migrate: rows=0\n'))
    result = migrate("--strict", script)
    assert result.exit_code == NOTHING_LEFT
    assert "on trust: rows=0" in result.stderr


@pytest.mark.parametrize("shape", ["[-1, size]", "[-1, 1, 1, size]"])
def test_rows_of_unseen_size_are_told_as_taken_on_trust(shape: str) -> None:
    loss = f"tf.reduce_mean(tf.abs(tf.reduce_sum(tf.reshape(model(x) * x, {shape}), -1)))"
    script = LOOP.replace("helpers.loss(y, model(x))", loss).replace("model = ", "size = helpers.size()\nmodel = ")
    assert loss in script
    assert ["several samples into one row" in f.message for f in run(script).remarks.trusted] == [True]


FLAT = LOOP.replace("helpers.loss(y, model(x))", "tf.reduce_mean(tf.abs(model(x)[:, 0] - y))").replace(
    "tf.ones([64, 1])", "helpers.labels()"
)


def test_flat_predictions_beside_labels_of_unseen_axes_are_taken_on_trust() -> None:
    assert ["pairs all samples" in f.message for f in run(FLAT).remarks.trusted] == [True]


@pytest.mark.parametrize(("sizes", "gathers"), [("[None]", False), ("[None, 1]", True)])
def test_labels_of_which_the_script_says_how_many_axes_they_have_need_no_trust(sizes: str, gathers: bool) -> None:
    said = f"p = tf.ensure_shape(model(x)[:, 0], [None])\n        y = tf.ensure_shape(y, {sizes})\n        loss = "
    script = FLAT.replace("loss = ", said).replace("model(x)[:, 0] - y", "p - y")
    result = run(script)
    assert not result.remarks.trusted
    assert ("all_gather" in str(result.text)) is gathers


def test_loaded_models_are_taken_on_trust_and_ready_made_ones_are_not() -> None:
    script = FIT.replace("tf.keras.Sequential([tf.keras.layers.Dense(1)])", "{}").replace("helpers.loss", '"mse"')
    loaded = run(script.format('tf.keras.models.load_model("m.keras")'))
    assert [f.message.split(" does ")[0] for f in loaded.remarks.trusted] == ["what keras.models.load_model"]
    ready = run(script.format("tf.keras.applications.MobileNetV2(weights=None)"))
    assert ready.remarks.trusted == ()
    assert loaded.is_changed
    assert ready.is_changed


ENDS = """import tensorflow as tf
import segmentation

base = tf.keras.models.load_model("m.keras")
model = tf.keras.Model({inputs}, tf.keras.layers.Dense(1)({outputs}))
model.compile("sgd", "mse")
model.fit(tf.ones([64, 8]), tf.ones([64, 1]), batch_size=32)
"""


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ("base.input", "base.output"),
        ("base.inputs", "base.outputs[0]"),
        ("base.layers[0].input", "base.layers[-2].output"),
        ("base.layers[0].input", 'base.get_layer("features").output'),
        ("tf.keras.models.clone_model(base).input", "tf.keras.models.clone_model(base).output"),
    ],
)
def test_the_ends_of_a_loaded_model_are_taken_on_trust(inputs: str, outputs: str) -> None:
    script = ENDS.format(inputs=inputs, outputs=outputs)
    outcome = run(script)
    assert [(f.line, f.message.split(".load_model")[0][-12:]) for f in outcome.remarks.trusted] == [(4, "keras.models")]
    assert outcome.is_changed
    assert trusted(said('load_model("m.keras")', "rows=0", script)) == ["rows=0"]
    ready = script.replace('models.load_model("m.keras")', "applications.MobileNetV2(weights=None)")
    assert trusted(run(ready)) == []


@pytest.mark.parametrize("layer", ["segmentation.Block(3)", "segmentation.load().block(3)"])
def test_a_layer_of_a_package_works_as_the_user_says_where_it_is_made(layer: str) -> None:
    script = ENDS.replace("base =", f"block = {layer}\nbase =").format(inputs="inputs", outputs="block(inputs)")
    script = script.replace('base = tf.keras.models.load_model("m.keras")', "inputs = tf.keras.Input((8,))")
    assert trusted(run(script))[0].startswith("what `block` does")
    outcome = said(f"block = {layer}", "rows=0", script)
    assert trusted(outcome) == ["rows=0"]
    assert unused(outcome) == []


def test_so_does_one_that_a_model_of_the_script_calls() -> None:
    script = LOOP.replace("model(x)", "model(block(x))").replace("model =", "block = helpers.Block()\nmodel =")
    script = script.replace("helpers.loss(y, model(block(x)))", "tf.reduce_mean((y - model(block(x))) ** 2)")
    assert "all_gather" in run(script).text
    outcome = said("block = helpers.Block()", "rows=0", script)
    assert "all_gather" not in outcome.text
    assert trusted(outcome) == ["rows=0"]


def test_samples_whose_size_is_not_seen_are_taken_to_stay_apart() -> None:
    rows = "x = tf.reshape(x, (-1, 4))"
    loop = LOOP.replace(LOSS, f"{rows}\n        {MEAN}")
    unseen = loop.replace("(tf.ones([64, 8]), tf.ones([64, 1]))", "helpers.arrays()")
    assert trusted(run(loop)) == []
    assert trusted(run(unseen))[0].startswith("how many values each sample has is not seen")
    assert trusted(said(rows, "rows=0", unseen)) == ["rows=0"]
