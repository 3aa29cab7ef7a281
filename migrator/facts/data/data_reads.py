"""What the code of a training step reads of data: names, attributes and items that are no weights, numbers, functions.

Of an object of the script's that holds others, `self` of a trainer, the attribute is what is read, and not the object.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import cast

import libcst as cst

from migrator.facts.data.batch_forms import BatchForms
from migrator.facts.objects.kinds import Kinds, is_of_options
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Literal, Member, Object, Value, calls
from migrator.facts.program.syntax import declared_fields
from migrator.facts.program.tree import Binding, Statement, Tree, semantic_children
from migrator.facts.training.trained import Trained

# What gives a number, or numbers: an item of a list of them has no rows, a slice of the list has.
_NUMBERS = ("builtins.len", "builtins.int", "builtins.float", "builtins.range")


class DataReads:
    def __init__(
        self, tree: Tree, resolver: Resolver, kinds: Kinds, trained: Trained, forms: BatchForms,
        is_share: Callable[[cst.CSTNode], bool],
    ) -> None:  # fmt: skip
        """`is_share`: whether an expression is a worker's share already."""
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.trained = trained
        self.forms = forms
        self.rows = forms.rows
        self.uncut = forms.uncut
        self._is_share = is_share

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
            (isinstance(v, Object) and not self.kinds.has_weights(v)) or is_of_options(v) for v in values
        )

    def _only_holds(self, node: cst.BaseExpression) -> bool:
        """Whether what is read is an attribute, `self.rate`, or a number or function of a display, `config["rate"]`."""
        owner = self.tree.parent.get(node)
        if isinstance(owner, cst.Subscript) and owner.value is node:
            is_known = self._is_constant(owner) or self.uncut.is_number(owner)
            return is_known and not any(map(self.kinds.is_variable, self.resolver.values(node)))
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
        return not self._is_constant(node.value) and self.rows.of(node) is not None  # `weights[0]`

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
        if self.uncut.is_number(node) or self._is_constant(node) or self._comes_to_a_number(node):
            return True
        return self._lists_weights(node) or self._is_key(node)

    def _comes_to_a_number(self, node: cst.BaseExpression) -> bool:
        """Whether so many numbers, and no rows, are reduced to one: `weights[0]`"""
        size = self.uncut.size(node)
        return size is not None and size not in self._sizes_taken and self.uncut.comes_to_a_number(node)

    @cached_property
    def _sizes_taken(self) -> set[int | None]:
        """How many rows there are, as far as that is known, in what something takes row by row."""
        return {self.uncut.rows(node) for _, taken in self.forms.rows_taken for node in taken}

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
        return bool(owners) and all(map(self._is_constant, owners))

    def _is_constant(self, node: cst.BaseExpression) -> bool:
        """Weights, functions, losses, options of the command line: what has no rows."""
        values = self.resolver.values(node)
        return self.uncut.has_no_rows(node) or (bool(values) and all(map(self._is_weights_or_option, values)))

    def _is_weights_or_option(self, value: Value) -> bool:
        if is_of_options(value):
            return not isinstance(value, Member) or not self._is_set(value.name)
        return self.kinds.has_weights(value) or self.kinds.is_variable(value)

    def _is_set(self, name: str) -> bool:
        """Whether the script gives an option of the command line of that name a value itself."""
        targets = [cst.ensure_type(b.target, cst.Attribute) for b in self.tree.attributes.get(name, ())]
        return any(is_of_options(owner) for target in targets for owner in self.resolver.values(target.value))
