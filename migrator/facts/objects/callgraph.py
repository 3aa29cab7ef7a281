"""Which calls run a function, and what they give its parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Callable, cast

import libcst as cst

from migrator.facts.names import api
from migrator.facts.names.vocabulary import Role, has_role
from migrator.facts.objects.classes import Classes
from migrator.facts.objects.datasets import is_dataset
from migrator.facts.objects.values import (
    Class,
    Element,
    External,
    Function,
    Member,
    Object,
    Parameter,
    Result,
    Value,
    Values,
    is_strategy,
)
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import Binding, FunctionLike, Tree
from migrator.facts.program.unnamed import Unnamed

_PARTIAL = External("functools.partial")
_OF_CLASSES = frozenset({"__init_subclass__", "__class_getitem__"})

# A function that puts one more in front of its `*args` whenever it calls itself would come to no end.
_MOST_ARGUMENTS = 64


class CallGraph:
    """`values` evaluates an expression, `reaching` gives the bindings behind a name."""

    def __init__(
        self,
        tree: Tree,
        classes: Classes,
        values: Callable[[cst.CSTNode], Values],
        reaching: Callable[[cst.Name], list[Binding]],
    ) -> None:
        self.tree = tree
        self._classes = classes
        self._values = values
        self._reaching = reaching
        self._unnamed = Unnamed(tree)
        self._callers: dict[cst.CSTNode, list[cst.Call]] = {}
        # Of each among the callers.
        self._positions: dict[tuple[cst.CSTNode, cst.Call], int] = {}
        # Of so many callers.
        self._named_callers: dict[cst.CSTNode, tuple[int, list[cst.Call]]] = {}
        self._handing: set[tuple[cst.Call, cst.CSTNode]] = set()
        # The calls of functions as methods of an object, and by themselves; they may be either.
        self._bound: set[tuple[cst.Call, cst.CSTNode]] = set()
        self._free: set[tuple[cst.Call, cst.CSTNode]] = set()
        # `partial(step, model=m)` by the functions it is made of, and the calls of what it gives.
        self._partials: dict[cst.CSTNode, list[cst.Call]] = {}
        self._of_partials: dict[cst.CSTNode, list[cst.Call]] = {}

    def callers(self, function: cst.CSTNode) -> list[cst.Call]:
        """The calls in the program that run the function (for `__init__`, those that build the object); where some of
        them stand in classes or functions that nothing names, the others."""
        found = self._callers.get(function, [])
        if len(found) < 2:
            return found
        number, named = self._named_callers.get(function, (0, found))
        if number != len(found):  # it only ever grows
            named = [call for call in found if not self._unnamed.is_inside(call)] or found
            self._named_callers[function] = len(found), named
        return named

    def run_by_partials(self, function: cst.CSTNode) -> list[cst.Call]:
        """The calls of what a `functools.partial` makes of the function."""
        return [call for made in self._partials.get(function, ()) for call in self._of_partials.get(made, ())]

    def _callers_among(self, calls: Collection[cst.Call], function: cst.CSTNode) -> list[cst.Call]:
        """Those of the calls that are its callers, in the order of these."""
        callers, positions = self.callers(function), self._positions
        among = sorted({c for c in calls if (function, c) in positions}, key=lambda c: positions[function, c])
        is_any = len(callers) == len(self._callers.get(function, ()))
        return [call for call in among if is_any or not self._unnamed.is_inside(call)]

    def build(self, calls: Iterable[cst.Call]) -> list[cst.Call]:
        """Adds the calls to the graph; returns those whose function is not known yet."""
        unknown = []
        for call in calls:
            functions = self._values(call.func)
            for function in functions:
                for node in self._runs(function):
                    self._add_caller(node, call)
                if isinstance(function, Function):
                    as_what = self._bound if function.owner is not None else self._free
                    as_what.update((call, node) for node in (function.node, *self._wrappers(function.node)))
            handed = self._handed_functions(functions, call)
            self._note_partials(functions, call)
            for function in handed:
                for node in self._runs(function):
                    self._handing.add((call, node))
                    self._add_caller(node, call)
            if not functions or any(_depends_on_parameter(f) for f in (*functions, *handed)):
                unknown.append(call)
        return unknown

    def _note_partials(self, functions: Values, call: cst.Call) -> None:
        for function in functions:
            if isinstance(function, Result) and function.function == _PARTIAL:
                _add(self._of_partials, function.call, call)
        for inner in self._values(call.args[0].value) if _PARTIAL in functions and call.args else ():
            for node in self._runs(inner):
                _add(self._partials, node, call)

    def _add_caller(self, function: cst.CSTNode, call: cst.Call) -> None:
        several = self._callers.setdefault(function, [])
        if self._positions.setdefault((function, call), len(several)) == len(several):
            several.append(call)

    def _handed_functions(self, functions: Values, call: cst.Call) -> Values:
        """The functions that `strategy.run(step, args=(x,))`, `dataset.apply(prepare)` and their like call in their
        turn."""
        names = (*api.RUNS_STEP, *api.DISTRIBUTES_FROM_FUNCTION)
        for function in functions if call.args else ():
            if not isinstance(function, Member):
                continue
            runs = function.name in names and is_strategy(function.owner)
            if runs or (function.name == "apply" and is_dataset(function.owner)):
                return self._values(call.args[0].value)
        return ()

    def _runs(self, function: Value) -> Iterator[cst.CSTNode]:
        if isinstance(function, Function):
            yield function.node
            yield from self._wrappers(function.node)
        elif isinstance(function, Class):
            method = self._classes.method(function, "__init__")
            if method is not None:
                yield method
        elif isinstance(function, Object):
            for name in ("__call__", "call"):
                method = self._classes.method(function.of, name)
                if method is not None:
                    yield method

    def _wrappers(self, function: FunctionLike) -> list[FunctionLike]:
        """The functions that decorators of the program's own make of it, and that run where it is called."""
        return [
            wrapper.node
            for maker in self._makers(function)
            for returned in self.tree.returns[maker]
            for wrapper in (self._values(returned.value) if returned.value is not None else ())
            if isinstance(wrapper, Function) and self.tree.function_of(wrapper.node) is maker
        ]

    def _makers(self, function: FunctionLike) -> Iterator[cst.FunctionDef]:
        """The functions of the program that decorate it."""
        for decorator in function.decorators if isinstance(function, cst.FunctionDef) else ():
            node = decorator.decorator
            if isinstance(node, cst.Call) and any(isinstance(v, External) for v in self._values(node.func)):
                continue  # `@functools.wraps(f)` gives something like `f`, and does not run it
            for value in self._values(node):
                if isinstance(value, Function) and isinstance(value.node, cst.FunctionDef):
                    yield value.node

    def function_of_parameter(self, param: cst.Param) -> FunctionLike:
        return next(o for o in self.tree.ancestors(param) if isinstance(o, (cst.FunctionDef, cst.Lambda)))

    def given(self, param: cst.Param) -> list[cst.BaseExpression]:
        """The expressions that the callers in the program give the parameter, its default among them."""
        return self.arguments(param, self.function_of_parameter(param))

    def is_first(self, param: cst.Param, function: FunctionLike) -> bool:
        params = (*function.params.posonly_params, *function.params.params)
        return bool(params) and params[0] is param

    def is_class_itself(self, param: cst.Param, function: FunctionLike) -> bool:
        """Whether it is the first parameter of a class method."""
        return _is_class_method(function) and self.is_first(param, function)

    def owner_class(self, function: FunctionLike) -> cst.ClassDef | None:
        """The class whose instance the function's first parameter is; None for functions and static methods."""
        if not isinstance(function, cst.FunctionDef):
            return None
        if _is_decorated(function, "staticmethod") or _is_class_method(function):
            return None
        return self.tree.class_of(function)

    def arguments(
        self, param: cst.Param, function: FunctionLike, way: Collection[cst.Call] | None = None
    ) -> list[cst.BaseExpression]:
        """What the calls of the function give the parameter; only those on the `way`, where one is given."""
        params = [*function.params.posonly_params, *function.params.params]
        position = next((i for i, p in enumerate(params) if p is param), None)
        bound = self.owner_class(function) is not None
        of_class = _is_class_method(function)
        found: list[cst.BaseExpression] = []
        if way is None and position == 1 and isinstance(function, cst.FunctionDef):
            found += self._set_by(function)
        for call in self.callers(function) if way is None else self._callers_among(way, function):
            index = position
            if (call, function) in self._handing:
                if index is not None and (of_class or (bound and not self._is_of_class(call.args[0].value))):
                    index -= 1
                given = _given_in_its_turn(call, index)
            else:
                # `hook = Trainer.after`, then `hook(trainer)`
                is_free = not of_class and (call, function) in self._free
                if index is not None and (of_class or (bound and not is_free and not self._passes_self(call))):
                    index -= 1
                given = self._passed(call, param.name.value, index, way)
                if bound and is_free and (call, function) in self._bound and index is not None:
                    given = [*given, *self._passed(call, param.name.value, index - 1, way)]
            if not (bound or of_class) and (call, function) in self._bound:
                of_object = self._passed_to_method(call, param.name.value, position, way)
                given = [*given, *of_object] if (call, function) in self._free else of_object
            found.extend(given)
            if not given and param.default is not None:
                found.append(param.default)
        for made in self._partials.get(function, ()) if way is None else ():
            given = self._given_by_partial(made, param.name.value, position, is_bound=bound or of_class)
            if not given and param.default is not None and made in self._of_partials:
                given = [param.default]
            found += given
        return found

    def _passed_to_method(
        self, call: cst.Call, name: str, position: int | None, way: Collection[cst.Call] | None
    ) -> list[cst.BaseExpression]:
        """What the call gives the parameter of a function that is an attribute of the object's class."""
        if position == 0 and isinstance(call.func, cst.Attribute):
            return [call.func.value]
        return self._passed(call, name, position - 1 if position is not None else None, way)

    def _given_by_partial(
        self, made: cst.Call, name: str, position: int | None, *, is_bound: bool
    ) -> list[cst.BaseExpression]:
        """What a `functools.partial` of the function gives the parameter, and what the calls of that give it."""
        first = made.args[0].value
        if position is not None and is_bound and not self._is_of_class(first):
            position -= 1
        held = [arg for arg in made.args[1:] if arg.keyword is None]
        args = [argument(made, name, position + 1 if position is not None else None)]
        behind = position - len(held) if position is not None and position >= len(held) else None
        args += [argument(call, name, behind) for call in self._of_partials.get(made, ())]
        return [arg.value for arg in args if arg is not None]

    def _set_by(self, function: cst.FunctionDef) -> list[cst.BaseExpression]:
        """What assignments give an attribute whose `@name.setter` the function is."""
        cls, name = self.tree.class_of(function), function.name.value
        if cls is None or not _is_setter(function):
            return []
        return [
            b.value
            for b in self._classes.attribute_bindings(Class(cls), name)
            if isinstance(b.value, cst.BaseExpression) and b.kind == "assign" and not b.path
        ]

    def _passed(
        self,
        call: cst.Call,
        name: str,
        index: int | None,
        way: Collection[cst.Call] | None,
        seen: set[tuple[cst.Call, int | None]] | None = None,
    ) -> list[cst.BaseExpression]:
        """What the call gives the parameter, also through the `*args` and `**kwargs` of the functions around it.

        `seen`: the calls that were gone through, with where they have it: many ways may lead to one, and a wrapper
        that is wrapped again seems to call itself.
        """
        seen = {(call, index)} if seen is None else seen
        arg = argument(call, name, index) or self._behind_shares(call, index)
        if arg is not None:
            return [arg.value]
        found: list[cst.BaseExpression] = []
        i = -1  # how many positional arguments stand before
        for arg in call.args:
            i += arg.keyword is None
            if not arg.star and arg.keyword is None and i == index:
                return [arg.value]  # behind tuples that are unpacked
            function = self._owner_of_rest(arg) if arg.star else None
            at = None
            if arg.star == "*":
                tuples = self._tuples(arg.value)
                if tuples and index is not None and i <= index < i + len(tuples[0].elements):
                    return [each.elements[index - i].value for each in tuples]
                if tuples:
                    i += len(tuples[0].elements) - 1
                    continue
                if function is None or index is None or index < i:
                    index = None  # it is not behind what else is unpacked
                    continue
                at, index = len(function.params.posonly_params) + len(function.params.params) + index - i, None
            for caller in self.callers(function) if function is not None else ():
                place = self._behind_self(at, cast(cst.FunctionDef, function), caller)
                is_there = place is None or place < _MOST_ARGUMENTS
                if (way is None or caller in way) and is_there and (caller, place) not in seen:
                    seen.add((caller, place))
                    found += self._passed(caller, name, place, way, seen)
        return found

    def _tuples(self, node: cst.BaseExpression) -> list[cst.Tuple]:
        """The tuples that are unpacked, as they are written out, where all have equally many items; none otherwise."""
        nodes: list[cst.CSTNode | None] = [node]
        if isinstance(node, cst.Name):
            nodes = [b.value if b.kind == "assign" and not b.path else None for b in self._reaching(node)]
        tuples = [each for each in nodes if isinstance(each, cst.Tuple)]
        is_written = len(tuples) == len(nodes) and not any(
            isinstance(element, cst.StarredElement) for each in tuples for element in each.elements
        )
        return tuples if is_written and len({len(each.elements) for each in tuples}) == 1 else []

    def _behind_shares(self, call: cst.Call, index: int | None) -> cst.Arg | None:
        """`w` of `step(*lockstep.shard_batch(x, y), w)`, which is the third."""
        first = next((i for i, arg in enumerate(call.args) if arg.star), None)
        count = self.shares_in(call.args[first]) if first is not None else None
        if first is None or index is None or count is None or index < first + count:
            return None
        behind = call.args[first + 1 :][: index - first - count + 1]
        is_there = len(behind) == index - first - count + 1 and not any(a.star or a.keyword for a in behind)
        return behind[-1] if is_there else None

    def shares_in(self, arg: cst.Arg) -> int | None:
        """How many `*lockstep.shard_batch(x, y)` gives; None of what else is unpacked."""
        value = arg.value
        if arg.star != "*" or not isinstance(value, cst.Call) or any(a.star for a in value.args):
            return None
        count = sum(a.keyword is None for a in value.args)
        paths = [v.path if isinstance(v, External) else "" for v in self._values(value.func)]
        return count if count > 1 and paths and all(has_role(path, Role.SHARD) for path in paths) else None

    def _behind_self(self, position: int | None, function: FunctionLike, call: cst.Call) -> int | None:
        """Where the call has what the function takes at that position."""
        is_bound = self.owner_class(function) is not None and not self._passes_self(call)
        return position - 1 if position is not None and is_bound else position

    def _owner_of_rest(self, arg: cst.Arg) -> cst.FunctionDef | None:
        """The function of which `*args` or `**kwargs`, whichever it is, is a parameter."""
        bindings = self._reaching(arg.value) if isinstance(arg.value, cst.Name) else []
        function = self.tree.parent.get(self.tree.parent.get(bindings[0].node, arg)) if len(bindings) == 1 else None
        if not isinstance(function, cst.FunctionDef):
            return None
        rest = function.params.star_arg if arg.star == "*" else function.params.star_kwarg
        return function if rest is bindings[0].node else None

    def _passes_self(self, call: cst.Call) -> bool:
        """`Class.method(obj, …)`, against `obj.method(…)` and `Class(…)`."""
        return self._is_of_class(call.func)

    def _is_of_class(self, function: cst.BaseExpression) -> bool:
        """Whether it is a method that is taken from its class, and bound to no object."""
        if not isinstance(function, cst.Attribute):
            return False
        # A metaclass's method is bound to the class.
        return any(isinstance(v, Class) for v in self._values(function.value)) and not any(
            isinstance(v, Class) or (isinstance(v, Function) and isinstance(v.owner, Class))
            for v in self._values(function)
        )


