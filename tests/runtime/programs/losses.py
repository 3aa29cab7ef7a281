"""Losses and forward passes that tie the samples of a batch together: what one process trains with all rows."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import tensorflow as tf
from checking import assert_equal_on_all_ranks, long, raised, run_checks, seed_everything

import lockstep

keras = tf.keras
layers = keras.layers
RANK, SIZE = lockstep.rank(), lockstep.size()
ROWS = 6 * SIZE + 1
_generator = np.random.RandomState(0)
X, Y = _generator.randn(ROWS, 4).astype("float32"), _generator.randn(ROWS, 3).astype("float32")
LABELS = _generator.randint(0, 3, [ROWS, 1]).astype("float32")
W = tf.Variable(_generator.randn(4, 3).astype("float32"))
Gather = Callable[[Any], Any]


def share(values: Any, rows: int = ROWS) -> Any:
    """This rank's rows of the first so many: unequally many where the number of ranks does not divide."""
    return lockstep.shard_batch(values[:rows], loss="gather")


def same(value: Any, reduction: str = "") -> Any:
    return value


def rmse(p: Any, y: Any, gather: Gather, reduce: Any) -> Any:
    return tf.sqrt(reduce(tf.reduce_sum((p - y) ** 2), "sum") / reduce(tf.cast(tf.size(p), tf.float32), "sum"))


def dice(p: Any, y: Any, gather: Gather, reduce: Any) -> Any:
    top, bottom = reduce([tf.reduce_sum(p * y), tf.reduce_sum(p**2 + y**2)], "sum")
    return 1 - 2 * top / bottom


def contrastive(p: Any, y: Any, gather: Gather, reduce: Any) -> Any:
    p, y = gather([p, y])
    logits = tf.matmul(p, y, transpose_b=True)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.range(tf.shape(p)[0]), logits))


def farthest(p: Any, y: Any, gather: Gather, reduce: Any) -> Any:
    """The largest error, and with it the softmax over all samples."""
    errors = tf.reduce_sum((p - y) ** 2, 1)
    return reduce(tf.reduce_max(errors), "max") + tf.reduce_sum(tf.nn.softmax(gather(errors)) ** 2)


def centred(p: Any, y: Any, gather: Gather, reduce: Any) -> Any:
    """Goes on with own rows after a reduction: each rank's upstream gradient is another one."""
    total, count = reduce(tf.reduce_sum(p, 0), "sum"), reduce(tf.cast(tf.shape(p)[0], tf.float32), "sum")
    return tf.reduce_mean((p - total / count) ** 2) + 0.1 * tf.reduce_sum(W**2)


def mixed(p: Any, y: Any, gather: Gather, reduce: Any) -> Any:
    penalty = 0.1 * tf.reduce_sum(W**2)
    return reduce(tf.reduce_mean((p - y) ** 2), "mean") + penalty + contrastive(p, y, gather, reduce)


def gradient(loss: Any, x: Any, y: Any, gather: Gather, reduce: Any) -> Any:
    with tf.GradientTape() as tape:
        value = loss(tf.matmul(x, W), y, gather, reduce)
    return value, tape.gradient(value, W)


def check_gradients_of_the_whole_batch() -> None:
    even = (centred, mixed)  # means of means
    for loss in (rmse, dice, contrastive, farthest, centred, mixed):
        rows = 6 * SIZE if loss in even else ROWS
        value, wanted = gradient(loss, X[:rows], Y[:rows], same, same)
        for run in (gradient, tf.function(gradient)):
            mine, found = run(loss, share(X, rows), share(Y, rows), lockstep.all_gather, lockstep.all_reduce)
            np.testing.assert_allclose(lockstep.all_reduce(found), wanted, atol=2e-6, err_msg=loss.__name__)
            if loss is not centred:
                np.testing.assert_allclose(mine, value, rtol=1e-5)


