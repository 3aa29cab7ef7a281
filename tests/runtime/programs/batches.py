"""Every size of the global batch, in every way of cutting: the workers train what one process trains beside them."""

from __future__ import annotations

import contextlib
import io
import itertools
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Callable

import numpy as np
import tensorflow as tf
from checking import assert_equal_on_all_ranks, of_all_ranks, raised, run_checks, seed_everything

import lockstep

keras = tf.keras
layers = keras.layers
RANK, SIZE = lockstep.rank(), lockstep.size()
# One row, fewer than workers, one more than workers, an even one.
SIZES = sorted({1, SIZE - 1, SIZE + 1, 2 * SIZE})
COUNT = 4 * SIZE + 1
_generator = np.random.RandomState(7)
X = _generator.standard_normal([COUNT, 5]).astype("float32")
Y = (X @ _generator.standard_normal([5, 1])).astype("float32")
Step = Callable[[Any, Any], None]


def new_models() -> tuple[Any, Any]:
    """One to train alone and one to train together; only the chief has the first weights of both."""

    def new() -> Any:
        seed_everything(3 + RANK)
        l2 = keras.regularizers.L2(0.01)
        hidden = layers.Dense(8, activation="tanh", kernel_regularizer=l2)
        return keras.Sequential([layers.Input((5,)), hidden, layers.Dense(1)])

    models = new(), new()
    lockstep.broadcast(list(models))
    seed_everything(5)
    return models


def assert_same_weights(together: Any, alone: Any, case: Any) -> None:
    for mine, wanted in zip(together.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(mine, wanted, atol=2e-6, err_msg=str(case))
    assert_equal_on_all_ranks(together.get_weights())


def sgd() -> Any:
    return keras.optimizers.SGD(0.01, momentum=0.9)


def mean_step(model: Any, reduce: Callable[[Any], Any] = lambda gradients: gradients, total: Any = None) -> Step:
    """A step on the mean of the losses, or on their sum over a constant."""
    optimizer = sgd()

    @tf.function(input_signature=[tf.TensorSpec([None, 5]), tf.TensorSpec([None, 1])])
    def step(x: tf.Tensor, y: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            losses = (model(x, training=True) - y) ** 2
            loss = tf.reduce_mean(losses) + tf.add_n(model.losses) if total is None else tf.reduce_sum(losses) / total
        gradients = reduce(tape.gradient(loss, model.trainable_variables))
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    return step


def train(step: Step, batches: Iterable[Any]) -> int:
    return sum(1 for _ in (step(x, y) for x, y in batches))


def slices(size: int, epochs: int = 1) -> Iterator[tuple[Any, Any]]:
    for _ in range(epochs):
        for begin in range(0, COUNT, size):
            yield X[begin : begin + size], Y[begin : begin + size]


def check_batches_in_hand() -> None:
    for size in SIZES:
        alone, together = new_models()
        train(mean_step(alone), slices(size))
        train(mean_step(together, lockstep.all_reduce), (lockstep.shard_batch(x, y) for x, y in slices(size)))
        assert_same_weights(together, alone, size)


def check_batches_of_generators_and_datasets() -> None:
    for size in SIZES:
        alone, together = new_models()
        train(mean_step(alone), slices(size))
        train(mean_step(together, lockstep.all_reduce), lockstep.shard_batches(slices(size)))
        assert_same_weights(together, alone, size)
        alone, together = new_models()
        whole = tf.data.Dataset.from_tensor_slices((X, Y)).batch(size)
        train(mean_step(alone), whole)
        train(mean_step(together, lockstep.all_reduce), lockstep.shard_batches(whole))
        assert_same_weights(together, alone, size)


def check_parts_with_several_rows_for_each_sample() -> None:
    """Labels laid out in one row stand beside the samples that they are of, in every way of cutting."""
    labels = np.arange(COUNT * 3).reshape(COUNT, 3)

    def parts(size: int) -> Iterator[tuple[Any, Any]]:
        for begin in range(0, COUNT, size):
            yield np.arange(COUNT)[begin : begin + size], labels[begin : begin + size].reshape(-1)

    def assert_belong_together(batches: Iterable[Any]) -> None:
        for samples, flat in batches:
            np.testing.assert_array_equal(labels[np.asarray(samples)].reshape(-1), np.asarray(flat))

    for size, loss in itertools.product(SIZES, ("mean", "sum", "gather")):
        pipeline = tf.data.Dataset.from_tensor_slices((np.arange(COUNT), labels)).batch(size)
        pipeline = pipeline.map(lambda samples, rows: (samples, tf.reshape(rows, [-1])))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.int64), tf.TensorSpec([None], tf.int64)])
        def in_graph(samples: Any, rows: Any, loss: str = loss) -> Any:
            return lockstep.shard_batch(samples, rows, loss=loss)

        assert_belong_together(lockstep.shard_batch(*batch, loss=loss) for batch in parts(size))
        assert_belong_together(in_graph(*map(tf.constant, batch)) for batch in parts(size))
        assert_belong_together(lockstep.shard_batches(parts(size), loss=loss))
        assert_belong_together(lockstep.shard_batches(pipeline, loss=loss))


