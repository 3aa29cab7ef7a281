"""Where a script uses the number of rows of a global batch, and what for."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import cast

import libcst as cst

from migrator.facts.data.batch_shapes import BatchShapes
from migrator.facts.names import api
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Object
from migrator.facts.program.syntax import method_called
from migrator.facts.program.tree import Tree

_REPORTING = (
    *(f"builtins.{name}" for name in ("print", "len", "int", "float", "str", "range", "round", "min", "max")),
    "math.", "numpy.ceil", "logging.", "absl.logging.", "tensorflow.print", "time.",
)  # fmt: skip
# Outside of a step they count steps, inside of it rows.
_COUNTING = frozenset({"builtins.range", "builtins.min", "builtins.max"})
# They make a number of a number, as `//` does.
_ARITHMETIC = frozenset({"numpy.sqrt", "numpy.ceil", "numpy.floor", "numpy.log2", "builtins.int", "builtins.round"})


def _key(item: cst.Subscript) -> str | None:
    """The literal key of `config["batch_size"]`."""
    index = item.slice[0].slice.value if isinstance(item.slice[0].slice, cst.Index) else None
    return str(index.evaluated_value) if isinstance(index, cst.SimpleString) else None


class SizeUses:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, batch_shapes: BatchShapes) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self._batch_shapes = batch_shapes

    def of(self, size: cst.BaseExpression, seen: tuple[cst.BaseExpression, ...] = ()) -> Iterator[cst.BaseExpression]:
        """The other places that read the same name, attribute or item, also what a parameter is given, and what a
        function gives back that returns it."""
        if isinstance(size, cst.Name):
            uses = [u for u in self.resolver.uses(size) if not isinstance(u, cst.Name) or self._is_load(u)]
            yield from uses
            for named in (named for use in uses for named in self._handed_back(use) if named not in seen):
                yield from self.of(named, (*seen, named))
            for binding in self.resolver.reaching(size):
                if binding.kind == "param":
                    for given in self.resolver.given(cast(cst.Param, binding.node)):
                        if isinstance(given, (cst.Name, cst.Attribute, cst.Subscript)) and given not in seen:
                            yield from self.of(given, (*seen, given))
        elif isinstance(size, cst.Subscript):
            for item in self.tree.all_of(cst.Subscript):
                if item is not size and _key(item) == _key(size) is not None:
                    yield item
        elif isinstance(size, cst.Attribute):
            for name in self.tree.names[size.attr.value]:
                owner = self.tree.parent.get(name)
                if not isinstance(owner, cst.Attribute) or owner.attr is not name or owner is size:
                    continue
                if not isinstance(self.tree.parent.get(owner), cst.AssignTarget):
                    yield owner

    def handed_over(self, size: cst.BaseExpression) -> list[cst.BaseExpression]:
        """What the parameters are given that it comes from, in each call: what their functions do with it is what the
        other uses do. Nothing where one of those makes rows, or keeps the size, which each call may do for another."""
        given = list(self._given(size))
        others = [use for use in self.of(size) if use not in given] if given else []
        return [] if any(self._is_passed_on(use) for use in others) else given

    def _is_passed_on(self, use: cst.BaseExpression) -> bool:
        call = self.tree.parent.get(self.tree.parent[use])
        is_batching = isinstance(call, cst.Call) and method_called(call) == "batch"
        is_named = isinstance(self.tree.parent[use], (cst.Assign, cst.AnnAssign, cst.NamedExpr))
        return is_named or (not is_batching and self._shapes_something(use))

    def _given(
        self, size: cst.BaseExpression, seen: tuple[cst.BaseExpression, ...] = ()
    ) -> Iterator[cst.BaseExpression]:
        for binding in self.resolver.reaching(size) if isinstance(size, cst.Name) else ():
            if binding.kind == "param":
                for given in self.resolver.given(cast(cst.Param, binding.node)):
                    if given not in seen:
                        yield given
                        yield from self._given(given, (*seen, given))

    def _handed_back(self, use: cst.BaseExpression) -> Iterator[cst.Name | cst.Attribute]:
        """What gets the size from a function that returns it, alone or in a tuple: `data, size = load()`."""
        owner: cst.CSTNode | None = self.tree.parent.get(use)
        place: int | None = None
        if isinstance(owner, cst.Element) and isinstance(several := self.tree.parent[owner], cst.Tuple):
            owner, place = self.tree.parent[several], [e.value for e in several.elements].index(use)
        function = self.tree.function_of(use) if isinstance(owner, cst.Return) else None
        for call in self.resolver.callers(function) if function is not None else ():
            assign = self.tree.parent.get(call)
            for target in assign.targets if isinstance(assign, cst.Assign) else ():
                got: cst.BaseExpression | None = target.target
                if place is not None:
                    elements = got.elements if isinstance(got, (cst.Tuple, cst.List)) else ()
                    has_place = place < len(elements) and all(isinstance(e, cst.Element) for e in elements[: place + 1])
                    got = elements[place].value if has_place else None
                if isinstance(got, (cst.Name, cst.Attribute)):
                    yield got

    def makes_rows(self, use: cst.BaseExpression, *, in_step: bool = False) -> bool:
        """Whether as many rows are made there, and the size is no normaliser. `in_step`: in code that runs for each
        batch."""
        return self._shapes_something(use, _COUNTING if in_step else ()) and not self._is_divisor(use)

    def is_kept(self, use: cst.BaseExpression) -> bool:
        """Whether a model has the size in it."""
        return self._builds_model(use) or self._is_in_model(use)

    def _builds_model(self, use: cst.BaseExpression) -> bool:
        """Whether the size is given to a model or layer, which may keep it for its steps."""
        arg = self.tree.parent.get(use)
        call = self.tree.parent.get(arg) if isinstance(arg, cst.Arg) else None
        return isinstance(call, cst.Call) and any(self.kinds.has_weights(v) for v in self.resolver.values(call))

    def _shapes_something(self, use: cst.BaseExpression, counting: Collection[str] = ()) -> bool:
        """Whether the size goes into a shape, a list or a call that does more than report or count; in plain
        arithmetic it counts global samples."""
        child: cst.CSTNode = use
        for owner in self.tree.ancestors(use):
            if isinstance(owner, (cst.List, cst.Tuple)):
                return True
            if isinstance(owner, cst.BinaryOperation) and isinstance(owner.operator, cst.Multiply):
                other = owner.left if owner.right is child else owner.right
                if isinstance(other, (cst.List, cst.Tuple)):
                    return True
            if isinstance(owner, cst.Comparison) or (isinstance(owner, cst.Call) and self._compares(owner)):
                return False  # whether a batch is a full one
            if isinstance(owner, cst.Call) and not self._is_arithmetic(owner):
                return child is not owner.func and not self._only_reports(owner, counting)
            if isinstance(owner, (cst.BaseStatement, cst.BaseSmallStatement)):
                return False
            child = owner
        return False

    def _compares(self, call: cst.Call) -> bool:
        paths = [v.path if isinstance(v, External) else "" for v in self.resolver.values(call.func)]
        return bool(paths) and all(api.COMPARING.match(path) for path in paths)

    def _is_arithmetic(self, call: cst.Call) -> bool:
        paths = [v.path if isinstance(v, External) else "" for v in self.resolver.values(call.func)]
        return bool(paths) and all(path.startswith("math.") or path in _ARITHMETIC for path in paths)

    def _only_reports(self, call: cst.Call, counting: Collection[str]) -> bool:
        """Calls that print, log or count, but for those that count rows here."""
        paths = set(self.resolver.public(call.func))
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("format", "set_postfix", "update"):
            return True
        return bool(paths) and all(p.startswith(_REPORTING) and p not in counting for p in paths)

    def _is_load(self, name: cst.Name) -> bool:
        """Whether the node reads the name: attributes and keywords only look alike."""
        parent = self.tree.parent.get(name)
        if isinstance(parent, cst.Attribute):
            return parent.value is name
        if isinstance(parent, (cst.AssignTarget, cst.Param, cst.AnnAssign)):
            return False
        return not (isinstance(parent, cst.Arg) and parent.keyword is name)

    def _is_in_model(self, use: cst.BaseExpression) -> bool:
        return any(
            isinstance(owner, cst.ClassDef) and self.kinds.has_weights(Object(Class(owner)))
            for owner in self.tree.ancestors(use)
        )

    def _is_divisor(self, name: cst.BaseExpression, passed: tuple[cst.CSTNode, ...] = ()) -> bool:
        """A normaliser of the loss (`/ BATCH`, `global_batch_size=BATCH`), or of gradients by a function that is given
        it (`sgd(weights, rate, BATCH, gradients)`): it means the global batch and stays."""
        if self._is_divisor_of_function(name, passed):
            return True
        child: cst.CSTNode = name
        for owner in self.tree.ancestors(name):
            if isinstance(owner, cst.BinaryOperation):
                return isinstance(owner.operator, (cst.Divide, cst.FloorDivide)) and owner.right is child
            if isinstance(owner, cst.Arg) and owner.keyword is not None and owner.keyword.value == "global_batch_size":
                return True
            if isinstance(owner, cst.Call) and not any(a is child for a in owner.args):
                return False
            if isinstance(owner, (cst.BaseStatement, cst.BaseSmallStatement)):
                return False
            child = owner
        return False

    def _is_divisor_of_function(self, name: cst.BaseExpression, passed: tuple[cst.CSTNode, ...]) -> bool:
        arg = self.tree.parent[name]
        call = self.tree.parent[arg] if isinstance(arg, cst.Arg) else None
        functions = self.resolver.values(call.func) if isinstance(call, cst.Call) else ()
        if not isinstance(call, cst.Call) or not functions or call in passed:
            return False
        for function in functions:
            if not isinstance(function, Function):
                return False
            loads = self._batch_shapes.loads_of_parameter(function, name)
            if not loads or not all(self._is_divisor(load, (*passed, call)) for load in loads):
                return False
        return True
