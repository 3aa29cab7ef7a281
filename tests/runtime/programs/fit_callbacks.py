"""Callbacks that decide and write: alike on all workers, once, and never with one worker left waiting."""

from __future__ import annotations

import os
import pathlib
import tempfile
from typing import Any

import numpy as np
import tensorflow as tf
from checking import assert_equal_on_all_ranks, of_all_ranks, raised, run_checks, seed_everything

import lockstep

keras = tf.keras
layers = keras.layers
RANK, SIZE = lockstep.rank(), lockstep.size()
# Other data on each rank, so that losses differ before they are averaged.
X = np.random.RandomState(RANK).standard_normal([16, 4]).astype("float32")
Y = X.sum(1, keepdims=True) * (RANK + 1)


def compiled_model() -> Any:
    seed_everything(3)
    model = keras.Sequential([layers.Input((4,)), layers.Dense(1)])
    model.compile(lockstep.distributed_optimizer(keras.optimizers.SGD(0.05)), "mse", metrics=["mae"])
    return model


def fit(model: Any, callbacks: Any, epochs: int = 4, **options: Any) -> Any:
    options = {"batch_size": 4, "verbose": 0, **options}
    return model.fit(X, Y, epochs=epochs, validation_data=(X, Y), callbacks=callbacks, **options)


def same_temporary_folder() -> str:
    """One that all ranks of this machine see; rank 0's."""
    return str(of_all_ranks(tempfile.mkdtemp())[0])


