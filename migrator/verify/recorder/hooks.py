"""Every hook, set the moment the script itself has imported what it hooks."""

from __future__ import annotations

import importlib
import random
from contextlib import suppress
from types import ModuleType

from migrator.verify.plan import Plan
from migrator.verify.recorder import equal, exchanges, files, optimizers, printing, samples, tapes, variables, wide
from migrator.verify.recorder.import_hooks import after_import
from migrator.verify.recorder.journal import Journal


def install(plan: Plan, journal: Journal) -> None:
    """Call before the script runs, and before TensorFlow has made a tensor."""
    rank = journal.record.rank
    # Workers start from different seeds, as they would: only what the script or its runtime does makes them agree. The
    # chief starts from the one that lockstep is told to use, and so as the original does.
    seed = plan.seed_of(rank)
    with suppress(ImportError):
        # Draws from Python's generator when it is first imported, which Keras and scikit-learn do sometime.
        importlib.import_module("rich.style")
    _seed(seed)
    written = files.Files(journal)
    written.watch_python()
    printing.watch_streams(journal)
    printing.watch_logging(journal)

    def tensorflow_is_there(tensorflow: ModuleType) -> None:
        if plan.is_wide:
            wide.tensorflow(tensorflow)
        tensorflow.random.set_seed(seed)
        # What a compiled function computes cannot be seen from outside.
        tensorflow.config.run_functions_eagerly(True)
        written.watch_tensorflow(tensorflow)
        printing.watch_tensorflow(journal)
        variables.watch(tensorflow, journal)
        samples.watch_datasets(tensorflow, journal)
        tapes.watch(tensorflow, journal)  # after that: what is told when a tape ends was seen under it
        optimizers.watch_tensorflow(tensorflow, journal)
        if not plan.as_is:
            equal.datasets(tensorflow, journal)
            equal.noise(journal)

    def keras_is_there(keras: ModuleType) -> None:
        if plan.is_wide:
            wide.keras(keras)
        optimizers.watch_keras(keras, journal)
        if hasattr(keras, "Variable"):  # Keras 3
            variables.watch_setting(keras.Variable, journal)
        samples.watch_layers(keras, journal)
        samples.watch_feeding(keras, journal)
        optimizers.watch_epochs(keras, journal)
        if not plan.as_is:
            equal.fit(keras, journal)

    after_import("tensorflow", tensorflow_is_there)
    for name in ("keras", "tf_keras"):
        after_import(name, keras_is_there)
    after_import("h5py", written.watch_h5py)
    after_import("lockstep", lambda lockstep: exchanges.watch(lockstep, journal))
    if not plan.as_is:
        after_import("lockstep", lambda lockstep: equal.cuts(lockstep, journal))
    if not plan.as_is and not plan.local_batch_norm:
        after_import("lockstep", lambda lockstep: equal.batch_normalization(lockstep, journal))


def _seed(seed: int) -> None:
    import numpy as np

    random.seed(seed)
    np.random.seed(seed)
