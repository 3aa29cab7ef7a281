"""Collectives over TensorFlow's own ops, in the cluster that TF_CONFIG describes.

MultiWorkerMirroredStrategy serves as bootstrap only: its constructor connects the workers. Its scope is
never entered, so user code stays in the default strategy and Keras sees an ordinary process.
"""

from __future__ import annotations

import contextlib
import faulthandler
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from lockstep._errors import JoinError, LostWorkerError, MismatchError
from lockstep.backends._buckets import buckets, pack, unpack
from lockstep.backends._carriers import from_carrier, to_carrier
from lockstep.backends._communication import communication_hint
from lockstep.backends._keys import InstanceKeys
from lockstep.backends._running_call import RunningCall
from lockstep.backends._watchdog import Watchdog
from lockstep.backends._xla import refuse_xla
from lockstep.cluster import choice, environment
from lockstep.cluster.connection import Connection
from lockstep.cluster.devices import claim_gpu
from lockstep.cluster.rendezvous import meet
from lockstep.peers import news
from lockstep.script.first_use import first_use

# Any number that MultiWorkerMirroredStrategy does not count up to for its own groups.
_GROUP_KEY = 7_700_001
# News of the reason may come a little after the failure.
_NEWS_SECONDS = 4.0
_MERGE_OPS = {"sum": "Add", "mean": "Add", "max": "Max", "min": "Min", "prod": "Mul"}


class TensorFlowCollectives:
    """This process's end of TensorFlow's collective executor."""

    def __init__(self, strategy: Any, cluster: environment.Cluster, connections: dict[int, Connection]) -> None:
        self.rank = cluster.rank
        self.size = cluster.size
        self.local_rank = cluster.local_rank
        self._strategy = strategy  # keeps the servers alive
        self._device = strategy.extended.worker_devices[0]
        self._hint = communication_hint(self._device)
        self._keys = InstanceKeys()
        self._running = RunningCall()
        self._watchdog = Watchdog(self._running.place, _abort, cluster, connections, environment.stall_seconds())

    def reduce(self, tensors: Sequence[Any], operation: str) -> list[Any]:
        description = f"{operation} over {len(tensors)} tensor{'s' if len(tensors) != 1 else ''}"
        ordered = operation in ("max", "min")
        divides_itself = self._hint == "nccl"  # which knows sums only
        carried = [to_carrier(tensor, ordered) for tensor in tensors]
        reduced: list[Any] = [None] * len(tensors)
        with self._call("all_reduce", description) as run:
            for number, bucket in enumerate(buckets(carried)):
                flat = pack([carried[i] for i in bucket])
                key = self._keys.key(f"reduce {operation} {number}", flat)
                with run.collectives():
                    total = tf.raw_ops.CollectiveReduceV2(
                        input=flat,
                        merge_op=_MERGE_OPS[operation],
                        final_op="Div" if operation == "mean" and not divides_itself else "Id",
                        **self._common(key),
                    )
                run.finished(total)
                if operation == "mean" and divides_itself:
                    total *= tf.cast(1.0 / self.size, total.dtype)
                for i, part in zip(bucket, unpack(total, [carried[i] for i in bucket])):
                    reduced[i] = from_carrier(part, tensors[i], ordered)
        return reduced

    def gather(self, tensor: Any) -> Any:
        carried = to_carrier(tensor)
        sent = _not_empty(carried)
        with self._call("gather", f"gather of a {tensor.dtype.name}{tensor.shape} tensor") as run:
            key = self._keys.key("gather", sent)
            with run.collectives():
                rows = tf.raw_ops.CollectiveGatherV2(input=sent, **self._common(key))
            run.finished(rows)
        known = [None if tensor.shape[0] is None else self.size * tensor.shape[0], *tensor.shape[1:]]
        return from_carrier(_rows_of_all(rows, carried, self.size), tf.TensorSpec(known, tensor.dtype))

    def broadcast(self, tensors: Sequence[Any], root_rank: int) -> list[Any]:
        carried = [to_carrier(tensor) for tensor in tensors]
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
                    sent[i] = from_carrier(part, tensors[i])
        return sent

    def patience(self, seconds: float) -> contextlib.AbstractContextManager[None]:
        return self._watchdog.limit(seconds)

    def close(self) -> None:
        self._watchdog.stop()

    def abandon(self) -> None:
        self._watchdog.stop()

    def _common(self, key: Any, ordered: bool = True) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "group_size": self.size,
            "group_key": _GROUP_KEY,
            "instance_key": key,
            "communication_hint": self._hint,
            # Any other value leaks a thread per call until it elapses; the watchdog bounds the wait instead.
            "timeout_seconds": 0,
        }
        if ordered:
            arguments["ordering_token"] = []
        return arguments

    @contextlib.contextmanager
    def _call(self, name: str, description: str) -> Iterator[Any]:
        refuse_xla(name)
        try:
            with self._running.call(f"{name} ({description})", self._device) as run:
                yield run
        except tf.errors.InvalidArgumentError as error:
            raise MismatchError(
                f"rank {self.rank} of {self.size}: {name} ({description}) failed, since the workers called "
                f"it with different shapes. TensorFlow reports: {error.message}"
            ) from error
        except tf.errors.OpError as error:
            here = f"rank {self.rank} of {self.size}: {name} ({description}) failed"
            told = news.wait_for_news(_NEWS_SECONDS)
            if told is not None:
                raise (LostWorkerError if told.peer_lost else MismatchError)(f"{here}: {told.text}") from error
            raise LostWorkerError(
                f"{here}, since another worker ended or does not answer; its own error says why. "
                f"TensorFlow reports: {error.message}"
            ) from error


