"""Training steps with two workers, lockstep against MultiWorkerMirroredStrategy, and what lockstep costs alone.

    python benchmarks/training.py            # prints the tables
    python benchmarks/training.py --write    # also writes them to benchmarks/results/training.md

Both contenders run the same custom loop on the same data, in short turns one after the other, so that other
load on the machine hits both alike. Every number is the median over the turns.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "training.md"
WORKERS = 2
SIZES = {"small": "about 1 M parameters", "large": "about 27 M parameters"}
TURNS = {"small": 3, "large": 2}
STEPS = {"small": 60, "large": 8}


def table() -> str:
    """Run everything (some minutes) and return the section of the results as markdown."""
    lines = [
        "## Training",
        "",
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, "
        f"TensorFlow {_tensorflow_version()}; {WORKERS} workers on this machine, global batch 64.",
        "",
        "| model | lockstep, ms a step | MultiWorkerMirroredStrategy with defaults, ms a step | ratio |",
        "|---|---|---|---|",
    ]
    for size, description in SIZES.items():
        turns = [(_milliseconds("lockstep", size), _milliseconds("strategy", size)) for _ in range(TURNS[size])]
        ours, theirs = (statistics.median(column) for column in zip(*turns))
        lines.append(f"| {size} ({description}) | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} |")
    overhead = statistics.median(_one_process_overhead())
    lines += [
        "",
        f"One process, the same loop with and without the lockstep calls, 200 steps in alternation: {overhead:+.2%}.",
        "",
    ]
    return "\n".join(lines)


def _tensorflow_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    for distribution in ("tensorflow", "tensorflow-cpu"):
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "unknown"


def _milliseconds(contender: str, size: str) -> float:
    """One turn: the workers' time a step, after warming up."""
    with tempfile.NamedTemporaryFile(suffix=".json") as outcome:
        _run([sys.executable, "-m", "lockstep", "run", "-n", str(WORKERS), __file__, contender, size, outcome.name])
        return float(json.loads(Path(outcome.name).read_text()))


def _one_process_overhead() -> list[float]:
    with tempfile.NamedTemporaryFile(suffix=".json") as outcome:
        _run([sys.executable, __file__, "alone", "small", outcome.name])
        return [float(ratio) for ratio in json.loads(Path(outcome.name).read_text())]


def _run(command: list[str]) -> None:
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    # Keras 2 for both: the strategy fails with the optimizers of Keras 3.
    environment["TF_USE_LEGACY_KERAS"] = "1"
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    if "strategy" in command:
        # lockstep would join the cluster by itself; the strategy has to.
        environment["LOCKSTEP_BACKEND"] = "single"
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")


def _work(contender: str, size: str, outcome: Path) -> None:
    """What the started processes do."""
    work = {"lockstep": _lockstep_worker, "strategy": _strategy_worker, "alone": _alone}[contender]
    result = work(size)
    rank = json.loads(os.environ.get("TF_CONFIG", '{"task": {"index": 0}}'))["task"]["index"]
    if rank == 0:
        outcome.write_text(json.dumps(result))


def _lockstep_worker(size: str) -> float:
    import tensorflow as tf

    import lockstep

    model, optimizer = _model(size), tf.keras.optimizers.SGD(0.01, momentum=0.9)
    lockstep.broadcast(model)
    batches = iter(_dataset(64 // lockstep.size()))
    step = _training_step(model, optimizer, reduce=True)
    return _time(lambda: step(*next(batches)), STEPS[size])


def _strategy_worker(size: str) -> float:
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        model, optimizer = _model(size), tf.keras.optimizers.SGD(0.01, momentum=0.9)
    # Its optimizers reduce the gradients by themselves.
    replica_step = _training_step(model, optimizer, reduce=False)
    batches = iter(
        strategy.distribute_datasets_from_function(lambda context: _dataset(context.get_per_replica_batch_size(64)))
    )
    step = tf.function(lambda batch: strategy.run(replica_step.python_function, args=batch))
    return _time(lambda: step(next(batches)), STEPS[size])


def _alone(size: str) -> list[float]:
    """Ratios of time with and without lockstep, minus one, in alternation."""
    import time

    import tensorflow as tf

    import lockstep

    loops = []
    for with_lockstep in (False, True):
        tf.random.set_seed(1)
        model, optimizer = _model(size), tf.keras.optimizers.SGD(0.01, momentum=0.9)
        dataset = _dataset(64)
        if with_lockstep:
            lockstep.broadcast(model)
            dataset = lockstep.shard_batches(dataset)
        loops.append((_training_step(model, optimizer, reduce=with_lockstep), iter(dataset)))
    times: list[list[float]] = [[], []]
    for k in range(220):
        for which, (step, batches) in enumerate(loops) if k % 2 else reversed(list(enumerate(loops))):
            began = time.perf_counter()
            float(step(*next(batches)))
            times[which].append(time.perf_counter() - began)
    plain, ours = (statistics.median(column[20:]) for column in times)
    return [ours / plain - 1]


def _training_step(model: Any, optimizer: Any, reduce: bool) -> Any:
    import tensorflow as tf

    import lockstep

    @tf.function
    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = _loss(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        if reduce:
            gradients = lockstep.all_reduce(gradients)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return step


def _model(size: str) -> Any:
    import tensorflow as tf

    widths = [512, 512, 512, 256] if size == "small" else [2048] * 7 + [512]
    layers = [tf.keras.layers.Dense(width, activation="relu") for width in widths]
    return tf.keras.Sequential([tf.keras.layers.Input((784,)), *layers, tf.keras.layers.Dense(10)])


def _loss(y: Any, logits: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))


def _dataset(batch: int) -> Any:
    import tensorflow as tf

    x = tf.random.stateless_uniform([1024, 784], [1, 2])
    y = tf.random.stateless_uniform([1024], [3, 4], 0, 10, tf.int32)
    return tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(batch, drop_remainder=True).prefetch(2)


def _time(step: Any, steps: int) -> float:
    import time

    for _ in range(5):
        step()
    times = []
    for _ in range(steps):
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"write the tables to {RESULTS.name} too")
    options = parser.parse_args()
    text = table()
    print(text)
    if options.write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(text + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in ("lockstep", "strategy", "alone"):
        _work(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
    else:
        main()
