"""broadcast of models: also of weights that come into being later, before anything is computed with them."""

from __future__ import annotations

import copy
import os
import random
import tempfile
from typing import Any

import numpy as np
import tensorflow as tf
from checking import assert_equal_on_all_ranks, of_all_ranks, raised, run_checks, seed_everything

import lockstep

keras = tf.keras
layers = keras.layers
RANK, SIZE = lockstep.rank(), lockstep.size()
TENSORFLOW = tuple(int(part) for part in tf.__version__.split(".")[:2])
LEGACY = getattr(keras, "__version__", "2").startswith("2")
BATCH = np.linspace(-1, 1, 12).reshape(4, 3).astype("float32")


def start_differently() -> None:
    """What every check begins with: from here on each rank draws other initial weights."""
    seed_everything(1000 + RANK)


def assert_differ(model: Any) -> None:
    sums = of_all_ranks(sum(float(np.abs(w).sum()) for w in model.get_weights()))
    assert len(set(sums)) == SIZE, "the ranks started alike: the check would prove nothing"


class Subclassed(keras.Model):  # type: ignore[misc, name-defined]
    """Layers of all times: made in __init__, in build, used directly from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = keras.Sequential([layers.Dense(4), layers.BatchNormalization()])
        self.decoder = layers.Dense(2)

    def build(self, input_shape: Any) -> None:
        self.scale = self.add_weight(shape=(2,), initializer="random_normal", name="scale")
        self.late = layers.Dense(2)
        super().build(input_shape)

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self.late(self.decoder(self.encoder(inputs, training=training))) * self.scale


def check_a_built_model_with_all_its_weights() -> None:
    start_differently()
    model = keras.Sequential([layers.Input((3,)), layers.Dense(4), layers.BatchNormalization(), layers.Dense(1)])
    model.layers[1].moving_mean.assign([float(RANK + 1)] * 4)
    assert_differ(model)
    chief = of_all_ranks([weight.tolist() for weight in model.get_weights()])[1]
    assert lockstep.broadcast(model, root_rank=1) is model
    for mine, sent in zip(model.get_weights(), chief):
        np.testing.assert_array_equal(mine, np.asarray(sent, mine.dtype))


def check_models_optimizers_modules_and_variables_together() -> None:
    start_differently()
    model = keras.Sequential([layers.Input((3,)), layers.Dense(4)])
    optimizer = keras.optimizers.Adam(0.1 + RANK)
    optimizer.apply_gradients([(tf.zeros_like(v), v) for v in model.trainable_variables])
    module = tf.Module()
    module.weight = tf.Variable(tf.random.normal([3]))
    lockstep.broadcast({"models": [model], "rest": (optimizer, module)})
    variables = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
    assert_equal_on_all_ranks([*model.get_weights(), module.weight, *[np.asarray(v) for v in variables]])
    if not LEGACY:  # there the learning rate is none of the optimizer's variables
        np.testing.assert_allclose(np.asarray(optimizer.learning_rate), 0.1)


def check_what_has_no_variables_is_refused() -> None:
    raised(ValueError, lockstep.broadcast, [])
    for holds_none in (object(), {1, 2}, len, [keras.Model, "text"]):
        raised(TypeError, lockstep.broadcast, holds_none)


def first_output_is_the_same(model: Any, call: Any) -> None:
    """The first result already comes from the same weights, bit by bit, and weights differ without it."""
    assert_equal_on_all_ranks([np.asarray(call(BATCH))])
    assert_equal_on_all_ranks(model.get_weights())
    assert len(model.get_weights()) > 0


def check_without_broadcast_ranks_differ() -> None:
    start_differently()
    for make in (lambda: keras.Sequential([layers.Dense(4), layers.Dense(1)]), Subclassed):
        model = make()
        model(BATCH)
        assert_differ(model)


def check_a_sequential_without_input_shape() -> None:
    start_differently()
    model = keras.Sequential([layers.Dense(4), layers.Dense(1)])
    lockstep.broadcast(model)
    first_output_is_the_same(model, model)


def check_a_layer_that_the_script_builds_by_hand() -> None:
    start_differently()
    layer = layers.Dense(4)
    lockstep.broadcast(layer)
    layer.build((None, 3))
    assert_differ(layer)
    first_output_is_the_same(layer, layer)


def check_a_subclassed_model_called_eagerly() -> None:
    start_differently()
    model = Subclassed()
    lockstep.broadcast(model)
    first_output_is_the_same(model, model)


def check_a_subclassed_model_first_called_in_a_function() -> None:
    start_differently()
    model = Subclassed()
    lockstep.broadcast(model)
    first_output_is_the_same(model, tf.function(lambda x: model(x, training=True)))


def check_a_layer_of_the_model_called_directly() -> None:
    start_differently()
    model = Subclassed()
    lockstep.broadcast(model)
    first_output_is_the_same(model.encoder, model.encoder)
    first_output_is_the_same(model, model)


def check_a_layer_alone() -> None:
    start_differently()
    layer = layers.Dense(4)
    lockstep.broadcast([layer])
    first_output_is_the_same(layer, tf.function(lambda x: layer(x)))


def check_gradients_of_the_first_step() -> None:
    start_differently()
    model = Subclassed()
    lockstep.broadcast(model)

    @tf.function
    def gradients(x: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(model(x, training=True) ** 2)
        return tape.gradient(loss, model.trainable_variables)

    assert_equal_on_all_ranks([gradient.numpy() for gradient in gradients(tf.constant(BATCH))])


def check_fit_builds_the_model() -> None:
    for make in (lambda: keras.Sequential([layers.Dense(4), layers.Dense(1)]), Subclassed):
        for eagerly in (False, True):
            start_differently()
            model = make()
            lockstep.broadcast(model)
            model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=eagerly)
            # The same data on all ranks and no reduced gradients: equal weights come from equal beginnings only.
            targets = np.ones((4, 2 if make is Subclassed else 1))
            model.fit(BATCH, targets, batch_size=4, epochs=2, verbose=0, shuffle=False)
            assert_equal_on_all_ranks(model.get_weights())


def check_train_on_batch_builds_the_model() -> None:
    start_differently()
    model = keras.Sequential([layers.Dense(4), layers.Dense(1)])
    lockstep.broadcast(model)
    model.compile("sgd", "mse")
    model.train_on_batch(BATCH, np.ones((4, 1)))
    assert_equal_on_all_ranks(model.get_weights())


def check_build_by_shape() -> None:
    start_differently()
    model = keras.Sequential([layers.Dense(4), layers.Dense(1)])
    lockstep.broadcast(model)
    model.build((None, 3))
    first_output_is_the_same(model, model)
    model = Subclassed()
    lockstep.broadcast(model)
    model.build((None, 3))
    first_output_is_the_same(model, model)


def check_layers_added_after_the_broadcast() -> None:
    start_differently()
    model = keras.Sequential([layers.Input((3,)), layers.Dense(4)])
    lockstep.broadcast(model)
    model.add(layers.Dense(5))
    first_output_is_the_same(model, model)
    model.pop()
    model.add(layers.Dense(6))
    first_output_is_the_same(model, tf.function(lambda x: model(x)))


def check_weights_in_mixed_precision() -> None:
    start_differently()
    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        model = keras.Sequential([layers.Dense(4), layers.Dense(1)])
        lockstep.broadcast(model)
        first_output_is_the_same(model, lambda x: tf.cast(model(x), tf.float32))
        assert model.get_weights()[0].dtype == np.float32
        built = keras.Sequential([layers.Input((3,)), layers.Dense(4)])
        lockstep.broadcast(built)
        assert_equal_on_all_ranks(built.get_weights())
    finally:
        keras.mixed_precision.set_global_policy("float32")


def masks(model: Any, steps: int) -> list[str]:
    return [np.asarray(model(np.ones((16, 16), "float32"), training=True)).tobytes().hex() for _ in range(steps)]


def check_each_rank_has_dropout_masks_of_its_own() -> None:
    if LEGACY:
        return
    for model in (
        keras.Sequential([layers.Input((16,)), layers.Dropout(0.5, seed=RANK)]),
        keras.Sequential([layers.Dropout(0.5, seed=RANK)]),
    ):
        lockstep.broadcast(model)
        everyone = of_all_ranks(masks(model, steps=3))
        assert len({mask for drawn in everyone for mask in drawn}) == 3 * SIZE
        lockstep.broadcast(model)
        again = of_all_ranks(masks(model, steps=3))
        assert len({mask for drawn in everyone + again for mask in drawn}) == 6 * SIZE


def check_the_roots_dropout_is_that_of_one_process() -> None:
    if LEGACY:
        return
    alone = keras.Sequential([layers.Input((16,)), layers.Dropout(0.5, seed=7)])
    together = keras.Sequential([layers.Input((16,)), layers.Dropout(0.5, seed=7 + RANK)])
    lockstep.broadcast(together)
    assert (masks(alone, steps=2) == masks(together, steps=2)) == (RANK == 0)


def check_all_draw_the_roots_noise_where_they_are_told_to() -> None:
    if LEGACY:
        return
    alone = keras.Sequential([layers.Input((16,)), layers.Dropout(0.5, seed=7)])
    late = keras.Sequential([layers.Dropout(0.5, seed=7 + RANK)])
    for together in (keras.Sequential([layers.Input((16,)), layers.Dropout(0.5, seed=7 + RANK)]), late):
        lockstep.broadcast(together, noise="same")
        assert_equal_on_all_ranks(masks(together, steps=2))
        if together is not late:
            again = masks(alone, steps=3)[2:]
            assert masks(together, steps=1) == again
            lockstep.broadcast(together)  # and then each its own
            assert len(set(of_all_ranks(masks(together, steps=1)[0]))) == SIZE
    raised(ValueError, lambda: lockstep.broadcast(late, noise="none"))


class Noisy(keras.Model):  # type: ignore[misc, name-defined]
    """Draws from a generator of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = keras.random.SeedGenerator(RANK)

    def call(self, inputs: Any) -> Any:
        return inputs + keras.random.normal(tf.shape(inputs), seed=self.generator)


