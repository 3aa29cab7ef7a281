"""Calls that may run functions of the script or not, by what else they are given, where it is not seen what settles it:
`partial(tf.cond, true_fn=slow, false_fn=fast)(loss > 1)`, `tf.case(list(zip(tests, steps)))`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.dependence.choosing import CHOOSING, LOOPING, PAIRS, are_pairs
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Literal, Object, Result, Value, calls
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import Tree
from migrator.records import dataclass

# They run what they are given once, for each of some rows, or where that is looked at.
_RUNNING = re.compile(
    r"^tensorflow\.(?:function|map_fn|vectorized_map|scan|fold[lr]|py_function|numpy_function|custom_gradient"
    r"|recompute_grad|print|gradients|Variable|nest\.\w+|(?:data|autograph|distribute|lookup|random|test|train|summary"
    r"|feature_column|estimator|config|debugging|io|image|linalg|math|nn|strings|signal)\..+)$"
)
_PARTIAL = "functools.partial"
_DEEPEST = 5


@dataclass(frozen=True, eq=False)
class UnseenChoice:
    """`deciders`: what may settle which of the `functions` run, or how often."""

    call: cst.Call
    deciders: tuple[cst.BaseExpression, ...]
    functions: tuple[cst.FunctionDef | cst.Lambda, ...]


class UnseenChoices:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver

    @cached_property
    def found(self) -> list[UnseenChoice]:
        found = []
        for call in self.tree.calls:
            chooses = self._chooses(call)
            if chooses or any(map(self._may_choose, self.resolver.values(call.func))):
                choice = self._choice(call)
                found += [choice] if chooses or choice.functions else []
        return found

    def _choice(self, call: cst.Call) -> UnseenChoice:
        values = self.resolver.values(call.func)
        made = [v.call for v in values if calls(v) == _PARTIAL and isinstance(v, Result)]
        given = [arg.value for each in (call, *made) for arg in each.args]
        functions = dict.fromkeys(f for node in given for f in self._functions(node, 0))
        deciders = [part for node in given for part in self._parts(node, 0) if not any(self._functions(part, _DEEPEST))]
        return UnseenChoice(call, tuple(dict.fromkeys(deciders)), tuple(functions))

    def _chooses(self, call: cst.Call) -> bool:
        """Whether it surely runs one of several functions, or one as long as another says."""
        paths = self.resolver.public(call.func)
        if PAIRS in paths:
            pairs = argument(call, "pred_fn_pairs", 0)
            return pairs is None or not are_pairs(pairs.value)
        if _PARTIAL in paths:
            return False  # nothing runs yet
        made = [v.call.args[0] for v in self.resolver.values(call.func) if isinstance(v, Result) and v.call.args]
        return any(self._is_choosing(arg.value) for arg in (*call.args, *made))

    def _is_choosing(self, node: cst.BaseExpression) -> bool:
        return any(isinstance(v, External) and v.path in CHOOSING | LOOPING for v in self.resolver.values(node))

    def _may_choose(self, value: Value, depth: int = 0) -> bool:
        """Whether nobody knows what it does with functions that it is given."""
        if calls(value) in (_PARTIAL, "builtins.getattr") and isinstance(value, Result) and value.call.args:
            held = self.resolver.values(value.call.args[0].value) if depth < _DEEPEST else ()
            return any(self._may_choose(v, depth + 1) for v in held)
        return isinstance(value, External) and value.path not in CHOOSING | LOOPING and _is_unknown(value.path)

    def _functions(self, node: cst.BaseExpression, depth: int) -> Iterator[cst.FunctionDef | cst.Lambda]:
        for value in self.resolver.values(node):
            if isinstance(value, Function):
                yield value.node
            elif isinstance(value, Object):
                method = self.resolver.method(value.of, "__call__")
                yield from (method,) if method is not None else ()
            elif calls(value) == _PARTIAL and isinstance(value, Result) and value.call.args and depth < _DEEPEST:
                yield from self._functions(value.call.args[0].value, depth + 1)
        for part in self._inside(node) if depth < _DEEPEST else ():
            yield from self._functions(part, depth + 1)

    def _parts(self, node: cst.BaseExpression, depth: int) -> Iterator[cst.BaseExpression]:
        """The expression, and what it is written to hold."""
        yield node
        for part in self._inside(node) if depth < _DEEPEST else ():
            yield from self._parts(part, depth + 1)

    def _inside(self, node: cst.BaseExpression) -> Iterable[cst.BaseExpression]:
        held = [node, *(v.node for v in self.resolver.values(node) if isinstance(v, Literal))]
        found: list[cst.BaseExpression] = []
        for each in dict.fromkeys(held):
            if isinstance(each, (cst.List, cst.Tuple, cst.Dict)):
                found += [element.value for element in each.elements]
            elif isinstance(each, (cst.ListComp, cst.GeneratorExp)):
                found.append(each.elt)
            elif isinstance(each, cst.Call):
                found += [arg.value for arg in each.args]  # `list(zip(conditions, branches))`
        return found


def _is_unknown(path: str) -> bool:
    return f"{path}.".startswith("tensorflow.") and _RUNNING.match(path) is None
