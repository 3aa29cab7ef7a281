"""Expressions that may be asked for twice: a rule that needs a number in a second place writes it there once more."""

from __future__ import annotations

import re

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Literal, Member, Object, Unknown, Value, calls
from migrator.facts.program.tree import Tree, semantic_children

# Functions that change nothing, and give the same for the same; iterators, of which some use up what they are given,
# are looked at apart.
_PURE = re.compile(
    r"^(?:builtins\.(?:len|int|float|bool|str|round|abs|pow|divmod|min|max|sum|isinstance|getattr|hasattr)|math\.\w+"
    r"|numpy\.(?:u?int\d*|intp|int_|float\d*|float_|ceil|floor|rint|round|sqrt|square|abs|log|log2|log10|exp|power|prod"
    r"|size|shape|ndim|minimum|maximum|gcd|lcm|floor_divide|array|mean|sum|median|std|var|nanmean|average)"
    r"|os\.(?:cpu_count|getenv|environ\.get)|(?:tensorflow|keras\.ops)\.(?:shape|size|rank|cast)"
    r"|tensorflow\.(?:math\.)?reduce_(?:mean|sum|max|min)|keras\.ops\.(?:mean|sum|max|min))$"
)
_READING = frozenset({"builtins.min", "builtins.max", "builtins.sum"})  # one argument is gone through
# Methods that only look at what they are called on. `get` is one of dictionaries and settings, if it is told a key:
# queues have another one.
_PURE_METHODS = frozenset({
    "get", "getint", "getfloat", "item", "numpy", "tolist", "as_list", "num_elements", "cardinality", "mean", "sum",
    "min", "max", "bit_length", "lower", "strip", "__len__",
})  # fmt: skip
_CONVERTING = frozenset({"astype", "reshape", "copy", "to_numpy", "flatten", "ravel", "toarray", "drop"})
# Libraries whose functions change nothing that a script asks for, but for their random numbers.
_APART = ("tensorflow.", "keras.", "numpy.", "pandas.", "sklearn.")
_METRICS = "keras.metrics."  # of these, `result` only tells
# What is not the same the second time, or changes something.
_ONCE = (
    cst.NamedExpr, cst.Yield, cst.Await, cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp,
)  # fmt: skip
# What may not run what it holds, or more than once.
_AT_WILL = (cst.IfExp, cst.BooleanOperation, cst.Lambda, cst.BaseComp)


