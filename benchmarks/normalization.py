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
        parts += [
            make.Conv2D(32, 3, padding="same", use_bias=False),
            make.BatchNormalization(momentum=0.9),
            make.ReLU(),
        ]
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


def accuracy(is_synchronised: bool) -> tuple[float, float, list[Any]]:
    """Of the test digits, the mean loss of the last epoch, and the trained variables after one epoch.

    In float64: in float32 such a network magnifies rounding a thousandfold within some dozen steps, as it is.
    """
    import tensorflow as tf

    import lockstep

    tf.keras.backend.set_floatx("float64")
    model, step = new_model(LAYERS[0], is_synchronised)
    x, y, x_test, y_test = digits()
    x = x.astype("float64")
    batches = lockstep.shard_batches(tf.data.Dataset.from_tensor_slices((x, y)).batch(GLOBAL_BATCH))
    for epoch in range(EPOCHS):
        losses = [float(lockstep.all_reduce(step(*batch))) for batch in batches]
        if epoch == 0:
            variables = [variable.numpy().tolist() for variable in model.trainable_variables]
    right = tf.argmax(model(x_test, training=False), 1).numpy() == y_test
    tf.keras.backend.set_floatx("float32")
    return float(right.mean()), statistics.mean(losses), variables


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


def work(what: str, outcome: str) -> None:
    """What each worker does; the chief writes it down."""
    import lockstep

    # In processes of their own, since Keras goes on making layers of the type that it has made the first one of.
    if what == "accuracy":
        found: Any = [accuracy(is_synchronised) for is_synchronised in (False, True)[: lockstep.size()]]
    else:
        found = [times(layers) for layers in LAYERS]
    if lockstep.is_chief():
        Path(outcome).write_text(json.dumps(found))


def measured(what: str, workers: int, backend: str = "tensorflow") -> Any:
    with tempfile.NamedTemporaryFile(suffix=".json") as outcome:
        launch = ["-m", "lockstep", "run", "--backend", backend, "-n", str(workers)] if workers > 1 else []
        command = [sys.executable, *launch, str(Path(__file__).resolve()), "--worker", what, outcome.name]
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
        environment["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")
        return json.loads(Path(outcome.name).read_text())


def tables() -> str:
    """Runs everything (minutes) and returns the results as markdown."""
    (alone,), (local, synchronised) = measured("accuracy", 1), measured("accuracy", 2)
    lines = [
        "# BatchNormalization",
        "",
        f"Written by `python benchmarks/normalization.py --write`: {os.cpu_count()} cores, {platform.machine()}, "
        f"Python {platform.python_version()}; 2 workers on this machine, global batch {GLOBAL_BATCH}.",
        "",
        f"What local statistics cost: digits, {LAYERS[0]} layers, {EPOCHS} epochs of 22 steps in float64; how far",
        "the variables are from those of one process after the first, relative to the largest value of each.",
        "",
        "| | off after one epoch | loss of the last epoch | test accuracy |",
        "|---|---|---|---|",
    ]
    for name, (right, loss, variables) in {
        "one process": alone,
        "2 workers, local statistics (the default)": local,
        "2 workers, synchronised": synchronised,
    }.items():
        off = _difference(variables, alone[2])
        lines.append(f"| {name} | {off:.1e} | {loss:.4f} | {right:.4f} |")
    lines += [
        "",
        "What global ones cost: milliseconds a step of convolutions with so many BatchNormalization layers.",
        "",
        "| layers | backend | local | synchronised | more for each layer |",
        "|---|---|---|---|---|",
    ]
    for name in ("tensorflow", "mpi"):
        for layers, (without, with_all) in zip(LAYERS, measured("times", 2, name)):
            each = (with_all - without) / layers
            lines.append(f"| {layers} | {name} | {without:.1f} | {with_all:.1f} | {each:.2f} |")
    return "\n".join(lines) + "\n"


def _difference(found: list[Any], wanted: list[Any]) -> float:
    import numpy as np

    pairs = [(np.array(a), np.array(b)) for a, b in zip(found, wanted)]
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the tables to benchmarks/results")
    parser.add_argument("--worker", nargs=2, metavar=("WHAT", "OUTCOME"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(*arguments.worker)
        return
    text = tables()
    print(text)
    if arguments.write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
