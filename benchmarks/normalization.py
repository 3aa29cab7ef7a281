"""BatchNormalization on several workers: what local statistics cost in accuracy, and global ones in time.

    python benchmarks/normalization.py            # prints the tables
    python benchmarks/normalization.py --write    # also writes them to benchmarks/results/normalization.md

Times are of one process that trains both models in alternation, so that other load on the machine hits both alike.
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
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "normalization.md"
GLOBAL_BATCH = 64
EPOCHS = 8
WARM_UP, STEPS = 5, 40
LAYERS = (4, 16)


def convolutions(layers: int) -> Any:
    """A network for the digits of scikit-learn, with so many BatchNormalization layers."""
    import tensorflow as tf

    make = tf.keras.layers
    parts = [make.Input((8, 8, 1))]
    for _ in range(layers):
        parts += [make.Conv2D(32, 3, padding="same", use_bias=False), make.BatchNormalization(), make.ReLU()]
    return tf.keras.Sequential([*parts, make.GlobalAveragePooling2D(), make.Dense(10)])


def digits() -> tuple[Any, ...]:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype("float32").reshape(-1, 8, 8, 1)
    return x[:1408], y[:1408], x[1408:], y[1408:]


def step_of(model: Any, optimizer: Any) -> Any:
    import tensorflow as tf

    import lockstep

    @tf.function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, model(x, training=True)))
        gradients = lockstep.all_reduce(tape.gradient(loss, model.trainable_variables))
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return step


def new_model(layers: int, is_synchronised: bool) -> tuple[Any, Any]:
    import tensorflow as tf

    import lockstep

    tf.keras.utils.set_random_seed(1)
    model = lockstep.broadcast(convolutions(layers))
    if is_synchronised:
        lockstep.synchronise_batch_normalization(model)
    return model, step_of(model, tf.keras.optimizers.SGD(0.05, momentum=0.9))


def accuracy(is_synchronised: bool) -> tuple[float, float]:
    """Of the test digits, and the mean loss of the last epoch."""
    import tensorflow as tf

    import lockstep

    model, step = new_model(LAYERS[0], is_synchronised)
    x, y, x_test, y_test = digits()
    batches = lockstep.shard_batches(tf.data.Dataset.from_tensor_slices((x, y)).batch(GLOBAL_BATCH))
    for _ in range(EPOCHS):
        losses = [float(lockstep.all_reduce(step(*batch))) for batch in batches]
    right = tf.argmax(model(x_test, training=False), 1).numpy() == y_test
    return float(right.mean()), statistics.mean(losses)


def times(layers: int) -> tuple[float, float]:
    """Milliseconds a step, medians: with local statistics, and with global ones."""
    import lockstep

    x, y = digits()[:2]
    batch = lockstep.shard_batch(x[:GLOBAL_BATCH], y[:GLOBAL_BATCH])
    steps = [new_model(layers, is_synchronised)[1] for is_synchronised in (False, True)]
    taken: list[list[float]] = [[], []]
    for k in range(WARM_UP + STEPS):
        for which in (0, 1) if k % 2 else (1, 0):
            began = time.perf_counter()
            float(steps[which](*batch))
            taken[which].append((time.perf_counter() - began) * 1000)
    local, synchronised = (statistics.median(column[WARM_UP:]) for column in taken)
    return local, synchronised


def work(outcome: str) -> None:
    """What each worker does; the chief writes it down."""
    import lockstep

    measured: dict[str, Any] = {"local": accuracy(False)}
    if lockstep.size() > 1:
        measured.update(synchronised=accuracy(True), times={layers: times(layers) for layers in LAYERS})
    if lockstep.is_chief():
        Path(outcome).write_text(json.dumps(measured))


def measured(workers: int, backend: str) -> Any:
    with tempfile.NamedTemporaryFile(suffix=".json") as outcome:
        launch = ["-m", "lockstep", "run", "--backend", backend, "-n", str(workers)] if workers > 1 else []
        command = [sys.executable, *launch, str(Path(__file__).resolve()), "--worker", outcome.name]
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
        return json.loads(Path(outcome.name).read_text())


def tables() -> str:
    """Runs everything (minutes) and returns the results as markdown."""
    one, two, by_mpi = measured(1, "tensorflow"), measured(2, "tensorflow"), measured(2, "mpi")
    lines = [
        "# BatchNormalization",
        "",
        f"Written by `python benchmarks/normalization.py --write`: {os.cpu_count()} cores, {platform.machine()}, "
        f"Python {platform.python_version()}; 2 workers on this machine, global batch {GLOBAL_BATCH}.",
        "",
        f"What local statistics cost: digits, {LAYERS[0]} layers, {EPOCHS} epochs.",
        "",
        "| | test accuracy | loss of the last epoch |",
        "|---|---|---|",
    ]
    for name, (right, loss) in {
        "one process": one["local"],
        "2 workers, local statistics (the default)": two["local"],
        "2 workers, synchronised": two["synchronised"],
    }.items():
        lines.append(f"| {name} | {right:.4f} | {loss:.6f} |")
    lines += [
        "",
        "What global ones cost: milliseconds a step of convolutions with so many BatchNormalization layers.",
        "",
        "| layers | backend | local | synchronised | more for each layer |",
        "|---|---|---|---|---|",
    ]
    for layers in LAYERS:
        for name, taken in {"tensorflow": two["times"], "mpi": by_mpi["times"]}.items():
            local, synchronised = taken[str(layers)]
            each = (synchronised - local) / layers
            lines.append(f"| {layers} | {name} | {local:.1f} | {synchronised:.1f} | {each:.2f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables to benchmarks/results")
    parser.add_argument("--worker", metavar="OUTCOME", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments.worker)
        return
    text = tables()
    print(text)
    if arguments.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
