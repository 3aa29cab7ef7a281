"""The public functions: what each takes and gives, and that in one process it gives back what it was given.

The work is done in the modules that the functions import; those import TensorFlow, this one does not.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from types import GeneratorType
from typing import Any

from lockstep.collectives import world
from lockstep.collectives.listed import is_array
from lockstep.shards.sizes import local_batch_size as _local_batch_size


def rank() -> int:
    """This worker's number, from 0 to size() - 1."""
    return world.backend().rank


def size() -> int:
    """The number of workers that train together; 1 in a process that nobody launched with others."""
    return world.backend().size


def local_rank() -> int:
    """This worker's number among those on its machine."""
    return world.backend().local_rank


def is_chief() -> bool:
    """Whether this is rank 0, the one worker that prints and writes files."""
    return rank() == 0


def barrier() -> None:
    """Wait until every worker has come here. In a tf.function: each time the function comes here.

    Raises MismatchError when another worker is in another collective call, LostWorkerError when one is gone.
    """
    if size() > 1:
        from lockstep.collectives.reduction import barrier as implementation

        implementation()


def broadcast(values: Any, root_rank: int = 0, *, noise: str = "own") -> Any:
    """Give every worker the weights, or the values, of the worker root_rank.

    Weights: a Keras model, layer or optimizer (Keras 3, Keras 2, tf_keras), a tf.Module, tf.Variable,
    tf.train.Checkpoint or CheckpointManager, an object of the script's own class that holds such in its attributes, or
    nested lists, tuples and dicts of them. They are set in place, at once also while a tf.function is traced.
    All variables are sent, BatchNorm statistics and a checkpoint's counters too, in their own dtypes, and with a Keras
    model those that it holds where Keras does not look: `self.__dict__.update(...)`, an object in an attribute. What a
    metric in there has counted stays each worker's own. A Keras model or tf.Module that has no variables yet, or gets
    more later, is synchronised the moment it gets them, before anything is computed with them; an object of another
    class is not followed. An optimizer's state that does not exist yet is not sent.
    Random generators of NumPy, TensorFlow and Python's random are set in place, too: from there on all draw the same.
    Values: tensors, numpy arrays, numbers, bools, strings, bytes, paths and None, nested, also beside weights; of the
    same structure, dtypes and shapes on all workers. The root's are returned, each as the kind of thing that was given.
    noise: what Keras 3's own layers (dropout, noise, augmentation) draw from then on: "own", other numbers on each
    worker, for its part of a batch; "same", for workers that all train on all of the data, as one process would.

    Returns values; what is set in place is returned as it is.
    Raises ValueError for a root_rank that is no rank, another noise, and for an empty list; TypeError for other
    objects, and for one that holds nothing to send; MismatchError when the workers' weights or values have other shapes
    or dtypes.
    """
    if noise not in ("own", "same"):
        raise ValueError(f'lockstep.broadcast: noise is "own" or "same", not {noise!r}')
    if size() == 1:
        return values
    from lockstep.data.row_weights import watch_fit
    from lockstep.weights.broadcasting import broadcast as implementation

    watch_fit()  # for models with a train_step of their own, whose optimizer nothing wraps
    return implementation(values, root_rank, own_noise=noise == "own")


def all_reduce(values: Any, reduction: str = "mean") -> Any:
    """Combine the workers' values; every worker gets the result, in the structure and shapes of values.

    values: a tensor, variable, numpy array, pandas Series or DataFrame of numbers, number, bool, tf.IndexedSlices or
    None, or nested lists, tuples and dicts of them; of a generator expression, `map` or `zip` it gives a list. Tensors
    and variables give tensors of the same dtype; eagerly, numpy gives numpy, pandas the same labels, a Python number a
    Python number (the mean of integers is a float), in tf.function a float32 or int32. None stays None.
    IndexedSlices stay sparse: they come back with all workers' rows, rows of one index not merged; what all workers
    look up alike, behind all_gather for one, is added up and comes once. float16 and bfloat16 are added in float32.
    reduction: "mean", "sum", "max", "min" or "prod". IndexedSlices and complex numbers have only "mean" and
    "sum"; bools only "max" (true on any worker) and "min" (true on all). With each mean and sum, the moving
    statistics of the BatchNormalization layers that were broadcast are averaged as well, in place.
    Works eagerly and in tf.function, not in functions compiled with jit_compile=True. Dense results of floating tensors
    can be differentiated, for losses and forward passes: with gradients averaged afterwards, they are those of the
    whole batch. The product has no gradient. In the steps of Keras's `evaluate` and `predict`, which every worker runs
    on the whole data, the values come back as they are.

    Raises ValueError for another reduction; TypeError for values that are no numbers, that have no such
    reduction, and for the mean of integer tensors; MismatchError on all workers when they reduce other shapes
    or dtypes; LostWorkerError, or in a tf.function tf.errors.OpError, when another worker is gone.
    """
    if size() == 1 or _is_on_whole_data():
        return values
    from lockstep.training.gradients import reduce_in_step

    return reduce_in_step(_gone_through(values), reduction)


