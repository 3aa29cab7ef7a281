"""broadcast of what holds models and variables: pairs, dicts, objects, modules that grow, checkpoints; and of texts."""

from __future__ import annotations

import functools
import os
import pathlib
import tempfile
from typing import Any

import numpy as np
import tensorflow as tf
from checking import assert_equal_on_all_ranks, of_all_ranks, raised, run_checks, seed_everything

import lockstep

keras = tf.keras
layers = keras.layers
RANK, SIZE = lockstep.rank(), lockstep.size()
X = np.linspace(-1, 1, 12).reshape(4, 3).astype("float32")


def model() -> Any:
    seed_everything(1000 + RANK)
    return keras.Sequential([layers.Input((3,)), layers.Dense(2)])


def arrays(variables: Any) -> list[Any]:
    return [np.asarray(variable) for variable in variables]


def own(value: float = 0.0) -> tf.Variable:
    return tf.Variable([RANK + value])


def check_pairs_and_dicts_with_names() -> None:
    first, second = model(), model()
    pairs = lockstep.broadcast([(first, "generator"), (second, f"of rank {RANK}")])
    assert pairs[0][0] is first
    assert pairs[1][1] == "of rank 0"
    assert_equal_on_all_ranks([*first.get_weights(), *second.get_weights()])
    held = lockstep.broadcast({"model": model(), "epoch": RANK + 3, "loss": tf.constant(RANK), "path": None}, SIZE - 1)
    assert_equal_on_all_ranks(held["model"].get_weights())
    assert (held["epoch"], int(held["loss"]), held["path"]) == (SIZE + 2, SIZE - 1, None)


def check_texts() -> None:
    assert lockstep.broadcast(f"runs/{RANK}é") == "runs/0é"
    assert lockstep.broadcast(None) is None
    assert lockstep.broadcast((None, {"end": None})) == (None, {"end": None})
    sent = lockstep.broadcast({"p": pathlib.Path(f"a{RANK}"), "b": b"\xff%d" % RANK, "n": RANK, "none": None}, 1)
    assert sent == {"p": pathlib.Path("a1"), "b": b"\xff1", "n": 1, "none": None}
    names = lockstep.broadcast([np.array([f"x{RANK}"] * (RANK + 1)), tf.constant([[f"t{RANK}"]])])
    assert names[0].tolist() == ["x0"]
    assert names[1].numpy().tolist() == [[b"t0"]]
    latest = lockstep.broadcast("ckpt-3" if RANK == 0 else "")
    assert latest == "ckpt-3"
    raised(lockstep.MismatchError, lockstep.broadcast, "text" if RANK == 0 else 3)


class Trainer:
    """A class of the script that holds what it trains."""

    def __init__(self) -> None:
        self.networks = {"actor": model(), "critic": [model()]}
        self.scale = own(5.0)
        self.optimizer = keras.optimizers.SGD(0.1 * (RANK + 1))
        self.me = self
        self.name = "trainer"


class Slotted:
    __slots__ = ("unset", "weight")

    def __init__(self) -> None:
        self.weight = own()


class Uses:
    """Holds nothing: works on global variables."""

    def step(self) -> Any:
        return X


def check_objects_that_hold_models() -> None:
    trainer, slotted = Trainer(), Slotted()
    assert lockstep.broadcast(trainer) is trainer
    lockstep.broadcast([slotted])
    networks = [trainer.networks["actor"], *trainer.networks["critic"]]
    assert_equal_on_all_ranks([weight for network in networks for weight in network.get_weights()])
    assert_equal_on_all_ranks([trainer.scale.numpy(), slotted.weight.numpy()])
    assert float(trainer.scale[0]) == 5.0
    assert "holds none" in raised(TypeError, lockstep.broadcast, Uses())
    assert "Uses" in raised(TypeError, lockstep.broadcast, [trainer, Uses()])


class Networks(keras.Model):  # type: ignore[misc]
    """Holds networks where Keras does not look, one of which has no weights yet."""

    shared: Any = None

    def __init__(self) -> None:
        super().__init__()
        seed_everything(1000 + RANK)
        vars(self)["early"] = model()
        vars(self).update(late=keras.Sequential([layers.Dense(4), layers.BatchNormalization(), layers.Dense(2)]))
        self.trainer, self.module = Trainer(), tf.Module()
        self.module.parts = {"a": model(), "b": functools.partial(model())}

    def call(self, x: Any) -> Any:
        return self.late(self.early(x))


def check_what_keras_does_not_track() -> None:
    Networks.shared = own(7.0)
    holder = Networks()
    lockstep.broadcast(holder)
    held = [holder.early, holder.trainer.networks["actor"], holder.module.parts["a"], holder.module.parts["b"].func]
    assert_equal_on_all_ranks([weight for network in held for weight in network.get_weights()])
    assert_equal_on_all_ranks([holder.trainer.scale.numpy(), holder.shared.numpy()])
    assert_equal_on_all_ranks([holder(tf.constant(X)).numpy(), *holder.late.get_weights()])


class Counting(keras.metrics.Metric):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.seen = self.add_weight(name="seen", initializer="zeros")

    def update_state(self, values: Any) -> None:
        self.seen.assign_add(values)

    def result(self) -> Any:
        return self.seen


