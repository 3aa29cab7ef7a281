"""What the processes of benchmarks/training.py do: one contender, style and model each; rank 0 writes the time down.

python benchmarks/training_worker.py CONTENDER STYLE MODEL OUTCOME
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any, Callable

GLOBAL_BATCH = 64
STEPS = {"small": 60, "large": 8, "embedding": 30}
WARM_UP = 5
BANDWIDTH_BYTES = [4 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 100 << 20]


def lockstep_training(style: str, model_name: str, reduce: bool = True) -> float:
    import tensorflow as tf

    import lockstep

    model, optimizer = new_model(model_name), tf.keras.optimizers.SGD(0.01, momentum=0.9)
    lockstep.broadcast(model)
    data = dataset(model_name, GLOBAL_BATCH // lockstep.size())
    if style == "fit":
        return time_of_fit(model, lockstep.distributed_optimizer(optimizer) if reduce else optimizer, data, model_name)
    step, batches = training_step(model, optimizer, lockstep.all_reduce if reduce else None), iter(data)
    return time_of_steps(lambda: step(*next(batches)), STEPS[model_name])


def without_communication(style: str, model_name: str) -> float:
    """The same as lockstep_training, except that nobody reduces anything."""
    return lockstep_training(style, model_name, reduce=False)


def strategy_training(style: str, model_name: str, bytes_per_pack: int = 0) -> float:
    import tensorflow as tf

    options = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=bytes_per_pack)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    data = strategy.distribute_datasets_from_function(
        lambda context: dataset(model_name, context.get_per_replica_batch_size(GLOBAL_BATCH))
    )
    with strategy.scope():
        model, optimizer = new_model(model_name), tf.keras.optimizers.SGD(0.01, momentum=0.9)
        if style == "fit":
            return time_of_fit(model, optimizer, data, model_name)
    # Its optimizers reduce the gradients by themselves.
    replica_step, batches = training_step(model, optimizer, None), iter(data)
    step = tf.function(lambda batch: strategy.run(replica_step.python_function, args=batch))
    return time_of_steps(lambda: step(next(batches)), STEPS[model_name])


def tuned_strategy_training(style: str, model_name: str) -> float:
    return strategy_training(style, model_name, bytes_per_pack=4 << 20)


def horovod_training(style: str, model_name: str) -> float:
    import horovod.tensorflow as horovod
    import tensorflow as tf

    horovod.init()
    model, optimizer = new_model(model_name), tf.keras.optimizers.SGD(0.01, momentum=0.9)
    horovod.broadcast_variables(model.variables, root_rank=0)
    data = dataset(model_name, GLOBAL_BATCH // horovod.size())
    if style == "fit":
        import horovod.keras as horovod_keras

        return time_of_fit(model, horovod_keras.DistributedOptimizer(optimizer), data, model_name)

    def reduce(gradients: list[Any]) -> list[Any]:
        return [horovod.allreduce(gradient) for gradient in gradients]

    step, batches = training_step(model, optimizer, reduce), iter(data)
    return time_of_steps(lambda: step(*next(batches)), STEPS[model_name])


def overhead_alone(style: str, model_name: str) -> float:
    """One process: the time with lockstep's calls over that without, minus one, in alternation."""
    import tensorflow as tf

    import lockstep

    loops = []
    for with_lockstep in (False, True):
        tf.random.set_seed(1)
        model, optimizer = new_model(model_name), tf.keras.optimizers.SGD(0.01, momentum=0.9)
        data = dataset(model_name, GLOBAL_BATCH)
        if with_lockstep:
            lockstep.broadcast(model)
            data = lockstep.shard_batches(data)
        loops.append((training_step(model, optimizer, lockstep.all_reduce if with_lockstep else None), iter(data)))
    plain, ours = times_in_alternation(loops, 200)
    return ours / plain - 1


