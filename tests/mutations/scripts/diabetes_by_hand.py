"""Plain gradient descent by hand: no optimizer at all."""

import tensorflow as tf
from sklearn.datasets import load_diabetes

x, y = load_diabetes(return_X_y=True)
x, y = (10 * x).astype("float32")[:400], (y / 100).astype("float32")[:400, None]
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(400).batch(40)

w = tf.Variable(tf.random.normal([10, 1]), name="w")
b = tf.Variable([0.0], name="b")

for epoch in range(4):
    for inputs, targets in dataset:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((inputs @ w + b - targets) ** 2)
        gradients = tape.gradient(loss, [w, b])
        for variable, gradient in zip([w, b], gradients):
            variable.assign_sub(0.05 * gradient)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
