"""What each op makes of where its arguments stand: tables as data, each row proven by tests/analysis."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from migrator.analysis.ops.call import NOT_CONSTANT, Arg, Op, OpCall
from migrator.analysis.ops.rows import read
from migrator.analysis.ops.tables import keras
from migrator.analysis.ops.tables.numpy import NUMPY, PYTHON
from migrator.analysis.ops.tables.tensorflow import TENSORFLOW
from migrator.analysis.placement import Partial

__all__ = ["ACTIVITY_PENALTY", "NOT_CONSTANT", "TABLES", "Arg", "Op", "OpCall", "lookup", "rows"]

# Where the names of each table stand.
TABLES = (
    ("tensorflow.", TENSORFLOW),
    ("keras.ops.", keras.OPS),
    ("keras.ops.image.", keras.IMAGES),
    ("keras.applications.", keras.PREPROCESSING),
    ("keras.random.", keras.RANDOM),
    ("keras.backend.", keras.BACKEND),
    ("keras.activations.", keras.ACTIVATIONS),
    ("keras.losses.", keras.LOSS_FUNCTIONS + keras.LOSSES),
    ("keras.metrics.", keras.LOSS_FUNCTIONS + keras.METRICS),
    ("keras.layers.", keras.LAYERS),
    ("keras.regularizers.", keras.REGULARIZERS),
    ("numpy.", NUMPY),
    ("", PYTHON),
)

# What tf.compat.v1 has under the same name with other parameters.
V1_DIFFERS = (
    "argmax|argmin|avg_pool|avg_pool2d|confusion_matrix|conv1d|conv2d|conv3d|convert_to_tensor|convolution|"
    "count_nonzero|ctc_loss|depthwise_conv2d|diag|diag_part|dilation2d|dropout|embedding_lookup|gather|in_top_k|max_pool|moments|"
    "ones_like|pool|separable_conv2d|transpose|zeros_like"
)

# The penalty of a layer's activity_regularizer in a call: both generations of Keras divide it by the call's rows.
ACTIVITY_PENALTY = Partial("mean")

# One object under several paths; a path that is none of these is looked up as it is.
ALIASES = (
    (r"^tensorflow\.compat\.v2\.", "tensorflow."),
    (rf"^tensorflow\.compat\.v1\.(?=(?:(?:math|nn|linalg)\.)?(?!(?:{V1_DIFFERS})$)\w+$)", "tensorflow."),
    (r"^tensorflow\.keras\.", "keras."),
    (r"^tf_keras\.", "keras."),
    (r"^tensorflow\.dtypes\.(?=(?:cast|complex|saturate_cast)$)", "tensorflow."),
    (r"^tensorflow\.(math|nn|linalg|signal|bitwise)\.(?=\w+$)", "tensorflow."),
    (r"^keras\.ops\.(?:nn|numpy|math|linalg|core)\.(?=\w+$)", "keras.ops."),
    (r"^tensorflow\.Variable\.(?=\w+$)", "tensorflow.Tensor."),
    (r"^keras\.applications\.\w+\.(?=preprocess_input$)", "keras.applications.imagenet_utils."),
)


def rows() -> Iterator[Op]:
    """All rows, in the tables' order."""
    for prefix, table in TABLES:
        yield from read(table, prefix)


# Scripts ask for the same few hundred names again and again.
_MOST_PATHS = 4096
_ROWS = {op.path: op for op in rows()}


@lru_cache(maxsize=_MOST_PATHS)
def lookup(path: str) -> Op | None:
    """The row of a public function, method, operator or class by its full path; None where no row is proven.

    "tensorflow.reduce_mean", "numpy.mean", "keras.ops.mean"; "tensorflow.Tensor.numpy", "numpy.ndarray.mean" with the
    object as the first argument; operators as "operator.add", "operator.getitem". The row of a class is that of a
    call of its objects, with the call that made the object as `OpCall.made`.
    """
    found = _ROWS.get(path)
    if found is not None:
        return found
    for pattern, plain in ALIASES:
        path = re.sub(pattern, plain, path)
    return _ROWS.get(path)
