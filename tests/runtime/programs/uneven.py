"""Data that do not split evenly: what the workers train equals what one process trains, beside them, on all data."""

from __future__ import annotations

import gc
import itertools
from typing import Any, Callable

import numpy as np
import tensorflow as tf
from checking import assert_equal_on_all_ranks, of_all_ranks, run_checks, seed_everything

import lockstep
from lockstep.data import row_weights

keras = tf.keras
layers = keras.layers
RANK, SIZE = lockstep.rank(), lockstep.size()
BATCH = 4 * SIZE
LEGACY = getattr(keras, "__version__", "2").startswith("2")
# Samples of the last batch: fewer than workers (one, or all but one), no multiple of them, all but one. Three workers
# are those of every test run: there the essentials are enough.
LAST = [1, SIZE + 1] if SIZE == 3 else sorted({1, SIZE - 1, SIZE + 1, BATCH - 1})
_generator = np.random.RandomState(7)
X = _generator.standard_normal([4 * BATCH, 5]).astype("float32")
Y = (X @ _generator.standard_normal([5, 1])).astype("float32")
WORDS = _generator.randint(0, 12, [4 * BATCH, 3])


def new_model() -> Any:
    seed_everything(3)
    return keras.Sequential(
        [
            layers.Input((5,)),
            layers.Dense(8, activation="tanh", kernel_regularizer=keras.regularizers.L2(0.01)),
            layers.Dense(1),
        ]
    )


def new_probability() -> Any:
    seed_everything(3)
    return keras.Sequential([layers.Input((5,)), layers.Dense(1, activation="sigmoid")])


def new_word_model() -> Any:
    seed_everything(3)
    return keras.Sequential(
        [layers.Input((3,), dtype="int32"), layers.Embedding(12, 4), layers.Flatten(), layers.Dense(1)]
    )


