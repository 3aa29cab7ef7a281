"""From an expression to what it may be: names, attributes, parameters and returns are followed to their origin.

The analysis takes the order of statements into account within a function, and every caller of a function
together. Whatever it cannot follow becomes a `Parameter` or `Unknown`, never a guess.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Callable, cast

import libcst as cst

from migrator.facts import api
from migrator.facts.flow import Flow
from migrator.facts.syntax import argument, dotted
from migrator.facts.tree import Binding, FunctionLike, Tree
from migrator.facts.values import (
    Class,
    Element,
    External,
    Function,
    Literal,
    Member,
    Object,
    Parameter,
    Result,
    Unknown,
    Value,
)

Values = tuple[Value, ...]

_BUILTINS = frozenset(dir(builtins))
_LITERALS = (
    cst.BaseString,
    cst.BaseNumber,
    cst.Tuple,
    cst.List,
    cst.Set,
    cst.Dict,
    cst.ListComp,
    cst.GeneratorExp,
    cst.DictComp,
    cst.SetComp,
)
# Nested calls deeper than this are generated code, not a training script; Python's own stack must not decide.
_MAX_DEPTH = 120
_MOST_VALUES = 32
# After so many evaluations a node every result is kept, even one that a cycle left incomplete: time must stay bounded.
_EVALUATIONS_A_NODE = 2


class Resolver:
    """Evaluates expressions of one script, each once."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._flow = Flow(tree)
        self._memo: dict[cst.CSTNode, Values] = {}
        self._busy: set[cst.CSTNode] = set()
        self._depth = 0
        self._cycles = 0
        self._evaluations = 0
        self._enough = _EVALUATIONS_A_NODE * len(tree.order)
        self._callers: dict[cst.CSTNode, list[cst.Call]] = {}
        self._build_call_graph()

    # -- expressions ---------------------------------------------------------------------------------------------

    def values(self, node: cst.CSTNode | None) -> Values:
        """All that the expression may be; empty where it has no value or depends on itself alone."""
        if node is None:
            return ()
        known = self._memo.get(node)
        if known is not None:
            return known
        if node in self._busy:
            self._cycles += 1
            return ()
        if self._depth > _MAX_DEPTH:
            return (Unknown(node),)
        cycles = self._cycles
        self._busy.add(node)
        self._depth += 1
        try:
            found = _unique(node, self._evaluate(node))
        finally:
            self._depth -= 1
            self._busy.discard(node)
        self._evaluations += 1
        if not self._busy or cycles == self._cycles or self._evaluations > self._enough:
            self._memo[node] = found  # what met a node still being worked out is complete only seen from there
        return found

    def _evaluate(self, node: cst.CSTNode) -> Iterable[Value]:
        if isinstance(node, cst.Name):
            return self._name_values(node)
        if isinstance(node, cst.Attribute):
            return [v for base in self.values(node.value) for v in self.member(base, node.attr.value)]
        if isinstance(node, cst.Call):
            return [v for function in self.values(node.func) for v in self._call_values(function, node)]
        if isinstance(node, cst.IfExp):
            return (*self.values(node.body), *self.values(node.orelse))
        if isinstance(node, cst.BooleanOperation):
            return (*self.values(node.left), *self.values(node.right))
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide):
            paths = [v for v in self.values(node.left) if _is_path(v)]  # pathlib: folder / name
            return paths or (Unknown(node),)
        if isinstance(node, (cst.NamedExpr, cst.Await)):
            return self.values(node.value if isinstance(node, cst.NamedExpr) else node.expression)
        if isinstance(node, cst.Subscript):
            return [v for base in self.values(node.value) for v in self._item_values(base, node)]
        if isinstance(node, cst.Lambda):
            return (Function(node),)
        if isinstance(node, _LITERALS):
            return (Literal(cast(cst.BaseExpression, node)),)
        return (Unknown(node),)

    def _name_values(self, node: cst.Name) -> Iterable[Value]:
        scope = self.tree.scope_of(node).lookup(node.value)
        if scope is None:
            if node.value in _BUILTINS:
                return (External(f"builtins.{node.value}"),)
            starred = [External(api.canonical(f"{module}.{node.value}")) for module in self._starred_modules]
            return starred or (Unknown(node),)
        return [v for binding in self.reaching(node) for v in self.binding_values(binding)]

    @cached_property
    def _starred_modules(self) -> list[str]:
        """TensorFlow's and Keras's modules of which the script imports all names."""
        modules = [
            dotted(node.module)
            for node in self.tree.imports
            if isinstance(node, cst.ImportFrom) and isinstance(node.names, cst.ImportStar) and node.module is not None
        ]
        return [m for m in modules if m.split(".")[0] in ("tensorflow", "keras", "tf_keras")]

    def _item_values(self, base: Value, node: cst.Subscript) -> Iterable[Value]:
        if isinstance(base, Literal) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
            index = node.slice[0].slice.value
            if isinstance(base.node, (cst.List, cst.Tuple)) and isinstance(index, cst.Integer):
                return self.project(base.node, (int(index.value),))
            if isinstance(base.node, cst.Dict):
                return self._dict_values(base.node, index)
        return self._members(base, ())

    def _members(self, base: Value, path: tuple[int, ...]) -> Iterable[Value]:
        """What an element of the value may be, whichever it is, at that path of it."""
        if isinstance(base, Literal) and isinstance(base.node, (cst.Tuple, cst.List, cst.Set)):
            return [v for e in base.node.elements for v in self.project(e.value, path)]
        if isinstance(base, Literal) and isinstance(base.node, (cst.ListComp, cst.GeneratorExp, cst.SetComp)):
            return self.project(base.node.elt, path)
        return (_element(base, path),)

    def _dict_values(self, node: cst.Dict, index: cst.BaseExpression) -> Iterable[Value]:
        pairs = [e for e in node.elements if isinstance(e, cst.DictElement)]
        if isinstance(index, cst.SimpleString):
            same = [
                e
                for e in pairs
                if isinstance(e.key, cst.SimpleString) and e.key.evaluated_value == index.evaluated_value
            ]
            pairs = same or pairs
        return [v for e in pairs for v in self.values(e.value)]

    # -- bindings ------------------------------------------------------------------------------------------------

    def binding_values(self, binding: Binding) -> Values:
        if binding.kind in ("def", "class"):
            node = binding.node
            return (Function(node),) if isinstance(node, cst.FunctionDef) else (Class(cast(cst.ClassDef, node)),)
        if binding.kind == "import":
            return self._import_values(binding)
        if binding.kind == "param":
            return self._parameter_values(cast(cst.Param, binding.node))
        if binding.kind == "for":
            return _unique(binding.node, self._iterated(binding.value, binding.path))
        if binding.kind in ("assign", "with") and binding.value is not None:
            return _unique(binding.node, self.project(binding.value, binding.path))
        return (Unknown(binding.node),)

    def project(self, node: cst.CSTNode, path: tuple[int, ...]) -> Iterable[Value]:
        """The values of that part of the expression which the path of tuple positions leads to."""
        if not path:
            return self.values(node)
        if isinstance(node, (cst.Tuple, cst.List)):
            elements = [e.value for e in node.elements]
            if any(isinstance(e, cst.StarredElement) for e in node.elements) or not -len(elements) <= path[0] < len(
                elements
            ):
                return (Unknown(node),)
            return self.project(elements[path[0]], path[1:])
        if isinstance(node, cst.IfExp):
            return (*self.project(node.body, path), *self.project(node.orelse, path))
        if isinstance(node, cst.Call):
            found: list[Value] = []
            for function in self.values(node.func):
                if isinstance(function, Function) and isinstance(function.node, cst.FunctionDef):
                    if node in self._busy:
                        continue
                    self._busy.add(node)
                    try:
                        for returned in self.returned(function.node):
                            found.extend(self.project(returned, path))
                    finally:
                        self._busy.discard(node)
                else:
                    found.extend(_element(v, path) for v in self._call_values(function, node))
            return found
        return [v for base in self.values(node) for v in self._unpacked(base, path)]

    def _unpacked(self, base: Value, path: tuple[int, ...]) -> Iterable[Value]:
        if isinstance(base, Literal) and isinstance(base.node, (cst.Tuple, cst.List)):
            return self.project(base.node, path)
        return (_element(base, path),)

    def _iterated(self, node: cst.CSTNode | None, path: tuple[int, ...]) -> Iterator[Value]:
        """What a `for` target at that path gets, looking through enumerate, zip and literal sequences."""
        for value in self.values(node):
            if isinstance(value, Literal):
                yield from self._members(value, path)
            elif isinstance(value, Result) and isinstance(value.function, External) and path:
                name, args = value.function.path, value.call.args
                if name == "builtins.enumerate" and path[0] == 1 and args:
                    yield from self._iterated(args[0].value, path[1:])
                elif name == "builtins.zip" and 0 <= path[0] < len(args):
                    yield from self._iterated(args[path[0]].value, path[1:])
                else:
                    yield _element(value, path)
            else:
                yield _element(value, path)

    def _import_values(self, binding: Binding) -> Values:
        alias = cast(cst.ImportAlias, binding.value)
        if isinstance(binding.node, cst.ImportFrom):
            module = dotted(binding.node.module) if binding.node.module is not None else ""
            prefix = "." * len(binding.node.relative) + module
            return (External(api.canonical(f"{prefix}.{dotted(alias.name)}")),)
        full = dotted(alias.name)
        return (External(api.canonical(full if alias.asname is not None else full.split(".")[0])),)

    # -- flow ----------------------------------------------------------------------------------------------------

    def reaching(self, node: cst.Name) -> list[Binding]:
        """The bindings that the name may have its value from where it stands, latest first."""
        return self._flow.reaching(node)

    # -- functions -----------------------------------------------------------------------------------------------

    def returned(self, function: cst.FunctionDef) -> list[cst.BaseExpression]:
        return [r.value for r in self.tree.returns[function] if r.value is not None]

    def _call_values(self, function: Value, call: cst.Call) -> Iterable[Value]:
        if isinstance(function, External):
            if function.path in api.TRANSPARENT_WRAPPERS:
                wrapped = next((a for a in call.args if a.keyword is None and not a.star), None)
                return self.values(wrapped.value) if wrapped else (Result(function, call),)
            return (Result(function, call),)
        if isinstance(function, Class):
            return (Object(function, call),)
        if isinstance(function, Function):
            if isinstance(function.node, cst.Lambda):
                return self.values(function.node.body)
            return [v for node in self.returned(function.node) for v in self.values(node)]
        if (
            isinstance(function, Result)
            and isinstance(function.function, External)
            and function.function.path in api.TRANSPARENT_WRAPPERS
            and call.args  # tf.function(jit_compile=True)(step) and the like
        ):
            return self.values(call.args[0].value)
        return (Result(function, call),)

    def callers(self, function: cst.CSTNode) -> list[cst.Call]:
        """The calls in this script that run the function (for `__init__`, those that build the object)."""
        return self._callers.get(function, [])

    def _build_call_graph(self) -> None:
        """Finds for each function its calls, before anything else is asked: what a parameter is depends on them all."""
        unknown = self._add_calls(self.tree.calls)
        self._memo.clear()
        if unknown:  # functions that reach their caller as a parameter are seen only with the first graph at hand
            self._add_calls(unknown)
            self._memo.clear()

    def _add_calls(self, calls: Iterable[cst.Call]) -> list[cst.Call]:
        """Adds the calls to the graph; returns those whose function is not known yet."""
        unknown = []
        for call in calls:
            functions = self.values(call.func)
            for function in functions:
                for node in self._runs(function):
                    known = self._callers.setdefault(node, [])
                    if call not in known:
                        known.append(call)
            if not functions or any(_depends_on_parameter(f) for f in functions):
                unknown.append(call)
        return unknown

    def _runs(self, function: Value) -> Iterator[cst.CSTNode]:
        if isinstance(function, Function):
            yield function.node
        elif isinstance(function, Class):
            method = self.method(function, "__init__")
            if method is not None:
                yield method
        elif isinstance(function, Object):
            for name in ("__call__", "call"):
                method = self.method(function.of, name)
                if method is not None:
                    yield method

    def _parameter_values(self, param: cst.Param) -> Values:
        function = self.function_of_parameter(param)
        owner = self.owner_class(function)
        if owner is not None and self._is_first(param, function):
            return (Object(Class(owner)),)
        found: list[Value] = []
        for expression in self.arguments(param, function):
            found.extend(self.values(expression))
        return _unique(param, found) or (Parameter(param),)

    def function_of_parameter(self, param: cst.Param) -> FunctionLike:
        return next(o for o in self.tree.ancestors(param) if isinstance(o, (cst.FunctionDef, cst.Lambda)))

    def given(self, param: cst.Param) -> list[cst.BaseExpression]:
        """The expressions that the callers in this script give the parameter, its default among them."""
        return self.arguments(param, self.function_of_parameter(param))

    def _is_first(self, param: cst.Param, function: FunctionLike) -> bool:
        params = (*function.params.posonly_params, *function.params.params)
        return bool(params) and params[0] is param

    def owner_class(self, function: FunctionLike) -> cst.ClassDef | None:
        """The class whose instance the function's first parameter is; None for functions and static methods."""
        if not isinstance(function, cst.FunctionDef):
            return None
        if any(
            isinstance(d.decorator, cst.Name) and d.decorator.value in ("staticmethod", "classmethod")
            for d in function.decorators
        ):
            return None
        return self.tree.class_of(function)

    def arguments(self, param: cst.Param, function: FunctionLike) -> list[cst.BaseExpression]:
        params = [*function.params.posonly_params, *function.params.params]
        position = next((i for i, p in enumerate(params) if p is param), None)
        bound = self.owner_class(function) is not None
        found: list[cst.BaseExpression] = []
        for call in self.callers(function):
            index = position
            if index is not None and bound and not self._passes_self(call):
                index -= 1
            given = argument(call, param.name.value, index)
            if given is not None:
                found.append(given.value)
            elif param.default is not None:
                found.append(param.default)
        return found

    def _passes_self(self, call: cst.Call) -> bool:
        """`Class.method(obj, …)`, against `obj.method(…)` and `Class(…)`."""
        if not isinstance(call.func, cst.Attribute):
            return False
        return any(isinstance(v, Class) for v in self.values(call.func.value)) and not any(
            isinstance(v, Class) for v in self.values(call.func)
        )

    # -- classes -------------------------------------------------------------------------------------------------

    def bases(self, cls: Class) -> Iterator[Value]:
        for arg in cls.node.bases:
            yield from self.values(arg.value)

    def lineage(self, cls: Class) -> list[Class]:
        """The class and its bases as far as the script defines them."""
        found, queue = [], [cls]
        while queue:
            current = queue.pop(0)
            if current not in found:
                found.append(current)
                queue.extend(base for base in self.bases(current) if isinstance(base, Class))
        return found

    def derives_from(self, cls: Class, is_wanted: Callable[[str], bool]) -> bool:
        return any(
            isinstance(base, External) and is_wanted(base.path)
            for ancestor in self.lineage(cls)
            for base in self.bases(ancestor)
        )

    def method(self, cls: Class, name: str) -> cst.FunctionDef | None:
        for ancestor in self.lineage(cls):
            for binding in self.tree.scopes[ancestor.node].bindings.get(name, ()):
                if isinstance(binding.node, cst.FunctionDef):
                    return binding.node
        return None

    def member(self, base: Value, name: str) -> Iterable[Value]:
        """What `base.name` is."""
        if isinstance(base, External):
            return (External(api.canonical(f"{base.path}.{name}")),)
        if isinstance(base, Class):
            method = self.method(base, name)
            if method is not None:
                return (Function(method),)
            return self._class_attribute(base, name) or (Member(base, name),)
        if isinstance(base, Object):
            return self._object_member(base, name)
        return (Member(base, name),)

    def _object_member(self, base: Object, name: str) -> Iterable[Value]:
        method = self.method(base.of, name)
        if method is not None:
            if any(isinstance(d.decorator, cst.Name) and d.decorator.value == "property" for d in method.decorators):
                return [v for node in self.returned(method) for v in self.values(node)]
            return (Function(method, base),)
        found = [v for b in self.attribute_bindings(base.of, name) for v in self.binding_values(b)]
        return found or self._class_attribute(base.of, name) or (Member(base, name),)

    def _class_attribute(self, cls: Class, name: str) -> list[Value]:
        return [
            v
            for ancestor in self.lineage(cls)
            for b in self.tree.scopes[ancestor.node].bindings.get(name, ())
            for v in self.binding_values(b)
        ]

    def attribute_bindings(self, cls: Class, name: str) -> list[Binding]:
        """Where `self.name` of the class, its bases or its subclasses gets a value, or `obj.name` from outside."""
        family = set(self.lineage(cls))
        found = []
        for binding in self.tree.attributes.get(name, ()):
            target = cast(cst.Attribute, binding.target)
            for owner in self.values(target.value):
                if isinstance(owner, Object) and (owner.of in family or cls in self.lineage(owner.of)):
                    found.append(binding)
                    break
        return found


def _is_path(value: Value) -> bool:
    return isinstance(value, Result) and isinstance(value.function, External) and value.function.path == "pathlib.Path"


def _depends_on_parameter(value: Value) -> bool:
    while isinstance(value, (Member, Result, Element)):
        value = value.owner if isinstance(value, Member) else value.of if isinstance(value, Element) else value.function
    return isinstance(value, Parameter)


def _element(base: Value, path: tuple[int, ...] = ()) -> Element:
    """An element of a value; of an element of an element no more is known than of the first."""
    return Element(base.of) if isinstance(base, Element) else Element(base, path)


def _unique(node: cst.CSTNode, values: Iterable[Value]) -> Values:
    """The values, each once; of an expression that may be too many things, nothing is known."""
    found: dict[Value, None] = {}
    for value in values:
        found.setdefault(value)
        if len(found) > _MOST_VALUES:
            return (Unknown(node),)
    return tuple(found)
