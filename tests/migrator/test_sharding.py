"""Where a training dataset is cut: in its pipeline, after each of its batches, or not at all."""

from __future__ import annotations

import pytest
from script_nodes import Script

from migrator.edits import Refusal
from migrator.engine import migrate
from migrator.facts.data.pipeline_cuts import CutPipeline
from migrator.facts.data.sharding import CutBatches
from migrator.registry import choose

MODEL = """
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
"""
SOURCE = "tf.data.Dataset.from_tensor_slices((x, y))"


def script(pipeline: str, fit: str = "model.fit(ds)", before: str = "") -> Script:
    return Script(f"import tensorflow as tf\nimport numpy as np\nB = 32\n{before}{pipeline}\n{MODEL}{fit}\n")


def only_plan(parsed: Script) -> CutPipeline | CutBatches | Refusal:
    (plan,) = parsed.facts.sharding.plans
    return plan


@pytest.mark.parametrize(
    ("steps", "before_the_cut"),
    [
        (".batch(B)", ""),
        (".map(f).batch(B)", ""),
        (".shuffle(9).batch(B)", ""),
        (".map(f).shuffle(9).batch(B)", ""),
        (".shuffle(9).map(f).batch(B).prefetch(1)", ""),
        (".cache().shuffle(9).batch(B)", ""),
        (".shuffle(9).repeat().batch(B)", ""),
        (".repeat(-1).shuffle(9).batch(B)", ""),
        (".repeat(3).shuffle(9).batch(B)", ".repeat(3)"),
        (".cache().repeat(count=B).map(f).shuffle(9).batch(B)", ".cache().repeat(count=B)"),
        # What selects elements sees them all.
        (".take(5).batch(B)", ".take(5)"),
        (".skip(5).shuffle(9).batch(B)", ".skip(5)"),
        (".filter(f).map(g).shuffle(9).batch(B)", ".filter(f)"),
        (".map(g).filter(f).batch(B)", ".map(g).filter(f)"),
        (".take(5).cache().shuffle(9).batch(B)", ".take(5)"),
        (".interleave(f).shuffle(9).batch(B)", ".interleave(f)"),
        (".flat_map(f).batch(B)", ".flat_map(f)"),
        (".concatenate(other).shuffle(9).batch(B)", ".concatenate(other)"),
        (".enumerate().map(f).batch(B)", ".enumerate()"),
        (".window(5).flat_map(f).batch(B)", ".window(5).flat_map(f)"),
        # An order that all workers share makes each global batch that of one device.
        (".shuffle(9, seed=1).batch(B)", ".shuffle(9, seed=1)"),
        (".shuffle(9, 1).batch(B)", ".shuffle(9, 1)"),
        (".shuffle(9, seed=1).map(f).batch(B)", ".shuffle(9, seed=1)"),
        (".shuffle(9, seed=1).repeat(2).batch(B)", ".shuffle(9, seed=1).repeat(2)"),
        (".repeat(2).batch(B)", ".repeat(2)"),
    ],
)
def test_place_of_the_cut(steps: str, before_the_cut: str) -> None:
    parsed = script(f"ds = {SOURCE}{steps}")
    plan = only_plan(parsed)
    assert isinstance(plan, CutPipeline)
    assert parsed.facts.source(plan.prefix) == SOURCE + before_the_cut
    assert parsed.facts.source(plan.batch.value) == "B"


def test_shares_are_not_repeated_a_number_of_times() -> None:
    """They are made even in each pass, and would make more steps than one process in the end."""
    assert isinstance(only_plan(script(f"ds = {SOURCE}.shuffle(9).repeat(3).batch(B)")), CutBatches)


FITS = "for epoch in range(9):\n    model.fit({}, steps_per_epoch=5)"


@pytest.mark.parametrize(
    ("steps", "fit", "is_told"),
    [
        (".shuffle(9, seed=1).batch(B).repeat()", FITS.format("ds"), True),
        (".shuffle(9, seed=1).repeat(-1).batch(B)", FITS.format("ds.take(5)"), True),
        (".shuffle(9, seed=1).batch(B).repeat()", "model.fit(ds, epochs=9, steps_per_epoch=5)", False),
        (".shuffle(9, seed=1).batch(B)", FITS.format("ds"), False),
        (".shuffle(9, seed=1).batch(B).repeat(2)", FITS.format("ds"), False),
        (".repeat().shuffle(9, seed=1).batch(B)", FITS.format("ds"), False),
        (".shuffle(9, 1, reshuffle_each_iteration=False).batch(B).repeat()", FITS.format("ds"), False),
        (".shuffle(9).batch(B).repeat()", FITS.format("ds"), False),  # each worker shuffles its own share
    ],
)
def test_what_is_read_ahead_into_another_order_is_told(steps: str, fit: str, is_told: bool) -> None:
    """A reading that is given up has drawn the next orders already, as many as there was time for."""
    parsed = script(f"ds = {SOURCE}{steps}", fit)
    assert bool(list(parsed.facts.sharding.shuffled_by_time)) is is_told


