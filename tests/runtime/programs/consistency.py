"""LOCKSTEP_CHECK: weights that differ between the workers end the training with the name of the first."""

from __future__ import annotations

import gc
import os
from typing import Any

import tensorflow as tf

os.environ["LOCKSTEP_CHECK"] = "3"

from checking import raised, run_checks, seed_everything

import lockstep
from lockstep.weights import consistency

keras = tf.keras
layers = keras.layers
RANK, SIZE = lockstep.rank(), lockstep.size()
X = tf.random.stateless_normal([16, 4], [1, RANK])


def new_model() -> Any:
    seed_everything(3)
    model = keras.Sequential([layers.Input((4,)), layers.Dense(3, name="first"), layers.Dense(1, name="second")])
    lockstep.broadcast(model)
    return model


def start_counting() -> None:
    consistency._counter().assign(0)


def check_equal_weights_pass_in_fit_and_by_hand() -> None:
    start_counting()
    model = new_model()
    model.compile(lockstep.distributed_optimizer(keras.optimizers.Adam(0.1)), "mse")
    model.fit(X, X[:, :1], batch_size=4, epochs=3, verbose=0, callbacks=lockstep.callbacks())
    train(new_model(), True, True, 7)
    train(new_model(), True, False, 7)
    assert int(consistency._counter()) == 12 + 14


def train(model: Any, reduces: bool, in_graph: bool, steps: int) -> None:
    optimizer = keras.optimizers.SGD(0.1)

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(X, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        reduced = lockstep.all_reduce(gradients)
        optimizer.apply_gradients(zip(reduced if reduces else gradients, model.trainable_variables))

    function = tf.function(step) if in_graph else step
    for _ in range(steps):
        function()


def difference_after_three_updates(in_graph: bool) -> str:
    start_counting()
    model = new_model()
    train(model, False, in_graph, 3)
    return raised(tf.errors.OpError if in_graph else lockstep.MismatchError, train, model, False, in_graph, 1)


def check_a_dropped_result_is_found_after_three_updates() -> None:
    for in_graph in (True, False):
        message = difference_after_three_updates(in_graph)
        assert "after 3 updates" in message, message
        assert "first/kernel" in message.split("the first is")[1]
        assert "on rank 1 is another than on rank 0" in message
        gc.collect()  # the model, which would be compared from now on


def check_weights_that_were_never_broadcast_are_found_in_fit() -> None:
    start_counting()
    model = keras.Sequential([layers.Input((4,)), layers.Dense(3, name="mine")])
    model.set_weights([weights + RANK for weights in model.get_weights()])
    model.compile(lockstep.distributed_optimizer(keras.optimizers.SGD(0.1)), "mse")
    message = raised(tf.errors.OpError, model.fit, X, X[:, :3], batch_size=4, verbose=0, callbacks=lockstep.callbacks())
    assert "after 0 updates" in message, message
    assert "mine" in message


def check_an_interval_that_is_no_number() -> None:
    os.environ["LOCKSTEP_CHECK"] = "often"
    assert "often" in raised(lockstep.JoinError, consistency.interval_from_environment)


run_checks(globals())
