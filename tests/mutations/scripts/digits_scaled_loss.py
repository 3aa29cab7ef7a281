"""Half precision with a scaled loss, in `fit`."""

from sklearn.datasets import load_digits
from tensorflow import keras

keras.mixed_precision.set_global_policy("mixed_float16")

digits = load_digits()
x = digits.data[:1536].astype("float32")
y = digits.target[:1536]

model = keras.Sequential(
    [
        keras.Input((64,)),
        keras.layers.Dense(32, activation="tanh"),
        keras.layers.Dense(10, dtype="float32"),
    ]
)
optimizer = keras.mixed_precision.LossScaleOptimizer(keras.optimizers.SGD(0.01), initial_scale=2.0**16)
model.compile(
    optimizer=optimizer,
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    auto_scale_loss=True,
)
model.fit(x, y, batch_size=32, epochs=2, verbose=2)
