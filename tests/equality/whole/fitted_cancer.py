"""A functional model that normalises over the batch, with noise, under `fit`."""

import tensorflow as tf
from sklearn.datasets import load_breast_cancer

tf.keras.utils.set_random_seed(3)
x, y = load_breast_cancer(return_X_y=True)
x = ((x - x.mean(0)) / x.std(0)).astype("float32")
y = y.astype("float32")[:, None]

inputs = tf.keras.Input((30,))
hidden = tf.keras.layers.Dense(8, activation="tanh")(tf.keras.layers.GaussianNoise(0.1)(inputs))
hidden = hidden - tf.keras.ops.mean(hidden, axis=0, keepdims=True)
hidden = hidden / (0.1 + tf.keras.ops.max(tf.keras.ops.abs(hidden), axis=0))
model = tf.keras.Model(inputs, tf.keras.layers.Dense(1, activation="sigmoid")(hidden))
model.compile(optimizer="sgd", loss="binary_crossentropy", metrics=["accuracy"])
plateau = tf.keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=1, factor=0.5, min_delta=0.05)
model.fit(x, y, batch_size=48, epochs=4, callbacks=[plateau], verbose=0)
