"""Train, save, load, and train on: with the optimizer that was saved."""

import os

from sklearn.datasets import load_digits
from tensorflow import keras

images, labels = load_digits(return_X_y=True)
images = images / 16.0

model = keras.Sequential(
    [keras.Input((64,)), keras.layers.Dense(24, activation="relu"), keras.layers.Dense(10, activation="softmax")]
)
model.compile(optimizer=keras.optimizers.Adam(1e-3), loss="sparse_categorical_crossentropy")
model.fit(images[:1024], labels[:1024], batch_size=64, epochs=1, verbose=2)
model.save("first.keras")

model = keras.models.load_model("first.keras")
model.fit(images[:1024], labels[:1024], batch_size=64, epochs=2, verbose=2)
model.save(os.path.join("second.keras"))
