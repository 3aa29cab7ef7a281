"""Gradients weighted by hand, dropout, a rate that falls and a stop: what cannot be split, and is decided by."""

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

tf.keras.utils.set_random_seed(3)
x, y = load_digits(return_X_y=True)
x, y = (x / 16).astype("float32")[:600], np.eye(10, dtype="float32")[y[:600]]

model = tf.keras.Sequential(
    [
        tf.keras.Input((64,)),
        tf.keras.layers.Dense(16, activation="tanh"),
        tf.keras.layers.Dropout(0.3),
        tf.keras.layers.Dense(10),
    ]
)
optimizer = tf.keras.optimizers.SGD(0.1)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(600).batch(50)

best, waited = np.inf, 0
for _ in range(6):
    losses = []
    for images, labels in dataset:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            each = tf.nn.softmax_cross_entropy_with_logits(labels, logits)
        hard = each / tf.reduce_max(each)
        gradients = tape.gradient(each, model.trainable_variables, output_gradients=hard / len(each))
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        losses.append(float(tf.reduce_max(each)))
    if max(losses) < best:
        best, waited = max(losses), 0
        model.save_weights("best.weights.h5")
    else:
        waited += 1
        optimizer.learning_rate.assign(optimizer.learning_rate * 0.5)
    if waited == 2:
        break
model.load_weights("best.weights.h5")
