"""What a call gets through the `**kwargs` of the function around: `def train(model, x, y, **kwargs)`."""

from __future__ import annotations

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Member, Object, Result
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import Tree

# Arguments of `fit` that stay as they are, and mean the same of a worker's part of the data.
_NEED_NOT_BE_SEEN = frozenset(
    {"class_weight", "epochs", "initial_epoch", "max_queue_size", "shuffle", "steps_per_epoch", "use_multiprocessing"}
    | {"validation_data", "validation_freq", "validation_steps", "verbose", "workers"}
)


class HandedOn:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver

    def given(self, call: cst.Call, rest: cst.BaseExpression, name: str) -> cst.BaseExpression | None:
        """What one of those gives the parameter who call the function around, where all they hand on is `little`."""
        only = self._only_caller(rest)
        if only is not None:
            given = argument(only, name)
            return given.value if given is not None and name not in self._taken(call, rest) else None
        if name not in _NEED_NOT_BE_SEEN or not self.is_little(call, rest):
            return None
        function = self._owner(rest)
        callers = self.resolver.callers(function) if function is not None else []
        named = (arg for caller in callers for arg in caller.args if arg.keyword is not None)
        return next((arg.value for arg in named if arg.keyword is not None and arg.keyword.value == name), None)

    def is_little(self, call: cst.Call, rest: cst.BaseExpression) -> bool:
        """Whether these are the `**kwargs` of the function around, and no call of it gives anything there that a
        migration has to see or to change. What the call names itself cannot be among them."""
        function = self._owner(rest)
        if function is None or not self.is_only_called(function) or not self._is_as_it_came(function, rest):
            return False
        if self._only_caller(rest) is not None:
            return True
        harmless = {*_NEED_NOT_BE_SEEN, *self._taken(call, rest)}
        return all(
            arg.star == "" and (arg.keyword is None or arg.keyword.value in harmless)
            for caller in self.resolver.callers(function)
            for arg in caller.args
        )

    def _taken(self, call: cst.Call, rest: cst.BaseExpression) -> set[str]:
        """What callers name that is not handed on to the call: the function's own parameters, and what the call names
        itself."""
        function = self._owner(rest)
        params = (*function.params.params, *function.params.kwonly_params) if function is not None else ()
        named = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        return {*(param.name.value for param in params), *named}

    def _only_caller(self, rest: cst.BaseExpression) -> cst.Call | None:
        """The one call of the function around, where `rest` is handed on here alone: what it names, it names for this
        call, as the items of a dictionary that nobody else reads."""
        function = self._owner(rest)
        callers = self.resolver.callers(function) if function is not None else []
        if function is None or len(callers) != 1 or not self.is_only_called(function):
            return None
        name = cst.ensure_type(rest, cst.Name).value
        others = [n for n in self.tree.names[name] if n is not rest and self.tree.contains(function.body, n)]
        return callers[0] if not others and not any(arg.star for arg in callers[0].args) else None

    def _owner(self, rest: cst.BaseExpression) -> cst.FunctionDef | None:
        function = self.tree.function_of(rest)
        param = function.params.star_kwarg if isinstance(function, cst.FunctionDef) else None
        is_rest = isinstance(rest, cst.Name) and param is not None and param.name.value == rest.value
        return function if is_rest and isinstance(function, cst.FunctionDef) else None

    def is_only_called(self, function: cst.FunctionDef) -> bool:
        """Whether all that is done with the function is to call it, at places that are seen."""
        called = {id(caller.func) for caller in self.resolver.callers(function)}
        if not called or function.decorators:
            return False
        for name in self.tree.names[function.name.value]:
            parent = self.tree.parent.get(name)
            whole = parent if isinstance(parent, cst.Attribute) and parent.attr is name else name
            is_read = isinstance(whole, cst.Attribute) or self.tree.is_read(name)
            if name is not function.name and is_read and id(whole) not in called and self._may_be(whole, function):
                return False
        return True

    def _may_be(self, read: cst.BaseExpression, function: cst.FunctionDef) -> bool:
        """Whether it may be the function, and not what a library has by that name."""
        values = self.resolver.values(read)
        return not values or not all(
            isinstance(v, External)
            or (isinstance(v, Member) and isinstance(v.owner, (External, Object, Result)))
            or (isinstance(v, Function) and v.node is not function)
            for v in values
        )

    def _is_as_it_came(self, function: cst.FunctionDef, rest: cst.BaseExpression) -> bool:
        """Whether nothing is put into the dictionary: it is unpacked, and asked for some that are named."""
        name = cst.ensure_type(rest, cst.Name).value
        return all(self._is_asked(node) for node in self.tree.names[name] if self.tree.contains(function.body, node))

    def _is_asked(self, name: cst.Name) -> bool:
        parent = self.tree.parent.get(name)
        if isinstance(parent, cst.Arg):
            return parent.star == "**" or parent.keyword is name
        if not isinstance(parent, cst.Attribute) or parent.value is not name:
            return isinstance(parent, cst.Attribute)
        asking = self.tree.parent.get(parent)
        if not isinstance(asking, cst.Call) or asking.func is not parent:
            return False
        key = asking.args[0].value if asking.args else None
        is_harmless = isinstance(key, cst.SimpleString) and key.evaluated_value in _NEED_NOT_BE_SEEN
        return parent.attr.value in ("get", "pop") or (parent.attr.value == "setdefault" and is_harmless)
