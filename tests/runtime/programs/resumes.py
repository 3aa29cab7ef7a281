"""A deterministic script that saves as it goes and takes up again what it has saved: first a loop of its own, then
`fit`. Run by test_restart.py, which has a worker kill itself in the middle of each."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf

import lockstep

folder = Path(sys.argv[1])
attempt = int(os.environ.get("LOCKSTEP_RESTARTS", "0"))
dies_in = {0: "loop", 1: "fit"}.get(attempt) if "--disturbed" in sys.argv else None

tf.keras.utils.set_random_seed(7) if hasattr(tf.keras.utils, "set_random_seed") else tf.random.set_seed(7)
x = np.linspace(-1, 1, 48 * 4, dtype=np.float32).reshape(48, 4)
y = x.sum(axis=1, keepdims=True) ** 2


def new_model() -> tf.keras.Model:
    model = tf.keras.Sequential([tf.keras.layers.Dense(8, "tanh"), tf.keras.layers.Dense(1)])
    model.build((None, 4))
    model.set_weights([np.full(w.shape, 0.1, np.float32) * (k + 1) for k, w in enumerate(model.get_weights())])
    return model


def die_if(now: bool) -> None:
    if now and lockstep.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)


# A loop of its own, with tf.train.CheckpointManager.
model = new_model()
lockstep.broadcast(model)
dataset = tf.data.Dataset.from_tensor_slices((x, y))
dataset, local_batch_size = lockstep.shard_and_rebatch_dataset(dataset, 8)
dataset = dataset.batch(local_batch_size)
velocities = [tf.Variable(tf.zeros_like(w)) for w in model.trainable_variables]
epoch = tf.Variable(0, dtype=tf.int64)
checkpoint = tf.train.Checkpoint(model=model, epoch=epoch, velocities=velocities)
manager = tf.train.CheckpointManager(checkpoint, str(folder / "checkpoints"), max_to_keep=2)
checkpoint.restore(manager.latest_checkpoint)
lockstep.broadcast([model, epoch, velocities])
print("loop begins with epoch", int(epoch), flush=True)


@tf.function
def train_step(images: tf.Tensor, labels: tf.Tensor) -> None:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(images, training=True) - labels) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    gradients = lockstep.all_reduce(gradients)
    for variable, velocity, gradient in zip(model.trainable_variables, velocities, gradients):
        velocity.assign(0.9 * velocity + gradient)
        variable.assign_sub(0.02 * velocity)


while int(epoch) < 4:
    for step, (images, labels) in enumerate(dataset):
        train_step(images, labels)
        die_if(dies_in == "loop" and int(epoch) == 2 and step == 3)
    epoch.assign_add(1)
    if lockstep.is_chief():
        manager.save()
    lockstep.barrier()
if lockstep.is_chief():
    np.savez(folder / "loop.npz", *model.get_weights())


# fit, with BackupAndRestore.
class Dies(tf.keras.callbacks.Callback):
    def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
        print("fit begins epoch", epoch, flush=True)

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        die_if(dies_in == "fit" and self.model.optimizer.iterations > 2 * 6 + 3)


model = new_model()
lockstep.broadcast(model)
optimizer = lockstep.distributed_optimizer(tf.keras.optimizers.SGD(0.02, momentum=0.9))
model.compile(optimizer, "mse")
callbacks = tf.keras.callbacks
backup_and_restore = getattr(callbacks, "BackupAndRestore", None) or callbacks.experimental.BackupAndRestore
backup = backup_and_restore(str(folder / "backup"))
x_own, y_own = lockstep.shard_arrays(x, y)
model.fit(
    x_own,
    y_own,
    batch_size=lockstep.local_batch_size(8),
    epochs=4,
    shuffle=False,
    verbose=0,
    callbacks=lockstep.callbacks([backup, Dies()]),
)
if lockstep.is_chief():
    np.savez(folder / "fit.npz", *model.get_weights())