def metric_result(metric: Any) -> Any:
    """The result of a Keras metric over what all workers have updated it with; the metric itself stays as it is.

    metric: a metric whose state is sums and counts, as that of all Keras metrics is. Returns what metric.result()
    returns: most often a scalar tensor. In the steps of Keras's `evaluate`, every worker has counted all rows already.

    Raises TypeError for anything else; MismatchError when the workers' metrics have other states.
    """
    if size() == 1 or _is_on_whole_data():
        return metric.result()
    from lockstep.training.metrics import metric_result as implementation

    return implementation(metric)


def reduce(values: Any, reduction: str = "mean", root_rank: int = 0) -> Any:
    """Combine the workers' values; the worker root_rank gets the result, the others None.

    values, reduction and what is raised: as for all_reduce; and ValueError for a root_rank that is no rank.
    """
    if size() == 1:
        return values
    from lockstep.collectives.reduction import reduce as implementation

    return implementation(values, reduction, root_rank)


def all_gather(values: Any) -> Any:
    """Put the workers' values one after the other along the first axis; every worker gets all of them.

    values: a tensor or array, also of strings, variable, tf.RaggedTensor, tf.SparseTensor, number, bool,
    tf.IndexedSlices or None, or nested lists, tuples and dicts of them (a generator expression gives a list). Tensors
    of shapes [k, ...], where k may differ from worker to worker, give one of shape [sum of all k, ...], in rank order
    and the same dtype. Scalars give a vector [size()]; a list or tuple of nothing but numbers or texts is one array,
    and so is a list of such that are equally long, as for shard_batch. Eagerly, numpy arrays and Python numbers give
    numpy arrays, and such lists give lists. Works eagerly and in tf.function, and can be differentiated as all_reduce
    can: the gradient of the worker's own rows flows back to them. In the steps of Keras's `evaluate` and `predict`,
    every worker has all rows already.

    Raises TypeError for other values; MismatchError on all workers when structures, dtypes or the shapes behind
    the first axis differ; LostWorkerError, or in a tf.function tf.errors.OpError, when another worker is gone.
    """
    values = _gone_through(values)
    if size() == 1 or _is_on_whole_data():
        return _rows_of_one(values)
    from lockstep.collectives.gathering import all_gather as implementation

    return implementation(values)


def unshard_batch(values: Any, loss: str = "mean") -> Any:
    """Put together what the workers have of a batch that was cut: the way back from shard_batch and shard_batches.

    values: tensors, also tf.RaggedTensor and of strings, or arrays, or nested lists, tuples and dicts of them, with a
    row for each of this worker's samples; scalars stay as they are. Every worker gets the rows of all, in the order
    that they had in the batch and each once, whatever N and the batch. loss: what the batch was cut for. To look at
    some samples of the last batch behind the loop. Works eagerly and in tf.function.

    Raises ValueError for another loss, and what all_gather raises.
    """
    _check_loss(loss)
    if size() == 1 or _is_on_whole_data():
        return values
    from lockstep.data.unsharding import unshard_batch as implementation

    return implementation(values, loss)


def shard_like(values: Any, shard: Any) -> Any:
    """Give each worker its rows of what it has made of all workers' rows: the way back from all_gather.

    values: tensors, or nested lists, tuples and dicts of them, with the rows of all workers along the first axis, as
    all_gather puts them together; scalars stay as they are. shard: a tensor of this worker's rows, or a structure of
    which the first one counts: the rows that come back stand among all where these do. For layers that work on the
    batch as a whole, in models that `fit` trains. Works eagerly and in tf.function, and can be differentiated.

    Raises tf.errors.InvalidArgumentError when values have another number of rows than all workers together.
    """
    if size() == 1 or _is_on_whole_data():
        return values
    from lockstep.collectives.gathering import shard_like as implementation

    return implementation(values, shard)


