"""Which functions of the script run where no call shows it: handed on, stored, wrapped by decorators, or operators.

What they run with is an over-approximation: a function that the script stores or hands on may run wherever it is not
seen what is called, with all that is given there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Callable, Optional

import libcst as cst

from migrator.facts.names import api
from migrator.facts.objects.kinds import Kinds, origin
from migrator.facts.objects.operators import Operators
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import (
    Class,
    Element,
    External,
    File,
    Function,
    Literal,
    Member,
    Object,
    Parameter,
    Result,
    Unknown,
    Value,
    calls,
)
from migrator.facts.program.syntax import text_of
from migrator.facts.program.tree import FunctionLike, Tree
from migrator.facts.program.unnamed import Unnamed
from migrator.worklist import Worklist

_PARTIAL = External("functools.partial")
_SETATTR = External("builtins.setattr")
_DISPATCHING = (External("functools.singledispatch"), External("functools.singledispatchmethod"))
_METHOD = "types.MethodType"
# Calls that give back what a container holds, or an attribute.
_TAKING_OUT = frozenset({
    "builtins.getattr", "builtins.next", "builtins.iter", "builtins.vars", "builtins.globals", "builtins.locals",
    "builtins.eval", "operator.itemgetter", "operator.attrgetter",
})  # fmt: skip
_CONTAINERS = ("builtins.", "collections.", "types.SimpleNamespace", "copy.", "itertools.", "weakref.")
# Methods that put what they are given into their object.
_PUTTING = frozenset({
    "append", "appendleft", "extend", "extendleft", "insert", "update", "setdefault", "put", "put_nowait", "add",
    "subtract", "write", "assign", "assign_add", "assign_sub", "update_state", "__setitem__",
})  # fmt: skip
# They run what they are given on rows or tables of theirs, and make no function of it that the script could call with
# something else unseen: of what a layer or a loss runs, the parameters are known to be a worker's rows.
_RUNNING = (
    "tensorflow.data.", "keras.layers.", "keras.losses.", "keras.metrics.", "tensorflow.feature_column.", "pandas.",
    "keras.preprocessing.",
    "builtins.map", "builtins.filter", "builtins.sorted", "builtins.min", "builtins.max", "functools.reduce",
)  # fmt: skip
# They keep the functions that they are given, in what they make or as they are: none runs yet.
_KEEPING = re.compile(
    r"^functools\.partial$|^tensorflow\.feature_column\.|^builtins\.(?:zip|enumerate|list|tuple|reversed|dict|len)$"
    r"|^keras\.(?:activations|initializers|regularizers|constraints|losses|metrics)\.get$"
)


RunAt = Callable[[cst.Call], Optional[Collection[FunctionLike]]]


class Indirect:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, run_at: RunAt) -> None:
        """`run_at`: the functions of the program that the abstract run has seen a call run, and no other; None where it
        has not seen all of them."""
        self.tree = tree
        self.run_at = run_at
        self.resolver = resolver
        self.kinds = kinds
        self.operators = Operators(tree, resolver, self._run_by)
        self._unnamed = Unnamed(tree)

    # -- calls ---------------------------------------------------------------------------------------------------

    def handed(self, call: cst.Call) -> tuple[list[FunctionLike], list[cst.BaseExpression]]:
        """The functions that the call may run with what it is given, and what that is."""
        values = self.resolver.values(call.func)
        if values and (_PARTIAL in values or all(isinstance(v, External) and _KEEPING.match(v.path) for v in values)):
            return [], []  # nothing runs yet
        given = self.given_by(call)
        ended = {arg.value for value in values for arg in _making(value) if _runs_while_made(value, arg)}
        running = [node for node in given if node not in ended]
        found = [f for node in running for v in self.resolver.values(node) for f in self._run_by(v)]
        by_name = [(f, value) for value in values for f in self._looked_up(value)]
        found += [f for f, value in by_name if calls(value) == "operator.methodcaller" or accepts(f, call)]
        found += [f for f in self._methods_of_unseen(call) if accepts(f, call)]
        if self._is_unseen(call):
            found += [f for f in self._escaped if accepts(f, call)]
        found += [w for f in found if isinstance(f, cst.FunctionDef) for w in self.wrappers(f)]
        found += [f for f in self.run_at(call) or () if call not in self.resolver.callers(f)]
        return list(dict.fromkeys(found)), given

    def given_by(self, call: cst.Call) -> list[cst.BaseExpression]:
        """What the call gives, and what its function was made with."""
        made = [node for value in self.resolver.values(call.func) for node in _built_with(value)]
        return [*(arg.value for arg in call.args), *made]

    def _methods_of_unseen(self, call: cst.Call) -> list[cst.FunctionDef]:
        """The methods of that name, where one is called of an object that may be any: `HOOKS[name]().after(loss)`."""
        methods = self.tree.methods.get(call.func.attr.value, []) if isinstance(call.func, cst.Attribute) else []
        values = self.resolver.values(call.func) if methods else ()
        return methods if methods and (not values or any(map(_is_of_any, values))) else []

    def _is_unseen(self, call: cst.Call) -> bool:
        """Whether the call may run functions that it does not show."""
        if self.run_at(call) is not None or self._unnamed.is_of_no_object(call):
            return False
        if isinstance(call.func, cst.Attribute):
            if self.is_overwritten(call):
                return True
            if call.func.attr.value not in self.tree.attributes:
                return False
        values = self.resolver.values(call.func)
        return not values or any(map(_may_be_any, values))

    def is_overwritten(self, call: cst.Call) -> bool:
        """Whether the method that is called may be another function by now."""
        return isinstance(call.func, cst.Attribute) and call.func.attr.value in self._overwritten

    @cached_property
    def _overwritten(self) -> set[str]:
        """The names of methods in whose place the script puts functions: `trainer.step = other`."""
        methods = {function.name.value for function in self.tree.functions if self.tree.class_of(function) is not None}
        found = set()
        for name in methods & self.tree.attributes.keys():
            given = [v for b in self.tree.attributes[name] for v in self.resolver.values(b.value)]
            if any(isinstance(v, (Function, Unknown, Element)) or calls(v) == _METHOD for v in given):
                found.add(name)
        for call in self.tree.calls:
            if len(call.args) == 3 and _SETATTR in self.resolver.values(call.func):
                put = self.resolver.values(call.args[2].value)
                name = text_of(call.args[1].value)
                if any(isinstance(v, Function) or calls(v) == _METHOD for v in put):
                    found |= {name} if name else methods
        return found

    def _looked_up(self, value: Value) -> Iterator[FunctionLike]:
        """What a function may be that is found by its name: `getattr(log, "on_" + event)`, `globals()[name]`."""
        while isinstance(value, (Element, Member)):
            value = value.of if isinstance(value, Element) else value.owner
        path = calls(value)
        if path == "operator.methodcaller" and isinstance(value, Result) and value.call.args:
            name = text_of(value.call.args[0].value)
            methods = (f for f in self.tree.functions if self.tree.class_of(f) is not None)
            yield from (f for f in methods if name in ("", f.name.value))
        if path in ("builtins.globals", "builtins.locals", "builtins.vars", "builtins.eval"):
            yield from self.tree.functions
        elif path == "builtins.getattr" and isinstance(value, Result) and len(value.call.args) > 1:
            name = text_of(value.call.args[1].value)
            owners = self.resolver.values(value.call.args[0].value)
            classes = {
                c.node for v in owners if isinstance(v, (Object, Class)) for c in self.resolver.kin(_class_of(v))
            }
            is_seen = bool(owners) and all(isinstance(v, (Object, Class)) for v in owners)
            files = {v.node for v in owners if isinstance(v, File)}
            for function in self.tree.functions:
                cls, module = self.tree.class_of(function), self.tree.module_of(function)
                is_there = cls in classes or (not is_seen and cls is not None) or (cls is None and module in files)
                if is_there and name in ("", function.name.value):
                    yield function

    def _run_by(self, value: Value) -> Iterator[FunctionLike]:
        """The functions of the script that run when somebody calls the value."""
        if isinstance(value, Function):
            yield value.node
        elif isinstance(value, Object) and not self._is_of_keras(value):
            method = self.resolver.method(value.of, "__call__")
            if method is not None:
                yield method
        elif isinstance(value, Result) and value.function == _PARTIAL and value.call.args:
            for inner in self.resolver.values(value.call.args[0].value):
                if inner != value:
                    yield from self._run_by(inner)
        elif isinstance(value, Literal) and isinstance(value.node, (cst.List, cst.Tuple, cst.Dict)):
            for element in value.node.elements:
                for inner in self.resolver.values(element.value):
                    if not isinstance(inner, Literal):
                        yield from self._run_by(inner)

    def _is_of_keras(self, value: Object) -> bool:
        return self.kinds.has_weights(value) or self.resolver.derives_from(
            value.of, lambda path: path.startswith(("keras.", "tensorflow."))
        )

    def _is_called_by_keras(self, method: cst.FunctionDef) -> bool:
        cls = self.tree.class_of(method)
        return cls is not None and self._is_of_keras(Object(Class(cls)))

    def given_to(self, function: FunctionLike) -> list[cst.CSTNode]:
        """What the function may run with besides what the calls give it that show it."""
        return self._given.get(function, [])

    @cached_property
    def _given(self) -> dict[cst.CSTNode, list[cst.CSTNode]]:
        found: dict[cst.CSTNode, dict[cst.CSTNode, None]] = defaultdict(dict)
        for call in self.tree.calls:
            functions, given = self.handed(call)
            for function in (*functions, *self.wrappers_run_by(call)):
                found[function].update(dict.fromkeys(given))
        asking = [node for node, _ in self.operators.lookups.found if isinstance(node, cst.Call)]
        for node in (*self.tree.all_of(cst.BinaryOperation, cst.Comparison, cst.Subscript, cst.AugAssign), *asking):
            for method, operands in self.operators.run(node):
                found[method].update(dict.fromkeys(operands))
        return {function: list(given) for function, given in found.items()}

    @cached_property
    def _escaped(self) -> list[FunctionLike]:
        """Functions of the script that it stores or hands on, so that calls may run them that do not show it."""
        found: dict[FunctionLike, None] = {}
        for function in self.tree.functions:
            if self.wrappers(function) or any(
                any(isinstance(v, Function) and v.node is function for v in self.resolver.values(node))
                for node in self._read_apart(function.name.value)
                if not self._is_run_where_given(node) and not self._is_made_to_be_given(function, node)
            ):
                found[function] = None
        # Nothing reads the name of what runs where objects are called that are not seen.
        found.update((f, None) for f in self.tree.methods.get("__call__", ()) if not self._is_called_by_keras(f))
        found.update((node, None) for node in self.tree.all_of(cst.Lambda) if self._escapes(node))
        return list(found)

    def _is_run_where_given(self, function: cst.BaseExpression) -> bool:
        """Whether the function is handed to what runs it itself, with what that has, and gives it to nobody."""
        parent = self.tree.parent.get(function)
        call = self.tree.parent.get(parent) if isinstance(parent, cst.Arg) else None
        values = self.resolver.values(call.func) if isinstance(call, cst.Call) else ()
        return bool(values) and all(origin(v).startswith(_RUNNING) for v in values)

    def _is_made_to_be_given(self, function: FunctionLike, read: cst.CSTNode) -> bool:
        """Whether its maker returns it there, of which nothing reads the name but calls that hand it to what runs it
        itself: `Lambda(shuffled(2))`."""
        maker = self.tree.function_of(function)
        if not isinstance(maker, cst.FunctionDef) or maker.decorators:
            return False
        if not isinstance(self.tree.parent.get(read), cst.Return) or self.tree.function_of(read) is not maker:
            return False
        callers = self.resolver.callers(maker)
        is_seen = len(self.tree.names[maker.name.value]) == len(callers) + 1
        return is_seen and bool(callers) and all(map(self._is_run_where_given, callers))

    def _escapes(self, function: cst.Lambda) -> bool:
        parent = self.tree.parent.get(function)
        if not isinstance(parent, cst.Assign) or not all(isinstance(t.target, cst.Name) for t in parent.targets):
            return not self._is_run_where_given(function) and not self._is_made_to_be_given(function, function)
        return any(
            any(isinstance(v, Function) and v.node is function for v in self.resolver.values(node))
            for target in parent.targets
            for node in self._read_apart(cst.ensure_type(target.target, cst.Name).value)
        )

    def _read_apart(self, name: str) -> Iterator[cst.Name | cst.Attribute]:
        """Where the name is read, of an object, too, and is not that of what is called there."""
        for node in self.tree.names.get(name, ()):
            read: cst.Name | cst.Attribute = node
            parent = self.tree.parent.get(read)
            if isinstance(parent, cst.Attribute) and parent.attr is read:
                read, parent = parent, self.tree.parent.get(parent)
            if isinstance(parent, cst.Call) and parent.func is read:
                continue
            if isinstance(parent, cst.Arg) and parent.keyword is read:
                continue
            if not isinstance(parent, (cst.FunctionDef, cst.ImportAlias, cst.Decorator)):
                yield read

    # -- methods of containers -----------------------------------------------------------------------------------

    def put_by(self, call: cst.Call) -> list[cst.BaseExpression]:
        """The containers into which the call may put what it is given, by methods of theirs that it is handed or that
        the script has stored: `map(found.append, losses)`."""
        found = {a: None for arg in call.args for a in self._methods_behind(arg.value)}
        values = self.resolver.values(call.func)
        more: list[cst.BaseExpression] = []
        for value in values:
            if calls(value) == "operator.methodcaller":
                more += [arg.value for arg in call.args]
            elif calls(value) == "builtins.getattr" and isinstance(value, Result):
                more += [arg.value for arg in value.call.args[:1]]
            if isinstance(value, Result) and value.function == _PARTIAL and value.call.args:
                found.update(dict.fromkeys(self._methods_behind(value.call.args[0].value)))
        is_direct = isinstance(call.func, cst.Attribute) and any(isinstance(v, Member) for v in values)
        is_unseen = self._is_unseen(call)
        if not is_direct and (is_unseen or any(isinstance(v, Member) for v in values)):
            found.update(dict.fromkeys(self._stored_methods))
        return list(dict.fromkeys([*(method.value for method in found), *more]))

    def _methods_behind(self, node: cst.BaseExpression) -> Iterator[cst.Attribute]:
        pending = Worklist([node])  # `f = partial(f, …)` is behind itself, as far as names tell
        for node in pending:
            for value in self.resolver.values(node):
                if isinstance(value, Member) and value.name in _PUTTING:
                    yield from self._methods_met(node, value)
                elif isinstance(value, Result) and value.function == _PARTIAL and value.call.args:
                    pending.append(value.call.args[0].value)

    def _methods_met(self, node: cst.BaseExpression, value: Member) -> list[cst.Attribute]:
        if isinstance(node, cst.Attribute):
            return [node]
        return [method for method in self._stored_methods if value in self.resolver.values(method)]

    @cached_property
    def _stored_methods(self) -> list[cst.Attribute]:
        found = []
        for node in self.tree.all_of(cst.Attribute):
            if node.attr.value in _PUTTING:
                parent = self.tree.parent.get(node)
                if isinstance(parent, cst.Call) and parent.func is node:
                    continue
                if any(isinstance(v, Member) for v in self.resolver.values(node)):
                    found.append(node)
        return found

    # -- decorators ----------------------------------------------------------------------------------------------

    def wrappers_run_by(self, call: cst.Call) -> list[FunctionLike]:
        """The functions that run instead of those that the call names."""
        found: dict[FunctionLike, None] = {}
        for value in self.resolver.values(call.func):
            if isinstance(value, Function) and isinstance(value.node, cst.FunctionDef):
                found.update(dict.fromkeys(self.wrappers(value.node)))
        return list(found)

    def wrappers(self, function: cst.FunctionDef) -> list[FunctionLike]:
        """What decorators of the script's own make of the function."""
        return self._wrappers.get(function, [])

    @cached_property
    def _wrappers(self) -> dict[cst.FunctionDef, list[FunctionLike]]:
        found: dict[cst.FunctionDef, list[FunctionLike]] = {}
        for function in self.tree.functions:
            made: dict[FunctionLike, None] = dict.fromkeys(self._dispatched_to(function))
            for decorator in function.decorators:
                for value in self.resolver.values(decorator.decorator):
                    made.update(dict.fromkeys(self._made_by(value)))
            made.pop(function, None)
            if made:
                found[function] = list(made)
        return found

    def _dispatched_to(self, function: cst.FunctionDef) -> Iterator[FunctionLike]:
        """The functions of which `@functools.singledispatch` picks one by the type of an argument."""
        if any(v in _DISPATCHING for d in function.decorators for v in self.resolver.values(d.decorator)):
            for other in self.tree.functions:
                for decorator in (d.decorator for d in other.decorators):
                    registers = decorator.func if isinstance(decorator, cst.Call) else decorator
                    if isinstance(registers, cst.Attribute) and registers.attr.value == "register":
                        yield other

    def _made_by(self, decorator: Value) -> Iterator[FunctionLike]:
        if isinstance(decorator, Class):
            method = self.resolver.method(decorator, "__call__")
            if method is not None:
                yield method
        for function in self._run_by(decorator):
            for node in self.resolver.returned_by_itself(function):
                for value in self.resolver.values(node):
                    yield from self._run_by(value)


