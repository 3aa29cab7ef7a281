"""What is trained: the models, modules and loose variables behind `fit` receivers and gradient sources."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import cast

import libcst as cst

from migrator.facts.names import api
from migrator.facts.objects.contents import Contents, Part, Parts, Path, Step
from migrator.facts.objects.holders import HeldByParameter, Holder, Holders, Nameless, Origin, Unheld
from migrator.facts.objects.iteration import Iteration
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Literal, Object, Result
from migrator.facts.program.syntax import part_at
from migrator.facts.program.tree import Binding, Tree
from migrator.facts.training.first_names import FirstNames
from migrator.facts.training.gradients import sources_of
from migrator.facts.training.sites import Minimization, Training

# The weights of Keras's layers that have names of their own.
WEIGHTS = frozenset({"kernel", "bias", "embeddings", "gamma", "beta", "recurrent_kernel", "depthwise_kernel"})
# Functions that give what is in their first argument, and those that put several together.
_GIVING_FIRST = frozenset({
    "builtins.list", "builtins.tuple", "builtins.sorted", "builtins.reversed", "builtins.set", "builtins.sum",
    "tensorflow.nest.flatten", "itertools.chain.from_iterable",
})  # fmt: skip
_GIVING_ALL = frozenset({"itertools.chain"})
_ZIP = External("builtins.zip")
_NONE = External("builtins.None")


def part_named(item: cst.Subscript) -> Step:
    """The key or position that is written in `g["weights"]`, `pair[1]`; None for others."""
    index = item.slice[0].slice if len(item.slice) == 1 else None
    value = index.value if isinstance(index, cst.Index) else None
    named = value.evaluated_value if isinstance(value, (cst.SimpleString, cst.Integer)) else None
    return named if isinstance(named, (str, int)) else None


class Trained:
    """The holders of all that the script trains."""

    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, training: Training) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.training = training
        self._holders = Holders(tree, resolver, kinds)
        self._first_names = FirstNames(tree, resolver, self._holders)
        self._contents = Contents(tree, resolver)
        self._iteration = Iteration(tree, resolver)

    def holders(self) -> list[Origin]:
        """Where every trained object gets its name, in source order; what has no such place as `Unheld`."""
        found: dict[Origin, None] = {}
        for root in self._roots():
            if isinstance(root, Unheld):
                found.setdefault(root)
            else:
                for holder in self._holders.of(root):
                    found.setdefault(holder)
        for update in self.training.updates:
            for root in self._updated(update.call):
                found.update((h, None) for h in self._holders.of(root) if not isinstance(h, Unheld))
        return sorted(self._first_names.of(found), key=self._order)

    def is_named_before(self, holder: Holder, places: Container[Origin]) -> bool:
        """Whether the function that makes the object gives it one of these names first."""
        return self._first_names.are_among(holder, places)

    @property
    def made(self) -> Iterator[cst.CSTNode]:
        """The expressions that make what is trained, or hold it."""
        for origin in self.holders():
            if isinstance(origin, Holder):
                yield origin.value
            elif isinstance(origin, Nameless):
                yield origin.node
            elif isinstance(origin, HeldByParameter):
                yield from (n for n in self.tree.names_in(origin.function.body) if n.value == origin.name)

    def of(self, expression: cst.BaseExpression) -> list[Origin]:
        """Where the object that the expression stands for gets its name."""
        return self._holders.of(expression)

    def listed(self, expression: cst.BaseExpression) -> list[cst.BaseExpression]:
        """The models and variables whose weights the expression lists; none where it may hold anything else."""
        found = list(self._behind(expression, set()))
        owners = [owner for owner in found if not isinstance(owner, Unheld)]
        return owners if len(owners) == len(found) else []

    def made_by(self, calls: Iterable[cst.CSTNode]) -> list[Origin]:
        """Where the models that these calls make get their names, in source order."""
        found = [origin for call in calls if isinstance(call, cst.Call) for origin in self._holders.made_by(call)]
        return sorted(set(found), key=self._order)

    def _order(self, holder: Origin) -> int:
        if isinstance(holder, Holder):
            return self.tree.order[holder.statement]
        return self.tree.order[holder.node if isinstance(holder, (Nameless, Unheld)) else holder.function]

    def roots(self) -> list[cst.BaseExpression]:
        """The models and variables that are trained, where they are seen."""
        return [root for root in self._roots() if not isinstance(root, Unheld)]

    def _roots(self) -> Iterator[cst.BaseExpression | Unheld]:
        for fit in (*self.training.fits, *self.training.batch_fits):
            yield fit.model
        for update in self.training.updates:
            if isinstance(update, Minimization):
                yield from self._minimized(update)
            for gradients in update.gradients:
                for call in gradients.tape_calls:
                    sources = sources_of(call)
                    if sources is not None:
                        found = list(self._behind(sources, set()))
                        yield from found or [Unheld(sources, "what these weights belong to cannot be seen")]

    def _updated(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """The weights that the call is given, which need not be those that gradients are of, where they are seen."""
        first = call.args[0].value if call.args else None
        for value in self.resolver.values(first) if first is not None else ():
            if isinstance(value, Result) and value.function == _ZIP and len(value.call.args) == 2:
                weights = self._behind(value.call.args[1].value, set())
                yield from (owner for owner in weights if not isinstance(owner, Unheld))

    def _minimized(self, update: Minimization) -> Iterator[cst.BaseExpression | Unheld]:
        """The weights that `minimize` is given, as a list or as a function that returns one."""
        if update.variables is None:
            yield Unheld(update.call, "which weights it trains is not said")
            return
        given = (v.node for v in self.resolver.values(update.variables) if isinstance(v, Function))
        listed = [node for function in given for node in self.resolver.returned(function)]
        for weights in listed or [update.variables]:
            yield from self._behind(weights, set())

    def _behind(self, node: cst.CSTNode, seen: set[cst.CSTNode]) -> Iterator[cst.BaseExpression | Unheld]:
        """The models and variables whose weights the expression lists."""
        if node in seen:
            return
        seen.add(node)
        if isinstance(node, cst.Attribute) and node.attr.value in api.WEIGHT_LISTS:
            own = self._own_lists(node)
            for listed in own:
                yield from self._behind(listed, seen)
            if not own:
                yield self._whole(node.value)
        elif isinstance(node, cst.Attribute) and node.attr.value in WEIGHTS and self._is_of_layer(node.value):
            yield self._whole(node.value)
        elif isinstance(node, (cst.List, cst.Tuple)):
            for element in node.elements:
                yield from self._behind(element.value, seen)
        elif isinstance(node, cst.Dict):
            for pair in node.elements:
                yield from self._behind(pair.value, seen)
        elif isinstance(node, cst.DictComp):
            yield from self._behind(node.value, seen)
        elif isinstance(node, (cst.BinaryOperation, cst.BooleanOperation)):
            yield from self._behind(node.left, seen)
            yield from self._behind(node.right, seen)
        elif isinstance(node, (cst.ListComp, cst.GeneratorExp)) and self._has_weights_in(node.elt):
            owner = cst.ensure_type(node.elt, cst.Attribute).value
            if self._is_of_layer(owner):  # of which each has its variables, and is sent as one
                yield self._whole(owner)
            else:
                yield from self._behind(node.elt, seen)
        elif isinstance(node, (cst.ListComp, cst.GeneratorExp)) and (parts := self._picked(node)):
            for part in parts:
                yield from self._behind(part, seen)
        elif isinstance(node, (cst.ListComp, cst.GeneratorExp)):
            loop = node.for_in
            while loop.inner_for_in is not None:
                loop = loop.inner_for_in
            yield from self._behind(loop.iter, seen)
        elif isinstance(node, cst.IfExp):
            yield from self._behind(node.body, seen)
            yield from self._behind(node.orelse, seen)
        elif isinstance(node, cst.Subscript):
            for part in self._ends(node, ()) or [node.value]:
                yield from self._behind(part, seen)
        elif isinstance(node, cst.Call):
            yield from self._behind_call(node, seen)
        elif isinstance(node, (cst.Name, cst.Attribute)):
            yield from self._behind_name(node, seen)
        else:
            yield Unheld(node, "what these weights belong to cannot be seen")

    def _ends(self, node: cst.CSTNode, path: Path) -> list[cst.CSTNode] | None:
        """What is written at that place of it, `vs` of `for optimizer, vs in groups`; None where not all is seen."""
        return self._contents.ends(Parts([Part(node, path)]))

    def _picked(self, made: cst.ListComp | cst.GeneratorExp) -> list[cst.CSTNode] | None:
        """What a comprehension picks out of each of what it goes through: `[g["weights"] for g in groups]`, or the
        model of whose layers it takes a weight each: `[layer.kernel for layer in model.layers]`."""
        of_all, loop = made.for_in.iter, made.for_in
        if isinstance(made.elt, cst.Subscript):
            is_item = isinstance(made.elt.value, cst.Name) and made.elt.value.deep_equals(loop.target)
            key = part_named(made.elt)
            is_seen = is_item and key is not None and loop.inner_for_in is None
            return self._ends(of_all, (None, key)) if is_seen else None
        is_weight = isinstance(made.elt, cst.Attribute) and made.elt.attr.value in WEIGHTS
        whole = self._whole(of_all)
        return [whole] if is_weight and whole is not of_all and self._is_layer(whole) else None

    def _has_weights_in(self, node: cst.BaseExpression) -> bool:
        """Whether it names the weights, or a variable, of what a comprehension goes through: `b.w for b in blocks`"""
        if not isinstance(node, cst.Attribute):
            return False
        values = self.resolver.values(node)
        return node.attr.value in api.WEIGHT_LISTS or (bool(values) and all(map(self.kinds.is_variable, values)))

    def _is_of_layer(self, node: cst.BaseExpression) -> bool:
        """Whether it is a layer, or one of those that a model has."""
        whole = self._whole(node)
        return self._is_layer(node) or (whole is not node and self._is_layer(whole))

    def _is_layer(self, node: cst.BaseExpression) -> bool:
        values = self.resolver.values(node)
        return bool(values) and all(map(self.kinds.has_weights, values))

    def _behind_call(self, call: cst.Call, seen: set[cst.CSTNode]) -> Iterator[cst.BaseExpression | Unheld]:
        paths = set(self.resolver.public(call.func))
        if call.args and paths & (_GIVING_FIRST | _GIVING_ALL):
            for arg in call.args if paths & _GIVING_ALL else call.args[:1]:
                yield from self._behind(arg.value, seen)
            return
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "values" and not call.args:
            yield call.func.value  # `weights.values()` of a dictionary of variables
            return
        functions = [
            v.node
            for v in self.resolver.values(call.func)
            if isinstance(v, Function) and isinstance(v.node, cst.FunctionDef)
        ]
        if not functions:
            yield Unheld(call, "what these weights belong to cannot be seen")
        for function in functions:
            for returned in self.resolver.returned(function):
                yield from self._behind(returned, seen)

    def _behind_name(
        self, node: cst.Name | cst.Attribute, seen: set[cst.CSTNode]
    ) -> Iterator[cst.BaseExpression | Unheld]:
        values = self.resolver.values(node)
        if values == (_NONE,):  # of a parameter that may be left out
            return
        made = [value for value in values if value != _NONE]  # `self.weights = None` until it is made
        if made and all(self.kinds.is_variable(v) or self.kinds.has_weights(v) for v in made):
            yield node
            return
        bindings = self.resolver.bound(node)
        followed = False
        for returned in self._own_lists(node) if isinstance(node, cst.Attribute) and not bindings else ():
            followed = True
            yield from self._behind(returned, seen)
        for binding in bindings:
            if binding.kind == "param":
                for given in self.resolver.given(cast(cst.Param, binding.node)):
                    followed = True
                    yield from self._behind(given, seen)
            elif binding.kind in ("assign", "field") and binding.value is not None and not binding.path:
                followed = True
                yield from self._behind_value(node, binding.value, seen)
            elif binding.kind == "augmented":
                followed = True
                if binding.value is not None and not self._makes_variables(binding.value):
                    yield from self._behind(binding.value, seen)
                yield from self._behind_others(node, binding, seen)
            elif binding.kind == "for" and binding.value is not None:
                followed = True
                iterated, path = self._iteration.narrowed(binding.value, binding.path)
                for part in (self._ends(iterated, (None, *path)) if path else None) or [iterated]:
                    yield from self._behind(part, seen)
            elif binding.kind == "assign" and binding.value is not None:
                for part in self._parts_at(binding.value, binding.path):
                    followed = True
                    yield from self._behind(part, seen)
        if not followed and not any(isinstance(v, Literal) for v in values):
            yield Unheld(node, "what these weights belong to cannot be seen")

    def _behind_others(
        self, node: cst.Name | cst.Attribute, added: Binding, seen: set[cst.CSTNode]
    ) -> Iterator[cst.BaseExpression | Unheld]:
        """What a list held before more was added to it."""
        if isinstance(node, cst.Name) and isinstance(added.target, cst.Name) and added.target not in seen:
            seen.add(added.target)
            for binding in self.resolver.reaching(added.target):
                if binding.kind == "assign" and binding.value is not None and not binding.path:
                    yield from self._behind_value(node, binding.value, seen)
                elif binding is not added:
                    yield from self._behind_others(node, binding, seen)

    def _parts_at(self, value: cst.CSTNode, path: Sequence[int]) -> list[cst.CSTNode]:
        """What `layer, weights = dense()` gives a name, out of what is written there or what the function returns; of
        `w, b = model.trainable_variables` the list."""
        several = [value]
        if isinstance(value, cst.Call):
            functions = [f.node for f in self.resolver.values(value.func) if isinstance(f, Function)]
            several = [r for f in functions if isinstance(f, cst.FunctionDef) for r in self.resolver.returned(f)]
        parts = [_part_or_list(one, path) for one in several]
        return [part for part in parts if part is not None] if all(part is not None for part in parts) else []

    def _behind_value(
        self, node: cst.Name | cst.Attribute, value: cst.CSTNode, seen: set[cst.CSTNode]
    ) -> Iterator[cst.BaseExpression | Unheld]:
        """The value that the name is given; of a list or dictionary also what is put into it later."""
        if self._makes_variables(value):
            yield node  # what is listed has no other name
            return
        yield from self._behind(value, seen)
        for part in self._contents.held(value):
            if not self.tree.contains(value, part.node):
                yield from self._behind(part.node, seen)

    def _makes_variables(self, value: cst.CSTNode) -> bool:
        """Whether the value is a list, dictionary or record of variables that are made for it, also where a function
        returns it."""
        returned: list[cst.CSTNode] = []
        if isinstance(value, cst.Call):
            functions = [f.node for f in self.resolver.values(value.func) if isinstance(f, Function)]
            returned = [r for f in functions if isinstance(f, cst.FunctionDef) for r in self.resolver.returned(f)]
        return all(self._contents.is_made_of(one, self._makes_variable) for one in returned or [value])

    def _makes_variable(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.Call) and any(map(self.kinds.is_variable, self.resolver.values(node)))

    def _own_lists(self, node: cst.Attribute) -> list[cst.BaseExpression]:
        """The lists of weights that classes of the script make by themselves which are no Keras model or tf.Module."""
        found: list[cst.BaseExpression] = []
        for value in self.resolver.values(node.value):
            if not isinstance(value, Object) or self.kinds.has_weights(value):
                return []
            method = self.resolver.method(value.of, node.attr.value)
            if method is not None and self.resolver.is_property(method):
                found += self.resolver.returned(method)
            for binding in self.resolver.attribute_bindings(value.of, node.attr.value):
                made = [binding.value] if binding.value is not None else []
                parts = [p for m in made for p in self._parts_at(m, binding.path)] if binding.path else made
                found += [part for part in parts if isinstance(part, cst.BaseExpression)]
        return found

    def _whole(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The model itself for `model.layers[0]` or `model.get_layer("a")`: a model is broadcast as one."""
        while True:
            if isinstance(node, cst.Subscript) or (isinstance(node, cst.Attribute) and node.attr.value == "layers"):
                node = node.value
            elif (
                isinstance(node, cst.Call)
                and isinstance(node.func, cst.Attribute)
                and node.func.attr.value == "get_layer"
            ):
                node = node.func.value
            else:
                return node


def _part_or_list(node: cst.CSTNode, path: Sequence[int]) -> cst.CSTNode | None:
    """The part of a display to which the positions lead, or the list of a model's weights in which it is one."""
    ways = (part_at(node, path[:taken]) for taken in range(len(path)))
    lists = (part for part in ways if isinstance(part, cst.Attribute) and part.attr.value in api.WEIGHT_LISTS)
    return next(lists, None) or part_at(node, path)
