"""Code of the program's own that Keras calls: functions and `call` methods inside of a model, losses, metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.records import replace
from migrator.analysis.values import NUMBER, Bound, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run


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
    plain = [v.mapped(x, lambda d: replace(d, symbolic=False)) for x in args.positional]
    keywords = {k: v.mapped(x, lambda d: replace(d, symbolic=False)) for k, x in args.keywords.items()}
    result = function(Arguments(plain, keywords, args.rest, args.nodes))
    return v.mapped(result, lambda d: replace(d, symbolic=True))


def accepted(call: Value, args: Arguments) -> Arguments:
    """The arguments without `training` and `mask` where `call` does not take them: Keras keeps those to itself."""
    taken: set[str] = set()
    for atom in call:
        function = atom.function.node if isinstance(atom, Bound) else None
        if function is not None:
            params = function.params
            if params.star_kwarg is not None:
                return args
            taken.update(p.name.value for p in (*params.params, *params.kwonly_params))
    keywords = {k: x for k, x in args.keywords.items() if k in taken or k not in ("training", "mask")}
    told = keywords.get("training")
    if "training" in taken and (told is None or told.is_none) and args.get("training", 1) is None:
        keywords["training"] = NUMBER  # Keras hands on what its caller was told
    return Arguments(args.positional, keywords, args.rest, args.nodes)
