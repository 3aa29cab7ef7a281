"""Gradients of embeddings: optimizers that do something for each occurrence of a row must see those of one process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, Callable

import numpy as np
import tensorflow as tf
from checking import assert_equal_on_all_ranks, run_checks, seed_everything

import lockstep
from lockstep.shards import repeated

keras = tf.keras
layers = keras.layers
RANK, SIZE = lockstep.rank(), lockstep.size()
COUNT = 18
# So many rows of each size of a batch: the last one has another size.
ROWS = {13: 18, 4: 9, 1: 3}
SIZES = tuple(ROWS)
_generator = np.random.RandomState(1)
WORDS = _generator.randint(0, 5, [COUNT, 3])
Y = _generator.standard_normal([COUNT, 1]).astype("float32")
Step = Callable[[Any, Any], None]
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adam": lambda: keras.optimizers.Adam(0.02),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01),
    "adagrad": lambda: keras.optimizers.Adagrad(0.1),
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "clipped": lambda: keras.optimizers.SGD(0.1, clipnorm=0.01),
}


def new_models() -> tuple[Any, Any]:
    """One to train alone and one to train together; only the chief has the first weights of both."""

    def new() -> Any:
        seed_everything(3 + RANK)
        embedding = [layers.Input((3,), dtype="int32"), layers.Embedding(5, 4), layers.GlobalAveragePooling1D()]
        return keras.Sequential([*embedding, layers.Dense(4, activation="tanh"), layers.Dense(1)])

    models = new(), new()
    lockstep.broadcast(list(models))
    seed_everything(5)
    return models


def assert_same_weights(together: Any, alone: Any, case: Any) -> None:
    for mine, wanted in zip(together.get_weights(), alone.get_weights()):
        # Adam divides by the root of sums of squares, which float32 rounds in the order of the rows.
        np.testing.assert_allclose(mine, wanted, atol=2e-6, err_msg=str(case))
    assert_equal_on_all_ranks(together.get_weights())


def step_of(model: Any, optimizer: Any, reduce: Callable[[Any], Any] = lambda gradients: gradients) -> Step:
    def step(words: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(words, training=True) - y) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        assert any(isinstance(gradient, tf.IndexedSlices) for gradient in gradients)
        optimizer.apply_gradients(zip(reduce(gradients), model.trainable_variables))

    return step


def traced_once(step: Step) -> Step:
    signature = [tf.TensorSpec([None, 3], tf.int64), tf.TensorSpec([None, 1])]
    return tf.function(step, input_signature=signature)  # type: ignore[no-any-return]


def slices(size: int) -> Iterator[tuple[Any, Any]]:
    words, y = rows_for(size)
    for begin in range(0, len(words), size):
        yield words[begin : begin + size], y[begin : begin + size]


def rows_for(size: int) -> tuple[Any, Any]:
    return WORDS[: ROWS[size]], Y[: ROWS[size]]


def train(step: Step, batches: Iterable[Any]) -> None:
    for words, y in batches:
        step(words, y)


def compare_loops(cut: Callable[[int], Iterable[Any]], wrap: Callable[[Step], Step], name: str = "adam") -> None:
    """The same models and steps go through batches of all sizes: a step is traced before the last sizes come."""
    alone, together = new_models()
    step_alone = wrap(step_of(alone, OPTIMIZERS[name]()))
    step_together = wrap(step_of(together, OPTIMIZERS[name](), lockstep.all_reduce))
    for size in SIZES:
        train(step_alone, slices(size))
        train(step_together, cut(size))
        assert_same_weights(together, alone, (name, size))


def in_hand(size: int) -> Iterator[Any]:
    return (lockstep.shard_batch(*one) for one in slices(size))


def eager(step: Step) -> Step:
    return step


def check_whole_batches_on_all_ranks() -> None:
    """Where nothing is cut, gradients that are clipped have the norm of one rank's. First: the others cut."""
    compare_loops(slices, traced_once, "clipped")


