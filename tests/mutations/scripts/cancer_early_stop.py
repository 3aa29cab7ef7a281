"""`fit` on arrays that stops once the training loss gets no better."""

from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler
from tensorflow import keras

data = load_breast_cancer()
x = StandardScaler().fit_transform(data.data).astype("float32")[:512]
y = data.target[:512].astype("float32")

model = keras.Sequential([keras.Input((30,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
model.compile(
    optimizer=keras.optimizers.SGD(learning_rate=0.5, momentum=0.9),
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
)
stop = keras.callbacks.EarlyStopping(monitor="loss", patience=0)
history = model.fit(x, y, batch_size=64, epochs=30, callbacks=[stop], verbose=2)
print("epochs:", len(history.epoch))
