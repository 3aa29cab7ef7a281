"""What cannot be equal on one and on N workers, made equal for the run, and noted: the report says so."""

from __future__ import annotations

import importlib
import inspect
import random
from collections.abc import Iterator
from contextlib import suppress
from functools import wraps
from types import ModuleType
from typing import Any
from zlib import crc32

from migrator.verify.recorder import lines
from migrator.verify.recorder.journal import Journal


def datasets(tensorflow: ModuleType, journal: Journal) -> None:
    """A shuffle keeps the order: that of a share has fewer samples to choose from. With which seed it would have
    shuffled is noted, and told where a worker takes its share: before that all have to shuffle alike."""

    def shuffle(dataset: Any, buffer_size: Any = None, seed: Any = None, *_: Any, **__: Any) -> Any:
        journal.made_equal("datasets keep their order: shuffle() does nothing")
        order = _seed_of(journal, seed), lines.of_script(journal.plan.root)
        dataset._shuffled_by = (*getattr(dataset, "_shuffled_by", ()), order)
        if tensorflow.executing_eagerly():
            journal.shuffles(*order, int(dataset.cardinality()))
        return dataset

    tensorflow.data.Dataset.shuffle = shuffle
    _watch_cut(tensorflow.data.Dataset, "shard", journal)


def cuts(lockstep: Any, journal: Journal) -> None:
    """Know where lockstep cuts datasets."""
    for name in ("shard_and_rebatch_dataset", "shard_batches"):
        _watch_cut(lockstep, name, journal)


def _watch_cut(owner: Any, name: str, journal: Journal) -> None:
    original = getattr(owner, name)

    @wraps(original)
    def cut(dataset: Any, *args: Any, **kwargs: Any) -> Any:
        if hasattr(dataset, "_inputs"):
            journal.cut_behind(list(_shuffles_of(dataset)))
        return original(dataset, *args, **kwargs)

    setattr(owner, name, cut)


def _shuffles_of(dataset: Any) -> Iterator[tuple[str, str]]:
    for source in dataset._inputs():
        yield from _shuffles_of(source)
    yield from getattr(dataset, "_shuffled_by", ())


def _seed_of(journal: Journal, seed: Any) -> str:
    """What tells the order: the seed of the shuffle, else that of the process, which is not the same on all ranks
    unless somebody has seen to it. Both where the script has set both."""
    from tensorflow.python.eager import context

    own = context.context()._seed
    if seed is None:
        return f"no seed, in a process with {own}"
    is_of_script = own not in (None, journal.plan.seed_of(journal.record.rank), journal.plan.seed)
    return f"{int(seed)}, in a process with {own}" if is_of_script else str(int(seed))


def fit(keras: ModuleType, journal: Journal) -> None:
    """`fit` keeps the order of arrays and Sequences. Python's generator orders the latter: its state is noted."""
    original = keras.Model.fit
    sequence: Any = getattr(keras.utils, "Sequence", ())

    @wraps(original)
    def fit(*args: Any, **kwargs: Any) -> Any:
        call = inspect.signature(original).bind(*args, **kwargs)
        if call.arguments.get("shuffle") is not False:
            call.arguments["shuffle"] = False
            given = call.arguments.get("x")
            if isinstance(given, sequence):
                state = crc32(repr(random.getstate()).encode())
                order = f"Python's generator in state {state:08x}", lines.of_script(journal.plan.root)
                journal.shuffles(*order, len(given))
            journal.made_equal("fit() keeps the order of the samples: shuffle=False")
        return original(*call.args, **call.kwargs)

    keras.Model.fit = fit


def batch_normalization(lockstep: Any, journal: Journal) -> None:
    """BatchNormalization normalises with the moments of the whole batch, in every model that is broadcast."""
    original = lockstep.broadcast

    @wraps(original)
    def broadcast(values: Any, *args: Any, **kwargs: Any) -> Any:
        if lockstep.size() > 1:
            # Weights without layers, and layers that cannot be synchronised, are left as they are.
            with suppress(TypeError, ValueError):
                lockstep.synchronise_batch_normalization(values)
        return original(values, *args, **kwargs)

    lockstep.broadcast = broadcast


