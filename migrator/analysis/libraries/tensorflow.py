"""TensorFlow's tapes, variables, and the functions that call functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import in_place, row_counts, same_batch
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments, Handler
from migrator.analysis.frames import Frame
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import (
    REPLICATED,
    Local,
    Partial,
    Placement,
    Replicated,
    Scaled,
    Sharded,
    Unknown,
    options,
)
from migrator.analysis.values import (
    NOTHING,
    NUMBER,
    Container,
    Data,
    Instance,
    Made,
    Method,
    Operand,
    Repair,
    Site,
    Tuple,
    Value,
)
from migrator.facts.names import api
from migrator.facts.program.syntax import argument
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run


TAPE = "tensorflow.GradientTape"
ACCUMULATOR = "tensorflow.autodiff.ForwardAccumulator"
VARIABLE = "tensorflow.Variable"
OF_METRIC, SET = "metric", "set"  # of a metric's variable: which, and that the program itself puts something into it
CHECKPOINT = "tensorflow.train.Checkpoint"
CUSTOM_GRADIENT = "tensorflow.custom_gradient"
WITH_GRADIENTS = frozenset({CUSTOM_GRADIENT, "keras.ops.custom_gradient"})
LATER = "python.tensorflow_function"  # what `tf.function(…)` gives that is given no function yet
STRATEGY = "tensorflow.distribute.Strategy"
_OTHERS = "what is done for each row looks at others"
_DEEPEST_STRUCTURE = 5
GRADIENT_METHODS = frozenset({"gradient", "get_gradients", "compute_gradients"})


def _function(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`tf.function(f)`, and `tf.function(jit_compile=…)` that is given it later."""
    function = args.get("func", 0)
    if function is None:
        return v.of(v.External(LATER))
    made = node.func if isinstance(node, cst.Call) and isinstance(node.func, cst.Call) else None  # `tf.function(…)(f)`
    run.note_traced(function, args.get("input_signature", 1) or signature_in(run, made))
    return function


def signature_in(run: Run, decorator: cst.BaseExpression | None) -> Value | None:
    """That of `@tf.function(input_signature=…)`"""
    given = argument(decorator, "input_signature") if isinstance(decorator, cst.Call) else None
    return run.seen.get(given.value) if given is not None else None