def test_a_dataset_that_each_turn_makes_anew_draws_alike() -> None:
    made = f"for epoch in range(9):\n    ds = {SOURCE}.shuffle(9, seed=1).batch(B).repeat()\n"
    parsed = script("", f"{made}    model.fit(ds, steps_per_epoch=5)")
    assert not list(parsed.facts.sharding.shuffled_by_time)


@pytest.mark.parametrize(
    ("shuffles", "seeds"),
    [(".shuffle(9)", "tf.random.set_seed(1)\n"), (".shuffle(9)", "tf.keras.utils.set_random_seed(1)\n")],
)
def test_global_seed_makes_shuffles_reproducible(shuffles: str, seeds: str) -> None:
    parsed = script(f"ds = {SOURCE}{shuffles}.batch(B)", before=seeds)
    plan = only_plan(parsed)
    assert isinstance(plan, CutPipeline)
    assert parsed.facts.source(plan.prefix) == SOURCE + shuffles


@pytest.mark.parametrize(
    "batch",
    ["B", "B, drop_remainder=True", "B, True", "batch_size=B, drop_remainder=False", "B, drop_remainder=len(DROPS)"],
)
def test_pipeline_is_cut_whatever_becomes_of_the_last_batch(batch: str) -> None:
    assert isinstance(only_plan(script(f"ds = {SOURCE}.batch({batch})")), CutPipeline)


@pytest.mark.parametrize(
    "statements",
    [
        # Batches that come from elsewhere.
        "ds = tf.keras.utils.image_dataset_from_directory('d')",
        "ds = tf.data.experimental.make_csv_dataset('f.csv', 32, num_epochs=1)",
        # One function for the data of training and of evaluation.
        f"def make(x, y):\n    return {SOURCE}.batch(B)\nds, test = make(x, y), make(u, v)",
        # Both read one dataset.
        f"ds = {SOURCE}.batch(B)\nprint(model_of_before.evaluate(ds))",
        # Whether the last batch is dropped is decided elsewhere.
    ],
)
def test_batches_are_cut_where_the_pipeline_cannot_be(statements: str) -> None:
    assert isinstance(only_plan(script(statements)), CutBatches)


@pytest.mark.parametrize(
    ("statements", "reason"),
    [
        (f"ds = {SOURCE}.batch(B).unbatch()", "no global batch"),
        (f"ds = {SOURCE}.shard(4, int(input())).batch(B)", "Dataset.shard"),
    ],
)
def test_refused_with_the_reason(statements: str, reason: str) -> None:
    plan = only_plan(script(statements))
    assert isinstance(plan, Refusal)
    assert reason in plan.reason


@pytest.mark.parametrize("steps", [".batch(2).batch(3)", ""])
def test_what_fit_reads_holds_batches(steps: str) -> None:
    plan = only_plan(script(f"ds = {SOURCE}{steps}"))
    assert isinstance(plan, CutBatches)


@pytest.mark.parametrize(
    "statements",
    [
        f"ds, b = lockstep.shard_and_rebatch_dataset({SOURCE}, B)\nds = ds.batch(b)",
        f"ds = lockstep.shard_batches({SOURCE}.batch(B))",
        f"ds = {SOURCE}.batch(B).apply(lockstep.shard_batches)",
        f"def make():\n    ds, b = lockstep.shard_and_rebatch_dataset({SOURCE}, B)\n"
        "    return ds.batch(b)\nds = make()",
    ],
)
def test_sharded_dataset_is_left_alone(statements: str) -> None:
    assert script(f"import lockstep\n{statements}").facts.sharding.plans == []


@pytest.mark.parametrize(
    "fit",
    [
        "model.evaluate(ds)",
        "model.predict(ds)",
        "for x, y in ds:\n    print(model(x))",
        "for x, y in ds:\n    metric.update_state(y, model(x))",
    ],
)
def test_dataset_that_is_only_evaluated_is_left_alone(fit: str) -> None:
    assert script(f"ds = {SOURCE}.batch(B)", fit).facts.sharding.plans == []


def test_validation_data_stay_whole() -> None:
    parsed = script(
        f"ds = {SOURCE}.batch(B)\nval = tf.data.Dataset.from_tensor_slices((u, v)).batch(B)",
        "model.fit(ds, validation_data=val)",
    )
    plan = only_plan(parsed)
    assert isinstance(plan, CutPipeline)
    assert parsed.facts.source(plan.prefix) == SOURCE


