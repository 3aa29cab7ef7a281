"""What a condition decides: the code that runs or does not run by it, and what is bound or changed there."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Union, cast

import libcst as cst

from migrator.facts.dependence import Dependence, Key
from migrator.facts.dependence.catching import Catching, Tried
from migrator.facts.dependence.choosing import CHOOSING, LOOPING, pairs_in
from migrator.facts.dependence.cut_short import CutShort
from migrator.facts.dependence.picking import Picking
from migrator.facts.dependence.unseen_choices import UnseenChoice, UnseenChoices
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Literal
from migrator.facts.program.syntax import argument, asks_for_items, made_in_turns, parts_of_target
from migrator.facts.program.tree import Binding, Tree, semantic_children
from migrator.facts.training.sites import Training
from migrator.records import dataclass

Jump = Union[cst.Break, cst.Continue, cst.Return, cst.Raise, cst.Assert]
_DECIDED = frozenset({
    cst.While, cst.If, cst.For, cst.IfExp, cst.BooleanOperation, cst.CompFor, cst.CompIf, cst.Call, cst.Arg,
    cst.Return, cst.Match, cst.MatchCase, cst.Assert, cst.Lambda, cst.Element,
})  # fmt: skip
_BLOCKS = (cst.BaseStatement, cst.BaseSuite, cst.MatchCase, cst.ExceptHandler, cst.Else, cst.Finally)


@dataclass(frozen=True, eq=False)
class Region:
    """`bodies` run by the condition's choice; `jumps` are the statements there that leave them; `rest` is the code that
    runs or not by these jumps. `place`: the condition, or the statement that catches what is raised by it."""

    place: cst.CSTNode
    bodies: tuple[cst.CSTNode, ...]
    jumps: tuple[Jump, ...]
    rest: tuple[cst.CSTNode, ...]


class Regions:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self._catching = Catching(tree, resolver, training)
        self._picking = Picking(tree, resolver)
        self._unseen_choices = UnseenChoices(tree, resolver)
        self._cut_short = CutShort(tree, resolver, self._unseen_choices)

    def of(self, condition: cst.CSTNode) -> list[Region]:
        """What the expression decides as a condition, or by raising what is caught; nothing where it does neither."""
        found = [self._region(tried.place, tried.bodies) for tried in self.risks.get(condition, ())]
        cut_short = self._cut_short.bodies.get(condition)
        if cut_short:
            found.append(Region(condition, tuple(cut_short), (), ()))
        bodies = self._bodies(condition)
        return found if bodies is None else [self._region(condition, bodies), *found]

    @property
    def cut_short(self) -> Mapping[cst.CSTNode, Sequence[cst.CSTNode]]:
        """By what decides it, code that runs or not though no condition is written."""
        return self._cut_short.bodies

    def _region(self, place: cst.CSTNode, bodies: tuple[cst.CSTNode, ...]) -> Region:
        jumps = tuple(jump for body in bodies for jump in self._jumps(body, in_loop=False))
        if isinstance(self.tree.parent.get(place), cst.Assert):
            jumps = (cast(cst.Assert, self.tree.parent[place]),)
        rest = tuple(node for jump in jumps for node in self._rest(jump, place))
        return Region(place, bodies, jumps, tuple(dict.fromkeys(rest)))

    @property
    def caught_in(self) -> list[cst.CSTNode]:
        """The blocks of managers that catch what is raised in them: `with suppress(ValueError):`."""
        return [tried.body for tried in self._catching.blocks]

    @property
    def risks(self) -> Mapping[cst.CSTNode, Sequence[Tried]]:
        """The values by which something may raise what is caught."""
        return self._catching.risks

    @property
    def picks(self) -> Mapping[cst.CSTNode, Sequence[cst.CSTNode]]:
        """By what decides it, the calls of the function and the changes of the object that it picks."""
        return self._picking.uses

    @property
    def picked(self) -> Mapping[cst.CSTNode, Sequence[cst.CSTNode]]:
        """The same by the function or object, which may have been picked before."""
        return self._picking.objects

    def only_tells(self, call: cst.Call) -> bool:
        """Whether it is a method that changes nothing."""
        return self._picking.only_tells(call)

    def _bodies(self, node: cst.CSTNode) -> tuple[cst.CSTNode, ...] | None:
        parent = self.tree.parent.get(node)
        if type(parent) not in _DECIDED:  # most of them; libcst's classes are slow to ask
            return None
        if isinstance(parent, cst.While) and node is parent.test:
            return (parent.test, parent.body, *([parent.orelse] if parent.orelse is not None else []))
        if isinstance(parent, cst.If) and node is parent.test:
            return (parent.body, *([parent.orelse] if parent.orelse is not None else []))
        if isinstance(parent, cst.For) and node is parent.iter:
            return (parent.body, *([parent.orelse] if parent.orelse is not None else []))
        if isinstance(parent, cst.IfExp) and node is parent.test:
            return (parent.body, parent.orelse)
        if isinstance(parent, cst.BooleanOperation) and node is parent.left:
            return (parent.right,)
        if isinstance(parent, cst.CompFor) and node is parent.iter and not _views_dictionary(node):
            inner = (parent.inner_for_in,) if parent.inner_for_in is not None else ()
            return (*made_in_turns(self._comprehension(parent)), *parent.ifs, *inner)
        if isinstance(parent, cst.CompIf):
            return (self._comprehension(parent),)
        if isinstance(parent, cst.Call) and node is parent.func:
            functions = tuple(v.node for v in self.resolver.values(node) if isinstance(v, Function))
            return functions if len(functions) > 1 or not isinstance(node, (cst.Name, cst.Attribute)) else None
        if isinstance(parent, cst.Arg):
            return self._branches(parent)
        if isinstance(parent, cst.Element):
            return self._chosen_in(parent)
        if isinstance(parent, cst.Return):
            return self._loops_of(self.tree.function_of(parent))
        if isinstance(parent, cst.Lambda):
            return self._loops_of(parent) if node is parent.body else None
        if isinstance(parent, cst.Match) and node is parent.subject:
            return tuple(parent.cases)
        if isinstance(parent, cst.MatchCase) and node is parent.guard:
            return tuple(cst.ensure_type(self.tree.parent[parent], cst.Match).cases)
        return () if isinstance(parent, cst.Assert) and node is parent.test else None

    def _comprehension(self, clause: cst.CompFor | cst.CompIf) -> cst.CSTNode:
        return next(o for o in self.tree.ancestors(clause) if not isinstance(o, (cst.CompFor, cst.CompIf)))

    def _branches(self, arg: cst.Arg) -> tuple[cst.CSTNode, ...] | None:
        """What `tf.cond(arg, …)` runs by the choice of this argument, or a loop over `zip(…, arg)` as long as it
        lasts."""
        call = self.tree.parent[arg]
        if not isinstance(call, cst.Call):
            return None
        if {External("builtins.zip"), External("builtins.enumerate")} & set(self.resolver.values(call.func)):
            return self._bodies(call)  # the shortest one ends the loop
        if arg is not call.args[0]:
            return None
        if not self.resolver.calls_one_of(call, CHOOSING):
            return None
        return self._functions_in(call.args)

    def _chosen_in(self, element: cst.Element) -> tuple[cst.CSTNode, ...] | None:
        """What `tf.case([(condition, f), …])` runs by the choice of one of its pairs, also if the list has a name."""
        for call in self._cases_of(element):
            pairs = self.tree.parent[self.tree.parent[self.tree.parent[element]]]
            return self._functions_in([*call.args, cst.Arg(cast(cst.List, pairs))])
        return None

    def _cases_of(self, element: cst.Element) -> Iterator[cst.Call]:
        """The calls of `tf.case` that choose by the element of a pair."""
        pair = self.tree.parent[element]
        item = self.tree.parent.get(pair)
        pairs = self.tree.parent.get(item) if isinstance(item, cst.Element) else None
        if not isinstance(pair, (cst.Tuple, cst.List)) or not isinstance(pairs, (cst.Tuple, cst.List)):
            return
        for call in self._cases if element is pair.elements[0] else ():
            given = _given(call, "pred_fn_pairs", 0)
            if any(arg.value is pairs or Literal(pairs) in self.resolver.values(arg.value) for arg in given):
                yield call

    def chosen_by_pairs(self) -> Iterator[cst.BaseExpression]:
        """The conditions in the pairs of `tf.case([(condition, f), …])`, also if the list has a name."""
        for pairs in self._pairs_of_cases:
            yield from (pair.elements[0].value for pair in pairs)

    @property
    def unseen_choices(self) -> list[UnseenChoice]:
        """The calls that run functions of the script or not by what they are given, it is not seen which."""
        return self._unseen_choices.found

    @cached_property
    def _pairs_of_cases(self) -> list[list[cst.Tuple | cst.List]]:
        """By the lists that are given to `tf.case`, the pairs that are written in them."""
        found = []
        for arg in (arg for call in self._cases for arg in _given(call, "pred_fn_pairs", 0)):
            held = [arg.value, *(v.node for v in self.resolver.values(arg.value) if isinstance(v, Literal))]
            lists = dict.fromkeys(node for node in held if isinstance(node, (cst.List, cst.Tuple)))
            found.append([pair for node in lists for pair in pairs_in(node)])
        return found

    @cached_property
    def _cases(self) -> list[cst.Call]:
        return [call for call in self.tree.calls if External("tensorflow.case") in self.resolver.values(call.func)]

    def _functions_in(self, args: Sequence[cst.Arg]) -> tuple[cst.CSTNode, ...]:
        parts = [part for arg in args for part in _parts(arg.value)]
        values = [value for part in parts for value in self.resolver.values(part)]
        written = [part for v in values if isinstance(v, Literal) for part in _parts(v.node)]
        values += [value for part in written for value in self.resolver.values(part)]
        return tuple(dict.fromkeys(v.node for v in values if isinstance(v, Function)))

    def _loops_of(self, condition: cst.CSTNode | None) -> tuple[cst.CSTNode, ...] | None:
        """The turns of the `tf.while_loop` that asks this function."""
        loops = list(self._loops_asking(condition))
        bodies = [arg for loop in loops for arg in _given(loop, "body", 1)]
        return self._functions_in(bodies) if loops else None

    def _loops_asking(self, condition: cst.CSTNode | None) -> Iterator[cst.Call]:
        for call in self._loop_calls:
            if condition in self._functions_in(_given(call, "cond", 0)):
                yield call

    @cached_property
    def _loop_calls(self) -> list[cst.Call]:
        return [call for call in self.tree.calls if self.resolver.calls_one_of(call, LOOPING)]

    def _choosing_calls(self, condition: cst.CSTNode) -> Iterator[cst.Call]:
        """The calls that give what the condition has chosen in a list of pairs, or what the turns of a loop make that
        it ends."""
        parent = self.tree.parent.get(condition)
        if isinstance(parent, cst.Element):
            yield from self._cases_of(parent)
        elif isinstance(parent, cst.Return):
            yield from self._loops_asking(self.tree.function_of(parent))
        elif isinstance(parent, cst.Lambda):
            yield from self._loops_asking(parent)

    def _jumps(self, node: cst.CSTNode, in_loop: bool) -> Iterator[Jump]:
        for child in semantic_children(node):
            if isinstance(child, (cst.Return, cst.Raise, cst.Assert)):
                yield child
            elif isinstance(child, (cst.Break, cst.Continue)):
                if not in_loop:
                    yield child
            elif isinstance(child, _BLOCKS) and not isinstance(child, (cst.FunctionDef, cst.ClassDef)):
                yield from self._jumps(child, in_loop or isinstance(child, (cst.For, cst.While)))

    def _rest(self, jump: Jump, condition: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The statements that come, or come again, only where the jump is not taken."""
        loops = list(self.tree.loops_around(condition))
        if isinstance(jump, (cst.Break, cst.Continue)):
            for loop in loops[:1]:
                yield loop.iter if isinstance(loop, cst.For) else loop.test
                yield loop.body
                if loop.orelse is not None:
                    yield loop.orelse
            return
        for loop in loops:
            yield loop.iter if isinstance(loop, cst.For) else loop.test
            yield loop.body
        child: cst.CSTNode = condition
        for owner in self.tree.ancestors(condition):
            body = getattr(owner, "body", None)
            if isinstance(owner, (cst.IndentedBlock, cst.Module)) and body is not None:
                place = next((i for i, s in enumerate(body) if s is child), len(body))
                yield from body[place + 1 :]
            if isinstance(owner, (cst.FunctionDef, cst.ClassDef)):
                return
            child = owner

    # -- what is chosen ------------------------------------------------------------------------------------------

    def chosen_by(self, condition: cst.CSTNode, dependence: Dependence) -> Iterator[Key]:
        """What gets another value, or is changed or not, as the condition decides."""
        for region in self.of(condition):
            yield from self._chosen_in_region(region, dependence)
        for use in self.picks.get(condition, ()):
            yield from self.chosen_at(use, dependence)

    def chosen_at(self, use: cst.CSTNode, dependence: Dependence) -> Iterator[Key]:
        """What is changed there, if it is another object or function; not what it is made of, or given, by calls that
        run anyway."""
        yield from self._bound_in(use)
        at = self.tree.callable_of(use)
        anyway = [call for call in self.calls_in(use) if call is not use and self.tree.callable_of(call) is at]
        yield from self.changed_within([use, *self._picking.methods_asked_for(use)], dependence, anyway)

    def _chosen_in_region(self, region: Region, dependence: Dependence) -> Iterator[Key]:
        yield from self._choosing_calls(region.place)
        direct = [*region.bodies, *region.rest]
        for body in direct:
            yield from self._bound_in(body)
        yield from self.changed_within(direct, dependence)
        if any(isinstance(jump, cst.Break) for jump in region.jumps):  # at which turn the loop ends
            for left in list(self.tree.loops_around(region.place))[:1]:
                yield from (binding for binding in self._bindings[1] if binding.node is left)
        owner = self.tree.function_of(region.place)
        if owner is not None and (any(isinstance(j, cst.Return) for j in region.jumps) or self._yields(direct)):
            yield ("returns", owner)
        loop = self.tree.parent.get(region.place)
        if isinstance(loop, (cst.For, cst.While)) and owner is not None and self._yields([loop]):
            yield ("returns", owner)

    def changed_within(
        self, bodies: Sequence[cst.CSTNode], dependence: Dependence, aside: Collection[cst.CSTNode] = ()
    ) -> Iterator[Key]:
        """What is changed there, also by the functions that run there; `aside`: calls that are looked at elsewhere."""
        for body in bodies:
            yield from self._changed_in(body, dependence, aside)
        for body in bodies:
            yield from self.left_by(self.training.reached_from(body)[1:], dependence, aside)

    def left_by(
        self, functions: Iterable[cst.CSTNode], dependence: Dependence, aside: Collection[cst.CSTNode] = ()
    ) -> Iterator[Key]:
        """What is another when these have run, without the functions that they call."""
        for function in functions:
            yield from (b for b in self._bound_in(function) if self._is_bound_outside(b, function))
            yield from self._changed_in(function, dependence, aside)

    def _yields(self, bodies: list[cst.CSTNode]) -> bool:
        return any(self.tree.contains(body, node) for node in self.tree.all_of(cst.Yield) for body in bodies)

    def _is_bound_outside(self, binding: Binding, function: cst.CSTNode) -> bool:
        if isinstance(binding.target, cst.Attribute):
            return True
        scope = self.tree.scopes.get(function)
        return scope is not None and (binding.name in scope.globals or binding.name in scope.nonlocals)

    def _bound_in(self, body: cst.CSTNode) -> Iterator[Binding]:
        first, last = self.tree.order[body], self.tree.last_order_in(body)
        orders, bindings = self._bindings
        yield from bindings[bisect_left(orders, first) : bisect_right(orders, last)]

    @cached_property
    def _bindings(self) -> tuple[list[int], list[Binding]]:
        found = [*self.tree.bindings, *(b for bs in self.tree.attributes.values() for b in bs)]
        found = [b for b in found if b.kind not in ("def", "class", "import", "param") and b.node in self.tree.order]
        found.sort(key=lambda b: self.tree.order[b.node])
        return [self.tree.order[b.node] for b in found], found

    def calls_in(self, body: cst.CSTNode) -> list[cst.Call]:
        first, last = self.tree.order[body], self.tree.last_order_in(body)
        orders = self._call_orders
        return self.tree.calls[bisect_left(orders, first) : bisect_right(orders, last)]

    @cached_property
    def _call_orders(self) -> list[int]:
        return [self.tree.order[call] for call in self.tree.calls]

    def _changed_in(self, body: cst.CSTNode, dependence: Dependence, aside: Collection[cst.CSTNode]) -> Iterator[Key]:
        for call in self.calls_in(body):
            if call not in aside and not self.only_tells(call):
                yield from dependence.changed_by(call)
        for target, _ in self.tree.item_assignments:
            if self.tree.contains(body, target):
                yield from dependence.items(target)
        yield from dependence.gone_through(body)
        for deleted in self.tree.all_of(cst.Del):
            for part in parts_of_target(deleted.target) if self.tree.contains(body, deleted) else ():
                yield from dependence.deleted_from(part)


def _views_dictionary(node: cst.BaseExpression) -> bool:
    """`losses.items()`, or a `zip` of it: as many as it has names, whatever is under these."""
    if not isinstance(node, cst.Call):
        return False
    return asks_for_items(node) or any(_views_dictionary(arg.value) for arg in node.args)


def _given(call: cst.Call, name: str, position: int) -> list[cst.Arg]:
    arg = argument(call, name, position)
    return [arg] if arg is not None else []


def _parts(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The expression, and what is written in it if it is a list, tuple or dictionary, or makes a list."""
    yield node
    if isinstance(node, (cst.List, cst.Tuple, cst.Dict)):
        for element in node.elements:
            yield from _parts(element.value)
    elif isinstance(node, (cst.ListComp, cst.GeneratorExp)):
        yield from _parts(node.elt)
    elif isinstance(node, cst.Call):
        for arg in node.args:  # `list(zip(conditions, branches))`
            yield from _parts(arg.value)
