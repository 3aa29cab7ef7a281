"""A training loop that notes when it does what: docs/pictures/draw.py starts it, alone and on several workers.

    python docs/pictures/timeline_training.py FOLDER

Writes FOLDER/RANK-of-SIZE.json: a list of [phase, begin, end] for each step, in seconds of the machine's clock.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import tensorflow as tf
from tensorflow import keras

import lockstep

WARM_UP, STEPS, BATCH = 5, 4, 4096

model = keras.Sequential(
    [keras.Input((256,)), *(keras.layers.Dense(768, "relu") for _ in range(3)), keras.layers.Dense(1)]
)
lockstep.broadcast(model)
optimizer = keras.optimizers.Adam()
dataset = tf.data.Dataset.from_tensors((tf.random.normal((256,)), tf.ones((1,)))).repeat(BATCH * (WARM_UP + STEPS))
dataset, local_batch_size = lockstep.shard_and_rebatch_dataset(dataset, BATCH)


@tf.function
def gradients_of(x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x, training=True) - y))
    return tape.gradient(loss, model.trainable_variables)


@tf.function
def update(gradients: list[tf.Tensor]) -> None:
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


steps = []
for x, y in dataset.batch(local_batch_size):
    begin = time.time()
    gradients = gradients_of(x, y)
    gradients[-1].numpy()  # until it is computed
    computed = time.time()
    gradients = lockstep.all_reduce(gradients)
    gradients[-1].numpy()
    reduced = time.time()
    update(gradients)
    steps.append([["compute", begin, computed], ["exchange", computed, reduced], ["update", reduced, time.time()]])
file = Path(sys.argv[1], f"{lockstep.rank()}-of-{lockstep.size()}.json")
file.write_text(json.dumps(steps[WARM_UP:]))