def check_sums_over_every_batch() -> None:
    def summed(gradients: Any) -> Any:
        return lockstep.all_reduce(gradients, "sum")

    for size, cut in itertools.product(SIZES, ("batch", "batches", "pipeline")):
        alone, together = new_models()
        train(mean_step(alone, total=float(size)), slices(size))
        if cut == "batch":
            share: Any = (lockstep.shard_batch(x, y, loss="sum") for x, y in slices(size))
        elif cut == "batches":
            share = lockstep.shard_batches(slices(size), loss="sum")
        else:
            samples = tf.data.Dataset.from_tensor_slices((X, Y))
            share, local = lockstep.shard_and_rebatch_dataset(samples, size, loss="sum")
            share = share.batch(local)
        train(mean_step(together, summed, total=float(size)), share)
        assert_same_weights(together, alone, (size, cut))


def samples(count: int, is_counted: bool) -> tf.data.Dataset:
    dataset = tf.data.Dataset.from_tensor_slices((X[:count], Y[:count]))
    return dataset if is_counted else dataset.filter(lambda x, y: True)


def check_pipelines() -> None:
    """Shuffled, repeated and mapped behind the cut, of a known and an unknown number of samples."""

    def pipeline(dataset: tf.data.Dataset, size: int, drop: bool) -> tf.data.Dataset:
        dataset = dataset.shuffle(COUNT, seed=4).repeat(2).map(lambda x, y: (x * 2.0, y))
        return dataset.batch(size, drop_remainder=drop).prefetch(1)

    for size, (is_counted, drop) in itertools.product(SIZES, ((True, False), (False, True))):
        alone, together = new_models()
        steps = train(mean_step(alone), pipeline(samples(COUNT, is_counted), size, drop))
        dataset, local = lockstep.shard_and_rebatch_dataset(samples(COUNT, is_counted), size)
        share = pipeline(dataset, local, drop)
        assert train(mean_step(together, lockstep.all_reduce), share) == steps
        assert_same_weights(together, alone, (size, is_counted, drop))


def check_pipelines_that_come_out_even_are_cut_before_their_maps() -> None:
    dataset, local = lockstep.shard_and_rebatch_dataset(samples(4 * SIZE, True), 2 * SIZE)
    assert (local, len(list(dataset))) == (2, 4)
    endless, _ = lockstep.shard_and_rebatch_dataset(tf.data.Dataset.range(5).repeat(), SIZE)
    assert [int(element) for element in endless.take(2)] == [RANK % 5, (RANK + SIZE) % 5]
    alone, together = new_models()
    train(mean_step(alone), samples(4 * SIZE, True).repeat(3).batch(4 * SIZE))
    dataset, local = lockstep.shard_and_rebatch_dataset(samples(4 * SIZE, True), 4 * SIZE)
    train(mean_step(together, lockstep.all_reduce), dataset.repeat(3).batch(local))
    assert_same_weights(together, alone, "even")


def check_pipelines_in_fit() -> None:
    for size in (1, SIZE + 1):
        alone, together = new_models()
        alone.compile(sgd(), "mse")
        together.compile(lockstep.distributed_optimizer(sgd()), "mse")
        alone.fit(samples(COUNT, True).batch(size), epochs=2, verbose=0)
        dataset, local = lockstep.shard_and_rebatch_dataset(samples(COUNT, True), size)
        together.fit(dataset.batch(local), epochs=2, verbose=0, callbacks=lockstep.callbacks())
        assert_same_weights(together, alone, size)