def _add(known: dict[cst.CSTNode, list[cst.Call]], node: cst.CSTNode, call: cst.Call) -> None:
    several = known.setdefault(node, [])
    if call not in several:
        several.append(call)


def _is_decorated(function: cst.FunctionDef, *names: str) -> bool:
    return any(isinstance(d.decorator, cst.Name) and d.decorator.value in names for d in function.decorators)


def _is_class_method(function: FunctionLike) -> bool:
    """Whether it gets the class itself; Python makes class methods of some by their names."""
    return isinstance(function, cst.FunctionDef) and (
        function.name.value in _OF_CLASSES or _is_decorated(function, "classmethod")
    )


def _is_setter(function: cst.FunctionDef) -> bool:
    """`@name.setter`, of the property of its own name."""
    return any(
        isinstance(d.decorator, cst.Attribute)
        and d.decorator.attr.value == "setter"
        and isinstance(d.decorator.value, cst.Name)
        and d.decorator.value.value == function.name.value
        for d in function.decorators
    )


def _given_in_its_turn(call: cst.Call, index: int | None) -> list[cst.BaseExpression]:
    """The parameter's value in `strategy.run(step, args=(x, y))`, and in `dataset.apply(prepare)`."""
    if isinstance(call.func, cst.Attribute) and call.func.attr.value == "apply":
        return [call.func.value] if index == 0 else []
    args = argument(call, "args", 1)
    if args is None or index is None or not isinstance(args.value, (cst.Tuple, cst.List)):
        return []
    elements = args.value.elements
    return [elements[index].value] if 0 <= index < len(elements) else []


def _depends_on_parameter(value: Value) -> bool:
    while isinstance(value, (Member, Result, Element)):
        value = value.owner if isinstance(value, Member) else value.of if isinstance(value, Element) else value.function
    return isinstance(value, Parameter)