def gain_of_overlap(style: str, model_name: str) -> float:
    """The time of steps that reduce nothing before the last gradient is there, over that of ours, in alternation."""
    import tensorflow as tf

    import lockstep

    def reduce_at_the_end(gradients: list[Any]) -> Any:
        with tf.control_dependencies(gradients):
            return lockstep.all_reduce([tf.identity(gradient) for gradient in gradients])

    loops = []
    for reduce in (reduce_at_the_end, lockstep.all_reduce):
        model, optimizer = new_model(model_name), tf.keras.optimizers.SGD(0.01, momentum=0.9)
        lockstep.broadcast(model)
        data = dataset(model_name, GLOBAL_BATCH // lockstep.size())
        loops.append((training_step(model, optimizer, reduce), iter(data)))
    at_the_end, ours = times_in_alternation(loops, STEPS[model_name] * 2)
    return at_the_end / ours


def times_in_alternation(loops: list[tuple[Any, Any]], steps: int) -> list[float]:
    """Seconds a step of each (step, batches), medians."""
    times: list[list[float]] = [[] for _ in loops]
    for k in range(WARM_UP + steps):
        for which, (step, batches) in enumerate(loops) if k % 2 else reversed(list(enumerate(loops))):
            began = time.perf_counter()
            float(step(*next(batches)))
            times[which].append(time.perf_counter() - began)
    return [statistics.median(column[WARM_UP:]) for column in times]


def bandwidth(style: str, model_name: str) -> list[tuple[int, float, float]]:
    """(bytes, seconds of an all-reduce in a function, seconds of a memcpy), medians, for each size."""
    import numpy as np
    import tensorflow as tf

    import lockstep

    step = tf.function(lambda x: lockstep.all_reduce(x, "sum"))
    rows = []
    for size in BANDWIDTH_BYTES:
        tensor, source, target = tf.ones([size // 4]), np.ones(size // 4, np.float32), np.empty(size // 4, np.float32)
        repetitions = 5 if size > 1 << 24 else 30
        reduced = time_of_steps(lambda x=tensor: step(x), repetitions) / 1000
        copied = time_of_steps(lambda a=target, b=source: np.copyto(a, b), repetitions) / 1000
        rows.append((size, reduced, copied))
    return rows


WORK: dict[str, Callable[[str, str], Any]] = {
    "tensorflow": lockstep_training,
    "unchecked": lockstep_training,
    "mpi": lockstep_training,
    "lockstep-horovod": lockstep_training,
    "none": without_communication,
    "strategy": strategy_training,
    "tuned-strategy": tuned_strategy_training,
    "horovod": horovod_training,
    "alone": overhead_alone,
    "overlap-tensorflow": gain_of_overlap,
    "overlap-mpi": gain_of_overlap,
    "bandwidth-tensorflow": bandwidth,
    "bandwidth-mpi": bandwidth,
    "bandwidth-lockstep-horovod": bandwidth,
}


def training_step(model: Any, optimizer: Any, reduce: Any) -> Any:
    import tensorflow as tf

    @tf.function
    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        if reduce is not None:
            gradients = reduce(gradients)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return step


def new_model(name: str) -> Any:
    import tensorflow as tf

    layers = tf.keras.layers
    if name == "embedding":
        parts = [layers.Input((50,), dtype="int32"), layers.Embedding(200_000, 64), layers.GlobalAveragePooling1D()]
        return tf.keras.Sequential([*parts, layers.Dense(256, activation="relu"), layers.Dense(10)])
    widths = [512, 512, 512, 256] if name == "small" else [2048] * 7 + [512]
    hidden = [layers.Dense(width, activation="relu") for width in widths]
    return tf.keras.Sequential([layers.Input((784,)), *hidden, layers.Dense(10)])


def loss_of(y: Any, logits: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))


def dataset(model_name: str, batch: int) -> Any:
    import tensorflow as tf

    if model_name == "embedding":
        x = tf.random.stateless_uniform([1024, 50], [1, 2], 0, 200_000, tf.int32)
    else:
        x = tf.random.stateless_uniform([1024, 784], [1, 2])
    y = tf.random.stateless_uniform([1024], [3, 4], 0, 10, tf.int32)
    return tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(batch, drop_remainder=True).prefetch(2)


def time_of_steps(step: Any, steps: int) -> float:
    """Milliseconds, the median."""
    for _ in range(WARM_UP):
        step()
    times = []
    for _ in range(steps):
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


def time_of_fit(model: Any, optimizer: Any, data: Any, model_name: str) -> float:
    """Milliseconds a step, the median over short epochs after a first one."""
    import tensorflow as tf

    ends: list[float] = []
    note = tf.keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: ends.append(time.perf_counter()))
    steps = max(2, STEPS[model_name] // 5)
    model.compile(optimizer, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(data, steps_per_epoch=steps, epochs=6, verbose=0, callbacks=[note])
    return statistics.median(later - earlier for earlier, later in zip(ends, ends[1:])) / steps * 1000


def is_first_rank() -> bool:
    for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "HOROVOD_RANK"):
        if name in os.environ:
            return os.environ[name] == "0"
    return bool(json.loads(os.environ.get("TF_CONFIG", '{"task": {"index": 0}}'))["task"]["index"] == 0)


def main() -> None:
    contender, style, model_name, outcome = sys.argv[1:]
    result = WORK[contender](style, model_name)
    if is_first_rank():
        Path(outcome).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