def check_generators_of_the_script_stay_alike() -> None:
    if LEGACY:
        return
    model = Noisy()
    lockstep.broadcast(model)
    assert_equal_on_all_ranks([np.asarray(model(BATCH))])


def check_random_generators_go_on_alike() -> None:
    makers = (random.Random, np.random.default_rng, np.random.RandomState, np.random.MT19937, np.random.SFC64)
    generators = [make() for make in makers]
    generators.append(np.random.Generator(np.random.Philox()))
    ours = tf.random.Generator.from_non_deterministic_state()
    assert len(set(of_all_ranks(generators[0].getstate()[1][1]))) == SIZE, "they start alike: this would prove nothing"
    generators[0].gauss(0, 1)  # keeps the second one that it has drawn
    generators[2].normal()
    assert lockstep.broadcast([generators, ours])[0] is not None
    assert lockstep.broadcast(generators[0]) is generators[0]
    drawn = [generators[0].gauss(0, 1), generators[0].random(), generators[1].normal(), generators[2].normal()]
    drawn += [np.random.Generator(bits).normal() for bits in generators[3:5]] + [generators[5].integers(1 << 40)]
    drawn.append(ours.normal([]).numpy())
    assert_equal_on_all_ranks([np.float64(number) for number in drawn])
    raised(TypeError, lockstep.broadcast, random.SystemRandom())


