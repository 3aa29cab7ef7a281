"""A loop that stops by itself when the loss of an epoch gets no better."""

import tensorflow as tf
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

PATIENCE = 2

wine = load_wine()
features = StandardScaler().fit_transform(wine.data).astype("float32")
train = tf.data.Dataset.from_tensor_slices((features[:160], wine.target[:160])).shuffle(160).batch(40)

model = tf.keras.Sequential(
    [tf.keras.Input((13,)), tf.keras.layers.Dense(12, activation="tanh"), tf.keras.layers.Dense(3)]
)
loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.SGD(1.0, momentum=0.9)


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


best, waited = float("inf"), 0
for epoch in range(20):
    total = 0.0
    for x, y in train:
        total += train_step(x, y)
    if float(total) < best:
        best, waited = float(total), 0
    else:
        waited += 1
    print(f"epoch {epoch + 1}: loss {float(total):.4f}")
    if waited >= PATIENCE:
        break
model.save_weights("wine.weights.h5")