def check_gradients_of_samples() -> None:
    """As large as in one process, and differentiated in turn: a penalty on them."""

    def penalised(x: Any, y: Any, gather: Gather, samples: Any) -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                inner.watch(x)
                value = tf.sqrt(tf.reduce_mean(gather((tf.matmul(x, W) - y) ** 2)))
            found = samples(inner.gradient(value, x))
            penalty = tf.reduce_mean(gather(tf.reduce_sum(found**2, 1)))
        return found, outer.gradient(penalty, W)

    wanted, of_weights = penalised(tf.constant(X), Y, same, same)
    for run in (penalised, tf.function(penalised)):
        found, mine = run(tf.constant(share(X)), share(Y), lockstep.all_gather, lockstep.sample_gradients)
        np.testing.assert_allclose(lockstep.all_gather(found), wanted, atol=2e-7)
        np.testing.assert_allclose(lockstep.all_reduce(mine), of_weights, rtol=2e-5, atol=1e-8)
    assert lockstep.sample_gradients([None])[0] is None
    slices = lockstep.sample_gradients(tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([4, 2])))
    np.testing.assert_allclose(slices.values, np.ones([1, 2]) / SIZE)


@long
def check_gradients_of_branches_and_loops() -> None:
    """TensorFlow traces them into graphs of their own, with a tape inside of the function or around it."""

    def loss(x: Any, y: Any, gather: Gather, times: Any) -> Any:
        value = tf.reduce_mean(gather((tf.matmul(x, W) - y) ** 2))
        if times > 0:
            value += tf.sqrt(tf.reduce_sum(gather(tf.matmul(x, W) * y) ** 2))
        for _ in tf.range(times):
            value += tf.reduce_max(gather(tf.matmul(x, W)))
        return value

    traced = tf.function(loss)

    def inside(x: Any, y: Any, gather: Gather, times: Any) -> Any:
        with tf.GradientTape() as tape:
            value = loss(x, y, gather, times)
        return tape.gradient(value, W)

    def around(x: Any, y: Any, gather: Gather, times: Any) -> Any:
        with tf.GradientTape() as tape:
            value = traced(x, y, gather, times)
        return tape.gradient(value, W)

    for run in (tf.function(inside), around):
        for times in map(tf.constant, (0, 2)):
            wanted = run(X, Y, same, times)
            found = run(share(X), share(Y), lockstep.all_gather, times)
            np.testing.assert_allclose(lockstep.all_reduce(found), wanted, atol=2e-5, rtol=1e-5)


def check_outputs_of_a_sigmoid() -> None:
    """Keras takes the cross-entropy of what the sigmoid was given: of outputs that are 1 in float32, too."""
    layer, labels = layers.Dense(3, "sigmoid"), (Y > 0).astype("float32")

    def slope(x: Any, y: Any, gather: Gather) -> Any:
        with tf.GradientTape() as tape:
            p, y = gather([layer(x), y])
            value = tf.reduce_max(keras.losses.binary_crossentropy(y, p))
        return value, tape.gradient(value, layer.trainable_variables)

    layer.build([None, 4])
    layer.set_weights([200.0 * W.numpy(), np.zeros(3, "float32")])
    value, wanted = slope(X, labels, same)
    mine, found = slope(share(X), share(labels), lockstep.all_gather)
    np.testing.assert_allclose(mine, value, rtol=1e-5)
    for one, other in zip(lockstep.all_reduce(found), wanted):
        np.testing.assert_allclose(one, other, atol=1e-5)


def check_a_rank_without_rows() -> None:
    rows = SIZE - 1
    for loss in (rmse, dice, contrastive):
        _, wanted = gradient(loss, X[:rows], Y[:rows], same, same)
        _, found = gradient(loss, share(X, rows), share(Y, rows), lockstep.all_gather, lockstep.all_reduce)
        np.testing.assert_allclose(lockstep.all_reduce(found), wanted, atol=1e-6)


