"""What a program asks and sets of its own objects, classes, functions and names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from keyword import iskeyword
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import named_modules, namespaces
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments, Handler
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras import hooks
from migrator.analysis.libraries.python import made_names
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import Sharded
from migrator.analysis.values import (
    NONE,
    NOTHING,
    NUMBER,
    Bound,
    Container,
    Curried,
    External,
    File,
    Function,
    Tuple,
    Value,
)
from migrator.facts.names import api

if TYPE_CHECKING:
    from migrator.analysis.run import Run


# With what a text may set names by their texts.
_PUTTING = frozenset({
    "globals", "locals", "vars", "setattr", "exec", "eval", "modules", "import_module", "__import__", "__dict__",
    "__setattr__", "f_globals", "f_locals",
})  # fmt: skip


def _curried(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    if not args.positional:
        return NUMBER
    kept = args.mapped(v.forgotten)
    return v.of(Curried(kept.positional[0], tuple(kept.positional[1:]), tuple(kept.keywords.items())))


def _class_of(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`type(obj)`: the class of one of the program's, and what surely is a list, tuple or dictionary, or no such thing;
    others are not told."""
    if len(args.positional) != 1:
        return _replicated(run, args, node, frame)
    value = args.positional[0]
    classes = [v.of(a.cls) for a in value if isinstance(a, v.Instance)]
    classes += [v.of(External(a.path)) for a in value if isinstance(a, v.Made) and api.METRIC_CLASS.match(a.path)]
    is_all = value.data is None and len(classes) == len(value.objects)
    kinds = _structures(value)
    # Of what a call has made it is only known what it can do: a `deque` is a list here.
    is_written = not any(isinstance(a, Container) and isinstance(a.site.node, cst.Call) for a in value)
    if kinds is not None and len(kinds) == 1 and is_written:
        return v.of(External(f"builtins.{kinds.pop() or 'object'}"))
    return v.join_all([*classes, *([] if classes and is_all else [_replicated(run, args, node, frame)])])


