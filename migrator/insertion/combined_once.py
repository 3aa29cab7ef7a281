"""Numbers that a script asks for several times in a row, `if np.mean(losses) < best: best = np.mean(losses)`: combined
over the workers once, under a name, where they are the same each time."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from migrator.edits import AddArgument, Guard, InsertBefore, InsertFirst, Replace, Wrap
from migrator.facts.dependence import libraries
from migrator.facts.objects.repeatable import Repeatable
from migrator.facts.objects.values import External, Function, Literal, Member, Object, Unknown, Value
from migrator.facts.program.tree import nodes_in
from migrator.facts.script import Facts
from migrator.insertion.changed_arrays import ChangedArrays
from migrator.records import replace
from migrator.rule import Found

_COMPOUND = (cst.If, cst.SimpleStatementLine)
# What stands in them runs later, or not with the statement around them.
_LATER = (cst.Lambda, cst.BaseComp, cst.FunctionDef, cst.ClassDef)
# What only looks at the values that it is made of.
_LOOKING = (
    cst.Comparison, cst.ComparisonTarget, cst.BinaryOperation, cst.UnaryOperation, cst.BooleanOperation,
    cst.FormattedStringExpression, cst.If,
)  # fmt: skip
_LEAVING = (cst.Yield, cst.Await, cst.NamedExpr, cst.Del, cst.Global, cst.Nonlocal, cst.Import, cst.ImportFrom)
_LISTS = (cst.List, cst.ListComp)
_MADE_ANEW = (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.FormattedString)
_PRINT = "builtins.print"
# They give a number of any list, and do not fail.
_OF_ANY_LIST = frozenset({"numpy.mean", "numpy.sum", "builtins.sum"})


def combined_once(facts: Facts, found: Sequence[Found]) -> Iterator[Found]:
    """The findings, with one statement in place of the same number being combined in several places."""
    once = _Once(facts, found)
    for edit in found:
        yield from once.of(edit)


@dataclass(frozen=True)
class _Region:
    """The statements of one block from the first that asks for the number to the last; `end`: up to where what they
    hold runs before the last time."""

    statements: tuple[cst.CSTNode, ...]
    end: int


class _Once:
    def __init__(self, facts: Facts, found: Sequence[Found]) -> None:
        self.facts = facts
        self.tree = facts.tree
        self.repeatable = Repeatable(facts.tree, facts.resolver)
        self.changed = ChangedArrays(facts.tree, facts.resolver)
        self._names: dict[cst.CSTNode, str] = {}
        self._first: set[cst.CSTNode] = set()
        wraps = [edit for edit in found if isinstance(edit, Wrap) and isinstance(edit.node, cst.BaseExpression)]
        alike: dict[tuple[object, ...], list[Wrap]] = defaultdict(list)
        for edit in sorted(wraps, key=lambda edit: self.tree.order[edit.node]):
            where = self.tree.callable_of(edit.node) or self.tree.module_of(edit.node)
            alike[where, facts.source(edit.node), replace(edit, node=wraps[0].node)].append(edit)
        touched = {edit.node for edit in found if not isinstance(edit, (AddArgument, InsertFirst, Guard))}
        touched |= {operand.node for repair in facts.repairs for operand in repair.operands}
        for several in alike.values():
            nodes = [edit.node for edit in several if isinstance(edit.node, cst.BaseExpression)]
            if not any(each not in nodes and self.tree.contains(n, each) for n in nodes for each in touched):
                self._name_all(nodes)

    def of(self, edit: Found) -> Iterator[Found]:
        name = self._names.get(edit.node) if isinstance(edit, Wrap) else None
        if not isinstance(edit, Wrap) or name is None:
            yield edit
            return
        if edit.node in self._first:
            yield InsertBefore(edit.node, (f"{name} = {edit.before}{self.facts.source(edit.node)}{edit.after}",))
        yield Replace(edit.node, (name,))

    def _name_all(self, nodes: list[cst.BaseExpression]) -> None:
        """Names the number for as many of the places as one statement above the first of them is right for."""
        while len(nodes) > 1:
            first, rest = nodes[0], nodes[1:]
            together = [first]
            for node in rest if self._may_be_asked_ahead(first, rest) else ():
                region = self._region(first, node)
                if region is None or not self._stays(first, region, nodes):
                    break
                together.append(node)
            if len(together) > 1:
                self._names.update(dict.fromkeys(together, self._fresh_name(first)))
                self._first.add(first)
            nodes = nodes[len(together) :]

    def _fresh_name(self, first: cst.BaseExpression) -> str:
        wanted = f"global_{_called(first)}"
        here = self.tree.callable_of(first)
        taken = {name for node, name in self._names.items() if self.tree.callable_of(node) is here}
        names = (wanted if number == 1 else f"{wanted}_{number}" for number in itertools.count(1))
        return next(name for name in names if self.facts.fresh_variable(name, first) == name and name not in taken)

    def _may_be_asked_ahead(self, node: cst.BaseExpression, rest: Sequence[cst.BaseExpression]) -> bool:
        """Whether the number may be asked for right above its statement, as well as where it stands. `rest`: where it
        is asked for later."""
        statement = self.tree.statement_of(node)
        if not isinstance(statement, _COMPOUND) or not self._is_first(statement):
            return False
        if isinstance(statement, cst.If) and not self.tree.contains(statement.test, node):
            return False
        if not self.repeatable.is_so(node):
            return False
        small: cst.CSTNode = node
        for owner in self.tree.ancestors(node):
            if owner is statement:
                break
            if isinstance(owner, _LATER) or (isinstance(owner, cst.IfExp) and small is not owner.test):
                return False
            is_at_will = isinstance(owner, cst.BooleanOperation) and small is owner.right
            is_apart = is_at_will and self._is_of_any_list(node) and self._is_asked_apart(owner, node)
            if is_at_will and not is_apart and not self._is_asked_anyway(statement, rest):
                return False
            small = owner
        header = statement.test if isinstance(statement, cst.If) else statement
        order = self.tree.order
        before = [c for c in self.tree.calls if self.tree.contains(header, c) and order[c] < order[node]]
        return all(self.tree.contains(call, node) or self.repeatable.is_so(call) for call in before)

    def _is_asked_anyway(self, statement: cst.CSTNode, rest: Sequence[cst.BaseExpression]) -> bool:
        """Whether the number is asked for in any case: `if best is None or loss < best: best = loss`; or in the next
        line."""
        beside = self.tree.statements_beside(statement)
        following = beside[beside.index(statement) + 1 :][:1]
        if isinstance(statement, cst.If):
            test, body = statement.test, statement.body.body
            if any(
                isinstance(inner, (cst.Return, cst.Raise, cst.Break, cst.Continue)) for inner in nodes_in(statement)
            ):
                following = []
            if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or):
                following = [*following, *body]
        return any(self._is_asked_at_once(line, node) for line in following for node in rest)

    def _is_asked_at_once(self, line: cst.CSTNode, node: cst.BaseExpression) -> bool:
        if not self.tree.contains(line, node) or not isinstance(
            line, (cst.SimpleStatementLine, cst.BaseSmallStatement)
        ):
            return False
        around = itertools.takewhile(lambda owner: owner is not line, self.tree.ancestors(node))
        return not any(isinstance(owner, (*_LATER, cst.IfExp, cst.BooleanOperation)) for owner in around)

    def _is_first(self, statement: cst.CSTNode) -> bool:
        """Whether lines can stand above the statement: it is no `elif`, and begins its line."""
        return self.tree.lift(statement, self.tree.block_of(statement)) is statement and isinstance(
            self.tree.block_of(statement), (cst.Module, cst.IndentedBlock)
        )

    def _is_of_any_list(self, node: cst.BaseExpression) -> bool:
        """Whether it can be asked for, whatever the script has looked at before: the mean of a list that is there."""
        if not isinstance(node, cst.Call) or len(node.args) != 1 or not isinstance(node.args[0].value, cst.Name):
            return False
        values = self.facts.resolver.values(node.func)
        given = self.facts.resolver.values(node.args[0].value)
        is_list = bool(given) and all(isinstance(v, Literal) and isinstance(v.node, _LISTS) for v in given)
        return is_list and bool(values) and all(isinstance(v, External) and v.path in _OF_ANY_LIST for v in values)

    def _is_asked_apart(self, condition: cst.CSTNode, node: cst.BaseExpression) -> bool:
        """Whether the rest of the condition says nothing of what the number is made of."""
        made_of = {name.value for name in self.tree.names_in(node) if self.tree.is_variable(name)}
        rest = [name for name in self.tree.names_in(condition) if not self.tree.contains(node, name)]
        return not any(name.value in made_of for name in rest if not self._is_of_module(name))

    def _is_of_module(self, name: cst.Name) -> bool:
        values = self.facts.resolver.values(name)
        return bool(values) and all(isinstance(v, External) for v in values)

    def _region(self, first: cst.BaseExpression, node: cst.BaseExpression) -> _Region | None:
        """What runs from the statement of the first to the other; None where the other may run without it."""
        statement = self.tree.statement_of(first)
        last = self.tree.lift(node, self.tree.block_of(statement))
        if last is None:
            return None
        for owner in self.tree.ancestors(node):
            if owner is last:
                break
            if isinstance(owner, _LATER):
                return None
        beside = self.tree.statements_beside(statement)
        is_in_loop = any(self.tree.contains(last, loop) for loop in self.tree.loops_around(node))
        end = self.tree.last_order_in(last) if is_in_loop else self.tree.last_order_in(node)
        return _Region(tuple(beside[beside.index(statement) : beside.index(last) + 1]), end)

    def _stays(self, first: cst.BaseExpression, region: _Region, asked: Sequence[cst.BaseExpression]) -> bool:
        """Whether nothing in the region changes what the number is made of."""
        names = {name.value for name in self.tree.names_in(first) if self.tree.is_variable(name)}
        read = [name for name in self.tree.names_in(first) if self.tree.is_variable(name)]
        attributes = self._attributes_read(first)
        made_of = self._made_of(first)
        inner = {node for expression in asked for node in nodes_in(expression)}
        for statement in region.statements:
            for node in nodes_in(statement):
                if node in inner or self.tree.order.get(node, region.end + 1) > region.end:
                    continue
                is_part = isinstance(node, (cst.Name, cst.Attribute)) and self._is_part(node, names, attributes)
                if is_part and not self._is_only_read(node, attributes):
                    return False
                if isinstance(node, _LEAVING) or self._may_change(node, made_of, of_objects=bool(attributes)):
                    return False
                if isinstance(node, cst.AugAssign) and any(
                    self.changed.may_be_other_name(n, node.target) for n in read
                ):
                    return False
        return True

    def _is_part(self, node: cst.Name | cst.Attribute, names: Collection[str], attributes: Collection[str]) -> bool:
        if isinstance(node, cst.Name):
            return node.value in names and self.tree.is_variable(node) and not self._is_of_module(node)
        return node.attr.value in attributes

    def _made_of(self, node: cst.BaseExpression) -> list[Value]:
        """The containers and objects that the number may be made of."""
        parts = [n for n in nodes_in(node) if isinstance(n, (cst.Name, cst.Attribute, cst.Subscript))]
        parts = [n for n in parts if not isinstance(n, cst.Name) or self.tree.is_variable(n)]
        values = [v for n in parts for v in self.facts.resolver.values(n) or [Unknown(n)]]
        return [v for v in values if not isinstance(v, (External, Member)) and not _is_plain(v)]

    def _may_change(self, node: cst.CSTNode, made_of: Sequence[Value], *, of_objects: bool) -> bool:
        """Whether what the number is made of may be changed by its other names, or by what nobody knows."""
        if isinstance(node, cst.AugAssign):
            return not self.changed.is_own(node.target) and self._may_be(node.target, made_of)
        if isinstance(node, cst.Subscript) and node in self.tree.targets:
            is_other = not isinstance(self.tree.parent[node], cst.AugAssign)  # see above
            return is_other and self._may_be(node.value, made_of)
        if not isinstance(node, cst.Call) or self.repeatable.is_so(node):
            return False
        values = self.facts.resolver.values(node.func)
        if not values or of_objects:
            return not self._is_printing(node)
        for value in values:
            if isinstance(value, External):
                is_known = value.path == _PRINT or libraries.is_pure(value.path)
                if any(self._runs(arg.value) for arg in node.args):
                    return True
                changed = [] if is_known else [arg.value for arg in node.args]
            elif isinstance(value, Member) and not isinstance(value.owner, Object):
                changed = [node.func.value] if isinstance(node.func, cst.Attribute) else [node.func]
            else:
                return True
            if any(self._may_be(each, made_of) for each in changed):
                return True
        return False

    def _runs(self, given: cst.BaseExpression) -> bool:
        """Whether it is a function of the script, which the one that is given it may run: `list(map(add, losses))`."""
        found = self.facts.resolver.values(given)
        return any(isinstance(v, Function) for v in found)

    def _may_be(self, node: cst.BaseExpression, made_of: Sequence[Value]) -> bool:
        values = [v for v in self.facts.resolver.values(node) or (Unknown(node),) if not _is_plain(v)]
        unseen = any(isinstance(v, Unknown) for v in (*values, *made_of))
        return bool(values) and (unseen or any(v in made_of for v in values))

    def _attributes_read(self, node: cst.CSTNode, passed: tuple[cst.CSTNode, ...] = ()) -> set[str]:
        """The attributes of objects that the number is made of, in properties and functions, too."""
        found: set[str] = set()
        for inner in nodes_in(node):
            run: list[cst.FunctionDef] = []
            if isinstance(inner, cst.Attribute):
                values = self.facts.resolver.values(inner)
                if not values or not all(isinstance(v, External) for v in values):
                    found.add(inner.attr.value)
                run = self.facts.resolver.properties(inner)
            elif isinstance(inner, cst.Call):
                functions = [v.node for v in self.facts.resolver.values(inner.func) if isinstance(v, Function)]
                run = [f for f in functions if isinstance(f, cst.FunctionDef)]
            for function in run:
                if function not in passed:
                    found |= self._attributes_read(function.body, (*passed, function))
        return found

    def _is_only_read(self, node: cst.CSTNode, attributes: Collection[str]) -> bool:
        """Whether what has the name is looked at there, and neither set nor handed on."""
        small: cst.CSTNode = node
        for owner in self.tree.ancestors(node):
            if isinstance(owner, cst.Attribute) and owner.attr.value not in attributes and self._is_field(owner):
                return True
            if isinstance(owner, cst.Arg):
                call = self.tree.parent[owner]
                return isinstance(call, cst.Call) and (self.repeatable.is_so(call) or self._is_printing(call))
            if isinstance(owner, cst.Call):
                return owner.func is small and self.repeatable.is_so(owner)
            if isinstance(owner, (cst.Attribute, cst.Subscript)) and owner.value is small:
                small = owner
                continue
            return isinstance(owner, _LOOKING)
        return False

    def _is_field(self, attribute: cst.Attribute) -> bool:
        """Whether it is another attribute of an object, and nothing runs where that is read or set."""
        parent = self.tree.parent[attribute]
        is_value = isinstance(parent, (cst.AssignTarget, cst.AugAssign, *_LOOKING))
        is_plain = not self.facts.resolver.properties(attribute) and "__setattr__" not in self.tree.methods
        return is_value and is_plain and any(isinstance(v, Object) for v in self.facts.resolver.values(attribute.value))

    def _is_printing(self, call: cst.Call) -> bool:
        values = self.facts.resolver.values(call.func)
        return bool(values) and all(isinstance(v, External) and v.path == _PRINT for v in values)


def _is_plain(value: Value) -> bool:
    """A number or a text, which nothing changes."""
    return isinstance(value, Literal) and isinstance(value.node, (cst.BaseNumber, cst.BaseString, *_MADE_ANEW))


def _called(node: cst.BaseExpression) -> str:
    """What the number is called: `mean` of `np.mean(losses)`, `loss` of `float(loss)` and `loss.numpy()`."""
    if isinstance(node, cst.Call):
        func = node.func
        if isinstance(func, cst.Attribute) and func.attr.value in ("numpy", "item", "result"):
            return _called(func.value)
        name = func.attr.value if isinstance(func, cst.Attribute) else func.value if isinstance(func, cst.Name) else ""
        if name in ("float", "int", "round", "abs") and node.args:
            return _called(node.args[0].value)
        return name.replace("reduce_", "") or "value"
    if isinstance(node, cst.Attribute):
        return node.attr.value.strip("_")
    return node.value if isinstance(node, cst.Name) else "value"
