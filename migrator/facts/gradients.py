"""From an update back to the tape: where the gradients that it applies can be reduced, once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import libcst as cst

from migrator.facts import vocabulary
from migrator.facts.kinds import Kinds, calls
from migrator.facts.resolve import Resolver
from migrator.facts.syntax import argument
from migrator.facts.tree import Binding, Tree, semantic_children
from migrator.facts.values import External, Function, Member, Value
from migrator.facts.vocabulary import Role

_GRADIENT_METHODS = ("gradient", "get_gradients", "compute_gradients")
_UNSCALING = ("get_unscaled_gradients",)


@dataclass(frozen=True, eq=False)
class Gradients:
    """Gradients on their way from a tape to an update, at the last place where they are still as the tape made them.

    `computed` is the call that computed or handed them over, or the place where their sums over several steps are
    read. Where a plain name (or attribute) holds the whole
    result, `holder` is that binding; without one, the call itself is the place. `reduced_by` are the calls on the way
    that reduce them over the workers, latest first; that of the tape itself, where the tape does.
    """

    computed: cst.BaseExpression
    holder: Binding | None
    tape_calls: tuple[cst.Call, ...]
    reduced_by: tuple[cst.Call, ...] = ()

    @property
    def is_reduced(self) -> bool:
        return bool(self.reduced_by)


def differentiated(call: cst.Call) -> cst.BaseExpression | None:
    """The loss of `tape.gradient(loss, variables)`."""
    arg = argument(call, "target", 0)
    return arg.value if arg is not None else None


def sources_of(call: cst.Call) -> cst.BaseExpression | None:
    """The variables of `tape.gradient(loss, variables)`."""
    arg = argument(call, "sources", 1)
    return arg.value if arg is not None else None


class GradientFlow:
    """Follows gradients through names, functions and arithmetic of one script."""

    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds

    def is_tape_call(self, call: cst.Call) -> bool:
        """Whether the call is `tape.gradient(…)`."""
        func = call.func
        return (
            isinstance(func, cst.Attribute)
            and func.attr.value in _GRADIENT_METHODS
            and any(self.kinds.is_tape(v) for v in self.resolver.values(func.value))
        )

    def sources(self, node: cst.CSTNode) -> list[Gradients]:
        """All gradients that flow into the expression, each at the place nearest to it."""
        found: dict[tuple[cst.CSTNode, cst.CSTNode | None], Gradients] = {}
        for gradients in self._trace(node, set()):
            found.setdefault((gradients.computed, gradients.holder.node if gradients.holder else None), gradients)
        return list(found.values())

    def _trace(self, node: cst.CSTNode, seen: set[cst.CSTNode]) -> Iterator[Gradients]:
        if node in seen:
            return
        seen.add(node)
        if isinstance(node, cst.Name):
            for binding in self.resolver.reaching(node):
                yield from self._trace_binding(binding, seen)
        elif isinstance(node, cst.Attribute):
            yield from self._trace_attribute(node, seen)
        elif isinstance(node, cst.Call):
            yield from self._trace_call(node, seen)
        elif isinstance(node, (cst.ListComp, cst.GeneratorExp)):
            yield from self._trace(node.elt, seen)  # which reads the names of its `for`
        elif isinstance(node, cst.IfExp):
            yield from self._trace(node.body, seen)
            yield from self._trace(node.orelse, seen)
        elif not isinstance(node, (cst.Lambda, cst.BaseString)):
            for child in semantic_children(node):
                if isinstance(
                    child,
                    (cst.BaseExpression, cst.Arg, cst.BaseElement, cst.CompFor, cst.BaseSlice, cst.SubscriptElement),
                ):
                    yield from self._trace(child, seen)

    def _trace_attribute(self, node: cst.Attribute, seen: set[cst.CSTNode]) -> Iterator[Gradients]:
        # Only attributes that the script itself assigns can hold gradients (`self.grads`), not `model.weights`.
        name = node.attr.value
        if name not in self.tree.attributes:
            return
        for binding in self.resolver.bindings_of(node):
            yield from self._trace_binding(binding, seen)

    def _trace_binding(self, binding: Binding, seen: set[cst.CSTNode]) -> Iterator[Gradients]:
        if binding.kind == "param":
            for argument in self.resolver.given(cast(cst.Param, binding.node)):
                yield from self._trace(argument, seen)
            return
        if binding.node in seen or binding.value is None or binding.kind in ("import", "def", "class", "with"):
            return
        seen.add(binding.node)
        if binding.kind == "assign" and isinstance(binding.value, cst.Call):
            raw = self._raw(binding.value, binding.path, seen)
            if raw is not None:
                held = binding if self._is_whole(binding) else None
                yield Gradients(binding.value, held, raw.tape_calls, raw.reduced_by)
                return
        yield from self._trace(binding.value, seen)

    def _is_whole(self, binding: Binding) -> bool:
        """Whether the name alone holds gradients: the whole call's, or one part of a function's result."""
        if not binding.path:
            return isinstance(binding.node, (cst.Assign, cst.AnnAssign)) and not (
                isinstance(binding.node, cst.Assign) and len(binding.node.targets) > 1
            )
        return not self.is_tape_call(cast(cst.Call, binding.value))

    def _trace_call(self, call: cst.Call, seen: set[cst.CSTNode]) -> Iterator[Gradients]:
        raw = self._raw(call, (), seen)
        if raw is not None:
            yield Gradients(call, None, raw.tape_calls, raw.reduced_by)
            return
        for arg in call.args:
            yield from self._trace(arg.value, seen)

    def _raw(self, call: cst.Call, path: tuple[int, ...], seen: set[cst.CSTNode]) -> Gradients | None:
        """The gradients that the call itself brings into being: a tape's, or a function's of the script."""
        if self.is_tape_call(call):
            return Gradients(call, None, (call,), (call,) if self._reduces_itself(call) else ())
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _UNSCALING and call.args:
            scaled = list(self._trace(call.args[0].value, seen))
            return _handed_on(call, scaled) if scaled else None
        if self.reduces(call):
            inner = [g for arg in call.args for g in self._trace(arg.value, seen)]
            return _handed_on(call, inner, call)
        for function in self.resolver.values(call.func):
            if isinstance(function, Function) and isinstance(function.node, cst.FunctionDef):
                returned = self._returned_gradients(function.node, path, seen)
                if returned:
                    return _handed_on(call, returned)
        return None

    def _reduces_itself(self, call: cst.Call) -> bool:
        """Whether a distributed tape computes these gradients."""
        tape = cst.ensure_type(call.func, cst.Attribute).value
        return any(map(self.kinds.is_distributed_tape, self.resolver.values(tape)))

    def reduces(self, call: cst.Call) -> bool:
        """`all_reduce(gradients)`, and `map(all_reduce, gradients)`, whichever function maps."""
        mapped = [arg.value for arg in call.args if isinstance(arg.value, (cst.Name, cst.Attribute, cst.Lambda))]
        return bool(call.args) and any(
            self._is_reduction(v) for function in (call.func, *mapped) for v in self.resolver.values(function)
        )

    def _is_reduction(self, function: Value) -> bool:
        if isinstance(function, External):
            return vocabulary.has_role(function.path, Role.REDUCE)
        if not isinstance(function, Function) or not isinstance(function.node, cst.Lambda):
            return False
        body = function.node.body
        return isinstance(body, cst.Call) and any(map(self._is_reduction, self.resolver.values(body.func)))

    def _returned_gradients(
        self, function: cst.FunctionDef, path: tuple[int, ...], seen: set[cst.CSTNode]
    ) -> list[Gradients]:
        """Gradients that are computed inside of the function and returned at that place of its result."""
        if function not in self._makers:
            return []
        found: list[Gradients] = []
        for expression in self.resolver.returned(function):
            part: cst.CSTNode | None = expression
            for index in path:
                if isinstance(part, cst.Tuple) and -len(part.elements) <= index < len(part.elements):
                    part = part.elements[index].value
                elif isinstance(part, cst.Tuple):
                    part = None
            if part is not None:
                found.extend(g for g in self._trace(part, set(seen)) if self._is_computed_in(g, function))
        return found

    @cached_property
    def _makers(self) -> set[cst.CSTNode]:
        """The functions in which gradients are computed, by a tape or by another of these functions: the others need
        not be followed."""
        found: set[cst.CSTNode] = set()
        queue = [call for call in self.tree.calls if self.is_tape_call(call)]
        while queue:
            for owner in self.tree.ancestors(queue.pop()):
                if isinstance(owner, cst.FunctionDef) and owner not in found:
                    found.add(owner)
                    queue.extend(self.resolver.callers(owner))
        return found

    def _is_computed_in(self, gradients: Gradients, function: cst.FunctionDef) -> bool:
        return self.tree.contains(function, gradients.computed)


def _handed_on(call: cst.Call, inner: Sequence[Gradients], *reductions: cst.Call) -> Gradients:
    """What the call gives back of the gradients that it is given; reduced are they if all ways to it reduce them."""
    tapes = tuple(c for g in inner for c in g.tape_calls)
    earlier = tuple(c for g in inner for c in g.reduced_by) if all(g.is_reduced for g in inner) else ()
    return Gradients(call, None, tapes, (*reductions, *earlier))


def is_reduction(value: Value) -> bool:
    return vocabulary.has_role(calls(value), Role.REDUCE)


def is_bound_method(value: Value, *names: str) -> bool:
    return isinstance(value, Member) and value.name in names
