"""How a loss grows with the batch: a mean over its samples, a sum, or something that does not split.

Averaging the workers' gradients is right for a loss that is a mean over the batch, summing them for one that is a
sum over it (also one divided by a constant). A sum of both kinds, a ratio of two sums over the data, or a curved
function of a mean is the average of nothing: such a loss is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

import libcst as cst

from migrator.facts import api
from migrator.facts.gradients import differentiated
from migrator.facts.kinds import Kinds
from migrator.facts.loss_kinds import (
    COUNT,
    DATA,
    FREE,
    MEAN,
    MIXED,
    PENALTY,
    SAMPLES,
    SUM,
    UNSPLIT,
    alternatives,
    product,
    quotient,
    sum_of,
)
from migrator.facts.resolve import Resolver
from migrator.facts.syntax import argument
from migrator.facts.training import Training
from migrator.facts.tree import Binding, Tree
from migrator.facts.values import External, Function, Literal, Member, Object, Result, Value

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
    r"|norm|count_nonzero|boolean_mask|gather|gather_nd|dynamic_partition|unique\w*|segment_\w+|unsorted_segment_\w+|where|cumsum"
    r"|nn\.(?:moments|weighted_moments|top_k)|linalg\.norm|reverse|roll|random\.shuffle)$"
    r"|^keras\.ops\.(?:max|min|std|var|top_k|sort|argsort|norm|take|segment_\w+)$"
)
_MANY = 100_000  # evaluations after which every kind is kept, so that time stays bounded
_PENALTIES = ("losses",)
_WEIGHT_ATTRIBUTES = ("trainable_variables", "trainable_weights", "variables", "weights", "kernel", "bias")
_MODEL_LOSSES = ("compiled_loss", "compute_loss", "compute_loss_and_updates")
_SCALING = ("get_scaled_loss", "scale_loss")


class Losses:
    """Classifies the loss expressions of one script."""

    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, training: Training) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self._training = training
        self._busy: set[tuple[cst.CSTNode, tuple[int, ...]]] = set()
        self._known: dict[tuple[cst.CSTNode, tuple[int, ...]], str] = {}
        self._cycles = 0
        self._evaluations = 0
        self._bodies: list[cst.CSTNode] = []

    def of_tape(self, call: cst.Call) -> str:
        """The kind of the loss that `tape.gradient(loss, …)` differentiates, as the code under the tape computes it."""
        loss = differentiated(call)
        if loss is None:
            return DATA
        tapes = [v.call for v in self.resolver.values(cast(cst.Attribute, call.func).value) if isinstance(v, Result)]
        blocks = [o.body for t in tapes for o in self.tree.ancestors(t) if isinstance(o, cst.With)]
        self._known.clear()
        self._bodies = [body for block in blocks[:1] for body in self._training.reached_from(block)]
        try:
            return self.kind(loss)
        finally:
            self._bodies = []
            self._known.clear()

    def kind(self, node: cst.CSTNode, path: tuple[int, ...] = ()) -> str:
        """FREE, PENALTY, SAMPLES, DATA, MEAN, SUM, COUNT, MIXED or UNSPLIT."""
        key = (node, path)
        if key in self._known:
            return self._known[key]
        if key in self._busy:
            self._cycles += 1
            return FREE  # `loss = loss + x` in a loop: the other term tells
        cycles = self._cycles
        self._busy.add(key)
        try:
            kind = self._kind(node, path)
        finally:
            self._busy.discard(key)
        self._evaluations += 1
        if cycles == self._cycles or self._evaluations > _MANY:
            self._known[key] = kind
        return kind

    def _kind(self, node: cst.CSTNode, path: tuple[int, ...]) -> str:
        if path and isinstance(node, (cst.Tuple, cst.List)):
            inside = -len(node.elements) <= path[0] < len(node.elements)
            return self.kind(node.elements[path[0]].value, path[1:]) if inside else DATA
        if isinstance(node, (cst.BaseNumber, cst.BaseString)):
            return FREE
        if isinstance(node, cst.Name):
            return self._name(node, path)
        if isinstance(node, cst.Call):
            return self._call(node, path)
        if isinstance(node, cst.BinaryOperation):
            return self._operation(node)
        if isinstance(node, cst.UnaryOperation):
            return self.kind(node.expression)
        if isinstance(node, cst.IfExp):
            return alternatives([self.kind(node.body, path), self.kind(node.orelse, path)])
        if isinstance(node, (cst.Tuple, cst.List)):
            return sum_of(self.kind(e.value) for e in node.elements)
        if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
            return self.kind(node.elt)
        if isinstance(node, cst.Attribute):
            return self._attribute(node)
        if isinstance(node, cst.Subscript):
            return self._subscript(node)
        if isinstance(node, cst.Comparison):
            return self._curved([node.left, *(c.comparator for c in node.comparisons)])
        return DATA

    def _subscript(self, node: cst.Subscript) -> str:
        values = self.resolver.values(node)
        if values and all(self.kinds.is_variable(v) for v in values):
            return PENALTY
        inner = self.kind(node.value)
        if inner not in (SAMPLES, DATA):
            return inner if inner in (FREE, PENALTY, COUNT, UNSPLIT) else DATA
        first = node.slice[0].slice
        if isinstance(first, cst.Slice):
            return inner if first.lower is None and first.upper is None and first.step is None else UNSPLIT
        index = first.value if isinstance(first, cst.Index) else None
        if isinstance(index, cst.Ellipsis):
            return inner
        if isinstance(index, cst.Integer):
            return DATA if inner == DATA else UNSPLIT  # a part of a tuple of tensors, or one sample of many
        return UNSPLIT if index is not None and self._is_mask(index) else DATA

    def _is_mask(self, index: cst.BaseExpression) -> bool:
        """Whether an index selects samples by what they are."""
        if isinstance(index, cst.Name):
            bindings = self.resolver.reaching(index)
            return any(isinstance(b.value, (cst.Comparison, cst.Call)) and b.kind == "assign" for b in bindings)
        return isinstance(index, (cst.Comparison, cst.UnaryOperation, cst.BinaryOperation, cst.Call))

    # -- names ---------------------------------------------------------------------------------------------------

    def _name(self, node: cst.Name, path: tuple[int, ...]) -> str:
        bindings = self.resolver.reaching(node)
        if not bindings:
            return DATA
        kinds = []
        for binding in bindings:
            if binding.kind == "augmented":
                kinds.append(self._augmented(binding))
            else:
                kinds.append(self._binding(binding, path))
        return alternatives(kinds)

    def _binding(self, binding: Binding, path: tuple[int, ...]) -> str:
        if binding.kind == "assign" and binding.value is not None:
            return self.kind(binding.value, (*binding.path, *path))
        if binding.kind == "param":
            return self._parameter(cast(cst.Param, binding.node), path)
        if binding.kind == "for" and binding.value is not None:
            inner = self.kind(binding.value)
            return inner if inner in (FREE, PENALTY) else DATA
        return DATA

    def _augmented(self, binding: Binding) -> str:
        node = cast(cst.AugAssign, binding.node)
        before = self._before(binding)
        added = self.kind(node.value)
        if isinstance(node.operator, (cst.AddAssign, cst.SubtractAssign)):
            return sum_of([before, added])
        if isinstance(node.operator, cst.MultiplyAssign):
            return product(before, added)
        return quotient(before, added) if isinstance(node.operator, cst.DivideAssign) else DATA

    def _before(self, binding: Binding) -> str:
        """What the name was before an augmented assignment."""
        if not isinstance(binding.target, cst.Name):
            return DATA
        kinds = [
            self._augmented(b) if b.kind == "augmented" else self._binding(b, ())
            for b in self.resolver.reaching(binding.target)
            if b is not binding
        ]
        return alternatives(kinds) if kinds else DATA

    def _parameter(self, param: cst.Param, path: tuple[int, ...]) -> str:
        given = self.resolver.given(param)
        # A function that both training and testing call is here what training makes of it.
        arguments = [a for a in given if any(self.tree.contains(b, a) for b in self._bodies)] or given
        return alternatives([self.kind(a, path) for a in arguments]) if arguments else DATA

    def _attribute(self, node: cst.Attribute) -> str:
        name = node.attr.value
        if name in _PENALTIES or name in _WEIGHT_ATTRIBUTES:
            return PENALTY
        if name in ("shape", "size"):
            return COUNT
        values = self.resolver.values(node)
        if values and all(isinstance(v, External) for v in values):
            return FREE  # tf.float32, np.pi
        if values and all(self.kinds.is_variable(v) or isinstance(v, Literal) for v in values):
            return PENALTY if any(self.kinds.is_variable(v) for v in values) else FREE
        kinds = []
        for owner in self.resolver.values(node.value):
            if isinstance(owner, Object):
                for binding in self.resolver.attribute_bindings(owner.of, name):
                    kinds.append(self._binding(binding, ()))
        return alternatives(kinds) if kinds else DATA

    # -- calls ---------------------------------------------------------------------------------------------------

    def _call(self, call: cst.Call, path: tuple[int, ...]) -> str:
        functions = self.resolver.values(call.func)
        kinds = [self._call_of(function, call, path) for function in functions]
        if not kinds and isinstance(call.func, cst.Attribute):
            return self._method(call.func.attr.value, call)
        return alternatives(kinds) if kinds else DATA

    def _call_of(self, function: Value, call: cst.Call, path: tuple[int, ...]) -> str:
        if isinstance(function, External):
            return self._outside(function.path, call)
        if isinstance(function, Function):
            if isinstance(function.node, cst.Lambda):
                return self.kind(function.node.body, path)
            return alternatives([self.kind(r, path) for r in self.resolver.returned(function.node)])
        if isinstance(function, Result) and isinstance(function.function, External):
            if api.is_loss_class(function.function.path):
                return self._loss_of(_loss_object(function.function.path, function.call), call)
            if function.function.path == "keras.losses.get":
                return self._loss_of(SAMPLES, call)
        if isinstance(function, Object) and self.resolver.derives_from(function.of, api.is_loss_class):
            method = self.resolver.method(function.of, "call")
            inner = alternatives([self.kind(r) for r in self.resolver.returned(method)]) if method else MEAN
            return self._loss_of(inner if inner in (SUM, MIXED, UNSPLIT) else MEAN, call)
        if isinstance(function, Member):
            return self._method(function.name, call)
        return DATA

    def _loss_of(self, kind: str, call: cst.Call) -> str:
        """A loss of samples against samples; of anything that is not theirs alone it does not split."""
        given = [self.kind(a.value) for a in call.args]
        return UNSPLIT if any(k in (COUNT, MEAN, SUM, MIXED, UNSPLIT) for k in given) else kind

    def _method(self, name: str, call: cst.Call) -> str:
        if name in _MODEL_LOSSES:
            return MEAN
        if name in _SCALING and call.args:
            return self.kind(call.args[0].value)
        return DATA

    def _outside(self, path: str, call: cst.Call) -> str:
        args = [a.value for a in call.args if a.keyword is None]
        if _COUNTS.match(path):
            return COUNT
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
            return self._loss_of(SAMPLES if api.is_split_loss(path) else UNSPLIT, call)
        if _SELECTIONS.match(path):
            return self._selected(path, call, args)
        if _SHAPED.match(path):
            return SAMPLES
        if _PRODUCTS.match(path):
            return self._matrix_product([self.kind(a) for a in args])
        if path in ("tensorflow.transpose", "tensorflow.einsum", "keras.ops.transpose", "keras.ops.einsum"):
            return self._rearranged(call, args)
        if path in ("builtins.float", "builtins.int", "tensorflow.constant"):
            return alternatives([self.kind(a) for a in args[:1]]) if args else FREE
        if _LINEAR.match(path):
            factors = args if path.endswith("multiply") else args[:1]  # the others are types, shapes and axes
            return product(*(self.kind(a) for a in factors)) if args else DATA
        if path.startswith(("tensorflow.nn.", "keras.activations.")):
            # These take keywords; the losses among them give a value for each sample.
            axis = argument(call, "axis")
            if axis is not None and 0 in (_integers(axis.value) or ()):
                return UNSPLIT  # a softmax over the batch
            curved = self._curved([a.value for a in call.args])
            return curved if curved == UNSPLIT else SAMPLES
        return self._curved(args)

    def _selected(self, path: str, call: cst.Call, args: list[cst.BaseExpression]) -> str:
        """What picks, orders or compares samples does so within the batch, unless it works along another axis."""
        kinds = [self.kind(a) for a in args]
        if kinds and kinds[0] in (FREE, PENALTY):
            return kinds[0]
        if path.endswith(".where") and len(args) > 1:
            return self._curved(args)
        axis = argument(call, "axis", 1) or argument(call, "batch_dims")
        axes = _integers(axis.value) if axis is not None else None
        along_another = axes is not None and 0 not in axes and UNSPLIT not in kinds
        return SAMPLES if along_another else UNSPLIT

    @staticmethod
    def _matrix_product(kinds: list[str]) -> str:
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

    def _curved(self, args: list[cst.BaseExpression]) -> str:
        """An elementwise or unknown function: harmless on samples, not on what is already reduced."""
        kinds = [self.kind(a) for a in args]
        if any(k in (MEAN, SUM, MIXED, UNSPLIT) for k in kinds):
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
        axis = argument(call, "axis", 1)
        if axis is None or (isinstance(axis.value, cst.Name) and axis.value.value == "None"):
            return reduction
        axes = _integers(axis.value)
        if axes is None or (inner == SAMPLES and min(axes) < 0):
            return DATA  # whether the last axis of such a tensor is that of the samples is not seen
        return reduction if 0 in axes else SAMPLES

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def _operation(self, node: cst.BinaryOperation) -> str:
        left, right = self.kind(node.left), self.kind(node.right)
        if isinstance(node.operator, (cst.Add, cst.Subtract)):
            return sum_of([left, right])
        if isinstance(node.operator, cst.Multiply):
            return product(left, right)
        if isinstance(node.operator, (cst.Divide, cst.FloorDivide)):
            return quotient(left, right)
        if isinstance(node.operator, cst.MatrixMultiply):
            return self._matrix_product([left, right])
        if {left, right} & {MEAN, SUM, MIXED, UNSPLIT}:
            return UNSPLIT
        if {left, right} <= {FREE, PENALTY}:
            return PENALTY if PENALTY in (left, right) else FREE
        return SAMPLES if SAMPLES in (left, right) else DATA


def _loss_object(path: str, call: cst.Call) -> str:
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
