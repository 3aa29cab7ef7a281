"""What a call of a decorated function gives: what that returns, or what a decorator of the script makes of it."""

from __future__ import annotations

from typing import Callable

import libcst as cst

from migrator.facts.classes import Classes
from migrator.facts.tree import Binding, Tree
from migrator.facts.values import Class, Function, Object, Values

_Callable = (cst.FunctionDef, cst.Lambda)


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

    def returned(self, function: cst.FunctionDef) -> list[cst.BaseExpression]:
        """What a call of the function by its name gives: one of these."""
        if not function.decorators or function in self._busy:
            return self.own(function)
        if function not in self._known:
            self._busy.add(function)
            try:
                self._known[function] = self._through_decorators(function)
            finally:
                self._busy.discard(function)
        return self._known[function]

    def own(self, function: cst.FunctionDef | cst.Lambda) -> list[cst.BaseExpression]:
        """What the function itself returns."""
        if isinstance(function, cst.Lambda):
            return [function.body]
        return [r.value for r in self.tree.returns[function] if r.value is not None]

    def _through_decorators(self, function: cst.FunctionDef) -> list[cst.BaseExpression]:
        for decorator in function.decorators:  # the first one is the last to have a say
            for value in self._values(decorator.decorator):
                for wrapper, wrapped in self._made_by(value):
                    if wrapper is not function and not self._passes_on(wrapper, wrapped):
                        return self.own(wrapper)
        return self.own(function)

    def _made_by(self, decorator: object) -> list[tuple[cst.FunctionDef | cst.Lambda, str]]:
        """What the decorator puts in the place of a function, with the name by which that knows the function."""
        if isinstance(decorator, Class):
            call, init = self._classes.method(decorator, "__call__"), self._classes.method(decorator, "__init__")
            return [(call, self._attribute_of(init))] if call is not None else []
        maker = decorator.node if isinstance(decorator, Function) else None
        if isinstance(decorator, Object):
            maker = self._classes.method(decorator.of, "__call__")
        if maker is None:
            return []
        params = maker.params.params[isinstance(decorator, Object) :]
        name = params[0].name.value if params else ""
        values = [value for returned in self.own(maker) for value in self._values(returned)]
        return [(v.node, name) for v in values if isinstance(v, Function) and isinstance(v.node, _Callable)]

    def _attribute_of(self, init: cst.FunctionDef | None) -> str:
        """`self.function`, where the object keeps the first thing that it is made with."""
        params = init.params.params if init is not None else ()
        if init is None or len(params) < 2:
            return ""
        first, itself = params[1].name.value, params[0].name.value
        for name, bindings in self.tree.attributes.items():
            for binding in bindings:
                is_first = isinstance(binding.value, cst.Name) and binding.value.value == first
                if is_first and self.tree.contains(init, binding.node):
                    return f"{itself}.{name}"
        return ""

    def _passes_on(self, wrapper: cst.FunctionDef | cst.Lambda, wrapped: str) -> bool:
        """Whether it gives back what the function gives, as it is."""
        returned = self.own(wrapper)
        return bool(returned) and all(self._is_result(node, wrapped) for node in returned)

    def _is_result(self, node: cst.BaseExpression, wrapped: str) -> bool:
        if isinstance(node, cst.Name):
            bindings = self._reaching(node)
            return bool(bindings) and all(
                b.kind == "assign" and not b.path and isinstance(b.value, cst.Call) and _calls(b.value, wrapped)
                for b in bindings
            )
        return isinstance(node, cst.Call) and _calls(node, wrapped)


def _calls(call: cst.Call, wrapped: str) -> bool:
    func = call.func
    if isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name):
        return f"{func.value.value}.{func.attr.value}" == wrapped
    return isinstance(func, cst.Name) and func.value == wrapped