def check_keras_sums_on_a_rank_without_rows() -> None:
    summed = keras.losses.MeanSquaredError(reduction="sum")

    def step(x: Any, y: Any, gather: Gather, count: int) -> Any:
        with tf.GradientTape() as tape:
            p = tf.matmul(x, W)
            loss = summed(y, p) + (tf.reduce_mean(gather((p - y) ** 2)) + tf.reduce_sum(W**2)) / count
        return [tape.gradient(loss, W), loss]

    rows = max(SIZE - 1, 1)
    wanted = step(X[:rows], Y[:rows], same, 1)
    for run in (step, tf.function(step)):
        found = run(share(X, rows), share(Y, rows), lockstep.all_gather, SIZE)
        for one, other in zip(lockstep.all_reduce(found, "sum"), wanted):
            np.testing.assert_allclose(one, other, rtol=1e-5)
    assert keras.losses.MeanSquaredError(reduction="none")(X[:0], X[:0]).shape == (0,)


def check_batch_normalization_on_a_rank_without_rows() -> None:
    """The moments of no rows are no numbers: the layer keeps those that it has."""
    if not hasattr(layers.BatchNormalization, "_moments"):
        return  # of Keras 2
    layer = layers.BatchNormalization()
    layer.build((None, 4))
    x = share(X, SIZE - 1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(x, training=True) ** 2)
    for value in (*tape.gradient(loss, layer.trainable_variables), *layer.variables):
        assert np.isfinite(np.asarray(value)).all(), value
    if len(x) == 0:
        np.testing.assert_array_equal(np.asarray(layer.moving_variance), np.ones(4))


def check_second_derivatives() -> None:
    def penalised(x: Any, y: Any, gather: Gather, reduce: Any) -> Any:
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                value = contrastive(tf.matmul(x, W), y, gather, reduce)
            slope = reduce(inner.gradient(value, W), "mean")
            norm = tf.reduce_sum(slope**2)
        return outer.gradient(norm, W)

    wanted = penalised(X, Y, same, same)
    found = lockstep.all_reduce(penalised(share(X), share(Y), lockstep.all_gather, lockstep.all_reduce))
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def check_what_has_no_gradient() -> None:
    with tf.GradientTape() as tape:
        product = lockstep.all_reduce(tf.reduce_sum(W), "prod")
    assert "prod" in raised(TypeError, tape.gradient, product, W)
    with tf.GradientTape() as tape:
        total = lockstep.all_reduce(tf.cast(tf.reduce_sum(W), tf.int32), "sum")
    assert tape.gradient(total, W) is None


def supervised(y: Any, p: Any) -> Any:
    """Supervised contrastive: one value a sample, of all samples."""
    p = tf.math.l2_normalize(p, 1)
    alike = tf.cast(tf.equal(y, tf.transpose(y)), tf.float32)
    logits = tf.matmul(p, p, transpose_b=True) * 5.0
    return -tf.reduce_sum(alike * tf.nn.log_softmax(logits), 1) / tf.reduce_sum(alike, 1)


class OwnRoot(keras.losses.Loss):  # type: ignore[misc]
    """A class that nobody has registered with Keras."""

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return tf.sqrt(tf.reduce_mean(tf.square(y_true - y_pred)))


@long
def check_functions_and_objects_in_loops() -> None:
    object_ = keras.losses.MeanSquaredError()
    summed = keras.losses.MeanSquaredError(reduction="sum")
    three = lambda a, b, c: tf.reduce_sum(a[:1] * b[-1:]) * c  # noqa: E731
    cases: list[Any] = [
        (supervised, lambda f, x, y: tf.reduce_mean(f(share_or_all(LABELS, x), tf.matmul(x, W)))),
        (object_, lambda f, x, y: f(y, tf.matmul(x, W))),
        (summed, lambda f, x, y: f(y, tf.matmul(x, W))),
        (OwnRoot(), lambda f, x, y: f(y, tf.matmul(x, W))),
        ("huber" if hasattr(keras.losses, "huber") else "mse", lambda f, x, y: tf.reduce_mean(f(y, tf.matmul(x, W)))),
        (three, lambda f, x, y: f(tf.matmul(x, W), y, 2.0)),
    ]
    for loss, call in cases:

        def slope(f: Any, x: Any, y: Any, call: Any = call) -> Any:
            with tf.GradientTape() as tape:
                value = call(f, x, y)
            return tape.gradient(value, W)

        alone = keras.losses.get(loss) if isinstance(loss, str) else loss
        wanted = slope(alone, X, Y)
        whole = lockstep.whole_batch(loss)
        for run in (slope, tf.function(slope)):
            found = lockstep.all_reduce(run(whole, share(X), share(Y)))
            np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6, err_msg=str(loss))
    assert isinstance(lockstep.whole_batch(object_), keras.losses.MeanSquaredError)
    assert type(object_) is keras.losses.MeanSquaredError
    again = lockstep.whole_batch(summed)
    assert lockstep.whole_batch(again) is again
    assert lockstep.whole_batch(None) is None
    raised(TypeError, lockstep.whole_batch, 3)


