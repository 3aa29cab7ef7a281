"""Arguments of a call, also those that it unpacks from a dictionary or a tuple which the program writes out, and from
the `**kwargs` that it hands on."""

from __future__ import annotations

import re
from collections.abc import Iterable

import libcst as cst

from migrator.facts.objects.handed_on import HandedOn
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Element, External, Literal, Result, Value
from migrator.facts.program.syntax import argument, only_unpacked
from migrator.facts.program.tree import Tree

_NONE = External("builtins.None")
_LOADED = re.compile(r"keras\.datasets\.\w+\.load_data$")


class Keywords:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver
        self._handed_on = HandedOn(tree, resolver)

    def given(self, call: cst.Call, name: str, position: int | None = None) -> cst.BaseExpression | None:
        """What the call gives the parameter."""
        arg = argument(call, name, position)
        if arg is not None:
            return arg.value
        for arg in call.args:
            items = self._items(arg.value) if arg.star == "**" else None
            if items is not None and name in items:
                return items[name]
        rest = [self._handed_on.given(call, arg.value, name) for arg in call.args if arg.star == "**"]
        return next((given for given in rest if given is not None), None)

    def is_only_called(self, function: cst.FunctionDef) -> bool:
        """Whether all that is done with the function is to call it, at places that are seen."""
        return self._handed_on.is_only_called(function)

    def pair(self, call: cst.Call) -> cst.Arg | None:
        """`*train`, where it alone gives `fit` x and y, and nothing behind them; None for all else."""
        only = only_unpacked(call)
        values = self.resolver.values(only.value) if only is not None else ()
        return only if values and all(map(self._is_pair, values)) else None

    def _is_pair(self, value: Value) -> bool:
        if isinstance(value, Literal) and isinstance(value.node, (cst.Tuple, cst.List)):
            elements = value.node.elements
            if len(elements) != 2 or any(isinstance(e, cst.StarredElement) for e in elements):
                return False
            return _NONE not in self.resolver.values(elements[1].value)
        # `train, test = keras.datasets.mnist.load_data()`
        return isinstance(value, Element) and len(value.path) == 1 and _LOADED.match(origin(value)) is not None

    def hides_arguments(self, call: cst.Call, seen: cst.Arg | None = None) -> bool:
        """Whether the call unpacks arguments that cannot be seen; `seen` are those of a pair."""
        return any(
            (arg.star == "*" and arg is not seen) or (arg.star == "**" and self._hides(call, arg.value))
            for arg in call.args
        )

    def _hides(self, call: cst.Call, mapping: cst.BaseExpression) -> bool:
        return self._items(mapping) is None and not self._handed_on.is_little(call, mapping)

    def _items(self, mapping: cst.BaseExpression) -> dict[str, cst.BaseExpression] | None:
        """The items of a dictionary that is written out once and read nowhere else, or of several, merged in the call;
        None of any other."""
        if isinstance(mapping, cst.Dict) and any(isinstance(e, cst.StarredDictElement) for e in mapping.elements):
            elements = [e if isinstance(e, cst.DictElement) else e.value for e in mapping.elements]
            return self._merged(elements)
        values = self.resolver.values(mapping)
        items = _written_out(values[0]) if len(values) == 1 else None
        return items if items is not None and self._is_for_call_alone(mapping, values[0]) else None

    def _merged(self, parts: Iterable[cst.DictElement | cst.BaseExpression]) -> dict[str, cst.BaseExpression] | None:
        """What dictionaries, and single items, make one behind the other."""
        merged: dict[str, cst.BaseExpression] = {}
        for part in parts:
            items = _item(part) if isinstance(part, cst.DictElement) else self._items(part)
            if items is None:
                return None
            merged.update(items)
        return merged

    def _is_for_call_alone(self, mapping: cst.BaseExpression, value: Value) -> bool:
        """Whether nothing but `f(**mapping)` reads the dictionary, by whatever name: its items mean that call."""
        made = value.node if isinstance(value, Literal) else value.call if isinstance(value, Result) else None
        owner = self.tree.parent.get(made) if made is not None else None
        if isinstance(owner, cst.Assign):
            return all(self._is_only_unpacked(target.target) for target in owner.targets)
        if isinstance(owner, cst.AnnAssign):
            return self._is_only_unpacked(owner.target)
        if not isinstance(owner, cst.Arg) or made is mapping:
            return made is mapping
        given = [
            node
            for binding in (self.resolver.reaching(mapping) if isinstance(mapping, cst.Name) else [])
            if isinstance(binding.node, cst.Param)
            for node in self.resolver.given(binding.node)
        ]
        return any(node is made for node in given) and self._is_only_unpacked(mapping)

    def _is_only_unpacked(self, holder: cst.BaseExpression) -> bool:
        if isinstance(holder, cst.Name):
            home, name = self.tree.scope_of(holder).lookup(holder.value), holder.value
        elif isinstance(holder, cst.Attribute):
            home, name = None, holder.attr.value
        else:
            return False
        return all(self._is_harmless(node, home) for node in self.tree.names[name])

    def _is_harmless(self, name: cst.Name, home: object) -> bool:
        """Whether it is no place that reads the dictionary but to unpack it. An attribute of that name may be it."""
        node: cst.CSTNode = name
        parent = self.tree.parent.get(name)
        if isinstance(parent, cst.Attribute) and parent.attr is name:
            node, parent = parent, self.tree.parent.get(parent)
        elif isinstance(parent, cst.ImportAlias):
            return False
        elif home is None or self.tree.scope_of(name).lookup(name.value) is not home:
            return True
        if isinstance(parent, cst.Arg) and parent.keyword is node:
            return True
        is_merged = _merges(parent)
        while parent is not None and _merges(parent):
            parent = self.tree.parent.get(parent)
        is_unpacked = isinstance(parent, cst.Arg) and parent.star == "**"
        if is_merged:
            return is_unpacked
        return is_unpacked or isinstance(parent, (cst.AssignTarget, cst.AnnAssign, cst.Param))


def _merges(node: cst.CSTNode | None) -> bool:
    """Whether it makes one dictionary of several: `{**a, **b}`."""
    return isinstance(node, (cst.StarredDictElement, cst.Dict))


def _item(pair: cst.BaseDictElement) -> dict[str, cst.BaseExpression] | None:
    if not (isinstance(pair, cst.DictElement) and isinstance(pair.key, cst.SimpleString)):
        return None
    return {str(pair.key.evaluated_value): pair.value}


def _written_out(value: Value) -> dict[str, cst.BaseExpression] | None:
    if isinstance(value, Literal) and isinstance(value.node, cst.Dict):
        items = {}
        for pair in value.node.elements:
            item = _item(pair)
            if item is None:
                return None
            items.update(item)
        return items
    if isinstance(value, Result) and value.function == External("builtins.dict"):
        if any(arg.keyword is None for arg in value.call.args):
            return None
        return {arg.keyword.value: arg.value for arg in value.call.args if arg.keyword is not None}
    return None
