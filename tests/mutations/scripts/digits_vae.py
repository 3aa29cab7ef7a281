"""A variational autoencoder of two parts, in a model with a train_step of its own."""

import tensorflow as tf
from sklearn.datasets import load_digits
from tensorflow import keras

LATENT = 4

images = (load_digits().data / 16.0).astype("float32")[:1280]


class Autoencoder(keras.Model):
    def __init__(self, encoder, decoder):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder

    def call(self, inputs):
        mean, _ = tf.split(self.encoder(inputs), 2, axis=1)
        return self.decoder(mean)

    def train_step(self, data):
        with tf.GradientTape() as tape:
            mean, log_variance = tf.split(self.encoder(data, training=True), 2, axis=1)
            noise = tf.random.normal(tf.shape(mean))
            decoded = self.decoder(mean + tf.exp(0.5 * log_variance) * noise, training=True)
            squares = tf.reduce_sum((data - decoded) ** 2, axis=1)
            divergence = -0.5 * tf.reduce_sum(1 + log_variance - mean**2 - tf.exp(log_variance), axis=1)
            loss = tf.reduce_mean(squares + 0.1 * divergence)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss}


encoder = keras.Sequential([keras.Input((64,)), keras.layers.Dense(24, "relu"), keras.layers.Dense(2 * LATENT)])
decoder = keras.Sequential([keras.Input((LATENT,)), keras.layers.Dense(24, "relu"), keras.layers.Dense(64, "sigmoid")])
model = Autoencoder(encoder, decoder)
model.compile(optimizer=keras.optimizers.Adam(2e-3))
model.fit(images, batch_size=64, epochs=2, verbose=2)
decoder.save("decoder.keras")
