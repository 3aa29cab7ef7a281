"""Metrics: what they are fed and what they tell of it, and which of those that a model is compiled with are means."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras import compiling
from migrator.analysis.libraries.keras.names import METRIC, is_mean_metric
from migrator.analysis.libraries.keras.objects import Methods, is_of
from migrator.analysis.libraries.tensorflow import OF_METRIC, SET, VARIABLE
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import LOCAL, REPLICATED, ROWS, Partial, Placement, Sharded, Unknown
from migrator.analysis.placing.gathering import as_whole
from migrator.analysis.placing.repairing import is_result
from migrator.analysis.values import NOTHING, NUMBER, Container, Data, External, Instance, Made, Site, Tuple, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

# Metrics that add up what they are given, whatever it is, and in which of their variables.
_ADDING = ("keras.metrics.Mean", "keras.metrics.Sum")
_SUMS = frozenset({"total", "count"})
# The variables of Keras's metrics by their places in the contexts of the sites of these.
_VARIABLES = {
    name: -10 - i
    for i, name in enumerate((
        "total", "count", "num_samples", "accumulator", "total_cm", "true_positives", "true_negatives",
        "false_positives", "false_negatives",
    ))
}  # fmt: skip
_LISTS = ("variables", "weights")
# Metrics whose result is other where each row is counted several times.
_COUNTING = re.compile(r"keras\.metrics\.(?:Sum|(?:True|False)(?:Positives|Negatives))")
_ALIKE = "fed alike"  # something beside its rows, each time, that all workers have
_MIXED = Unknown("a metric has counted what all workers have, beside a worker's rows")
_FED_ON_ALL = "fed on all"  # the same on each worker
_UNLISTED = Unknown("the model does not list the metric, which then counts unequal parts of batches alike")
_FED_WHOLE = "fed whole"  # all rows of a batch, each with what would have a worker count its own alone


def call(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`metric(y_true, y_pred)`: what it tells, with these counted."""
    names = ("update_state", "result")
    update, result = (run.classes.method(atom, n) if isinstance(atom, Instance) else None for n in names)
    if update is not None:
        run.calls.call(update, args, node, frame)
    else:
        _feed(run, atom, args, node)
    return run.calls.call(result, Arguments([]), node, frame) if result is not None else _told(run, atom, node)


def _feed(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode) -> None:
    met = run.placing.meet(args, node)
    sums = _sums(run, atom, args)
    takes_means = not sums and (isinstance(atom, Instance) or atom.path == "keras.metrics.Mean")
    values = sums or [x for _, x in args.all() if not x.is_none]
    given = _note_fed(run, values, node, takes_means=takes_means)
    if met is not None:
        given = [as_whole(data, frozenset((met,))) for data in given]
    once = run.placing.repairing.counted_once(args, node) if any(map(_is_whole, given)) else None
    if once is None:
        run.fed_parts.add(node)
    fitted = run.libraries.keras.fitted
    is_unlisted = takes_means and bool(fitted) and not _lists(run, fitted[-1], atom, node)
    for data in given:
        number = replace(data, constant=NOT_CONSTANT)
        if is_unlisted and data.placement == Partial("mean"):
            number = replace(number, placement=_UNLISTED)
        if once is not None and data.is_replicated:
            run.heap.store(atom, _FED_WHOLE, Value(replace(number, needs=number.needs | {once})))
        else:
            run.heap.store(atom, "fed", Value(number))
        if data.is_replicated:
            run.heap.store(atom, _FED_ON_ALL, Value(number))
    if given and once is None and all(d.is_replicated for d in given):
        run.heap.store(atom, _ALIKE, NUMBER)
    if isinstance(atom, Made):
        _note_content(run, atom)


def _sums(run: Run, atom: Made | Instance, args: Arguments) -> list[Value]:
    """What a Mean adds up, and what it divides that by, where its weight is the number of a worker's rows: two sums;
    nothing for others, and in steps of `fit`, which combines metrics by itself."""
    value, weight = args.get("values", 0), args.get("sample_weight", 1)
    is_mean = isinstance(atom, Made) and atom.path == "keras.metrics.Mean" and not run.libraries.keras.training
    if not is_mean or value is None or weight is None or weight.data is None or weight.data.placement != ROWS:
        return []
    if value.data is None or value.data.nested or value.objects or weight.objects:
        return []
    if run.placing.inferred("tensorflow.multiply", value, weight) not in ([ROWS], [Partial("sum")]):
        return []
    return [Value(replace(data, placement=Partial("sum"))) for data in (value.data, weight.data)]


