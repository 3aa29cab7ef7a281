"""How a loss grows with the batch: a mean over its samples, a sum, or something that does not split.

Averaging the workers' gradients is right for a loss that is a mean over the batch, summing them for one that is a
sum over it (also one divided by a constant). A sum of both kinds, a ratio of two sums over the data, or a curved
function of a mean is the average of nothing: such a loss is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import libcst as cst
import libcst.matchers as m

from migrator.facts import api
from migrator.facts.gradients import differentiated
from migrator.facts.iteration import Iteration
from migrator.facts.kinds import Kinds, calls
from migrator.facts.loss_functions import LossFunctions, loss_object
from migrator.facts.loss_kinds import (
    COUNT,
    DATA,
    FREE,
    MEAN,
    MIXED,
    PARTS,
    PENALTY,
    SAMPLES,
    SHARED,
    SUM,
    UNSPLIT,
    alternatives,
    counted_together,
    product,
    quotient,
    sum_of,
)
from migrator.facts.minibatches import MinibatchFinder
from migrator.facts.normalisers import Normalisers
from migrator.facts.penalties import Penalties
from migrator.facts.ranks import Ranks
from migrator.facts.resolve import Resolver
from migrator.facts.syntax import argument
from migrator.facts.tensor_ranks import TensorRanks
from migrator.facts.training import Minimization, Training, Update
from migrator.facts.tree import Binding, Tree
from migrator.facts.values import Element, External, Function, Literal, Member, Object, Result, Value, is_strategy

_MANY, _DEEPEST = 5_000, 80  # evaluations for an expression, steps away from it: then the text tells no more
_WEIGHT_LISTS = ("trainable_variables", "trainable_weights")
_OF_LAYERS = ("losses", "variables", "weights", "kernel", "bias")
# What they give is as many rows, of the same samples.
_TENSOR_METHODS = ("numpy", "astype", "copy", "get_shape", "set_shape", "to_tensor", "values", "items", "get", "pop")
_REDUCED = (MEAN, SUM, MIXED, UNSPLIT, PARTS, COUNT)
_MODEL_LOSSES = ("compiled_loss", "compute_loss", "compute_loss_and_updates")
_SCALING = ("get_scaled_loss", "scale_loss")


class Losses:
    """Classifies the loss expressions of one script."""

    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        kinds: Kinds,
        training: Training,
        ranks: Ranks,
        minibatches: MinibatchFinder,
    ) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self._training = training
        self._minibatches = minibatches
        self._ranks = ranks
        self._busy: set[tuple[cst.CSTNode, tuple[int, ...]]] = set()
        self._known: dict[tuple[cst.CSTNode, tuple[int, ...]], str] = {}
        self._cycles = 0
        self._evaluations = 0
        self._bodies: list[cst.CSTNode] = []
        self._inputs: frozenset[cst.CSTNode] = frozenset()
        # Penalties that are counted by parts, beside what the script itself divides by the number of workers.
        self._shared: set[cst.CSTNode] = set()
        self._collected: list[cst.BaseExpression] = []
        self._divisors: list[cst.BaseExpression] = []
        self._functions = LossFunctions(self.kind, TensorRanks(resolver), self._is_in_step)
        self._iteration = Iteration(tree, resolver)
        self._penalties = Penalties(tree, resolver, self.kind)
        self._normalisers = Normalisers(tree, resolver, kinds, training, self._penalties)
        self._counted: set[cst.CSTNode] = set()  # divisors that all workers count together

    def of_tape(self, call: cst.Call) -> str:
        """The kind of the loss that `tape.gradient(loss, …)` differentiates, as the code under the tape computes it."""
        loss = differentiated(call)
        if loss is None:
            return DATA
        tapes = [v.call for v in self.resolver.values(cast(cst.Attribute, call.func).value) if isinstance(v, Result)]
        blocks = [o.body for t in tapes for o in self.tree.ancestors(t) if isinstance(o, cst.With)]
        return self._kind_within([loss], blocks[:1])

    def of_minimization(self, update: Minimization) -> str:
        """The kind of the loss that `optimizer.minimize` is given, as a tensor or as a function without arguments."""
        if update.loss is None:
            return DATA
        functions = [v.node for v in self.resolver.values(update.loss) if isinstance(v, Function)]
        if not functions:
            function = self.tree.function_of(update.call)
            return self._kind_within([update.loss], [] if function is None else [function])
        returned: list[cst.BaseExpression] = []
        for node in functions:
            returned += [node.body] if isinstance(node, cst.Lambda) else self.resolver.returned(node)
        return self._kind_within(returned, functions)

    def _kind_within(self, losses: Sequence[cst.BaseExpression], bodies: Sequence[cst.CSTNode]) -> str:
        """What the losses are as this code computes them."""
        self._known.clear()
        self._functions.coupling.clear()
        self._bodies = [reached for body in bodies for reached in self._training.reached_from(body)]
        try:
            kind = alternatives([self.kind(loss) for loss in losses]) if losses else DATA
            if kind == UNSPLIT:
                return SUM if self._shares_of(losses) else self._kind_counted(losses)
            return kind
        finally:
            self._bodies = []
            self._known.clear()

    def of_number(self, node: cst.BaseExpression) -> str:
        """The kind of a number that the script decides by or tells."""
        return self._kind_within([node], [])

    def normalisers(self, update: Update) -> list[cst.BaseExpression]:
        """What losses of the update are divided by that the workers have to count together: see normalisers.py."""
        self._divisors.clear()
        for gradients in update.gradients:
            for call in gradients.tape_calls:
                self.of_tape(call)
        return list(dict.fromkeys(self._divisors))

    def coupling_in(self, result: cst.CSTNode, inputs: Sequence[cst.Param] = ()) -> tuple[cst.CSTNode, str] | None:
        """Where samples meet each other on the way from the inputs, which are batches, to this result of a forward
        pass, and how; None if nowhere."""
        self._known.clear()
        self._inputs = frozenset(inputs)
        self._functions.coupling.clear()
        self._functions.reducing.clear()
        try:
            if self.kind(result) not in (MEAN, SUM, MIXED, UNSPLIT, PARTS, SHARED):
                return None
            found = {**self._functions.coupling, **self._functions.reducing}
            where = min(found.items(), key=lambda item: self.tree.order.get(item[0], -1), default=None)
            return where or (result, "this result depends on the batch as a whole")
        finally:
            self._known.clear()
            self._inputs = frozenset()

    @property
    def unknown(self) -> str:
        """The functions that the last loss was given to and that nobody knows."""
        return "; ".join(why for why in self._functions.coupling.values() if why.endswith("not known"))

    def _kind_counted(self, losses: Sequence[cst.BaseExpression]) -> str:
        """The kind of the losses once the workers count together what they are divided by."""
        divisors = self._normalisers.of(losses, self._bodies)
        self._counted.update(divisors)
        self._known.clear()
        try:
            kind = alternatives([self.kind(loss) for loss in losses]) if divisors else UNSPLIT
            if kind == MEAN:
                self._divisors.extend(divisors)
            return kind if kind == MEAN else UNSPLIT
        finally:
            self._counted.clear()
            self._known.clear()

    def _divisor(self, node: cst.BaseExpression) -> str:
        counted = node if node in self._counted else self._normalisers.counted_in(node)
        return self.kind(node) if counted is None else counted_together(self.kind(counted))

    def penalties(self, update: Update) -> list[cst.BaseExpression]:
        """The penalties in losses of the update that are sums over the batch otherwise: summed over N workers, each
        would count N times."""
        self._collected.clear()
        if isinstance(update, Minimization):
            self.of_minimization(update)
        for gradients in update.gradients:
            for call in gradients.tape_calls:
                self.of_tape(call)
        return list(dict.fromkeys(self._collected))

    def _shares_of(self, losses: Sequence[cst.BaseExpression]) -> list[cst.BaseExpression]:
        """The penalties of which every worker has to count its share, so that the losses are sums over the batch."""
        terms = [term for loss in losses for term in self._penalties.terms(loss, self._bodies)]
        self._shared.update(terms)
        self._known.clear()
        try:
            shares = terms if alternatives([self.kind(loss) for loss in losses]) == SUM else []
            self._collected.extend(shares)
            return shares
        finally:
            self._shared.clear()
            self._known.clear()

    def kind(self, node: cst.CSTNode, path: tuple[int, ...] = ()) -> str:
        """FREE, PENALTY, SAMPLES, DATA, MEAN, SUM, COUNT, MIXED or UNSPLIT."""
        key = (node, path)
        if key in self._known:
            return self._known[key]
        if key in self._busy:
            self._cycles += 1
            return FREE  # `loss = loss + x` in a loop: the other term tells
        self._evaluations = self._evaluations + 1 if self._busy else 0
        if self._evaluations > _MANY or len(self._busy) > _DEEPEST:
            return DATA
        cycles = self._cycles
        self._busy.add(key)
        try:
            kind = self._kind(node, path)
        finally:
            self._busy.discard(key)
        if cycles == self._cycles:
            self._known[key] = kind
        return kind

    def _kind(self, node: cst.CSTNode, path: tuple[int, ...]) -> str:
        if node in self._minibatches.nodes:
            return SAMPLES
        if node in self._shared:
            return SHARED
        if path and isinstance(node, (cst.Tuple, cst.List)):
            inside = -len(node.elements) <= path[0] < len(node.elements)
            return self.kind(node.elements[path[0]].value, path[1:]) if inside else DATA
        if isinstance(node, (cst.BaseNumber, cst.BaseString)):
            return FREE
        if path and path[0] != 0 and isinstance(node, cst.Attribute) and node.attr.value == "shape":
            return FREE  # `batch, length = x.shape`
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
            return self._functions.curved([node.left, *(c.comparator for c in node.comparisons)])
        return DATA

    def _subscript(self, node: cst.Subscript) -> str:
        values = self.resolver.values(node)
        if values and all(self.kinds.is_variable(v) for v in values):
            return PENALTY
        inner = self.kind(node.value)
        first = node.slice[0].slice
        if inner == COUNT:  # of `tf.shape(x)[1]` the batch is no part
            other = isinstance(first, cst.Index) and isinstance(first.value, (cst.Integer, cst.UnaryOperation))
            return FREE if other and not m.matches(first, m.Index(m.Integer("0"))) else COUNT
        if inner not in (SAMPLES, DATA):
            return inner if inner in (FREE, PENALTY, UNSPLIT, PARTS) else DATA
        if isinstance(first, cst.Slice):
            return inner if first.lower is None and first.upper is None and first.step is None else UNSPLIT
        index = first.value if isinstance(first, cst.Index) else None
        if isinstance(index, cst.Ellipsis):
            return inner
        if m.matches(index or node, m.Integer() | m.UnaryOperation(m.Minus(), m.Integer())):
            return DATA if inner == DATA else UNSPLIT  # a part of a tuple of tensors, or one sample of many
        if m.matches(index or node, m.Name("None") | m.Attribute(attr=m.Name("newaxis"))):
            return UNSPLIT  # the samples are no longer the first axis: each may meet each
        return UNSPLIT if index is not None and self._is_mask(index) else DATA

    def _is_mask(self, index: cst.BaseExpression) -> bool:
        """Whether an index selects samples by what they are."""
        if isinstance(index, cst.Name):
            bindings = self.resolver.reaching(index)
            return any(isinstance(b.value, (cst.Comparison, cst.Call)) and b.kind == "assign" for b in bindings)
        return isinstance(index, (cst.Comparison, cst.UnaryOperation, cst.BinaryOperation, cst.Call))

    # -- names ---------------------------------------------------------------------------------------------------

    def _name(self, node: cst.Name, path: tuple[int, ...]) -> str:
        if node.value in ("True", "False", "None"):
            return FREE
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
            turns = [turn.node for turn in self._iteration.turns(binding.value, (*binding.path, *path))]
            if None not in turns:
                return alternatives([self.kind(node) for node in turns if node is not None])
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
        return quotient(before, self._divisor(node.value)) if isinstance(node.operator, cst.DivideAssign) else DATA

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
        if param in self._inputs:
            return DATA
        given = self.resolver.given(param)
        # A function that both training and testing call is here what training makes of it.
        arguments = [a for a in given if any(self.tree.contains(b, a) for b in self._bodies)] or given
        return alternatives([self.kind(a, path) for a in arguments]) if arguments else DATA

    def _attribute(self, node: cst.Attribute) -> str:
        name = node.attr.value
        if name in _WEIGHT_LISTS or (name in _OF_LAYERS and self._is_layer(node.value)):
            return PENALTY
        if name in ("shape", "size"):
            return COUNT
        values = self.resolver.values(node)
        if values and all(isinstance(v, External) or _is_replica_count(v) for v in values):
            return FREE  # tf.float32, np.pi
        if values and all(self.kinds.is_variable(v) or isinstance(v, Literal) for v in values):
            return PENALTY if any(self.kinds.is_variable(v) for v in values) else FREE
        kinds = [self._binding(binding, ()) for binding in self.resolver.bindings_of(node)]
        rest = UNSPLIT if self.kind(node.value) == UNSPLIT else DATA  # `tf.math.top_k(losses, k=16).values`
        return alternatives(kinds) if kinds else rest

    def _is_number(self, node: cst.CSTNode) -> bool:
        """Whether an expression that is not seen through looks like a setting (`args.weight`), and no tensor."""
        if isinstance(node, cst.Subscript):
            return m.matches(node.slice[0].slice, m.Index(m.SimpleString()))
        if isinstance(node, cst.Name):
            bindings = self.resolver.reaching(node)
            return all(
                (b.kind == "assign" and b.value is not None and self._is_number(b.value))
                or (b.kind == "param" and not self.resolver.given(cast(cst.Param, b.node)))
                for b in bindings
            )
        if isinstance(node, cst.BinaryOperation):
            return self._is_number(node.left) and self._is_number(node.right)
        return isinstance(node, (cst.Attribute, cst.BaseNumber))

    def _is_layer(self, node: cst.BaseExpression) -> bool:
        """Whether the expression is a model, a layer or the like, or a layer that one of them gives out."""
        if isinstance(node, cst.Name) and self._is_loop_over_layers(node):
            return True
        return any(self._is_of_layer(v) for v in self.resolver.values(node))

    def _is_of_layer(self, value: Value) -> bool:
        while not self.kinds.has_weights(value):
            if isinstance(value, Member):
                value = value.owner
            elif isinstance(value, Element):
                value = value.of
            elif isinstance(value, Result) and isinstance(value.function, Member):
                value = value.function  # model.get_layer("head")
            else:
                return isinstance(value, Object) and self.kinds.has_weights(value)
        return True

    def _is_loop_over_layers(self, node: cst.Name) -> bool:
        bindings = self.resolver.reaching(node)
        return bool(bindings) and all(
            b.kind == "for" and b.value is not None and m.matches(b.value, m.Attribute(attr=m.Name("layers")))
            for b in bindings
        )

    # -- calls ---------------------------------------------------------------------------------------------------

    def _is_in_step(self, node: cst.CSTNode) -> bool:
        if any(self.tree.contains(body, node) for body in self._bodies):
            return True
        if not self._bodies:
            return self.tree.function_of(node) is not None or isinstance(node, cst.Lambda)
        return next(iter(self.tree.loops_around(node)), None) is not None

    def _call(self, call: cst.Call, path: tuple[int, ...]) -> str:
        functions = [
            v for v in self.resolver.values(call.func) if v != External("builtins.None")
        ]  # that cannot be called
        kinds = [self._call_of(function, call, path) for function in functions]
        if not kinds and isinstance(call.func, cst.Attribute):
            return self._method(call.func.attr.value, call)
        return alternatives(kinds) if kinds else DATA

    def _call_of(self, function: Value, call: cst.Call, path: tuple[int, ...]) -> str:
        if isinstance(function, External):
            return self._functions.of(function.path, call)
        if isinstance(function, Function):
            if isinstance(function.node, cst.Lambda):
                return self.kind(function.node.body, path)
            return alternatives([self.kind(r, path) for r in self.resolver.returned(function.node)])
        if isinstance(function, Result) and isinstance(function.function, External):
            if api.is_loss_class(function.function.path):
                return self._functions.loss_of(loss_object(function.function.path, function.call), call)
            if function.function.path == "keras.losses.get":
                return self._functions.loss_of(SAMPLES, call)
        if isinstance(function, Object) and self.resolver.derives_from(function.of, api.is_loss_class):
            method = self.resolver.method(function.of, "call")
            inner = alternatives([self.kind(r) for r in self.resolver.returned(method)]) if method else SAMPLES
            return self._functions.loss_of(as_reduced(inner, self._reduction_of(function)), call)
        if self.kinds.has_weights(function):
            return UNSPLIT if any(self.kind(a.value) in _REDUCED for a in call.args) else DATA
        if isinstance(function, Object) and (method := self.resolver.method(function.of, "__call__")) is not None:
            return alternatives([self.kind(r, path) for r in self.resolver.returned(method)])
        if isinstance(function, Result) and isinstance(function.function, External):
            return self._of_made(function.function.path, function.call, call)
        if isinstance(function, Member):
            if function.name == "loss" and self.kinds.is_model(function.owner):
                return self._compiled(function.owner, call)
            return self._method(function.name, call, function.owner)
        return DATA

    def _of_made(self, path: str, made: cst.Call, call: cst.Call) -> str:
        """What is called was made by an outside function: a partial one, a layer of some package, or anything else."""
        if path == "functools.partial" and made.args:
            functions = [v for v in self.resolver.values(made.args[0].value) if isinstance(v, (Function, External))]
            partly = cst.Call(func=call.func, args=[*call.args, *made.args[1:]])
            kinds = [
                self._functions.of(f.path, partly) if isinstance(f, External) else self._call_of(f, call, ())
                for f in functions
            ]
            return alternatives(kinds) if kinds else DATA
        name = path.rpartition(".")[2]
        is_layer = name[:1].isupper() and "loss" not in path.lower() and not path.startswith(("tensorflow.", "numpy."))
        return (
            DATA if is_layer and self.kind(call.args[0].value) not in _REDUCED else self._functions.unknown(path, call)
        )

    def _reduction_of(self, loss: Object) -> str:
        """What the constructed loss does with what its `call` returns: "mean", "sum", "none", or "" where not seen."""
        init = self.resolver.method(loss.of, "__init__")
        if init is None or loss.call is None:
            return _reduction_named(argument(loss.call, "reduction")) if loss.call is not None else "mean"
        is_super = m.Attribute(m.Call(m.Name("super")), m.Name("__init__"))
        supers = [c for c in self.tree.calls if self.tree.contains(init, c) and m.matches(c.func, is_super)]
        given = argument(supers[0], "reduction") if supers else None
        if given is None:
            return _reduction_named(argument(loss.call, "reduction"))
        if not isinstance(given.value, cst.Name):
            return _reduction_named(given)
        passed = argument(loss.call, given.value.value)
        defaults = [
            p.default for p in init.params.params if p.name.value == given.value.value and p.default is not None
        ]
        return _reduction_named(passed or (cst.Arg(defaults[0]) if defaults else None))

    def _compiled(self, model: Value, call: cst.Call) -> str:
        """What `self.loss(y, y_pred)` is, by the loss objects that the model is compiled with."""
        given = [argument(c.call, "loss", 1) for c in self._training.compiles_of([model])]
        values = [self.resolver.values(g.value) if g is not None else () for g in given]
        kinds = [self._call_of(v, call, ()) for each in values for v in each]
        return alternatives(kinds) if kinds and all(values) else DATA

    def _compiled_total(self, model: Value) -> str:
        """What `self.compute_loss(...)` is: the losses that the model is compiled with, reduced as Keras does."""
        compiles = self._training.compiles_of([model])
        given = [argument(c.call, "loss", 1) for c in compiles]
        if not compiles or None in given:
            return DATA
        kinds = [self.compiled_kind(g.value) for g in given if g is not None]
        return alternatives(kinds)

    def compiled_kind(self, loss: cst.BaseExpression) -> str:
        """What Keras makes of what `compile(loss=...)` is given, once it has reduced it: MEAN, SUM or UNSPLIT."""
        if isinstance(loss, (cst.List, cst.Tuple)):
            return sum_of(self.compiled_kind(e.value) for e in loss.elements)
        if isinstance(loss, cst.Dict):
            return sum_of(self.compiled_kind(e.value) for e in loss.elements)
        values = self.resolver.values(loss)
        return alternatives([self._compiled_one(v) for v in values]) if values else UNSPLIT

    def _compiled_one(self, value: Value) -> str:
        if isinstance(value, Literal):
            if isinstance(value.node, cst.SimpleString):
                return MEAN if api.is_split_loss(str(value.node.evaluated_value)) else UNSPLIT
            is_display = isinstance(value.node, (cst.List, cst.Tuple, cst.Dict))
            return self.compiled_kind(value.node) if is_display else UNSPLIT
        if isinstance(value, Object) and self.resolver.derives_from(value.of, api.is_loss_class):
            method = self.resolver.method(value.of, "call")
            inner = alternatives([self.kind(r) for r in self.resolver.returned(method)]) if method else SAMPLES
            return as_reduced(inner, self._reduction_of(value))
        if isinstance(value, Function):
            node = value.node
            returned = [node.body] if isinstance(node, cst.Lambda) else self.resolver.returned(node)
            return as_reduced(alternatives([self.kind(r) for r in returned]), "mean") if returned else UNSPLIT
        if isinstance(value, External):
            if value.path == "builtins.None":
                return FREE
            return MEAN if api.is_loss_function(value.path) and api.is_split_loss(value.path) else UNSPLIT
        path = calls(value)
        if api.is_loss_class(path) and isinstance(value, Result):
            kind = loss_object(path, value.call)
            return kind if kind in (MEAN, SUM) else UNSPLIT
        return MEAN if path == "keras.losses.get" else UNSPLIT

    def _method(self, name: str, call: cst.Call, owner: Value | None = None) -> str:
        if name in _MODEL_LOSSES:
            return self._compiled_total(owner) if owner is not None else DATA
        if name in _SCALING and call.args:
            return self.kind(call.args[0].value)
        if name in _TENSOR_METHODS and isinstance(call.func, cst.Attribute):
            kind = self.kind(call.func.value)
            return kind if kind in (UNSPLIT, PENALTY) else DATA
        if any(self.kind(a.value) == UNSPLIT for a in call.args):
            return UNSPLIT
        return DATA

    def _operation(self, node: cst.BinaryOperation) -> str:
        left, right = self.kind(node.left), self.kind(node.right)
        if isinstance(node.operator, (cst.Add, cst.Subtract)):
            return sum_of([left, right])
        if isinstance(node.operator, cst.Multiply):
            for kind, other, factor in ((left, right, node.right), (right, left, node.left)):
                if kind in (MEAN, SUM, MIXED) and other == DATA and not self._is_number(factor):
                    return UNSPLIT  # each sample times what all of them give
            return product(left, right)
        if isinstance(node.operator, (cst.Divide, cst.FloorDivide)):
            if left == PENALTY and self._ranks.depends_on_size(node.right):
                return SHARED
            return quotient(left, self._divisor(node.right))
        if isinstance(node.operator, cst.MatrixMultiply):
            return self._functions.matrix_product([left, right])
        if {left, right} & {MEAN, SUM, MIXED, UNSPLIT}:
            return UNSPLIT
        if {left, right} <= {FREE, PENALTY}:
            return PENALTY if PENALTY in (left, right) else FREE
        return SAMPLES if SAMPLES in (left, right) else DATA


def as_reduced(inner: str, reduction: str) -> str:
    """What a loss whose `call` gives `inner` is, once its reduction is done: "mean", "sum", "none", or "" if unseen."""
    if inner in (SAMPLES, DATA):
        return {"mean": MEAN, "sum": SUM, "none": inner}.get(reduction, UNSPLIT)
    if inner == MIXED:
        return MEAN if reduction == "mean" else UNSPLIT
    return inner if reduction else UNSPLIT


def _reduction_named(given: cst.Arg | None) -> str:
    if given is None:
        return "mean"
    node = given.value
    name = node.attr.value if isinstance(node, cst.Attribute) else ""
    if isinstance(node, cst.SimpleString):
        name = str(node.evaluated_value)
    known = {"none": "none", "sum": "sum", "auto": "mean", "sum_over_batch_size": "mean", "mean": "mean"}
    return known.get(name.lower(), "")


def _is_replica_count(value: Value) -> bool:
    """One, of a strategy on one device."""
    return isinstance(value, Member) and value.name == "num_replicas_in_sync" and is_strategy(value.owner)
