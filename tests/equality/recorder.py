"""Run a training script untouched and write down what it trained.

    python recorder.py --record FOLDER --seed 7 [--without-randomness] [--samples] [--stand-in] script.py [args ...]

Every process of the run leaves `FOLDER/rank-<r>.npz`, with

    weight/<i>  the final value of every trainable variable, in the order of creation
    steps       int64[number of optimizers]: their step counters
    losses      float64[number of epochs]: the loss of each epoch of `fit`
    samples     int64[rows], with --samples only: a hash of each row that a model saw under a gradient tape

A script that fails leaves nothing and fails the process.

The script is hooked from outside, through imports and TensorFlow's variable creators, so that original and
migrated scripts run exactly as their users would run them. These things are done to it on purpose:

* Workers start apart: every rank seeds Python, NumPy and TensorFlow differently, and on ranks above 0 every
  trainable variable starts from another value. Only a broadcast can bring them together again.
* --stand-in puts the packages of tests/stand_in in the place of libraries that need hardware, and tells the rank
  as their launchers do.
* --without-randomness turns off what makes two runs of the *same* script differ, or makes the order of the
  samples depend on their number: shuffling in tf.data and in `fit`, and dropout.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import random
import runpy
import sys
from contextlib import suppress
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any, Callable

import numpy as np
from import_hooks import after_import
from sample_log import SampleLog

STAND_INS = Path(__file__).resolve().parents[1] / "stand_in"


def rank_of_this_process() -> int:
    """The rank as the environment tells it: this runs before the script may import lockstep."""
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
    return int(task.get("index", os.environ.get("HOROVOD_RANK", 0)))


def stand_in_for_npus() -> None:
    """Let the script find the stand-in for npu_device, and its rank where launchers of NPU jobs put it."""
    sys.path.append(str(STAND_INS))
    cluster = json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {})
    os.environ["RANK_SIZE"] = str(len(cluster.get("worker", [])) or 1)
    os.environ["RANK_ID"] = str(rank_of_this_process())
    os.environ["LOCKSTEP_BACKEND"] = "single"


class TrainingRecord:
    """What one process trained: filled by hooks while the script runs, written when it has ended."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.variables: list[Any] = []
        self.losses: list[float] = []
        self._creator_scope: Any = None  # entered and never left: it has to cover the whole script

    def watch_variables(self, tensorflow: ModuleType) -> None:
        """Keep every variable that is created from now on; on ranks above 0 change its initial value."""

        def create(next_creator: Callable[..., Any], **arguments: Any) -> Any:
            if self.rank > 0 and arguments.get("trainable") is not False:
                arguments["initial_value"] = moved_apart(
                    tensorflow, arguments["initial_value"], arguments.get("dtype"), self.rank
                )
            variable = next_creator(**arguments)
            self.variables.append(variable)
            return variable

        self._creator_scope = tensorflow.variable_creator_scope(create)
        self._creator_scope.__enter__()

    def watch_losses(self, keras: ModuleType) -> None:
        """Keep the loss of each epoch as `History`, the last callback, gets to see it."""
        original = keras.callbacks.History.on_epoch_end

        @wraps(original)
        def on_epoch_end(history: Any, epoch: int, logs: dict[str, float] | None = None) -> None:
            original(history, epoch, logs)
            self.losses.append(float((logs or {}).get("loss", np.nan)))

        keras.callbacks.History.on_epoch_end = on_epoch_end

    def write(self, path: Path, samples: SampleLog | None) -> None:
        weights = [v for v in self.variables if v.trainable and v.dtype.is_floating]
        # "iteration" is the counter of Keras 3 and tf_keras, "iter" that of the legacy optimizers.
        steps = [int(v) for v in self.variables if own_name(v) in ("iteration", "iter")]
        arrays = {f"weight/{i}": v.numpy() for i, v in enumerate(weights)}
        if samples is not None:
            arrays["samples"] = samples.hashes()
        partial = path.with_suffix(".partial.npz")
        np.savez(partial, steps=np.array(steps, np.int64), losses=np.array(self.losses), **arrays)
        partial.replace(path)


def own_name(variable: Any) -> str:
    """`iteration` for a variable that is called `sgd/iteration:0`."""
    return str(variable.name).split("/")[-1].split(":")[0]


def moved_apart(tensorflow: ModuleType, initial_value: Any, dtype: Any, rank: int) -> Any:
    """An initial value that differs from the given one on each rank. Draws no random number."""

    def moved(value: Any) -> Any:
        tensor = tensorflow.convert_to_tensor(value, dtype=dtype)
        return tensor * (1 + 0.1 * rank) + 0.05 * rank if tensor.dtype.is_floating else tensor

    return (lambda: moved(initial_value())) if callable(initial_value) else moved(initial_value)


def keep_dataset_order(tensorflow: ModuleType) -> None:
    def shuffle(dataset: Any, *_: Any, **__: Any) -> Any:
        return dataset

    tensorflow.data.Dataset.shuffle = shuffle


def keep_array_order(keras: ModuleType) -> None:
    original = keras.Model.fit

    @wraps(original)
    def fit(*args: Any, **kwargs: Any) -> Any:
        call = inspect.signature(original).bind(*args, **kwargs)
        call.arguments["shuffle"] = False
        return original(*call.args, **call.kwargs)

    keras.Model.fit = fit


def drop_nothing(keras: ModuleType) -> None:
    def call(layer: Any, inputs: Any, training: bool | None = None) -> Any:
        return inputs

    keras.layers.Dropout.call = call


def install_hooks(options: argparse.Namespace, record: TrainingRecord, samples: SampleLog | None) -> None:
    """Arrange for every hook to be set the moment the script itself has imported what it hooks."""
    # Ranks start from different seeds, so that only lockstep can bring them together; the chief starts from
    # the seed that lockstep is told to use, so that its run can be compared with a single process's.
    seed = options.seed + 1000 * record.rank
    with suppress(ImportError):
        # Draws from Python's generator when it is first imported, which Keras and scikit-learn do sometime.
        importlib.import_module("rich.style")
    random.seed(seed)
    np.random.seed(seed)
    after_import("tensorflow", lambda tensorflow: tensorflow.random.set_seed(seed))
    after_import("tensorflow", record.watch_variables)
    if options.without_randomness:
        after_import("tensorflow", keep_dataset_order)
    if samples is not None:
        after_import("tensorflow", samples.watch_tapes)
    for keras in ("keras", "tf_keras"):
        after_import(keras, record.watch_losses)
        if options.without_randomness:
            after_import(keras, keep_array_order)
            after_import(keras, drop_nothing)
        if samples is not None:
            after_import(keras, samples.watch_layers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--record", type=Path, required=True, help="folder to leave the record in")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--without-randomness", action="store_true")
    parser.add_argument("--samples", action="store_true")
    parser.add_argument("--stand-in", action="store_true")
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()

    if options.stand_in:
        stand_in_for_npus()
    record = TrainingRecord(rank_of_this_process())
    samples = SampleLog() if options.samples else None
    install_hooks(options, record, samples)
    sys.argv = [options.script, *options.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(options.script))
    try:
        runpy.run_path(options.script, run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            raise
    record.write(options.record / f"rank-{record.rank}.npz", samples)


if __name__ == "__main__":
    main()