def _is_whole(data: Data) -> bool:
    """Whether each worker has all of several rows, and not because they are put together."""
    return data.is_replicated and (data.whole or data.axes > 0) and data.rank != 0 and not data.needs


def _note_fed(run: Run, given: list[Value], node: cst.CSTNode, *, takes_means: bool) -> list[Data]:
    """What the metric is given; noted where a step of Keras's `fit` runs, or a model is built that it is part of."""
    several = [list(run.objects.leaves(value)) for value in given]
    data = [d for leaves in several for d in leaves]
    if takes_means and len(several) > 1 and any(isinstance(d.placement, Partial) for d in data):
        # Given by itself, it counts by the rows that it is of.
        data.append(Data(Unknown("a metric is given a mean or a sum over a worker's rows with a weight of its own")))
    if Partial("mean") in {d.placement for d in data} and not takes_means:
        data.append(Data(Unknown("a metric that is no mean is given means over a worker's rows")))
    fits: list[cst.CSTNode | None] = [*run.libraries.keras.training]
    if not fits and any(d.symbolic for d in data):
        fits.append(None)
    for fit in fits if not run.placing.repairing.blocked else ():
        run.fed[fit][node].update(data)
    return data


def note_own(run: Run, model: v.Atom, node: cst.CSTNode, frame: Frame) -> None:
    """Notes what metrics of the program's own classes, that a model keeps, tell in a step of `fit`: which Keras tells
    behind it, of each worker."""
    for key in run.heap.fields(model):
        for atom in run.heap.load(model, key):
            result = run.classes.method(atom, "result") if isinstance(atom, Instance) else None
            if result is not None and isinstance(atom, Instance) and is_of(run, atom, METRIC.match):
                told = run.calls.call(result, Arguments([]), node, frame)
                run.told[node][atom.site.node] = v.join(run.told[node].get(atom.site.node, NOTHING), told)


