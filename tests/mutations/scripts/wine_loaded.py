"""A functional model on a dataset, saved and loaded to be trained on."""

import tensorflow as tf
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

wine = load_wine()
features = StandardScaler().fit_transform(wine.data).astype("float32")[:160]
train = tf.data.Dataset.from_tensor_slices((features, wine.target[:160])).shuffle(160).batch(32)

inputs = tf.keras.Input((13,))
hidden = tf.keras.layers.Dense(12, activation="tanh")(inputs)
model = tf.keras.Model(inputs, tf.keras.layers.Dense(3, activation="softmax")(hidden))
model.compile(optimizer=tf.keras.optimizers.SGD(0.1, momentum=0.9), loss="sparse_categorical_crossentropy")
model.fit(train, epochs=2, verbose=2)
model.save("wine.keras")

restored = tf.keras.models.load_model("wine.keras")
restored.fit(train, epochs=2, verbose=2)
