"""What the code of a training step reads of data: names, attributes and items that are no weights, numbers, functions.

Of an object of the script's that holds others, `self` of a trainer, the attribute is what is read, and not the object.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import cast

import libcst as cst

from migrator.facts.data.rows import RowFinder
from migrator.facts.names import api
from migrator.facts.objects.contents import Contents, Part, Parts
from migrator.facts.objects.kinds import Kinds, is_of_options
from migrator.facts.objects.numbers import Numbers
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Literal, Member, Object, Result, Value, calls
from migrator.facts.program.syntax import declared_fields
from migrator.facts.program.tree import Binding, Statement, Tree, semantic_children
from migrator.facts.training.trained import Trained

_FUNCTIONS = ("tensorflow.", "keras.", "numpy.", "builtins.", "math.", f"{api.RUNTIME}.", "horovod.", "npu_device.")
# What gives a number, or numbers: an item of a list of them has no rows, a slice of the list has.
_NUMBERS = ("builtins.len", "builtins.int", "builtins.float", "builtins.range")


class DataReads:
    def __init__(
        self, tree: Tree, resolver: Resolver, kinds: Kinds, trained: Trained, rows: RowFinder, numbers: Numbers,
        is_share: Callable[[cst.CSTNode], bool],
    ) -> None:  # fmt: skip
        """`is_share`: whether an expression is a worker's share already."""
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.trained = trained
        self.rows = rows
        self.numbers = numbers
        self._is_share = is_share
        self._contents = Contents(tree, resolver)
        self._keeping: dict[Class, bool] = {}
        self._asked: set[cst.BaseExpression] = set()  # of which is asked now: a dictionary that holds itself

    def of(self, body: cst.CSTNode, block: Statement) -> Iterator[cst.BaseExpression]:
        """What the code under the tape reads of data, in the order of the text.

        Parameters are left to the callers, unless nothing else is read.
        """
        queue: list[cst.CSTNode] = [body]
        while queue:
            node = queue.pop()
            is_whole = self._is_item(node, block) or (not isinstance(node, cst.Name) and self._is_share(node))
            if is_whole or self._is_read(node, block):
                yield cast(cst.BaseExpression, node)
            if not is_whole:
                queue.extend(reversed(semantic_children(node)))

    def any_in(self, body: cst.CSTNode, block: Statement) -> bool:
        return any(True for _ in self.of(body, block))

    def is_kept(self, node: cst.BaseExpression) -> bool:
        """Whether it is an attribute of an object of the script's that holds others, and is no model itself."""
        return isinstance(node, cst.Attribute) and self._holds(node.value)

    def is_record(self, node: cst.BaseExpression) -> bool:
        """Whether it is an object of a class that only says which fields it has: a dataclass, a NamedTuple."""
        values = self.resolver.values(node)
        return bool(values) and all(
            isinstance(v, Object)
            and bool(declared_fields(v.of.node))
            and self.resolver.method(v.of, "__init__") is None
            for v in values
        )

    def _holds(self, node: cst.BaseExpression) -> bool:
        values = self.resolver.values(node)
        return bool(values) and all(
            (isinstance(v, Object) and not self._is_constant(v)) or is_of_options(v) for v in values
        )

    def _only_holds(self, node: cst.BaseExpression) -> bool:
        """Whether what is read is an attribute, `self.rate`, or a number or function of a display, `config["rate"]`."""
        owner = self.tree.parent.get(node)
        if isinstance(owner, cst.Subscript) and owner.value is node:
            found = self.resolver.values(owner)
            return bool(found) and all(map(self._is_constant, found)) and not self._is_variable(node)
        return isinstance(owner, cst.Attribute) and owner.value is node and self._holds(node)

    def _is_read(self, node: cst.CSTNode, block: Statement) -> bool:
        if isinstance(node, cst.Name):
            is_data = self._is_load(node) and not self._only_holds(node) and self._is_data(node, block)
            return is_data and not self._works_on_data(node, block)
        if not isinstance(node, cst.Attribute) or not self._is_load(node):
            return False
        if self.is_kept(node):
            return not self._only_holds(node) and self._is_data(node, block)
        return any(map(self.kinds.is_array, self.resolver.values(node))) and not self.is_number_or_constant(node)

    def _works_on_data(self, name: cst.Name, block: Statement) -> bool:
        """Whether the name leads to what an imported module has that is called with data, and so gives none of its own:
        `library.loss(y, model(x))`, `library.Loss(0.1)(y, model(x))`."""
        if not all(binding.kind == "import" for binding in self.resolver.reaching(name)):
            return False
        given: list[cst.Arg] = []
        node, parent = cast(cst.CSTNode, name), self.tree.parent.get(name)
        while (isinstance(parent, cst.Attribute) and parent.value is node) or (
            isinstance(parent, cst.Call) and parent.func is node
        ):
            given += parent.args if isinstance(parent, cst.Call) else ()
            node, parent = parent, self.tree.parent.get(parent)
        return any(
            self.tree.contains(block, binding.node)
            for arg in given
            for made in self.tree.names_in(arg)
            for binding in self.resolver.reaching(made)
        ) or any(self.any_in(arg, block) for arg in given)

    def _is_item(self, node: cst.CSTNode, block: Statement) -> bool:
        """Whether the node takes rows of an array that comes from outside of the tape."""
        if not isinstance(node, cst.Subscript) or not self._is_load(node) or self._is_made_inside(node, block):
            return False
        owners = self.resolver.values(node.value)
        if owners and all(map(self._is_constant, owners)):
            return False  # `weights[0]`
        return self.rows.of(node) is not None

    def _is_made_inside(self, node: cst.Subscript, block: Statement) -> bool:
        """Whether what is indexed comes from code under the tape (`logits[:, 0]`)."""
        base: cst.BaseExpression = node
        while isinstance(base, (cst.Subscript, cst.Attribute)):
            base = base.value
        if not isinstance(base, cst.Name):
            return True
        inside = [b for b in self.resolver.reaching(base) if self.tree.contains(block, b.node)]
        return any(b.kind != "for" or self._goes_through_made(b, block) for b in inside)

    def _goes_through_made(self, binding: Binding, block: Statement) -> bool:
        """Whether a loop under the tape goes through anything but what was there before: `for x, y in domains`."""
        names = self.tree.names_in(binding.value) if binding.value is not None else ()
        return not isinstance(binding.value, (cst.Name, cst.Attribute)) or any(
            self.tree.contains(block, b.node) for name in names for b in self.resolver.reaching(name)
        )

    def _is_load(self, node: cst.Name | cst.Attribute | cst.Subscript) -> bool:
        parent = self.tree.parent.get(node)
        if isinstance(parent, cst.Attribute):
            return parent.value is node
        if isinstance(parent, cst.Call):
            return parent.func is not node
        is_target = isinstance(parent, (cst.AugAssign, cst.AnnAssign)) and parent.target is node
        is_bound = isinstance(parent, (cst.AssignTarget, cst.NamedExpr)) or is_target
        return not (is_bound or getattr(parent, "keyword", None) is node)

    def _is_data(self, node: cst.Name | cst.Attribute, block: Statement) -> bool:
        """Whether it is no number and no weights, and comes from outside of the block: an attribute may, where any
        other code gives it a value."""
        if isinstance(node, cst.Attribute):
            found = self.resolver.bindings_of(node)
            is_outside = not found or any(not self.tree.contains(block, b.node) for b in found)
        else:
            found = self.resolver.reaching(node)
            is_outside = bool(found) and not any(self.tree.contains(block, b.node) for b in found)
        return is_outside and not self.is_number_or_constant(node)

    # -- what has no rows ----------------------------------------------------------------------------------------

    def is_number_or_constant(self, node: cst.BaseExpression) -> bool:
        values = self.resolver.values(node)
        if any(calls(v) in _NUMBERS for v in values) and self.rows.of(node) is not None:
            return False  # `labels[i : i + 8]` of a list of such
        is_known = (bool(values) and all(map(self._is_constant, values))) or self.numbers.is_number(node)
        is_known = is_known or self.rows.rowless.is_number(node) or self.rows.rowless.comes_to_a_number(node)
        return is_known or self._lists_weights(node) or self._is_key(node) or self._is_table(node)

    def holds_numbers(self, node: cst.BaseExpression) -> bool:
        """Whether it is a dictionary of numbers: `step(x, y, **options)`."""
        values = self.resolver.values(node)
        return bool(values) and all(
            isinstance(v, Literal) and self._contents.is_made_of(v.node, self._is_number) for v in values
        )

    def _is_table(self, node: cst.BaseExpression) -> bool:
        """Whether it is a dictionary that only ever gets numbers and what has no rows: `{"a": 0.5, "b": loss}`."""
        if node in self._asked or not all(map(self._is_dictionary, self.resolver.values(node) or (None,))):
            return False
        self._asked.add(node)
        try:
            ends = self._contents.ends(Parts([Part(node, (None,))]))
            return bool(ends) and all(map(self._is_number, ends or ()))
        finally:
            self._asked.discard(node)

    @staticmethod
    def _is_dictionary(value: Value | None) -> bool:
        is_written = isinstance(value, Literal) and isinstance(value.node, cst.Dict)
        return is_written or (
            isinstance(value, Result) and calls(value) in ("builtins.dict", "collections.OrderedDict")
        )

    def _is_number(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.BaseExpression) and self.is_number_or_constant(node)

    def _is_key(self, node: cst.BaseExpression) -> bool:
        """Whether dictionaries are asked by it, `heads[task]`: arrays are no keys."""
        if not isinstance(node, cst.Name) or not (bindings := set(self.resolver.reaching(node))):
            return False
        alike = [n for n in self.tree.names[node.value] if self.tree.is_read(n)]
        return any(self._asks(n) and set(self.resolver.reaching(n)) == bindings for n in alike)

    def _asks(self, name: cst.Name) -> bool:
        owners = list(itertools.islice(self.tree.ancestors(name), 3))
        asked = owners[2] if len(owners) == 3 and isinstance(owners[0], cst.Index) else None
        values = self.resolver.values(asked.value) if isinstance(asked, cst.Subscript) else ()
        return bool(values) and all(
            isinstance(v, Literal) and isinstance(v.node, (cst.Dict, cst.DictComp)) for v in values
        )

    def _lists_weights(self, node: cst.BaseExpression) -> bool:
        """Whether it is made of weights alone: `found.extend(model.trainable_variables)`."""
        owners = self.trained.listed(node)
        return bool(owners) and all(
            (values := self.resolver.values(owner)) and all(map(self._is_constant, values)) for owner in owners
        )

    def _is_variable(self, node: cst.CSTNode) -> bool:
        values = self.resolver.values(node)
        return bool(values) and all(map(self.kinds.is_variable, values))

    def _is_set(self, name: str) -> bool:
        """Whether the script gives an option of the command line of that name a value itself."""
        targets = [cst.ensure_type(b.target, cst.Attribute) for b in self.tree.attributes.get(name, ())]
        return any(is_of_options(owner) for target in targets for owner in self.resolver.values(target.value))

    def _keeps_weights_alone(self, cls: Class) -> bool:
        """Whether a class of no library's keeps weights, be it in objects of such classes, and else numbers and what
        has no rows, either."""
        if cls not in self._keeping:
            self._keeping[cls] = False  # on the way to itself
            kept = [*self._kept_by(cls)]
            values = [b.value for b in kept if isinstance(b.value, cst.BaseExpression) and not b.path]
            self._keeping[cls] = (
                not self.resolver.derives_from(cls, lambda path: path != "builtins.object")
                and len(values) == len(kept)
                and all(self.is_number_or_constant(value) or self._lists_keepers(value) for value in values)
                and any(self._is_variable(value) or self._lists_keepers(value) for value in values)
            )
        return self._keeping[cls]

    def _kept_by(self, cls: Class) -> Iterator[Binding]:
        """What gives attributes of its objects their values."""
        for bindings in self.tree.attributes.values():
            for binding in bindings:
                owners = self.resolver.values(cst.ensure_type(binding.target, cst.Attribute).value)
                if any(isinstance(v, Object) and cls in self.resolver.lineage(v.of) for v in owners):
                    yield binding

    def _lists_keepers(self, node: cst.BaseExpression) -> bool:
        """Whether it is a list of such objects and of layers, written out."""
        values = self.resolver.values(node)
        return bool(values) and all(
            isinstance(v, Literal)
            and isinstance(v.node, (cst.List, cst.Tuple))
            and self._contents.is_made_of(v.node, self._is_keeper)
            for v in values
        )

    def _is_keeper(self, node: cst.CSTNode) -> bool:
        values = self.resolver.values(node)
        return bool(values) and all(isinstance(v, (Object, Result)) and self._is_constant(v) for v in values)

    def _is_constant(self, value: Value) -> bool:
        """Weights, numbers, functions, losses: what has no rows."""
        if isinstance(value, Literal):
            is_text = isinstance(value.node, (cst.BaseNumber, cst.BaseString))
            return is_text or self._contents.is_made_of(value.node, self._is_variable)
        if isinstance(value, External):
            return f"{value.path}.".startswith(_FUNCTIONS)
        if isinstance(value, (Function, Class)):
            return True
        if is_of_options(value):
            return not isinstance(value, Member) or not self._is_set(value.name)
        if isinstance(value, Object):
            is_of_keras = self.resolver.derives_from(value.of, lambda p: p.startswith("keras."))
            return self.kinds.has_weights(value) or is_of_keras or self._keeps_weights_alone(value.of)
        path = calls(value)
        if isinstance(value, Result) and self._contents.is_made_of(value.call, self._is_variable):
            return True
        return (
            self.kinds.has_weights(value)
            or self.kinds.is_optimizer(value)
            or self.kinds.is_variable(value)
            or self.kinds.is_tape(value)
            or path.startswith(("keras.losses.", "keras.metrics.", "keras.optimizers.", "keras.regularizers."))
            or path in _NUMBERS
        )
