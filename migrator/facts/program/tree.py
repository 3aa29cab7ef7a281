"""The one walk over the parsed files of a program: parents, order, scopes, bindings, calls.

Only nodes that carry meaning are visited (expressions, statements, arguments): white space and punctuation
are two thirds of a libcst tree, and libcst's own visitors spend most of their time there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from functools import cached_property
from typing import TypeVar, Union, cast

import libcst as cst

from migrator.facts.program.syntax import is_private, mangled, parts_of_target
from migrator.records import dataclass

Statement = Union[cst.SimpleStatementLine, cst.BaseCompoundStatement]
Target = Union[cst.Name, cst.Attribute, cst.Subscript]
FunctionLike = Union[cst.FunctionDef, cst.Lambda]
Loop = Union[cst.For, cst.While]
Node = TypeVar("Node", bound=cst.CSTNode)

_SKIPPED_FIELDS = {
    "lpar",
    "rpar",
    "comma",
    "equal",
    "semicolon",
    "colon",
    "dot",
    "operator",
    "header",
    "footer",
    "leading_lines",
    "trailing_whitespace",
    "lines_after_decorators",
    "lbracket",
    "rbracket",
    "lbrace",
    "rbrace",
    "star",
    "trailing_newline",
    "newline",
    "asynchronous",
    "annotation",
    "returns",
    "type_parameters",
}
_SKIPPED_TYPES = (cst.BaseParenthesizableWhitespace, cst.TrailingWhitespace, cst.EmptyLine, cst.Newline)

_field_names: dict[type, tuple[str, ...]] = {}
# Asked once for each type.
_is_skipped: dict[type, bool] = {}


def _semantic_fields(kind: type) -> tuple[str, ...]:
    names = _field_names.get(kind)
    if names is None:
        names = tuple(
            f.name for f in fields(kind) if f.name not in _SKIPPED_FIELDS and not f.name.startswith("whitespace")
        )
        _field_names[kind] = names
    return names


def semantic_children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The child nodes that carry meaning, in source order."""
    found: list[cst.CSTNode] = []
    for name in _semantic_fields(type(node)):
        value = getattr(node, name)
        kind = type(value)
        if kind is list or kind is tuple:
            found += value
            continue
        is_skipped = _is_skipped.get(kind)
        if is_skipped is None:
            is_skipped = not issubclass(kind, cst.CSTNode) or issubclass(kind, _SKIPPED_TYPES)
            _is_skipped[kind] = is_skipped
        if not is_skipped:
            found.append(value)
    return found


