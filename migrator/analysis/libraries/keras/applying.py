"""Code of the program's own that Keras calls: functions and `call` methods inside of a model, losses, metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Callable

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras import masks
from migrator.analysis.placement import REPLICATED, Unknown
from migrator.analysis.values import NOTHING, NUMBER, Bound, Container, Data, Made, Site, Tuple, Value
from migrator.records import dataclass, replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_OF_TENSORS, _OF_KERAS = -1, -2  # contexts of their own
_LATER = "what a part of a model gives in later steps"


@dataclass(frozen=True)
class BuiltCall:
    """A call of the program's own code by which a model is built; `reads`: the names that it reads from outside."""

    function: Value
    args: Arguments
    node: cst.CSTNode
    frame: Frame
    reads: Mapping[tuple[Frame, str], Value | None]


def applied(run: Run, function: Value, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """What a function gives that Keras calls on rows, as that of a layer."""
    run.note_hidden(function)
    with run.calls.reading() as reads:
        result = _traced(run, args, lambda given: run.calls.call(function, given, node, frame))
    if run.is_symbolic(args):
        run.built_calls.append(BuiltCall(function, args, node, frame, dict(reads)))
        result = _as_later(run, result, Site(node, frame.context))
    if any((d.whole and d.needs) or d.placement == v.PARTLY_WHOLE for d in run.objects.leaves(result)):
        run.note_whole_layer(function)
    return result


def run_again(run: Run) -> None:
    """What the parts of models that are built give in a next step, as far as that has other names to read by then."""
    for call in list(run.built_calls):
        if not run.calls.still_reads(call.reads):
            again = _traced(run, call.args, lambda given, c=call: run.calls.call(c.function, given, c.node, c.frame))  # type: ignore[misc]
            leaves = list(run.objects.leaves(again))
            lost = next((d.placement for d in leaves if isinstance(d.placement, Unknown)), REPLICATED)
            later = Value(Data(lost, needs=frozenset(r for d in leaves for r in d.needs)))
            run.heap.store(Made(_LATER, Site(call.node, call.frame.context)), None, later)


def _as_later(run: Run, result: Value, site: Site) -> Value:
    """The result, which needs what that of later steps needs."""
    for data in run.objects.leaves(run.heap.load(Made(_LATER, site), None)):
        lost = data.placement if isinstance(data.placement, Unknown) else None
        needs = data.needs
        result = v.mapped(
            result, lambda d, lost=lost, needs=needs: replace(d, placement=lost or d.placement, needs=d.needs | needs)
        )
    return result


def _traced(run: Run, args: Arguments, function: Callable[[Arguments], Value]) -> Value:
    """Code of the program's own inside of a model: it runs on tensors, also where Keras's own stand for them."""
    if not any(d.symbolic for _, x in args.all() for d in run.objects.leaves(x)):
        return function(args)
    plain = [_standing(run, x, symbolic=False) for x in args.positional]
    keywords = {k: _standing(run, x, symbolic=False) for k, x in args.keywords.items()}
    # Of what is written there, Keras's own tensors, nothing can be put together. What is built is a part of a model, as
    # soon as that is trained.
    with run.making_loss(by_keras=True):
        result = function(Arguments(plain, keywords, args.rest))
    return _standing(run, result, symbolic=True)


def _standing(run: Run, value: Value, *, symbolic: bool) -> Value:
    """The value with tensors where Keras's own stand for them, or the other way round; a list or a dictionary of these
    is another one than is written down."""
    written = value.only
    if isinstance(written, Container) and written.kind == "dict":
        made = _twin(written, symbolic=symbolic)
        for key in run.heap.fields(written):
            run.heap.store(made, key, _standing(run, run.heap.load(written, key), symbolic=symbolic))
        return v.of(made)
    items = run.objects.sequence_items(value)
    if items is not None:
        tensors = [_standing(run, item, symbolic=symbolic) for item in items]
        if not isinstance(written, Container):
            return v.of(Tuple(tuple(tensors)))
        made = _twin(written, symbolic=symbolic)
        for place, item in enumerate(tensors):
            run.heap.store(made, place, item)
        return v.of(made)
    return v.mapped(value, lambda d: replace(d, symbolic=symbolic))


def _twin(written: Container, *, symbolic: bool) -> Container:
    context = (*written.site.context, _OF_KERAS if symbolic else _OF_TENSORS)
    return Container(written.kind, Site(written.site.node, context))


def is_of_tensors(atom: v.Atom) -> bool:
    """Whether it is a tuple, or such a list as a layer gives where Keras's own tensors stand in it."""
    return isinstance(atom, Tuple) or (isinstance(atom, Container) and atom.site.context[-1:] == (_OF_KERAS,))


def accepted(run: Run, call: Value, args: Arguments) -> Arguments:
    """The arguments without `training` and `mask` where `call` does not take them: Keras keeps those to itself. What
    its caller does not tell, Keras hands on: what its own caller was told, and the mask of what the layer is given."""
    taken: dict[str, int] = {}
    takes_all = False
    for atom in call:
        function = atom.function.node if isinstance(atom, Bound) else None
        if function is not None:
            params = function.params
            names = [p.name.value for p in (*params.params, *params.kwonly_params)]
            taken.update((name, i - 1) for i, name in enumerate(names))
            takes_all = takes_all or params.star_kwarg is not None
    keywords = {k: x for k, x in args.keywords.items() if takes_all or k in taken or k not in ("training", "mask")}
    for name, value in (("training", NUMBER), ("mask", masks.handed(run, args))):
        told = keywords.get(name)
        is_open = name in taken and (told is None or told.is_none) and taken[name] >= len(args.positional)
        if is_open and args.rest is NOTHING and not value.is_none and not (takes_all and name == "training"):
            keywords[name] = value
    return Arguments(args.positional, keywords, args.rest, args.nodes)