def check_copies_clones_and_files_of_a_followed_model() -> None:
    start_differently()
    model = keras.Sequential([layers.Dense(4), layers.Dense(1)])
    lockstep.broadcast(model)
    clone = keras.models.clone_model(model)
    copied = copy.deepcopy(model)
    if RANK == 0:  # nobody follows these, so that one rank alone may use them
        clone(BATCH)
        copied(BATCH)
    model(BATCH)
    if TENSORFLOW >= (2, 7):  # a deep copy of a built Sequential could not be called before
        np.testing.assert_array_equal(copy.deepcopy(model)(BATCH), model(BATCH))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.h5" if LEGACY else "model.keras")
        model.save(path)
        restored = keras.models.load_model(path)
        np.testing.assert_array_equal(restored(BATCH), model(BATCH))
        weights = os.path.join(folder, "model.weights.h5")
        model.save_weights(weights)
        model.load_weights(weights)


def check_a_checkpoint_restored_before_the_model_is_built() -> None:
    start_differently()
    source = keras.Sequential([layers.Input((3,)), layers.Dense(4)])
    with tempfile.TemporaryDirectory() as folder:
        path = tf.train.Checkpoint(model=source).write(os.path.join(folder, "checkpoint"))
        model = keras.Sequential([layers.Dense(4)])
        if RANK == 0:
            tf.train.Checkpoint(model=model).read(path)
        lockstep.broadcast(model)
        first_output_is_the_same(model, model)
        if RANK == 0:
            np.testing.assert_array_equal(model.get_weights()[0], source.get_weights()[0])


