"""From an update back to the tape: where the gradients that it applies can be reduced, once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import libcst as cst

from migrator.facts.names import vocabulary
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.contents import Contents, Part
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Result, Value, is_call_of
from migrator.facts.program.syntax import argument, is_none
from migrator.facts.program.tree import Binding, FunctionLike, Tree
from migrator.records import dataclass
from migrator.worklist import Worklist

_GRADIENT_METHODS = ("gradient", "get_gradients", "compute_gradients")
_UNSCALING = ("get_unscaled_gradients",)
# Gradients travel short ways. What is further off counts as unseen: time and Python's stack must stay bounded.
_MOST_STEPS = 4000
_MOST_CALLS = 8
_DEEPEST = 25
_MOST_PARTS = 100


@dataclass(frozen=True, eq=False)
class Gradients:
    """Gradients on their way from a tape to an update, at the last place where they are still as the tape made them.

    `computed` is the call that computed or handed them over, or the place where their sums over several steps are
    read. Where a plain name (or attribute) holds the whole result, `holder` is that binding; without one, the call
    itself is the place. `reduced_by` are the calls on the way that reduce them over the workers, latest first; that of
    the tape itself, where the tape does. `inner` are the gradients that were handed over, where they came from.
    """

    computed: cst.BaseExpression
    holder: Binding | None
    tape_calls: tuple[cst.Call, ...]
    reduced_by: tuple[cst.Call, ...] = ()
    inner: tuple[Gradients, ...] = ()

    @property
    def is_reduced(self) -> bool:
        return bool(self.reduced_by)

    def is_at(self, call: cst.Call) -> bool:
        """Whether they are reduced as soon as the call gives them."""
        return self.computed is call and (self.holder is None or self.holder.value is call)

    @property
    def place(self) -> Place:
        return self.computed, self.holder


Place = tuple[cst.BaseExpression, "Binding | None"]


_ACCUMULATOR = "tensorflow.autodiff.ForwardAccumulator"


def differentiated(call: cst.Call) -> cst.BaseExpression | None:
    """The loss of `tape.gradient(loss, variables)`, or of `tf.gradients(ys=loss, xs=variables)`."""
    arg = argument(call, "target", 0) or argument(call, "ys") or argument(call, "primals")
    return arg.value if arg is not None else None


def sources_of(call: cst.Call) -> cst.BaseExpression | None:
    """The variables of `tape.gradient(loss, variables)`, or of `tf.gradients(loss, variables)`."""
    arg = argument(call, "sources", 1) or argument(call, "xs")
    return arg.value if arg is not None else None


def watched_of(call: cst.Call, resolver: Resolver) -> cst.BaseExpression | None:
    """The same; of `accumulator.jvp(loss)`, what the accumulator goes along from."""
    made = resolver.values(call.func.value) if isinstance(call.func, cst.Attribute) and is_jvp(call, resolver) else ()
    given = next((argument(v.call, "primals", 0) for v in made if isinstance(v, Result)), None)
    return given.value if given is not None else sources_of(call)


def is_jvp(call: cst.Call, resolver: Resolver) -> bool:
    """Whether it asks a `tf.autodiff.ForwardAccumulator`."""
    func = call.func
    is_named = isinstance(func, cst.Attribute) and func.attr.value == "jvp"
    owner = func.value if isinstance(func, cst.Attribute) and is_named else None
    return owner is not None and any(is_call_of(v, _ACCUMULATOR) for v in resolver.values(owner))


def reduced_once(updates: Sequence[Sequence[Gradients]]) -> list[tuple[Gradients, ...]]:
    """The gradients of each update, none at two places on one way: what one update gets where a function hands it
    over, and another where the function computes it, is taken where it is computed for both."""
    current = [tuple(gradients) for gradients in updates]
    while True:
        places = {g.place for gradients in current for g in gradients}
        if not any(_passes(g, places) for gradients in current for g in gradients):
            return current
        opened = [[i for g in gs for i in (g.inner if _passes(g, places) else (g,))] for gs in current]
        current = [tuple({g.place: g for g in gradients}.values()) for gradients in opened]


def _passes(gradients: Gradients, places: set[Place]) -> bool:
    """Whether the gradients have come through one of the places."""
    return not gradients.is_reduced and any(g.place in places or _passes(g, places) for g in gradients.inner)


class GradientFlow:
    """Follows gradients through names, containers, functions and arithmetic of one script."""

    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.contents = Contents(tree, resolver)
        self._known: dict[cst.CSTNode, list[Gradients]] = {}
        self._tape_calls: dict[cst.Call, bool] = {}
        self._steps = 0
        self._busy: set[Part] = set()

    def is_tape_call(self, call: cst.Call) -> bool:
        """Whether the call is `tape.gradient(…)`."""
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in _GRADIENT_METHODS:
            return False
        if call not in self._tape_calls:
            self._tape_calls[call] = self._is_tape(func.value)
        return self._tape_calls[call]

    def _is_tape(self, node: cst.BaseExpression) -> bool:
        """Whether it may be a tape, also one that is put into a tuple or a queue and taken out of it."""
        seen: set[Part] = set()
        stack = [Part(node)]
        while stack and len(seen) < _MOST_PARTS:
            part = stack.pop()
            if part in seen:
                continue
            seen.add(part)
            if not part.path and any(map(self.kinds.is_tape, self.resolver.values(part.node))):
                return True
            stack += self.contents.behind(part) if part.path or not isinstance(part.node, cst.Call) else ()
        return False

    def sources(self, node: cst.CSTNode) -> list[Gradients]:
        """All gradients that flow into the expression, each at the place nearest to it."""
        if not self._are_any:
            return []
        if node not in self._known:
            self._steps = 0
            found = self._behind(Part(node))
            # What takes too many steps is not seen at all, rather than in part.
            self._known[node] = found if self._steps <= _MOST_STEPS else []
        return self._known[node]

    @cached_property
    def _are_any(self) -> bool:
        """Whether any are taken, or reduced: where Keras does all of that, nothing needs to be followed."""
        return any(map(self.is_tape_call, self.tree.calls)) or bool(self._reducing)

    def passed(self, node: cst.CSTNode) -> set[cst.CSTNode]:
        """The expressions that gradients pass on their way into this one, and what may be there instead of them."""
        seen: set[Part] = set()
        stack = [Part(node)]
        while stack and len(seen) <= _MOST_STEPS:
            part = stack.pop()
            if part in seen:
                continue
            seen.add(part)
            call = part.node if isinstance(part.node, cst.Call) else None
            if call is not None and call in self._makers_run_by:
                stack += self._returned(self._makers_run_by[call], call, part)
            elif call is None or not self.is_tape_call(call):
                stack += self.contents.of(part).found
        return {part.node for part in seen}

    def gives_gradients(self, node: cst.CSTNode) -> bool:
        """Whether the expression is gradients, and nothing else among them."""
        return bool(self.sources(node)) and self._is_pure(Part(node), set(), 0)

    def _behind(self, *parts: Part) -> list[Gradients]:
        found: dict[Place, Gradients] = {}
        seen: set[Part] = set()
        stack = list(reversed(parts))
        while stack and self._steps <= _MOST_STEPS:
            part = stack.pop()
            if part in seen:
                continue
            seen.add(part)
            self._steps += 1
            gradients = self._made_by(part.node, part) if isinstance(part.node, cst.Call) else None
            if gradients is not None:
                for one in gradients:
                    found.setdefault(one.place, one)
            else:
                stack.extend(reversed(self.contents.of(part).found))
        return list(found.values())

    def _made_by(self, call: cst.Call, part: Part) -> list[Gradients] | None:
        """The gradients that the call itself brings into being: a tape's, or a function's of the script. None where
        it only passes on what it is given."""
        if self.is_tape_call(call):
            holder = _holder(part) if not part.held else None
            return [Gradients(call, holder, (call,), (call,) if self._reduces_itself(call) else ())]
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _UNSCALING and call.args:
            inner = self._inside(call, [part.at(call.args[0].value, ())], part)
            return [_handed_on(call, _holder(part) if not part.held else None, inner)] if inner else []
        if self.reduces(call):
            inner = self._inside(call, [part.at(arg.value, ()) for arg in call.args], part)
            return [_handed_on(call, _holder(part) if not part.held else None, inner, call)]
        functions = self._makers_run_by.get(call, [])
        if not functions:
            return None
        inner = self._inside(call, self._returned(functions, call, part), part)
        if not inner:
            return []
        # Together with other things they cannot be reduced, nor after they are changed: they are where they come from.
        holder = _holder(part)
        whole = Part(call, part.path[: part.held] if holder is not None else (), part.way)
        if self._is_pure(whole, set(), 0) and self._has_same_tapes(inner, whole, functions, call):
            return [_handed_on(call, holder, inner)]
        return inner

    def _has_same_tapes(
        self, gradients: Sequence[Gradients], whole: Part, functions: Sequence[FunctionLike], call: cst.Call
    ) -> bool:
        """Whether the whole holds no gradients beside these: of other losses, they may need another reduction."""
        every = self._inside(call, self._returned(functions, call, whole), whole)
        return {c for g in every for c in g.tape_calls} == {c for g in gradients for c in g.tape_calls}

    def _inside(self, call: cst.Call, parts: list[Part], part: Part) -> list[Gradients]:
        """What is behind what a call takes or gives back; nothing more where it is on the way already."""
        key = Part(call, part.path, part.way)
        if key in self._busy:
            return []
        self._busy.add(key)
        try:
            return self._behind(*parts)
        finally:
            self._busy.discard(key)

    def _returned(self, functions: Sequence[FunctionLike], call: cst.Call, part: Part) -> list[Part]:
        if call in part.way or len(part.way) >= _MOST_CALLS:
            return []
        returned = [node for function in functions for node in self.resolver.returned(function)]
        return [Part(node, part.path, (*part.way, call)) for node in returned]

    def _is_pure(self, part: Part, seen: set[Part], depth: int) -> bool:
        """Whether there are only gradients, as the tape made them: nothing else among them, and nothing done to
        them."""
        part = Part(part.node, part.path, part.way)
        if part in seen:
            return True
        if depth > _DEEPEST:
            return False
        seen.add(part)
        node = part.node
        if is_none(node):
            return True
        if isinstance(node, cst.Call):
            if self.is_tape_call(node):
                return True
            if self.reduces(node):
                return all(self._is_pure(part.at(arg.value), seen, depth + 1) for arg in node.args[:1])
            functions = self._makers_run_by.get(node, [])
            if functions:
                returned = self._returned(functions, node, part)
                return bool(returned) and all(self._is_pure(p, seen, depth + 1) for p in returned)
        parts = self.contents.of(part)
        return parts.is_whole and bool(parts.found) and all(self._is_pure(p, seen, depth + 1) for p in parts.found)

    def _reduces_itself(self, call: cst.Call) -> bool:
        """Whether a distributed tape computes these gradients."""
        tape = cst.ensure_type(call.func, cst.Attribute).value
        return any(map(self.kinds.is_distributed_tape, self.resolver.values(tape)))

    def reduces(self, call: cst.Call) -> bool:
        """`all_reduce(gradients)`, and `map(all_reduce, gradients)`, whichever function maps."""
        return call in self._reducing

    @cached_property
    def _reducing(self) -> set[cst.Call]:
        def reduces(call: cst.Call) -> bool:
            mapped = [arg.value for arg in call.args if isinstance(arg.value, (cst.Name, cst.Attribute, cst.Lambda))]
            given = (v for function in (call.func, *mapped) for v in self.resolver.values(function))
            return bool(call.args) and any(map(self._is_reduction, given))

        return set(filter(reduces, self.tree.calls))

    def _is_reduction(self, function: Value) -> bool:
        """Whether it is the runtime's, or a lambda that does nothing but call it, however many stand between."""
        pending = Worklist([function])  # `f = lambda x, f=f: f(x)` is behind itself, as far as names tell
        for value in pending:
            if isinstance(value, External) and vocabulary.has_role(value.path, Role.REDUCE):
                return True
            node = value.node if isinstance(value, Function) else None
            if isinstance(node, cst.Lambda) and isinstance(node.body, cst.Call):
                pending.extend(self.resolver.values(node.body.func))
        return False

    @cached_property
    def _makers_run_by(self) -> dict[cst.Call, list[FunctionLike]]:
        """The calls that run functions in which gradients are computed, by a tape or by another of these functions:
        what the others return need not be looked at."""
        found: dict[cst.Call, list[FunctionLike]] = {}
        done: set[cst.CSTNode] = set()
        queue = [call for call in self.tree.calls if self.is_tape_call(call)]
        while queue:
            for owner in self.tree.ancestors(queue.pop()):
                if isinstance(owner, (cst.FunctionDef, cst.Lambda)) and owner not in done:
                    done.add(owner)
                    for call in self.resolver.callers(owner):
                        found.setdefault(call, []).append(owner)
                        queue.append(call)
        return found


def _holder(part: Part) -> Binding | None:
    """The binding that gives the part a name of its own, in a statement of its own."""
    if part.holder is None or not isinstance(part.holder.node, (cst.Assign, cst.AnnAssign)):
        return None
    has_more = isinstance(part.holder.node, cst.Assign) and len(part.holder.node.targets) > 1
    return None if has_more else part.holder


def _handed_on(call: cst.Call, holder: Binding | None, inner: Sequence[Gradients], *reductions: cst.Call) -> Gradients:
    """What the call gives back of the gradients that it is given; reduced are they if all ways to it reduce them."""
    tapes = tuple(dict.fromkeys(c for g in inner for c in g.tape_calls))
    earlier = tuple(c for g in inner for c in g.reduced_by) if all(g.is_reduced for g in inner) else ()
    return Gradients(call, holder, tapes, (*reductions, *earlier), tuple(inner))
