"""Collectives over TensorFlow's own ops, in the cluster that TF_CONFIG describes.

MultiWorkerMirroredStrategy serves as bootstrap only: its constructor connects the workers. Its scope is
never entered, so user code stays in the default strategy and Keras sees an ordinary process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from lockstep import _cluster
from lockstep._errors import JoinError, LockstepError, LostWorkerError, MismatchError
from lockstep.backends._buckets import buckets, pack, unpack
from lockstep.backends._keys import InstanceKeys
from lockstep.backends._watchdog import RunningCall, Watchdog

# Any number that MultiWorkerMirroredStrategy does not count up to for its own groups.
_GROUP_KEY = 7_700_001
_MERGE_OPS = {"sum": "Add", "max": "Max", "min": "Min"}
# What CollectiveReduceV2, CollectiveGatherV2 and the broadcast ops take in every TensorFlow from 2.6 on;
# anything else travels as the dtype named here.
_CARRIERS: dict[Any, Any] = {
    tf.bool: tf.int32,
    tf.int8: tf.int32,
    tf.int16: tf.int32,
    tf.uint8: tf.int32,
    tf.uint16: tf.int32,
    tf.uint32: tf.int64,
    tf.bfloat16: tf.float32,
}
_CARRIED = (tf.float16, tf.float32, tf.float64, tf.int32, tf.int64)


class TensorFlowCollectives:
    """This process's end of TensorFlow's collective executor."""

    def __init__(self, strategy: Any, cluster: _cluster.Cluster) -> None:
        self.rank = cluster.rank
        self.size = cluster.size
        self.local_rank = cluster.local_rank
        self._strategy = strategy  # keeps the servers alive
        self._device = strategy.extended.worker_devices[0]
        self._keys = InstanceKeys()
        self._running = RunningCall(cluster)
        self._watchdog = Watchdog(self._running, cluster, _cluster.stall_seconds())

    def reduce(self, tensors: Sequence[Any], operation: str) -> list[Any]:
        description = f"{operation} over {len(tensors)} tensor{'s' if len(tensors) != 1 else ''}"
        carried = [_to_carrier(tensor) for tensor in tensors]
        reduced: list[Any] = [None] * len(tensors)
        with self._call("all_reduce", description) as run:
            for number, bucket in enumerate(buckets(carried)):
                flat = pack([carried[i] for i in bucket])
                key = self._keys.key(f"reduce {operation} {number}", flat)
                with run.collectives():
                    total = tf.raw_ops.CollectiveReduceV2(
                        input=flat,
                        merge_op=_MERGE_OPS[operation],
                        final_op="Id",
                        **self._common(key),
                    )
                run.finished(total)
                for i, part in zip(bucket, unpack(total, [carried[i] for i in bucket])):
                    reduced[i] = _from_carrier(part, tensors[i])
        return reduced

    def gather(self, tensor: Any) -> Any:
        carried = _to_carrier(tensor)
        with self._call("gather", f"gather of a {tensor.dtype.name}{tensor.shape} tensor") as run:
            key = self._keys.key("gather", carried)
            with run.collectives():
                rows = tf.raw_ops.CollectiveGatherV2(input=carried, **self._common(key))
            run.finished(rows)
        rows = tf.cast(rows, tensor.dtype)
        rows.set_shape([None if tensor.shape[0] is None else self.size * tensor.shape[0], *tensor.shape[1:]])
        return rows

    def broadcast(self, tensors: Sequence[Any], root_rank: int) -> list[Any]:
        carried = [_to_carrier(tensor) for tensor in tensors]
        sent: list[Any] = [None] * len(tensors)
        with self._call("broadcast", f"broadcast of {len(tensors)} tensors from rank {root_rank}") as run:
            for number, bucket in enumerate(buckets(carried)):
                flat = pack([carried[i] for i in bucket])
                # Another root is another instance: TensorFlow remembers who sends in which one.
                key = self._keys.key(f"broadcast {root_rank} {number}", flat)
                with run.collectives():
                    if self.rank == root_rank:
                        value = tf.raw_ops.CollectiveBcastSendV2(input=flat, **self._common(key, ordered=False))
                    else:
                        value = tf.raw_ops.CollectiveBcastRecvV2(
                            shape=tf.shape(flat), T=flat.dtype, **self._common(key, ordered=False)
                        )
                run.finished(value)
                for i, part in zip(bucket, unpack(value, [carried[i] for i in bucket])):
                    sent[i] = _from_carrier(part, tensors[i])
        return sent

    def patience(self, seconds: float) -> contextlib.AbstractContextManager[None]:
        return self._watchdog.limit(seconds)

    def abandon(self) -> None:
        self._watchdog.stop()

    def _common(self, key: Any, ordered: bool = True) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "group_size": self.size,
            "group_key": _GROUP_KEY,
            "instance_key": key,
            "communication_hint": "auto",
            # Any other value leaks a thread per call until it elapses; the watchdog bounds the wait instead.
            "timeout_seconds": 0,
        }
        if ordered:
            arguments["ordering_token"] = []
        return arguments

    @contextlib.contextmanager
    def _call(self, name: str, description: str) -> Iterator[Any]:
        if control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
            raise LockstepError(
                f"lockstep.{name} was called in a function compiled with jit_compile=True; XLA cannot hold "
                "collectives between workers. Pass jit_compile=False to model.compile or tf.function."
            )
        try:
            with self._running.call(f"{name} ({description})", self._device) as run:
                yield run
        except tf.errors.InvalidArgumentError as error:
            raise MismatchError(
                f"rank {self.rank} of {self.size}: {name} ({description}) failed, since the workers called "
                f"it with different shapes. TensorFlow reports: {error.message}"
            ) from error
        except tf.errors.OpError as error:
            raise LostWorkerError(
                f"rank {self.rank} of {self.size}: {name} ({description}) failed, since another worker ended "
                f"or does not answer; its own error says why. TensorFlow reports: {error.message}"
            ) from error


def _to_carrier(tensor: Any) -> Any:
    dtype = tensor.dtype
    if dtype in _CARRIED:
        return tensor
    if dtype in _CARRIERS:
        return tf.cast(tensor, _CARRIERS[dtype])
    if dtype == tf.uint64:
        return tf.bitcast(tensor, tf.int64)
    if dtype.is_complex:
        return tf.bitcast(tensor, dtype.real_dtype)
    raise TypeError(f"lockstep cannot send {dtype.name} tensors between workers")


def _from_carrier(tensor: Any, original: Any) -> Any:
    dtype = original.dtype
    if dtype == tf.uint64 or dtype.is_complex:
        tensor = tf.bitcast(tensor, dtype)
    elif dtype != tensor.dtype:
        tensor = tf.cast(tensor, dtype)
    tensor.set_shape(original.shape)
    return tensor


def join() -> TensorFlowCollectives:
    """Connect to the workers of TF_CONFIG; waits until all of them have come.

    Raises JoinError when TensorFlow is in use already (a tensor, variable, dataset or model exists).
    """
    cluster = _cluster.from_tf_config()
    if cluster.size < 2:
        raise JoinError("LOCKSTEP_BACKEND=tensorflow needs a TF_CONFIG that names two workers or more")
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except RuntimeError as error:
        raise JoinError(
            "import lockstep came too late: TensorFlow was used before it (a tensor, variable, dataset or "
            "model exists). Move `import lockstep` right below the first TensorFlow or Keras import of the "
            f"script that is started. TensorFlow says: {error}"
        ) from error
    return TensorFlowCollectives(strategy, cluster)
