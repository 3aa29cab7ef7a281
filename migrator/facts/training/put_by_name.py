"""Models and variables that get names which only the run knows: `globals()[name] = make()`, `setattr(self, name, net)`.

What is trained may be another one then than the one that has been sent to all workers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property

import libcst as cst

from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.texts import Texts, pattern
from migrator.facts.objects.values import Class, Element, External, Literal, Member, Object, Parameter, Result, Value
from migrator.facts.program.syntax import method_called
from migrator.facts.program.tree import Tree, semantic_children

_NAMESPACES = frozenset({"builtins.globals", "builtins.vars", "builtins.locals"})
_SETATTR = frozenset({"builtins.setattr", "builtins.object.__setattr__"})
_TRAINING = frozenset({
    "fit", "train_on_batch", "apply_gradients", "apply", "minimize", "assign", "assign_sub", "assign_add",
    "set_weights",
})  # fmt: skip
_DEEPEST = 5

Put = tuple[cst.CSTNode, "cst.BaseExpression | None", str, cst.BaseExpression]  # place, owner, pattern, what is put


class PutByName:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.texts = Texts(resolver)

    def among(self, targets: Collection[cst.BaseExpression]) -> Iterator[cst.CSTNode]:
        """Where something with weights is put that may get one of the names, or attributes, that these are."""
        for place, owner, names_put, value in self._puts():
            names = [t for t in targets if self._may_be(owner, t) and re.fullmatch(names_put, _name(t))]
            if names and self._may_have_weights(value, 0):
                yield place
        for call, text in self._texts:
            stored = _stored_in(text)
            if any(re.fullmatch(pattern(name), _name(t)) for name in stored for t in targets):
                yield call

    def training(self) -> Iterator[cst.Call]:
        """The calls that run a text of the script which trains."""
        for call, text in self._texts:
            tree = _parsed(text)
            if tree is not None and any(
                isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in _TRAINING
                for n in ast.walk(tree)
            ):
                yield call

    def _puts(self) -> Iterator[Put]:
        for target, value in self.tree.item_assignments:
            if (namespace := self._namespace(target.value)) is not None and not _is_bound(target):
                index = target.slice[0].slice
                yield target, namespace[0], self._pattern(index.value if isinstance(index, cst.Index) else None), value
        for call in self.tree.calls:
            given = [arg.value for arg in call.args]
            paths = {v.path for v in self.resolver.values(call.func) if isinstance(v, External)}
            method = method_called(call)
            if len(given) == 3 and (paths & _SETATTR or method == "__setattr__"):
                yield call, given[0], self._pattern(given[1]), given[2]
            if method in ("update", "setdefault", "__setitem__") and isinstance(call.func, cst.Attribute):
                namespace = self._namespace(call.func.value)
                for arg in call.args if namespace is not None else ():
                    name = arg.keyword.value if arg.keyword is not None else ".*"
                    yield call, namespace[0] if namespace is not None else None, name, arg.value

    def _namespace(self, node: cst.BaseExpression) -> tuple[cst.BaseExpression | None] | None:
        """The object of which it holds the attributes, or None for a module, in a tuple; None for other things."""
        if isinstance(node, cst.Attribute) and node.attr.value == "__dict__":
            return (node.value,)
        if isinstance(node, cst.Call):
            paths = {v.path for v in self.resolver.values(node.func) if isinstance(v, External)}
            return (node.args[0].value if node.args else None,) if paths & _NAMESPACES else None
        if isinstance(node, cst.Name):
            for binding in self.resolver.reaching(node):
                value = binding.value if binding.kind == "assign" and not binding.path else None
                if isinstance(value, (cst.Call, cst.Attribute)):
                    return self._namespace(value)
        return None

    def _may_be(self, owner: cst.BaseExpression | None, target: cst.BaseExpression) -> bool:
        """Whether a name set there, or an attribute of this object, may be the target."""
        values = self.resolver.values(owner) if owner is not None else ()
        if isinstance(target, cst.Name):
            return not any(isinstance(v, (Object, Result)) for v in values)
        if not isinstance(target, cst.Attribute):
            return False
        mine, others = self._lineage(values), self._lineage(self.resolver.values(target.value))
        return not mine or not others or not mine.isdisjoint(others)

    def _lineage(self, values: Sequence[Value]) -> set[Class]:
        return {cls for v in values if isinstance(v, Object) for cls in self.resolver.lineage(v.of)}

    def _pattern(self, node: cst.BaseExpression | None) -> str:
        return "|".join(map(pattern, self.texts.of(node))) if node is not None else ".*"

    @cached_property
    def _texts(self) -> list[tuple[cst.Call, str]]:
        given = ((call, node) for call in self.tree.calls for node in self.texts.run_by(call))
        return [(call, text) for call, node in given for text in self.texts.of(node)]

    def _may_have_weights(self, node: cst.CSTNode, depth: int) -> bool:
        """Whether it is a model, a layer or a variable, or holds such."""
        if depth > _DEEPEST:
            return True
        values = self.resolver.values(node)
        if any(self.kinds.has_weights(v) or self.kinds.is_variable(v) for v in values):
            return True
        if any(isinstance(v, Parameter) for v in values) and isinstance(node, cst.Name):
            params = [b.node for b in self.resolver.reaching(node) if isinstance(b.node, cst.Param)]
            return any(self._may_have_weights(g, depth + 1) for p in params for g in self.resolver.given(p))
        inner = [_whole(v) for v in values]
        behind: list[cst.CSTNode] = [v.node for v in inner if isinstance(v, Literal) and v.node is not node]
        if isinstance(node, (cst.Dict, cst.DictComp, cst.List, cst.Tuple, cst.IfExp, cst.DictElement, cst.Element)):
            behind += semantic_children(node)
        return any(self._may_have_weights(part, depth + 1) for part in behind)


def _whole(value: Value) -> Value:
    """What it is taken out of."""
    while isinstance(value, (Element, Member)):
        value = value.of if isinstance(value, Element) else value.owner
    return value


def _name(target: cst.BaseExpression) -> str:
    name = target.attr if isinstance(target, cst.Attribute) else target
    return name.value if isinstance(name, cst.Name) else ""


def _is_bound(target: cst.Subscript) -> bool:
    """Whether it is `globals()["step"]`, which counts as a name of the module's."""
    index = target.slice[0].slice
    is_written = isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString)
    owner = target.value
    is_global = isinstance(owner, cst.Call) and isinstance(owner.func, cst.Name) and owner.func.value == "globals"
    return is_written and is_global


def _parsed(text: str) -> ast.AST | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def _stored_in(text: str) -> list[str]:
    """The names and attributes that the text gives values to."""
    tree = _parsed(text)
    nodes = list(ast.walk(tree)) if tree is not None else []
    names = [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    return names + [n.attr for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)]
