"""What functions of TensorFlow, Keras and NumPy make of their arguments, seen over the batch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Callable

import libcst as cst

from migrator.facts import api, vocabulary
from migrator.facts.loss_kinds import (
    COUNT,
    DATA,
    FREE,
    MEAN,
    MIXED,
    PARTS,
    PENALTY,
    SAMPLES,
    SUM,
    UNSPLIT,
    alternatives,
    product,
    sum_of,
)
from migrator.facts.syntax import argument
from migrator.facts.vocabulary import Role

_MEAN_FUNCTIONS = re.compile(
    r"^(?:tensorflow\.(?:math\.)?reduce_mean|keras\.(?:backend|ops)\.mean|numpy\.mean|tensorflow\.experimental\.numpy\.mean)$"
)
_SUM_FUNCTIONS = re.compile(
    r"^(?:tensorflow\.(?:math\.)?reduce_sum|keras\.(?:backend|ops)\.sum|numpy\.sum|tensorflow\.nn\.l2_loss)$"
)
_LINEAR = re.compile(
    r"^(?:tensorflow\.(?:math\.)?(?:cast|identity|reshape|squeeze|negative|stop_gradient|expand_dims|multiply)"
    r"|tensorflow\.convert_to_tensor|tensorflow\.debugging\.\w+|keras\.(?:backend|ops)\.(?:cast|squeeze|reshape))$"
)
_COUNTS = re.compile(r"^(?:tensorflow\.shape|tensorflow\.size|builtins\.len|keras\.(?:backend|ops)\.shape)$")
# Tensors of a given shape: that the shape has the size of the batch in it does not tie the samples together.
_SHAPED = re.compile(
    r"^tensorflow\.(?:ones|zeros|fill|ones_like|zeros_like|random\.\w+)$|^keras\.(?:random|ops)\.(?:ones|zeros|normal|uniform)\w*$"
)
_PRODUCTS = re.compile(
    r"^(?:tensorflow\.(?:linalg\.)?(?:matmul|tensordot)|keras\.ops\.(?:matmul|dot|tensordot)|keras\.backend\.dot)$"
)
_SELECTIONS = re.compile(
    r"^tensorflow\.(?:math\.)?(?:reduce_(?:max|min|prod|std|variance|logsumexp|euclidean_norm|any|all)|top_k|sort|argsort"
    r"|norm|l2_normalize|split|unstack|count_nonzero|boolean_mask|gather|gather_nd|dynamic_partition|unique\w*|segment_\w+|unsorted_segment_\w+|where|cumsum"
    r"|nn\.(?:moments|weighted_moments|top_k|l2_normalize)|linalg\.norm|reverse|roll|random\.shuffle)$"
    r"|^keras\.ops\.(?:max|min|std|var|top_k|sort|argsort|norm|split|take|segment_\w+)$"
)
# Where they take the axis, if not as their second argument; None: by its name alone.
_AXES = {
    "top_k": None, "gather_nd": None, "dynamic_partition": None, "norm": 2, "boolean_mask": 2, "roll": 2, "take": 2,
    "split": 2, "unstack": 2, "gather": 3,
}  # fmt: skip


class LossFunctions:
    """`kind` tells what an argument is."""

    def __init__(self, kind: Callable[[cst.CSTNode], str]) -> None:
        self.kind = kind

    def of(self, path: str, call: cst.Call) -> str:
        """What the call of the outside function with this dotted name gives."""
        args = [a.value for a in call.args if a.keyword is None]
        if _COUNTS.match(path):
            return COUNT
        if vocabulary.has_role(path, Role.SHARD):
            return SAMPLES
        if _MEAN_FUNCTIONS.match(path) or _SUM_FUNCTIONS.match(path):
            return self._reduction(MEAN if _MEAN_FUNCTIONS.match(path) else SUM, call)
        if path == "tensorflow.nn.compute_average_loss":
            return SUM if argument(call, "global_batch_size", 2) is not None else MEAN
        if path in ("tensorflow.nn.scale_regularization_loss", "tensorflow.Variable"):
            return PENALTY
        if path in (
            "tensorflow.add_n",
            "tensorflow.math.add_n",
            "builtins.sum",
            "tensorflow.math.add",
            "tensorflow.add",
            "tensorflow.math.subtract",
            "tensorflow.subtract",
        ):
            return sum_of(self.kind(a) for a in args)
        if api.is_loss_function(path):
            return self.loss_of(SAMPLES if api.is_split_loss(path) else UNSPLIT, call)
        if _SELECTIONS.match(path):
            return self._selected(path, call, args)
        if _SHAPED.match(path):
            return SAMPLES
        if _PRODUCTS.match(path):
            return self.matrix_product([self.kind(a) for a in args])
        if path in ("tensorflow.transpose", "tensorflow.einsum", "keras.ops.transpose", "keras.ops.einsum"):
            return self._rearranged(call, args)
        if path in ("builtins.float", "builtins.int", "tensorflow.constant"):
            return alternatives([self.kind(a) for a in args[:1]]) if args else FREE
        if path.endswith(".expand_dims") and _integers_of(argument(call, "axis", 1)) == [0]:
            return UNSPLIT  # the samples are no longer the first axis: each may meet each
        if _LINEAR.match(path):
            factors = args if path.endswith("multiply") else args[:1]  # the others are types, shapes and axes
            return product(*(self.kind(a) for a in factors)) if args else DATA
        if path.startswith(("tensorflow.nn.", "keras.activations.")):
            # These take keywords; the losses among them give a value for each sample.
            axis = argument(call, "axis")
            if axis is not None and 0 in (_integers(axis.value) or ()):
                return UNSPLIT  # a softmax over the batch
            curved = self.curved([a.value for a in call.args])
            return curved if curved == UNSPLIT else SAMPLES
        return self.curved(args)

    def _selected(self, path: str, call: cst.Call, args: list[cst.BaseExpression]) -> str:
        """What picks, orders or compares samples does so within the batch, unless it works along another axis."""
        kinds = [self.kind(a) for a in args]
        if kinds and kinds[0] in (FREE, PENALTY):
            return kinds[0]
        if path.endswith(".where") and len(args) > 1:
            return self.curved(args)
        position = _AXES.get(path.rpartition(".")[2], 1)
        axis = argument(call, "axis", position) or argument(call, "axes", position) or argument(call, "batch_dims")
        axes = _integers(axis.value) if axis is not None else None
        along_another = axes is not None and 0 not in axes and UNSPLIT not in kinds
        return SAMPLES if along_another else UNSPLIT

    @staticmethod
    def matrix_product(kinds: list[str]) -> str:
        """Samples times weights are samples; samples times samples compare each with each across the batch."""
        depending = [k for k in kinds if k not in (FREE, PENALTY)]
        if len(depending) > 1 or any(k in (MEAN, SUM, COUNT, MIXED, UNSPLIT) for k in depending):
            return UNSPLIT
        return depending[0] if depending else PENALTY if PENALTY in kinds else FREE

    def _rearranged(self, call: cst.Call, args: list[cst.BaseExpression]) -> str:
        """transpose and einsum keep the samples apart only where the first axis stays the first."""
        kinds = [self.kind(a) for a in args]
        if set(kinds) <= {FREE, PENALTY}:
            return PENALTY if PENALTY in kinds else FREE
        if args and isinstance(args[0], cst.SimpleString):
            terms = str(args[0].evaluated_value).replace(" ", "").replace("->", ",").split(",")
            return SAMPLES if len({t[:1] for t in terms}) == 1 and terms[0] else UNSPLIT
        axes = argument(call, "perm", 1) or argument(call, "axes", 1)
        first = _integers(axes.value) if axes is not None else None
        return kinds[0] if first and first[0] == 0 else UNSPLIT

    def curved(self, args: list[cst.BaseExpression]) -> str:
        """An elementwise or unknown function: harmless on samples, not on what is already reduced."""
        kinds = [self.kind(a) for a in args]
        if any(k in (MEAN, SUM, MIXED, UNSPLIT, PARTS) for k in kinds):
            return UNSPLIT
        if kinds and set(kinds) <= {FREE, PENALTY}:
            return PENALTY if PENALTY in kinds else FREE
        return COUNT if COUNT in kinds else SAMPLES if SAMPLES in kinds else DATA

    def _reduction(self, reduction: str, call: cst.Call) -> str:
        if not call.args:
            return DATA
        inner = self.kind(call.args[0].value)
        if inner == MIXED:
            return MEAN if reduction == MEAN and len(call.args) == 1 else UNSPLIT
        if inner in (FREE, PENALTY, MEAN, SUM, UNSPLIT):
            return inner  # a scalar already (or penalties alone): reducing it again changes nothing
        if inner == PARTS:
            return self._sum_of_parts(reduction, call)
        axis = argument(call, "axis", 1)
        if axis is None or (isinstance(axis.value, cst.Name) and axis.value.value == "None"):
            return reduction
        axes = _integers(axis.value)
        if axes is None or (inner == SAMPLES and min(axes) < 0):
            return DATA  # whether the last axis of such a tensor is that of the samples is not seen
        return reduction if 0 in axes else SAMPLES

    @staticmethod
    def _sum_of_parts(reduction: str, call: cst.Call) -> str:
        axis = argument(call, "axis", 1)
        axes = _integers(axis.value) if axis is not None else [0]
        if reduction != SUM or axes is None or min(axes) < 0:
            return UNSPLIT
        return MEAN if 0 in axes else PARTS

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def loss_of(self, kind: str, call: cst.Call) -> str:
        """A loss of samples against samples; of anything that is not theirs alone it does not split."""
        given = [self.kind(a.value) for a in call.args]
        return UNSPLIT if any(k in (COUNT, MEAN, SUM, MIXED, UNSPLIT, PARTS) for k in given) else kind


def loss_object(path: str, call: cst.Call) -> str:
    """What a loss object of Keras's that this call makes gives for samples."""
    if not api.is_split_loss(path):
        return UNSPLIT
    reduction = argument(call, "reduction")
    if reduction is None:
        return MEAN
    text = reduction.value
    name = (
        text.evaluated_value
        if isinstance(text, cst.SimpleString)
        else text.attr.value
        if isinstance(text, cst.Attribute)
        else ""
    )
    return {"none": SAMPLES, "sum": SUM, "auto": MEAN, "sum_over_batch_size": MEAN, "mean": MEAN}.get(
        str(name).lower(), DATA
    )


def _integers_of(arg: cst.Arg | None) -> list[int] | None:
    return _integers(arg.value) if arg is not None else None


def _integers(node: cst.BaseExpression) -> list[int] | None:
    def each() -> Iterator[cst.BaseExpression]:
        if isinstance(node, (cst.Tuple, cst.List)):
            yield from (e.value for e in node.elements)
        else:
            yield node

    found = []
    for item in each():
        sign = -1 if isinstance(item, cst.UnaryOperation) and isinstance(item.operator, cst.Minus) else 1
        number = item.expression if isinstance(item, cst.UnaryOperation) else item
        if not isinstance(number, cst.Integer):
            return None
        found.append(sign * int(number.value))
    return found
