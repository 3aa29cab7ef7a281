"""Options of datasets that are unpacked from where nobody sees them: a flag of order may be among them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.objects.handed_on import HandedOn
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Literal, Member, Result, Value, calls, is_call_of
from migrator.facts.program.syntax import argument, has_unpacked_keywords, method_called, text_of
from migrator.facts.program.tree import Tree
from migrator.records import dataclass

_METHODS = ("map", "interleave", "batch")
_PARTIALS = ("functools.partial", "functools.partialmethod")
_GETATTR = "builtins.getattr"
# Their objects are no datasets, though some have methods of these names.
_WITHOUT_DATASETS = ("multiprocessing.", "concurrent.", "pandas.", "numpy.", "joblib.", "builtins.")
_FIRST_PLACE = 2  # of the flag among the arguments of a method
_PUTTING = ("setdefault", "__setitem__")


@dataclass(frozen=True)
class HiddenFlag:
    """`**options`, of which it is not seen that they hold no flag that frees the order."""

    options: cst.BaseExpression


class UnseenOptions:
    def __init__(self, tree: Tree, resolver: Resolver, flag: str) -> None:
        self.tree = tree
        self.resolver = resolver
        self.flag = flag
        self._handed_on = HandedOn(tree, resolver)
        self._filled: set[cst.CSTNode] = set()

    def everywhere(self) -> Iterator[tuple[cst.Call, HiddenFlag]]:
        for call, options in self._hiding:
            if self._is_of_tensorflow(call):
                yield from ((call, HiddenFlag(node)) for node in options)

    @cached_property
    def _hiding(self) -> list[tuple[cst.Call, list[cst.BaseExpression]]]:
        """Calls that may be of datasets, with the options of which it is not seen that they hold no flag."""
        calls = [c for c in self.tree.calls if has_unpacked_keywords(c) and argument(c, self.flag) is None]
        unpacking = [call for call in calls if self._may_take(call)]
        if unpacking:
            self._find_filled()
        several = ((c, [arg.value for arg in c.args if arg.star == "**"]) for c in unpacking)
        hiding = ((call, [o for o in options if not self._is_free(o, set())]) for call, options in several)
        return [(call, options) for call, options in hiding if options]

    def refusals(self) -> Iterator[Refusal]:
        """Where nothing can be written that would keep the order."""
        why = "this may let the elements come in another order on each worker, so that no share is well defined"
        for call, _ in self._hiding:
            if not self._is_of_tensorflow(call):
                yield Refusal(call, why, "write out the names of the options", True)
        for call in self.tree.calls:
            unpacked = [arg for arg in call.args if arg.star == "*"]
            if unpacked and self._may_take(call) and not self._are_few(call):
                yield Refusal(call, why, f"give the arguments by their names, {self.flag}=... among them", True)
            given = [arg.value for arg in call.args]
            if len(given) == 3 and External("builtins.setattr") in self.resolver.values(call.func):
                of_options = any(calls(v) == "tensorflow.data.Options" for v in self.resolver.values(given[0]))
                if of_options and not self._is_other_setting(given[1]):
                    yield Refusal(call, why, f"write out which setting it is, as in options.{self.flag} = ...", True)

    def _is_other_setting(self, name: cst.BaseExpression) -> bool:
        if isinstance(name, cst.SimpleString):
            return True  # see OrderFlags
        values = self.resolver.values(name)
        texts = [text_of(v.node) if isinstance(v, Literal) else "" for v in values]
        return bool(texts) and all(texts) and not any(text.endswith(self.flag) for text in texts)

    def _are_few(self, call: cst.Call) -> bool:
        """Whether so few arguments are given by position that the flag is none of them."""
        numbers = [self._number(arg) for arg in call.args if arg.keyword is None and arg.star != "**"]
        is_of_class = any(isinstance(v, External) for v in self.resolver.values(call.func))
        return None not in numbers and sum(n or 0 for n in numbers) <= _FIRST_PLACE + is_of_class

    def _number(self, arg: cst.Arg) -> int | None:
        """How many the argument is at most; None where that is not seen."""
        if arg.star != "*":
            return 1
        function = self.tree.function_of(arg.value)
        rest = function.params.star_arg if isinstance(function, cst.FunctionDef) else None
        if isinstance(rest, cst.Param) and isinstance(arg.value, cst.Name) and rest.name.value == arg.value.value:
            is_seen = isinstance(function, cst.FunctionDef) and self._handed_on.is_only_called(function)
            callers = self.resolver.callers(function) if function is not None and is_seen else []
            many = any(a.star or a.keyword for c in callers for a in c.args)
            return max(len(c.args) for c in callers) if callers and not many else None
        values = self.resolver.values(arg.value)
        displays = [v.node for v in values if isinstance(v, Literal) and isinstance(v.node, (cst.Tuple, cst.List))]
        is_starred = any(isinstance(e, cst.StarredElement) for node in displays for e in node.elements)
        is_seen = bool(values) and len(displays) == len(values) and not is_starred
        return max(len(node.elements) for node in displays) if is_seen else None

    def _may_take(self, call: cst.Call) -> bool:
        """Whether the call is of a method of a dataset, or makes or hands on one."""
        values = self.resolver.values(call.func)
        if any(isinstance(v, External) and v.path == "operator.methodcaller" for v in values):
            return bool(call.args) and text_of(call.args[0].value) in ("", *_METHODS)
        values = self._called(call)
        return any(map(self._is_of_dataset, values)) or (not values and method_called(call) in _METHODS)

    def _is_of_tensorflow(self, call: cst.Call) -> bool:
        """Whether what is called surely comes from TensorFlow: nothing else takes the flag."""
        values = self._called(call)
        return bool(values) and all(map(self._comes_from_tensorflow, values))

    def _comes_from_tensorflow(self, value: Value) -> bool:
        if isinstance(value, Result) and calls(value) in (*_PARTIALS, _GETATTR) and value.call.args:
            owners = self.resolver.values(value.call.args[0].value)
            return bool(owners) and all(map(self._comes_from_tensorflow, owners))
        return origin(value).startswith("tensorflow")

    def _called(self, call: cst.Call) -> tuple[Value, ...]:
        """The functions that it calls, or that it makes a partial of."""
        values = self.resolver.values(call.func)
        is_partial = any(isinstance(v, External) and v.path in _PARTIALS for v in values) and bool(call.args)
        return self.resolver.values(call.args[0].value) if is_partial else values

    def _is_of_dataset(self, value: Value) -> bool:
        if isinstance(value, External):
            return value.path.startswith("tensorflow.data.Dataset.") and value.path.rpartition(".")[2] in _METHODS
        if is_call_of(value, *_PARTIALS) and isinstance(value, Result) and value.call.args:
            return any(map(self._is_of_dataset, self.resolver.values(value.call.args[0].value)))
        if calls(value) == _GETATTR and isinstance(value, Result) and len(value.call.args) > 1:
            return text_of(value.call.args[1].value) in ("", *_METHODS)
        return isinstance(value, Member) and value.name in _METHODS and not origin(value).startswith(_WITHOUT_DATASETS)

    # -- what surely holds no flag -----------------------------------------------------------------------------------

    def _is_free(self, node: cst.BaseExpression, met: set[cst.CSTNode]) -> bool:
        """Whether all keys that the dictionary may have are written out: a flag among them is seen there."""
        if node in met:
            return True
        met.add(node)
        if isinstance(node, cst.IfExp):
            return self._is_told(node) or (self._is_free(node.body, met) and self._is_free(node.orelse, met))
        if self._is_rest(node):
            return self._are_all_given(node, met)
        values = self.resolver.values(node)
        return bool(values) and all(self._is_seen(value, met) for value in values)

    def _is_told(self, node: cst.IfExp) -> bool:
        """`options if lockstep.size() == 1 else {**options, "deterministic": True}`"""
        written = node.orelse.elements[-1:] if isinstance(node.orelse, cst.Dict) else ()
        return any(isinstance(e, cst.DictElement) and text_of(e.key) == self.flag for e in written)

    def _is_rest(self, node: cst.BaseExpression) -> bool:
        function = self.tree.function_of(node)
        rest = function.params.star_kwarg if isinstance(function, cst.FunctionDef) else None
        return isinstance(node, cst.Name) and rest is not None and rest.name.value == node.value

    def _are_all_given(self, rest: cst.BaseExpression, met: set[cst.CSTNode]) -> bool:
        """Whether all that comes in `**kwargs` is named by calls that are seen, and nothing else is put there."""
        function = self.tree.function_of(rest)
        if not isinstance(function, cst.FunctionDef) or not self._handed_on.is_only_called(function):
            return False
        given = [arg for call in self.resolver.callers(function) for arg in call.args if arg.star == "**"]
        reads = [n for n in self.tree.names[cst.ensure_type(rest, cst.Name).value] if self.tree.contains(function, n)]
        return not any(map(self._may_fill, reads)) and all(self._is_free(arg.value, met) for arg in given)

    def _is_seen(self, value: Value, met: set[cst.CSTNode]) -> bool:
        if isinstance(value, Literal) and isinstance(value.node, cst.Dict):
            return self._has_texts(value.node, met) and value.node not in self._filled
        if calls(value) == "dataclasses.asdict":
            return True
        if not isinstance(value, Result) or value.function != External("builtins.dict") or value.call in self._filled:
            return False
        unpacked = (arg.value for arg in value.call.args if arg.keyword is None)
        return all(self._is_free(node, met) for node in unpacked)

    def _has_texts(self, display: cst.Dict, met: set[cst.CSTNode]) -> bool:
        for element in display.elements:
            if isinstance(element, cst.DictElement):
                if not isinstance(element.key, cst.SimpleString):
                    return False
            elif not self._is_free(element.value, met):
                return False
        return True

    def _find_filled(self) -> None:
        """Finds the dictionaries into which the program puts something under a key that it makes."""
        holders = [n for n in self.tree.all_of(cst.Name, cst.Attribute) if self._may_be_changed(n)]
        while True:
            more = {node for h in holders if self._may_fill(h) for node in self._dictionaries(h)}
            if more <= self._filled:
                return
            self._filled |= more

    def _dictionaries(self, holder: cst.CSTNode) -> Iterator[cst.CSTNode]:
        for value in self.resolver.values(holder):
            if isinstance(value, (Literal, Result)):
                yield value.node if isinstance(value, Literal) else value.call

    def _may_be_changed(self, holder: cst.CSTNode) -> bool:
        owner = self.tree.parent.get(holder)
        if isinstance(owner, cst.Attribute):
            return owner.value is holder and owner.attr.value in ("update", *_PUTTING)
        return isinstance(owner, (cst.Subscript, cst.AugAssign))

    def _may_fill(self, holder: cst.CSTNode) -> bool:
        """`options[key] = value`, `options.update(others)`, `options |= others`"""
        owner = self.tree.parent.get(holder)
        if isinstance(owner, cst.Subscript) and owner.value is holder:
            index = owner.slice[0].slice
            key = text_of(index.value) if isinstance(index, cst.Index) else ""
            is_seen = key != self.flag or isinstance(self.tree.parent.get(owner), cst.AssignTarget)  # see OrderFlags
            return owner in self.tree.targets and not (key and is_seen)
        if isinstance(owner, cst.AugAssign) and owner.target is holder:
            return not self._is_free(owner.value, set())
        call = self.tree.parent.get(owner) if isinstance(owner, cst.Attribute) and owner.value is holder else None
        if not isinstance(call, cst.Call) or not isinstance(owner, cst.Attribute) or call.func is not owner:
            return False
        if owner.attr.value == "update":
            return not all(arg.keyword is not None or self._is_free(arg.value, set()) for arg in call.args)
        return owner.attr.value in _PUTTING and bool(call.args) and not text_of(call.args[0].value)
