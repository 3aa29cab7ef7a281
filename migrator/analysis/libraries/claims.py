"""What a script says of how many rows there are: `tf.ensure_shape(x, [32, 8])`, the signature of a step.

A worker's part of a batch has another number of rows, and parts may be unequal. So the size is left open there: None is
right of any part, and of the whole batch. Where it is written in no place that says only this, all rows are put
together for it, or nothing is known any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import ops, row_counts
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments, Handler
from migrator.analysis.frames import Frame
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import ROWS, Shape, Sharded, options
from migrator.analysis.placing.operation import operation
from migrator.analysis.placing.repaired import gathered
from migrator.analysis.values import NUMBER, Container, Data, External, Function, Made, Repair, Value
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import semantic_children
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

TENSOR_SPEC = "tensorflow.TensorSpec"
SHAPE = "shape"
_ENSURE = "tensorflow.ensure_shape"
_TENSOR_SHAPE = External("tensorflow.TensorShape")
_WHY = "it says how many rows a batch has, and each worker has only its part of it"
_ADVICE = "write None for that number"


def _ensured(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    value = args.get("x", 0)
    if value is None:
        return NUMBER
    if _leaves_open(run, value, args.get("shape", 1), args.node("shape", 1)):
        return v.with_needs(_with_axes(run, value, args.get("shape", 1)), _needs_of(run, args.get("shape", 1)))
    if _is_of_other_rows(run, value, args.get("shape", 1)):
        _lose(run, node, args.node("shape", 1))
    return gathered(run, operation(run, ops.lookup(_ENSURE), _ENSURE, args, node, None), _WHY)


def _with_axes(run: Run, value: Value, shape: Value | None) -> Value:
    """The value with as many axes as the shape has, where these are not seen of it."""
    sizes = run.objects.sequence_items(shape) if shape is not None else None
    data = value.data
    if sizes is None or data is None or value.objects or data.rank is not None:
        return value
    width = sizes[-1].constant if len(sizes) > 1 else None
    return Value(replace(data, rank=len(sizes), width=width if isinstance(width, int) else data.width, nested=False))


def _asserted(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`tf.debugging.assert_shapes([(x, (32, 8)), …])`"""
    given, written = args.get("shapes", 0), args.node("shapes", 0)
    pairs = list(_pairs(written)) if written is not None else []
    held = [(run.seen.get(array, v.NOTHING), run.seen.get(shape), shape) for array, shape in pairs]
    if not all(_leaves_open(run, *each) for each in held) or (not pairs and given is not None and _axes(run, given)):
        _lose(run, node)
    return NUMBER


FUNCTIONS: dict[str, Handler] = {_ENSURE: _ensured, "tensorflow.debugging.assert_shapes": _asserted}
# Methods of tensors, and of their shapes, that are given a shape.
_METHODS = {"set_shape": "shape", "assert_is_compatible_with": "other"}


def method(run: Run, data: Data, name: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> bool:
    """Whether the method of a tensor, or of its shape, only says what that is; a size in it is left open. What holds
    the tensor is right from then on if the shape is."""
    if name not in _METHODS:
        return False
    keyword, value = _METHODS[name], Value(data)
    if _is_of_other_rows(run, value, args.get(keyword, 0)):
        _lose(run, node, args.node(keyword, 0))
        return True
    if (name == "set_shape") == isinstance(data.placement, Shape):
        return False
    if not _leaves_open(run, value, args.get(keyword, 0), args.node(keyword, 0)):
        _lose(run, node)
    needs = _needs_of(run, args.get(keyword, 0))
    held = node.func.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) else None
    if needs and isinstance(held, cst.Name):
        run.bindings.change(held.value, v.with_needs(run.bindings.load(held.value, frame), needs), frame)
    elif not needs <= data.needs:
        _lose(run, node)
    return True


def meet_sizes(run: Run, args: Arguments, node: cst.CSTNode) -> None:
    """Notes where it is made sure of that the sizes of a worker's part are others than those of another value."""
    given = [value for value in args.positional[:2] if value.constant is NOT_CONSTANT]
    are_sizes = [value.data is not None and isinstance(value.data.placement, Shape) for value in given]
    if len(given) == 2 and any(are_sizes) and row_counts.compared(*given) is None:
        _lose(run, node)


