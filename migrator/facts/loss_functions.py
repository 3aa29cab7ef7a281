"""What functions of TensorFlow, Keras and NumPy make of their arguments, seen over the batch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Callable

import libcst as cst
import libcst.matchers as m

from migrator.facts import api, operations, vocabulary
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
from migrator.facts.syntax import argument, is_none
from migrator.facts.tensor_ranks import TensorRanks
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
_SUMS = frozenset({
    "tensorflow.add_n", "tensorflow.math.add_n", "builtins.sum", "tensorflow.math.add", "tensorflow.add",
    "tensorflow.math.subtract", "tensorflow.subtract", "keras.ops.add", "keras.ops.subtract", "numpy.add",
    "numpy.subtract",
})  # fmt: skip
_NUMBERED = re.compile(
    r"^(?:tensorflow|keras\.ops|numpy)\.(?:linalg\.)?(?:range|arange|eye|linspace|meshgrid|logspace)$"
)
# What gives the next batch, or hands its arguments on; and Python's own arithmetic.
_HANDING_ON = re.compile(
    r"^builtins\.(?:iter|next|zip|enumerate|list|tuple|dict|reversed|getattr|map|abs|pow|round|divmod|print|str|isinstance"
    r"|type|range|repr|super|hasattr|id)$|^tensorflow\.(?:data|nest|print|summary|config|executing_eagerly"
    r"|GradientTape|name_scope|TensorArray|get_static_value|is_tensor|zeros_like|ones_like)(?:\.|$)|^tensorflow_datasets\."
    r"|^tensorflow_probability\.(?:\w+\.)*distributions\.|\.preprocess_input$|^keras\.utils\.|^(?:logging|time|os|sys"
    r"|collections|copy|typing|datetime|absl)\."
)
_LAYERS = re.compile(r"^keras\.(?:layers|applications)\.\w+|^keras\.(?:Input|KerasTensor)$|^tensorflow_hub\.")
_WEIGHTS = frozenset({
    "tensorflow.nn.scale_regularization_loss", "tensorflow.Variable", "tensorflow.get_variable", "keras.Variable",
    "tensorflow.compat.v1.get_variable", "keras.backend.variable",
})  # fmt: skip
_V1_LOSSES = "tensorflow.compat.v1.losses."
_V1_REDUCTIONS = {
    "none": SAMPLES, "sum": SUM, "weighted_sum": SUM, "sum_over_batch_size": MEAN, "mean": UNSPLIT,
    "weighted_mean": UNSPLIT, "weighted_sum_over_batch_size": MEAN, "sum_by_nonzero_weights": UNSPLIT,
    "sum_over_nonzero_weights": UNSPLIT, "weighted_sum_by_nonzero_weights": UNSPLIT,
}  # fmt: skip


class LossFunctions:
    """`kind` tells what an argument is, `ranks` how many axes it has, `is_in_step` whether a node runs for each
    batch, and not once for all."""

    def __init__(
        self, kind: Callable[[cst.CSTNode], str], ranks: TensorRanks, is_in_step: Callable[[cst.CSTNode], bool]
    ) -> None:
        self.kind = kind
        self.ranks = ranks
        self._is_in_step = is_in_step
        # The calls that relate samples to each other, and those that reduce them, with what is to be said of them.
        self.coupling: dict[cst.CSTNode, str] = {}
        self.reducing: dict[cst.CSTNode, str] = {}

    def of(self, path: str, call: cst.Call) -> str:
        """What the call of the outside function with this dotted name gives."""
        kind = self._of(path, call)
        if kind == DATA and path.endswith("_with_logits"):
            kind = SAMPLES
        if kind in (MEAN, SUM, UNSPLIT):
            given = {self.kind(a.value) for a in call.args}
            if not given & {MEAN, SUM, MIXED, UNSPLIT, PARTS}:
                found = self.coupling if kind == UNSPLIT else self.reducing
                does = "works across" if kind == UNSPLIT else "reduces"
                found.setdefault(call, f"`{_as_written(path)}` {does} the samples of a batch")
        return kind

    def _of(self, path: str, call: cst.Call) -> str:
        args = [a.value for a in call.args if a.keyword is None]
        if _COUNTS.match(path):
            return COUNT
        if vocabulary.has_role(path, Role.SHARD):
            return SAMPLES
        if _MEAN_FUNCTIONS.match(path) or _SUM_FUNCTIONS.match(path):
            return self._reduction(MEAN if _MEAN_FUNCTIONS.match(path) else SUM, call)
        if path == "tensorflow.nn.compute_average_loss":
            return SUM if argument(call, "global_batch_size", 2) is not None else MEAN
        if path in _WEIGHTS:
            return PENALTY
        if path in _SUMS:
            return sum_of(self.kind(a.value) for a in call.args)
        if path.startswith(_V1_LOSSES):
            return self._version_1(call)
        if api.is_loss_function(path) and operations.axis_of(path) is None and not operations.keeps_apart(path):
            return self._loss_function(path, call)
        if path.endswith((".where", ".gather")) and args:
            return self._picked(path, call)
        if operations.axis_of(path) is not None:
            return self._selected(path, call)
        if path.endswith((".fill", ".full")):
            value = argument(call, "value", 1) or argument(call, "fill_value", 1)
            return UNSPLIT if value is not None and self.kind(value.value) in (MEAN, SUM, MIXED, UNSPLIT) else SAMPLES
        if _SHAPED.match(path):
            return SAMPLES
        if _NUMBERED.match(path):
            return UNSPLIT if any(self.kind(a) not in (FREE, PENALTY) for a in args) else FREE
        if path == "tensorflow.nn.ctc_loss":
            major = argument(call, "logits_time_major", 4)
            by_sample = major is not None and not self.is_true(major.value)
            return self.loss_of(SAMPLES if by_sample else UNSPLIT, call)
        if _PRODUCTS.match(path):
            return self._product(path, call)
        if path == "tensorflow.linalg.matvec" and len(args) == 2:
            kinds = [self.kind(a) for a in args]
            alone = kinds[0] in (FREE, PENALTY) or kinds[1] in (FREE, PENALTY) or self.ranks.of(args[0]) >= 3
            return alternatives([k for k in kinds if k not in (FREE, PENALTY)] or kinds) if alone else UNSPLIT
        if path in ("tensorflow.transpose", "tensorflow.einsum", "keras.ops.transpose", "keras.ops.einsum",
                    "tensorflow.linalg.einsum", "numpy.transpose", "numpy.einsum"):  # fmt: skip
            return self._rearranged(call, args)
        if path in ("builtins.float", "builtins.int", "tensorflow.constant"):
            return alternatives([self.kind(a) for a in args[:1]]) if args else FREE
        if path.endswith(".expand_dims") and _integers_of(argument(call, "axis", 1)) == [0]:
            return UNSPLIT  # the samples are no longer the first axis: each may meet each
        if path.endswith((".stack", ".tile", ".reshape")):
            return self._moved(path, call)
        if _LINEAR.match(path):
            factors = args if path.endswith("multiply") else args[:1]  # the others are types, shapes and axes
            return product(*(self.kind(a) for a in factors)) if args else DATA
        if operations.keeps_apart(path) or _HANDING_ON.search(path):
            return self.curved([a.value for a in call.args])
        if path in ("keras.Input", "keras.layers.Input"):
            return DATA
        if _LAYERS.match(path):
            axis = _integers_of(argument(call, "axis")) or _integers_of(argument(call, "axes"))
            return UNSPLIT if axis is not None and 0 in axis else self.curved([a.value for a in call.args])
        return self.unknown(path, call)

    def unknown(self, path: str, call: cst.Call) -> str:
        """A function that no table names: on samples it may do anything with them."""
        kinds = {self.kind(a.value) for a in call.args}
        if kinds <= {FREE, PENALTY}:
            return PENALTY if PENALTY in kinds else FREE if path.startswith(("numpy.", "math.", "builtins.")) else DATA
        if not self._is_in_step(call):
            return UNSPLIT if kinds & {MEAN, SUM, MIXED, UNSPLIT, PARTS} else DATA
        self.coupling.setdefault(call, f"what `{_as_written(path)}` does with the samples of a batch is not known")
        return UNSPLIT

    def _loss_function(self, path: str, call: cst.Call) -> str:
        axis = _integers_of(argument(call, "axis", 2))
        split = api.is_split_loss(path) and not (axis is not None and 0 in axis)
        return self.loss_of(SAMPLES if split else UNSPLIT, call)

    def _version_1(self, call: cst.Call) -> str:
        """tf.compat.v1.losses: by default the sum over a count of the weights that are not zero."""
        reduction = argument(call, "reduction")
        weights = argument(call, "weights", 2)
        plain = weights is None or self.kind(weights.value) in (FREE, PENALTY)
        text = reduction.value if reduction is not None else None
        if text is None:
            return self.loss_of(MEAN if plain else UNSPLIT, call)
        name = text.evaluated_value if isinstance(text, cst.SimpleString) else None
        name = text.attr.value if isinstance(text, cst.Attribute) else name
        kind = _V1_REDUCTIONS.get(str(name).lower(), DATA)
        return self.loss_of(MEAN if plain and kind == UNSPLIT else kind, call)

    def _picked(self, path: str, call: cst.Call) -> str:
        """`where` with three arguments keeps places; `gather` takes out of the first what the second says."""
        kinds = [self.kind(a.value) for a in call.args if a.keyword is None or a.keyword.value not in ("axis", "name")]
        if path.endswith(".where"):
            return self.curved([a.value for a in call.args]) if len(call.args) > 1 else UNSPLIT
        if kinds[0] in (FREE, PENALTY) and len(kinds) > 1:
            return kinds[1] if kinds[1] in (SAMPLES, DATA, FREE, PENALTY) else UNSPLIT
        return self._selected(path, call)

    def _selected(self, path: str, call: cst.Call) -> str:
        """What picks, orders or compares samples does so within the batch, unless it works along another axis."""
        kinds = [self.kind(a.value) for a in call.args]
        if set(kinds) <= {FREE, PENALTY}:
            return PENALTY if PENALTY in kinds else FREE
        along = operations.axis_of(path)
        assert along is not None
        given = next((a for name in ("axis", "axes", "dim", "batch_dims") if (a := argument(call, name))), None)
        given = given or (argument(call, "axis", along.position) if along.position is not None else None)
        if given is not None and not is_none(given.value):
            axes = integers(given.value)
        else:
            axes = None if along.default is None else [along.default]
        apart = axes is not None and 0 not in axes and not set(kinds) & {MEAN, SUM, MIXED, UNSPLIT, PARTS}
        # The last axis of a value for each sample may be that of the samples.
        if apart and axes is not None and min(axes) < 0 and kinds[0] == SAMPLES and path.endswith(("softmax", "sort")):
            return UNSPLIT
        return (DATA if DATA in kinds else SAMPLES) if apart else UNSPLIT

    def _moved(self, path: str, call: cst.Call) -> str:
        """`stack`, `tile` and `reshape`, which may leave other samples side by side, or another axis the first."""
        if not call.args:
            return DATA
        first = call.args[0].value
        kind = self.kind(first)
        if kind in (FREE, PENALTY):
            return kind
        if path.endswith(".stack"):
            axis = _integers_of(argument(call, "axis", 1))
            if kind in (MEAN, SUM):
                return kind  # of scalars
            return kind if axis is not None and 0 not in axis and kind in (SAMPLES, DATA) else UNSPLIT
        shape = argument(call, "multiples" if path.endswith(".tile") else "shape", 1)
        shape = shape or argument(call, "newshape", 1)
        value = shape.value if shape is not None else None
        opening = value.elements[0].value if isinstance(value, (cst.Tuple, cst.List)) and value.elements else None
        number = integers(opening) if opening is not None else None
        if path.endswith(".reshape") and number == [-1] and isinstance(value, (cst.Tuple, cst.List)):
            return UNSPLIT if self._may_pair(first, integers(value)) else kind
        if path.endswith(".tile"):
            return kind if number == [1] else UNSPLIT
        if number is not None and number != [-1]:
            return kind if kind in (MEAN, SUM) else UNSPLIT
        return kind

    def _may_pair(self, node: cst.BaseExpression, shape: list[int] | None) -> bool:
        """Whether `reshape(x, [-1, 2, size])` may put several samples side by side, as losses of pairs and triplets do:
        seen from the size of a sample, or from what the shape looks like."""
        if shape is None or len(shape) < 2:
            return False
        if len(shape) > 2 and shape[1] in (2, 3):
            return True
        size = self.ranks.last_size(node)
        return len(shape) == 2 and size is not None and size % shape[1] != 0

    def _product(self, path: str, call: cst.Call) -> str:
        """matmul, dot and tensordot: which axis of the samples' tensor they sum over."""
        args = [a.value for a in call.args[:2]]
        kinds = [self.kind(a) for a in args]
        if len(kinds) < 2 or path.endswith("tensordot"):
            axes = argument(call, "axes", 2)
            pairs = axes.value if axes is not None else None
            of_first = pairs.elements[0].value if isinstance(pairs, (cst.List, cst.Tuple)) and pairs.elements else None
            contracted = integers(of_first) if of_first is not None else None
            last = isinstance(pairs, cst.Integer) and pairs.value in ("0", "1")
            if kinds[:1] != [DATA] and kinds[:1] != [SAMPLES]:
                return self.matrix_product(kinds) if set(kinds) <= {FREE, PENALTY} else UNSPLIT
            if not last and (contracted is None or 0 in contracted):
                return UNSPLIT
            return self.matrix_product(kinds)
        transposed = argument(call, "transpose_a", 2)
        if kinds[0] in (SAMPLES, DATA) and kinds[1] in (FREE, PENALTY):
            return UNSPLIT if transposed is not None and self.is_true(transposed.value) else kinds[0]
        if set(kinds) <= {SAMPLES, DATA} and all(self.ranks.of(a) >= 3 for a in args):
            return DATA  # a product for each sample
        if kinds[0] in (FREE, PENALTY) and kinds[1] in (SAMPLES, DATA):
            return DATA if self.ranks.of(args[1]) >= 3 else UNSPLIT
        return self.matrix_product(kinds)

    @staticmethod
    def is_true(node: cst.CSTNode) -> bool:
        return not (isinstance(node, cst.Name) and node.value == "False")

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
        if set(kinds) & {MEAN, SUM, MIXED, UNSPLIT, PARTS, COUNT}:
            return UNSPLIT
        if args and isinstance(args[0], cst.SimpleString):
            return SAMPLES if self._keeps_first_index(str(args[0].evaluated_value), kinds[1:]) else UNSPLIT
        axes = argument(call, "perm", 1) or argument(call, "axes", 1)
        order = axes.value if axes is not None else None
        opening = order.elements[0].value if isinstance(order, (cst.Tuple, cst.List)) and order.elements else None
        return kinds[0] if opening is not None and integers(opening) == [0] else UNSPLIT

    @staticmethod
    def _keeps_first_index(equation: str, kinds: list[str]) -> bool:
        """Whether the samples' index opens all their operands and the result, and is in no other operand."""
        operands, _, result = equation.replace(" ", "").partition("->")
        terms = operands.split(",")
        if not result or len(terms) != len(kinds):
            return False
        of_samples = [t for t, kind in zip(terms, kinds) if kind not in (FREE, PENALTY)]
        others = [t for t, kind in zip(terms, kinds) if kind in (FREE, PENALTY)]
        first = result[:1]
        opens_all = all(t[:1] == first and first not in t[1:].replace("..", "") for t in of_samples)
        return opens_all and not any(first in t for t in others)

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
        inner = self.kind(self._stacked(call))
        if inner == MIXED:
            return MEAN if reduction == MEAN and len(call.args) == 1 else UNSPLIT
        if inner in (FREE, PENALTY, MEAN, SUM, UNSPLIT):
            return inner  # a scalar already (or penalties alone): reducing it again changes nothing
        if inner == PARTS:
            return self._sum_of_parts(reduction, call)
        axis = argument(call, "axis", 1)
        if axis is None or (isinstance(axis.value, cst.Name) and axis.value.value == "None"):
            return reduction
        axes = integers(axis.value)
        if axes is None or (inner == SAMPLES and min(axes) < 0):
            return DATA  # whether the last axis of such a tensor is that of the samples is not seen
        return reduction if 0 in axes else SAMPLES

    @staticmethod
    def _stacked(call: cst.Call) -> cst.BaseExpression:
        """What is reduced as a whole: of `tf.reduce_mean(tf.stack(losses))` the losses."""
        value = call.args[0].value
        if len(call.args) == 1 and m.matches(value, m.Call(m.Attribute(attr=m.Name("stack")), [m.Arg()])):
            return cst.ensure_type(value, cst.Call).args[0].value
        return value

    @staticmethod
    def _sum_of_parts(reduction: str, call: cst.Call) -> str:
        axis = argument(call, "axis", 1)
        axes = integers(axis.value) if axis is not None else [0]
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


def _as_written(path: str) -> str:
    return re.sub(r"^tensorflow\.", "tf.", path)


def _integers_of(arg: cst.Arg | None) -> list[int] | None:
    return integers(arg.value) if arg is not None else None


def integers(node: cst.BaseExpression) -> list[int] | None:
    """The whole numbers that are written here, one or several; None for anything else."""

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