def nodes_in(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The node and all that carry meaning inside of it, in source order."""
    yield node
    for child in semantic_children(node):
        yield from nodes_in(child)


@dataclass(frozen=True, eq=False)
class Binding:
    """One place where a name, or an attribute of an object, gets a value.

    `value` is the expression it gets, None where there is none to see; `path` leads from that expression to the
    value through tuple unpacking; `kind` tells the form: assign, for, with, import, def, class, param, field (what a
    dataclass is called with), other.
    """

    name: str
    kind: str
    node: cst.CSTNode
    value: cst.CSTNode | None = None
    path: tuple[int, ...] = ()
    target: cst.BaseExpression | None = None


def _name_in_globals(target: cst.Subscript) -> str:
    """`step` for `globals()["step"]`, else empty."""
    owner, index = target.value, target.slice[0].slice
    if not (isinstance(owner, cst.Call) and isinstance(owner.func, cst.Name) and owner.func.value == "globals"):
        return ""
    key = index.value if isinstance(index, cst.Index) else None
    name = key.evaluated_value if isinstance(key, cst.SimpleString) else ""
    return name if isinstance(name, str) else ""


_MANGLED = re.compile(r"_(?!_)\w+?(__\w*[^_]_?)$")
COMPREHENSIONS = (cst.GeneratorExp, cst.ListComp, cst.SetComp, cst.DictComp)


class Scope:
    """A module, class, function, lambda or comprehension with the names bound in it."""

    def __init__(self, node: cst.CSTNode, parent: Scope | None) -> None:
        self.node = node
        self.parent = parent
        self.bindings: dict[str, list[Binding]] = defaultdict(list)
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()
        self.is_class = isinstance(node, cst.ClassDef)
        self.is_function = isinstance(node, (cst.FunctionDef, cst.Lambda))

    def module(self) -> Scope:
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def around(self) -> Scope:
        """The scope in which `:=` binds: that around the comprehensions which it stands in."""
        scope = self
        while scope.parent is not None and isinstance(scope.node, COMPREHENSIONS):
            scope = scope.parent
        return scope

    def names(self) -> list[str]:
        """All names that may be read there."""
        scopes = [self]
        while scopes[-1].parent is not None:
            scopes.append(scopes[-1].parent)
        return [name for scope in scopes if scope is self or not scope.is_class for name in scope.bindings]

    def lookup(self, name: str) -> Scope | None:
        """The scope that binds the name as Python resolves it from here: classes do not lend their names inwards."""
        if name in self.globals:
            return self.module() if name in self.module().bindings else None
        scope: Scope | None = self.parent if name in self.nonlocals else self
        while scope is not None:
            if name in scope.bindings and (scope is self or not scope.is_class):
                return scope
            scope = scope.parent
        return None


_SCOPE_NODES = (
    cst.FunctionDef,
    cst.Lambda,
    cst.ClassDef,
    *COMPREHENSIONS,
)
# Of these, a name is what they bind.
_BINDING = frozenset(
    {cst.AssignTarget, cst.Param, cst.FunctionDef, cst.ClassDef, cst.ImportAlias, cst.AsName, cst.NameItem}
)


class Tree:
    """The walked modules. All look-ups are by node identity."""

    def __init__(self, modules: Sequence[cst.Module]) -> None:
        """`modules` in the order in which Python would run them: what is imported before what imports it."""
        self.modules = tuple(modules)
        self.parent: dict[cst.CSTNode, cst.CSTNode] = {}
        self.order: dict[cst.CSTNode, int] = {}
        self._parent_orders: list[int] = []  # for each node, by its order: nodes are slow keys
        self.scopes: dict[cst.CSTNode, Scope] = {}
        self._scope_of: dict[cst.CSTNode, Scope] = {}
        self._by_kind: dict[type, list[cst.CSTNode]] = defaultdict(list)
        self.names: dict[str, list[cst.Name]] = defaultdict(list)
        self.attributes: dict[str, list[Binding]] = defaultdict(list)
        self.item_assignments: list[tuple[cst.Subscript, cst.BaseExpression]] = []
        self.augmented: list[cst.AugAssign] = []
        self.targets: dict[cst.CSTNode, None] = {}
        self.deleted: set[str] = set()  # names that are what Python has by them again, if it has anything
        self.functions: list[cst.FunctionDef] = []
        self.classes: list[cst.ClassDef] = []
        self.returns: dict[cst.CSTNode, list[cst.Return]] = defaultdict(list)
        self.imports: list[cst.Import | cst.ImportFrom] = []
        for module in self.modules:
            self._walk(module, Scope(module, None))
        self.calls = self.all_of(cst.Call)

    # -- the walk ------------------------------------------------------------------------------------------------

    def _walk(self, module: cst.Module, scope: Scope) -> None:
        self.scopes[module] = scope
        # An explicit stack: deeply nested expressions must not exhaust Python's.
        stack: list[tuple[cst.CSTNode, Scope, int]] = [(module, scope, -1)]
        order = len(self._parent_orders)
        parent, orders, by_kind = self.parent, self.order, self._by_kind
        while stack:
            node, scope, outer = stack.pop()
            orders[node] = order
            self._scope_of[node] = scope
            self._parent_orders.append(outer)
            by_kind[type(node)].append(node)
            inner = self._enter(node, scope)
            children = semantic_children(node)
            for child in children:
                parent[child] = node
            for child in reversed(children):
                outside = inner is not scope and self._belongs_outside(node, child)
                stack.append((child, scope if outside else inner, order))
            order += 1

    @staticmethod
    def _belongs_outside(owner: cst.CSTNode, child: cst.CSTNode) -> bool:
        if isinstance(owner, cst.FunctionDef):
            return isinstance(child, cst.Decorator)
        return isinstance(owner, cst.ClassDef) and isinstance(child, (cst.Decorator, cst.Arg))

    def _enter(self, node: cst.CSTNode, scope: Scope) -> Scope:
        """Records what the node binds; returns the scope of its children."""
        kind = type(node)
        if kind is cst.Name:
            self.names[cast(cst.Name, node).value].append(cast(cst.Name, node))
        elif kind in _SCOPE_NODES:
            return self._enter_scope(node, scope)
        elif kind is cst.Param:
            param = cast(cst.Param, node)
            scope.bindings[param.name.value].append(Binding(param.name.value, "param", param, param.default))
        elif kind in _BINDERS:
            _BINDERS[kind](self, node, scope)
        return scope

    def _enter_scope(self, node: cst.CSTNode, scope: Scope) -> Scope:
        inner = Scope(node, scope)
        self.scopes[node] = inner
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            kind = "def" if isinstance(node, cst.FunctionDef) else "class"
            scope.bindings[node.name.value].append(Binding(node.name.value, kind, node, node))
            if isinstance(node, cst.FunctionDef):
                self.functions.append(node)
            else:
                self.classes.append(node)
        return inner

    def _bind(
        self,
        target: cst.CSTNode,
        scope: Scope,
        kind: str,
        node: cst.CSTNode,
        value: cst.CSTNode | None,
        path: tuple[int, ...] = (),
    ) -> None:
        if isinstance(target, (cst.Name, cst.Attribute, cst.Subscript)):
            self.targets[target] = None
        if isinstance(target, cst.Name):
            where = self._home(target.value, scope)
            where.bindings[target.value].append(Binding(target.value, kind, node, value, path, target))
        elif isinstance(target, cst.Attribute):
            binding = Binding(target.attr.value, kind, node, value, path, target)
            for name in self._asked_as(binding.name, scope):
                self.attributes[name].append(binding)
        elif isinstance(target, cst.Subscript) and isinstance(value, cst.BaseExpression):
            self.item_assignments.append((target, value))
            name = _name_in_globals(target)
            if name:
                scope.module().bindings[name].append(Binding(name, kind, node, value, path, target))
        elif isinstance(target, (cst.Tuple, cst.List)):
            elements = target.elements
            starred = next((i for i, e in enumerate(elements) if isinstance(e, cst.StarredElement)), None)
            for i, element in enumerate(elements):
                if isinstance(element, cst.StarredElement):
                    is_item = isinstance(element.value, cst.Subscript)
                    self._bind(element.value, scope, "other", node, value if is_item else None)
                else:
                    index = i if starred is None or i < starred else i - len(elements)
                    self._bind(element.value, scope, kind, node, value, (*path, index))

    @staticmethod
    def _asked_as(name: str, scope: Scope) -> list[str]:
        """The names under which an attribute is looked for: a private one by its class, `self.__best`, and by others,
        `trainer._Trainer__best`."""
        around: Scope | None = scope
        while is_private(name) and around is not None and not around.is_class:
            around = around.parent
        others = _MANGLED.match(name)
        if others is not None:
            return [name, others[1]]
        if not is_private(name) or around is None:
            return [name]
        return [name, mangled(name, cast(cst.ClassDef, around.node))]

    @staticmethod
    def _home(name: str, scope: Scope) -> Scope:
        """The scope whose name an assignment in `scope` binds: `global` and `nonlocal` send it outwards."""
        if name in scope.globals:
            return scope.module()
        return (scope.lookup(name) or scope) if name in scope.nonlocals else scope

    def _bind_assign(self, node: cst.CSTNode, scope: Scope) -> None:
        node = cast(cst.Assign, node)
        for target in node.targets:
            self._bind(target.target, scope, "assign", node, node.value)

    def _bind_single(self, node: cst.CSTNode, scope: Scope) -> None:
        node = cast(Union[cst.AnnAssign, cst.NamedExpr], node)
        if node.value is not None:
            around = scope.around() if type(node) is cst.NamedExpr else scope
            self._bind(node.target, around, "assign", node, node.value)

    def _bind_augmented(self, node: cst.CSTNode, scope: Scope) -> None:
        node = cast(cst.AugAssign, node)
        self.augmented.append(node)
        self._bind(node.target, scope, "augmented", node, node.value)

    def _bind_for(self, node: cst.CSTNode, scope: Scope) -> None:
        node = cast(Union[cst.For, cst.CompFor], node)
        self._bind(node.target, scope, "for", node, node.iter)

    def _bind_with(self, node: cst.CSTNode, scope: Scope) -> None:
        node = cast(cst.WithItem, node)
        if node.asname is not None:
            self._bind(node.asname.name, scope, "with", node, node.item)

    def _bind_handler(self, node: cst.CSTNode, scope: Scope) -> None:
        node = cast(cst.ExceptHandler, node)
        if node.name is not None:
            self._bind(node.name.name, scope, "other", node, None)

    def _bind_pattern(self, node: cst.CSTNode, scope: Scope) -> None:
        """What a pattern of a `match` takes out of its subject: `case {"loss": loss}`, `case [first, *rest]`."""
        name = node.rest if isinstance(node, cst.MatchMapping) else cast(Union[cst.MatchAs, cst.MatchStar], node).name
        if name is not None:
            self._bind(name, scope, "other", node, None)

    def _note_deleted(self, node: cst.CSTNode, scope: Scope) -> None:
        parts = parts_of_target(cast(cst.Del, node).target)
        self.targets.update(dict.fromkeys(parts))
        self.deleted.update(part.value for part in parts if isinstance(part, cst.Name))

    def _bind_global(self, node: cst.CSTNode, scope: Scope) -> None:
        scope.globals.update(item.name.value for item in cast(cst.Global, node).names)

    def _bind_nonlocal(self, node: cst.CSTNode, scope: Scope) -> None:
        scope.nonlocals.update(item.name.value for item in cast(cst.Nonlocal, node).names)

    def _bind_return(self, node: cst.CSTNode, scope: Scope) -> None:
        self.returns[scope.node].append(cast(cst.Return, node))

    def _bind_import(self, node: cst.CSTNode, scope: Scope) -> None:
        node = cast(Union[cst.Import, cst.ImportFrom], node)
        self.imports.append(node)
        if isinstance(node.names, cst.ImportStar):
            return
        for alias in node.names:
            name = alias.asname.name if alias.asname is not None else alias.name
            while isinstance(name, cst.Attribute):  # `import a.b` binds `a`
                name = cast(cst.Name, name.value)
            if isinstance(name, cst.Name):
                home = self._home(name.value, scope)
                home.bindings[name.value].append(Binding(name.value, "import", node, alias))

    # -- look-ups ------------------------------------------------------------------------------------------------

    def all_of(self, *kinds: type[Node]) -> list[Node]:
        """The nodes of exactly these types, in source order."""
        if len(kinds) == 1:
            return cast("list[Node]", self._by_kind.get(kinds[0], []))
        found = [cast(Node, node) for kind in kinds for node in self._by_kind.get(kind, ())]
        return sorted(found, key=self.order.__getitem__)

    @cached_property
    def yields(self) -> dict[cst.CSTNode, list[cst.Yield]]:
        """What makes generators of functions, by these."""
        found: dict[cst.CSTNode, list[cst.Yield]] = defaultdict(list)
        for node in self.all_of(cst.Yield):
            function = self.function_of(node)
            if function is not None:
                found[function].append(node)
        return found

    @cached_property
    def around_walruses(self) -> set[cst.CSTNode]:
        """The expressions that have a `:=` in them, but for those of functions that are made there."""
        found: set[cst.CSTNode] = set()
        for walrus in self.all_of(cst.NamedExpr):
            found.add(walrus)
            for owner in self.ancestors(walrus):
                if isinstance(owner, (cst.Lambda, cst.BaseSmallStatement, cst.BaseCompoundStatement)):
                    break
                found.add(owner)
        return found

    @cached_property
    def bindings(self) -> list[Binding]:
        """Those of all names, scope by scope."""
        return [b for scope in self.scopes.values() for several in scope.bindings.values() for b in several]

    def targets_in(self, parts: Sequence[cst.CSTNode]) -> list[Target]:
        """The names, attributes and items that anything in there gives another value, or takes the value from."""
        return [cast(Target, target) for target in self.targets if self.is_in(target, parts)] if parts else []

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The enclosing nodes, nearest first."""
        parent = self.parent.get
        current = parent(node)
        while current is not None:
            yield current
            current = parent(current)

    def scope_of(self, node: cst.CSTNode) -> Scope:
        """The scope in which the node is evaluated."""
        known = self._scope_of.get(node)
        if known is not None:
            return known
        child = node
        for owner in self.ancestors(node):
            scope = self.scopes.get(owner)
            if scope is not None and not self._belongs_outside(owner, child):
                return scope
            child = owner
        return self.scopes[self.module_of(node)]

    def module_of(self, node: cst.CSTNode) -> cst.Module:
        """The file that holds the node."""
        if type(node) is cst.Module:
            return node
        if len(self.modules) == 1:
            return self.modules[0]
        for owner in self.ancestors(node):
            node = owner
        return cast(cst.Module, node)

    def fresh_name(self, wanted: str, module: cst.Module) -> str:
        """The wanted name, or one derived from it that the file does not use."""
        name, number = wanted, 2
        while any(self.module_of(node) is module for node in self.names.get(name, ())):
            name, number = f"{wanted}_{number}", number + 1
        return name

    def function_of(self, node: cst.CSTNode) -> cst.FunctionDef | None:
        """The function whose body holds the node; lambdas and comprehensions belong to theirs."""
        child = node
        for owner in self.ancestors(node):
            if type(owner) is cst.FunctionDef and child is owner.body:
                return owner
            child = owner
        return None

    def callable_of(self, node: cst.CSTNode) -> FunctionLike | None:
        """The function or lambda that evaluates the node when it runs."""
        scope: Scope | None = self.scope_of(node)
        while scope is not None and not scope.is_function:
            scope = scope.parent
        return cast(FunctionLike, scope.node) if scope is not None else None

    def class_of(self, function: cst.FunctionDef) -> cst.ClassDef | None:
        """The class of which the function is a method."""
        block = self.parent.get(function)
        owner = self.parent.get(block) if block is not None else None
        return owner if isinstance(owner, cst.ClassDef) else None

    def name_of(self, attribute: cst.Attribute) -> str:
        """The name that Python asks the object for: other than it is written, where it is private."""
        name = attribute.attr.value
        return mangled(name, self.class_around(attribute)) if is_private(name) else name

    def class_around(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """The innermost class whose body, with all that is defined there, holds the node."""
        child = node
        for owner in self.ancestors(node):
            if isinstance(owner, cst.ClassDef) and child is owner.body:
                return owner
            child = owner
        return None

    @cached_property
    def methods(self) -> dict[str, list[cst.FunctionDef]]:
        """The methods of the script's classes, by name."""
        found: dict[str, list[cst.FunctionDef]] = defaultdict(list)
        for function in self.functions:
            owner = self.class_of(function)
            if owner is not None:
                for name in dict.fromkeys((function.name.value, mangled(function.name.value, owner))):
                    found[name].append(function)
        return found

    def statement_of(self, node: cst.CSTNode) -> Statement:
        """The innermost statement, a whole line or a compound one, that holds the node."""
        if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            return node
        for owner in self.ancestors(node):
            if isinstance(owner, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
                return owner
            if isinstance(owner, cst.SimpleStatementSuite):
                return cast(Statement, self.parent[owner])
        raise KeyError("the module itself is in no statement")

    def block_of(self, statement: cst.CSTNode) -> cst.CSTNode:
        """The block (module, indented block) in which the statement is listed."""
        return self.parent[statement]

    def statements_beside(self, statement: cst.CSTNode) -> list[cst.CSTNode]:
        """The statements of its block; itself alone where that is none, as in `else: plt.show()`."""
        block = self.block_of(statement)
        return list(block.body) if isinstance(block, (cst.Module, cst.IndentedBlock)) else [statement]

    def lift(self, node: cst.CSTNode, block: cst.CSTNode) -> Statement | None:
        """The statement of `block` that holds the node, however deeply; None where the block does not hold it."""
        current: cst.CSTNode | None = node
        while current is not None:
            owner = self.parent.get(current)
            if owner is block:
                return cast(Statement, current)
            current = owner
        return None

    def are_exclusive(self, node: cst.CSTNode, other: cst.CSTNode) -> bool:
        """Whether the two stand in different branches of one `if`, so that they never run in one turn."""
        child = other
        for owner in self.ancestors(other):
            if type(owner) is cst.If and owner.orelse is not None:
                if child is owner.body and self.contains(owner.orelse, node):
                    return True
                if child is owner.orelse and self.contains(owner.body, node):
                    return True
            child = owner
        return False

    def loops_around(self, node: cst.CSTNode) -> Iterator[Loop]:
        """The loops whose bodies hold the node within its function, innermost first."""
        child = node
        for owner in self.ancestors(node):
            kind = type(owner)
            if kind is cst.FunctionDef or kind is cst.ClassDef:
                return
            if (kind is cst.For or kind is cst.While) and child is cast(Loop, owner).body:
                yield cast(Loop, owner)
            child = owner

    def is_variable(self, name: cst.Name) -> bool:
        """Whether the node names a variable, not an attribute, a keyword or a method."""
        parent = self.parent.get(name)
        if isinstance(parent, cst.Attribute):
            return parent.value is name
        if isinstance(parent, cst.Arg):
            return parent.keyword is not name
        return not (isinstance(parent, cst.FunctionDef) and parent.name is name and self.class_of(parent) is not None)

    def is_read(self, name: cst.Name) -> bool:
        """Whether the node reads the variable of that name: attributes, keywords and targets only look alike."""
        parent = self.parent.get(name)
        if type(parent) is cst.Attribute:
            return parent.value is name
        if type(parent) is cst.Arg:
            return parent.keyword is not name
        if type(parent) is cst.Param:
            return parent.default is name
        return type(parent) not in _BINDING and not (type(parent) is cst.AnnAssign and parent.target is name)

    def contains(self, outer: cst.CSTNode, node: cst.CSTNode) -> bool:
        return self.order[outer] <= self.order[node] <= self.last_order_in(outer)

    def is_in(self, node: cst.CSTNode, outer: Iterable[cst.CSTNode]) -> bool:
        """Whether one of these contains the node, or is it."""
        orders, last_orders = self.order, self._last_orders
        for each in outer:
            first = orders[each]
            if first <= orders[node] <= last_orders[first]:
                return True
        return False

    def names_in(self, node: cst.CSTNode) -> Iterator[cst.Name]:
        return (inner for inner in nodes_in(node) if isinstance(inner, cst.Name))

    def last_order_in(self, node: cst.CSTNode) -> int:
        """The order of the last node inside `node`: what comes after has a greater one."""
        return self._last_orders[self.order[node]]

    @cached_property
    def _last_orders(self) -> list[int]:
        found = list(range(len(self._parent_orders)))
        for order in range(len(found) - 1, -1, -1):
            outer = self._parent_orders[order]
            if outer >= 0:
                found[outer] = max(found[outer], found[order])
        return found


_BINDERS = {
    cst.Assign: Tree._bind_assign,
    cst.AnnAssign: Tree._bind_single,
    cst.NamedExpr: Tree._bind_single,
    cst.MatchAs: Tree._bind_pattern,
    cst.MatchStar: Tree._bind_pattern,
    cst.MatchMapping: Tree._bind_pattern,
    cst.AugAssign: Tree._bind_augmented,
    cst.For: Tree._bind_for,
    cst.CompFor: Tree._bind_for,
    cst.WithItem: Tree._bind_with,
    cst.ExceptHandler: Tree._bind_handler,
    cst.Global: Tree._bind_global,
    cst.Nonlocal: Tree._bind_nonlocal,
    cst.Return: Tree._bind_return,
    cst.Del: Tree._note_deleted,
    cst.Import: Tree._bind_import,
    cst.ImportFrom: Tree._bind_import,
}
