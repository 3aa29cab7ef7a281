"""What a program puts in the place of what Keras runs or reads of its own objects: `net.train_step = f`.

What layers put their rows through is run here, on rows of a batch: it is as good as what they were made with where it
takes each row by itself. The rest is noted, for the rules to tell of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras import penalties
from migrator.analysis.libraries.keras.applying import applied
from migrator.analysis.libraries.keras.objects import activation, classes_of
from migrator.analysis.placement import Sharded, Unknown
from migrator.analysis.values import (
    NUMBER,
    Bound,
    Class,
    Curried,
    Data,
    External,
    Function,
    Instance,
    Made,
    Method,
    Tuple,
    Value,
)
from migrator.facts.names import api, run_by_keras

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_OF_THE_PROGRAM = (Function, Bound, Curried, Class, Instance, Method)
# Methods of a class that the analysis finds, whether they stand in it or are set.
_FOLLOWED_OF_CLASSES = frozenset({
    "train_step", "compute_loss", "test_step", "predict_step", "update_state", "result", "reset_state",
    "reset_states", "fit", "compile", "evaluate", "predict", "train_on_batch", "compute_metrics",
})  # fmt: skip
# What Keras's code reads, whatever a class has of its own: that may come to Keras's by `super()`.
_READ_ALWAYS = frozenset({run_by_keras.OPTIMIZER, "reduction"})
ROWS_OF_BATCH = Value(Data(Sharded(0), least=2))


class Hook(NamedTuple):
    """An attribute that is set; `of`: the object that has it from then on, None where that is not seen; `name`: empty
    where only the run knows it."""

    kind: str
    name: str
    of: v.Atom | None


def note(run: Run, owner: Value, name: str, value: Value, node: cst.CSTNode) -> None:
    """`owner.name = value`"""
    if name not in run_by_keras.ALL or value.is_none or value == v.NOTHING:
        return
    for hook in _hooks(run, owner, name, value, node):
        if not _is_followed(run, hook, value, node):
            run.hooks[node].add(hook)


def note_put(run: Run, name: str, known: Value, value: Value, node: cst.CSTNode) -> None:
    """Notes a name, or a method, that was one of the program's functions or classes, and is another from outside."""
    others = set(_definitions(value))
    if value.is_none or name == "call" or (not others and value.objects) or _is_bound_there(node):
        return
    for own in _definitions(known):
        if others != {own}:
            run.hooks[node].add(Hook(run_by_keras.REPLACED, name, own))


def _definitions(value: Value) -> Iterator[Function | Class]:
    """The functions and classes of the program that the value may be, be they bound, static methods or properties."""
    for atom in value:
        if isinstance(atom, (Function, Class)):
            yield atom
        elif isinstance(atom, Bound) and isinstance(atom.function, Function):
            yield atom.function
        elif isinstance(atom, Curried):
            yield from _definitions(atom.function)
        elif isinstance(atom, Tuple):
            yield from (each for item in atom.items for each in _definitions(item))


def _is_bound_there(node: cst.CSTNode) -> bool:
    """`globals()["step"] = …`, which counts as an assignment of the file's own."""
    if not isinstance(node, cst.Subscript) or not isinstance(node.value, cst.Call):
        return False
    function, index = node.value.func, node.slice[0].slice
    is_written = isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString)
    return is_written and isinstance(function, cst.Name) and function.value == "globals"


def note_somewhere(
    run: Run, owner: Value, value: Value, node: cst.CSTNode, names: re.Pattern[str] | None = None
) -> None:
    """`setattr(owner, name, value)`, where the name is one of those, or not seen."""
    if not any(isinstance(atom, (Function, Bound, Curried)) for atom in value):
        return
    for name in sorted(run_by_keras.ALL):
        if names is None or names.match(name):
            for hook in _hooks(run, owner, name, value, node):
                run.hooks[node].add(hook._replace(name=name if names is not None else ""))


def _hooks(run: Run, owner: Value, name: str, value: Value, node: cst.CSTNode) -> Iterator[Hook]:
    for atom in owner:
        kinds = _kinds(run, atom, name)
        if not (isinstance(atom, Instance) and _is_its_own(run, atom, name, node)):
            yield from (Hook(kind, name, None if isinstance(atom, Method) else atom) for kind in kinds)
    data = owner.data
    if data is None or data.constant is None or not _is_given(value):
        return
    if data.layer and name in run_by_keras.NAMES[run_by_keras.LAYER]:
        yield Hook(run_by_keras.LAYER, name, None)
    elif name in run_by_keras.TELLING:
        yield Hook(_kind_by(name), name, None)


