"""What the layers of a copy are that `clone_model(model, clone_function=…)` makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
import libcst.matchers as m

from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras import hooks
from migrator.analysis.libraries.keras.objects import arguments_of
from migrator.analysis.values import Data, Function, Instance, Made, Value, of

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_CONFIG = m.Call(func=m.Attribute(attr=m.Name("get_config")), args=[])
_CLASS = m.Call(func=m.Name("type"), args=[m.DoNotCare()]) | m.Attribute(attr=m.Name("__class__"))
_MADE = m.Call(func=m.Attribute(attr=m.Name("from_config")), args=[m.DoNotCare()])
# What a layer does with a batch is the same with others of these.
_HARMLESS = frozenset({
    "name", "dtype", "trainable", "units", "filters", "use_bias", "seed",
    "kernel_initializer", "bias_initializer", "kernel_regularizer", "bias_regularizer",
})  # fmt: skip


def are_alike(run: Run, atom: Made, args: Arguments, node: cst.CSTNode, frame: Frame) -> bool:
    """Whether the layers of a copy work on each row by itself that its `clone_function` brings in."""
    function = arguments_of(run, atom).get("clone_function", 2)
    is_whole = all(d.is_replicated for _, x in args.all() for d in run.objects.leaves(x))
    if is_whole or function is None or function.is_none:
        return True
    given = Data(layer=True)
    brought_in = run.calls.call(function, Arguments([Value(given)]), node, frame)
    is_made = brought_in.data is not None and not brought_in.data.layer
    if is_made and not all(isinstance(each, Function) and _is_by_its_config(run, each.node) for each in function):
        return False
    return all(
        hooks.takes_rows_apart(run, of(layer), node, frame)
        for layer in brought_in
        if isinstance(layer, (Instance, Made))
    )


def _is_by_its_config(run: Run, function: cst.CSTNode) -> bool:
    """Whether what the function makes by `from_config` is made by the configuration of the layer that it is given,
    but for what changes nothing."""
    tree = run.tree
    made = [call for call in tree.calls if tree.contains(function, call) and m.matches(call, _MADE)]
    return bool(made) and all(
        m.matches(call.func, m.Attribute(value=_CLASS)) and _is_kept(run, function, call.args[0].value) for call in made
    )


def _is_kept(run: Run, function: cst.CSTNode, config: cst.BaseExpression) -> bool:
    if not isinstance(config, cst.Name):
        return m.matches(config, _CONFIG)
    tree = run.tree
    bindings = tree.scopes[function].bindings.get(config.value, ()) if function in tree.scopes else ()
    if len(bindings) != 1 or not m.matches(bindings[0].node, m.Assign(value=_CONFIG)):
        return False
    uses = [name for name in tree.names.get(config.value, ()) if tree.contains(function, name)]
    return all(_leaves_it(run, name) for name in uses)


def _leaves_it(run: Run, name: cst.Name) -> bool:
    """Whether the configuration is read there, given to `from_config`, or told what changes nothing."""
    parent = run.tree.parent[name]
    if isinstance(parent, cst.AssignTarget):
        return True
    if isinstance(parent, cst.Subscript) and parent.value is name and len(parent.slice) == 1:
        index = parent.slice[0].slice
        key = index.value if isinstance(index, cst.Index) else None
        return isinstance(key, cst.SimpleString) and key.evaluated_value in _HARMLESS
    return isinstance(parent, cst.Arg) and m.matches(run.tree.parent[parent], _MADE)
