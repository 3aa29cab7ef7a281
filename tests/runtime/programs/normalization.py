"""BatchNormalization with the moments of the global batch: what one process trains beside the workers."""

from __future__ import annotations

import copy
from typing import Any, Callable

import numpy as np
import tensorflow as tf
from checking import assert_equal_on_all_ranks, of_all_ranks, raised, run_checks, seed_everything

import lockstep

keras = tf.keras
layers = keras.layers
RANK, SIZE = lockstep.rank(), lockstep.size()
BATCH = 4 * SIZE
COUNT = 4 * BATCH + SIZE + 1
_generator = np.random.RandomState(3)
X = (_generator.randn(COUNT, 6) * np.linspace(1, 3, 6) + 1).astype("float32")
IMAGES = (_generator.randn(COUNT, 4, 4, 2) + np.linspace(-1, 2, COUNT)[:, None, None, None]).astype("float32")
Y = _generator.randn(COUNT, 1).astype("float32")


def dense() -> Any:
    parts = [layers.Input((6,)), layers.Dense(5), layers.BatchNormalization(), layers.ReLU(), layers.Dense(1)]
    return keras.Sequential(parts)


def images() -> Any:
    """Four axes: what Keras 2 computes by its fused operation."""
    inner = keras.Sequential([layers.Input((4, 4, 2)), layers.Conv2D(3, 3), layers.BatchNormalization(momentum=0.9)])
    return keras.Sequential([layers.Input((4, 4, 2)), inner, layers.ReLU(), layers.Flatten(), layers.Dense(1)])


class Late(keras.Model):  # type: ignore[misc, name-defined]
    """Makes its layers when it is built."""

    def build(self, input_shape: Any) -> None:
        self.first = layers.Dense(5)
        self.normal = layers.BatchNormalization()
        self.last = layers.Dense(1)
        super().build(input_shape)

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.last(self.normal(self.first(inputs), training=training))


def pair(new: Callable[[], Any], x: Any) -> tuple[Any, Any]:
    """One model to train alone and one together; only the chief has the first weights of both."""
    models = []
    for _ in range(2):
        seed_everything(3 + RANK)
        models.append(new())
    lockstep.broadcast(models)
    assert lockstep.synchronise_batch_normalization(models[1]) is models[1]
    for model in models:
        model(x[:2])
    models[0].set_weights(models[1].get_weights())
    seed_everything(5)
    return models[0], models[1]


def assert_same_weights(together: Any, alone: Any, case: Any) -> None:
    for mine, wanted in zip(together.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(mine, wanted, atol=1e-5, err_msg=str(case))
    assert_equal_on_all_ranks(together.get_weights())


def sgd() -> Any:
    return keras.optimizers.SGD(0.02)


def check_fit_on_batches() -> None:
    for new, x in ((dense, X), (images, IMAGES), (Late, X)):
        alone, together = pair(new, x)
        alone.compile(sgd(), "mse")
        together.compile(lockstep.distributed_optimizer(sgd()), "mse")
        batches = tf.data.Dataset.from_tensor_slices((x, Y)).batch(BATCH)
        alone.fit(batches, epochs=4, verbose=0)
        together.fit(lockstep.shard_batches(batches), epochs=4, verbose=0, callbacks=lockstep.callbacks())
        assert_same_weights(together, alone, new)


def check_fit_on_arrays() -> None:
    for count in (COUNT, 4 * BATCH + 1):
        alone, together = pair(dense, X)
        alone.compile(sgd(), "mse")
        together.compile(lockstep.distributed_optimizer(sgd()), "mse")
        alone.fit(X[:count], Y[:count], batch_size=BATCH, epochs=4, verbose=0, shuffle=False)
        x, y = lockstep.shard_arrays(X[:count], Y[:count], batch_size=BATCH)
        local = lockstep.local_batch_size(BATCH)
        together.fit(x, y, batch_size=local, epochs=4, verbose=0, shuffle=False, callbacks=lockstep.callbacks())
        assert_same_weights(together, alone, count)


def train(model: Any, batches: Any, in_graph: bool, loss: Any, cut: Any = None) -> None:
    optimizer = sgd()

    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        gradients = tape.gradient(value, model.trainable_variables)
        gradients = gradients if cut is None else lockstep.all_reduce(gradients)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    run = tf.function(step) if in_graph else step
    for x, y in batches:
        run(*((x, y) if cut is None else cut(x, y)))


def squares(y: Any, p: Any) -> Any:
    return tf.reduce_mean((y - p) ** 2)


def check_loops_with_uneven_and_empty_parts() -> None:
    """A loss over gathered rows, each in one part; the last batch has fewer rows than there are workers."""
    ends = [BATCH, 2 * BATCH, 2 * BATCH + SIZE + 1, 3 * BATCH, 3 * BATCH + SIZE - 1]
    batches = [(X[a:b], Y[a:b]) for a, b in zip([0, *ends], ends)]
    for in_graph in (True, False):
        alone, together = pair(dense, X)
        train(alone, batches, in_graph, squares)
        whole = lockstep.whole_batch(squares)
        train(together, batches, in_graph, whole, lambda x, y: lockstep.shard_batch(x, y, loss="gather"))
        if SIZE > 2 or in_graph:  # one row alone has no variance
            assert_same_weights(together, alone, in_graph)


def check_masks() -> None:
    def masked() -> Any:
        parts = [layers.Input((3, 2)), layers.Masking(0.0), layers.BatchNormalization(), layers.Dense(1)]
        return keras.Sequential(parts)

    x = _generator.randn(COUNT, 3, 2).astype("float32")
    x[::3, 1:] = 0.0
    batches = [(x[a : a + BATCH], x[a : a + BATCH].sum(2, keepdims=True)) for a in range(0, COUNT, BATCH)]
    alone, together = pair(masked, x)
    train(alone, batches, True, squares)
    train(together, batches, True, squares, lockstep.shard_batch)
    assert_same_weights(together, alone, "masks")


def check_half_precision() -> None:
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        _, together = pair(dense, X)
        together(X[RANK::SIZE], training=True)
        assert_equal_on_all_ranks(together.get_weights())
    finally:
        keras.mixed_precision.set_global_policy("float32")


def check_by_default_statistics_are_local() -> None:
    layer = layers.BatchNormalization()
    layer.build((None, 6))
    outputs = of_all_ranks(np.asarray(layer(X[RANK : RANK + 1], training=True)).tolist())
    assert all(np.allclose(one, 0.0, atol=1e-5) for one in outputs)  # one row is its own mean


def check_what_is_kept_and_refused() -> None:
    model = dense()
    lockstep.synchronise_batch_normalization({"model": [model]})
    lockstep.synchronise_batch_normalization(model)
    normal = model.layers[1]
    assert normal.__class__ is layers.BatchNormalization
    assert type(normal) is not layers.BatchNormalization
    assert isinstance(copy.copy(normal.get_config()), dict)
    clone = keras.models.clone_model(model)
    assert type(clone.layers[1]) is layers.BatchNormalization
    raised(TypeError, lockstep.synchronise_batch_normalization, [np.zeros(3)])
    raised(TypeError, lockstep.synchronise_batch_normalization, tf.Variable(1.0))


run_checks(globals())
