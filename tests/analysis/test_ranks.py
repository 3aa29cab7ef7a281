"""The axes that the analysis tells of a value are those that it has when the line is run."""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import pytest

from migrator.analysis.bindings import Bindings
from migrator.engine import migrate
from migrator.registry import choose

FOLDER = tempfile.mkdtemp()
GIVEN = f"""\
import random
import numpy as np
import tensorflow as tf
import keras
from sklearn.datasets import load_iris, make_regression
from sklearn.model_selection import train_test_split
N = 5
rng = np.random.RandomState(0)
gen = np.random.default_rng(0)
X = rng.randn(42, 6)
FILE, TEXT = "{FOLDER}/x.npy", "{FOLDER}/x.txt"
np.save(FILE, X), np.savetxt(TEXT, X)
D = tf.data.Dataset.from_tensor_slices
S = lambda shape: tf.TensorSpec(shape, tf.float64)
def P():
    for row in X:
        yield row, row[0] - row[1]
def G():
    for i in range(9):
        yield [1.0, 2.0]
"""

TRAINING = """\
model = keras.Sequential([keras.layers.Dense(8), keras.layers.Dense(1)])
opt = keras.optimizers.SGD(0.05)
for a in tf.data.Dataset.from_tensor_slices(X).batch(14):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(a)))
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
"""