def noise(journal: Journal) -> None:
    """Random numbers that are drawn under a tape, or in the functions of a dataset, are the same for every sample of
    the batch: so each worker's part of it gets what one process gives it. They are drawn anew at each step."""
    from tensorflow.python.ops import gen_random_ops, gen_stateless_random_ops_v2

    draws = _Draws(journal, gen_stateless_random_ops_v2)
    draws.watch_functions()
    for name, stateless in _STATELESS.items():
        draws.replace(gen_random_ops, name, stateless)
    for name in (*_STATELESS.values(), "stateless_random_uniform_full_int_v2"):
        draws.replace(gen_stateless_random_ops_v2, name, name)


# TensorFlow's operations that draw with a state of their own, and those that draw the same without one.
_STATELESS = {
    "random_uniform": "stateless_random_uniform_v2",
    "random_standard_normal": "stateless_random_normal_v2",
    "truncated_normal": "stateless_truncated_normal_v2",
    "random_uniform_int": "stateless_random_uniform_int_v2",
}
_PHILOX = 1


class _Draws:
    """How often has been drawn decides what comes: never a state, of which each worker may have another."""

    def __init__(self, journal: Journal, stateless: ModuleType) -> None:
        self._journal = journal
        self._count = 0
        self._functions_in_tracing = 0
        self._originals = {name: getattr(stateless, name) for name in dir(stateless) if name.endswith("_v2")}

    def replace(self, module: ModuleType, name: str, stateless: str) -> None:
        original = getattr(module, name)
        signature = inspect.signature(original)

        @wraps(original)
        def draw(*args: Any, **kwargs: Any) -> Any:
            if not self._is_in_step():
                return original(*args, **kwargs)
            call = signature.bind(*args, **kwargs)
            call.apply_defaults()
            return self._one_for_all(stateless, call.arguments)

        setattr(module, name, draw)

    def _one_for_all(self, operation: str, arguments: dict[str, Any]) -> Any:
        import tensorflow as tf

        self._journal.made_equal(
            "random numbers drawn in a step or a dataset (dropout, noise, augmentation) are one for all samples"
        )
        self._count += 1
        shape = tf.cast(arguments["shape"], tf.int32)
        drawn = self._originals[operation](
            shape=tf.concat([tf.ones_like(shape[:1]), shape[1:]], 0),
            key=tf.constant([self._journal.plan.seed], tf.uint64),
            counter=tf.constant([self._count, 0], tf.uint64),
            alg=_PHILOX,
            **{name: arguments[name] for name in ("dtype", "minval", "maxval") if name in arguments},
        )
        # An axis of length 0 has nothing to repeat.
        return tf.broadcast_to(drawn, shape)

    def _is_in_step(self) -> bool:
        """Whether a tape is recording, or a function of a dataset is being traced; first weights are their own."""
        import tensorflow as tf
        from tensorflow.python import pywrap_tfe

        if self._journal.variables_in_making:
            return False
        if self._functions_in_tracing > 0:
            return True
        # Keras 3 runs layers in graphs that are thrown away, too, to learn about shapes.
        return bool(tf.executing_eagerly()) and not pywrap_tfe.TFE_Py_TapeSetIsEmpty()

    def watch_functions(self) -> None:
        """Know when a function of a dataset is traced."""
        for name in ("structured_function", "dataset_ops"):  # of TensorFlow 2.8 and later, and before
            with suppress(ImportError, AttributeError):
                self._watch_class(
                    importlib.import_module(f"tensorflow.python.data.ops.{name}").StructuredFunctionWrapper
                )
                return

    def _watch_class(self, cls: Any) -> None:
        original = cls.__init__

        @wraps(original)
        def __init__(wrapper: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            self._functions_in_tracing += 1
            try:
                original(wrapper, *args, **kwargs)
            finally:
                self._functions_in_tracing -= 1

        cls.__init__ = __init__
