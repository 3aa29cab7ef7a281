"""A network of its own class with BatchNormalization, trained in a loop: 20 steps."""

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_breast_cancer


class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.blocks = [
            (tf.keras.layers.Dense(12, use_bias=False), tf.keras.layers.BatchNormalization()) for _ in range(2)
        ]
        self.last = tf.keras.layers.Dense(1)

    def call(self, inputs, training=False):
        x = inputs
        for dense, normal in self.blocks:
            x = tf.nn.relu(normal(dense(x), training=training))
        return self.last(x)


x, y = load_breast_cancer(return_X_y=True)
x = ((x - x.mean(0)) / x.std(0)).astype("float32")[:480]
y = y[:480, None].astype(np.float32)

model = Net()
optimizer = tf.keras.optimizers.SGD(0.05, momentum=0.9)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(48)


@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


for _ in range(2):
    for images, labels in dataset:
        train_step(images, labels)
