"""What the layers of a copy are that `clone_model(model, clone_function=…)` makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras import hooks
from migrator.analysis.libraries.keras.objects import arguments_of
from migrator.analysis.values import Data, Function, Instance, Made, Value, of

if TYPE_CHECKING:
    from migrator.analysis.run import Run

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
    made = [call for call in tree.calls if tree.contains(function, call) and _makes(call)]
    return bool(made) and all(
        _is_class(cst.ensure_type(call.func, cst.Attribute).value) and _is_kept(run, function, call.args[0].value)
        for call in made
    )


# Matchers of libcst's would take longer to import than all else of it.


def _makes(node: cst.CSTNode) -> bool:
    """`….from_config(config)`"""
    return _is_of_method(node, "from_config") and len(cst.ensure_type(node, cst.Call).args) == 1


def _is_config(node: cst.CSTNode) -> bool:
    """`….get_config()`"""
    return _is_of_method(node, "get_config") and not cst.ensure_type(node, cst.Call).args


def _is_of_method(node: cst.CSTNode, name: str) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == name


def _is_class(node: cst.CSTNode) -> bool:
    """`type(layer)`, `layer.__class__`"""
    if isinstance(node, cst.Call):
        return isinstance(node.func, cst.Name) and node.func.value == "type" and len(node.args) == 1
    return isinstance(node, cst.Attribute) and node.attr.value == "__class__"


def _is_kept(run: Run, function: cst.CSTNode, config: cst.BaseExpression) -> bool:
    if not isinstance(config, cst.Name):
        return _is_config(config)
    tree = run.tree
    bindings = tree.scopes[function].bindings.get(config.value, ()) if function in tree.scopes else ()
    assigned = bindings[0].node if len(bindings) == 1 else None
    if not isinstance(assigned, cst.Assign) or not _is_config(assigned.value):
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
    return isinstance(parent, cst.Arg) and _makes(run.tree.parent[parent])