def share_or_all(values: Any, x: Any) -> Any:
    return values if x.shape[0] == ROWS else share(values)


def check_ragged_labels_and_scalars() -> None:
    ragged = tf.ragged.constant([[float(i)] * (i % 3) for i in range(ROWS)])
    count = lockstep.whole_batch(lambda y, p: (tf.reduce_sum(y), p))
    total, scalar = count(lockstep.shard_batch(ragged, loss="gather"), tf.constant(2.0))
    assert float(total) == float(tf.reduce_sum(ragged))
    assert float(scalar) == 2.0


class LargestError(keras.metrics.Metric):  # type: ignore[misc]
    def __init__(self, name: str = "largest_error") -> None:
        super().__init__(name=name)
        self.largest = self.add_weight(initializer="zeros", name="largest")
        self.rows = self.add_weight(initializer="zeros", name="rows")

    def update_state(self, y: Any, p: Any, sample_weight: Any = None) -> None:
        self.largest.assign(tf.maximum(self.largest, tf.reduce_max(tf.abs(y - p))))
        self.rows.assign_add(tf.cast(tf.shape(y)[0], tf.float32))

    def result(self) -> Any:
        return self.largest + self.rows


def summed_error(y: Any, p: Any) -> Any:
    return tf.reduce_sum(tf.abs(y - p))


def error_of_rows(y: Any, p: Any) -> Any:
    return tf.reduce_sum(tf.abs(y - p), axis=1)


def told_of(batch: int, cut: str) -> dict[str, float]:
    """What `fit` tells of metrics that are no means over the samples, and `evaluate` on the whole data."""
    seed_everything(3)
    model = keras.Sequential([layers.Input((4,)), layers.Dense(3)])
    lockstep.broadcast(model)
    along = keras.metrics.CosineSimilarity(axis=0)
    whole = map(lockstep.whole_batch_metric, (summed_error, error_of_rows, LargestError, along))
    plain = (summed_error, error_of_rows, LargestError(), along)
    model.compile(
        lockstep.distributed_optimizer(keras.optimizers.SGD(0.05)) if cut else keras.optimizers.SGD(0.05),
        "mse",
        metrics=list(whole if cut else plain),
    )
    x, y, size, data = X, Y, batch, None
    if cut == "arrays":
        (x, y), size = lockstep.shard_arrays(X, Y, batch_size=batch), lockstep.local_batch_size(batch)
    elif cut == "batches":
        data = lockstep.shard_batches(tf.data.Dataset.from_tensor_slices((X, Y)).batch(batch), loss="gather")
    given = {"validation_data": (X, Y), "validation_batch_size": batch, "shuffle": False, "verbose": 0}
    callbacks = lockstep.callbacks() if cut else None
    if data is None:
        told = model.fit(x, y, batch_size=size, epochs=2, callbacks=callbacks, **given)
    else:
        told = model.fit(data, epochs=2, callbacks=callbacks, **given)
    return {name: float(values[-1]) for name, values in told.history.items()}


def assert_metrics_of_the_whole_batch(batch: int) -> None:
    wanted = told_of(batch, "")
    for cut in ("arrays", "batches"):
        found = told_of(batch, cut)
        assert found.keys() == wanted.keys()
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=2e-5, err_msg=f"{name} {cut} {batch}")


