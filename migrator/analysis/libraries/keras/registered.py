"""What a program tells Keras to find by a name: `get_custom_objects()`, scopes, and `@register_keras_serializable()`.

Keras 2 looks there first for whatever it is told by its name, Keras 3 for losses and in configurations alone: what has
such a name may be either.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Callable

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.values import NOTHING, NUMBER, Class, Container, Function, Made, Site, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run

REGISTERING = "keras.registering"
_MODULES = ("keras.utils", "keras.saving", "keras.utils.generic_utils")
_UNSEEN = v.unseen("what Keras finds by this name is not seen")


def _table(run: Run) -> Container:
    """What holds them by their names."""
    return Container("dict", Site(run.tree.modules[0], ()))


def looked_up(run: Run, name: Value) -> Value:
    """What the program has told Keras to find by the name; nothing where it has not."""
    known = name.constant
    if not isinstance(known, str) and known is not NOT_CONSTANT:
        return NOTHING
    table = _table(run)
    keys = (known, None) if isinstance(known, str) else run.heap.fields(table)
    found = v.join_all([run.heap.load(table, key) for key in keys])
    is_followed = found.data is None and not any(isinstance(atom, Class) for atom in found)
    return found if is_followed or found is NOTHING else _UNSEEN


def note(run: Run, registering: Made, value: Value) -> Value:
    """What the decorator, or what is called in its place, gives a name; gives that as it is."""
    package, name = (run.heap.load(registering, key) for key in ("package", "name"))
    for atom in value:
        own = atom.node.name.value if isinstance(atom, (Function, Class)) and hasattr(atom.node, "name") else None
        called = name.constant if name is not NOTHING and not name.is_none else own
        is_seen = isinstance(package.constant, str) and isinstance(called, str)
        run.heap.store(_table(run), f"{package.constant}>{called}" if is_seen else None, v.of(atom))
    return value


def _given(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    return v.of(_table(run))


def _scope(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`custom_object_scope({"name": function})`: what stands in it, or is made in it; of more, it does not matter."""
    for _, given in args.all():
        run.objects.update(v.of(_table(run)), given, node)
    return NUMBER


def _registering(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    made = Made(REGISTERING, Site(node, frame.context))
    run.heap.store(made, "package", args.get("package", 0) or v.constant("Custom"))
    run.heap.store(made, "name", args.get("name", 1) or v.NONE)
    return v.of(made)


_HANDLERS: dict[str, Callable[[Run, Arguments, cst.CSTNode, Frame], Value]] = {
    "get_custom_objects": _given,
    "custom_object_scope": _scope,
    "CustomObjectScope": _scope,
    "register_keras_serializable": _registering,
}
FUNCTIONS = {f"{module}.{name}": _HANDLERS[name] for module, name in product(_MODULES, _HANDLERS)}