class Record(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.logs: list[dict[str, float]] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.logs.append({name: float(value) for name, value in logs.items()})


class Rows(layers.Layer):  # type: ignore[misc, name-defined]
    """Notes the rows of every batch that it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []

    def call(self, inputs: Any) -> Any:
        if tf.executing_eagerly():
            self.seen += inputs.numpy()[:, 0].tolist()
        return inputs


def check_fit_shuffles_anew_in_each_epoch_of_an_unseeded_script() -> None:
    rows = Rows()
    model = keras.Sequential([layers.Input((1,)), rows, layers.Dense(1)])
    model.compile(lockstep.distributed_optimizer("sgd"), "mse", run_eagerly=True)
    numbers = np.arange(64, dtype="float32").reshape(-1, 1)
    rows.seen.clear()
    shared = lockstep.shard_arrays(numbers)
    model.fit(shared, shared, batch_size=8, epochs=2, verbose=0, callbacks=lockstep.callbacks())
    first, second = rows.seen[: 64 // SIZE], rows.seen[64 // SIZE : 128 // SIZE]
    assert sorted(first) == sorted(second) == numbers[RANK::SIZE, 0].tolist()
    assert first != second, "every epoch had the same order"
    after = of_all_ranks(float(tf.random.uniform([])))
    assert after[0] == after[1], "the common seed did not come back"


def check_logs_are_averaged_for_later_callbacks_and_the_history() -> None:
    raw, record = Record(), Record()
    average, *rest = lockstep.callbacks([record])
    history = fit(compiled_model(), [raw, average, *rest])
    for name in ("loss", "mae", "val_loss", "val_mae"):
        raws = of_all_ranks([logs[name] for logs in raw.logs])
        assert raws[0] != raws[1], "the ranks' logs were equal before: nothing is proven"
        np.testing.assert_allclose(history.history[name], np.mean(raws, 0), rtol=1e-6)
        np.testing.assert_allclose([logs[name] for logs in record.logs], np.mean(raws, 0), rtol=1e-6)


def check_what_is_accepted() -> None:
    stop = keras.callbacks.EarlyStopping()
    assert [type(c).__name__ for c in lockstep.callbacks()] == ["AverageLogs", "StopTogether"]
    for given in (stop, [stop], (stop,), [[stop]]):
        assert lockstep.callbacks(given)[1:-1] == [stop]
    once = lockstep.callbacks([stop])
    assert lockstep.callbacks(once) == once
    raised(TypeError, lockstep.callbacks, 3)
    given = keras.callbacks.CallbackList([stop], add_history=True, model=compiled_model(), epochs=2)
    assert lockstep.callbacks(given) is given
    assert stop in given.callbacks
    assert type(given.callbacks[0]).__name__ == "AverageLogs"
    assert given.callbacks[0].model is given.model


def check_a_callback_list_trains() -> None:
    record = Record()
    model = compiled_model()
    given = keras.callbacks.CallbackList([record], add_history=True, model=model, epochs=2, verbose=0, steps=4)
    fit(model, lockstep.callbacks(given), epochs=2)
    assert_equal_on_all_ranks([np.array(logs["loss"]) for logs in record.logs])
    assert len(record.logs) == 2


class ReadsBatches(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.losses: list[float] = []

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.losses.append(logs["loss"])


class CountsBatches(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
    number = 0

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        self.number += 1


def check_logs_of_batches_are_averaged_for_callbacks_that_read_them() -> None:
    raw, reads, given = ReadsBatches(), ReadsBatches(), []
    by_hand = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: given.append(logs["mae"]))
    average, *rest = lockstep.callbacks([reads, by_hand])
    fit(compiled_model(), [raw, average, *rest], epochs=2)
    raws = of_all_ranks(raw.losses)
    assert raws[0] != raws[1], "the ranks' logs were equal before: nothing is proven"
    np.testing.assert_allclose(reads.losses, np.mean(raws, 0), rtol=1e-6)
    assert_equal_on_all_ranks([np.array(given)])
    counts = CountsBatches()
    average, *rest = lockstep.callbacks([counts])
    raw = ReadsBatches()
    fit(compiled_model(), [average, raw, *rest], epochs=2)
    raws = of_all_ranks(raw.losses)
    assert raws[0] != raws[1], "an exchange that nobody reads"
    assert counts.number == len(raw.losses)


class StopsOnOneRank(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if RANK == SIZE - 1 and epoch == 1:
            self.model.stop_training = True


class StopsOnOneRankWithinEpoch(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if RANK == SIZE - 1 and batch == 2:
            self.model.stop_training = True


def check_who_stops_stops_all() -> None:
    history = fit(compiled_model(), lockstep.callbacks([StopsOnOneRank()]), epochs=5)
    assert of_all_ranks(len(history.epoch)) == [2] * SIZE


def check_who_stops_within_an_epoch_stops_all() -> None:
    model = compiled_model()
    fit(model, lockstep.callbacks([StopsOnOneRankWithinEpoch()]), epochs=5)
    assert of_all_ranks(int(np.asarray(model.optimizer.iterations))) == [3] * SIZE


def check_nan_on_one_rank_terminates_all() -> None:
    model = compiled_model()
    x = X.copy()
    if RANK == 1:
        x[5] = np.nan
    callbacks = lockstep.callbacks([keras.callbacks.TerminateOnNaN()])
    model.fit(x, Y, batch_size=4, epochs=3, verbose=0, shuffle=False, callbacks=callbacks)
    steps = of_all_ranks(int(np.asarray(model.optimizer.iterations)))
    assert steps == [2] * SIZE


def check_early_stopping_and_plateaus_decide_alike() -> None:
    model = compiled_model()
    callbacks = [
        keras.callbacks.EarlyStopping("val_loss", patience=1, min_delta=10.0, restore_best_weights=True),
        keras.callbacks.ReduceLROnPlateau("loss", patience=1, min_delta=10.0, factor=0.5),
    ]
    history = fit(model, lockstep.callbacks(callbacks), epochs=20)
    assert len(history.epoch) < 20
    everyone = of_all_ranks([len(history.epoch), float(np.asarray(model.optimizer.learning_rate))])
    assert all(one == everyone[0] for one in everyone)
    assert_equal_on_all_ranks(model.get_weights())


def check_files_are_written_by_the_chief_alone() -> None:
    with tempfile.TemporaryDirectory() as folder:  # each rank its own: what appears in it, this rank wrote
        callbacks = [
            keras.callbacks.ModelCheckpoint(os.path.join(folder, "best.keras"), save_best_only=True),
            keras.callbacks.CSVLogger(os.path.join(folder, "log.csv")),
            keras.callbacks.TensorBoard(os.path.join(folder, "board")),
        ]
        history = fit(compiled_model(), lockstep.callbacks(callbacks), epochs=2)
        written = sorted(os.listdir(folder))
        assert written == (["best.keras", "board", "log.csv"] if RANK == 0 else [])
        if RANK == 0:
            rows = pathlib.Path(folder, "log.csv").read_text().splitlines()
            logged = dict(zip(rows[0].split(","), rows[-1].split(",")))
            np.testing.assert_allclose(float(logged["loss"]), history.history["loss"][-1], rtol=1e-5)


class Interrupts(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if epoch == 2:
            raise KeyboardInterrupt


def backup_into(folder: str) -> Any:
    callbacks = keras.callbacks if hasattr(keras.callbacks, "BackupAndRestore") else keras.callbacks.experimental
    return callbacks.BackupAndRestore(os.path.join(folder, "backup"))


def check_backup_and_restore() -> None:
    folder = same_temporary_folder()
    backup = backup_into(folder)
    undisturbed = compiled_model()
    fit(undisturbed, lockstep.callbacks(), epochs=5, shuffle=False)
    raised(KeyboardInterrupt, fit, compiled_model(), lockstep.callbacks([backup, Interrupts()]), 5, shuffle=False)
    again = compiled_model()
    again.set_weights([w + RANK for w in again.get_weights()])
    backup = backup_into(folder)
    history = fit(again, lockstep.callbacks([backup]), epochs=5, shuffle=False)
    assert of_all_ranks(history.epoch) == [[3, 4]] * SIZE or of_all_ranks(history.epoch) == [[2, 3, 4]] * SIZE
    assert_equal_on_all_ranks(again.get_weights())
    for mine, wanted in zip(again.get_weights(), undisturbed.get_weights()):
        np.testing.assert_allclose(mine, wanted, atol=1e-6)


def check_metrics_that_differ_are_noticed() -> None:
    seed_everything(3)
    model = keras.Sequential([layers.Input((4,)), layers.Dense(1)])
    optimizer = lockstep.distributed_optimizer(keras.optimizers.SGD(0.05))
    model.compile(optimizer, "mse", metrics=["mae"] if RANK == 0 else ["mse"])
    callbacks = lockstep.callbacks()
    message = raised(lockstep.MismatchError, model.fit, X, Y, batch_size=4, verbose=0, callbacks=callbacks)
    assert "mae" in message


run_checks(globals())
