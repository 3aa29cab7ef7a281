"""Code of the program's own that Keras calls: functions and `call` methods inside of a model, losses, metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras import masks
from migrator.analysis.values import NOTHING, NUMBER, Bound, Container, Site, Tuple, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_OF_TENSORS, _OF_KERAS = -1, -2  # contexts of their own


def applied(run: Run, function: Value, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """What a function gives that Keras calls on rows, as that of a layer."""
    run.note_hidden(function)
    result = _traced(run, args, lambda given: run.calls.call(function, given, node, frame))
    if any((d.whole and d.needs) or d.placement == v.PARTLY_WHOLE for d in run.objects.leaves(result)):
        run.note_whole_layer(function)
    return result


def _traced(run: Run, args: Arguments, function: Callable[[Arguments], Value]) -> Value:
    """Code of the program's own inside of a model: it runs on tensors, also where Keras's own stand for them."""
    if not any(d.symbolic for _, x in args.all() for d in run.objects.leaves(x)):
        return function(args)
    plain = [_standing(run, x, symbolic=False) for x in args.positional]
    keywords = {k: _standing(run, x, symbolic=False) for k, x in args.keywords.items()}
    with run.making_loss():  # of which the model that is built is a part, as soon as it is trained
        result = function(Arguments(plain, keywords, args.rest, args.nodes))
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
