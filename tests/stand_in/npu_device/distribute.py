"""The documented functions of `npu_device.distribute`, with their documented signatures."""

from __future__ import annotations

import tensorflow as tf

import npu_device

_REDUCTIONS = ("mean", "max", "min", "prod", "sum")
_REDUCED = (tf.int8, tf.int32, tf.float16, tf.float32, tf.bfloat16)


def _is_alone():
    handle = npu_device.global_npu_ctx()
    return handle is None or not handle.is_cluster_worker()


def all_reduce(values, reduction="mean", fusion=1, fusion_id=-1, group="hccl_world_group"):
    """A tensor, or a list of tensors and None; sparse gradients become dense."""
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction must be one of {_REDUCTIONS}, not {reduction!r}")
    if _is_alone():
        return values
    is_list = isinstance(values, (list, tuple))
    tensors = [_tensor(value) for value in (values if is_list else [values])]
    present = [tensor for tensor in tensors if tensor is not None]
    reduced = iter(npu_device.carrier().reduce(present, reduction) if present else ())
    results = [None if tensor is None else next(reduced) for tensor in tensors]
    return results if is_list else results[0]


def _tensor(value):
    if isinstance(value, (list, tuple, dict)):
        raise TypeError(f"all_reduce takes a tensor or a flat list of tensors, not one with a {type(value).__name__}")
    tensor = value if value is None else tf.convert_to_tensor(value)
    if tensor is not None and tensor.dtype not in _REDUCED:
        raise TypeError(f"all_reduce does not take {tensor.dtype.name} tensors")
    return tensor


def broadcast(values, root_rank, fusion=2, fusion_id=0, group="hccl_world_group"):
    """A variable, or a list of them."""
    variables = list(values) if isinstance(values, (list, tuple)) else [values]
    for variable in variables:
        if not hasattr(variable, "assign") or not hasattr(variable, "shape"):
            raise TypeError(f"broadcast takes variables, not a {type(variable).__name__}")
    if variables and not _is_alone():
        tensors = [tf.convert_to_tensor(variable) for variable in variables]
        for variable, value in zip(variables, npu_device.carrier().broadcast(tensors, root_rank)):
            variable.assign(value)


def npu_distributed_keras_optimizer_wrapper(
    optimizer, reduce_reduction="mean", fusion=1, fusion_id=-1, group="hccl_world_group"
):
    """Changes the optimizer's way to apply gradients, and returns it."""
    optimizer = tf.keras.optimizers.get(optimizer)

    def reduced(gradients):
        return all_reduce(list(gradients), reduce_reduction, fusion, fusion_id, group)

    if hasattr(optimizer, "apply"):  # Keras 3, where apply_gradients calls it
        apply = optimizer.apply

        def reduce_and_apply(gradients, trainable_variables=None):
            return apply(reduced(gradients), trainable_variables)

        optimizer.apply = reduce_and_apply
    else:
        apply_gradients = optimizer.apply_gradients

        def reduce_and_apply_gradients(grads_and_vars, *args, **kwargs):
            gradients, variables = zip(*grads_and_vars)
            return apply_gradients(zip(reduced(gradients), variables), *args, **kwargs)

        optimizer.apply_gradients = reduce_and_apply_gradients
    return optimizer


def shard_and_rebatch_dataset(dataset, global_bs):
    """Every N-th sample, whether or not all workers get as many."""
    if _is_alone():
        return dataset, global_bs
    workers = npu_device.global_npu_ctx().workers_num
    if global_bs % workers != 0:
        raise ValueError(f"Batch size must be divisible by num npus: {workers}")
    return dataset.shard(workers, npu_device.global_npu_ctx().worker_id), global_bs // workers
