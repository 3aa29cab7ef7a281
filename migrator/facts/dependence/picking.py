"""What decides which function is called, and which object is changed: `name` of `table[name]()`, the condition of
`(slow if is_late else fast).start()`.

What a function or object of the script's does is done by the choice of it, though nothing reads what it gives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import libcst as cst

from migrator.facts.files.known import PATH_ASKERS
from migrator.facts.names import api
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Member, Object, Result, calls
from migrator.facts.program.syntax import method_called
from migrator.facts.program.tree import Tree
from migrator.worklist import Worklist

# They give one of what they are given, or what is called so.
GIVING_ONE = frozenset({
    "builtins.next", "builtins.getattr", "builtins.min", "builtins.max", "builtins.eval", "operator.getitem",
    "operator.itemgetter", "operator.attrgetter", "operator.methodcaller", "random.choice",
})  # fmt: skip
# They give several, one of which is taken out then.
_GIVING_SEVERAL = frozenset({
    "builtins.sorted", "builtins.filter", "builtins.iter", "builtins.reversed", "builtins.globals", "builtins.locals",
    "builtins.vars", "itertools.islice", "heapq.nlargest", "heapq.nsmallest",
})  # fmt: skip
_SETTING = frozenset({"builtins.setattr", "builtins.delattr"})
# Methods of arrays, tensors, variables and texts that change nothing.
_TELLING = frozenset({
    "all", "any", "argmax", "argmin", "argsort", "astype", "clip", "copy", "cumsum", "decode", "dot", "encode",
    "endswith", "flatten", "format", "item", "items", "join", "keys", "lower", "max", "mean", "min", "nonzero", "numpy",
    "prod", "ravel", "read_value", "repeat", "replace", "reshape", "round", "split", "squeeze", "startswith", "std",
    "strip", "sum", "swapaxes", "take", "title", "tobytes", "tolist", "transpose", "upper", "value", "values", "var",
})  # fmt: skip
# Methods of paths that tell of them, or give other ones.
_OF_PATHS = PATH_ASKERS | {
    "absolute", "as_posix", "expanduser", "is_absolute", "joinpath", "relative_to", "resolve", "samefile", "with_name",
    "with_stem", "with_suffix",
}  # fmt: skip
# Methods of Python's containers that give one of what these hold.
_TAKING = frozenset({"get", "pop", "setdefault", "popitem", "popleft", "__getitem__"})


class Picking:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver

    @cached_property
    def uses(self) -> Mapping[cst.CSTNode, Sequence[cst.CSTNode]]:
        """By what decides it, the calls of the function and the changes of the object that it picks."""
        found: dict[cst.CSTNode, list[cst.CSTNode]] = defaultdict(list)
        for use, base in self._based:
            for decider in self._deciders(base):
                found[decider].append(use)
        for call in self.tree.calls:
            paths = set(self.resolver.public(call.func))
            if paths & (api.RUNNING_TEXT | _SETTING):
                for arg in call.args[: 1 if paths & api.RUNNING_TEXT else 2]:
                    found[arg.value].append(call)
            elif call.args and any(map(self._chooses_by_type, self.resolver.values(call.func))):
                found[call.args[0].value].append(call)
        return found

    @cached_property
    def objects(self) -> Mapping[cst.CSTNode, Sequence[cst.CSTNode]]:
        """By the function or object the calls of it and the changes of it, where it may have been picked before."""
        found: dict[cst.CSTNode, list[cst.CSTNode]] = defaultdict(list)
        for use, base in self._based:
            found[base].append(use)
        return found

    @cached_property
    def _based(self) -> list[tuple[cst.CSTNode, cst.BaseExpression]]:
        """Calls and changes, each with the function that is called or the object that is changed."""
        found: list[tuple[cst.CSTNode, cst.BaseExpression]] = []
        for call in self.tree.calls:
            base = call.func.value if isinstance(call.func, cst.Attribute) else call.func
            if call.args and any(calls(v) == "operator.methodcaller" for v in self.resolver.values(call.func)):
                found.append((call, call.args[0].value))
            if not (self._is_fixed(base) or self.only_tells(call)):
                found.append((call, base))
        targets: list[tuple[cst.CSTNode, cst.BaseExpression]] = [(t, t) for t, _ in self.tree.item_assignments]
        for bindings in self.tree.attributes.values():
            targets += [(b.node, b.target) for b in bindings if isinstance(b.target, cst.BaseExpression)]
        for change in self.tree.augmented:
            targets.append((change, change.target))
        for use, target in targets:
            if isinstance(target, (cst.Attribute, cst.Subscript)) and not self._is_fixed(target.value):
                found.append((use, target.value))
        return found

    def only_tells(self, call: cst.Call) -> bool:
        """Whether it is a method that changes nothing, by a name that no class of the script has for one of its own."""
        name = method_called(call)
        return (name in _TELLING and name not in self.tree.methods) or self._is_of_fixed(call)

    def methods_asked_for(self, use: cst.CSTNode) -> list[cst.FunctionDef]:
        """The methods of the script's that the call may run, whichever it asks for: `getattr(game, name)()`."""
        asked = use.func if isinstance(use, cst.Call) and isinstance(use.func, cst.Call) else None
        if asked is None or not asked.args or External("builtins.getattr") not in self.resolver.values(asked.func):
            return []
        objects = [v for v in self.resolver.values(asked.args[0].value) if isinstance(v, Object)]
        return [method for v in objects for method in self.resolver.methods_of(v.of)]

    def _is_of_fixed(self, call: cst.Call) -> bool:
        """Whether it is a method of a date, a time or a path, none of which is ever changed, and writes no file."""
        values = self.resolver.values(call.func) if isinstance(call.func, cst.Attribute) else ()
        return bool(values) and all(
            isinstance(v, Member)
            and (origin(v).startswith("datetime.") or (origin(v).startswith("pathlib.") and v.name in _OF_PATHS))
            for v in values
        )

    def _is_fixed(self, node: cst.BaseExpression) -> bool:
        """Whether it is a module, a library's function, or the object that a method is of."""
        if isinstance(node, cst.Name) and self._is_receiver(node):
            return True
        values = self.resolver.values(node) if isinstance(node, (cst.Name, cst.Attribute)) else ()
        return bool(values) and all(isinstance(v, External) for v in values) and len(values) == 1

    def _is_receiver(self, name: cst.Name) -> bool:
        """Whether it is the object that a method is of: which one is decided where that is called."""
        reaching = self.resolver.reaching(name)
        param = reaching[0].node if len(reaching) == 1 and reaching[0].kind == "param" else None
        if not isinstance(param, cst.Param):
            return False
        function = self.resolver.function_of_parameter(param)
        is_method = isinstance(function, cst.FunctionDef) and self.tree.class_of(function) is not None
        return is_method and self.resolver.is_first(param, function)

    def _chooses_by_type(self, value: object) -> bool:
        """Whether what it is called with settles which function runs: `functools.singledispatch`."""
        node = value.node if isinstance(value, Function) else None
        decorators = node.decorators if isinstance(node, cst.FunctionDef) else ()
        return any(External("functools.singledispatch") in self.resolver.values(d.decorator) for d in decorators)

    def _deciders(self, base: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        # Each with whether something is taken out of it.
        queue = Worklist([(base, False)])
        for node, taken in queue:
            if isinstance(node, cst.Subscript):
                indices = [e.slice.value for e in node.slice if isinstance(e.slice, cst.Index)]
                yield from indices
                queue.append((node.value, taken or bool(indices)))
            elif isinstance(node, cst.Call):
                picked, inside = self._given_one(node, taken)
                yield from picked
                queue += [(each, True) for each in inside]
            elif isinstance(node, cst.IfExp):
                yield node.test
                queue += [(node.body, taken), (node.orelse, taken)]
            elif isinstance(node, cst.Name):
                for binding in self.resolver.reaching(node):
                    if binding.kind == "param" and isinstance(binding.node, cst.Param):
                        queue += [(each, taken) for each in self.resolver.given(binding.node)]
                    elif isinstance(binding.value, cst.BaseExpression) and binding.kind != "augmented":
                        queue.append((binding.value, taken or binding.kind == "for" or bool(binding.path)))
            elif isinstance(node, cst.Attribute):
                bindings = self.tree.attributes.get(node.attr.value, ())
                queue += [(b.value, taken) for b in bindings if isinstance(b.value, cst.BaseExpression)]
                queue.append((node.value, False))

    def _given_one(self, call: cst.Call, taken: bool) -> tuple[list[cst.BaseExpression], list[cst.BaseExpression]]:
        """What decides which one the call gives, if it gives one of several; and where these are."""
        given = [arg.value for arg in call.args]
        for value in self.resolver.values(call.func):
            path = value.path if isinstance(value, External) else ""
            if path in GIVING_ONE or (taken and path in _GIVING_SEVERAL):
                return given, given
            if isinstance(value, Result) and calls(value) in GIVING_ONE:  # `itemgetter(name)(table)`
                inner = [arg.value for arg in call.func.args] if isinstance(call.func, cst.Call) else []
                return [*inner, *given], given
            if path == "functools.partial":
                return [], given[:1]
            if isinstance(value, Function):
                return [], list(self.resolver.returned_by_itself(value.node))
            if isinstance(value, Class):
                is_one = self.resolver.derives_from(value, lambda path: path.startswith("enum."))
                return (given, []) if is_one else ([], [])
            if isinstance(value, Object):
                return [], []
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value in _TAKING:
            owners = self.resolver.values(func.value)
            if not any(isinstance(v, (Object, Member)) for v in owners):
                return given, [func.value, *given[1:]]
        return [], []
