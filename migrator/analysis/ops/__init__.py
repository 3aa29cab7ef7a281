"""What each op makes of where its arguments stand: tables as data, each row proven by tests/analysis."""

from __future__ import annotations

from migrator.analysis.ops.call import NOT_CONSTANT, Arg, Op, OpCall

__all__ = ["NOT_CONSTANT", "Arg", "Op", "OpCall", "lookup"]


def lookup(path: str) -> Op | None:
    """The row of a public function, method, operator or class by its full path; None where no row is proven.

    "tensorflow.reduce_mean", "numpy.mean", "keras.ops.mean"; "tensorflow.Tensor.numpy", "numpy.ndarray.mean" with the
    object as the first argument; operators as "operator.add", "operator.getitem". The row of a class is that of a
    call of its objects, with the call that made the object as `OpCall.made`.
    """
    return None
