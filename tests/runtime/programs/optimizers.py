"""Training with distributed optimizers equals training in one process, which each worker does too, beside it."""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
import pickle
import tempfile
from typing import Any, Callable

import numpy as np
import tensorflow as tf
from checking import assert_equal_on_all_ranks, long, of_all_ranks, raised, run_checks, seed_everything

import lockstep

keras = tf.keras
layers = keras.layers
RANK, SIZE = lockstep.rank(), lockstep.size()
TENSORFLOW = tuple(int(part) for part in tf.__version__.split(".")[:2])
LEGACY = getattr(keras, "__version__", "2").startswith("2")
# Keras 3 cannot read the HDF5 file of any model that was compiled with loss="mse"; the other format came later.
FORMATS = ["model.h5"] * LEGACY + ["model.keras"] * (TENSORFLOW >= (2, 12))
STEPS, BATCH = 12, 8
_generator = np.random.RandomState(7)
X = _generator.standard_normal([STEPS * BATCH, 5]).astype("float32")
Y = (X @ _generator.standard_normal([5, 1])).astype("float32")
WORDS = _generator.randint(0, 20, [STEPS * BATCH, 3])


def new_model(seed: int = 3) -> Any:
    seed_everything(seed)
    return keras.Sequential(
        [
            layers.Input((5,)),
            layers.Dense(8, activation="tanh", kernel_regularizer=keras.regularizers.L2(0.01)),
            layers.Dense(1),
        ]
    )


def new_word_model() -> Any:
    seed_everything(3)
    return keras.Sequential(
        [layers.Input((3,), dtype="int32"), layers.Embedding(20, 4), layers.Flatten(), layers.Dense(1)]
    )


def fit(model: Any, optimizer: Any, x: Any, y: Any, batch: int, **compile_options: Any) -> None:
    model.compile(optimizer, "mse", **compile_options)
    model.fit(x, y, batch_size=batch, epochs=2, shuffle=False, verbose=0)


def own(x: Any) -> Any:
    """The rank's share, such that the ranks' k-th local batches are the k-th global batch."""
    return lockstep.shard_arrays(x)