class Pair:
    """Two networks, one of which has its variables later, with an optimizer for each."""

    def __init__(self) -> None:
        self.networks = [keras.Sequential([layers.Input((3,)), layers.Dense(4)]), keras.Sequential([layers.Dense(1)])]
        self.optimizers = [keras.optimizers.Adam(0.1), keras.optimizers.SGD(0.1, momentum=0.9)]
        both = zip(("one", "other"), self.networks, self.optimizers)
        parts = {name: [network, optimizer] for name, network, optimizer in both}
        self.checkpoint = tf.train.Checkpoint(**parts)

    def step(self, reduce: Any) -> None:
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean(self.networks[1](self.networks[0](BATCH)) ** 2)
        for network, optimizer in zip(self.networks, self.optimizers):
            gradients = reduce(tape.gradient(loss, network.trainable_variables))
            optimizer.apply_gradients(zip(gradients, network.trainable_variables))


def check_state_of_optimizers_that_one_rank_has_restored() -> None:
    for decorate in (lambda step: step, tf.function):
        start_differently()
        source, restored = Pair(), Pair()
        for _ in range(3):
            source.step(lambda gradients: gradients)
        with tempfile.TemporaryDirectory() as folder:
            path = source.checkpoint.write(os.path.join(folder, "checkpoint"))
            if RANK == 0:
                restored.checkpoint.restore(path)
            lockstep.broadcast([*restored.networks, *restored.optimizers])
            step = decorate(restored.step)
            for _ in range(2):
                source.step(lambda gradients: gradients)
                step(lockstep.all_reduce)
        for network, wanted in zip(restored.networks, source.networks):
            assert_equal_on_all_ranks(network.get_weights())
            if RANK == 0:
                for mine, its in zip(network.get_weights(), wanted.get_weights()):
                    np.testing.assert_allclose(mine, its, atol=1e-6)


class WithVariables(keras.Model):  # type: ignore[misc, name-defined]
    """Variables of TensorFlow's, which Keras 3 does not list."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(2)
        self.centres = tf.Variable(tf.random.normal([2]))
        self.more = {"a": [tf.Variable(tf.random.normal([2]))]}
        self.module = tf.Module()
        self.module.weight = tf.Variable(tf.random.normal([2]))

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs) * self.centres + self.more["a"][0] + self.module.weight


def check_variables_of_tensorflow_in_layers() -> None:
    start_differently()
    model = WithVariables()
    lockstep.broadcast(model)
    outer = keras.Sequential([layers.Input((3,)), WithVariables()])
    lockstep.broadcast(outer)
    assert_equal_on_all_ranks([np.asarray(model(BATCH)), np.asarray(outer(BATCH))])


def check_lists_of_models_in_a_model() -> None:
    start_differently()

    class Ensemble(keras.Model):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.members = [layers.Dense(2) for _ in range(3)]

        def call(self, inputs: Any) -> Any:
            return sum(member(inputs) for member in self.members)

    model = Ensemble()
    lockstep.broadcast([model, model])
    first_output_is_the_same(model, model)
    lockstep.broadcast(model.members)


def check_a_model_that_differs_is_noticed() -> None:
    model = keras.Sequential([layers.Input((3,)), layers.Dense(4 + RANK)])
    assert "broadcast" in raised(lockstep.MismatchError, lockstep.broadcast, model)


run_checks(globals())