def _not_empty(tensor: Any) -> Any:
    """[k, ...] as [1, elements + 1] unless it surely has elements: gathering none ends the process."""
    if tensor.shape.num_elements():
        return tensor
    return tf.concat([tf.reshape(tensor, [1, -1]), tf.zeros([1, 1], tensor.dtype)], 1)


def _rows_of_all(gathered: Any, one: Any, size: int) -> Any:
    """What came of gathering `_not_empty` of `one` [k, ...], as [size * k, ...]."""
    rows = gathered if one.shape.num_elements() else gathered[:, :-1]
    shape = tf.shape(one)
    return tf.reshape(rows, tf.concat([size * shape[:1], shape[1:]], 0))


def _abort(text: str) -> None:
    context.context().abort_collective_ops(tf.errors.ABORTED, text)


def join() -> TensorFlowCollectives:
    """Connect to the workers of TF_CONFIG or of the Slurm step; waits until all of them have come.

    Raises JoinError when TensorFlow is in use already (a tensor, variable, dataset or model exists), and when some
    workers do not come or do not belong together (`lockstep.cluster.rendezvous`).
    """
    cluster = choice.cluster()
    # Before anybody is waited for: TensorFlow notices it only when the others are waiting for this worker.
    if context.context()._context_handle is not None:
        raise JoinError(
            "import lockstep came too late: TensorFlow was used before it (a tensor, variable, dataset or "
            f"model exists). {first_use()}Move `import lockstep` right below the first TensorFlow or Keras import of "
            "the script that is started."
        )
    claim_gpu(tf.config, cluster)
    connections = meet(cluster, environment.join_seconds())
    with _ended_after(environment.join_seconds()):
        strategy = tf.distribute.MultiWorkerMirroredStrategy(
            cluster_resolver=tf.distribute.cluster_resolver.SimpleClusterResolver(
                tf.train.ClusterSpec({"worker": list(cluster.addresses)}),
                task_type="worker",
                task_id=cluster.rank,
                rpc_layer="grpc",
            )
        )
    return TensorFlowCollectives(strategy, cluster, connections)


@contextlib.contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """End the process if TensorFlow's start takes longer, should a worker die in the middle of it or a port be
    blocked: the start lets no other thread of Python run, and takes no signal but SIGKILL."""
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