def check_other_ways_to_make_batches() -> None:
    lengths = [1 + i % 4 for i in range(2 * SIZE + 1)]

    def sequences() -> tf.data.Dataset:
        kind = tf.TensorSpec([None], tf.int64)
        return tf.data.Dataset.from_generator(lambda: (np.full(n, n) for n in lengths), output_signature=kind)

    share, local = lockstep.shard_and_rebatch_dataset(sequences(), 2 * SIZE)
    padded = [batch.shape.as_list() for batch in share.padded_batch(local, padded_shapes=[None])]
    rows = of_all_ranks(padded)
    assert sum(one[0][0] for one in rows) == 2 * SIZE
    assert len(padded) == 2
    by_length = tf.data.experimental.bucket_by_sequence_length(tf.size, [3], [local, local])
    buckets = [batch.numpy().max() for batch in share.apply(by_length)]
    whole = tf.data.experimental.bucket_by_sequence_length(tf.size, [3], [2 * SIZE] * 2)
    wanted = [batch.numpy().max() for batch in sequences().apply(whole)]
    assert len(buckets) == len(wanted)
    fused = tf.data.experimental.map_and_batch(lambda x: x, local)
    numbers, _ = lockstep.shard_and_rebatch_dataset(tf.data.Dataset.range(SIZE + 1), SIZE)
    assert "shard_batches" in raised(ValueError, numbers.apply, fused)
    # Batches inside of samples are none that are trained on.
    windows = tf.data.Dataset.range(3 * SIZE + 3).window(3, drop_remainder=True).flat_map(lambda w: w.batch(3))
    share, local = lockstep.shard_and_rebatch_dataset(windows, SIZE)
    assert [batch.shape[1] for batch in share.batch(local)] == [3, 3]


def check_one_sample_at_a_time() -> None:
    """Nothing to cut: every worker makes the steps of one process."""
    alone, together = new_models()
    train(mean_step(alone), ((x[None], y[None]) for x, y in samples(3, False)))
    dataset, local = lockstep.shard_and_rebatch_dataset(samples(3, False), 1)
    assert local == 1
    train(mean_step(together, lockstep.all_reduce), ((x[None], y[None]) for x, y in dataset))
    assert_same_weights(together, alone, 1)


def check_arrays_in_fit() -> None:
    for size, count in itertools.product((1, SIZE + 1, 2 * SIZE), (COUNT, SIZE - 1)):
        alone, together = new_models()
        alone.compile(sgd(), "mse", metrics=["mae"])
        together.compile(lockstep.distributed_optimizer(sgd()), "mse", metrics=["mae"])
        options = {"epochs": 2, "shuffle": False, "verbose": 0}
        alone.fit(X[:count], Y[:count], batch_size=size, **options)
        x, y = lockstep.shard_arrays(X[:count], Y[:count], batch_size=size)
        options["callbacks"] = lockstep.callbacks()
        together.fit(x, y, batch_size=lockstep.local_batch_size(size), **options)
        assert_same_weights(together, alone, (size, count))


class Coupled(keras.Model):
    """Trained on the root of the mean of squares, which needs all rows of the batch."""

    def __init__(self, inner: Any, reduce: Callable[[Any], Any], gather: Callable[[Any], Any]) -> None:
        super().__init__()
        self.inner, self.reduce, self.gather = inner, reduce, gather

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.inner(x)

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.sqrt(tf.reduce_mean(self.gather((self.inner(x) - y) ** 2)))
        gradients = self.reduce(tape.gradient(loss, self.inner.trainable_variables))
        self.optimizer.apply_gradients(zip(gradients, self.inner.trainable_variables))
        return {"loss": loss}