STEP = """
optimizer = tf.keras.optimizers.SGD(0.1)
def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x) - y))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""


@pytest.mark.parametrize(
    "loop",
    [
        "for x, y in ds:\n    step(x, y)",
        "for i, (x, y) in enumerate(ds):\n    step(x, y)",
        "for x, y in iter(ds):\n    step(x, y)",
        "for x, y in tqdm(ds, total=3):\n    step(x, y)",
        "for i, (x, y) in enumerate(tqdm(ds)):\n    step(x, y)",
        "for epoch in range(3):\n    for x, y in ds:\n        step(x, y)",
        "for x, y in ds.take(10):\n    step(x, y)",
        "for batch in ds:\n    x, y = batch\n    step(x, y)",
        "it = iter(ds)\nfor i in range(9):\n    x, y = next(it)\n    step(x, y)",
        "it = iter(ds)\nwhile True:\n    step(*next(it))",
        "def epoch(data):\n    for x, y in data:\n        step(x, y)\nepoch(ds)",
        "def epoch():\n    for x, y in ds:\n        step(x, y)\nepoch()",
        "class T:\n    def run(self, data):\n        for x, y in data:\n            self.one(x, y)\n"
        "    def one(self, x, y):\n        step(x, y)\nT().run(ds)",
    ],
)
def test_dataset_of_a_loop_is_found(loop: str) -> None:
    parsed = script(f"from tqdm import tqdm\nds = {SOURCE}.batch(B)", STEP + loop)
    plan = only_plan(parsed)
    if isinstance(plan, CutPipeline):
        assert parsed.facts.source(plan.prefix) == SOURCE
    else:
        assert isinstance(plan, CutBatches)
        assert "ds" in parsed.facts.source(plan.dataset) or parsed.facts.source(plan.dataset) == "data"


@pytest.mark.parametrize(
    "loop",
    [
        "for i in range(0, 100, B):\n    step(x[i], y[i])",
        "for i in range(0, 100, B):\n    step(x[0, i : i + B], y[0, i : i + B])",
        "for i in range(100):\n    pick = np.random.randint(0, 100)\n    step(x[pick], y[pick])",
        "for x, y in zip(xs, ys):\n    step(tf.expand_dims(x, 0), y)",
    ],
)
def test_loop_without_batches_is_trained_whole(loop: str) -> None:
    sharding = script("x = y = np.zeros([100, 1])", STEP + loop).facts.sharding
    assert not sharding.plans
    assert len(sharding.trained_whole) == 1


def test_loop_without_batches_is_refused_where_workers_may_differ() -> None:
    loop = "import prices\nx = prices.load()\nfor i in range(100):\n    step(x[i], y[i])\n"
    facts = script("y = np.zeros([100, 1])", STEP + loop).facts
    (plan,) = facts.sharding.plans
    assert isinstance(plan, Refusal)
    assert "no batches are surely seen" in plan.reason
    assert not facts.sharding.trained_whole


@pytest.mark.parametrize(
    ("loss", "is_whole"),
    [
        ("model(tf.sort(x, axis=0)) - tf.sort(y, axis=0)", True),
        ("tf.sort(model(x), axis=0) - tf.sort(y, axis=0)", False),  # the forward pass is shared out
        ("tf.sort(tf.map_fn(lambda row: row * w, x), axis=0) - tf.sort(y, axis=0)", False),
        ("tf.sort(w * x, axis=0) - tf.sort(y, axis=0)", False),
    ],
)
def test_what_is_put_together_before_anything_works_on_it_is_not_cut(loss: str, is_whole: bool) -> None:
    text = (
        "import tensorflow as tf\n"
        "model, w = tf.keras.Sequential([tf.keras.layers.Dense(1)]), tf.Variable(1.0)\n"
        "optimizer, weights = tf.keras.optimizers.SGD(0.1), [*model.trainable_variables, w]\n"
        "for x, y in tf.data.Dataset.from_tensor_slices((tf.ones([24, 4]), tf.ones([24, 1]))).batch(8):\n"
        "    with tf.GradientTape() as tape:\n"
        f"        loss = tf.reduce_mean(({loss}) ** 2)\n"
        "    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))\n"
    )
    outcome = migrate(text.encode(), choose())
    assert not outcome.refusals
    assert outcome.trains_whole == is_whole
    assert ("all_gather" in outcome.text) != is_whole
    assert any("trains on all of the data" in told.message for told in outcome.remarks.trusted) == is_whole