@long
def check_metrics_of_the_whole_batch_where_it_splits_evenly() -> None:
    assert_metrics_of_the_whole_batch(2 * SIZE)


def check_metrics_of_the_whole_batch() -> None:
    assert_metrics_of_the_whole_batch(2 * SIZE + 1)
    metric = lockstep.whole_batch_metric(LargestError())
    assert isinstance(metric, LargestError)
    assert lockstep.whole_batch_metric(metric) is metric
    raised(TypeError, lockstep.whole_batch_metric, 3)


DATA_OF_FIT = tuple(
    np.random.RandomState(4).standard_normal([4 * SIZE + 3, width]).astype("float32") for width in (4, 1)
)


class OverTheBatch(layers.Layer):
    """Each row over the sum of all of the batch."""

    def call(self, h: Any) -> Any:
        return h / (1.0 + lockstep.all_reduce(tf.reduce_sum(h**2, axis=0), "sum"))


def summed(y: Any, p: Any) -> Any:
    return tf.reduce_sum((y - p) ** 2) / 8


@long
def check_evaluation_puts_nothing_together() -> None:
    """Keras evaluates and predicts on the whole data on every worker, in batches of any size."""
    x, y = DATA_OF_FIT
    seed_everything(3)
    model = keras.Sequential([layers.Input((x.shape[1],)), layers.Dense(3), OverTheBatch(), layers.Dense(1)])
    model.compile("sgd", lockstep.whole_batch(summed))
    batch = 2 * SIZE + 1

    def rows(first: int) -> Any:
        kernel, bias, last, end = model.get_weights()
        h = x[first : first + batch] @ kernel + bias
        return (h / (1.0 + (h**2).sum(axis=0))) @ last + end

    wanted = np.concatenate([rows(first) for first in range(0, len(x), batch)])
    np.testing.assert_allclose(model.predict(x, batch_size=batch, verbose=0), wanted, atol=1e-5)
    loss = ((wanted[:batch] - y[:batch]) ** 2).sum() / 8
    np.testing.assert_allclose(model.evaluate(x[:batch], y[:batch], batch_size=batch, verbose=0), loss, rtol=1e-5)
    np.testing.assert_allclose(model.test_on_batch(x[:batch], y[:batch]), loss, rtol=1e-5)
    if RANK == 0:  # nor does anybody wait for the others
        model.evaluate(x[:batch], y[:batch], batch_size=batch, verbose=0)
        model.predict(x[:batch], verbose=0)


def headed() -> Any:
    seed_everything(3 + RANK)
    model = keras.Sequential([layers.Input((4,)), layers.Dense(3)])
    lockstep.broadcast(model)
    return model


def two_headed() -> Any:
    seed_everything(3 + RANK)
    inputs = layers.Input((4,))
    hidden = layers.Dense(8, activation="tanh")(inputs)
    heads = [layers.Dense(3, name="a")(hidden), layers.Dense(3, name="b")(hidden)]
    model = keras.Model(inputs, heads)
    lockstep.broadcast(model)
    return model


