"""Files that are imported and not among those of the run: what a refusal could not see may stand there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.names import api, packages
from migrator.facts.objects.values import Class, Object, Value, calls
from migrator.facts.program.syntax import imported_modules
from migrator.facts.program.tree import Binding
from migrator.facts.script import Facts

_SAYS_SO = ("seen", "followed", "known")
_DEEPEST = 4
# Methods of Keras's models and layers that train nothing.
_LOOKING = api.INFERENCE | {
    "summary", "save", "save_weights", "load_weights", "get_weights", "set_weights", "get_config", "from_config",
    "export", "build", "get_layer",
}  # fmt: skip
_SYMBOLS = frozenset({"keras.Input", "keras.layers.Input"})  # what layers are called with while a model is built
_LACKING = "is imported and not among the files given"


def pointed_out(facts: Facts, refusal: Refusal) -> Refusal:
    """The refusal; where what it could not see comes out of a file that is missing, with the name of that file."""
    if isinstance(refusal.node, cst.Module) or not any(word in refusal.reason for word in _SAYS_SO):
        return refusal
    named = next((told for part in _parts(facts, refusal.node) if (told := told_of(facts, part))), "")
    return replace(refusal, advice=f"{named}; or {refusal.advice}") if named else refusal


def told_of(facts: Facts, node: cst.CSTNode) -> str:
    """That the file is missing which a name in the node comes from, and how to give it; empty where none is."""
    name = next(_missing(facts, node, 0), None)
    script = facts.scripts[facts.tree.module_of(node)].path.name
    return f"{name} {_LACKING}: migrate {script} {name}" if name is not None else ""


def told_of_training(facts: Facts, call: cst.Call) -> str:
    """The same of a call by which a missing file may train: what it is called on may have it from there."""
    owner = call.func.value if isinstance(call.func, cst.Attribute) else call.func
    classes = [v.of for v in facts.resolver.values(owner) if isinstance(v, Object)]
    bases = [base.value for cls in classes for c in facts.resolver.lineage(cls) for base in c.node.bases]
    return next((told for node in (owner, *bases) if (told := told_of(facts, node))), "")


def names_a_file(refusal: Refusal) -> bool:
    """Whether the refusal says that a file is missing."""
    return _LACKING in refusal.advice


def _parts(facts: Facts, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """What the site is made of, then its statement, then what the loops around it go through."""
    yield node
    statement = facts.tree.statement_of(node)
    if isinstance(statement, cst.SimpleStatementLine):
        yield statement
    for loop in facts.tree.loops_around(node):
        yield loop.iter if isinstance(loop, cst.For) else loop.test


def _missing(facts: Facts, node: cst.CSTNode, depth: int) -> Iterator[str]:
    """The files, as they are imported, that the names in the node come from, directly or through assignments."""
    for name in facts.tree.names_in(node):
        for binding in facts.resolver.reaching(name) if facts.tree.parent.get(name) is not None else ():
            if binding.kind == "import":
                yield from _file_of(facts, binding)
            elif binding.kind == "assign" and binding.value is not None and depth < _DEEPEST:
                yield from _missing(facts, binding.value, depth + 1)
        if facts.tree.scope_of(name).lookup(name.value) is None:
            for starred in facts.tree.imports:
                if isinstance(starred, cst.ImportFrom) and isinstance(starred.names, cst.ImportStar):
                    yield from _file(facts, starred)


def _file_of(facts: Facts, binding: Binding) -> Iterator[str]:
    node: cst.CSTNode | None = binding.node
    while node is not None and not isinstance(node, (cst.Import, cst.ImportFrom)):
        node = facts.tree.parent.get(node)
    if node is not None:
        yield from _file(facts, node)


def _file(facts: Facts, node: cst.Import | cst.ImportFrom) -> Iterator[str]:
    for name in imported_modules(node):
        top = name.lstrip(".").split(".")[0]
        is_given = facts.joining.is_of_program(node)
        if top and not is_given and not (_is_package(top) or facts.sources.has(top)):
            yield f"{Path(*name.lstrip('.').split('.'))}.py"


def _is_package(name: str) -> bool:
    return name.startswith(("tensorflow", "keras")) or packages.is_there(name)


# -- what may train out of sight ---------------------------------------------------------------------------------------


def may_train(facts: Facts) -> Iterator[cst.Call]:
    """The calls by which a missing file may train, in a program in which nothing is seen to: it is given a model or a
    dataset, or in a script of TensorFlow what a missing file has made, for nothing that the script would keep; or a
    class of the program's has its methods from there."""
    if facts.trains or not any(True for node in facts.tree.imports for _ in _file(facts, node)):
        return
    for call in facts.tree.calls:
        owner = call.func.value if isinstance(call.func, cst.Attribute) else call.func
        name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        if next(_missing(facts, owner, 0), None) is not None and name not in _LOOKING:
            given = [v for arg in call.args for v in facts.resolver.values(arg.value)]
            is_made_there = any(next(_missing(facts, arg.value, 0), None) for arg in call.args)
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
    return isinstance(value, Object) and any(file_of_base(facts, cls) for cls in facts.resolver.lineage(value.of))


def file_of_base(facts: Facts, cls: Class) -> str:
    """The missing file that a base of the class comes from; empty where there is none."""
    return next((name for base in cls.node.bases for name in _missing(facts, base.value, 0)), "")
