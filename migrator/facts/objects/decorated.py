"""What a call of a decorated function gives: what that returns, where its decorators surely give that back.

A decorator of the script's may clip gradients, batch a dataset anew, or give something else altogether.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Callable

import libcst as cst

from migrator.facts.objects.classes import Classes
from migrator.facts.objects.values import Class, External, Function, Member, Object, Result, Value, Values
from migrator.facts.program.tree import Binding, FunctionLike, Tree

_Test = Callable[[cst.BaseExpression], bool]


class Decorated:
    def __init__(
        self,
        tree: Tree,
        classes: Classes,
        values: Callable[[cst.CSTNode | None], Values],
        reaching: Callable[[cst.Name], list[Binding]],
    ) -> None:
        self.tree = tree
        self._classes = classes
        self._values = values
        self._reaching = reaching
        self._known: dict[cst.FunctionDef, list[cst.BaseExpression]] = {}
        self._busy: set[cst.FunctionDef] = set()

    def returned(self, function: FunctionLike) -> list[cst.BaseExpression]:
        """What a call of the function by its name gives: one of these."""
        if isinstance(function, cst.Lambda) or not function.decorators or function in self._busy:
            return self.own(function)
        if function not in self._known:
            self._busy.add(function)
            try:
                self._known[function] = self._through_decorators(function)
            finally:
                self._busy.discard(function)
        return self._known[function]

    def own(self, function: FunctionLike) -> list[cst.BaseExpression]:
        """What the function itself returns."""
        if isinstance(function, cst.Lambda):
            return [function.body]
        return [r.value for r in self.tree.returns[function] if r.value is not None]

    def registered_by(self, param: cst.Param, function: FunctionLike) -> Iterator[Value]:
        """What decorating with the function gives its parameter, where it gives that back as it is: functions and
        classes that it keeps under a name. What it wraps runs otherwise."""
        params = (*function.params.posonly_params, *function.params.params)
        is_bound = isinstance(function, cst.FunctionDef) and self.tree.class_of(function) is not None
        returned = self.own(function)
        if (
            params[is_bound : is_bound + 1] != (param,)
            or not returned
            or not all(map(self._is_parameter(param), returned))
        ):
            return
        yield from (Function(node) for node in self.tree.functions if self._is_among(function, node.decorators))
        yield from (Class(node) for node in self.tree.classes if self._is_among(function, node.decorators))

    def _is_among(self, function: FunctionLike, decorators: Iterable[cst.Decorator]) -> bool:
        values = (value for decorator in decorators for value in self._values(decorator.decorator))
        return any(isinstance(value, Function) and value.node is function for value in values)

    def _through_decorators(self, function: cst.FunctionDef) -> list[cst.BaseExpression]:
        """What the function returns, if all decorators give that back; else the one that has the last say stands for
        what it makes of it, which is not followed."""
        for decorator in function.decorators:
            values = self._values(decorator.decorator)
            if not values or not all(map(self._gives_back, values)):
                return [decorator.decorator]
        return self.own(function)

    def _gives_back(self, decorator: Value) -> bool:
        """Whether a call of what the decorator makes gives what the function gives. Those of libraries do."""
        if isinstance(decorator, Result):
            given = [v for arg in decorator.call.args for v in self._values(arg.value)]
            is_of_script = any(isinstance(v, (Function, Class, Object)) for v in given)
            return decorator.function == External("functools.wraps") or not is_of_script
        if isinstance(decorator, Class):
            call, init = self._classes.method(decorator, "__call__"), self._classes.method(decorator, "__init__")
            return call is not None and init is not None and self._passes_on(call, self._kept_by(init))
        if isinstance(decorator, (Function, Object)):
            maker = self._classes.method(decorator.of, "__call__") if isinstance(decorator, Object) else decorator.node
            return maker is not None and self._makes_what_passes_on(maker, is_bound=isinstance(decorator, Object))
        return isinstance(decorator, (External, Member))

    def _makes_what_passes_on(self, maker: cst.FunctionDef | cst.Lambda, *, is_bound: bool) -> bool:
        params = (*maker.params.posonly_params, *maker.params.params)[is_bound:]
        returned = self.own(maker)
        if not params or not returned:
            return False
        wrapped = self._is_parameter(params[0])
        for node in returned:
            made = [v.node for v in self._values(node) if isinstance(v, Function)]
            if not wrapped(node) and not (made and all(self._passes_on(wrapper, wrapped) for wrapper in made)):
                return False
        return True

    def _is_parameter(self, param: cst.Param) -> _Test:
        """Tells names that stand for what the parameter is given, and for nothing else."""

        def stands_for_it(node: cst.BaseExpression) -> bool:
            return isinstance(node, cst.Name) and [b.node for b in self._reaching(node)] == [param]

        return stands_for_it

    def _kept_by(self, init: cst.FunctionDef) -> _Test:
        """Tells attributes in which objects keep the first thing that they are made with, and nothing else."""
        params = (*init.params.posonly_params, *init.params.params)
        is_first = self._is_parameter(params[1]) if len(params) > 1 else lambda node: False

        def keeps_it(node: cst.BaseExpression) -> bool:
            if not isinstance(node, cst.Attribute) or not isinstance(node.value, cst.Name):
                return False
            given = [b.value for b in self.tree.attributes.get(node.attr.value, ())]
            return bool(given) and all(isinstance(v, cst.Name) and is_first(v) for v in given)

        return keeps_it

    def _passes_on(self, wrapper: cst.FunctionDef | cst.Lambda, wrapped: _Test) -> bool:
        """Whether it gives back what the wrapped function gives, as it is."""
        returned = self.own(wrapper)
        return bool(returned) and all(self._is_result(node, wrapped, wrapper) for node in returned)

    def _is_result(self, node: cst.BaseExpression, wrapped: _Test, wrapper: cst.FunctionDef | cst.Lambda) -> bool:
        if isinstance(node, cst.Call):
            return wrapped(node.func)
        if not isinstance(node, cst.Name):
            return False
        bindings = self._reaching(node)
        given = [b.value for b in bindings if b.kind == "assign" and not b.path]
        if not (len(given) == len(bindings) == 1 and isinstance(given[0], cst.Call) and wrapped(given[0].func)):
            return False
        uses = [n for n in self.tree.names[node.value] if self.tree.contains(wrapper, n) and self.tree.is_read(n)]
        return all(use is node or self._is_shown(use) for use in uses)

    def _is_shown(self, use: cst.Name) -> bool:
        """Whether all that the statement does is to return it, or to give it to a function of a library's."""
        statement = self.tree.statement_of(use)
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            return False
        only = statement.body[0]
        if not isinstance(only, cst.Expr) or not isinstance(only.value, cst.Call):
            return isinstance(only, cst.Return)
        functions = self._values(only.value.func)
        is_own_method = self.tree.contains(only.value.func, use)
        return not is_own_method and all(isinstance(function, (External, Member)) for function in functions)