def check_batches_in_hand() -> None:
    compare_loops(in_hand, traced_once)


def check_a_start_for_each_row_beside_positions_and_types() -> None:
    """All are constants where the function is traced for batches of one size; types repeat, and all rows have them."""
    alone, together = new_models()

    def step_with(model: Any, reduce: Callable[[Any], Any] = lambda gradients: gradients) -> Step:
        embedding, *others = model.layers
        optimizer = OPTIMIZERS["adam"]()

        def step(words: Any, y: Any) -> None:
            with tf.GradientTape() as tape:
                seen = embedding(words) + embedding(tf.range(3)) + embedding(tf.constant([2, 2, 3]))
                seen += embedding(tf.ones_like(words[:, :1]))
                for layer in others:
                    seen = layer(seen)
                loss = tf.reduce_mean((seen - y) ** 2)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(reduce(gradients), model.trainable_variables))

        return tf.function(step)  # type: ignore[no-any-return]

    step_alone, step_together = step_with(alone), step_with(together, lockstep.all_reduce)
    for size in (2 * SIZE, SIZE):
        for words, y in ((tf.constant(WORDS[:size]), tf.constant(Y[:size])), (WORDS[-size:], Y[-size:])):
            step_alone(tf.constant(words), tf.constant(y))
            step_together(*lockstep.shard_batch(tf.constant(words), tf.constant(y)))
        assert_same_weights(together, alone, size)


def check_batches_in_hand_eagerly() -> None:
    for name in OPTIMIZERS:
        compare_loops(in_hand, eager, name)


def check_generators() -> None:
    compare_loops(lambda size: lockstep.shard_batches(slices(size)), eager)


def check_batches_of_datasets() -> None:
    def cut(size: int) -> Any:
        whole = tf.data.Dataset.from_tensor_slices(rows_for(size)).batch(size)
        return lockstep.shard_batches(whole).prefetch(2)

    compare_loops(cut, traced_once)


def check_pipelines() -> None:
    def cut(size: int) -> Any:
        samples = tf.data.Dataset.from_tensor_slices(rows_for(size))
        share, local = lockstep.shard_and_rebatch_dataset(samples, size)
        return share.batch(local)

    compare_loops(cut, eager)


def check_equal_parts_of_a_batch_that_splits() -> None:
    """Parts that happen to be equal are not one part, where nothing is cut into fewer than there are workers."""
    words, y = np.repeat(WORDS[:1], 2 * SIZE, 0), np.repeat(Y[:1], 2 * SIZE, 0)
    with nothing_cut_for_a_mean():
        alone, together = new_models()
        step_of(alone, OPTIMIZERS["adam"]())(words, y)
        whole = tf.data.Dataset.from_tensor_slices((words, y)).batch(2 * SIZE, drop_remainder=True)
        train(step_of(together, OPTIMIZERS["adam"](), lockstep.all_reduce), lockstep.shard_batches(whole))
        assert_same_weights(together, alone, "equal parts")
        assert not repeated.are_possible()


@contextlib.contextmanager
def nothing_cut_for_a_mean() -> Iterator[None]:
    """As if no check before had cut batches of any size."""
    before = set(repeated._possible)
    repeated._possible.clear()
    try:
        yield
    finally:
        repeated._possible.update(before)


def compiled(models: tuple[Any, Any]) -> tuple[Any, Any]:
    alone, together = models
    alone.compile(OPTIMIZERS["adam"](), "mse")
    together.compile(lockstep.distributed_optimizer(OPTIMIZERS["adam"]()), "mse")
    return alone, together


def check_train_on_batch() -> None:
    alone, together = compiled(new_models())
    for size in SIZES:
        for words, y in slices(size):
            alone.train_on_batch(words, y)
            together.train_on_batch(*lockstep.shard_batch(words, y))
        assert_same_weights(together, alone, size)