def _add_metric(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`layer.add_metric(value, name=…)` of Keras 2: a Mean that is given the value."""
    value = args.get("value", 0)
    if value is not None and not value.is_none:
        _note_fed(run, [value], node, takes_means=True)
    return NUMBER


def _told(run: Run, atom: Made | Instance, node: cst.CSTNode) -> Value:
    parts, whole = (list(run.objects.leaves(run.heap.load(atom, field))) for field in ("fed", _FED_WHOLE))
    needs = frozenset(r for d in parts for r in d.needs)
    apart = list(dict.fromkeys(d.placement for d in parts if not d.is_replicated))
    placement: Placement = next((p for p in apart if isinstance(p, (Unknown, type(LOCAL)))), REPLICATED)
    if whole and any(isinstance(p, Sharded) for p in apart):
        needs |= {r for d in whole for r in d.needs}
    elif apart and placement == REPLICATED and any(d.whole for d in whole):
        placement = v.PARTLY_WHOLE
    if Partial("sum") in apart and any(d.placement != Partial("sum") for d in parts):
        placement = Unknown("a metric is given sums over a worker's rows, and other things besides")
    if isinstance(atom, Made) and any(isinstance(p, Sharded) for p in apart) and _is_mixed(run, atom):
        placement = _MIXED
        run.libraries.keras.told_mixed.add(node)
    elif isinstance(atom, Made) and (parts or whole) and not (apart or needs) and _COUNTING.fullmatch(atom.path):
        run.libraries.keras.told_mixed.add(node)
    if placement == REPLICATED and isinstance(atom, Made):
        if atom.path == "keras.metrics.Mean" and (apart == [Partial("mean")] or _are_weighed(run, parts)):
            if not apart:
                run.libraries.keras.told_apart.add(node)
            placement, needs = _of_batches(run, node, needs)
        elif Partial("mean") in apart and atom.path != "keras.metrics.Mean":
            placement = Unknown("a metric that is no mean is given means over a worker's rows")
        elif apart:
            needs |= {run.placing.repairing.counted_by_all(node)}
    return Value(Data(placement, rank=0, nested=True, needs=needs))


def _are_weighed(run: Run, parts: list[Data]) -> bool:
    """Whether these are numbers that all workers have, which a metric weighs all the same in steps of `fit`: by the
    rows of each worker."""
    are_same = all(d.is_replicated and d.rank in (0, None) for d in parts)
    return any(run.libraries.keras.on_parts[-1:]) and bool(parts) and are_same


def kept(run: Run, atom: Made, name: str) -> Value:
    """`metric.total`: a variable, which holds more each time that the metric is given something."""
    if name in _VARIABLES:
        variable = _variable(atom, name)
        run.heap.store(atom, ("variable", name), v.of(variable))
        run.heap.store(variable, OF_METRIC, v.of(atom))
        _note_content(run, atom)
        return v.of(variable)
    if name in _LISTS and (atom.path in _ADDING or is_mean_metric(atom.path)):
        names = ("total",) if atom.path == "keras.metrics.Sum" else ("total", "count")
        return v.of(Tuple(tuple(kept(run, atom, one) for one in names)))
    placement = _placement_in(run, atom, name)
    if placement is None:
        return v.of(v.Method(v.of(atom), name))
    is_list = name in _LISTS or name.endswith(("_variables", "_weights"))
    return Value(Data(placement, nested=True) if is_list else Data(placement, rank=0))


def _variable(atom: Made, name: str) -> Made:
    return Made(VARIABLE, Site(atom.site.node, (*atom.site.context, _VARIABLES[name])))


def _note_content(run: Run, atom: Made) -> None:
    """Notes what those of its variables hold by now that the program reads."""
    for key in run.heap.fields(atom):
        name = key[1] if isinstance(key, tuple) and key[0] == "variable" else None
        placement = _placement_in(run, atom, name) if name is not None else None
        if name is not None and placement is not None:
            run.heap.store(_variable(atom, name), "content", Value(Data(placement, rank=0)))


def _placement_in(run: Run, atom: Made, name: str) -> Placement | None:
    """Where stands what it keeps there: a sum over the rows that this worker has seen, where it is given nothing else.
    In steps of `fit` it is weighed by them. None where it has seen nothing that differs from worker to worker."""
    parts, whole = (list(run.objects.leaves(run.heap.load(atom, field))) for field in ("fed", _FED_WHOLE))
    in_fit = any(run.libraries.keras.on_parts[-1:])
    if not (in_fit and (parts or whole)) and all(d.is_replicated and not d.needs for d in parts):
        return None
    if _is_mixed(run, atom):
        return _MIXED
    if name in _SUMS and atom.path in _ADDING and not (in_fit or whole) and all(map(_is_of_rows, parts)):
        return Partial("sum")
    return Unknown("what a metric keeps is of this worker's part of the batches")


def _is_mixed(run: Run, atom: Made) -> bool:
    """Whether it has counted what all workers have, or the program has told it what it has counted: the sums of the
    workers hold that several times."""
    set_ones: list[tuple[v.Atom, object]] = [(atom, _ALIKE)]
    for name in _VARIABLES:
        set_ones += [(_variable(atom, name), SET), (atom, name)]
    return any(run.heap.load(*at) is not NOTHING for at in set_ones)


def _is_of_rows(data: Data) -> bool:
    """Whether it is each of a worker's rows, or a value of each."""
    return isinstance(data.placement, Sharded) and data.placement.axis == 0 and not data.needs


def _of_batches(run: Run, node: cst.CSTNode, needs: frozenset[v.Repair]) -> tuple[Placement, frozenset[v.Repair]]:
    """How a Mean of numbers stands, one for each batch: as these do; but in steps of `fit` the workers may have had
    other shares of each batch, by which the metrics that the model lists weigh what they are given."""
    keras = run.libraries.keras
    if not keras.fitted:
        return Partial("mean"), needs
    if not is_result(node):
        keras.told_apart.add(node)
        return Unknown("a metric is given a number in a step of `fit`, and asked for its result at once"), needs
    keras.told_in_steps.add(node)
    return REPLICATED, needs | {run.placing.repairing.counted_by_all(node, "batches")}


def _lists(run: Run, model: v.Atom, metric: v.Atom, node: cst.CSTNode) -> bool:
    """Whether the metric may be among those of the model: what its property gives, or what it and its parts keep."""
    if isinstance(model, Instance) and run.classes.of_class(model.cls, "metrics") is not None:
        return _may_hold(run, run.objects.attribute(v.of(model), "metrics", node), metric)
    queue, seen = [model], {model}
    while queue:
        owner = queue.pop()
        for held in (run.heap.load(owner, key) for key in (None, *run.heap.fields(owner))):
            if metric in held:
                return True
            new = [a for a in held if isinstance(a, (Instance, Container, Made)) and a not in seen]
            seen.update(new)
            queue += new
    return False


def _may_hold(run: Run, listed: Value, metric: v.Atom) -> bool:
    queue, opened = [listed], set[v.Atom]()
    while queue:
        value = queue.pop()
        if metric in value or value.data is not None:
            return True
        new = [atom for atom in value if atom not in opened]
        opened.update(new)
        if any(not isinstance(atom, (Container, Tuple, Made, Instance)) for atom in new):
            return True  # what that gives is not seen
        queue += [run.objects.parts(v.of(atom)) for atom in new if isinstance(atom, (Container, Tuple))]
    return False


def _update_state(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    _feed(run, atom, args, node)
    return NUMBER


def _result(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    return _told(run, atom, node)


# -- of a model -------------------------------------------------------------------------------------------------------


def note_of_model(run: Run, atom: v.Atom, args: Arguments, node: cst.CSTNode, frame: Frame) -> None:
    """Notes of what kind the metrics are that the model is compiled with and that are no means over the rows."""
    queue = [compiling.metrics_of(run, atom)]
    opened: set[v.Atom] = set()  # a list may hold itself, as far as its place tells
    given = frozenset(r for x in args.positional for d in run.objects.leaves(x) for r in d.needs)
    for value in queue:
        if value.data is not None and not value.is_none and not is_mean_metric(str(value.constant)):
            run.odd_metrics[node].add("class")
        for metric in value:
            if isinstance(metric, (Container, Tuple)):
                if metric not in opened:
                    opened.add(metric)
                    queue.append(run.objects.parts(v.of(metric)))
            elif isinstance(metric, Instance):
                if not _counts_rows(run, metric, args, given, node, frame):
                    run.odd_metrics[node].add("own")
            elif isinstance(metric, Made) or (isinstance(metric, External) and METRIC.match(metric.path)):
                if not is_mean_metric(metric.path):
                    run.odd_metrics[node].add("class")
            elif not _is_mean(run, metric, args, given, node, frame):
                run.odd_metrics[node].add("function")


def _is_mean(
    run: Run, metric: v.Atom, args: Arguments, given: frozenset[v.Repair], node: cst.CSTNode, frame: Frame
) -> bool:
    with run.placing.repairing.ruled_out("Keras applies it", is_barred=False):
        result = run.calls.call(v.of(metric), args, node, frame)
    return all(
        (d.is_replicated or isinstance(d.placement, Sharded) or d.placement == Partial("mean")) and not d.undone - given
        for d in run.objects.leaves(result)
    )


def _counts_rows(
    run: Run, metric: Instance, args: Arguments, given: frozenset[v.Repair], node: cst.CSTNode, frame: Frame
) -> bool:
    """Whether the class only picks what of each row `keras.metrics.Mean` counts."""
    update, result = (run.classes.method(metric, name) for name in ("update_state", "result"))
    if run.classes.external_bases(metric.cls) != ["keras.metrics.Mean"] or update is None or result is not None:
        return False
    with run.placing.repairing.ruled_out("Keras applies it", is_barred=False):
        run.calls.call(update, args, node, frame)
    fed = list(run.objects.leaves(run.heap.load(metric, "fed")))
    if run.heap.load(metric, _FED_ON_ALL) is not NOTHING:
        return False  # it would count once for each worker
    return bool(fed) and all(isinstance(d.placement, Sharded) and not d.undone - given for d in fed)


def tell(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """What the step of Keras's tells of the metrics, as the model's own methods may have it."""
    own = run.classes.method(atom, "compute_metrics") if isinstance(atom, Instance) else None
    return run.calls.call(own, args, node, frame) if own is not None else _computed(run, atom, args, node, frame)


def _computed(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`super().compute_metrics(…)`, which asks the model's own `get_metrics_result`."""
    own = run.classes.method(atom, "get_metrics_result") if isinstance(atom, Instance) else None
    if own is not None:
        return run.calls.call(own, Arguments([]), node, frame)
    return _of_all(run, atom, args, node, frame)


def _of_all(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`super().get_metrics_result()`: what this worker has counted."""
    return Value(Data(LOCAL, nested=True))


def _from_config(run: Run, atom: Made | Instance, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`metric.from_config(config)`: another of its class."""
    if isinstance(atom, Made) and METRIC.match(atom.path):
        return v.of(Made(atom.path, Site(node, frame.context)))
    return NUMBER


METHODS: Methods = {
    "from_config": _from_config,
    "add_metric": _add_metric,
    "update_state": _update_state,
    "result": _result,
    "compute_metrics": _computed,
    "get_metrics_result": _of_all,
}