EXPRESSIONS = """\
rng.randn(42, 6)
rng.randn(42)
rng.randn()
rng.rand(4, 2, 3)
rng.normal(size=(42, 6))
rng.normal(size=42)
rng.normal(0, 1, (3, 4))
rng.normal(0, 1)
rng.normal(0, N)
rng.uniform(X[0], 2)
rng.exponential()
rng.uniform(-np.pi, np.pi) * X
gen.integers(0, len(X), len(X))
np.zeros(len(X))
np.zeros(rng.randint(2, 4))
rng.uniform(-1, 1, 42)
rng.uniform(-1., 1., size=[4, 5])
rng.randint(0, 3, 42)
rng.randint(0, 3, size=(42, 2))
rng.randint(5)
rng.choice(5, 10)
rng.choice(5, size=(10, 2))
rng.permutation(10)
rng.permutation(X)
rng.poisson(2.0, (4, 3))
rng.binomial(1, 0.5, 42)
rng.multivariate_normal(np.zeros(3), np.eye(3), 7)
rng.standard_normal((4, 3))
rng.standard_t(2, (4, 1))
rng.dirichlet(np.ones(3), 5)
rng.beta(1., 1., size=(4, 1))
rng.chisquare(2.0, 5)
rng.vonmises(0.0, 1.0, (4, 2))
rng.standard_cauchy((4, 1))
X[rng.permutation(42)]
X[:, 0][rng.permutation(42), None]
X[0, [1, 2]]
np.array([row[0] for row in X])
np.array([row for row in X])
np.array([[row[0]] for row in X])
np.arange(9)[:, None]
np.identity(3)[rng.randint(0, 3, 7)]
np.column_stack((X[:, 0], X[:, 1]))
gen.integers(0, 3, size=7)
gen.random((3, 2))
gen.random(5)
gen.choice(X, 4)
gen.permuted(X)
gen.normal(np.zeros((3, 2)), 1.0)
rng.normal(np.zeros((3, 2)))
rng.normal(X)
rng.uniform(np.zeros(3), np.ones(3))
np.random.normal(size=())
np.random.normal(size=N)
np.random.randn(N, 3)
np.random.randint(0, 9, (N,))
X[0]
X[:, 0]
X[..., None]
X[:, None]
X[None]
X[X[:, 0] > 0]
X[X > 0]
X[np.array([1, 2])]
X[[1, 2]]
X[np.array([[1, 2], [3, 4]])]
X[1:3, 2]
X.T
X.reshape(-1)
X.reshape(-1, 2, 3)
X.reshape((7, 36))
X.ravel()
X.flatten()
X.sum(axis=1)
X.sum()
X.sum(axis=1, keepdims=True)
X.mean(0)
X.argmax(1)
X.argmax(axis=-1)
X.squeeze()
X[:, :1].squeeze()
X @ X.T
X @ X[0]
X[0] @ X[1]
X.dot(X.T)
X.astype("float32")
X.astype(np.float32) / 255.0
np.float32(X)
np.stack([X, X])
np.concatenate([X, X])
np.concatenate([X, X], axis=1)
np.vstack([X[0], X[1]])
np.hstack([X, X])
np.expand_dims(X, 1)
np.expand_dims(X[:, 0], -1)
np.squeeze(X[:, :1])
np.transpose(X)
np.where(X > 0, X, 0.0)
np.zeros((3, 4))
np.zeros(7)
np.zeros(N)
np.ones_like(X)
np.zeros_like(X[:, 0])
np.full((3, 2), 1.0)
np.full(4, 1.0)
np.eye(4)
np.eye(3)[np.array([0, 1, 2, 0])]
np.arange(10)
np.arange(10).reshape(5, 2)
np.linspace(0, 1, 9)
np.linspace(0, 1, 9)[:, None]
np.array([1.0, 2.0])
np.array([[1.0, 2.0], [3.0, 4.0]])
np.array([X[0], X[1]])
np.asarray([1, 2, 3])
np.repeat(X, 2, axis=0)
np.repeat(X, 2)
np.tile(X, (2, 1))
np.tile(X[0], (6, 1))
np.tile(0.5, (6, 1))
np.sort(X, axis=0)
np.cumsum(X, axis=1)
np.cumsum(X)
np.linalg.norm(X, axis=1)
np.linalg.norm(X)
np.max(X, axis=1)
np.outer(X[0], X[1])
np.einsum("ij,kj->ik", X, X)
np.clip(X, 0, 1)
np.sign(X[:, 0]) * 2
np.sin(X).sum(1)
(X.sum(axis=1) > 0).astype("int32")
(X[:, :1] * 2 + 1).astype("float32")
X[:, 0] + X[:, :1]
np.meshgrid(X[0], X[1])[0]
np.diff(X, axis=0)
np.split(X, 2)[0]
np.array_split(X, 2)[0]
np.roll(X, 1, axis=0)
np.pad(X, ((0, 1), (0, 0)))
np.take(X, [1, 2], axis=0)
np.moveaxis(X, 0, 1)
np.broadcast_to(X[0], (5, 6))
tf.random.normal((4, 3))
tf.random.normal([4])
tf.random.uniform((4, 3), 0, 5, tf.int32)
tf.random.normal([])
tf.zeros(3)
tf.zeros([])
tf.constant([[1., 2.]])
tf.constant(1.0)
tf.cast(X, tf.float32)
tf.one_hot([1, 2], 3)
tf.one_hot(X[:, 0].astype(int), 3)
tf.range(5)
tf.reshape(X, [-1])
tf.reshape(X, [2, -1, 6])
tf.expand_dims(X, 0)
tf.squeeze(X[:, :1])
tf.reduce_sum(X, 1)
tf.reduce_sum(X)
tf.transpose(X)
tf.gather(X, [1, 2])
tf.stack([X, X])
tf.concat([X, X], 1)
tf.argmax(X, 1)
tf.matmul(X, X, transpose_b=True)
tf.linspace(0.0, 1.0, 5)
tf.eye(3)
tf.boolean_mask(X, X[:, 0] > 0)
tf.tile(X, [1, 2])
keras.utils.to_categorical([0, 1, 2])
keras.ops.mean(X, axis=0)
keras.ops.expand_dims(X, 0)
keras.layers.Flatten()(tf.zeros((3, 4, 5)))
keras.layers.Dense(3)(tf.zeros((3, 4, 5)))
keras.layers.Embedding(4, 3)(tf.zeros((3, 4)))
keras.layers.LSTM(4)(tf.zeros((3, 4, 5)))
keras.layers.GlobalAveragePooling1D()(tf.zeros((3, 4, 5)))
keras.layers.Reshape((2, 2))(tf.zeros((3, 4)))
keras.layers.RepeatVector(3)(tf.zeros((3, 4)))
keras.layers.Dropout(.5)(keras.layers.Conv2D(2, 2)(tf.zeros((3, 4, 4, 1))))
keras.layers.TimeDistributed(keras.layers.Dense(2))(tf.zeros((3, 4, 5)))
keras.layers.Concatenate()([tf.zeros((3, 4)), tf.zeros((3, 4))])
keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(1)])(tf.zeros((3, 4)))
keras.Sequential([keras.Input((4,)), keras.layers.Reshape((2, 2)), keras.layers.Dense(1)])(tf.zeros((3, 4)))
next(iter(D(X).batch(4)))
next(iter(D(X[:, 0]).batch(4)))
next(iter(D(X).batch(4).batch(2)))
next(iter(D(X).batch(4).unbatch()))
next(iter(D((X, X[:, 0])).batch(4)))[1]
next(iter(D((X, X[:, 0])).batch(4).map(lambda a, b: (a, b[:, None]))))[1]
next(iter(D((X, X[:, 0])).map(lambda a, b: (a[None], b)).batch(4)))[0]
next(iter(D((X, X[:, 0])).map(lambda a, b: (a, tf.one_hot(tf.cast(b, tf.int32), 3))).batch(4)))[1]
next(iter(D([1., 2., 3.]).batch(2)))
next(iter(D([[1., 2.], [3., 4.]]).batch(2)))
next(iter(D([X, X]).batch(2)))
next(iter(tf.data.Dataset.range(9).batch(2)))
next(iter(tf.data.Dataset.from_tensors(X)))
next(iter(tf.data.Dataset.from_tensors(X).repeat(3).batch(2)))
next(iter(D(X).padded_batch(3)))
next(iter(D({"a": X}).batch(3)))["a"]
next(iter(tf.data.Dataset.zip((D(X).batch(3), D(X[:, 0]).batch(3)))))[1]
next(iter(tf.data.Dataset.zip((D(X), D(X[:, 0]))).batch(3)))[1]
next(iter(D(X).window(3).flat_map(lambda w: w.batch(3)).batch(2)))
next(iter(D(X).batch(5).enumerate()))[1]
next(iter(D(X).enumerate().batch(5)))[1]
next(iter(D(X).shuffle(9).repeat().batch(5, drop_remainder=True).prefetch(1)))
next(iter(tf.data.Dataset.choose_from_datasets([D(X), D(X)], tf.data.Dataset.range(2).repeat(4)).batch(3)))
next(iter(tf.data.Dataset.range(9).map(lambda i: tf.gather(tf.constant(X), i)).batch(2)))
next(iter(D(X).apply(tf.data.experimental.dense_to_ragged_batch(3))))
next(iter(D(X).ragged_batch(3)))
next(iter(D(X).batch(3).concatenate(D(X).batch(3))))
next(iter(tf.data.Dataset.from_generator(lambda: iter(X), output_signature=tf.TensorSpec((6,), tf.float64)).batch(3)))
next(iter(tf.data.Dataset.from_generator(P, output_signature=(S((6,)), S(()))).batch(3)))[1]
next(iter(tf.data.Dataset.from_generator(P, output_signature=(S((6,)), S(()))).batch(3)))[0]
next(iter(tf.data.Dataset.from_generator(lambda: P(), output_signature=(S(None), S([]))).batch(3)))[1]
load_iris(return_X_y=True)[0]
load_iris(return_X_y=True)[1]
make_regression(9, 3)[1]
train_test_split(X, X[:, 0])[3]
train_test_split(X, X[:, 0], test_size=0.25)[1]
next(iter(tf.data.Dataset.from_generator(G, output_types=tf.float32).batch(3)))
X[:, [0, 2]]
X[[0, 2], 1]
tf.gather(X, 1)
tf.Variable(X)[0]
tf.Variable(tf.zeros(3)) + 1.0
np.array_split(X, 6)
np.array_split(X, 6)[0]
np.concatenate(np.array_split(X, 6))
np.concatenate([row for row in X])
np.stack([row for row in X])
rng.choice(len(X), 12)
rng.choice(X[:, 0], (2, 3))
X[random.sample(range(9), 4)]
X[list(range(5))]
np.arange(9)[np.array([each > 3 for each in range(9)])]
tf.range(9)
tf.random.shuffle(X[:, 0])
tf.gather(X, tf.random.shuffle(tf.range(9)))
tf.nest.map_structure(lambda a: a[0], (X, X[:, 0]))[1]
tf.squeeze(keras.layers.Dense(1)(tf.zeros((3, 4))))
tf.squeeze(keras.layers.Dense(2)(tf.zeros((3, 4))))
tf.zeros(tf.shape(X))
keras.layers.Activation("softmax")(tf.zeros((3, 4)))
np.load(FILE)[:, None]
np.load(FILE)[1:, 2:]
np.load(FILE)[..., None]
np.loadtxt(TEXT, usecols=0)
np.loadtxt(TEXT, ndmin=2)
np.loadtxt(TEXT)[:, 1:]
next(iter(D([[row[0]] for row in X]).batch(3)))
next(iter(D({"a": X, "b": X[:, :1]}).batch(3)))["b"]
next(iter(D(X).map(lambda a: (a, [0.0])).batch(3)))[1]
next(iter(tf.data.Dataset.range(9).map(lambda i: tf.gather(X, i)).batch(2)))
""".strip().split("\n")