def meet_signature(run: Run, function: Function, args: Arguments, node: cst.CSTNode, *, is_method: bool) -> Arguments:
    """The arguments as a function gets them that says of which shape they are: all rows, where it cannot be left open
    how many these are."""
    for signature in run.signatures.get(function.node, ()):
        said = _said_of(run, function, signature, args, is_method=is_method)
        before, run.left_open = run.left_open, set()
        fits, opened = all(_fits(run, spec, value) for spec, value in said), run.left_open
        run.left_open = before
        if not fits:
            return run.placing.gathering.arguments(args, node)
        run.left_open |= opened
        if opened:
            run.of_open_size.add(function.node)
        args = _with_axes_of(run, function, signature, args, is_method=is_method)
    return args


def _with_axes_of(run: Run, function: Function, signature: Value, args: Arguments, *, is_method: bool) -> Arguments:
    """The arguments with as many axes as the specifications of the signature have."""
    specs = run.objects.sequence_items(signature) or []
    shapes = [run.heap.load(s.only, SHAPE) if _is_of_tensor(s) and s.only is not None else None for s in specs]
    positional = list(args.positional)
    for i, shape in enumerate(shapes[: len(positional) - is_method], start=int(is_method)):
        positional[i] = _with_axes(run, positional[i], shape)
    named = dict(zip(_parameters(function, is_method=is_method), shapes))
    keywords = {name: _with_axes(run, value, named.get(name)) for name, value in args.keywords.items()}
    return replace(args, positional=positional, keywords=keywords)


def _is_of_tensor(spec: Value) -> bool:
    return isinstance(spec.only, Made) and spec.only.path == TENSOR_SPEC


def _parameters(function: Function, *, is_method: bool) -> list[str]:
    return [p.name.value for p in (*function.node.params.posonly_params, *function.node.params.params)][is_method:]


def _said_of(
    run: Run, function: Function, signature: Value, args: Arguments, *, is_method: bool
) -> Iterator[tuple[Value, Value]]:
    """The arguments, each with what the signature says of it; nothing is said of the object of a method."""
    params = _parameters(function, is_method=is_method)
    given = list(enumerate(args.positional[is_method:]))
    given += [(params.index(name), value) for name, value in args.keywords.items() if name in params]
    specs = run.objects.sequence_items(signature)
    if specs is None:
        each = run.objects.parts(signature) if signature.data is None else signature
        yield from ((each, value) for value in (*(value for _, value in given), args.rest))
        return
    yield from ((specs[i], value) for i, value in given if i < len(specs))
    if args.rest is not v.NOTHING:
        yield from ((spec, args.rest) for spec in specs)


def _fits(run: Run, spec: Value, value: Value) -> bool:
    """Whether the specification of a tensor, or of several, leaves open how many rows a worker has."""
    if not _axes(run, value) or _is_of_a_dataset(spec):
        return True
    only = spec.only
    if isinstance(only, Made) and only.path == TENSOR_SPEC:
        call = only.site.node
        shape = argument(call, "shape", 0) if isinstance(call, cst.Call) else None
        return _leaves_open(run, value, run.heap.load(only, SHAPE), shape.value if shape is not None else None)
    specs, items = run.objects.sequence_items(spec), run.objects.sequence_items(value)
    if specs is not None:
        each = [value] * len(specs) if items is None else items
        return len(each) == len(specs) and all(_fits(run, spec, item) for spec, item in zip(specs, each))
    if isinstance(only, Container) and only.kind == "dict":
        held = value.only
        is_seen = isinstance(held, Container) and run.heap.fields(held) == run.heap.fields(only)
        for key in run.heap.fields(only):
            part = run.heap.load(held, key) if is_seen and held is not None else value
            if not _fits(run, run.heap.load(only, key), part):
                return False
        return True
    return False


def _is_of_a_dataset(spec: Value) -> bool:
    """Whether it is no specification that the script makes: `dataset.element_spec`, of what the dataset is cut to."""
    return spec.data is not None and not spec.objects and spec.data.is_replicated and not spec.data.nested


