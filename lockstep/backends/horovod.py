"""Collectives over Horovod, in a job that horovodrun or `lockstep run --backend horovod` has started.

Horovod matches the ranks' collectives by name, in whatever order they come, compares what those of one name are about
to do, and is quick where it is what it was the last time. So a name stands for all that a message would say of a call:
ranks that make calls of one description learn at once what differs in them, and those that wait in calls of two
descriptions are found by the watchdog, which compares these.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import sys
import threading
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from lockstep._errors import JoinError, LostWorkerError, MismatchError
from lockstep.backends._attendance import await_all
from lockstep.backends._buckets import buckets, pack, unpack
from lockstep.backends._carriers import from_carrier, to_carrier
from lockstep.backends._running_call import RunningCall
from lockstep.backends._side_effects import SideEffects
from lockstep.backends._watchdog import Watchdog
from lockstep.backends._xla import refuse_xla
from lockstep.cluster import environment, rendezvous
from lockstep.cluster.connection import Connection
from lockstep.cluster.devices import claim_gpu
from lockstep.cluster.environment import Cluster
from lockstep.peers import news

# News of the reason may come a little after the failure.
_NEWS_SECONDS = 4.0
# Horovod shuts down within milliseconds, unless it waits for a process that is stopped or cut off.
_SHUTDOWN_SECONDS = 5.0
# What watches the calls here is quicker; Horovod's own check is for the case that it cannot.
_OWN_CHECK_SECONDS = 30


class HorovodCollectives:
    """This process's end of Horovod's ranks."""

    def __init__(self, horovod: Any, cluster: Cluster, connections: dict[int, Connection]) -> None:
        self.rank = cluster.rank
        self.size = cluster.size
        self.local_rank = cluster.local_rank
        self._horovod = horovod
        self._operations = {
            "sum": horovod.Sum,
            "mean": horovod.Average,
            "max": horovod.Max,
            "min": horovod.Min,
            "prod": horovod.Product,
        }
        self._running = RunningCall()
        self._effects = SideEffects()
        self._leaves = False
        self._watchdog = Watchdog(self._running.place, self._abort, cluster, connections, environment.stall_seconds())

    def reduce(self, tensors: Sequence[Any], operation: str) -> list[Any]:
        description = f"{operation} over {_amount(tensors)}"
        ordered = operation in ("max", "min")
        carried = [to_carrier(tensor, ordered) for tensor in tensors]
        reduced: list[Any] = [None] * len(tensors)
        with self._call("all_reduce", description) as run:
            for number, bucket in enumerate(buckets(carried)):
                flat = pack([carried[i] for i in bucket])
                with run.collectives():
                    flat = self._effects.unknown(flat)
                    name = _named(f"all_reduce {description}", number)
                    total = self._horovod.allreduce(flat, op=self._operations[operation], **name)
                run.finished(self._effects.used(total))
                for i, part in zip(bucket, unpack(total, [carried[i] for i in bucket])):
                    reduced[i] = from_carrier(part, tensors[i], ordered)
        return reduced

    def gather(self, tensor: Any) -> Any:
        carried = to_carrier(tensor)
        flat = pack([carried])
        description = f"gather of a {tensor.dtype.name}{tensor.shape} tensor"
        with self._call("gather", description) as run:
            with run.collectives():
                everyone = self._horovod.allgather(self._effects.unknown(flat), **_named(description, 0))
            run.finished(self._effects.used(everyone))
        # Shapes of one rank's rows, which all have; pack adds a number to what may be empty.
        shape = tf.shape(carried)
        rows = tf.reshape(everyone, [self.size, -1])[:, : tf.size(carried)]
        known = [None if tensor.shape[0] is None else self.size * tensor.shape[0], *tensor.shape[1:]]
        rows = tf.reshape(rows, tf.concat([self.size * shape[:1], shape[1:]], 0))
        return from_carrier(rows, tf.TensorSpec(known, tensor.dtype))

    def broadcast(self, tensors: Sequence[Any], root_rank: int) -> list[Any]:
        carried = [to_carrier(tensor) for tensor in tensors]
        sent: list[Any] = [None] * len(tensors)
        description = f"broadcast of {_amount(tensors)} from rank {root_rank}"
        with self._call("broadcast", description) as run:
            for number, bucket in enumerate(buckets(carried)):
                flat = pack([carried[i] for i in bucket])
                with run.collectives():
                    name = _named(description, number)
                    value = self._horovod.broadcast(self._effects.unknown(flat), root_rank, **name)
                run.finished(self._effects.used(value))
                for i, part in zip(bucket, unpack(value, [carried[i] for i in bucket])):
                    sent[i] = from_carrier(part, tensors[i])
        return sent

    @contextlib.contextmanager
    def patience(self, seconds: float) -> Iterator[None]:
        self._leaves = True
        with self._watchdog.limit(seconds):
            yield

    def close(self) -> None:
        self._watchdog.stop()

    def abandon(self) -> None:
        self._watchdog.stop()

    @contextlib.contextmanager
    def _call(self, name: str, description: str) -> Iterator[Any]:
        refuse_xla(name)
        try:
            with self._running.call(f"{name} ({description})", "") as run, tf.name_scope("lockstep"):
                yield run
        except tf.errors.FailedPreconditionError as error:
            if "Mismatched" not in error.message:
                raise self._lost(name, description, error) from error
            raise MismatchError(
                f"rank {self.rank} of {self.size}: {name} ({description}) failed, since the workers do not make the "
                f"same call. Horovod reports: {error.message}"
            ) from error
        except tf.errors.OpError as error:
            raise self._lost(name, description, error) from error

    def _lost(self, name: str, description: str, error: Any) -> Exception:
        here = f"rank {self.rank} of {self.size}: {name} ({description}) failed"
        told = news.wait_for_news(_NEWS_SECONDS)
        if told is not None:
            return (LostWorkerError if told.peer_lost else MismatchError)(f"{here}: {told.text}")
        return LostWorkerError(
            f"{here}, since another worker ended or does not answer; its own error says why. "
            f"Horovod reports: {error.message}"
        )

    def _abort(self, text: str) -> None:
        """Let all calls fail, those that wait and all later ones; end the process where that cannot be done."""
        shutdown = threading.Thread(target=self._horovod.shutdown, name="lockstep-abort", daemon=True)
        shutdown.start()
        shutdown.join(_SHUTDOWN_SECONDS)
        if not shutdown.is_alive():
            return
        if not self._leaves:
            print(text, file=sys.stderr)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0 if self._leaves else 1)


def _amount(tensors: Sequence[Any]) -> str:
    sizes = [tensor.shape.num_elements() for tensor in tensors]
    elements = "" if None in sizes else f" of {sum(sizes)} element{'s' if sum(sizes) != 1 else ''}"
    return f"{len(tensors)} tensor{'s' if len(tensors) != 1 else ''}{elements}"


def _named(description: str, number: int) -> dict[str, Any]:
    """The name of the collective of this number in a call; eagerly Horovod calls it by its kind alone."""
    return {"name": f"call_{zlib.crc32(description.encode()):08x}_{number}", "ignore_name_scope": True}


def join() -> HorovodCollectives:
    """Join the ranks of a Horovod job; initialises Horovod.

    Raises JoinError when Horovod is missing or was built for another TensorFlow, when there is one rank only or some
    do not come, and in elastic jobs.
    """
    if os.environ.get("HOROVOD_ELASTIC", "0") not in ("", "0"):
        raise JoinError(
            "HOROVOD_ELASTIC is set: lockstep trains with as many workers from the first step to the last. Start the "
            "job without --min-np, --max-np and --host-discovery-script."
        )
    try:
        import horovod.tensorflow as horovod
    except (ImportError, tf.errors.NotFoundError) as error:
        raise JoinError(
            "the backend horovod needs Horovod, built for this TensorFlow: `HOROVOD_WITH_TENSORFLOW=1 "
            f"HOROVOD_WITH_GLOO=1 pip install horovod`. Importing it says: {error}"
        ) from error
    stall_seconds = math.ceil(environment.stall_seconds())
    os.environ.setdefault("HOROVOD_STALL_CHECK_TIME_SECONDS", str(stall_seconds + _OWN_CHECK_SECONDS))
    os.environ.setdefault("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", str(stall_seconds + 2 * _OWN_CHECK_SECONDS))
    # Of a process that is stopped or cut off, which Horovod could not name.
    os.environ.setdefault("HOROVOD_GLOO_TIMEOUT_SECONDS", str(stall_seconds + 2 * _OWN_CHECK_SECONDS))
    await_all(environment.join_seconds())
    horovod.init()
    if horovod.size() < 2:
        raise JoinError(
            "LOCKSTEP_BACKEND=horovod: this process is alone in its job. Start it with horovodrun, or with "
            "`lockstep run --backend horovod`."
        )
    place = Cluster(horovod.rank(), horovod.size(), horovod.local_rank(), horovod.local_size())
    claim_gpu(tf.config, place)
    cluster, connections = _connect(horovod, place)
    return HorovodCollectives(horovod, cluster, connections)


def _connect(horovod: Any, place: Cluster) -> tuple[Cluster, dict[int, Connection]]:
    """Connections beside Horovod's own, over which the workers tell each other where they wait and why they fail."""
    host = _own_host()
    listener = rendezvous.listen() if place.rank == 0 else None
    # Only rank 0 is called by its address.
    where = f"{host}:{listener.getsockname()[1]}" if listener is not None else f"{host}, process {os.getpid()}"
    addresses = tuple(horovod.allgather_object(where))
    cluster = Cluster(place.rank, place.size, place.local_rank, place.local_size, addresses)
    return cluster, rendezvous.meet_at(listener, cluster, environment.join_seconds())


def _own_host() -> str:
    """The address of this machine in the network through which it reaches Horovod's launcher, else its name."""
    launcher = os.environ.get("HOROVOD_GLOO_RENDEZVOUS_ADDR")
    if launcher:
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((launcher, 9))  # sends nothing
            return str(probe.getsockname()[0])
    return socket.gethostname()