def _bound_method(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`types.MethodType(function, obj)`"""
    if len(args.positional) != 2:
        return v.unseen("the method that is made here is not seen")
    function, receiver = args.positional
    return Value(function.data, frozenset(Bound(a, receiver) if isinstance(a, Function) else a for a in function))


def _kind_of_method(kind: str) -> Handler:
    """`staticmethod(function)`, `property(getter, setter)`"""

    def make(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        return v.of(Tuple((v.constant(kind), *args.positional[:2]))) if args.positional else NUMBER

    return make


def _same(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    return args.positional[0] if args.positional else _first_keyword(args)


def _first_keyword(args: Arguments) -> Value:
    return next(iter(args.keywords.values()), NUMBER)


def _get_attribute(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    if len(args.positional) < 2:
        return v.unseen("what getattr gives is not seen")
    owner, name = args.positional[0], args.positional[1].constant
    if isinstance(name, str):
        found = run.objects.attribute(owner, name, node)
    else:
        names = made_names.spelled(args.nodes.get(1))
        found = (made_names.attribute(run, owner, names, node) if names is not None else None) or v.unseen(
            "which attribute this is cannot be seen"
        )
    return v.join(found, args.positional[2]) if len(args.positional) > 2 else found


def _set_attribute(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    if len(args.positional) != 3:
        return NONE
    owner, name, value = args.positional
    if isinstance(name.constant, str):
        run.objects.store_attribute(owner, name.constant, value, node)
    else:
        run.redefined.store_somewhere(owner, value, node, made_names.spelled(args.nodes.get(1)))
    return NONE


def _delete_attribute(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    if len(args.positional) == 2 and isinstance(args.positional[1].constant, str):
        run.objects.delete_attribute(args.positional[0], args.positional[1].constant)
    return NONE


def set_by_method(run: Run, owner: Value, name: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> bool:
    """`obj.__setattr__(name, value)`, `super().__setattr__(name, value)`; whether it is one of these."""
    handler = {"__setattr__": _set_attribute, "__delattr__": _delete_attribute}.get(name)
    if handler is not None:
        handler(run, args.behind(owner), node, frame)
    return handler is not None


def _namespace(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`vars(obj)`; without one, `globals()`."""
    if args.positional:
        return run.objects.attribute(args.positional[0], namespaces.ATTRIBUTE, node)
    return namespaces.of(v.of(File(run.tree.module_of(node))))


def _named_module(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`importlib.import_module("steps")`; what one gives whose name is not seen, is not seen either."""
    name = args.get("name", 0)
    text = name.constant if name is not None else None
    if not isinstance(text, str) or not text:
        return run.libraries.unread("importlib.import_module", args, node, frame)
    is_outermost = len(args.positional) + len(args.keywords) == 1 and _is_statement_s(run, node)
    return named_modules.told(run, text.partition(".")[0] if is_outermost and not text.startswith(".") else text, node)


def _module_if_there(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`sys.modules.get("steps")`"""
    name, other = args.get("key", 0), args.get("default", 1)
    return v.join(named_modules.named(run, NUMBER if name is None else name, node), NONE if other is None else other)


def _is_statement_s(run: Run, node: cst.CSTNode) -> bool:
    """Whether the call is of `__import__`, which gives the outermost package."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "__import__"


def _execute(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`exec(text)`: what it leaves behind in the names around it is not seen; of a preparation whose text is not seen
    either, it is settings."""
    unseen = v.unseen("what the text that is run here sets is not seen")
    for space in args.positional[1:]:
        run.objects.store_item(space, NUMBER, unseen, node)
    text = args.positional[0].constant if len(args.positional) == 1 else None
    if isinstance(text, str):
        _set_names(run, text, unseen, node, frame)
        return NONE
    if len(args.positional) == 1 and not frame.loops and frame.parent is None:
        for name, value in list((frame.names or {}).items()):
            if value.constant is not NOT_CONSTANT:
                run.bindings.assign(name, v.join(value, NUMBER), frame)
    elif len(args.positional) == 1:
        for name, value in (frame.names or {}).items():
            if value.data is not None and not value.objects:
                run.bindings.assign(name, unseen, frame)
    return NONE


def _evaluate(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`eval("Generator")`, `eval("layers.Dense")`: what the names stand for there, where the text is seen and nothing
    else."""
    text = args.positional[0].constant if len(args.positional) == 1 and not args.keywords else None
    first, *inner = text.strip(" \t").split(".") if isinstance(text, str) else [""]
    if not all(name.isidentifier() and not iskeyword(name) for name in (first, *inner)):
        if isinstance(text, str):
            _set_names(run, text, v.unseen("what the text that is run here sets is not seen"), node, frame)
        return run.libraries.unread("builtins.eval", args, node, frame)
    found = run.bindings.load(first, frame)
    for name in inner:
        found = run.objects.attribute(found, name, node)
    return found


def _set_names(run: Run, text: str, value: Value, node: cst.CSTNode, frame: Frame) -> None:
    """Gives the value to all that the text sets: names, and what it puts there by their names."""
    for name in _set_by_text(text):
        known = (frame.names or {}).get(name, NOTHING)
        hooks.note_put(run, name, known, value, node)
        run.bindings.assign(name, v.join(known, value), frame)
    for name in _put_by_text(text):
        run.objects.store_attribute(named_modules.told(run, named_modules.MAIN, node), name, value, node)


def _put_by_text(text: str) -> Iterator[str]:
    """The names by which the text may put something into the file: `globals().update(f=worst)`."""
    try:
        nodes = list(ast.walk(ast.parse(text.strip())))
    except (SyntaxError, ValueError):
        return
    asked = {n.id for n in nodes if isinstance(n, ast.Name)} | {n.attr for n in nodes if isinstance(n, ast.Attribute)}
    if asked.isdisjoint(_PUTTING):
        return
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from re.findall(r"\w+", node.value)
        elif isinstance(node, ast.keyword) and node.arg is not None:
            yield node.arg


def _set_by_text(text: str) -> Iterator[str]:
    """The names of what the text binds or changes."""
    try:
        nodes = list(ast.walk(ast.parse(text.strip())))
    except (SyntaxError, ValueError):
        return
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
            owner: ast.expr = node
            while isinstance(owner, (ast.Attribute, ast.Subscript)):
                owner = owner.value
            if isinstance(owner, ast.Name):
                yield owner.id


def _set_item(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`operator.setitem(owner, key, value)`"""
    if len(args.positional) == 3:
        owner, key, value = args.positional
        run.objects.store_item(owner, key, value, node)
    return NONE


def _structures(value: Value) -> set[str] | None:
    """The kinds of structures that the value surely is one of, "" for a tensor; None where that is not seen."""
    if value.data is not None:
        is_tensor = isinstance(value.data.placement, Sharded) and not value.data.nested and not value.objects
        return {""} if is_tensor else None
    kinds = {
        "tuple" if isinstance(a, Tuple) else a.kind if isinstance(a, Container) and a.kind in ("list", "dict") else ""
        for a in value.objects
    }
    return kinds if "" not in kinds else None


def _is_instance(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    """`isinstance(data, tuple)`, where a value surely is one, or a tensor; else either."""
    value = args.positional[0] if args.positional else NOTHING
    classes = args.positional[1] if len(args.positional) > 1 else NOTHING
    asked = [a.path if isinstance(a, External) else "" for x in (classes, run.objects.parts(classes)) for a in x]
    if not asked or not set(asked) <= {"builtins.tuple", "builtins.list", "builtins.dict"}:
        return NUMBER
    kinds = _structures(value)
    if kinds is None:
        return NUMBER
    found = {f"builtins.{kind}" in asked for kind in kinds}
    return v.constant(found.pop()) if len(found) == 1 else NUMBER


def _replicated(run: Run, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
    return NUMBER


FUNCTIONS: dict[str, Handler] = {
    "functools.partial": _curried,
    "types.MethodType": _bound_method,
    "functools.wraps": lambda run, args, node, frame: v.of(External("python.identity")),
    "python.identity": _same,
    "contextlib.contextmanager": _same,
    "builtins.getattr": _get_attribute,
    "builtins.staticmethod": _kind_of_method("static"),
    "builtins.classmethod": _kind_of_method("class"),
    "builtins.property": _kind_of_method("property"),
    "builtins.setattr": _set_attribute,
    "builtins.object.__setattr__": _set_attribute,
    "builtins.type.__setattr__": _set_attribute,
    "builtins.delattr": _delete_attribute,
    "builtins.__import__": _named_module,
    "importlib.import_module": _named_module,
    "sys.modules.get": _module_if_there,
    "builtins.vars": _namespace,
    "builtins.globals": _namespace,
    "builtins.exec": _execute,
    "builtins.eval": _evaluate,
    "operator.setitem": _set_item,
    "builtins.isinstance": _is_instance,
    "builtins.hasattr": _replicated,
    "builtins.callable": _replicated,
    "builtins.issubclass": _replicated,
    "builtins.type": _class_of,
}
