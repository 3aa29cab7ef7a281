"""The public functions: what each takes and gives, and that in one process it gives back what it was given.

The work is done in the modules that the functions import; those import TensorFlow, this one does not.
"""

from __future__ import annotations

from typing import Any

from lockstep import _world
from lockstep._batch_size import local_batch_size as _local_batch_size


def rank() -> int:
    """This worker's number, from 0 to size() - 1."""
    return _world.backend().rank


def size() -> int:
    """The number of workers that train together; 1 in a process that nobody launched with others."""
    return _world.backend().size


def local_rank() -> int:
    """This worker's number among those on its machine."""
    return _world.backend().local_rank


def is_chief() -> bool:
    """Whether this is rank 0, the one worker that prints and writes files."""
    return rank() == 0


def barrier() -> None:
    """Wait until every worker has come here.

    Raises MismatchError when another worker is in another collective call, LostWorkerError when one is gone.
    """
    if size() > 1:
        from lockstep._agreement import agree

        agree("barrier", "", "Every worker must come to the same barriers.")


def broadcast(values: Any, root_rank: int = 0) -> None:
    """Give every worker the weights of the worker root_rank, in place.

    values: a Keras model, layer or optimizer (Keras 3, Keras 2, tf_keras), a tf.Module or tf.Variable, or
    nested lists, tuples and dicts of them. All variables are sent, BatchNorm statistics too, in their own
    dtypes. A Keras model that has no variables yet, or gets more later, is synchronised the moment it gets
    them, before anything is computed with them. An optimizer's state that does not exist yet is not sent.

    Raises ValueError for a root_rank that is no rank, and for a tf.Module without variables or an empty list;
    TypeError for other objects; MismatchError when the workers' weights have other shapes or dtypes.
    """
    if size() > 1:
        from lockstep._weights import broadcast as implementation

        implementation(values, root_rank)


def all_reduce(values: Any, reduction: str = "mean") -> Any:
    """Combine the workers' values; every worker gets the result, in the structure and shapes of values.

    values: a tensor, variable, numpy array, number, tf.IndexedSlices or None, or nested lists, tuples and
    dicts of them. Tensors and variables give tensors of the same dtype; eagerly, numpy gives numpy, a Python
    number a Python number (the mean of integers is a float). None stays None. IndexedSlices stay sparse: they
    come back with all workers' rows, rows of one index not merged.
    reduction: "mean", "sum", "max" or "min"; IndexedSlices have only "mean" and "sum".
    Works eagerly and in tf.function, not in functions compiled with jit_compile=True.

    Raises ValueError for another reduction; TypeError for values that are no numbers, and for the mean of
    integer tensors; MismatchError on all workers when they reduce other shapes or dtypes; LostWorkerError, or
    in a tf.function tf.errors.OpError, when another worker is gone.
    """
    if size() == 1:
        return values
    from lockstep._reduction import all_reduce as implementation
    from lockstep._reduction import check_reduction

    check_reduction(reduction)
    return implementation(values, reduction)


def distributed_optimizer(optimizer: Any, reduction: str = "mean") -> Any:
    """Make an optimizer reduce gradients over the workers before it applies them.

    optimizer: an instance (Keras 3, Keras 2, tf_keras, tf.compat.v1, or anything with apply_gradients), the
    name or config of a Keras optimizer, or a list or dict of them. An instance is changed in place and
    returned; it keeps its class name, slots and config. Doing it twice changes nothing. Gradients are reduced
    before clipping and before any state is updated.
    reduction: "mean" or "sum".

    In one process the argument is returned as it is, "adam" as "adam". Raises TypeError for anything else,
    ValueError for another reduction.
    """
    if size() == 1:
        return optimizer
    from lockstep._optimizers import distributed_optimizer as implementation

    return implementation(optimizer, reduction)


def shard_and_rebatch_dataset(dataset: Any, global_batch_size: int, drop_remainder: bool = False) -> tuple[Any, int]:
    """Give each worker its share of a dataset of single, not yet batched samples.

    Returns (dataset, local_batch_size): the samples i with i % size() == rank(), and global_batch_size /
    size(). Every worker gets equally many samples, so equally many steps. Where size() does not divide their
    number, the first samples of the dataset (of the last group, where the number is unknown) come once more;
    with drop_remainder=True the last samples are left out instead, which keeps the number of full batches
    that one process has. A cardinality that was known stays known.

    Raises ValueError when global_batch_size is not divisible by size(), TypeError for what is no
    tf.data.Dataset, MismatchError when the workers' random states would shuffle differently.
    """
    if size() == 1:
        return dataset, global_batch_size
    from lockstep._datasets import shard_and_rebatch_dataset as implementation

    return implementation(dataset, global_batch_size, drop_remainder)


def shard_batches(dataset: Any) -> Any:
    """Give each worker its slice of every global batch.

    dataset: a tf.data.Dataset of batches (dense, ragged and sparse tensors, nested), a Keras Sequence or
    PyDataset, a generator, or another iterable of batches of arrays. Of a batch of m rows rank r gets the
    rows from m*r//N to m*(r+1)//N, at least one. All workers must produce the same batches in the same order.

    Raises TypeError for what holds no batches, MismatchError when the workers' random states differ.
    """
    if size() == 1:
        return dataset
    from lockstep._batches import shard_batches as implementation

    return implementation(dataset)


def shard_arrays(*arrays: Any, validation_split: float = 0.0) -> Any:
    """Give each worker its share of arrays: the samples i with i % size() == rank().

    arrays: numpy arrays, tensors, pandas objects, scipy sparse matrices, or lists, tuples and dicts of them,
    samples along the first axis; None passes through. One argument comes back alone, several as a list. All
    workers get equally many samples; where size() does not divide, the first ones come once more.
    validation_split: what `fit` will be given; the share is arranged so that fit's cut separates the worker's
    share of the global training part from its share of the global validation part.

    Raises ValueError for arrays of different lengths and for a validation_split outside [0, 1), TypeError for
    what cannot be split by samples, MismatchError when the workers' arrays differ.
    """
    if size() == 1:
        return arrays[0] if len(arrays) == 1 else list(arrays)
    from lockstep._arrays import shard_arrays as implementation

    return implementation(arrays, validation_split)


def local_batch_size(global_batch_size: int) -> int:
    """Each worker's part of the global batch, global_batch_size / size().

    Raises ValueError, naming both numbers and the nearest sizes that divide, when it is no integer.
    """
    return global_batch_size if size() == 1 else _local_batch_size(global_batch_size, size())


def callbacks(callbacks: Any = None) -> Any:
    """Keras callbacks that decide alike on all workers, and write files on the chief only.

    callbacks: None, one callback, a list or tuple, or a CallbackList (changed in place and returned). On
    several workers a list comes back: first one that averages the epoch's logs over the workers, then the
    given ones (on other workers than the chief without ModelCheckpoint, TensorBoard, CSVLogger and
    BackupAndRestore), last one that stops all workers as soon as one wants to stop. In one process the
    argument is returned.

    Raises TypeError for what is no callback, ValueError for BackupAndRestore of Keras 2.
    """
    if size() == 1:
        return callbacks
    from lockstep._callbacks import callbacks as implementation

    return implementation(callbacks)


def _start() -> None:
    if size() > 1:
        from lockstep import _cluster, _exit, _random_state

        _cluster.mark_joined()
        _exit.install()
        _random_state.seed_all_alike()


_start()
