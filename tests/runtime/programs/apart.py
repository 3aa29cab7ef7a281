"""Weights that come apart end the training by themselves, an update later; what is as good as equal does not."""

from __future__ import annotations

import gc
from typing import Any, Callable

import numpy as np
import tensorflow as tf
from checking import long, raised, run_checks, seed_everything

import lockstep
from lockstep.weights import samples

keras = tf.keras
layers = keras.layers
RANK = lockstep.rank()
X = tf.random.stateless_normal([16, 4], [1, RANK])
FOUND = "the first variable that differs is"


def new_model() -> Any:
    samples._reductions = 0
    gc.collect()  # models of earlier checks, which would be compared as well
    seed_everything(3)
    model = keras.Sequential([layers.Input((4,)), layers.Dense(3, name="first"), layers.Dense(1, name="second")])
    return lockstep.broadcast(model)


def training(model: Any, in_graph: bool, reduced: Callable[[Any], Any], rate: float = 0.1) -> Callable[[int], None]:
    optimizer = keras.optimizers.SGD(rate)

    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(X, training=True) - X[:, :1]))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(reduced(gradients), model.trainable_variables))

    function = tf.function(step) if in_graph else step

    def train(steps: int) -> None:
        for _ in range(steps):
            function()

    return train


def drop(gradients: Any) -> Any:
    lockstep.all_reduce(gradients)
    return gradients


def error(in_graph: bool) -> type[Exception]:
    return tf.errors.OpError if in_graph else lockstep.MismatchError


def check_gradients_whose_reduction_is_dropped() -> None:
    for in_graph in (True, False):
        train = training(new_model(), in_graph, drop)
        train(1)
        message = raised(error(in_graph), train, 1)
        for said in (f"rank {RANK} of 2", FOUND, "first/kernel", "LOCKSTEP_CHECK=0"):
            assert said in message, message
        del train  # and with it the model, which would be compared from now on


def check_a_learning_rate_of_each_workers_own() -> None:
    for in_graph in (True, False):
        assert FOUND in raised(
            error(in_graph), training(new_model(), in_graph, lockstep.all_reduce, 0.1 + RANK / 100), 4
        )


def check_weights_that_were_never_broadcast_in_fit() -> None:
    for eagerly in (False, True):
        samples._reductions = 0
        model = keras.Sequential([layers.Input((4,)), layers.Dense(1, name="mine")])
        model.set_weights([weights + RANK for weights in model.get_weights()])
        model.compile(lockstep.distributed_optimizer(keras.optimizers.SGD(0.1)), "mse", run_eagerly=eagerly)
        message = raised(error(not eagerly), model.fit, X, X[:, :1], verbose=0, callbacks=lockstep.callbacks())
        assert FOUND in message, message
        assert "mine" in message, message
        del model


@long
def check_equal_weights_pass_eagerly_in_functions_and_in_fit() -> None:
    for in_graph in (True, False):
        training(new_model(), in_graph, lockstep.all_reduce)(40)
    model = new_model()
    model.compile(lockstep.distributed_optimizer(keras.optimizers.Adam(0.1)), "mse")
    model.fit(X, X[:, :1], batch_size=4, epochs=3, verbose=0, callbacks=lockstep.callbacks())


@long
def check_weights_that_are_no_numbers_are_left_to_the_script() -> None:
    model = new_model()
    model.set_weights([np.full_like(weights, np.nan) for weights in model.get_weights()])
    for in_graph in (True, False):
        training(model, in_graph, lockstep.all_reduce)(2)


def check_a_reduction_in_a_forward_pass_has_the_gradients_that_it_had() -> None:
    model = new_model()
    other = lockstep.broadcast(tf.Variable([1.0, 2.0]))
    with tf.GradientTape() as tape:
        sums = lockstep.all_reduce(tf.reduce_sum(model(X), 0), "sum")
        loss = tf.reduce_sum(tf.square(sums))
    gradients = tape.gradient(loss, [*model.trainable_variables, other])
    assert gradients[-1] is None
    assert all(isinstance(gradient, tf.Tensor) for gradient in gradients[:-1])


def check_what_is_not_trained_may_differ_and_what_rounding_makes_of_the_rest() -> None:
    model = new_model()
    own = tf.Variable(tf.fill([5], float(RANK)), trainable=False)
    rounded = tf.Variable(tf.fill([5], 1.0 + RANK * 1e-6))
    empty = tf.Variable(tf.zeros([0, 3]))
    table = tf.Variable(tf.zeros([2, samples._MOST_ENTRIES]))
    number = tf.Variable(3.0, dtype=tf.float64)
    lockstep.broadcast([own, rounded, empty, table, number])
    own.assign_add(tf.fill([5], float(RANK)))
    rounded.assign_add(tf.fill([5], RANK * 1e-6))
    table.assign_add(tf.ones_like(table) * RANK)
    for in_graph in (True, False):
        training(model, in_graph, lockstep.all_reduce)(2)
    number.assign_add(RANK)
    assert "Variable" in raised(lockstep.MismatchError, training(model, False, lockstep.all_reduce), 1)


run_checks(globals())
