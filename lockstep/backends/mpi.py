"""Collectives over MPI, in a job that mpirun, mpiexec or srun has started.

MPI is called through mpi4py, with numpy arrays: eagerly at once, in a tf.function by an op that calls Python.
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import math
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context

from lockstep._errors import JoinError
from lockstep.backends import _mpi_links
from lockstep.backends._buckets import buckets
from lockstep.backends._call import call_of
from lockstep.backends._exit_code import ExitCode
from lockstep.backends._order import ProgramOrder
from lockstep.backends._watchdog import Watchdog
from lockstep.backends._xla import refuse_xla
from lockstep.cluster import environment, mpi_rank
from lockstep.cluster.devices import claim_gpu
from lockstep.peers import news

# Between what a rank has to say and the end of the job, which ends the others in the middle of what they say. The rank
# that failed first has the shorter time: the job's exit code is that of the rank that ends it.
_CAUSE_SECONDS = 1.0
_SURVIVOR_SECONDS = 3.0
_ABORT_SECONDS = 2.0
# MPI has all numpy dtypes but these.
_CARRIERS: dict[Any, Any] = {tf.bool: tf.uint8, tf.float16: tf.float32, tf.bfloat16: tf.float32}


class MPICollectives:
    """This process's end of a job's ranks."""

    def __init__(self, communicator: Any) -> None:
        from mpi4py import MPI

        from lockstep.backends._wire import Wire

        # Duplicated, so that what the script itself sends over MPI never meets what is sent here.
        self._communicator = communicator.Dup()
        machine = communicator.Split_type(MPI.COMM_TYPE_SHARED)
        self.rank, self.size, self.local_rank = communicator.Get_rank(), communicator.Get_size(), machine.Get_rank()
        hosts = self._communicator.allgather(MPI.Get_processor_name())
        cluster = environment.Cluster(self.rank, self.size, self.local_rank, machine.Get_size(), tuple(hosts))
        machine.Free()
        if context.context()._context_handle is None:  # else TensorFlow has taken its GPUs already
            claim_gpu(tf.config, cluster)
        self._wire = Wire(self._communicator)
        connections = _mpi_links.connect(self._communicator)
        self._watchdog = Watchdog(self._wire.place, self._give_up, cluster, connections, environment.stall_seconds())
        self._exit_code = ExitCode()
        self._order = ProgramOrder()

    def reduce(self, tensors: Sequence[Any], operation: str) -> list[Any]:
        named = call_of(f"all_reduce ({operation} over {len(tensors)} tensor{'s' if len(tensors) != 1 else ''})")
        refuse_xla("all_reduce")
        carried = [_to_carrier(tensor) for tensor in tensors]
        reduced: list[Any] = [None] * len(tensors)
        send = functools.partial(self._wire.reduce, operation=operation, call=named)
        with self._order.call() as call:
            for bucket in buckets(carried):
                parts = call.run(functools.partial(_through_python, send, [carried[i] for i in bucket]))
                for i, part in zip(bucket, parts):
                    reduced[i] = _from_carrier(part, tensors[i].shape, tensors[i].dtype)
        return reduced

    def gather(self, tensor: Any) -> Any:
        refuse_xla("gather")
        send = functools.partial(
            self._wire.gather, call=call_of(f"gather of a {tensor.dtype.name}{tensor.shape} tensor")
        )
        shape = [None if tensor.shape[0] is None else self.size * tensor.shape[0], *tensor.shape[1:]]
        with self._order.call() as call:
            rows = call.run(functools.partial(_through_python, lambda arrays: [send(*arrays)], [_to_carrier(tensor)]))
        return _from_carrier(rows[0], shape, tensor.dtype)

    def broadcast(self, tensors: Sequence[Any], root_rank: int) -> list[Any]:
        refuse_xla("broadcast")
        named = call_of(f"broadcast of {len(tensors)} tensors from rank {root_rank}")
        carried = [_to_carrier(tensor) for tensor in tensors]
        sent: list[Any] = [None] * len(tensors)
        send = functools.partial(self._wire.broadcast, root_rank=root_rank, call=named)
        with self._order.call() as call:
            for bucket in buckets(carried):
                parts = call.run(functools.partial(_through_python, send, [carried[i] for i in bucket]))
                for i, part in zip(bucket, parts):
                    sent[i] = _from_carrier(part, tensors[i].shape, tensors[i].dtype)
        return sent

    def patience(self, seconds: float) -> contextlib.AbstractContextManager[None]:
        # A call over MPI can be ended only together with the job, and a rank that waits for the last ones to be
        # done is no reason for that; MPI itself waits for all ranks at the end.
        return self._watchdog.limit(math.inf)

    def close(self) -> None:
        self._watchdog.stop()
        if self._wire.disagreed:
            # The others were still at work, and MPI would wait for them.
            self._abort(_CAUSE_SECONDS if self._exit_code.value else _SURVIVOR_SECONDS, self._exit_code.value or 1)
        mpi_rank.note(mpi_rank.LEFT)

    def abandon(self) -> None:
        # The other ranks would wait for this one forever.
        self._watchdog.stop()
        self._abort(_CAUSE_SECONDS + (1.0 if self._wire.disagreed else 0.0), 1)

    def _give_up(self, text: str) -> None:
        """Let every call of this rank end, which MPI can only together with the process."""
        place = self._wire.place()
        at, call = f" at {place.line}" if place.line else "", f" in {place.call}" if place.call else ""
        text = text[len("lockstep: ") :] if text.startswith("lockstep: ") else text
        here = f"rank {self.rank} of {self.size}"
        if not news.is_own_failure():
            print(f"lockstep: {here} ended{call}{at} because {news.FOLLOWED}: {text}", file=sys.stderr)
        self._abort(_SURVIVOR_SECONDS, 1)

    def _abort(self, after_seconds: float, code: int) -> None:
        """End the whole job."""
        mpi_rank.note(mpi_rank.LEFT)
        sys.stdout.flush()
        sys.stderr.flush()
        time.sleep(after_seconds)
        mpi_rank.note_exit_code(code)
        # Where the network is cut, MPI_Abort itself may wait for it.
        with open(os.devnull, "w") as nowhere:
            faulthandler.dump_traceback_later(_ABORT_SECONDS, exit=True, file=nowhere)
            self._communicator.Abort(code)


def _through_python(send: Any, tensors: Sequence[Any]) -> list[Any]:
    """What send makes of the tensors, which takes and gives as many numpy arrays; the dtypes stay, shapes get lost."""
    if tf.executing_eagerly():
        return [tf.convert_to_tensor(array) for array in send([tensor.numpy() for tensor in tensors])]
    result: list[Any] = tf.numpy_function(lambda *arrays: send(arrays), tensors, [tensor.dtype for tensor in tensors])
    return result


def _to_carrier(tensor: Any) -> Any:
    return tf.cast(tensor, _CARRIERS.get(tensor.dtype, tensor.dtype))


def _from_carrier(tensor: Any, shape: Any, dtype: Any) -> Any:
    tensor = tf.cast(tensor, dtype)
    tensor.set_shape(shape)
    return tensor


def join() -> MPICollectives:
    """Join the ranks of MPI's world; initialises MPI.

    Raises JoinError when mpi4py or an MPI library is missing, or there is one rank only.
    """
    mpi_rank.note(mpi_rank.COMING)
    # MPI's start waits for late ranks in one call that lets no other thread of Python run.
    faulthandler.dump_traceback_later(environment.join_seconds(), exit=True)
    try:
        joined = _join()
    finally:
        faulthandler.cancel_dump_traceback_later()
    mpi_rank.note(mpi_rank.JOINED)
    return joined


def _join() -> MPICollectives:
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise JoinError(
            "LOCKSTEP_BACKEND=mpi needs mpi4py and an MPI library: `pip install mpi4py mpich`, or mpi4py beside the "
            f"MPI of this machine. Importing it says: {error}"
        ) from error
    if MPI.COMM_WORLD.Get_size() < 2:
        raise JoinError(
            "LOCKSTEP_BACKEND=mpi: this process is alone in its MPI job. Start it with mpirun, mpiexec or srun, of the "
            f"same MPI that mpi4py uses here: {MPI.Get_library_version().splitlines()[0]}"
        )
    return MPICollectives(MPI.COMM_WORLD)
