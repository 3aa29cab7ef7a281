"""Which functions work on a batch row by row, so that a worker's rows may be cut before them as well as behind.

Closed world: what no table names and no source shows may look at other rows. Nothing is lost by that but time, since
every worker then prepares whole batches. `PER_ROW` and `ELEMENTWISE` are proven op by op in tests/soundness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Optional, cast

import libcst as cst
import libcst.matchers as m

from migrator.facts.data.pipelines import Step
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Result
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import Binding, Tree

# The same for each number, whatever stands beside it.
ELEMENTWISE = frozenset({
    *(f"tensorflow.{name}" for name in (
        "cast", "identity", "abs", "exp", "sqrt", "square", "sign", "round", "tanh", "sigmoid", "negative",
        "zeros_like", "ones_like", "clip_by_value", "saturate_cast", "stop_gradient",
    )),
    *(f"tensorflow.math.{name}" for name in (
        "abs", "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "square", "sign", "round", "floor", "ceil", "tanh",
        "sigmoid", "negative", "sin", "cos", "reciprocal", "is_nan", "logical_not",
    )),
    "tensorflow.nn.relu", "tensorflow.image.convert_image_dtype",
    *(f"tensorflow.strings.{name}" for name in (
        "lower", "upper", "strip", "length", "regex_replace", "to_number", "to_hash_bucket_fast", "as_string",
    )),
})  # fmt: skip
# A picture, or a text, at a time.
PER_ROW = frozenset({
    *(f"tensorflow.image.{name}" for name in (
        "resize", "resize_with_pad", "resize_with_crop_or_pad", "central_crop", "crop_to_bounding_box",
        "pad_to_bounding_box", "flip_left_right", "flip_up_down", "transpose", "rot90", "rgb_to_grayscale",
        "grayscale_to_rgb", "per_image_standardization", "adjust_brightness", "adjust_contrast", "adjust_hue",
        "adjust_saturation", "adjust_gamma", "rgb_to_hsv", "hsv_to_rgb", "rgb_to_yuv", "yuv_to_rgb",
    )),
    "tensorflow.strings.split", "tensorflow.strings.substr", "tensorflow.one_hot", "tensorflow.io.decode_raw",
})  # fmt: skip
# These draw for each picture of a batch by itself.
DRAWN_PER_ROW = frozenset({"tensorflow.image.random_flip_left_right", "tensorflow.image.random_flip_up_down"})
# Layers that keep nothing of one row for the next; those that draw do so for each row.
LAYERS = frozenset(
    f"keras.layers.{module}{name}"
    for module in ("", "experimental.preprocessing.")
    for name in (
        "Rescaling", "Resizing", "CenterCrop", "Normalization", "Discretization", "Hashing", "StringLookup",
        "IntegerLookup", "TextVectorization", "RandomFlip", "RandomRotation", "RandomZoom", "RandomTranslation",
    )
)  # fmt: skip
# With an axis that is named and is not the first.
ALONG_AXIS = frozenset({
    *(f"tensorflow.{name}" for name in (
        "reduce_mean", "reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_any", "reduce_all", "argmax",
        "argmin", "expand_dims", "squeeze", "concat", "stack", "reverse", "cumsum", "sort", "argsort",
    )),
    *(f"tensorflow.math.{name}" for name in (
        "reduce_mean", "reduce_sum", "reduce_max", "reduce_min", "reduce_std", "reduce_variance", "argmax", "argmin",
        "cumsum",
    )),
    "tensorflow.nn.softmax",
})  # fmt: skip
_ADDING = frozenset({"tensorflow.expand_dims", "tensorflow.stack"})
_RANDOM = (
    "tensorflow.random.", "tensorflow.image.random_", "tensorflow.image.stateless_random_", "keras.random.",
    "keras.layers.Random", "numpy.random.", "random.",
)  # fmt: skip
_DRAWN_FROM_A_SEED = ("tensorflow.random.stateless_", "tensorflow.image.stateless_random_")
_REORDERING = frozenset({
    *(f"tensorflow.{name}" for name in (
        "gather", "gather_nd", "argsort", "sort", "boolean_mask", "roll", "reverse", "random.shuffle", "math.top_k",
        "random.experimental.index_shuffle", "scatter_nd", "tensor_scatter_nd_update",
    )),
    "numpy.random.permutation", "numpy.random.shuffle", "random.shuffle",
})  # fmt: skip
_PLAIN = ("tensorflow.", "numpy.", "math.", "builtins.")
_DEEPEST = 40


class _Kind(Enum):
    ROWS = "rows"  # the batch's, one after the other along the first axis
    FREE = "free"  # nothing of the batch


_Known = Optional[_Kind]  # None: rows may have met
_Given = Mapping[cst.Param, _Known]


class Rowwise:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver

    def is_of(self, step: Step) -> bool:
        """Whether the `map` gives each row what it is by itself."""
        given = argument(step.call, "map_func", 0)
        functions = self.resolver.values(given.value) if step.method == "map" and given is not None else ()
        return bool(functions) and all(self._keeps_rows(f) for f in functions)

    def _keeps_rows(self, function: object) -> bool:
        if isinstance(function, Function):
            params = _parameters(function.node)
            if function.owner is not None and params:
                return self._returns(function.node, {params[0]: _Kind.FREE, **dict.fromkeys(params[1:], _Kind.ROWS)}, 0)
            return self._returns(function.node, dict.fromkeys(params, _Kind.ROWS), 0)
        if isinstance(function, External):
            return function.path in ELEMENTWISE | PER_ROW | DRAWN_PER_ROW
        return _is_layer(function)

    def reorders_by_chance(self, step: Step) -> cst.Call | None:
        """A random draw, from a generator that keeps a state, where the `map` also puts rows into another order."""
        given = argument(step.call, "map_func", 0)
        functions = self.resolver.values(given.value) if given is not None else ()
        bodies: list[cst.CSTNode] = [f.node for f in functions if isinstance(f, Function)]
        draw, reorders = None, False
        for body in bodies:
            for call in (call for call in self.tree.calls if self.tree.contains(body, call)):
                callees = self.resolver.values(call.func)
                bodies += [f.node for f in callees if isinstance(f, Function) and f.node not in bodies]
                paths = [f.path for f in callees if isinstance(f, External)]
                if any(p.startswith(_RANDOM) and not p.startswith(_DRAWN_FROM_A_SEED) for p in paths):
                    draw = draw or call
                reorders = reorders or any(p in _REORDERING for p in paths)
        return draw if reorders else None

    # -- functions -----------------------------------------------------------------------------------------------

    def _returns(self, node: cst.FunctionDef | cst.Lambda, given: _Given, depth: int) -> bool:
        return self._returned(node, given, depth) is _Kind.ROWS

    def _returned(self, node: cst.FunctionDef | cst.Lambda, given: _Given, depth: int) -> _Known:
        if depth > _DEEPEST or len(given) < len(_parameters(node)):
            return None
        if isinstance(node, cst.Lambda):
            return self._of(node.body, given, depth + 1)
        stored = [v for target, v in self.tree.item_assignments if self.tree.contains(node, target)]
        if any(self._of(v, given, depth + 1) is not _Kind.ROWS for v in stored):
            return None
        tests = (b.test for b in cast("Sequence[cst.If | cst.While]", m.findall(node.body, m.If() | m.While())))
        if any(self._of(test, given, depth + 1) is not _Kind.FREE for test in tests):
            return None
        returned = self.resolver.returned(node)
        return _together([self._of(r, given, depth + 1) for r in returned]) if returned else None

    # -- expressions ---------------------------------------------------------------------------------------------

    def _of(self, node: cst.CSTNode, given: _Given, depth: int) -> _Known:
        if depth > _DEEPEST:
            return None
        if isinstance(node, (cst.BaseNumber, cst.BaseString, cst.Ellipsis)):
            return _Kind.FREE
        if isinstance(node, cst.Name):
            return self._of_name(node, given, depth)
        if isinstance(node, (cst.Tuple, cst.List)):
            return _together([self._of(e.value, given, depth + 1) for e in node.elements])
        if isinstance(node, cst.Dict):
            return _together([self._of(e.value, given, depth + 1) for e in node.elements])
        if isinstance(node, cst.DictComp):
            return self._of(node.value, given, depth + 1)
        if isinstance(node, cst.IfExp):
            free = self._of(node.test, given, depth + 1) is _Kind.FREE
            return _together([self._of(n, given, depth + 1) for n in (node.body, node.orelse)]) if free else None
        if isinstance(node, cst.UnaryOperation):
            return self._of(node.expression, given, depth + 1)
        if isinstance(node, (cst.BinaryOperation, cst.Comparison)):
            return self._of_operation(node, given, depth)
        if isinstance(node, cst.Subscript):
            return self._of_item(node, given, depth)
        if isinstance(node, cst.Call):
            return self._of_call(node, given, depth)
        if isinstance(node, cst.Attribute):
            return _Kind.FREE if self._of(node.value, given, depth + 1) is _Kind.FREE else None
        return None

    def _of_name(self, node: cst.Name, given: _Given, depth: int) -> _Known:
        bindings = self.resolver.reaching(node)
        if not bindings:
            return _Kind.FREE if self.tree.scope_of(node).lookup(node.value) is None else None
        return _together([self._of_binding(b, given, depth) for b in bindings])

    def _of_binding(self, binding: Binding, given: _Given, depth: int) -> _Known:
        if isinstance(binding.node, cst.Param):
            known = next((p for p in given if p is binding.node), None)
            return given[known] if known is not None else self._from_outside(binding.node, given)
        if self._from_outside(binding.node, given) is _Kind.FREE:
            return _Kind.FREE
        if binding.kind in ("assign", "for") and binding.value is not None:
            value: cst.CSTNode = binding.value
            for index in binding.path:
                if not isinstance(value, (cst.Tuple, cst.List)) or not 0 <= index < len(value.elements):
                    break
                value = value.elements[index].value
            if binding.kind == "for":
                return self._of_loop(value, binding, given, depth)
            return self._of(value, given, depth + 1)
        if binding.kind == "augmented" and isinstance(binding.node, cst.AugAssign):
            parts = [self._of(p, given, depth + 1) for p in (binding.node.target, binding.node.value)]
            return _Kind.ROWS if parts == [_Kind.ROWS, _Kind.FREE] else None
        return None

    def _of_loop(self, value: cst.CSTNode, binding: Binding, given: _Given, depth: int) -> _Known:
        """`for name, column in batch.items()`"""
        func = value.func if isinstance(value, cst.Call) else None
        if not isinstance(func, cst.Attribute) or self._of(func.value, given, depth + 1) is not _Kind.ROWS:
            return None
        if func.attr.value == "items" and binding.path in ((0,), (1,)):
            return _Kind.FREE if binding.path == (0,) else _Kind.ROWS
        return _Kind.ROWS if func.attr.value == "values" and not binding.path else None

    def _from_outside(self, node: cst.CSTNode, given: _Given) -> _Known:
        """What stands outside of the functions that the batch is given to has nothing of it."""
        owners = {
            next(o for o in self.tree.ancestors(p) if isinstance(o, (cst.FunctionDef, cst.Lambda))) for p in given
        }
        return None if any(self.tree.contains(owner, node) for owner in owners) else _Kind.FREE

    def _of_operation(self, node: cst.BinaryOperation | cst.Comparison, given: _Given, depth: int) -> _Known:
        sides = [node.left, *([node.right] if isinstance(node, cst.BinaryOperation) else [])]
        sides += [t.comparator for t in node.comparisons] if isinstance(node, cst.Comparison) else []
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.MatrixMultiply):
            return None
        return self._of_numbers([(side, self._of(side, given, depth + 1)) for side in sides])

    @staticmethod
    def _of_numbers(parts: Sequence[tuple[cst.CSTNode, _Known]]) -> _Known:
        """What is worked out of these number by number. Two tensors of the batch may be broadcast against each other,
        each row to all: only of one and the same is it known that they are not."""
        if any(known is None for _, known in parts):
            return None
        rows = [node for node, known in parts if known is _Kind.ROWS]
        if not rows:
            return _Kind.FREE
        same = all(isinstance(r, cst.Name) and r.deep_equals(rows[0]) for r in rows)
        return _Kind.ROWS if len(rows) == 1 or same else None

    def _of_item(self, node: cst.Subscript, given: _Given, depth: int) -> _Known:
        base = self._of(node.value, given, depth + 1)
        if base is not _Kind.ROWS:
            return base
        indices = [part.slice for part in node.slice]
        first = indices[0]
        if isinstance(first, cst.Index):
            if isinstance(first.value, cst.SimpleString):
                return _Kind.ROWS  # a column of a dictionary
            adds = all(isinstance(i, cst.Index) and self._is_new_axis(i.value) for i in indices[1:])
            return _Kind.ROWS if isinstance(first.value, cst.Ellipsis) and len(indices) > 1 and adds else None
        whole = isinstance(first, cst.Slice) and (first.lower, first.upper, first.step) == (None, None, None)
        free = all(self._is_free_index(i, given, depth) for i in indices[1:])
        return _Kind.ROWS if whole and free else None

    def _is_new_axis(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Name) and node.value == "None":
            return True
        return any(v in (External("tensorflow.newaxis"), External("numpy.newaxis")) for v in self.resolver.values(node))

    def _is_free_index(self, index: cst.BaseSlice, given: _Given, depth: int) -> bool:
        if isinstance(index, cst.Index):
            return self._of(index.value, given, depth + 1) is _Kind.FREE
        parts = [p for p in (getattr(index, n) for n in ("lower", "upper", "step")) if p is not None]
        return all(self._of(p, given, depth + 1) is _Kind.FREE for p in parts)

    # -- calls ---------------------------------------------------------------------------------------------------

    def _of_call(self, call: cst.Call, given: _Given, depth: int) -> _Known:
        if any(arg.star for arg in call.args):
            return None
        parts = [(arg.value, self._of(arg.value, given, depth + 1)) for arg in call.args]
        if isinstance(call.func, cst.Attribute) and self._of(call.func.value, given, depth + 1) is _Kind.ROWS:
            return _Kind.ROWS if call.func.attr.value in ("pop", "get") and len(parts) == 1 else None
        functions = self.resolver.values(call.func)
        return _together([self._of_function(f, call, parts, given, depth) for f in functions]) if functions else None

    def _of_function(
        self, function: object, call: cst.Call, parts: Sequence[tuple[cst.CSTNode, _Known]], given: _Given, depth: int
    ) -> _Known:
        known = [kind for _, kind in parts]
        if isinstance(function, Function):
            own = self._passed(function, call, known)
            return self._returned(function.node, {**given, **own}, depth + 1) if own is not None else None
        first_alone = known[:1] == [_Kind.ROWS] and all(k is _Kind.FREE for k in known[1:])
        if _is_layer(function):
            return _Kind.ROWS if first_alone else None
        if not isinstance(function, External):
            return None
        path = function.path
        if all(k is _Kind.FREE for k in known):
            return _Kind.FREE if path.startswith(_PLAIN) and not path.startswith(_RANDOM) else None
        if path in ALONG_AXIS:
            return _Kind.ROWS if first_alone and self._spares_rows(call, path) else None
        if path == "tensorflow.one_hot" and argument(call, "axis", 4) is not None:
            return None
        if path == "builtins.dict" and known == [_Kind.ROWS]:
            return _Kind.ROWS
        return _Kind.ROWS if first_alone and path in ELEMENTWISE | PER_ROW | DRAWN_PER_ROW else None

    def _spares_rows(self, call: cst.Call, path: str) -> bool:
        """Whether the axis is named and is not the first; one that is counted from the end may be."""
        axis = argument(call, "axis", 1) or (argument(call, "axes") if path == "tensorflow.argmax" else None)
        if axis is None:
            return False
        several = axis.value.elements if isinstance(axis.value, (cst.Tuple, cst.List)) else None
        nodes = [e.value for e in several] if several is not None else [axis.value]
        if path in _ADDING and self.tree.modules[0].code_for_node(axis.value) == "-1":
            return True
        return bool(nodes) and all(isinstance(n, cst.Integer) and n.evaluated_value > 0 for n in nodes)

    def _passed(self, function: Function, call: cst.Call, known: list[_Known]) -> dict[cst.Param, _Known] | None:
        params = _parameters(function.node)
        found: dict[cst.Param, _Known] = {}
        if function.owner is not None and params:
            found[params.pop(0)] = _Kind.FREE
        names = {p.name.value: p for p in params}
        for index, (arg, kind) in enumerate(zip(call.args, known)):
            param = (
                names.get(arg.keyword.value) if arg.keyword is not None else next(iter(params[index : index + 1]), None)
            )
            if param is None:
                return None
            found[param] = kind
        for param in params:
            if param not in found and param.default is not None:
                found[param] = _Kind.FREE
        return found


def _parameters(node: cst.FunctionDef | cst.Lambda) -> list[cst.Param]:
    star = [p for p in (node.params.star_arg, node.params.star_kwarg) if isinstance(p, cst.Param)]
    return [*node.params.posonly_params, *node.params.params, *node.params.kwonly_params, *star]


def _is_layer(function: object) -> bool:
    return isinstance(function, Result) and isinstance(function.function, External) and function.function.path in LAYERS


def _together(kinds: list[_Known]) -> _Known:
    """Of a structure, or of one of several: rows where there are any, if nothing else is there than what is free."""
    if not kinds or None in kinds:
        return None
    return _Kind.ROWS if _Kind.ROWS in kinds else _Kind.FREE