def for_each_sample(indices: Any) -> Any:
    """Say of indices that look up rows of a table, an embedding say, that they have one for each sample of this worker.

    Where they are made of constants, as first tokens of sentences are (`tf.ones_like(words[:, 0]) * START`): the
    gradient of each is then one of a sample, and stands beside those of other workers as beside those of other
    samples. indices: a tensor, array or number. Works eagerly and in tf.function.

    Returns them, as a tensor; in one process the argument.
    """
    return _looked_up(indices, for_all=False)


def for_all_samples(indices: Any) -> Any:
    """Say of indices that look up rows of a table, an embedding say, that they do so once for all samples of a batch.

    Positions (`tf.range(length)`) and kinds of tokens, where the training step is no tf.function and nothing else tells
    them from indices of samples: the workers' gradients of each are then added up, as one process has one of them.
    indices: a tensor, array or number. Works eagerly and in tf.function.

    Returns them, as a tensor; in one process the argument.
    """
    return _looked_up(indices, for_all=True)


def _looked_up(indices: Any, *, for_all: bool) -> Any:
    if size() == 1:
        return indices
    from lockstep.shards.origins import told as implementation

    return implementation(indices, for_all=for_all)


def gather(values: Any, root_rank: int = 0) -> Any:
    """Put the workers' values one after the other along the first axis; root_rank gets them, the others None.

    values and what is raised: as for all_gather; and ValueError for a root_rank that is no rank.
    """
    if size() == 1:
        return _rows_of_one(values)
    from lockstep.collectives.gathering import gather as implementation

    return implementation(values, root_rank)


def scatter(values: Any, root_rank: int = 0) -> Any:
    """Divide the values of the worker root_rank: each worker gets its rows of them.

    values: on the root a tensor, variable, numpy array or None, or nested lists, tuples and dicts of them; each
    of a shape [size() * k, ...]. Worker r gets the rows from r * k to (r + 1) * k, shape [k, ...], of the same
    dtype and kind. On the other workers values does not matter, and may be left None; but in a tf.function it
    has to have the root's structure, dtypes and shapes.

    Raises ValueError on all workers when a first axis is not divisible by size(), or root_rank is no rank;
    TypeError for other values; MismatchError when another worker is in another call; LostWorkerError, or in a
    tf.function tf.errors.OpError, when another worker is gone.
    """
    if size() == 1:
        return values
    from lockstep.collectives.scattering import scatter as implementation

    return implementation(values, root_rank)


def reduce_scatter(values: Any, reduction: str = "mean") -> Any:
    """Combine the workers' values, and give each worker its rows of the result.

    values: as for all_reduce, without scalars and IndexedSlices; each of a shape [size() * k, ...]. Worker r gets
    the rows from r * k to (r + 1) * k of what all_reduce gives, shape [k, ...].

    Raises ValueError when a first axis is not divisible by size() (where that is known only when a tf.function
    runs, tf.errors.InvalidArgumentError); otherwise as all_reduce.
    """
    if size() == 1:
        return values
    from lockstep.collectives.reduction import reduce_scatter as implementation

    return implementation(values, reduction)


def on_whole_data(function: Any) -> Any:
    """Have a model, or a function, run on what every worker has, as it does in one process.

    For one that puts the rows of all workers together, where it is called on data that were not divided: to build a
    model, or to look at some samples. `lockstep.on_whole_data(model)(samples)` gives what one process gets: meanwhile
    `all_gather`, `all_reduce`, `shard_like`, `metric_result` and what `whole_batch` wraps are as in one process. A
    tf.function in there does what it did where it was traced.

    Returns something to call, with what function takes; in one process the argument.
    """
    if size() == 1:
        return function
    from lockstep.script.evaluation import on_whole_data as implementation

    return implementation(function)


def _is_on_whole_data() -> bool:
    """Whether what runs now does on the whole data on every worker: where Keras evaluates or predicts, and where the
    script says so."""
    from lockstep.script.evaluation import is_on_whole_data

    return is_on_whole_data()


