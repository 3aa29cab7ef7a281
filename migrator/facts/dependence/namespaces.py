"""Names and attributes that the script asks for or sets by text: `globals()["best"]`, `getattr(state, "best")`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import libcst as cst

from migrator.facts.dependence.graph import Graph, Way
from migrator.facts.dependence.item_paths import taken_out
from migrator.facts.dependence.names import Names
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.texts import OPEN, Texts, pattern, words
from migrator.facts.objects.values import External, calls
from migrator.facts.program.tree import Binding, Tree

_NAMESPACES = tuple(External(f"builtins.{name}") for name in ("globals", "locals", "vars"))
_GETATTR = (External("builtins.getattr"), External("builtins.object.__getattribute__"))
# They give all attributes of what they are given first.
_GIVING_ALL = frozenset({"builtins.vars", "inspect.getmembers", "inspect.getmembers_static", "copy.replace"})
_MADE_ONCE = ("import", "def", "class")
_PATCHING = re.compile(r"^(?:unittest\.)?mock\.patch(|\.object|\.multiple)$")
_ATTRGETTER = "operator.attrgetter"


class Namespaces:
    def __init__(self, graph: Graph, tree: Tree, resolver: Resolver, kinds: Kinds, names: Names) -> None:
        self.graph = graph
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.names = names
        self.texts = Texts(resolver)

    def is_namespace(self, node: cst.CSTNode) -> bool:
        if not isinstance(node, cst.Call) or (node.args and not is_of_modules(node.args[0].value)):
            return False
        return any(function in self.resolver.values(node.func) for function in _NAMESPACES)

    def bound_in(self, namespace: cst.CSTNode, name: str | None) -> list[Binding]:
        """What `globals()["best"]` may be, or, where the name is not seen, what is anywhere in there."""
        scopes = dict.fromkeys((self.tree.scopes[self.tree.module_of(namespace)], self.tree.scope_of(namespace)))
        return [b for s in scopes for n in ([name] if name is not None else s.bindings) for b in s.bindings.get(n, ())]

    def attribute_asked_for(self, call: cst.Call) -> str | None:
        """`getattr(state, "best")`, `object.__getattribute__(state, "best")`"""
        if len(call.args) < 2 or not isinstance(call.args[1].value, cst.SimpleString):
            return None
        functions = self.resolver.values(call.func)
        return _text(call.args[1].value) if any(function in functions for function in _GETATTR) else None

    def reflected(self, call: cst.Call) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression | None]]:
        """The objects whose attributes the call reads by names that are not written out, and the names; none where it
        reads all."""
        values = self.resolver.values(call.func)
        given = [arg.value for arg in call.args]
        if given and any(isinstance(v, External) and v.path in _GIVING_ALL for v in values):
            yield given[0], None
        elif given and any(calls(v) == _ATTRGETTER for v in values):
            yield from ((node, None) for node in given)
        elif len(given) > 1 and any(function in values for function in _GETATTR):
            if self.attribute_asked_for(call) is None:
                yield given[0], given[1]
        elif given and any(function in self.resolver.values(given[0]) for function in _GETATTR):
            yield from ((node, None) for node in given[1:])  # `partial(getattr, model)`
        elif given and isinstance(call.func, cst.Attribute) and call.func.attr.value == "__getattribute__":
            yield call.func.value, given[0]

    def link_call(self, call: cst.Call) -> None:
        """What the call reads or sets by text."""
        if self.is_namespace(call):
            self._link_read(call)
        self._link_texts(call)
        self._link_patched(call)
        name = self.attribute_asked_for(call)
        if name is not None:
            for source in (*self.tree.attributes.get(name, ()), ("attribute", name)):
                self.graph.link(source, call)
        if not isinstance(call.func, cst.Attribute):
            return
        method = call.func.attr.value
        if method == "update":
            for arg in call.args:
                self._link_to_names(call.func.value, arg.keyword.value if arg.keyword is not None else None, arg)
            # `state.__dict__.update(last=loss)`, `vars(state).update(last=loss)`
            if holds_attributes(call.func.value):
                for arg in call.args:  # by position: whichever attributes
                    self._link_to_attributes(arg.keyword.value if arg.keyword is not None else None, arg)
        elif method in ("__setattr__", "__setitem__"):
            for arg in call.args:
                self._link_to_attributes(None, arg)
        elif method == "setdefault" and holds_attributes(call.func.value):
            for arg in call.args[1:]:
                self._link_to_attributes(_text(call.args[0].value), arg)

    def _link_patched(self, call: cst.Call) -> None:
        """`mock.patch("__main__.best", loss)`, `mock.patch.object(state, "best", loss)`"""
        patching = [m for m in map(_PATCHING.match, self.resolver.public(call.func)) if m is not None]
        for kind in {match[1] for match in patching}:
            place = call.args[kind == ".object" :][:1]
            named = _last_name(place[0].value) if place and kind != ".multiple" else None
            for arg in call.args:
                name = arg.keyword.value if kind == ".multiple" and arg.keyword is not None else named
                self._link_to_attributes(name, arg)
                for scope in map(self.tree.scopes.__getitem__, self.tree.modules):
                    for each in [name] if name is not None else scope.bindings:
                        self._link_to_bindings(arg, scope.bindings.get(each, ()))

    def _link_to_bindings(self, value: cst.CSTNode, bindings: Iterable[Binding]) -> None:
        for binding in bindings:
            if binding.kind not in _MADE_ONCE:
                self.graph.link(value, binding)

    def _link_texts(self, call: cst.Call) -> None:
        """`eval("slow if loss > 1 else fast")`: all that the texts may name which are run, as far as they are seen."""
        is_run = External("builtins.eval") not in self.resolver.values(call.func)
        texts = [text for node in self.texts.run_by(call) for text in self.texts.of(node)]
        for word in dict.fromkeys(word for text in texts for word in words(text)):
            for name in self._meant(call, *word):
                for source in (("global", name), *self.tree.attributes.get(name, ()), ("attribute", name)):
                    self.graph.link(source, call, Way.USED)
                self.graph.link(call, ("global", name))
                for binding in self.resolver.reaching_at(call, name):
                    if binding.kind not in _MADE_ONCE and not (word[0] == OPEN and self._is_data(binding)):
                        self.graph.link(binding, call, Way.USED)
                home = self.tree.scope_of(call).lookup(name) if is_run else None
                for binding in home.bindings[name] if home is not None else ():
                    if binding.kind == "assign":
                        self.graph.link(call, binding)

    def _is_data(self, binding: Binding) -> bool:
        """Whether it is a dataset, which a text that nobody sees takes no batch of."""
        values = self.resolver.binding_values(binding)
        return bool(values) and all(map(self.kinds.is_dataset, values))

    def _meant(self, call: cst.Call, word: str, is_attribute: bool) -> list[str]:
        """The names that the word may be of a text that is run."""
        if OPEN not in word:
            return [word]
        scope = self.tree.scope_of(call)
        known = [*self.tree.attributes, *(() if is_attribute else scope.names())]
        return [name for name in dict.fromkeys(known) if re.fullmatch(pattern(word), name)]

    def link_item(self, target: cst.Subscript, key: str | None, value: cst.BaseExpression) -> None:
        """What an assignment to the item sets: `vars(state)["best"] = loss`, `globals()["best"] = loss`"""
        if holds_attributes(target.value):
            self._link_to_attributes(key, value)
        self._link_to_names(target.value, key, value)

    def _link_read(self, call: cst.Call) -> None:
        """What is read by `globals()["best"]`"""
        taken = taken_out(call, self.tree)
        name, reader = taken[0] if taken else (None, call)
        for key in (("global", name), ("global", None)) if name is not None else (("globals",),):
            self.graph.link(key, reader, Way.WHOLE if name is not None else Way.INTO)
        for binding in self.bound_in(call, name):
            if binding.kind not in ("import", "def", "class"):
                self.graph.link(binding, reader, Way.WHOLE if name is not None else Way.INTO)

    def _link_to_names(self, holder: cst.CSTNode, name: str | None, value: cst.CSTNode) -> None:
        """`globals()["best"] = loss`"""
        if self.is_namespace(holder):
            self.graph.link(value, ("global", name))
            self.graph.link(("global", name), ("globals",), Way.INTO)
            for binding in self.bound_in(holder, name):
                self.graph.link(value, binding)

    def _link_to_attributes(self, name: str | None, value: cst.CSTNode) -> None:
        for each in [name] if name is not None else self.names.attributes_read:
            self.graph.link(value, ("put by name", each))
            self.graph.link(("put by name", each), ("attribute", each))


def _last_name(node: cst.BaseExpression | None) -> str | None:
    """The last name of a dotted path, where it is seen: `__name__ + ".best"`."""
    if isinstance(node, cst.BinaryOperation):
        node = node.right
    last = node.parts[-1] if isinstance(node, cst.FormattedString) and node.parts else None
    text = last.value if isinstance(last, cst.FormattedStringText) else None
    if isinstance(node, cst.SimpleString):
        text = _text(node)
    return text.rpartition(".")[2] if text else None


def _text(node: cst.BaseExpression) -> str | None:
    return str(node.evaluated_value) if isinstance(node, cst.SimpleString) else None


def start_of_text(node: cst.BaseExpression | None) -> str:
    """How all texts start that the expression may be: `f"block_{i}"`, `"block_" + name`, `"block_%d" % i`."""
    if isinstance(node, cst.SimpleString):
        return _text(node) or ""
    if isinstance(node, cst.FormattedString) and node.parts and isinstance(node.parts[0], cst.FormattedStringText):
        return node.parts[0].value.partition("\\")[0].partition("{{")[0]
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Add, cst.Modulo)):
        return start_of_text(node.left).partition("%")[0]
    return ""


def asked_of(namespace: cst.BaseExpression, tree: Tree) -> str | None:
    """The name of `state.__dict__["best"]` and `state.__dict__.get("best")`."""
    taken = taken_out(namespace, tree)
    if taken:
        return taken[0][0]
    method = tree.parent.get(namespace)
    call = tree.parent.get(method) if isinstance(method, cst.Attribute) else None
    return _text(call.args[0].value) if isinstance(call, cst.Call) and call.func is method and call.args else None


def holds_attributes(held: cst.BaseExpression) -> bool:
    """`state.__dict__`, `vars(state)`"""
    if isinstance(held, cst.Call):
        return isinstance(held.func, cst.Name) and held.func.value == "vars"
    return isinstance(held, cst.Attribute) and held.attr.value == "__dict__"


def is_of_modules(node: cst.CSTNode) -> bool:
    """`sys.modules[__name__]`"""
    held = node.value if isinstance(node, cst.Subscript) else None
    return isinstance(held, cst.Attribute) and held.attr.value == "modules"