def assert_like_one_process(
    optimizer: Callable[[], Any],
    new: Callable[[], Any] = new_model,
    x: Any = X,
    tolerance: float = 2e-6,
    **options: Any,
) -> Any:
    alone, together = new(), new()
    fit(alone, optimizer(), x, Y, BATCH, **options)
    distributed = lockstep.distributed_optimizer(optimizer())
    fit(together, distributed, own(x), own(Y), BATCH // SIZE, **options)
    for mine, wanted in zip(together.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(mine, wanted, atol=tolerance)
    assert_equal_on_all_ranks(together.get_weights())
    return together


def check_sgd() -> None:
    assert_like_one_process(lambda: keras.optimizers.SGD(0.05, momentum=0.9))


def check_adam_with_clipping() -> None:
    assert_like_one_process(lambda: keras.optimizers.Adam(0.01, global_clipnorm=0.1))


@long
def check_clipping_by_each_gradient() -> None:
    assert_like_one_process(lambda: keras.optimizers.Adam(0.01, clipnorm=0.1))
    assert_like_one_process(lambda: keras.optimizers.SGD(0.05, clipvalue=0.02))


@long
def check_rmsprop_adagrad_and_decay() -> None:
    assert_like_one_process(lambda: keras.optimizers.RMSprop(0.01))
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 4, 0.5)
    assert_like_one_process(lambda: keras.optimizers.Adagrad(schedule))


@long
def check_eager_and_several_steps_per_execution() -> None:
    sgd = lambda: keras.optimizers.SGD(0.05)  # noqa: E731
    assert_like_one_process(sgd, run_eagerly=True)
    assert_like_one_process(sgd, steps_per_execution=4)
    assert_like_one_process(sgd, steps_per_execution=5)


@long
def check_embeddings() -> None:
    for name in ("SGD", "Adam", "RMSprop", "Adagrad"):
        assert_like_one_process(lambda name=name: getattr(keras.optimizers, name)(0.05), new_word_model, WORDS)


def check_the_check_itself() -> None:
    """Without the wrapper the weights do not equal those of one process: the comparisons above can fail."""
    alone, together = new_model(), new_model()
    fit(alone, keras.optimizers.SGD(0.05), X, Y, BATCH)
    fit(together, keras.optimizers.SGD(0.05), own(X), own(Y), BATCH // SIZE)
    difference = max(np.abs(a - b).max() for a, b in zip(alone.get_weights(), together.get_weights()))
    assert difference > 1e-3


def check_train_on_batch() -> None:
    alone, together = new_model(), new_model()
    alone.compile(keras.optimizers.Adam(0.01), "mse")
    together.compile(lockstep.distributed_optimizer(keras.optimizers.Adam(0.01)), "mse")
    x, y = own(X), own(Y)
    for k in range(6):
        alone.train_on_batch(X[k * BATCH : (k + 1) * BATCH], Y[k * BATCH : (k + 1) * BATCH])
        part = slice(k * BATCH // SIZE, (k + 1) * BATCH // SIZE)
        together.train_on_batch(x[part], y[part])
    for mine, wanted in zip(together.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(mine, wanted, atol=2e-6)


def steps_by_hand(update: Callable[[Any, Any, list[Any], list[Any]], None], optimizer: Any, share: bool) -> Any:
    model = new_model()
    x, y, batch = (own(X), own(Y), BATCH // SIZE) if share else (X, Y, BATCH)

    @tf.function
    def step(bx: tf.Tensor, by: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(bx, training=True) - by) ** 2)
        update(optimizer, loss, tape.gradient(loss, model.trainable_variables), model.trainable_variables)

    for k in range(8):
        step(tf.constant(x[k * batch : (k + 1) * batch]), tf.constant(y[k * batch : (k + 1) * batch]))
    return model


def check_custom_loops() -> None:
    updates = [lambda o, loss, grads, variables: o.apply_gradients(zip(grads, variables))]
    updates.append(lambda o, loss, grads, variables: o.apply_gradients(list(zip(grads, variables))))
    if not LEGACY:
        updates.append(lambda o, loss, grads, variables: o.apply(grads, variables))
        updates.append(lambda o, loss, grads, variables: o.apply(grads, trainable_variables=variables))
    alone = steps_by_hand(updates[0], keras.optimizers.Adam(0.01), share=False)
    for update in updates:
        distributed = lockstep.distributed_optimizer(keras.optimizers.Adam(0.01))
        together = steps_by_hand(update, distributed, share=True)
        for mine, wanted in zip(together.get_weights(), alone.get_weights()):
            np.testing.assert_allclose(mine, wanted, atol=2e-6)


def check_minimize_of_keras_2() -> None:
    if not LEGACY:
        return
    legacy = getattr(keras.optimizers, "legacy", keras.optimizers)
    for cls in (keras.optimizers.SGD, legacy.SGD, legacy.Adam):
        variable = tf.Variable([1.0, 2.0])
        optimizer = lockstep.distributed_optimizer(cls(0.1))
        for _ in range(3):
            optimizer.minimize(lambda v=variable: tf.reduce_sum(v**2) * (RANK + 1.0), [variable])
        expected, plain = tf.Variable([1.0, 2.0]), cls(0.1)
        for _ in range(3):
            plain.minimize(lambda v=expected: tf.reduce_sum(v**2) * (SIZE + 1) / 2, [expected])
        np.testing.assert_allclose(variable, expected, rtol=1e-5)


def check_sum_and_none_gradients() -> None:
    first, second = tf.Variable([1.0]), tf.Variable([1.0])
    optimizer = lockstep.distributed_optimizer(keras.optimizers.SGD(1.0), reduction="sum")
    optimizer.apply_gradients([(tf.constant([RANK + 1.0]), first), (None, second)])
    assert first.numpy() == 1 - SIZE * (SIZE + 1) / 2
    assert second.numpy() == 1


def check_what_is_taken_and_what_comes_back() -> None:
    optimizer = keras.optimizers.Adam(0.25)
    distributed = lockstep.distributed_optimizer(optimizer)
    assert distributed is optimizer
    assert isinstance(distributed, keras.optimizers.Adam)
    cls = type(distributed)
    assert type(lockstep.distributed_optimizer(distributed)) is cls
    assert cls.__name__ == "Adam"
    assert abs(float(distributed.get_config()["learning_rate"]) - 0.25) < 1e-6
    assert type(keras.optimizers.Adam()) is not cls
    named = lockstep.distributed_optimizer("rmsprop")
    assert isinstance(named, keras.optimizers.RMSprop)
    several = lockstep.distributed_optimizer({"a": "adam", "b": [keras.optimizers.SGD()]})
    assert isinstance(several["a"], keras.optimizers.Adam)
    raised(TypeError, lockstep.distributed_optimizer, 3)
    raised(TypeError, lockstep.distributed_optimizer, keras.optimizers.Adam)
    raised(ValueError, lockstep.distributed_optimizer, optimizer, "max")


def check_twice_wrapped_reduces_once() -> None:
    variable = tf.Variable([1.0])
    optimizer = lockstep.distributed_optimizer(keras.optimizers.SGD(1.0), "sum")
    optimizer = lockstep.distributed_optimizer(optimizer, "sum")
    optimizer.apply_gradients([(tf.constant([1.0]), variable)])
    assert variable.numpy() == 1 - SIZE


def check_saving_a_compiled_model() -> None:
    model = assert_like_one_process(lambda: keras.optimizers.Adam(0.01))
    with tempfile.TemporaryDirectory() as folder:
        for name in FORMATS:
            path = os.path.join(folder, name)
            model.save(path)
            restored = keras.models.load_model(path)
            assert type(restored.optimizer).__name__ == "Adam"
            for mine, wanted in zip(restored.get_weights(), model.get_weights()):
                np.testing.assert_array_equal(mine, wanted)
            assert int(np.asarray(restored.optimizer.iterations)) == int(np.asarray(model.optimizer.iterations))
        path = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(os.path.join(folder, "checkpoint"))
        again = new_model(seed=99)
        optimizer = lockstep.distributed_optimizer(keras.optimizers.Adam(0.01))
        again.compile(optimizer, "mse")
        tf.train.Checkpoint(model=again, optimizer=optimizer).restore(path)
        again.train_on_batch(own(X), own(Y))
        model.train_on_batch(own(X), own(Y))
        for mine, wanted in zip(again.get_weights(), model.get_weights()):
            np.testing.assert_allclose(mine, wanted, atol=1e-7)


class Registered(keras.optimizers.SGD):  # type: ignore[misc, name-defined]
    """A user's own optimizer."""


def check_a_users_own_optimizer_is_saved_and_loaded() -> None:
    model = new_model()
    fit(model, lockstep.distributed_optimizer(Registered(0.05)), own(X), own(Y), BATCH // SIZE)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, FORMATS[-1])
        model.save(path)
        restored = keras.models.load_model(path, custom_objects={"Registered": Registered})
        assert type(restored.optimizer) is Registered


class Normalized(keras.optimizers.SGD):  # type: ignore[misc, name-defined]
    """Works on the gradients before Keras gets them, which have to be those of the global batch by then."""

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = list(grads_and_vars)
        norm = tf.linalg.global_norm([gradient for gradient, _ in pairs])
        return super().apply_gradients([(g / norm, v) for g, v in pairs], *args, **kwargs)


def check_a_users_own_apply_gradients() -> None:
    assert_like_one_process(lambda: Normalized(0.05))


def step_of_one(optimizer: Any) -> float:
    """Where a variable ends that starts at 0, after one step of a rate of 1 on gradients of rank + 1."""
    variable = tf.Variable([0.0])
    optimizer.apply_gradients([(tf.constant([RANK + 1.0]), variable)])
    return float(variable.numpy()[0])


def check_copies_and_the_saved_form() -> None:
    plain, distributed = (keras.optimizers.SGD(1.0, name="sgd") for _ in range(2))
    lockstep.distributed_optimizer(distributed)
    assert keras.optimizers.serialize(distributed) == keras.optimizers.serialize(plain)
    assert distributed.__class__ is keras.optimizers.SGD
    mean = -(SIZE + 1) / 2
    assert step_of_one(type(distributed).from_config(distributed.get_config())) == mean
    assert step_of_one(keras.optimizers.SGD.from_config(distributed.get_config())) == -(RANK + 1.0)
    with contextlib.suppress(RuntimeError):  # some Keras 2 cannot copy any optimizer
        copy.deepcopy(plain)
        assert step_of_one(copy.deepcopy(distributed)) == mean
    assert step_of_one(distributed) == mean
    with contextlib.suppress(AttributeError, TypeError):  # nor pickle one
        pickle.dumps(plain)
        assert type(pickle.loads(pickle.dumps(distributed))) is keras.optimizers.SGD


@long
def check_averages_of_weights_and_accumulated_gradients() -> None:
    if LEGACY and TENSORFLOW < (2, 11):
        return
    averaged = {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 3}
    assert_like_one_process(lambda: keras.optimizers.SGD(0.1, **averaged))
    if not LEGACY:
        clipped = {"gradient_accumulation_steps": 3, "clipnorm": 0.5}
        assert_like_one_process(lambda: keras.optimizers.Adam(0.01, **clipped))
        assert_like_one_process(lambda: loss_scaler(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)))


def check_optimizers_of_version_1() -> None:
    optimizer = lockstep.distributed_optimizer(tf.compat.v1.train.MomentumOptimizer(1.0, 0.9))
    variable = tf.Variable([0.0])
    optimizer.minimize(lambda: variable * (RANK + 1.0), var_list=[variable])
    assert variable.numpy()[0] == -(SIZE + 1) / 2


def loss_scaler(inner: Any) -> Any:
    return keras.mixed_precision.LossScaleOptimizer(inner)


@long
def check_a_loss_scaler_wrapped_outside_or_inside() -> None:
    for wrap in (
        lambda: lockstep.distributed_optimizer(loss_scaler(keras.optimizers.SGD(0.05))),
        lambda: loss_scaler(lockstep.distributed_optimizer(keras.optimizers.SGD(0.05))),
        lambda: lockstep.distributed_optimizer(loss_scaler(lockstep.distributed_optimizer(keras.optimizers.SGD(0.05)))),
    ):
        alone, together = new_model(), new_model()
        fit(alone, loss_scaler(keras.optimizers.SGD(0.05)), X, Y, BATCH)
        fit(together, wrap(), own(X), own(Y), BATCH // SIZE)
        for mine, wanted in zip(together.get_weights(), alone.get_weights()):
            np.testing.assert_allclose(mine, wanted, atol=2e-6)


def check_mixed_precision_when_one_rank_alone_overflows() -> None:
    """Keras wraps the optimizer by itself; the step must be left out on all ranks, not on one, and not hang."""
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        model = new_model()
        model.compile(lockstep.distributed_optimizer(keras.optimizers.SGD(0.01)), "mse")
        x, y = own(X), own(Y).copy()
        if RANK == SIZE - 1:
            y[:4] = 1e30
        before = [w.copy() for w in model.get_weights()]
        model.fit(x[:4], y[:4], batch_size=4, epochs=1, shuffle=False, verbose=0)
        for mine, wanted in zip(model.get_weights(), before):
            np.testing.assert_array_equal(mine, wanted)
        model.fit(x[4:], y[4:], batch_size=4, epochs=1, shuffle=False, verbose=0)
        assert_equal_on_all_ranks(model.get_weights())
        assert any((mine != wanted).any() for mine, wanted in zip(model.get_weights(), before))
        assert all(np.isfinite(w).all() for w in model.get_weights())
    finally:
        keras.mixed_precision.set_global_policy("float32")


def check_jit_compile() -> None:
    if "jit_compile" not in inspect.signature(keras.Model.compile).parameters:
        return
    model = new_model()
    model.compile(lockstep.distributed_optimizer(keras.optimizers.SGD(0.05)), "mse", jit_compile=True)
    message = raised(lockstep.LockstepError, model.train_on_batch, own(X)[:4], own(Y)[:4])
    assert "jit_compile=False" in message
    model = new_model()
    model.compile(lockstep.distributed_optimizer(keras.optimizers.SGD(0.05)), "mse", jit_compile=True)
    model.fit(own(X), own(Y), verbose=0, shuffle=False, callbacks=lockstep.callbacks())
    assert_equal_on_all_ranks(model.get_weights())
    assert of_all_ranks(bool(model.jit_compile)) == [False] * SIZE


run_checks(globals())