def _gone_through(values: Any) -> Any:
    """What can be gone through but once, a generator expression or what `map` and `zip` give, as a list."""
    is_expression = isinstance(values, GeneratorType) and values.__name__ == "<genexpr>"
    return list(values) if is_expression or isinstance(values, (map, zip, filter)) else values


def _rows_of_one(values: Any) -> Any:
    """What gathering the values of one worker gives: the same, except that scalars become vectors."""
    if isinstance(values, dict):
        return type(values)({key: _rows_of_one(value) for key, value in values.items()})
    if type(values) in (list, tuple) and not is_array(values):
        return type(values)([_rows_of_one(value) for value in values])
    if isinstance(values, numbers.Number) and not hasattr(values, "shape"):
        import numpy

        return numpy.array([values])
    return values[None] if getattr(values, "shape", None) == () else values


def sample_gradients(gradients: Any) -> Any:
    """Make gradients with respect to samples what they are in one process, where the loss was put together.

    gradients: what a tape gives for this worker's rows: a tensor [k, ...], IndexedSlices, None, or a nested structure
    of these; of a loss made of what `all_gather` or `all_reduce` gave. Such gradients come as many times larger as
    there are workers, so that the mean over the workers is right for weights. For samples that are moved along their
    gradients (adversarial examples) or penalised by them. Can be differentiated in turn.

    Returns the same structure; in one process the argument.
    """
    if size() == 1:
        return gradients
    from lockstep.collectives.differentiable import sample_gradients as implementation

    return implementation(gradients)


def synchronise_batch_normalization(models: Any) -> Any:
    """Let the BatchNormalization layers of models normalise with the moments of the whole global batch.

    models: a Keras model or layer (Keras 3, Keras 2, tf_keras), an object that holds such, or lists, tuples and dicts
    of them; changed in place and returned. Layers that a model gets later count too. In training, a layer's mean and
    variance, and its moving statistics, are those of all workers' rows, whose number may differ and may be 0; masks are
    heeded, and gradients flow to all workers' rows. A fused layer of Keras 2 is computed without its fused operation,
    which normalises by one worker's moments alone. It costs two small collectives for each layer forwards and two
    backwards; without it each worker normalises with its own shard of the batch. What is saved is the plain layer:
    after load_model, call this again.

    In one process nothing happens. Raises TypeError for anything else, ValueError for layers with renorm or
    virtual_batch_size, MismatchError when the workers' layers differ.
    """
    if size() > 1:
        from lockstep.training.batch_normalization import synchronise_batch_normalization as implementation

        implementation(models)
    return models


def whole_batch(loss: Any) -> Any:
    """Make a loss one over the whole global batch: every worker computes it from the gathered rows of all.

    For losses that compare or normalise the samples of a batch with each other, so that they are no mean or sum over
    them. loss: a function of labels and predictions, or of other tensors; a loss object of any Keras; the name or
    config of a Keras loss; None; or lists and dicts of these. For `compile(loss=...)`, where sample weights and masks
    are gathered too, and for loops: a function then gives what it gives for all rows, a loss object what its reduction
    makes of that. Tensors (floating, integer or bool) of shapes [k, ...], where k may differ from worker to worker and
    may be 0, come to the loss as [sum of all k, ...]; ragged ones too, scalars as they are. Gradients flow back to the
    worker's own rows, such that the mean over the workers is the gradient of the whole batch. Batches are to be cut
    with loss="gather", so that no row comes twice.

    In one process the argument is returned. Raises TypeError for what is no loss; when called, for tensors of strings.
    """
    if size() == 1:
        return loss
    from lockstep.training.whole_batch import whole_batch as implementation

    return implementation(loss)


def whole_batch_metric(metric: Any) -> Any:
    """Make a Keras metric one over the whole global batch: every worker updates it with the gathered rows of all.

    For metrics that are no means over the samples (a root of a mean, a largest value, a ratio of sums), where callbacks
    or the script decide by what `fit` tells of them. metric: a function of labels and predictions, a metric object of
    any Keras, its class, or the name of a Keras metric; for `compile(metrics=[...])`. Each row counts once, also of
    batches that do not come out even, and each batch as it does in one process. In `evaluate` and in the validation of
    `fit`, which every worker does on the whole data, nothing is gathered. Datasets are to be cut with loss="gather".

    Returns the metric object, changed in place; in one process the argument. Raises TypeError for what is no metric.
    """
    if size() == 1:
        return metric
    from lockstep.training.whole_batch_metric import whole_batch_metric as implementation

    return implementation(metric)


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
    from lockstep.training.optimizers import distributed_optimizer as implementation

    return implementation(optimizer, reduction)


