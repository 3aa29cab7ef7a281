"""What may train in files that are imported and not among those of the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import libcst as cst

from migrator.facts.names import api
from migrator.facts.objects.values import Object, Value, calls
from migrator.facts.program.syntax import imported_modules, method_called
from migrator.facts.script import Facts
from migrator.facts.startup.missing import files_imported, missing_files

# Methods of Keras's models and layers that train nothing.
_LOOKING = api.INFERENCE | {
    "summary", "save", "save_weights", "load_weights", "get_weights", "set_weights", "get_config", "from_config",
    "export", "build", "get_layer",
}  # fmt: skip
_SYMBOLS = frozenset({"keras.Input", "keras.layers.Input"})  # what layers are called with while a model is built


def may_train(facts: Facts) -> Iterator[cst.Call]:
    """The calls by which a missing file may train, in a program in which nothing is seen to: it is given a model or a
    dataset, or in a script of TensorFlow what a missing file has made, for nothing that the script would keep; or a
    class of the program's has its methods from there."""
    if facts.trains or not any(True for node in facts.tree.imports for _ in files_imported(facts, node)):
        return
    for call in facts.tree.calls:
        owner = call.func.value if isinstance(call.func, cst.Attribute) else call.func
        name = method_called(call)
        if next(missing_files(facts, owner), None) is not None and name not in _LOOKING:
            given = [v for arg in call.args for v in facts.resolver.values(arg.value)]
            is_made_there = any(next(missing_files(facts, arg.value), None) for arg in call.args)
            is_made_there = is_made_there and isinstance(facts.tree.parent.get(call), cst.Expr)
            if (is_made_there and _uses_tensorflow(facts, call)) or any(_may_be_trained(facts, v) for v in given):
                yield call
        elif isinstance(call.func, cst.Attribute) and name not in _LOOKING:
            values = facts.resolver.values(owner)
            if any(_is_heir(facts, v) and _is_inherited(facts, v, call.func.attr.value) for v in values):
                yield call


def _uses_tensorflow(facts: Facts, call: cst.Call) -> bool:
    here = (node for node in facts.tree.imports if facts.tree.module_of(node) is facts.tree.module_of(call))
    return any(name.startswith(("tensorflow", "keras")) for node in here for name in imported_modules(node))


def _is_inherited(facts: Facts, value: Value, name: str) -> bool:
    """Whether the object, which is made in the program, has the method from elsewhere."""
    is_made = isinstance(value, Object) and value.call is not None
    return is_made and facts.resolver.method(cast(Object, value).of, name) is None


def _may_be_trained(facts: Facts, value: Value) -> bool:
    is_model = facts.kinds.has_weights(value) and calls(value) not in _SYMBOLS
    return is_model or facts.kinds.is_dataset(value) or _is_heir(facts, value)


def _is_heir(facts: Facts, value: Value) -> bool:
    """Whether it is an object of a class of the program's that derives from one of a missing file."""
    lineage = facts.resolver.lineage(value.of) if isinstance(value, Object) else ()
    return any(True for cls in lineage for base in cls.node.bases for _ in missing_files(facts, base.value))
