"""A regression that goes on from a file, with the optimizer in it."""

from sklearn.datasets import load_diabetes
from tensorflow.keras import Sequential
from tensorflow.keras.layers import Dense, Input
from tensorflow.keras.models import load_model

data, progression = load_diabetes(return_X_y=True)
x, y = data[:400].astype("float32") * 20, progression[:400, None].astype("float32") / 100


def build():
    network = Sequential([Input((10,)), Dense(16, activation="relu"), Dense(1)])
    network.compile(optimizer="rmsprop", loss="mse", metrics=["mae"])
    return network


first = build()
first.fit(x, y, batch_size=40, epochs=1, verbose=0)
first.save("diabetes.keras")
again = load_model("diabetes.keras")
history = again.fit(x, y, batch_size=40, epochs=2, verbose=0)
print("mean absolute errors", history.history["mae"])