# Of the expressions, so many have a rank that is told; the others are left open, which costs a gathering at most.
KNOWN = 203


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """What the analysis tells of each expression, by the name that it is put under."""
    found: dict[str, Any] = {}

    def assign(bound: Bindings, name: str, value: Any, frame: Any) -> None:
        if name.startswith("value_"):
            found[name] = value
        plain(bound, name, value, frame)

    plain = Bindings.assign
    lines = "".join(f"value_{i} = {text}\n" for i, text in enumerate(EXPRESSIONS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bindings, "assign", assign)
        migrate((GIVEN + lines + TRAINING).encode(), choose())
    return found


def test_ranks_are_those_of_the_values(told: dict[str, Any]) -> None:
    names: dict[str, Any] = {}
    exec(GIVEN, names)
    known, wrong = 0, []
    for i, text in enumerate(EXPRESSIONS):
        value, real = told[f"value_{i}"], eval(text, names)
        axes = len(real.shape) if hasattr(real, "shape") else np.ndim(real)
        if value.data is None or value.objects:
            continue
        known += value.data.rank is not None
        if value.data.rank not in (None, axes) or (value.data.rank is None and value.data.least > axes):
            wrong.append(f"{text}: {value.data.rank} or {value.data.least} at least, in truth {axes}")
    assert not wrong
    assert known >= KNOWN
