"""Collectives over MPI, in a job that mpirun, mpiexec or srun has started.

MPI is called through mpi4py, with numpy arrays: eagerly at once, in a tf.function by an op that calls Python.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from lockstep import _cluster
from lockstep._errors import JoinError
from lockstep.backends._buckets import buckets
from lockstep.backends._call import Call, call_of
from lockstep.backends._order import ProgramOrder
from lockstep.backends._patience import Patience
from lockstep.backends._xla import refuse_xla

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
        machine.Free()
        self._patience = Patience(_cluster.stall_seconds(), self._give_up)
        self._wire = Wire(self._communicator, self._patience)
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
        return self._patience.endless()

    def close(self) -> None:
        self._patience.stop()

    def abandon(self) -> None:
        # The other ranks would wait for this one forever.
        self._patience.stop()
        self._abort()

    def _give_up(self, call: Call, seconds: float) -> None:
        print(
            f"lockstep: rank {self.rank} of {self.size} waited longer than {seconds:g} s for its peers in {call}. A "
            "worker hangs, stopped early or makes other calls than this one. LOCKSTEP_STALL_SECONDS sets the limit.",
            file=sys.stderr,
        )
        self._abort()

    def _abort(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        self._communicator.Abort(1)


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
