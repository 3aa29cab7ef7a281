"""The same as fitted_digits.py in Keras 2, whose layer computes images by a fused operation of its own."""

import tf_keras as keras
from sklearn.datasets import load_digits

x, y = load_digits(return_X_y=True)
x = (x / 16).astype("float32").reshape(-1, 8, 8, 1)[:309]
y = y[:309]

model = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        keras.layers.Conv2D(6, 3, use_bias=False),
        keras.layers.BatchNormalization(momentum=0.9),
        keras.layers.ReLU(),
        keras.layers.Flatten(),
        keras.layers.Dense(16, use_bias=False),
        keras.layers.BatchNormalization(),
        keras.layers.Dense(10),
    ]
)
model.compile(optimizer=keras.optimizers.SGD(0.05), loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, batch_size=32, epochs=2, shuffle=False)