def check_fit_on_datasets() -> None:
    alone, together = compiled(new_models())
    for size in SIZES:
        whole = tf.data.Dataset.from_tensor_slices(rows_for(size)).batch(size)
        alone.fit(whole, epochs=2, verbose=0)
        together.fit(lockstep.shard_batches(whole), epochs=2, verbose=0, callbacks=lockstep.callbacks())
        assert_same_weights(together, alone, size)


def check_fit_on_arrays() -> None:
    alone, together = compiled(new_models())
    for size in SIZES:
        options = {"epochs": 2, "shuffle": False, "verbose": 0}
        alone.fit(*rows_for(size), batch_size=size, **options)
        share = lockstep.shard_arrays(*rows_for(size), batch_size=size)
        local = lockstep.local_batch_size(size)
        together.fit(*share, batch_size=local, callbacks=lockstep.callbacks(), **options)
        assert_same_weights(together, alone, size)


class Positions(layers.Layer):  # type: ignore[misc, name-defined]
    """Looks up rows for words, and rows for their places, which are no sample's."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = layers.Embedding(5, 4), layers.Embedding(3, 4)

    def call(self, words: Any) -> Any:
        return self.words(words) + self.places(tf.range(tf.shape(words)[1]))


def check_rows_that_are_looked_up_for_all_samples_at_once() -> None:
    def new() -> Any:
        seed_everything(3 + RANK)
        parts = [layers.Input((3,), dtype="int32"), Positions(), layers.Flatten(), layers.Dense(1)]
        return keras.Sequential(parts)

    models = new(), new()
    lockstep.broadcast(list(models))
    seed_everything(5)
    alone, together = compiled(models)
    for size in (2 * SIZE, 13):  # all batches even, but for the last one, and none
        whole = tf.data.Dataset.from_tensor_slices((WORDS, Y)).batch(size)
        alone.fit(whole, verbose=0)
        together.fit(lockstep.shard_batches(whole), verbose=0, callbacks=lockstep.callbacks())
        assert_same_weights(together, alone, size)


def step_over_all_rows(table: Any, gather: Callable[[Any], Any], reduce: Callable[[Any], Any]) -> Step:
    """Looks up rows of one table for the samples, and behind a gather."""
    optimizer = OPTIMIZERS["adam"]()

    def step(words: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            known = tf.reduce_mean(tf.gather(table, words), axis=1)
            labels = tf.gather(table, gather(words)[:, 0])
            loss = tf.sqrt(tf.reduce_mean((gather(known * y) - labels) ** 2))
        gradient = tape.gradient(loss, table)
        assert isinstance(gradient, tf.IndexedSlices)
        optimizer.apply_gradients([(reduce(gradient), table)])

    return step


def check_rows_in_front_of_and_behind_a_gather() -> None:
    equal = np.repeat(WORDS[:1], 12, 0), np.repeat(Y[:1], 12, 0)
    batches = [*slices(4), equal, *slices(13)]
    with nothing_cut_for_a_mean():
        for wrap in (eager, traced_once):
            compare_over_all_rows(batches, wrap)


def compare_over_all_rows(batches: Iterable[Any], wrap: Callable[[Step], Step]) -> None:
    alone, together = (tf.Variable(np.ones([5, 4], np.float32)) for _ in range(2))
    step_alone = wrap(step_over_all_rows(alone, lambda rows: rows, lambda gradient: gradient))
    step_together = wrap(step_over_all_rows(together, lockstep.all_gather, lockstep.all_reduce))
    for words, y in batches:
        step_alone(words, y)
        step_together(*(tf.constant(one) for one in lockstep.shard_batch(words, y, loss="gather")))
        np.testing.assert_allclose(together.numpy(), alone.numpy(), atol=2e-6)
    assert_equal_on_all_ranks([together.numpy()])


run_checks(globals())