def _axes(run: Run, value: Value) -> set[int]:
    """Along which axes a worker has its part of the rows."""
    places = (p for d in run.objects.leaves(value) for p in options(d.placement))
    return {p.axis for p in places if isinstance(p, (Sharded, Shape))}


def _needs_of(run: Run, shape: Value | None) -> frozenset[Repair]:
    return frozenset(r for d in run.objects.leaves(shape) for r in d.needs) if shape is not None else frozenset()


def _is_of_other_rows(run: Run, value: Value, shape: Value | None) -> bool:
    """Whether the shape is that of a worker's part, and the value no such part, but the same on all workers."""
    is_alike = any(d.is_replicated and d.constant is not None for d in run.objects.leaves(value))
    return shape is not None and is_alike and any(not d.is_replicated for d in run.objects.leaves(shape))


def _arrays_in(run: Run, shape: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What has the rows of which the shape is, where it is written, and names of such shapes. A number of rows that
    has a name is no size that a graph can be told once it is put together."""
    placement = next((d.placement for d in v.contents(run.seen.get(shape, v.NOTHING))), None)
    if isinstance(placement, Sharded) or (isinstance(placement, Shape) and isinstance(shape, cst.Name)):
        yield shape
    else:
        for child in semantic_children(shape):
            yield from _arrays_in(run, child)


def _leaves_open(run: Run, value: Value, shape: Value | None, written: cst.BaseExpression | None) -> bool:
    """Whether the shape says nothing of how many rows a worker has, or is going to leave it open."""
    axes = _axes(run, value)
    is_own = shape is not None and shape.data is not None and isinstance(shape.data.placement, Shape)
    if shape is None or shape.is_none or (axes and is_own):
        return True
    if not axes:
        return not _is_of_other_rows(run, value, shape)
    sizes, nodes = run.objects.sequence_items(shape), list(_sizes_in(run, written))
    for axis in axes:
        size = sizes[axis] if sizes is not None and axis < len(sizes) else None
        if size is None and axis < len(nodes):
            size = run.seen.get(nodes[axis])
        if size is None:
            return False
        if size.is_none or isinstance(size.constant, str) or (size.data is not None and size.data.placement == ROWS):
            continue  # any number, or one that has a name
        if axis >= len(nodes):
            return False
        run.left_open.add(nodes[axis])
    return True


def _sizes_in(run: Run, shape: cst.BaseExpression | None) -> Iterator[cst.BaseExpression]:
    """The first sizes of a shape where they are written: `[32, 8]`, `(32,) + rest`, `[None] * 2`."""
    while isinstance(shape, (cst.BinaryOperation, cst.Call)):
        if isinstance(shape, cst.BinaryOperation):
            shape = shape.left if isinstance(shape.operator, (cst.Add, cst.Multiply)) else None
        else:
            made = run.seen.get(shape.func)
            shape = shape.args[0].value if made is not None and made.only == _TENSOR_SHAPE and shape.args else None
    if isinstance(shape, (cst.List, cst.Tuple)) and shape in run.tree.order:
        for element in shape.elements:
            if isinstance(element, cst.StarredElement):
                return
            yield element.value


def _pairs(written: cst.BaseExpression) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """The tensors, and their shapes, of a list of pairs or a dictionary."""
    if isinstance(written, cst.Dict):
        yield from ((e.key, e.value) for e in written.elements if isinstance(e, cst.DictElement))
    elif isinstance(written, (cst.List, cst.Tuple)):
        for element in written.elements:
            if isinstance(element.value, (cst.List, cst.Tuple)) and len(element.value.elements) == 2:
                array, shape = element.value.elements
                yield array.value, shape.value


def _lose(run: Run, node: cst.CSTNode, shape: cst.BaseExpression | None = None) -> None:
    """Notes that what is said there is wrong of a worker's part, and cannot be left open; of a shape that is one of a
    part, beside all rows, those can be put together of which it is the shape."""
    blocked = run.placing.repairing.blocked
    run.changed[node] = Repair(node, frozenset(), _WHY, blocked or _ADVICE)
    arrays = list(_arrays_in(run, shape)) if shape is not None else []
    run.lost_at[node].update(arrays)
    if run.calls.stack and not blocked and not arrays:
        run.of_fixed_size.add(run.calls.stack[-1])
