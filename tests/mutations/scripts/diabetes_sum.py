"""A sum over the batch with a penalty, divided by the batch: `reduce_sum(...) / BATCH + penalty`, and clipped."""

import tensorflow as tf
from sklearn.datasets import load_diabetes

BATCH_SIZE = 40
STEPS = 400 // BATCH_SIZE

x, y = load_diabetes(return_X_y=True)
x, y = (10 * x).astype("float32")[:400], (y / 100).astype("float32")[:400, None]
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(400).batch(BATCH_SIZE, drop_remainder=True)

model = tf.keras.Sequential(
    [tf.keras.Input((10,)), tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)]
)
rates = tf.keras.optimizers.schedules.PiecewiseConstantDecay([STEPS, 2 * STEPS], [0.05, 0.02, 0.01])
optimizer = tf.keras.optimizers.SGD(rates)


@tf.function
def train_step(inputs, targets):
    with tf.GradientTape() as tape:
        losses = (model(inputs, training=True) - targets) ** 2
        penalty = 1e-2 * tf.add_n([tf.nn.l2_loss(w) for w in model.trainable_variables])
        loss = tf.reduce_sum(losses) / BATCH_SIZE + penalty
    gradients = tape.gradient(loss, model.trainable_variables)
    gradients = [tf.clip_by_norm(gradient, 0.5) for gradient in gradients]
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for epoch in range(4):
    for inputs, targets in dataset:
        loss = train_step(inputs, targets)
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
