"""`fit` for so many steps an epoch, with a learning rate that falls and a stop, both told by the training loss."""

import tensorflow as tf
from sklearn.datasets import load_digits
from tensorflow import keras

BATCH_SIZE = 64

images, labels = load_digits(return_X_y=True)
images = (images / 16.0).astype("float32")[:1280]
labels = labels[:1280]

dataset = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(1280).batch(BATCH_SIZE).repeat()
model = keras.Sequential(
    [keras.Input((64,)), keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(10, activation="softmax")]
)
model.compile(optimizer=keras.optimizers.SGD(2.0, momentum=0.9), loss="sparse_categorical_crossentropy")
model.fit(
    dataset,
    steps_per_epoch=len(images) // BATCH_SIZE,
    epochs=12,
    callbacks=[
        keras.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.5, patience=1),
        keras.callbacks.EarlyStopping(monitor="loss", patience=2),
        keras.callbacks.CSVLogger("history.csv"),
    ],
    verbose=2,
)