def shard_and_rebatch_dataset(
    dataset: Any, global_batch_size: int, drop_remainder: bool = False, loss: str = "mean"
) -> tuple[Any, int]:
    """Give each worker its shard of a dataset of single, not yet batched samples.

    Returns (dataset, local_batch_size). Where size() divides both the number of samples (or there is no end of them)
    and global_batch_size, a worker gets the samples i with i % size() == rank(). Elsewhere, and with loss="gather",
    which keeps the order of the rows, the batches are cut where the pipeline makes them, by batch(local_batch_size),
    padded_batch, ragged_batch or bucket_by_sequence_length: each of them is made as large as in one process, and each
    worker keeps its shard, as with shard_batches.
    drop_remainder: what the script gives to its batch; the cut is exact either way.
    loss: as for shard_batches.

    Raises ValueError for a batch of no rows, for a dataset that was cut before, and when batches are made in other
    ways where the samples do not come out even; TypeError for what is no tf.data.Dataset, MismatchError when the
    workers' random states would shuffle differently.
    """
    _check_loss(loss)
    if size() == 1:
        return dataset, global_batch_size
    from lockstep.data.datasets import shard_and_rebatch_dataset as implementation

    found: tuple[Any, int] = implementation(dataset, global_batch_size, loss)
    return found


def _check_loss(loss: str) -> None:
    if loss not in ("mean", "sum", "gather"):
        raise ValueError(f'loss must be "mean", "sum" or "gather", not {loss!r}')


def shard_batches(dataset: Any, loss: str = "mean") -> Any:
    """Give each worker its shard of every global batch.

    dataset: a tf.data.Dataset of batches (dense, ragged and sparse tensors, nested), a Keras Sequence or
    PyDataset, a generator, or another iterable of batches of arrays, also one for `async for`. All workers must
    produce the same batches in the same order.
    loss: how the loss puts the samples of a batch together: "mean", "sum" (also a sum that is divided by a
    constant), or "gather" (it is computed from the gathered rows of all workers). Rank r gets the rows i with
    i % N == r; with "gather" those from m*r//N to m*(r+1)//N of a batch of m rows, which come back in the order of the
    batch. Parts of it that have k rows for each sample are dealt out in blocks of k. Only where N does not divide m and
    the loss is a mean, a batch is dealt out into fewer, equal shards, gcd(m, N) of them, and several workers compute
    the same shard: only so is the mean over the workers that over the batch. `fit` deals out all batches into as many
    shards as a full one, and weighs each by its rows.

    Raises TypeError for what holds no batches, ValueError for another loss and for what was cut before,
    MismatchError when the workers' random states differ.
    """
    _check_loss(loss)
    if size() == 1:
        return dataset
    from lockstep.data.batches import shard_batches as implementation

    return implementation(dataset, loss)


def shard_batch(*values: Any, loss: str = "mean", whole: Sequence[str] = ()) -> Any:
    """Give each worker its rows of one global batch, for loops that make their batches by themselves.

    values: what shard_arrays takes, and tensors in a tf.function; with the global batch's m rows along the first axis,
    the same on all workers. One value comes back alone, several as a list; None passes through. Several batches may
    come together whose m differ: what has k times the rows of another, such as labels laid out in one row, is dealt
    out in blocks of k, so that a sample's rows stay together; all else by itself.
    whole: the names of entries of dicts, and of fields of dataclasses, named tuples and namespaces, that are not one of
    m rows each, such as a number for the whole batch or a table of the classes: they stay as they are. Texts stay, too.
    loss: how the loss puts the rows together: "mean", "sum" (also a sum that is divided by a constant), or "gather" (it
    is computed from the gathered rows of all workers). Rank r gets the rows i with i % N == r; with "gather" those
    from m*r//N to m*(r+1)//N, which come back in the order of the batch, as while `fit` trains on arrays that
    shard_arrays has cut. Only where N does not divide m and the loss is a mean, the batch is dealt out into fewer,
    equal shards, gcd(m, N) of them, and several workers compute the same shard: only so is the mean over the workers
    that over the batch.

    Raises ValueError for another loss, for what was cut before, where it cannot be told to which of two others a part
    belongs, and for a dict, dataclass, named tuple or namespace whose entries have unequally many rows; TypeError for
    what has no rows; and outside of tf.function MismatchError, with the line, when the workers hold other batches: a
    checksum of some rows is compared in the first calls, and then now and then.
    """
    _check_loss(loss)
    if size() == 1:
        return values[0] if len(values) == 1 else list(values)
    from lockstep.data.batch import shard_batch as implementation

    return implementation(tuple(map(_gone_through, values)), loss, whole)