class Repeatable:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver

    def is_so(self, node: cst.CSTNode, passed: tuple[cst.CSTNode, ...] = ()) -> bool:
        """Whether the expression changes nothing, and gives the same if it is asked for again at once."""
        if isinstance(node, _ONCE):
            return False
        if isinstance(node, cst.Call) and not self._is_pure(node, passed):
            return False
        if isinstance(node, cst.Attribute):
            properties = self.resolver.properties(node)
            if not all(self._gives_only(method, passed) for method in properties):
                return False
        return all(self.is_so(child, passed) for child in semantic_children(node))

    def is_elsewhere(self, node: cst.BaseExpression, place: cst.CSTNode) -> bool:
        """Whether the expression is the same at another place: its names are bound once, and are these there."""
        here, there = self.tree.scope_of(node), self.tree.scope_of(place)
        names = [name for name in self.tree.names_in(node) if self.tree.is_variable(name)]
        homes = [(name.value, here.lookup(name.value), there.lookup(name.value)) for name in names]
        return self.is_so(node) and all(
            home is other and (home is None or len(home.bindings[name]) == 1) for name, home, other in homes
        )

    def can_be_named(self, node: cst.BaseExpression) -> bool:
        """Whether the line may begin with the expression, under a name, as well as ask for it where it stands."""
        small: cst.CSTNode = node
        for owner in self.tree.ancestors(node):
            if isinstance(owner, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
                if owner.body[0] is not small:
                    return False
                break
            if isinstance(owner, (*_AT_WILL, cst.BaseCompoundStatement)):
                return False
            small = owner
        before = [call for call in self.tree.calls if self.tree.contains(small, call)]
        before = [call for call in before if self.tree.order[call] < self.tree.order[node]]
        return all(self.tree.contains(call, node) or self._leaves_all(call) for call in before)

    def _leaves_all(self, call: cst.Call) -> bool:
        """Whether what the call does makes no difference to what the script asks for by itself."""
        return self.is_so(call) or all(map(self._is_apart, self.resolver.values(call.func) or [Unknown(call)]))

    @staticmethod
    def _is_apart(function: Value) -> bool:
        if isinstance(function, External):
            return function.path.startswith(_APART) and "random" not in function.path
        if not isinstance(function, Member) or isinstance(function.owner, Object):
            return False
        return function.name in _PURE_METHODS | _CONVERTING

    def _is_pure(self, call: cst.Call, passed: tuple[cst.CSTNode, ...]) -> bool:
        values = self.resolver.values(call.func)
        if not values or any(arg.star for arg in call.args):
            return False
        given = [v for arg in call.args for v in self.resolver.values(arg.value)]
        for value in values:
            if isinstance(value, External):
                # An object of the script's own may do anything when it is asked for its length.
                if not _PURE.match(value.path) or any(isinstance(v, Object) for v in given):
                    return False
                if value.path in _READING and len(call.args) == 1 and not all(isinstance(v, Literal) for v in given):
                    return False
            elif isinstance(value, Function):
                if not isinstance(value.node, cst.FunctionDef) or not self._gives_only(value.node, passed):
                    return False
            elif not isinstance(value, Member) or not self._is_pure_method(value, call):
                return False
        return True

    def _is_pure_method(self, method: Member, call: cst.Call) -> bool:
        if isinstance(method.owner, Object):  # of a base class that is not seen
            return False
        if method.name == "result" and calls(method.owner).startswith(_METRICS):
            return True
        return method.name in _PURE_METHODS and (bool(call.args) or method.name != "get")

    def _gives_only(self, function: cst.FunctionDef, passed: tuple[cst.CSTNode, ...]) -> bool:
        """Whether the function does nothing but work out what it returns."""
        if function in passed or function.asynchronous is not None:
            return False
        if function.decorators and not self.resolver.is_property(function):
            return False
        return self._only_works_out(function.body, (*passed, function))

    def _only_works_out(self, body: cst.BaseSuite, passed: tuple[cst.CSTNode, ...]) -> bool:
        for line in body.body:
            if isinstance(line, cst.If):
                branches = [branch for branch in (line.body, line.orelse) if branch is not None]
                suites = [branch.body if isinstance(branch, cst.Else) else branch for branch in branches]
                if not self.is_so(line.test, passed) or not all(
                    isinstance(suite, (cst.IndentedBlock, cst.SimpleStatementSuite))
                    and self._only_works_out(suite, passed)
                    for suite in suites
                ):
                    return False
                continue
            smalls = line.body if isinstance(line, cst.SimpleStatementLine) else [line]
            if not all(self._is_working_out(small, passed) for small in smalls):
                return False
        return True

    def _is_working_out(self, small: cst.CSTNode, passed: tuple[cst.CSTNode, ...]) -> bool:
        if isinstance(small, cst.Pass) or (isinstance(small, cst.Expr) and isinstance(small.value, cst.BaseString)):
            return True
        if isinstance(small, cst.Return):
            return small.value is None or self.is_so(small.value, passed)
        if isinstance(small, cst.Assign):
            targets = [target.target for target in small.targets]
            own = all(isinstance(t, cst.Name) and self._is_local(t) for t in targets)
            return own and self.is_so(small.value, passed)
        return False

    def _is_local(self, name: cst.Name) -> bool:
        scope = self.tree.scope_of(name)
        return scope.lookup(name.value) is scope