def assert_same_weights(together: Any, alone: Any, case: Any) -> None:
    for mine, wanted in zip(together.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(mine, wanted, atol=1e-6, err_msg=str(case))
    assert_equal_on_all_ranks(together.get_weights())


def sgd() -> Any:
    return keras.optimizers.SGD(0.05, momentum=0.9)


def batches(count: int) -> tf.data.Dataset:
    seed_everything(5)
    return tf.data.Dataset.from_tensor_slices((X[:count], Y[:count])).shuffle(64, seed=5).repeat(2).batch(BATCH)


def loop(dataset: Any, reduce_loss: Callable[[Any], Any], reduction: str | None, penalty: bool = True) -> Any:
    model, optimizer = new_model(), sgd()

    @tf.function
    def step(x: tf.Tensor, y: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = reduce_loss((model(x, training=True) - y) ** 2)
            if penalty:
                loss += tf.add_n(model.losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        if reduction is not None:
            gradients = lockstep.all_reduce(gradients, reduction)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    for x, y in dataset:
        step(x, y)
    return model


def check_custom_loops_with_a_mean() -> None:
    for last in LAST:
        alone = loop(batches(BATCH + last), tf.reduce_mean, None)
        share = lockstep.shard_batches(batches(BATCH + last))
        assert_same_weights(loop(share, tf.reduce_mean, "mean"), alone, last)


def check_custom_loops_with_a_sum() -> None:
    def over_batch_size(losses: Any) -> Any:
        return tf.reduce_sum(losses) / BATCH

    for last in LAST:
        alone = loop(batches(BATCH + last), over_batch_size, None, penalty=False)
        share = lockstep.shard_batches(batches(BATCH + last), loss="sum")
        assert_same_weights(loop(share, over_batch_size, "sum", penalty=False), alone, last)


def check_fit_on_batches() -> None:
    for last in LAST:
        alone, together = new_model(), new_model()
        alone.compile(sgd(), "mse")
        together.compile(lockstep.distributed_optimizer(sgd()), "mse")
        alone.fit(batches(BATCH + last), epochs=2, verbose=0)
        share = lockstep.shard_batches(batches(BATCH + last))
        together.fit(share, epochs=2, verbose=0, callbacks=lockstep.callbacks())
        assert_same_weights(together, alone, last)


def check_fit_on_lists_of_numbers() -> None:
    """Keras 2 makes arrays of them, of which each row counts alike, however few the last batch has on a worker."""
    for last in LAST if LEGACY else ():
        alone, together = new_model(), new_model()
        alone.compile(sgd(), "mse")
        together.compile(lockstep.distributed_optimizer(sgd()), "mse")
        x, y = X[: BATCH + last].tolist(), Y[: BATCH + last].tolist()
        alone.fit(x, y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0)
        cut = lockstep.shard_arrays(x, y, batch_size=BATCH)
        size = lockstep.local_batch_size(BATCH)
        together.fit(*cut, batch_size=size, epochs=2, shuffle=False, verbose=0, callbacks=lockstep.callbacks())
        assert_same_weights(together, alone, last)


def check_logs_of_fit_on_batches() -> None:
    """Callbacks decide by them: each row counts once in an epoch's, wherever its batch ends."""
    kinds = ("AUC", "MeanSquaredError", "TruePositives")

    def cut(batch: int, count: int, **options: Any) -> Any:
        return tf.data.Dataset.from_tensor_slices((X[:count], Y[:count] > 0)).batch(batch, **options)

    def assert_same_logs(data: Any, share: Any) -> None:
        alone, together = new_probability(), new_probability()
        alone.compile(sgd(), "mse", metrics=named(kinds))
        together.compile(lockstep.distributed_optimizer(sgd()), "mse", metrics=named(kinds))
        wanted = alone.fit(data, epochs=2, verbose=0).history
        found = together.fit(share, epochs=2, verbose=0, callbacks=lockstep.callbacks()).history
        assert_same_weights(together, alone, data)
        for name in wanted:
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5, err_msg=f"{name} {data}")

    for batch, count in ((BATCH, BATCH + 1), (BATCH, BATCH + SIZE + 1), (BATCH - 1, 2 * BATCH + 2)):
        data = cut(batch, count).map(lambda x, y: (x, y))  # nothing tells how many rows its last batch has
        share = lockstep.shard_batches(data).prefetch(1)
        assert_same_logs(data, share)
        rows = [len(x) for x, _ in share]
        assert len(set(of_all_ranks(rows[-1]))) == 1, "in a loop, which weighs nothing, shards are equal"
    # All batches are as large, and several workers have the same rows.
    for data in (cut(BATCH - 1, 2 * BATCH - 2), cut(BATCH - 1, 2 * BATCH, drop_remainder=True)):
        assert_same_logs(data, lockstep.shard_batches(data))


def fit_on_arrays(
    count: int,
    new: Callable[[], Any] = new_model,
    x: Any = X,
    optimizer: Any = sgd,
    epochs: int = 2,
    y: Any = Y,
    **options: Any,
) -> tuple[Any, Any, Any]:
    of_compile = ("run_eagerly", "steps_per_execution", "loss", "metrics")
    compile_options = {name: options.pop(name) for name in of_compile if name in options}
    split = options.get("validation_split", 0.0)
    weights = options.pop("sample_weight", None)
    options = {"epochs": epochs, "shuffle": False, "verbose": 0, **options}
    alone, together = new(), new()
    if not isinstance(alone, OwnStep):
        compile_options = {"loss": "mse", "metrics": ["mae"], **compile_options}
    metrics = compile_options.pop("metrics", None)
    new_metrics = metrics if callable(metrics) else lambda: metrics
    alone.compile(optimizer(), metrics=new_metrics(), **compile_options)
    together.compile(lockstep.distributed_optimizer(optimizer()), metrics=new_metrics(), **compile_options)
    given = (
        x[:count],
        tf.nest.map_structure(lambda array: array[:count], y),
        None if weights is None else weights[:count],
    )
    wanted = alone.fit(*given[:2], batch_size=BATCH, sample_weight=given[2], **options)
    *share, weight = lockstep.shard_arrays(*given, validation_split=split, batch_size=BATCH)
    local = lockstep.local_batch_size(BATCH)
    history = together.fit(*share, batch_size=local, sample_weight=weight, callbacks=lockstep.callbacks(), **options)
    assert_same_weights(together, alone, (count, options, compile_options))
    return together, history.history, wanted.history


def check_fit_on_arrays() -> None:
    for last in LAST:
        _, logs, wanted = fit_on_arrays(BATCH + last)
        # Keras 2 tells what the last step has returned, of a row that fills its batch, too.
        is_exact = last >= SIZE or not LEGACY
        np.testing.assert_allclose(logs["mae"], wanted["mae"], rtol=1e-5 if is_exact else 0.2)
    fit_on_arrays(SIZE + 1, sample_weight=np.linspace(0.5, 2.0, SIZE + 1))
    fit_on_arrays(1)
    assert any(shard.counting is not None for shard in row_weights._shards)


def named(kinds: tuple[str, ...]) -> list[Any]:
    return [getattr(keras.metrics, kind)(name=kind) for kind in kinds]


def check_metrics_that_are_no_means() -> None:
    """Areas, ratios and counts of all samples, in training and in validation, which resets what training has seen."""
    kinds = ("AUC", "Precision", "TruePositives", "RootMeanSquaredError", "MeanSquaredError")
    for count in (4 * BATCH, BATCH + SIZE - 1):
        for split in (0.0, 0.5) if count == 4 * BATCH else (0.0,):
            given = {"y": (Y > 0).astype("float32"), "loss": "mse", "validation_split": split}
            _, logs, wanted = fit_on_arrays(count, new_probability, metrics=lambda: named(kinds), **given)
            assert {name for name in wanted if name.startswith("val_")} or not split
            for mine, theirs in zip(logs.values(), wanted.values()):
                np.testing.assert_allclose(mine, theirs, rtol=1e-4, err_msg=str((logs, wanted)))


def check_losses_of_several_outputs() -> None:
    """Keras 3 averages them over batches where it traces the step, and over rows where not, or where all batches of a
    rank are full."""

    def new() -> Any:
        seed_everything(3)
        inputs = layers.Input((5,))
        return keras.Model(inputs, [layers.Dense(1, name=name)(inputs) for name in ("a", "b")])

    counts = (BATCH + SIZE - 1, 3 * BATCH - 1)  # a rank gets no row of the last batch; one a full batch
    for count, options in itertools.product(counts, ({}, {"run_eagerly": True})):
        _, logs, wanted = fit_on_arrays(count, new, y=[Y, 2 * Y], loss=["mse", "mae"], metrics=None, **options)
        for name in [name for name in wanted if not LEGACY]:
            np.testing.assert_allclose(logs[name], wanted[name], rtol=1e-5, err_msg=name)


def check_fit_on_arrays_in_all_ways_to_run_a_step() -> None:
    for options in ({"run_eagerly": True}, {"steps_per_execution": 2}):
        fit_on_arrays(2 * BATCH + SIZE + 1, epochs=1, **options)


def check_fit_on_arrays_with_sparse_gradients_and_clipping() -> None:
    fit_on_arrays(BATCH + SIZE + 1, new_word_model, WORDS, lambda: keras.optimizers.Adagrad(0.05))
    fit_on_arrays(BATCH + SIZE + 1, optimizer=lambda: keras.optimizers.SGD(0.1, global_clipnorm=0.1))


def check_fit_on_arrays_with_a_validation_split() -> None:
    """Each validates on all that is split off, also where that does not come out even."""
    options = {"y": (Y > 0).astype("float32"), "loss": "mse", "metrics": lambda: named(("AUC", "TruePositives"))}
    for count in (3 * BATCH + 1, 4 * BATCH - 1):
        for weights in (None, np.linspace(0.5, 2.0, count)):
            given = {"validation_split": 0.25, "sample_weight": weights}
            _, logs, wanted = fit_on_arrays(count, new_probability, **options, **given)
            assert "val_TruePositives" in wanted
            for name in [name for name in wanted if name.startswith("val_")]:
                np.testing.assert_allclose(logs[name], wanted[name], rtol=1e-5, err_msg=name)
    rest = slice(2 * BATCH, 2 * BATCH + 5)
    _, logs, wanted = fit_on_arrays(2 * BATCH, new_probability, **options, validation_data=(X[rest], Y[rest] > 0))
    np.testing.assert_allclose(logs["val_TruePositives"], wanted["val_TruePositives"])


def check_validation_on_what_was_made_of_the_shard() -> None:
    """Keras splits each rank's array, and what these tell is put together."""
    alone, together = new_model(), new_model()
    alone.compile(sgd(), "mse")
    together.compile(lockstep.distributed_optimizer(sgd()), "mse")
    options = {"epochs": 2, "shuffle": False, "verbose": 0, "validation_split": 0.5}
    wanted = alone.fit(X + 1.0, Y, batch_size=BATCH, **options).history
    x, y = lockstep.shard_arrays(X, Y, batch_size=BATCH, validation_split=0.5)
    local = lockstep.local_batch_size(BATCH)
    found = together.fit(x + 1.0, y, batch_size=local, callbacks=lockstep.callbacks(), **options).history
    assert_same_weights(together, alone, "made of the shard")
    np.testing.assert_allclose(found["val_loss"], wanted["val_loss"], rtol=1e-5)
    assert_equal_on_all_ranks(found["val_loss"])


def check_a_second_fit_of_a_model_that_was_traced_without_weights() -> None:
    alone, together = new_model(), new_model()
    alone.compile(sgd(), "mse")
    together.compile(lockstep.distributed_optimizer(sgd()), "mse")
    options = {"shuffle": False, "verbose": 0}
    row_weights._shards.clear()
    for count in (2 * BATCH, BATCH + SIZE + 1, BATCH, 2 * SIZE + 1):
        alone.fit(X[:count], Y[:count], batch_size=BATCH, **options)
        share = lockstep.shard_arrays(X[:count], Y[:count], batch_size=BATCH)
        together.fit(*share, batch_size=BATCH // SIZE, callbacks=lockstep.callbacks(), **options)
        assert_same_weights(together, alone, count)
        assert "train_step" not in vars(together)


def check_even_arrays_as_long_as_uneven_ones_before() -> None:
    rows = BATCH // SIZE + 1
    fit_on_arrays(BATCH + 1)  # the last batch is filled up: each rank has so many rows
    fit_on_arrays(SIZE * rows)


class OwnStep(keras.Model):  # type: ignore[misc, name-defined]
    """A model with a train_step of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)

    def train_step(self, data: Any) -> dict[str, Any]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x, training=True) - y) ** 2)
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_variables), self.trainable_variables))
        return {"loss": loss}


def check_fit_on_arrays_with_a_train_step_of_ones_own() -> None:
    def new() -> Any:
        seed_everything(3)
        model = OwnStep()
        model(X[:1])
        return model

    fit_on_arrays(BATCH + SIZE + 1, new)
    fit_on_arrays(BATCH + 1, new)


class Rows(layers.Layer):  # type: ignore[misc, name-defined]
    """Notes the rows of every batch that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []

    def call(self, inputs: Any) -> Any:
        if tf.executing_eagerly():
            self.seen += inputs.numpy()[:, 0].tolist()
        return inputs


def check_shuffled_arrays_are_seen_once_an_epoch() -> None:
    numbers = np.arange(4 * BATCH, dtype="float32").reshape(-1, 1)
    for last in (1, SIZE - 1, SIZE + 1, BATCH - 1):
        rows = Rows()
        model = keras.Sequential([layers.Input((1,)), rows, layers.Dense(1)])
        model.compile(lockstep.distributed_optimizer("sgd"), "mse", run_eagerly=True)
        count = 2 * BATCH + last
        share = lockstep.shard_arrays(numbers[:count], batch_size=BATCH)
        rows.seen.clear()
        model.fit(share, share, batch_size=BATCH // SIZE, epochs=1, verbose=0, callbacks=lockstep.callbacks())
        drawn = [number for one in of_all_ranks(rows.seen) for number in one]
        assert set(drawn) == set(range(count))
        assert len(drawn) == count if last >= SIZE else len(drawn) < count + SIZE
        assert of_all_ranks(int(np.asarray(model.optimizer.iterations))) == [3] * SIZE


def check_even_shares_cost_nothing() -> None:
    row_weights._shards.clear()
    lockstep.shard_arrays(X[: 2 * BATCH + SIZE], batch_size=BATCH)
    assert all(shard.counting is None for shard in row_weights._shards)


def check_sequences_and_generators_of_any_size() -> None:
    base = getattr(keras.utils, "PyDataset", keras.utils.Sequence)

    class Batches(base):  # type: ignore[misc, valid-type]
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> Any:
            rows = slice(index * BATCH, min((index + 1) * BATCH, BATCH + SIZE + 1))
            return X[rows], Y[rows]

    def generate() -> Any:
        while True:
            for k in range(2):
                yield Batches()[k]

    for make, steps in ((Batches, None), (generate, 4)):
        alone, together = new_model(), new_model()
        alone.compile(sgd(), "mse")
        together.compile(lockstep.distributed_optimizer(sgd()), "mse")
        options = {"epochs": 2, "shuffle": False, "verbose": 0, "steps_per_epoch": steps}
        alone.fit(make(), **options)
        together.fit(lockstep.shard_batches(make()), callbacks=lockstep.callbacks(), **options)
        assert_same_weights(together, alone, make)


def check_statistics_of_batch_normalisation() -> None:
    """They are equal on all ranks and, where the weights stay, those of one process; also in loops by hand."""

    def new() -> Any:
        seed_everything(3)
        model = keras.Sequential([layers.Input((5,)), layers.Dense(4), layers.BatchNormalization(), layers.Dense(1)])
        lockstep.broadcast(model)
        return model

    def statistics(model: Any) -> list[Any]:
        layer = model.layers[1]
        return [np.asarray(layer.moving_mean), np.asarray(layer.moving_variance)]

    alone, together = new(), new()
    x = X[: 2 * BATCH]
    for k in range(2):
        alone(x[k * BATCH : (k + 1) * BATCH], training=True)
    share = lockstep.shard_batches(tf.data.Dataset.from_tensor_slices((x, Y[: 2 * BATCH])).batch(BATCH))
    together.compile(lockstep.distributed_optimizer(keras.optimizers.SGD(0.0)), "mse")
    together.fit(share, verbose=0, callbacks=lockstep.callbacks())
    by_hand = new()

    @tf.function
    def step(bx: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(by_hand(bx, training=True))
        return lockstep.all_reduce(tape.gradient(loss, by_hand.trainable_variables))

    for bx, _ in share:
        step(bx)
    initial = statistics(new())
    for model in (together, by_hand):
        mean, variance = statistics(model)
        assert_equal_on_all_ranks([mean, variance])
        np.testing.assert_allclose(mean, statistics(alone)[0], atol=1e-6)
        assert np.abs(mean - initial[0]).max() > 1e-3
        # Without the part that lies between the ranks' means.
        assert (variance <= statistics(alone)[1] + 1e-6).all()
        assert np.abs(variance - initial[1]).max() > 1e-3
    frozen = new()
    frozen.layers[1].trainable = False
    frozen.layers[1].moving_mean.assign([RANK + 1.0] * 4)
    lockstep.all_reduce(tf.constant(1.0))
    assert statistics(frozen)[0][0] == RANK + 1.0


def check_a_function_outlives_other_models_with_statistics() -> None:
    other = keras.Sequential([layers.Input((5,)), layers.BatchNormalization()])
    lockstep.broadcast(other)
    model = new_model()

    @tf.function
    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, training=True))
        return lockstep.all_reduce(tape.gradient(loss, model.trainable_variables))

    step(X[:4])
    del other
    keras.backend.clear_session()
    gc.collect()
    step(X[:4])


run_checks(globals())