def accepts(function: FunctionLike, call: cst.Call) -> bool:
    """Whether the function may be called with so many arguments."""
    params = function.params
    if isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None or any(a.star for a in call.args):
        return True
    every = [*params.posonly_params, *params.params]
    is_method = bool(every) and every[0].name.value == "self"
    needed = len([p for p in every if p.default is None]) - is_method
    return needed <= len(call.args) <= len(every) + len(params.kwonly_params)  # by `Class.method`, too


def _may_be_any(value: Value) -> bool:
    """Whether the value may be any function that the script has stored."""
    if isinstance(value, (Parameter, Unknown, Element)):
        return True
    if isinstance(value, Member):  # `Hooks.end = …`
        return isinstance(value.owner, (Class, Object, Function))
    if not isinstance(value, Result):
        return False
    if isinstance(value.function, External):
        return value.function.path in _TAKING_OUT
    path = origin(value.function)  # `hooks.get("end")`
    return not path or path.startswith(_CONTAINERS)


def _is_of_any(value: Value) -> bool:
    """Whether it belongs to an object that may be any of the script's."""
    while isinstance(value, (Member, Result)):
        value = value.owner if isinstance(value, Member) else value.function
    return isinstance(value, (Parameter, Unknown, Element))


def _class_of(value: Object | Class) -> Class:
    return value.of if isinstance(value, Object) else value


def _built_with(value: Value) -> list[cst.BaseExpression]:
    return [arg.value for arg in _making(value)]


def _making(value: Value) -> Sequence[cst.Arg]:
    """What the object was built with whose method is called: `Timer(limit, on_end).stop()`."""
    made = _made(value)
    return made.call.args if made is not None else ()


def _made(value: Value) -> Result | None:
    while isinstance(value, (Member, Element)):
        value = value.owner if isinstance(value, Member) else value.of
    return value if isinstance(value, Result) else None


def _runs_while_made(value: Value, arg: cst.Arg) -> bool:
    """Whether a layer was built with it for its weights, or the copy of a model for its layers."""
    made = _made(value)
    if made is not None and isinstance(made.function, External) and made.function.path in api.COPIES:
        return True
    is_told = arg.keyword is not None and api.takes_weights(arg.keyword.value)
    return is_told and origin(value).startswith("keras.layers.")