def assert_same_weights(together: Any, alone: Any, case: Any) -> None:
    for mine, wanted in zip(together.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(mine, wanted, atol=3e-6, err_msg=str(case))
    assert_equal_on_all_ranks(together.get_weights())


def pair(new: Callable[[], Any]) -> tuple[Any, Any]:
    alone, together = new(), new()
    together.set_weights(alone.get_weights())
    seed_everything(5)
    return alone, together


@long
def check_lists_of_losses_with_weights_in_fit() -> None:
    weights = (np.linspace(0.5, 2.0, ROWS).astype("float32"), np.linspace(2.0, 0.5, ROWS).astype("float32"))
    losses = [supervised, "mse"]
    dataset = tf.data.Dataset.from_tensor_slices((X, (LABELS, Y), weights))
    for cut, whole in (
        ("batches", [lockstep.whole_batch(supervised), "mse"]),
        ("arrays", lockstep.whole_batch(losses)),
    ):
        alone, together = pair(two_headed)
        alone.compile(keras.optimizers.SGD(0.05), losses, loss_weights=[1.0, 0.5])
        together.compile(lockstep.distributed_optimizer(keras.optimizers.SGD(0.05)), whole, loss_weights=[1.0, 0.5])
        batches = dataset.batch(2 * SIZE)
        alone.fit(batches, epochs=2, verbose=0, shuffle=False)
        options: dict[str, Any] = {"epochs": 2, "verbose": 0, "shuffle": False, "callbacks": lockstep.callbacks()}
        if cut == "batches":
            together.fit(lockstep.shard_batches(batches, loss="gather"), **options)
        else:
            x, labels, y, *own = lockstep.shard_arrays(X, LABELS, Y, *weights, batch_size=2 * SIZE)
            options["callbacks"] = lockstep.callbacks()
            local = lockstep.local_batch_size(2 * SIZE)
            together.fit(x, [labels, y], sample_weight=list(own), batch_size=local, **options)
        assert_same_weights(together, alone, cut)


@long
def check_losses_that_look_at_the_order_of_rows_in_fit_on_arrays() -> None:
    def triplets(labels: Any, predictions: Any) -> Any:
        anchors, near, far = predictions[0::3], predictions[1::3], predictions[2::3]
        distances = tf.reduce_sum((anchors - near) ** 2, 1) - tf.reduce_sum((anchors - far) ** 2, 1)
        return tf.reduce_mean(tf.nn.relu(distances + 1.0))

    rows = slice(6 * SIZE)
    for size in (3 * SIZE, 6 * SIZE - 3):  # the second with a last batch of one triplet
        alone, together = pair(headed)
        alone.compile(keras.optimizers.SGD(0.05), triplets)
        together.compile(lockstep.distributed_optimizer(keras.optimizers.SGD(0.05)), lockstep.whole_batch(triplets))
        options: dict[str, Any] = {"epochs": 2, "verbose": 0, "shuffle": False}
        alone.fit(X[rows], Y[rows], batch_size=size, **options)
        x, y = lockstep.shard_arrays(X[rows], Y[rows], batch_size=size)
        local = lockstep.local_batch_size(size)
        together.fit(x, y, batch_size=local, callbacks=lockstep.callbacks(), **options)
        assert_same_weights(together, alone, size)


@long
def check_lambdas_in_fit() -> None:
    alone, together = pair(headed)
    alone.compile(keras.optimizers.SGD(0.05), lambda y, p: tf.sqrt(tf.reduce_mean((y - p) ** 2, 0)))
    loss = lockstep.whole_batch(lambda y, p: tf.sqrt(tf.reduce_mean((y - p) ** 2, 0)))
    assert loss.name == "lambda"
    together.compile(lockstep.distributed_optimizer(keras.optimizers.SGD(0.05)), loss)
    batches = tf.data.Dataset.from_tensor_slices((X, Y)).batch(2 * SIZE)
    alone.fit(batches, verbose=0)
    together.fit(lockstep.shard_batches(batches, loss="gather"), verbose=0, callbacks=lockstep.callbacks())
    assert_same_weights(together, alone, "lambda")


@long
def check_masks_in_fit() -> None:
    def masked() -> Any:
        seed_everything(3 + RANK)
        parts = [layers.Input((3, 2)), layers.Masking(0.0), layers.SimpleRNN(4, return_sequences=True), layers.Dense(1)]
        model = keras.Sequential(parts)
        lockstep.broadcast(model)
        return model

    x = _generator.randn(ROWS, 3, 2).astype("float32")
    x[::3, 2:] = 0.0
    y = x.sum(2, keepdims=True)
    alone, together = pair(masked)
    alone.compile("sgd", "mse")
    together.compile(lockstep.distributed_optimizer("sgd"), lockstep.whole_batch(keras.losses.MeanSquaredError()))
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(2 * SIZE)
    alone.fit(batches, epochs=2, verbose=0)
    together.fit(lockstep.shard_batches(batches, loss="gather"), epochs=2, verbose=0, callbacks=lockstep.callbacks())
    assert_same_weights(together, alone, "masks")


run_checks(globals())