def _kinds(run: Run, atom: v.Atom, name: str) -> Iterable[str]:
    """As what Keras runs or reads the attribute of the object, or of all of a class."""
    if isinstance(atom, External):
        replaced = run_by_keras.kind_replaced(api.canonical(f"{atom.path}.{name}"))
        if replaced:
            return {replaced}
        kind = run_by_keras.kind_of(atom.path)
        return {kind} if kind and run_by_keras.runs(kind, name, atom.path, of_class=True) else ()
    if isinstance(atom, Class):  # what its objects have for methods is followed
        paths = [] if name in _FOLLOWED_OF_CLASSES else run.classes.external_bases(atom)
    elif isinstance(atom, Method):
        roots = {kind for root in atom.owner for kind in _kinds_of_object(run, root)}
        return {_kind_by(name)} if roots and name not in run_by_keras.OF_TENSORFLOW else ()
    else:
        paths = classes_of(run, atom)
    return {kind for path in paths if (kind := run_by_keras.kind_of(path)) and run_by_keras.runs(kind, name, path)}


def _kinds_of_object(run: Run, atom: v.Atom) -> set[str]:
    if isinstance(atom, Method):
        return {kind for root in atom.owner for kind in _kinds_of_object(run, root)}
    return {kind for path in classes_of(run, atom) if (kind := run_by_keras.kind_of(path))}


def _kind_by(name: str) -> str:
    return next((kind for kind, names in run_by_keras.NAMES.items() if name in names), run_by_keras.LAYER)


def _is_its_own(run: Run, atom: Instance, name: str, node: cst.CSTNode) -> bool:
    """Whether a method of the object's own class sets it, and Keras's code does not run it then."""
    if node not in run.tree.order:
        return True  # in a package
    function = run.tree.function_of(node)
    cls = run.tree.class_of(function) if function is not None else None
    if cls is None or not any(each.node is cls for each in run.classes.lineage(atom.cls)):
        return False
    if name in _READ_ALWAYS:
        return False
    return name not in run_by_keras.OF_ROWS or run.classes.method(atom, "call") is not None


def _is_given(value: Value) -> bool:
    """Whether it may be code of the program's, an optimizer, or what nobody knows."""
    if any(isinstance(a, _OF_THE_PROGRAM) or api.is_optimizer_class(getattr(a, "path", "")) for a in value):
        return True
    data = value.data
    return data is not None and (isinstance(data.placement, Unknown) or bool(data.behind))


# -- what is followed -------------------------------------------------------------------------------------------------


def _is_followed(run: Run, hook: Hook, value: Value, node: cst.CSTNode) -> bool:
    """Whether what Keras runs then is right as it stands, or is seen to."""
    frame = run.frames[run.tree.module_of(node)] if node in run.tree.order else None
    if frame is None:
        return True  # packages' own
    if hook.name == run_by_keras.OF_OUTPUTS:
        penalties.note_of_outputs(run, value, ROWS_OF_BATCH if run.cuts else NUMBER, node, frame)
        return True
    if hook.kind == run_by_keras.LOSS and hook.name == "fn" and isinstance(hook.of, Made):
        return True  # see Objects.own_call
    if hook.kind != run_by_keras.LAYER or hook.name not in run_by_keras.OF_ROWS:
        return False
    return takes_rows_apart(run, activation(run, value), node, frame)


def takes_rows_apart(
    run: Run, function: Value, node: cst.CSTNode, frame: Frame, given: Arguments | None = None
) -> bool:
    """Whether a function, or layer, of what Keras runs makes a row of each row, and of no other."""
    given = Arguments([ROWS_OF_BATCH]) if given is None else given
    if function.data is not None and isinstance(function.data.placement, Unknown):
        return False
    if any(isinstance(atom, (Made, Instance)) for atom in function):
        made = run.calls.call(function.without_data(), given, node, frame)
    else:
        made = applied(run, function.without_data(), given, node, frame)
    leaves = list(run.objects.leaves(made))
    return bool(leaves) and all(d.placement == Sharded(0) and not d.needs and not d.whole for d in leaves)
