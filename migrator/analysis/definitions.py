"""Functions and classes as they are defined: their defaults, and what decorators make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.classes import with_setter
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras import registered
from migrator.analysis.libraries.tensorflow import LATER, WITH_GRADIENTS, signature_in
from migrator.analysis.placement import Unknown
from migrator.analysis.values import NOTHING, Bound, Class, External, Function, Instance, Made, Tuple, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run


class Definitions:
    def __init__(self, run: Run) -> None:
        self.run = run
        self._defaults: dict[tuple[int, int, str], Value] = {}

    def define(self, function: Function, params: cst.Parameters) -> None:
        for param in (*params.posonly_params, *params.params, *params.kwonly_params):
            if param.default is not None:
                key = (id(function.node), id(function.frame), param.name.value)
                self._defaults[key] = self.run.expressions.eval(param.default, function.frame)

    def default(self, function: Function, param: cst.Param) -> Value | None:
        written = self._defaults.get((id(function.node), id(function.frame), param.name.value))
        changed = self.run.redefined.default(function, param)
        return written if changed is NOTHING else v.join(written or NOTHING, changed)

    def decorated(self, value: Value, decorator: cst.BaseExpression, frame: Frame) -> Value:
        """What a decorator makes of a function or class: one of the program's runs, others give back what they are
        given."""
        made = self.run.expressions.eval(decorator, frame)
        dispatching = _registered_with(decorator)
        one = self.run.expressions.eval(dispatching, frame) if dispatching is not None else NOTHING
        if dispatching is not None and any(isinstance(a, Function) for a in one):
            # Which of them runs is chosen by a type (functools.singledispatch): any may.
            self.run.bindings.assign(dispatching.value, v.join(one, value), frame)
            return value
        if made.only == External("builtins.property") or _is_property(decorator):
            return v.of(Tuple((v.constant("property"), value)))
        if isinstance(decorator, cst.Attribute) and decorator.attr.value == "setter":
            return with_setter(self.run.expressions.eval(decorator.value, frame), value)
        if made.only in (External("builtins.staticmethod"), External("builtins.classmethod")):
            kind = "static" if made.only == External("builtins.staticmethod") else "class"
            return v.of(Tuple((v.constant(kind), value)))
        if isinstance(made.only, Made) and made.only.path == registered.REGISTERING:
            return registered.note(self.run, made.only, value)
        if made.only in (External("tensorflow.function"), External(LATER)):
            self.run.note_traced(value, signature_in(self.run, decorator))
            return value
        is_library = isinstance(made.only, External) and made.only.path in WITH_GRADIENTS
        if is_library or any(isinstance(a, (Function, Class, Bound, v.Curried, Instance)) for a in made):
            result = self.run.calls.call(made, Arguments([value]), decorator, frame)
            return result if result is not NOTHING else value
        if made.data is not None and isinstance(made.data.placement, Unknown) and not made.data.foreign:
            return v.unseen("what a decorator that is not seen makes of this is not seen")
        return value

    def is_generator(self, function: cst.FunctionDef | cst.Lambda) -> bool:
        return isinstance(function, cst.FunctionDef) and function in self.run.generators

    def owner_of(self, function: Function) -> cst.ClassDef | None:
        return self.run.tree.class_of(function.node) if isinstance(function.node, cst.FunctionDef) else None


def _registered_with(decorator: cst.BaseExpression) -> cst.Name | None:
    """The `f` of `@f.register` and `@f.register(int)`."""
    func = decorator.func if isinstance(decorator, cst.Call) else decorator
    if isinstance(func, cst.Attribute) and func.attr.value == "register" and isinstance(func.value, cst.Name):
        return func.value
    return None


def _is_property(decorator: cst.BaseExpression) -> bool:
    """`@functools.cached_property`"""
    last = decorator.attr.value if isinstance(decorator, cst.Attribute) else ""
    last = decorator.value if isinstance(decorator, cst.Name) else last
    return last == "cached_property"
