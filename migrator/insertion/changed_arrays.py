"""Whether code may change arrays in place that have other names elsewhere: tensors cannot be changed, NumPy's can."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Literal, Member, Object, Result, Unknown, Value
from migrator.facts.program.syntax import part_at
from migrator.facts.program.tree import Binding, Tree, nodes_in

# Methods and functions that change what they are called on, or given; a list of the script's own may be changed.
_METHODS = frozenset({
    "fill", "sort", "partition", "put", "itemset", "resize", "byteswap", "setfield", "shuffle", "at", "__setitem__",
    "__iadd__", "__isub__", "__imul__", "__itruediv__",
})  # fmt: skip
_FUNCTIONS = frozenset({
    "numpy.copyto", "numpy.put", "numpy.place", "numpy.putmask", "numpy.fill_diagonal", "numpy.put_along_axis",
    "numpy.nan_to_num", "numpy.random.shuffle", "random.shuffle", "builtins.exec", "builtins.eval",
})  # fmt: skip
_KEYWORDS = ("out", "inplace", "overwrite_")
_OPERATORS = "operator."
# What they give is no other name of what they are given.
_NEW = ("tensorflow.", "keras.")
_NUMBERS = frozenset(
    f"builtins.{name}" for name in ("float", "int", "len", "sum", "round", "abs", "dict", "list", "set")
)
_NEW_ARRAYS = frozenset(
    [f"numpy.{name}{like}" for name in ("zeros", "ones", "empty", "full") for like in ("", "_like")]
    + ["collections.defaultdict", "collections.Counter", "collections.OrderedDict"]
)
_NEW_NODES = (
    cst.BaseNumber, cst.BaseString, cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.FormattedString,
)  # fmt: skip
_DISPLAYS = (cst.Dict, cst.List, cst.Set, cst.ListComp, cst.DictComp, cst.SetComp)


class ChangedArrays:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver
        self._of_functions: dict[cst.CSTNode, bool] = {}
        self._anywhere: bool | None = None

    def by_any(self, nodes: Iterable[cst.CSTNode], read: Iterable[cst.Name] = ()) -> bool:
        """Whether one of the nodes, when it runs, may change an array that other code has, too; or one that what is
        `read` may be another name of."""
        nodes, read = list(nodes), list(read)
        return any(map(self._by, nodes)) or any(
            self.may_be_other_name(name, node.target)
            for node in nodes
            if isinstance(node, cst.AugAssign)
            for name in read
        )

    def may_be_other_name(self, name: cst.Name, changed: cst.BaseExpression) -> bool:
        """Whether the name may have got what is changed under another one, which is new there."""
        if not isinstance(changed, cst.Name):
            return False
        for binding in self.resolver.reaching(name):
            if binding.kind in ("param", "for", "augmented"):
                continue
            if not isinstance(binding.value, (*_NEW_NODES, cst.Call)):
                return True
            if any(made.value == changed.value for made in self.tree.names_in(binding.value)):
                return True
        return False

    def _by(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.AugAssign):
            return not self.is_own(node.target)
        if isinstance(node, cst.Subscript) and node in self.tree.targets:
            return not self.is_own(node)
        return isinstance(node, cst.Call) and self._by_call(node)

    # -- calls ---------------------------------------------------------------------------------------------------

    def _by_call(self, call: cst.Call) -> bool:
        if any(a.keyword is not None and a.keyword.value.startswith(_KEYWORDS) for a in call.args):
            return True
        given = (value for arg in call.args for value in self.resolver.values(arg.value))
        if any(isinstance(value, Function) and self._by_function(value.node) for value in given):
            return True
        values = self.resolver.values(call.func) or (Unknown(call.func),)
        return any(self._by_calling(value, call) for value in values)

    def _by_calling(self, value: Value, call: cst.Call) -> bool:
        if isinstance(value, External):
            name = value.path.rpartition(".")[2]
            is_of_numpy = value.path.startswith("numpy.") and name in _METHODS and name != "sort"
            return value.path in _FUNCTIONS or value.path.startswith(_OPERATORS) or is_of_numpy
        if isinstance(value, Function):
            return self._by_function(value.node)
        if isinstance(value, (Class, Object)):
            return self._by_methods(value.of if isinstance(value, Object) else value)
        if isinstance(value, Member) and isinstance(value.owner, Object):
            return self._by_methods(value.owner.of)
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value in _METHODS and not self._is_own_list(func.value):
            return True
        is_seen = isinstance(value, (Member, Result)) and not isinstance(value, Unknown)
        return not is_seen and self._by_any_function()

    def _by_methods(self, cls: Class) -> bool:
        return any(self._by_function(method) for method in self.resolver.methods_of(cls))

    def _by_function(self, function: cst.CSTNode) -> bool:
        known = self._of_functions.get(function)
        if known is None:
            self._of_functions[function] = False  # until more is found, where it calls itself
            known = self._of_functions[function] = self.by_any(nodes_in(getattr(function, "body", function)))
        return known

    def _by_any_function(self) -> bool:
        """What is not seen may call any function of the script."""
        if self._anywhere is None:
            self._anywhere = False
            self._anywhere = any(map(self._by_function, self.tree.functions))
        return self._anywhere

    # -- what is a name's own --------------------------------------------------------------------------------------

    def is_own(self, target: cst.BaseExpression) -> bool:
        """Whether what is changed under that name is nothing that has another name: a number, what an operator gave."""
        if isinstance(target, cst.Subscript):
            return _is_key(target) or self._is_own_list(target.value)
        return self._all_new(self._bindings(target), ())

    def _is_own_list(self, node: cst.BaseExpression) -> bool:
        values = self.resolver.values(node)
        if values and all(isinstance(v, Literal) and isinstance(v.node, _DISPLAYS) for v in values):
            return True
        return bool(values) and all(
            isinstance(v, Result) and isinstance(v.function, External) and v.function.path in _NEW_ARRAYS
            for v in values
        )

    def _bindings(self, target: cst.BaseExpression) -> list[Binding]:
        if isinstance(target, cst.Attribute):
            return self.tree.attributes[target.attr.value]
        if isinstance(target, cst.Name):
            scope = self.tree.scope_of(target).lookup(target.value)
            return scope.bindings[target.value] if scope is not None else []
        return []

    def _all_new(self, bindings: list[Binding], passed: tuple[cst.CSTNode, ...]) -> bool:
        set_anew = [b for b in bindings if b.kind != "augmented"]
        parts = [part_at(b.value, b.path) if b.kind == "assign" and b.value is not None else None for b in set_anew]
        return bool(parts) and all(part is not None and self._is_new(part, passed) for part in parts)

    def _is_new(self, node: cst.CSTNode, passed: tuple[cst.CSTNode, ...]) -> bool:
        if isinstance(node, _NEW_NODES):
            return True
        if not isinstance(node, cst.Call):
            return False
        values = self.resolver.values(node.func)
        return bool(values) and all(self._gives_new(value, passed) for value in values)

    def _gives_new(self, value: Value, passed: tuple[cst.CSTNode, ...]) -> bool:
        if isinstance(value, Result):
            value = value.function
        if isinstance(value, External):
            is_new = value.path.startswith(_NEW) and not value.path.endswith("Variable")
            return is_new or value.path in _NUMBERS | _NEW_ARRAYS
        if not isinstance(value, Function) or value.node in passed or not isinstance(value.node, cst.FunctionDef):
            return False
        returned = self.resolver.returned(value.node)
        return bool(returned) and all(self._is_new(node, (*passed, value.node)) for node in returned)


def _is_key(target: cst.Subscript) -> bool:
    index = target.slice[0].slice
    return len(target.slice) == 1 and isinstance(index, cst.Index) and isinstance(index.value, cst.BaseString)
