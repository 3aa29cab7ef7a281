"""Train an encoder by what it can restore, keep its weights, and train a classifier on top of it."""

import tensorflow as tf
from sklearn.datasets import load_digits
from tensorflow import keras

images, labels = load_digits(return_X_y=True)
images = (images / 16.0).astype("float32")[:1280]
labels = labels[:1280]


def build_encoder():
    return keras.Sequential([keras.Input((64,)), keras.layers.Dense(24, activation="relu")])


encoder = build_encoder()
autoencoder = keras.Sequential([encoder, keras.layers.Dense(64)])
autoencoder.compile(optimizer=keras.optimizers.SGD(0.5), loss="mse")
autoencoder.fit(images, images, batch_size=64, epochs=1, verbose=2)
encoder.save_weights("encoder.weights.h5")

model = keras.Sequential([build_encoder(), keras.layers.Dense(10)])
model.layers[0].load_weights("encoder.weights.h5")
optimizer = keras.optimizers.Adam(1e-3)
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(1280).batch(64)
for epoch in range(2):
    for x, y in dataset:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients, _ = tf.clip_by_global_norm(gradients, 0.2)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    print(f"epoch {epoch + 1}: loss {float(loss):.4f}")