def check_what_a_metric_has_counted_stays() -> None:
    holder = keras.Sequential([layers.Input((3,)), layers.Dense(2)])
    counting = Counting()
    counting.update_state(RANK + 1.0)
    vars(holder)["counting"] = {"a": [counting]}
    lockstep.broadcast(holder)
    assert of_all_ranks(float(counting.result())) == [rank + 1.0 for rank in range(SIZE)]


class Late(tf.Module):  # type: ignore[misc]
    """As in TensorFlow's guide: the shape of the weights is known when the first batch comes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.is_built = False

    def __call__(self, x: Any) -> Any:
        if not self.is_built:
            self.w = tf.Variable(tf.random.normal([x.shape[-1], self.width]))
            self.b = tf.Variable(tf.random.normal([self.width]))
            self.is_built = True
        return tf.matmul(x, self.w) + self.b


class Network(tf.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.parts = [Late(4), Late(2)]
        self.dense = layers.Dense(3)
        self.made: Any = None

    def __call__(self, x: Any) -> Any:
        if self.made is None:
            self.made = layers.Dense(2)
        for part in self.parts:
            x = tf.tanh(part(x))
        return self.made(self.dense(x))

    def everything(self) -> list[Any]:
        own = [v for part in self.parts for v in (part.w, part.b)]
        return own + list(self.dense.variables) + list(self.made.variables)


def check_modules_that_get_their_variables_late() -> None:
    for wrapped in (False, True):
        seed_everything(1000 + RANK)
        network = Network()
        lockstep.broadcast({"network": network} if wrapped else network)
        call = tf.function(lambda x, network=network: network(x)) if wrapped else network
        assert_equal_on_all_ranks([call(tf.constant(X)).numpy()])
        assert_equal_on_all_ranks(arrays(network.everything()))
        assert len(set(arrays(network.everything())[0].ravel().tolist())) > 2


def check_the_first_step_of_a_late_module() -> None:
    """In a function that also reduces, on each rank's own rows: as one process that had the chief's weights."""
    seed_everything(1000 + RANK)
    network = Late(2)
    lockstep.broadcast(network)
    x = np.repeat(X, SIZE, axis=0)

    @tf.function
    def step(rows: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(network(rows) ** 2)
        gradients = lockstep.all_reduce(tape.gradient(loss, [network.w, network.b]))
        for variable, gradient in zip((network.w, network.b), gradients):
            variable.assign_sub(0.1 * gradient)
        return gradients

    gradients = step(tf.constant(x[RANK::SIZE]))
    assert_equal_on_all_ranks(arrays([network.w, network.b]))
    with tf.GradientTape() as tape:
        first = [network.w + 0.1 * gradients[0], network.b + 0.1 * gradients[1]]
        tape.watch(first)
        loss = tf.reduce_mean((tf.matmul(x, first[0]) + first[1]) ** 2)
    for found, wanted in zip(gradients, tape.gradient(loss, first)):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def check_variables_that_nobody_saw_are_told() -> None:
    class Hidden(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.parts: list[Any] = []

        def __call__(self, x: Any) -> Any:
            if not self.parts:
                self.parts.append(tf.Variable([float(RANK)]))
            return x * self.parts[0]

    hidden = Hidden()
    lockstep.broadcast(hidden)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(hidden(tf.ones([2])))
    text = raised(lockstep.LockstepError, lockstep.all_reduce, tape.gradient(loss, hidden.parts))
    assert "Hidden got 1 variables" in text


def check_a_checkpoint_with_its_counters() -> None:
    """The chief alone has the files: what it restores reaches the weights, the optimizer and the counters of all."""

    def make() -> tuple[Any, Any, Any, Any]:
        network, optimizer, step = model(), keras.optimizers.Adam(0.1), tf.Variable(0, dtype=tf.int64)
        return network, optimizer, step, tf.train.Checkpoint(model=network, optimizer=optimizer, step=step)

    def train(network: Any, optimizer: Any, factor: float) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(network(X) ** 2) * factor
        optimizer.apply_gradients(zip(tape.gradient(loss, network.trainable_variables), network.trainable_variables))

    with tempfile.TemporaryDirectory() as folder:
        network, optimizer, step, checkpoint = make()
        train(network, optimizer, 1.0 + RANK)
        step.assign(17 + RANK)
        manager = tf.train.CheckpointManager(checkpoint, os.path.join(folder, str(RANK)), max_to_keep=2)
        if RANK == 0:
            manager.save()
        saved = network.get_weights()
        network, optimizer, step, checkpoint = make()
        manager = tf.train.CheckpointManager(checkpoint, os.path.join(folder, str(RANK)), max_to_keep=2)
        checkpoint.restore(manager.latest_checkpoint)
        lockstep.broadcast(manager)
        assert int(step) == 17
        assert of_all_ranks(int(checkpoint.save_counter)) == [1] * SIZE
        assert_equal_on_all_ranks(network.get_weights())
        if RANK == 0:
            np.testing.assert_array_equal(network.get_weights()[0], saved[0])
        # Adam's moments are the chief's on all: the next step, on one gradient, is the same.
        train(network, optimizer, 1.0)
        assert_equal_on_all_ranks(network.get_weights())
        assert int(np.asarray(optimizer.iterations)) == 2


run_checks(globals())
