"""The numbers behind a value that differs from worker to worker: what to combine so that the workers agree on it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import partial
from typing import cast

import libcst as cst

from migrator.analysis.verdicts import MEAN, SUM
from migrator.facts.decisions.chiefs_numbers import ChiefsNumbers
from migrator.facts.decisions.gathering import Gathering
from migrator.facts.decisions.local_number import LocalNumber, bound_nearby
from migrator.facts.decisions.local_sources import MOMENTS
from migrator.facts.decisions.locality import Locality
from migrator.facts.decisions.marks import Mark
from migrator.facts.decisions.means import Means
from migrator.facts.decisions.metrics import Metrics
from migrator.facts.decisions.taped_losses import TapedLosses
from migrator.facts.dependence import Key
from migrator.facts.dependence.spreading import Marks
from migrator.facts.names import api
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Object
from migrator.facts.program.tree import Binding, Tree
from migrator.facts.training.reductions import GATHER
from migrator.facts.training.sites import Training

# They give a number as it is, or another one; methods that put one into a variable.
_NUMBERS = frozenset({
    "builtins.float", "builtins.int", "tensorflow.cast", "numpy.float32", "numpy.float64", "builtins.max",
    "builtins.min", "numpy.maximum", "numpy.minimum", "tensorflow.maximum", "tensorflow.minimum",
})  # fmt: skip
_SETTING = frozenset({"assign", "assign_add", "assign_sub"})


class NumbersBehind:
    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        training: Training,
        locality: Locality,
        metrics: Metrics,
        means: Means,
        taped: TapedLosses,
        chiefs: ChiefsNumbers,
        gathering: Gathering | None,
        divisors: Collection[object] = (),
    ) -> None:
        """`gathering`: where rows enter what steers, if all of them may be put together there. `divisors`: the
        names that get what losses are divided by, so that they need that of all rows, or what it is made of."""
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.locality = locality
        self.metrics = metrics
        self.means = means
        self.taped = taped
        self.chiefs = chiefs
        self.gathering = gathering
        self.divisors = divisors
        self._combined_before: dict[cst.BaseExpression, bool] = {}
        self._sent: dict[cst.BaseExpression, bool] = {}

    def agree_on(self, place: cst.BaseExpression) -> list[LocalNumber]:
        """The numbers to combine so that the place is the same on all workers; where that cannot be, the place."""
        alone = self.agreed_alone(place)
        if alone is not None:
            return alone
        self.locality.expect(place)
        found = []
        for number in self._numbers(place, set(), self.gathering, choices=True):
            if not number.reduction:
                expression = number.expression if number.is_count else place
                by_chance = self.locality.is_by_chance(place)
                self.locality.settle(place)
                return [LocalNumber(expression, is_count=number.is_count, cause=number.expression, by_chance=by_chance)]
            found.append(number)
        return found

    def agreed_alone(self, place: cst.BaseExpression) -> list[LocalNumber] | None:
        """The same if they are enough, whatever chooses them; else None, and nothing is settled."""
        found = []
        with self.locality.trying() as keep:
            for number in self._numbers(place, set(), self.gathering):
                if not number.reduction:
                    return None
                found.append(number)
            keep()
        return found

    def are_behind(self, node: cst.BaseExpression) -> bool:
        """Whether all that makes the value local are numbers that can be combined, and no samples."""
        with self.locality.trying():
            found = list(self._numbers(node, set(), None))
        return bool(found) and all(number.reduction for number in found)

    def get_names(self, node: cst.BaseExpression) -> bool:
        """Whether all numbers behind it are combined where names get them."""
        with self.locality.trying():
            found = list(self._numbers(node, set(), None))
        return bool(found) and all(number.binding is not None for number in found)

    def can_be_combined(self, node: cst.BaseExpression) -> bool:
        """Whether the expression is a mean or a sum over batches that is combined where it stands."""
        number = self._number(node, self.locality.of(node), rounded=False) if self._can_be_sent(node) else None
        return number is not None and number.reduction in (MEAN, SUM) and number.metric is None

    def _numbers(
        self,
        node: Key,
        seen: set[Key],
        gathering: Gathering | None,
        near: cst.BaseExpression | None = None,
        count: cst.BaseExpression | None = None,
        *,
        rounded: bool = False,
        choices: bool = False,
    ) -> Iterator[LocalNumber]:
        """The numbers behind a value; `near` is the last expression on the way to it, `count` the first one that is
        how many samples there are. `rounded`: something on the way is made whole. `choices`: what is chosen by local
        numbers counts as chosen alike, since these are agreed on, too."""
        if node in seen:
            return
        marks = self.locality.of(node)
        if not marks:
            return
        seen.add(node)
        if isinstance(node, cst.BaseExpression):
            near = node
            if count is None and self._counts(node, marks):
                count = node
            number = self._number(node, marks, rounded=rounded) if self._can_be_sent(node) else None
            if (
                number is not None
                and not self._is_better_combined_before(number, marks)
                and not self._is_put_in_here(node)
            ):
                self.locality.settle(number.binding or number.expression)
                if number.reduction:
                    self.locality.settle(number.expression)
                is_there = number.metric is not None or (bool(number.reduction) and number.binding is None)
                is_origin = is_there and node in self.locality.origins
                if is_origin or number.reduction == "chief" or _is_predicted(number, marks):
                    self.locality.forget(number.expression)
                yield number
                return
            leaf = gathering.leaf(node) if gathering is not None else None
            if leaf is not None:
                self.locality.settle(node)
                self.locality.settle(leaf)
                yield LocalNumber(leaf, reduction=GATHER)
                return
        rounded = rounded or (isinstance(node, cst.CSTNode) and self.means.rounds(node))
        inputs = self.locality.inputs(node)
        if node in self.locality.origins or not inputs:
            if near is not None:
                yield LocalNumber(count or near, is_count=count is not None)
            return
        for chooser in self.locality.choosers(node) if choices else ():
            self.locality.expect(chooser)
        for key in sorted(inputs, key=partial(order_of, self.tree)):
            yield from self._numbers(key, seen, gathering, near, count, rounded=rounded, choices=choices)

    def _can_be_sent(self, node: cst.BaseExpression) -> bool:
        """Whether it is a value of its own, and not the function that a call runs, an iterator, a dataset or a time
        that is no number yet; where the workers meet, and not in what a dataset runs by itself."""
        if node not in self._sent:
            self._sent[node] = self._is_sent(node)
        return self._sent[node]

    def _is_sent(self, node: cst.BaseExpression) -> bool:
        parent = self.tree.parent.get(node)
        is_called = isinstance(parent, cst.Call) and parent.func is node
        is_moment = isinstance(node, cst.Call) and any(name in MOMENTS for name in self.resolver.public(node.func))
        if is_called or is_moment or self.locality.on_elements.is_inside(node):
            return False
        return self.means.losses.can_be_sent(node)

    def _is_better_combined_before(self, number: LocalNumber, marks: Marks) -> bool:
        """Whether it is made of what can be combined itself: the names of files, and not what is read of these; what a
        model predicts, and not what is picked by that."""
        node = number.expression
        is_predicted = _is_predicted(number, marks)
        if not is_predicted and number.reduction != "chief":
            return False
        is_small = self.means.losses.is_number(node, whole=False) if is_predicted else self.chiefs.is_small(number)
        if is_small or node in self.locality.origins:
            return False
        if node not in self._combined_before:
            self._combined_before[node] = False  # while it is asked
            is_combined = False
            with self.locality.trying():
                for behind in (n for key in self.locality.inputs(node) for n in self._numbers(key, {node}, None)):
                    is_combined = bool(behind.reduction)
                    if not is_combined:  # to settle the others, too, takes long
                        break
            self._combined_before[node] = is_combined
        return self._combined_before[node]

    def _is_put_in_here(self, node: cst.BaseExpression) -> bool:
        """Whether it is one of several items that are asked of a list, into which the same turn of the loop puts what
        can be combined there, once: `if losses[-1] > 0.97 * losses[-2]`."""
        asked = node.value if isinstance(node, cst.Subscript) else None
        if not isinstance(asked, cst.Name) or not self._is_one_of_several(cst.ensure_type(node, cst.Subscript)):
            return False
        function, loops = self.tree.function_of(node), list(self.tree.loops_around(node))
        put = [
            call
            for call in self.tree.calls
            if isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "append"
            and isinstance(call.func.value, cst.Name)
            and call.func.value.value == asked.value
        ]
        is_here = bool(put) and all(
            self.tree.function_of(call) is function and list(self.tree.loops_around(call)) == loops for call in put
        )
        if not is_here or node in self.locality.origins:
            return False
        with self.locality.trying():
            behind = [n for key in self.locality.inputs(node) for n in self._numbers(key, {node}, None)]
        return bool(behind) and all(
            n.reduction in (MEAN, SUM) and n.metric is None and any(self.tree.contains(c, n.expression) for c in put)
            for n in behind
        )

    def _is_one_of_several(self, node: cst.Subscript) -> bool:
        """Whether the same condition asks for other items of what the name stands for."""
        name, test = cst.ensure_type(node.value, cst.Name).value, self.tree.statement_of(node)
        asking = test.test if isinstance(test, (cst.If, cst.While)) else test
        code = self.tree.modules[0].code_for_node
        found = (n for n in self.tree.all_of(cst.Subscript) if self.tree.contains(asking, n))
        return len({code(n) for n in found if isinstance(n.value, cst.Name) and n.value.value == name}) > 1

    def _counts(self, node: cst.BaseExpression, marks: Marks) -> bool:
        only = bool(marks & Mark.COUNT) and not marks & (Mark.VALUE | Mark.WITHIN)
        return only and not isinstance(node, (cst.Comparison, cst.BooleanOperation))

    def _number(self, node: cst.BaseExpression, marks: Marks, *, rounded: bool) -> LocalNumber | None:
        """The expression as a number to combine where it stands or is bound; None where its parts are to be."""
        result = self.metrics.result(node) if isinstance(node, cst.Call) else None
        if result is not None and not result.is_own:
            return LocalNumber(node, metric=result, reduction="mean")
        if not marks & (Mark.VALUE | Mark.WITHIN | Mark.COUNT | Mark.STATISTIC):
            return self.chiefs.of(node, marks)
        if node in self.taped.differentiated or node in self.taped.handed_over:
            return None
        if not self._is_atom(node) or self._is_list(node):
            return None
        if any(gradients.tape_calls for gradients in self.training.flow.sources(node)):
            return None  # they are reduced where they are taken; here it is what they are scaled by
        if isinstance(node, (cst.Name, cst.Attribute)):
            bindings = self.locality.dependence.bindings_of(node) if isinstance(node, cst.Name) else []
            if bindings and all(b.kind == "param" for b in bindings) and self._is_given(bindings):
                return None  # what its callers give, where it is made
            if (isinstance(node, cst.Attribute) or len(bindings) > 1) and self._is_kept(node):
                return None  # where it is put there
            if self._is_handed_over(node):
                return None  # where the variable gets it
        if self._is_only_named(node):
            return None  # where the variable is read
        reduction = self.means.of(node)
        if rounded and reduction == SUM and self.means.losses.is_rounded(node):
            return None  # the whole number that it is a multiple of
        if reduction == MEAN and self._is_of_steps_before(node):
            return None  # where each of them is made
        if not reduction or (isinstance(node, (cst.Name, cst.Subscript)) and self.locality.feeds_itself(node)):
            return None
        if not marks & (Mark.VALUE | Mark.WITHIN | Mark.STATISTIC):
            # By its name other code may ask how many rows there are here.
            return LocalNumber(node, None, reduction) if self._is_counted_with(node) else None
        return LocalNumber(node, bound_nearby(node, self.tree, self.locality, self.taped, self.divisors), reduction)

    def _is_counted_with(self, node: cst.BaseExpression) -> bool:
        """Whether the number of rows enters arithmetic or a comparison where it stands, and not the size of data."""
        parent = self.tree.parent.get(node)
        while isinstance(parent, cst.Arg):
            call = cst.ensure_type(self.tree.parent[parent], cst.Call)
            paths = self.resolver.public(call.func)
            if any(map(api.COMPARING.match, paths)):
                return True
            if not any(path in _NUMBERS for path in paths):
                return isinstance(call.func, cst.Attribute) and call.func.attr.value in _SETTING
            parent = self.tree.parent.get(call)
        return isinstance(parent, (cst.BinaryOperation, cst.Comparison, cst.ComparisonTarget, cst.AugAssign))

    def _is_of_steps_before(self, node: cst.BaseExpression) -> bool:
        """Whether it is made of several numbers that steps of `fit` have kept: the workers may have had other shares of
        each of these batches, by which their numbers count."""
        steps = self.metrics.fit_steps
        if not self.tree.is_in(node, steps):
            return False
        behind = [b for b in self.locality.bindings_behind([node]) if self.locality.of(b) & Mark.INSIDE]
        return any(not any(self.tree.contains(body, binding.node) for body in steps) for binding in behind)

    def _is_given(self, params: Collection[Binding]) -> bool:
        """Whether callers give it that can combine it: none can before a tape has gone back through it."""
        is_given = any(self.resolver.given(cast(cst.Param, b.node)) for b in params)
        return is_given and self.taped.handed_over.isdisjoint(params)

    def _is_handed_over(self, node: cst.BaseExpression) -> bool:
        """Whether the name is that of a variable which an object or a function of the script is given as such."""
        argument = self.tree.parent.get(node)
        call = self.tree.parent.get(argument) if isinstance(argument, cst.Arg) else None
        if not isinstance(call, cst.Call) or not any(
            isinstance(v, (Class, Object, Function)) for v in self.resolver.values(call.func)
        ):
            return False
        values = self.resolver.values(node)
        return bool(values) and all(map(self.training.kinds.is_variable, values))

    def _is_only_named(self, node: cst.BaseExpression) -> bool:
        """Whether a variable gets another name there, by which it is read later: `total, count = m.total, m.count`."""
        parent = self.tree.parent.get(node)
        while isinstance(parent, (cst.Element, cst.Tuple, cst.List, cst.DictElement, cst.Dict)):
            parent = self.tree.parent.get(parent)
        return isinstance(parent, (cst.Assign, cst.AnnAssign, cst.Return)) and self.means.losses.is_variable(node)

    def _is_kept(self, node: cst.Name | cst.Attribute) -> bool:
        """Whether it only keeps a number that was made elsewhere, the best one so far, and does not add up several."""
        bindings = [k for k in self.locality.inputs(node) if isinstance(k, Binding)]
        is_added_to = isinstance(node, cst.Name) and any(
            name.value == node.value for b in bindings if b.value is not None for name in self.tree.names_in(b.value)
        )
        return bool(bindings) and all(b.kind == "assign" for b in bindings) and not is_added_to

    def _is_atom(self, node: cst.BaseExpression) -> bool:
        """Whether the expression is a name, an attribute or a result, and not arithmetic or a function around one."""
        if isinstance(node, cst.Call):
            if any(isinstance(v, External) for v in self.resolver.values(node.func)):
                return self.means.condenses(node) or not self.locality.of(node) & (Mark.VALUE | Mark.INSIDE)
            return not (isinstance(node.func, cst.Attribute) and self.locality.of(node.func.value)) or (
                node.func.attr.value == "result"
            )
        if isinstance(node, cst.Subscript):
            return True
        return isinstance(node, (cst.Name, cst.Attribute))

    def _is_list(self, node: cst.BaseExpression) -> bool:
        """Whether the expression is a container of numbers and no number."""
        return bool(self.locality.of(node) & Mark.WITHIN)


def _is_predicted(number: LocalNumber, marks: Marks) -> bool:
    """Whether it is local for nothing but what a model gives whose BatchNormalization has seen other samples."""
    return marks & ~Mark.CHOSEN == Mark.STATISTIC and number.metric is None and bool(number.reduction)


def order_of(tree: Tree, key: Key) -> int:
    """Where it stands in the source."""
    node = key.node if isinstance(key, Binding) else key
    return tree.order.get(node, 0) if isinstance(node, cst.CSTNode) else 0
