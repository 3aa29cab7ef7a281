"""What calls give back as it is, and no copy of it: what is changed there in place is changed where it came from."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.dependence import libraries
from migrator.facts.dependence.functions import Functions
from migrator.facts.dependence.item_paths import Path, anywhere, behind, of_method
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Member, Object, Result, Value
from migrator.facts.program.syntax import method_called
from migrator.facts.program.tree import Tree


class HandedBack:
    def __init__(self, tree: Tree, resolver: Resolver, functions: Functions) -> None:
        self.tree = tree
        self.resolver = resolver
        self.functions = functions

    def by(self, call: cst.Call, path: Path) -> Iterator[tuple[cst.CSTNode, Path]]:
        """What a call may give back as it is, and no copy of it: `logs.setdefault("loss", [])`, `next(iterator)`; with
        the keys that lead from there to the item to which `path` leads from the result."""
        functions = self.functions.run_by(call)
        for function in functions:
            returned = [function.body] if isinstance(function, cst.Lambda) else self.functions.returned(function)
            yield from ((node, path) for node in returned)
            yield from ((y.value, anywhere(path)) for y in self.tree.yields.get(function, ()) if y.value is not None)
        values = self.resolver.values(call.func)
        makes = [
            v
            for v in values
            if isinstance(v, (Class, Result)) or (isinstance(v, External) and libraries.makes_new(v.path))
        ]
        if functions or (values and len(makes) == len(values)):
            paths = {v.path for v in values if isinstance(v, External)}
            for arg in call.args:
                if paths & libraries.PICKING:
                    yield arg.value, anywhere(path)
                elif paths & libraries.COPYING and arg.keyword is None:
                    yield from ((arg.value, inside) for inside in [path] if len(path) > 1)
                elif paths & libraries.COPYING and arg.keyword is not None:
                    inside = behind((arg.keyword.value,), path)
                    yield from ((arg.value, keys) for keys in [inside] if keys is not None)
            return
        name = method_called(call)
        if isinstance(call.func, cst.Attribute) and name in libraries.VIEWS:
            yield call.func.value, anywhere(path)
            return
        if name == "copy" and isinstance(call.func, cst.Attribute) and not call.args and name not in self.tree.methods:
            if len(path) > 1:  # of lists and dictionaries, what stands in the copy is the same
                yield call.func.value, path
            return
        if not (values and all(_is_of_framework(v) for v in values)):
            yield from ((arg.value, anywhere(path)) for arg in call.args)
        if isinstance(call.func, cst.Attribute):
            yield call.func.value, of_method(call, path)

    def remembering(self, call: cst.Call) -> Iterator[cst.FunctionDef]:
        """The functions that may give at each call what they have made at the first: `@functools.lru_cache`."""
        for function in self.functions.run_by(call):
            if isinstance(function, cst.FunctionDef) and function.decorators:
                yield function

    def behind_super(self, call: cst.Call) -> Iterator[Class]:
        """The classes whose object `super()` is, where that is a container of the script's: `class Log(list)`."""
        is_super = External("builtins.super") in self.resolver.values(call.func)
        function = self.tree.function_of(call) if is_super else None
        node = self.tree.class_of(function) if isinstance(function, cst.FunctionDef) else None
        if node is None:
            return
        for cls in (Class(node), *self.resolver.subclasses(Class(node))):
            keeps = bool(cls.node.bases) or cls.node is not node  # behind a mixin stand the bases of its heirs alone
            if keeps and not libraries.is_of_keras(Object(cls), self.resolver):
                yield cls


def _is_of_framework(value: Value) -> bool:
    return isinstance(value, Member) and origin(value).startswith(("tensorflow.", "keras.", "numpy."))