def check_arrays_of_batches_that_are_gathered() -> None:
    for size in (2 * SIZE, SIZE + 1):
        count = 3 * size + SIZE
        x, y = np.resize(X, (count, 5)), np.resize(Y, (count, 1))
        one, another = new_models()
        alone = Coupled(one, tf.identity_n, tf.identity)
        together = Coupled(another, lockstep.all_reduce, lockstep.all_gather)
        options = {"epochs": 2, "shuffle": False, "verbose": 0}
        alone.compile(sgd())
        alone.fit(x, y, batch_size=size, **options)
        together.compile(sgd())
        x, y = lockstep.shard_arrays(x, y, batch_size=size, loss="gather")
        local = lockstep.local_batch_size(size, loss="gather")
        together.fit(x, y, batch_size=local, callbacks=lockstep.callbacks(), **options)
        assert_same_weights(another, one, size)
        if size % SIZE:  # it would cut other batches than the rows were dealt out for
            raised(ValueError, together.fit, x, y, batch_size=lockstep.local_batch_size(size), **options)


def check_batches_that_leave_a_worker_without_rows() -> None:
    raised(ValueError, lockstep.shard_arrays, X, batch_size=SIZE - 1, loss="gather")
    raised(ValueError, lockstep.local_batch_size, SIZE - 1, loss="gather")
    raised(ValueError, lockstep.local_batch_size, SIZE, loss="median")


def check_last_batches_of_fewer_rows_than_workers() -> None:
    """The workers without rows take part in the step: COUNT leaves one row."""
    for size, reduction in itertools.product((SIZE, 2 * SIZE), ("sum_over_batch_size", "sum")):
        alone, together = new_models()
        loss = keras.losses.MeanSquaredError(reduction=reduction)
        alone.compile(sgd(), loss)
        together.compile(lockstep.distributed_optimizer(sgd()), lockstep.whole_batch(loss))
        options = {"epochs": 2, "shuffle": False, "verbose": 0}
        alone.fit(X, Y, batch_size=size, **options)
        x, y = lockstep.shard_arrays(X, Y, batch_size=size, loss="gather")
        local = lockstep.local_batch_size(size, loss="gather")
        together.fit(x, y, batch_size=local, callbacks=lockstep.callbacks(), **options)
        assert_same_weights(together, alone, (size, reduction))


def check_shuffled_arrays_of_one_row_a_batch_are_seen_once() -> None:
    """Each rank shuffles in its own order; the first alone counts."""
    _, together = new_models()
    together.compile(lockstep.distributed_optimizer(keras.optimizers.SGD(0.0)), "mse")
    x, y = lockstep.shard_arrays(X, Y, batch_size=1)
    before = together.get_weights()
    together.fit(x, y, batch_size=lockstep.local_batch_size(1), verbose=0, callbacks=lockstep.callbacks())
    assert int(np.asarray(together.optimizer.iterations)) == COUNT
    for kept, wanted in zip(together.get_weights(), before):
        np.testing.assert_array_equal(kept, wanted)


def check_arrays_that_were_changed_after_the_cut() -> None:
    for size in (1, SIZE + 1):
        alone, together = new_models()
        alone.compile(sgd(), "mse")
        together.compile(lockstep.distributed_optimizer(sgd()), "mse")
        options = {"epochs": 2, "shuffle": False, "verbose": 0, "validation_split": 0.25}
        alone.fit(X * 2, Y, batch_size=size, **options)
        x, y = lockstep.shard_arrays(X, Y, batch_size=size, validation_split=0.25)
        local = lockstep.local_batch_size(size)
        together.fit(x * 2, y, batch_size=local, callbacks=lockstep.callbacks(), **options)
        assert_same_weights(together, alone, size)


def check_what_it_costs_is_said_once() -> None:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # of the script alone
        for _ in range(2):
            assert lockstep.local_batch_size(100 * SIZE + 1) == 100 * SIZE + 1
        lockstep.shard_batches(tf.data.Dataset.range(9 * SIZE).batch(50 * SIZE + 1).prefetch(1))
        lockstep.local_batch_size(100 * SIZE)
    first, second = (line for line in said.getvalue().splitlines() if "lockstep: a batch of" in line)
    assert f"batch of {100 * SIZE + 1} does not split evenly" in first
    assert f"{100 * SIZE} and {101 * SIZE}" in first
    assert f"batch of {50 * SIZE + 1} " in second
    assert first.startswith(f"{__file__}:")
    for wrong in (0, -SIZE, 2.5):
        raised(ValueError, lockstep.local_batch_size, wrong)


run_checks(globals())