def _made(path: str) -> Handler:
    def handler(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        made = Made(path, Site(node, frame.context))
        return v.of(made)

    return handler


def _accumulator(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`tf.autodiff.ForwardAccumulator(primals, tangents)`, which has to be given the very tensors that are worked on
    inside of it."""
    made = Made(ACCUMULATOR, Site(node, frame.context))
    for name, place in (("primals", 0), ("tangents", 1)):
        run.heap.store(made, name, args.get(name, place) or v.unseen("what is differentiated here is not seen"))
    return v.of(made)


def _variable(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    made = Made(VARIABLE, Site(node, frame.context))
    value = args.get("initial_value", 0)
    content = NUMBER
    if value is not None and not any(isinstance(a, (v.Function, v.Bound)) for a in value):
        # A weight starts alike on all workers; what the script puts there later may not be.
        content = v.mapped(Value(value.data), lambda d: replace(d, constant=NOT_CONSTANT)) if value.data else NUMBER
    run.heap.store(made, "content", content)
    return v.of(made)


def _checkpoint(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`tf.train.Checkpoint(model=model)`, of which `checkpoint.model` is the model again."""
    made = Made(CHECKPOINT, Site(node, frame.context))
    for name, value in args.keywords.items():
        run.heap.store(made, name, value)
    return v.of(made)


def _cond(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    condition, yes, no = args.get("pred", 0), args.get("true_fn", 1), args.get("false_fn", 2)
    agreed = run.decide(args.node("pred", 0) or node, condition) if condition is not None else NUMBER
    return _one_of(run, [f for f in (yes, no) if f is not None], [agreed], node, frame)


def _one_of(run: Run, functions: Sequence[Value], agreed: Sequence[Value], node: cst.CSTNode, frame: Frame) -> Value:
    """What one of the functions gives, and does, which these have chosen."""
    with run.decided_by(agreed, frame):
        results = [run.calls.call(f, Arguments(), node, frame) for f in functions]
    return run.chosen(v.join_all(results), agreed)


def _case(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`tf.case([(condition, f), …], default=g)`"""
    given, default = args.get("pred_fn_pairs", 0), args.get("default", 1)
    pairs = [run.objects.sequence_items(pair) or [] for pair in run.objects.sequence_items(given or NOTHING) or []]
    nodes = _conditions(args.node("pred_fn_pairs", 0))
    if not pairs or len(pairs) != len(nodes) or any(len(pair) != 2 for pair in pairs):
        return v.unseen("what this chooses from is not seen")
    agreed = [run.decide(at, condition) for at, (condition, _) in zip(nodes, pairs)]
    functions = [function for _, function in pairs] + ([] if default is None else [default])
    return _one_of(run, functions, agreed, node, frame)


def _conditions(pairs: cst.BaseExpression | None) -> list[cst.BaseExpression]:
    """The conditions where they are written, of a list of pairs that is."""
    written = [e.value for e in pairs.elements] if isinstance(pairs, (cst.List, cst.Tuple)) else []
    return [pair.elements[0].value for pair in written if isinstance(pair, (cst.Tuple, cst.List)) and pair.elements]


def _switch(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`tf.switch_case(index, [f, g])`, of functions, or of pairs of a number and a function."""
    index, given, default = args.get("branch_index", 0), args.get("branch_fns", 1), args.get("default", 2)
    at = args.node("branch_index", 0)
    if index is None or given is None or at is None:
        return v.unseen("what this chooses from is not seen")
    agreed = run.decide(at, index)
    functions = [] if default is None else [default]
    for item in run.objects.sequence_items(given) or [run.objects.parts(given)]:
        pair = run.objects.sequence_items(item)
        functions.append(pair[-1] if pair else item)
    return _one_of(run, functions, [agreed], node, frame)


def _mapped(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`tf.map_fn(f, x)`: f of each row, if f makes nothing else of it. Where it looks at more than that, all rows have
    to be there, around the function that this stands in."""
    function, elements = args.get("fn", 0), args.get("elems", 1)
    if function is None or elements is None:
        return v.unseen("what is mapped here is not seen")
    one = v.mapped(elements, _one_row)
    with run.placing.repairing.ruled_out("it stands in a tf.map_fn"):
        result = run.calls.call(function, Arguments([one]), node, frame)
    data = list(run.objects.leaves(elements))
    leaf = data[0] if data else Data()
    mixed = any(d.placement != leaf.placement for d in data)
    placement: Placement = Unknown("its rows stand in different ways") if mixed else leaf.placement
    needs = frozenset(r for d in data for r in d.needs)
    if not leaf.is_replicated and any(map(_is_of_several_rows, run.objects.leaves(result))):
        with run.placing.repairing.ruled_out(_OTHERS):
            return run.placing.unknown(Arguments([elements]), node)

    def stacked(d: Data) -> Data:
        if not d.is_replicated:
            return Data(Unknown(_OTHERS), needs=needs | d.needs)
        whole = leaf.whole or d.whole
        needed = needs | d.needs
        return replace(
            d, placement=placement, whole=whole, constant=NOT_CONSTANT, rank=None, needs=needed, batch=leaf.batch
        )

    return run.note_work(node, v.mapped(result, stacked))


def _one_row(data: Data) -> Data:
    """A row by itself, of which a worker's part or all rows have some."""
    return replace(
        data, placement=REPLICATED, constant=NOT_CONSTANT, rank=None, whole=False, counts=(), needs=frozenset()
    )


def _is_of_several_rows(data: Data) -> bool:
    """Whether what is done for a row depends on other rows, too: it would have to put something together for that, or
    has all of them beside it."""
    return not data.is_replicated or data.whole or data.pairs or any(repair.blocked for repair in data.needs)


def _runs(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`tf.py_function(f, [x], …)`: what f gives, of all rows where it needs them, put together around its arguments."""
    function, given = args.get("func", 0), args.get("inp", 1)
    items = run.objects.sequence_items(given) if given is not None else []
    if function is None or items is None:
        return v.unseen("what this function is given is not seen")
    taken = Arguments(list(items), nodes=_items_at(args.node("inp", 1), len(items)))
    apart = any(not d.is_replicated for item in items for d in run.objects.leaves(item))
    with run.placing.repairing.ruled_out("it stands in a tf.py_function"):
        result = run.calls.call(function, Arguments(list(items)), node, frame)
        if not apart or not _is_lost(run, result):
            return result
        of_all_rows = run.calls.call(function, run.placing.gathering.whole(taken), node, frame)
    if _is_lost(run, of_all_rows):
        return result  # by more than it is given
    put_together = list(run.objects.leaves(run.placing.unknown(taken, node)))
    return v.with_needs(of_all_rows, frozenset(r for d in put_together for r in d.needs))


def _is_lost(run: Run, value: Value) -> bool:
    leaves = run.objects.leaves(value)
    return any(isinstance(d.placement, Unknown) or any(repair.blocked for repair in d.needs) for d in leaves)


def _items_at(display: cst.BaseExpression | None, count: int) -> dict[int | str, cst.BaseExpression]:
    """Where the items of a list are written."""
    is_written = isinstance(display, (cst.List, cst.Tuple)) and len(display.elements) == count
    return {i: element.value for i, element in enumerate(display.elements)} if is_written else {}  # type: ignore[union-attr]


def _nested(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`tf.nest.map_structure(f, x)`, `keras.tree.map_structure(f, x)`"""
    if len(args.positional) < 2:
        return v.unseen("what is mapped here is not seen")
    if len(args.positional) == 2:
        return _each_in(run, args.positional[0], args.positional[1], node, frame, ())
    parts = [x if x.data is not None and not x.objects else run.objects.parts(x) for x in args.positional[1:]]
    return run.calls.call(args.positional[0], Arguments(parts), node, frame)


def _each_in(
    run: Run,
    function: Value,
    structure: Value,
    node: cst.CSTNode,
    frame: Frame,
    path: tuple[int, ...],
) -> Value:
    """What the function makes of each leaf, in a structure of the same form; `path`: the way to it from the whole."""
    atom = structure.only if len(path) < _DEEPEST_STRUCTURE else None
    if isinstance(atom, Tuple) and structure.data is None:
        items = [_each_in(run, function, x, node, frame, (*path, i)) for i, x in enumerate(atom.items)]
        return v.of(Tuple(tuple(items)))
    keys = _names_in(run, atom) if structure.data is None and atom is not None else []
    if keys and isinstance(atom, (Container, Instance)):
        site = Site(node, (*frame.context, id(atom.site.node), *path))
        made = replace(atom, site=site)
        for i, key in enumerate(keys):
            run.heap.store(made, key, _each_in(run, function, run.heap.load(atom, key), node, frame, (*path, i)))
        return v.of(made)
    part = structure if structure.data is not None and not structure.objects else run.objects.parts(structure)
    result = run.calls.call(function, Arguments([part]), node, frame)
    is_nested = part.data is not None and part.data.nested
    return v.mapped(result, lambda d: replace(d, nested=True)) if is_nested else result


def _names_in(run: Run, atom: v.Atom) -> list[str]:
    """The names under which a dictionary or a named tuple holds all that it holds."""
    if isinstance(atom, Instance):
        return run.classes.fields(atom.cls) if run.classes.is_named_tuple(atom.cls) else []
    keys = run.heap.fields(atom) if isinstance(atom, Container) and atom.kind in ("dict", "record") else []
    return [key for key in keys if isinstance(key, str)] if all(isinstance(key, str) for key in keys) else []


def _custom_gradient(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """A function that gives a value and a function of the gradient of that. A method is taken for its value alone."""
    function = args.positional[0] if args.positional else NUMBER
    if any(isinstance(a, v.Function) and a.frame.owner is None for a in function):
        made = Made(CUSTOM_GRADIENT, Site(node, frame.context))
        run.heap.store(made, "function", function)
        return v.of(made)
    return function


def call_custom_gradient(run: Run, atom: Made, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """The value of such a function: not seen where its gradient looks at more than each row by itself, or is not linear
    in the gradient that it is given, which on a worker has another scale, or is a part of that of the whole batch."""
    function = run.heap.load(atom, "function")
    run.with_gradients.update(a.node for a in function if isinstance(a, v.Function))
    given = run.calls.call(function, args, node, frame)
    items = run.objects.sequence_items(given)
    if items is None or len(items) != 2 or not items[1].objects:
        return v.unseen("this function with a gradient of its own gives no pair of a value and a function")
    leaves = list(run.objects.leaves(items[0]))
    if all(d.is_replicated for d in leaves) and any(d.whole or d.needs for d in leaves):
        return items[0]  # made of all rows on every worker, as its gradient is then
    leaves = [d for d in leaves if not d.is_replicated]
    if not all(isinstance(d.placement, Sharded) for d in leaves):
        return v.unseen("this function with a gradient of its own gives no value for each row")
    above: Placement = Scaled(leaves[0].placement, -1) if leaves else Partial("mean")
    upstream = Value(Data(above, rank=leaves[0].rank if leaves else None))
    with run.placing.repairing.ruled_out("it stands in a gradient"):
        back = list(run.objects.leaves(run.calls.call(items[1], Arguments([upstream]), node, frame)))
    if back and all((d.placement == above or d.is_zero) and not d.needs for d in back):
        return items[0]
    return v.unseen("the gradient that this function defines is not seen to be linear, and of each row by itself")


def _in_graph(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`tf.gradients(ys, xs)`, a list even of one"""
    loss, sources = args.get("ys", 0), args.get("xs", 1)
    if loss is None or sources is None:
        return v.unseen("what is differentiated here is not seen")
    is_one = run.objects.sequence_items(sources) is None and sources.data is not None and not sources.data.nested
    sources = v.of(Tuple((sources,))) if is_one else sources
    return _differentiated(run, loss, sources, args.get("grad_ys", 2), node)


def _set(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`tf.compat.v1.assign(variable, value)`, `keras.backend.update(variable, value)`"""
    return _set_by(run, args, node, adds=False)


def _add(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`tf.compat.v1.assign_add(variable, value)`, `keras.backend.update_add(variable, value)`"""
    return _set_by(run, args, node, adds=True)


def _set_by(run: Run, args: Arguments, node: cst.CSTNode, *, adds: bool) -> Value:
    if not args.positional:
        return run.placing.unknown(args, node)
    nodes: dict[int | str, cst.BaseExpression] = {
        k - 1 if isinstance(k, int) else k: node for k, node in args.nodes.items() if k != 0
    }
    given = Arguments(args.positional[1:], args.keywords, args.rest, nodes)
    for atom in args.positional[0]:
        if isinstance(atom, Made) and atom.path == VARIABLE:
            _put(run, atom, given, node, adds=adds)
    return args.positional[0]


def may_set(run: Run, args: Arguments, result: Value) -> None:
    """A function that nobody knows may put into the variables that it is given what it makes of the rest."""
    data = result.data
    if data is None or (data.is_replicated and not data.needs):
        return
    owners = [atom.owner if isinstance(atom, Method) else v.of(atom) for _, value in args.all() for atom in value]
    for owner in owners:
        for atom in owner:
            if isinstance(atom, Made) and atom.path == VARIABLE:
                run.heap.store(atom, "content", Value(replace(data, constant=NOT_CONSTANT, whole=False)))


def _split(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`tf.split(value, sizes)`: by the sizes of the batches that a concat has put together it gives these back."""
    value, axis = args.get("value", 0) or NOTHING, args.get("axis", 2)
    sizes = run.objects.sequence_items(args.get("num_or_size_splits", 1) or NOTHING)
    if sizes is not None and value.data is not None and not value.objects and (axis is None or axis.constant == 0):
        parts = row_counts.taken_apart(value.data, sizes)
        if parts is not None:
            return v.of(Tuple(tuple(map(Value, parts))))
    return run.libraries.unread("tensorflow.split", args, node, frame)


_ADDING = frozenset({"assign_add", "assign_sub"})
_SETTING = {
    **{f"tensorflow.{of}{name}": name in _ADDING for name in api.SETTING_VARIABLES for of in ("", "Variable.")},
    **{f"keras.backend.{name}": False for name in ("update", "moving_average_update", "set_value")},
    **{f"keras.backend.{name}": True for name in ("update_add", "update_sub")},
}
FUNCTIONS: dict[str, Handler] = {
    **{path: _add if adds else _set for path, adds in _SETTING.items()},
    "tensorflow.split": _split,
    "tensorflow.function": _function,
    LATER: _function,
    CHECKPOINT: _checkpoint,
    **dict.fromkeys(WITH_GRADIENTS, _custom_gradient),
    "tensorflow.recompute_grad": _function,
    "tensorflow.autograph.experimental.do_not_convert": _function,
    "tensorflow.autograph.to_graph": _function,
    "tensorflow.GradientTape": _made(TAPE),
    "tensorflow.gradients": _in_graph,
    "tensorflow.compat.v1.gradients": _in_graph,
    ACCUMULATOR: _accumulator,
    "tensorflow.distribute.OneDeviceStrategy": _made(STRATEGY),
    "tensorflow.distribute.get_strategy": _made(STRATEGY),
    "tensorflow.distribute.MirroredStrategy": _made(STRATEGY),
    "tensorflow.Variable": _variable,
    "keras.Variable": _variable,
    "keras.backend.variable": _variable,
    "tensorflow.cond": _cond,
    "keras.ops.cond": _cond,
    "tensorflow.case": _case,
    "tensorflow.switch_case": _switch,
    "tensorflow.map_fn": _mapped,
    "tensorflow.vectorized_map": _mapped,
    "tensorflow.py_function": _runs,
    "tensorflow.numpy_function": _runs,
    "tensorflow.nest.map_structure": _nested,
    "keras.tree.map_structure": _nested,
    "tensorflow.print": lambda run, args, node, frame: NUMBER,
}


def _strategy_method(run: Run, name: str, args: Arguments, node: cst.CSTNode) -> Value | None:
    """A strategy on one device gives back what it is given."""
    first = args.positional[0] if args.positional else NUMBER
    frame = run.frames[run.tree.module_of(node)]
    if name in api.RUNS_STEP:
        given = args.get("args", 1)
        items = run.objects.sequence_items(given) if given is not None else []
        handed = Arguments(list(items)) if items is not None else Arguments(rest=run.objects.parts(given or NUMBER))
        return run.calls.call(first, handed, node, frame)
    if name in api.DISTRIBUTES_FROM_FUNCTION:
        return run.calls.call(first, Arguments([NUMBER]), node, frame)
    if name in api.DISTRIBUTES_DATASET:
        return first
    if name in ("reduce", "gather"):
        return args.get("value", 1) or NUMBER
    return None


def method(run: Run, atom: Made, name: str, args: Arguments, node: cst.CSTNode) -> Value | None:
    """The methods of tapes and variables; None for others."""
    if atom.path == STRATEGY:
        return _strategy_method(run, name, args, node)
    if atom.path == TAPE:
        return _tape_method(run, name, args, node)
    if atom.path == ACCUMULATOR and name == "jvp":
        return _forward(run, atom, args)
    if atom.path != VARIABLE:
        return None
    content = run.heap.load(atom, "content")
    if name in api.SETTING_VARIABLES:
        if run.packages.inside:
            run.packages.met.note_kept(args)
        _put(run, atom, args, node, adds=name in _ADDING)
        return v.of(atom)
    if name in ("read_value", "value"):
        return v.mapped(content, lambda d: replace(d, table=True) if d.is_replicated else d)
    if name == "numpy":
        return content
    return None


def set_part(run: Run, name: str, args: Arguments, node: cst.CSTNode) -> Value | None:
    """`variable[i:j].assign(rows)`, which puts them into the variable itself; None for what is no part of one."""
    if name not in api.SETTING_VARIABLES or not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    part: cst.BaseExpression | None = node.func.value
    if isinstance(part, cst.Name):
        part = in_place.last_assigned(run, part)
    if not isinstance(part, cst.Subscript):
        return None
    owner = run.seen.get(part.value, NOTHING)
    variables = [atom for atom in owner if isinstance(atom, Made) and atom.path == VARIABLE]
    if not variables:
        return None
    content = _written(run, args, node, adds=name in _ADDING)
    # Where they are put tells what it holds, too.
    places = frozenset(r for d in run.objects.leaves(run.seen.get(part, NOTHING)) for r in d.needs)
    for atom in variables:
        held = v.with_needs(v.mapped(content, lambda d: replace(d, whole=False)), places)
        run.heap.store(atom, "content", held)
    return owner


def _put(run: Run, variable: Made, args: Arguments, node: cst.CSTNode, *, adds: bool) -> None:
    """Notes what the variable holds once it is given this; of one that a metric adds to, only that it is given what may
    be other than zero."""
    if run.heap.load(variable, OF_METRIC) is not NOTHING:
        if not all(d.is_zero for _, value in args.all() for d in run.objects.leaves(value)):
            run.heap.store(variable, SET, NUMBER)
    else:
        run.heap.store(variable, "content", _written(run, args, node, adds=adds))


def _written(run: Run, args: Arguments, node: cst.CSTNode, *, adds: bool = True) -> Value:
    """What a variable holds once it is given this: rows of a batch are all put there, by every worker."""
    leaves = [d for _, x in args.all() for d in run.objects.leaves(x)]
    if not leaves:
        return NUMBER
    is_batch = len(args.positional) + len(args.keywords) == 1  # and no table of which some rows change
    # What a layer keeps is read elsewhere, too, and saved; steps of `fit` weigh by their rows, which none does behind
    # them. What a loop adds up is put together where it is read.
    is_in_step = run.calls.is_in_layer or run.libraries.keras.training or run.libraries.keras.fitting
    parts = () if is_in_step or not adds else (Partial,)
    needs: frozenset[Repair] = frozenset(r for d in leaves for r in d.needs)
    is_apart = any(not isinstance(d.placement, (Replicated, Unknown, Local, *parts)) for d in leaves)
    if is_apart:
        needs |= {run.placing.repairing.put_together(args, node)}
    if run.calls.is_in_layer:
        run.kept_by_layers |= needs
    if is_apart:
        has_rows = any(not isinstance(d.placement, (Replicated, Partial)) for d in leaves)
        return Value(Data(REPLICATED, whole=is_batch and has_rows, needs=needs))
    found = NOTHING
    for data in leaves:
        found = v.join(found, Value(replace(data, constant=NOT_CONSTANT, whole=data.whole and is_batch)))
    return found


def _tape_method(run: Run, name: str, args: Arguments, node: cst.CSTNode) -> Value:
    if name in GRADIENT_METHODS:
        loss, sources = args.get("target", 0), args.get("sources", 1)
        if loss is None or sources is None:
            return v.unseen("what is differentiated here is not seen")
        return _differentiated(run, loss, sources, args.get("output_gradients", 2), node)
    if name in ("jacobian", "batch_jacobian"):
        data = [d for x in args.positional for d in run.objects.leaves(x)]
        if name == "batch_jacobian" and data:
            return Value(replace(data[0], rank=None))
        return _jacobian(run, args)
    return NUMBER


def _differentiated(run: Run, loss: Value, sources: Value, weights: Value | None, node: cst.CSTNode) -> Value:
    """The gradients that the call takes of the loss, each part of which weighs as much as that."""
    if weights is not None and any(d.constant is not None for d in run.objects.leaves(weights)):
        loss = _weighted(run, loss, weights)
    gradients = _gradients(run, loss, sources, node)
    run.differentiate(node, loss, gradients)
    return gradients


def _weighted(run: Run, loss: Value, weights: Value) -> Value:
    """What the tape sums up where it is told how each value weighs: their products."""
    losses, factors = run.objects.sequence_items(loss), run.objects.sequence_items(weights)
    if losses is not None and factors is not None and len(losses) == len(factors):
        return v.of(Tuple(tuple(_weighted(run, *pair) for pair in zip(losses, factors))))
    leaves, by = list(run.objects.leaves(loss)), list(run.objects.leaves(weights))
    is_plain = losses is None and factors is None and len(leaves) == len(by) == 1
    if is_plain and not (leaves[0].nested or leaves[0].whole or by[0].needs or by[0].whole):
        placed = run.placing.inferred("tensorflow.multiply", Value(leaves[0]), Value(by[0]))
        if len(placed) == 1 and not isinstance(placed[0], Unknown):
            return Value(replace(leaves[0], placement=placed[0]))
    return v.unseen("it is weighted by output_gradients")


def _forward(run: Run, accumulator: Made, args: Arguments) -> Value:
    """The derivative along the tangents, which stands as what is differentiated does: rows, each made of the same row
    of the batch and of weights, and their means and sums."""
    target = args.get("primals", 0)
    given = [run.heap.load(accumulator, name) for name in ("primals", "tangents")]
    along = {(d.placement, bool(d.needs)) for value in given for d in run.objects.leaves(value)}
    leaves = list(run.objects.leaves(target)) if target is not None else []
    linear = (REPLICATED, Sharded(0), Partial("mean"), Partial("sum"))
    stands = bool(leaves) and all(d.placement in linear and not d.needs for d in leaves)
    if target is None or not stands or along not in ({(Sharded(0), False)}, {(REPLICATED, False)}):
        return v.unseen("what becomes of forward derivatives on parts of the batch is not known")
    return v.mapped(target, lambda d: replace(d, constant=NOT_CONSTANT))


def _jacobian(run: Run, args: Arguments) -> Value:
    """Gradients of weights for each sample's value, where that is made of the sample alone."""
    target, sources = args.get("target", 0), args.get("sources", 1)
    leaves = list(run.objects.leaves(target)) if target is not None else []
    by_sample = bool(leaves) and all(d.placement == Sharded(0) and not d.needs for d in leaves)
    asked = list(run.objects.leaves(sources)) if sources is not None else []
    if not by_sample or not all(d.is_replicated and not d.whole for d in asked) or sources is None:
        return v.unseen("what becomes of a Jacobian on parts of the batch is not known")
    items = run.objects.sequence_items(sources)
    rows = Data(Sharded(0), least=1, batch=same_batch.of_one(leaves))
    if items is not None:
        return v.of(Tuple(tuple(Value(rows) for _ in items)))
    is_one = any(isinstance(a, Made) and a.path == VARIABLE for a in sources)
    return Value(rows if is_one else replace(rows, nested=True, least=0))


def _gradients(run: Run, loss: Value, sources: Value, node: cst.CSTNode) -> Value:
    """Gradients of weights add up as the loss does, and are what all workers have where an update gets them reduced;
    those of a batch stand as it does, if the samples' losses are summed, or what they are the mean of is put together.
    """
    leaves = list(run.objects.leaves(loss))
    placement = _of_loss(leaves)
    needs = frozenset(r for d in leaves for r in d.needs)
    are_reduced = node in run.reduced
    # What a loss is made of that all workers have by then goes back to a worker's part of the batch.
    watched = frozenset((Repair(node, frozenset(), "", form="done"),)) if node in run.watched else frozenset()
    of_samples = [isinstance(d.placement, Sharded) for d in run.objects.leaves(sources)]

    def gradient(data: Data) -> Data:
        if isinstance(data.placement, Sharded):
            kept = placement in (Partial("sum"),) or all(isinstance(d.placement, Sharded) for d in leaves)
            if kept:
                return replace(
                    Data(data.placement, rank=data.rank, nested=data.nested), needs=needs | data.needs, batch=data.batch
                )
            if placement == Partial("mean") and not needs and all(d.placement == placement for d in leaves):
                # Each sample's part of a mean is divided by the number of rows.
                run.of_means.add(node)
                return Data(Scaled(data.placement, -1), rank=data.rank, nested=data.nested, needs=data.needs)
            if needs and all(d.is_replicated and d.needs for d in leaves):
                repair = _of_one_process(run, node, all(of_samples))
                return Data(data.placement, rank=data.rank, nested=data.nested, needs=needs | data.needs | {repair})
            lost = Unknown("these gradients of samples are of a loss that is no sum over them")
            return Data(lost, needs=needs)
        if data.whole and all(d.is_replicated for d in leaves):
            return replace(data, constant=NOT_CONSTANT, needs=data.needs | needs)
        has_no_rows = all(d.is_replicated and not d.needs for d in leaves)
        are_agreed = has_no_rows or (are_reduced and not isinstance(placement, Unknown))
        done = watched if are_agreed and not has_no_rows else frozenset()
        batch = frozenset() if are_agreed else same_batch.of_one(leaves)
        return Data(REPLICATED if are_agreed else placement, nested=data.nested, needs=needs | done, batch=batch)

    def of(sources: Value) -> Value:
        items = run.objects.sequence_items(sources)
        if items is not None:
            return v.of(Tuple(tuple(map(of, items))))
        if sources.data is not None:
            return Value(gradient(sources.data))
        if any(isinstance(a, Container) for a in sources):
            inner = run.objects.parts(sources)
            return Value(replace(gradient(inner.data), nested=True)) if inner.data is not None else NUMBER
        return Value(gradient(Data(nested=False)))

    return of(sources)


def _of_one_process(run: Run, node: cst.CSTNode, is_of_samples: bool) -> Repair:
    """The repair that makes gradients of samples what they are in one process: through what is put together they come
    so many times larger that the mean over the workers is right for weights."""
    blocked = run.placing.repairing.blocked
    if not is_of_samples:
        blocked = blocked or "gradients of weights are taken along with them"
    repair = Repair(node, frozenset((Operand(node, "samples"),)), "these gradients are of samples", blocked)
    run.note_repair(repair)
    return repair


def _of_loss(leaves: list[Data]) -> Placement:
    """How the gradients of weights add up."""
    kinds: set[Placement] = set()
    for data in leaves:
        for placement in options(data.placement):
            if isinstance(placement, (Sharded, Scaled)):
                kinds.add(Partial("sum"))  # the tape sums up what is no number
            elif isinstance(placement, (Partial, Unknown)):
                kinds.add(placement)
            else:
                kinds.add(Partial("mean"))
    if len(kinds) == 1:
        return kinds.pop()
    return Partial("mean") if not kinds else Unknown("some of these losses are means over the batch, others sums")