def shard_arrays(*arrays: Any, validation_split: float = 0.0, batch_size: int | None = None, loss: str = "mean") -> Any:
    """Give each worker its shard of arrays: the rows of each global batch that `fit` is to train on.

    arrays: numpy arrays, tensors, pandas objects, scipy sparse matrices, or lists, tuples, dicts, dataclasses and
    namespaces of them, samples along the first axis; None passes through. One argument comes back alone, several as a
    list.
    validation_split: what `fit` will be given; the shard is arranged so that fit's cut separates the worker's
    shard of the global training part from its shard of the global validation part.
    batch_size: the global batch size of the `fit` that trains on the shard. With it, worker r gets of each batch of m
    rows those from m*r//N to m*(r+1)//N, of the last one too, so that the workers' k-th batches, one after the other,
    are the k-th global batch. All make as many steps as one process, and `fit` weighs each batch by the rows that
    count in it. Where size() does not divide it, several workers get the same shard, and the first of them counts.
    Without it a worker gets the samples i with i % size() == rank().
    All workers get equally many then; where size() does not divide their number, the first ones come once more.
    loss: how the model's own `train_step` puts the rows of a batch together, as for `shard_batches`. With "sum"
    and "gather" no row comes twice: the workers' parts of a batch differ by a row where it does not split evenly, and
    `local_batch_size` is to be given the same loss. Of a last batch of fewer rows than workers some get a row that
    only fills it, which `fit` (with `lockstep.callbacks`) leaves out of the step.

    Raises ValueError for arrays of different lengths, a validation_split outside [0, 1), a batch_size
    of no rows, what was cut before, another loss, and for "sum" and "gather" a batch_size of fewer rows than workers,
    or batches that do not split evenly beside a validation_split; TypeError for what cannot be split by samples,
    MismatchError when the workers' arrays differ.
    """
    _check_loss(loss)
    if size() == 1:
        return arrays[0] if len(arrays) == 1 else list(arrays)
    from lockstep.data.arrays import shard_arrays as implementation

    return implementation(arrays, validation_split, batch_size, loss)


def local_batch_size(global_batch_size: int, loss: str = "mean") -> int:
    """How many rows of a full global batch this worker computes.

    global_batch_size / size(); where that is no integer, global_batch_size / gcd(global_batch_size, size()): then
    several workers compute the same shard, and a warning names the nearest sizes that divide.
    loss: what shard_arrays is given. With "sum" and "gather", where no row may come twice, the workers' rows differ by
    one instead: m*(r+1)//N - m*r//N on worker r.

    Raises ValueError for what is no positive integer, for another loss, and with "sum" and "gather" for fewer rows than
    workers.
    """
    _check_loss(loss)
    return global_batch_size if size() == 1 else _local_batch_size(global_batch_size, size(), loss, rank())


def callbacks(callbacks: Any = None) -> Any:
    """Keras callbacks that decide alike on all workers, and write files on the chief only.

    callbacks: None, one callback, a list or tuple, or a CallbackList (changed in place and returned). On
    several workers a list comes back: first one that averages the epoch's logs over the workers, and those
    behind each batch where a given one reads them; then the given ones (on other workers than the chief without
    ModelCheckpoint, TensorBoard, CSVLogger and BackupAndRestore); last one that stops all workers as soon as one
    wants to stop. In one process the argument is returned.

    Raises TypeError for what is no callback, ValueError for BackupAndRestore of Keras 2.
    """
    if size() == 1:
        return callbacks
    from lockstep.training.callbacks import callbacks as implementation

    return implementation(callbacks)


def _start() -> None:
    if size() > 1:
        from lockstep.cluster import environment
        from lockstep.collectives import leaving
        from lockstep.data import random_state

        environment.mark_joined()
        leaving.install()
        random_state.seed_all_alike()


_start()
