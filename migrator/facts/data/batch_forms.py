"""Whether what a training step reads surely are batches, whoever made them: a replay buffer, a loader of the script's.

A model, or the product with a variable, takes the rows of one of them as they are; the others came with it out of one
statement, or are arrays. How the loss adds up over the workers' rows is proven elsewhere, from what the step computes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import libcst as cst

from migrator.analysis import ops
from migrator.analysis.ops.elementwise import Elementwise
from migrator.analysis.uncut import Uncut
from migrator.facts.data.rows import RowFinder
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Literal, Object
from migrator.facts.program.syntax import part_at, takes_all
from migrator.facts.program.tree import Binding, Tree

_TAKING_METHODS = frozenset({"pop", "get"})
_KEEPING_METHODS = frozenset({"astype", "copy", "numpy"})
_CASTING = frozenset({
    "tensorflow.cast", "tensorflow.convert_to_tensor", "tensorflow.constant", "tensorflow.identity", "numpy.asarray",
    "numpy.float32", "keras.ops.cast", "keras.ops.convert_to_tensor",
})  # fmt: skip
# They put something at the sides of an array.
_PADDING = frozenset({"tensorflow.pad", "numpy.pad", "keras.ops.pad"})
_PRODUCTS = frozenset({"tensorflow.matmul", "tensorflow.linalg.matmul", "keras.ops.matmul"})
_DEEPEST = 8


class BatchForms:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, rows: RowFinder, uncut: Uncut) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.rows = rows
        self.uncut = uncut

    def are_batches(self, given: Iterable[cst.BaseExpression], users: Iterable[cst.CSTNode]) -> bool:
        """Whether all these surely have their samples along the first axis; `users`: the code of the step."""
        known, steps = list(given), list(users)
        if any(map(self.uncut.is_item, known)):
            return False
        read = [taken for place, rows in self.rows_taken if self.tree.is_in(place, steps) for taken in rows]
        taken = [n for n in known if any(self.comes_from(r, n) for r in read)]
        statements = {b.node for node in taken for b in self._sources(node)}
        indices = {self._index(node) for node in taken} - {""}
        return bool(taken) and all(
            node in taken
            or (self.uncut.are_several(node) and self.uncut.is_called(node))
            or self._index(node) in indices
            or statements & {b.node for b in self._sources(node)}
            for node in known
        )

    def are_samples(
        self, batches: Iterable[cst.BaseExpression], user: cst.CSTNode, parameters: Iterable[str] = ()
    ) -> bool:
        """Whether the first axis is surely that of the samples: two arrays are cut by the same indices, or a Keras
        model or layer takes the batch as it is."""
        cut = [rows for b in batches for rows in self.rows.several(b)]
        if len({rows.array for rows in cut}) > 1 and len({rows.chosen for rows in cut}) == 1:
            return True
        names = {b.value for b in batches if isinstance(b, cst.Name)} | set(parameters)
        return len(cut) == 1 and any(
            self.tree.contains(user, call)
            and bool(call.args)
            and self._is_one_of(call.args[0].value, names, batches)
            and any(self.kinds.has_weights(v) for v in self.resolver.values(call.func))
            for call in self.tree.calls
        )

    @staticmethod
    def _is_one_of(node: cst.BaseExpression, names: set[str], batches: Iterable[cst.BaseExpression]) -> bool:
        return (isinstance(node, cst.Name) and node.value in names) or any(node is b for b in batches)

    def _bindings(self, node: cst.BaseExpression) -> list[Binding]:
        """What the name is bound by, and what that only adds to."""
        found = dict.fromkeys(self.resolver.reaching(node) if isinstance(node, cst.Name) else ())
        for binding in list(found):
            if binding.kind == "augmented" and isinstance(binding.target, cst.Name):
                found.update(dict.fromkeys(self.resolver.reaching(binding.target)))
        return list(found)

    def _sources(self, node: cst.BaseExpression, depth: int = 0) -> set[Binding]:
        """What the expression is bound by, or what it is a part of: `batch.x`, `batch.pop("y")`."""
        whole = self._whole_or_kept(node)
        if depth > _DEEPEST:
            return set()
        if whole is not None:
            return self._sources(whole, depth + 1)
        found = set(self._bindings(node))
        for binding in list(found):
            if binding.kind == "assign" and isinstance(binding.value, cst.BaseExpression):
                part_of = self._whole_or_kept(binding.value)
                found |= self._sources(part_of, depth + 1) if part_of is not None else set()
        return found

    def _whole_or_kept(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """What it is a part of, or what has its rows in another form: `rewards.astype("float32")`."""
        kept = self.kept(node)
        return kept[0] if len(kept) == 1 else self._whole(node)

    def _whole(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """What the expression takes a part out of by its name; None of objects of the script, which hold anything."""
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            taken = node.func.attr.value in _TAKING_METHODS and len(node.args) == 1
            return node.func.value if taken else None
        if isinstance(node, cst.Attribute):
            owners = self.resolver.values(node.value)
            is_own = any(isinstance(v, (Object, Class, External)) for v in owners) or not isinstance(
                node.value, cst.Name
            )
            return None if is_own or cst.ensure_type(node.value, cst.Name).value == "self" else node.value
        return node.value if isinstance(node, cst.Subscript) and self._is_part(node) else None

    def _index(self, node: cst.BaseExpression) -> str:
        """The text of what chooses the rows: `x[chosen]`."""
        if not isinstance(node, cst.Subscript) or len(node.slice) != 1 or self._is_part(node):
            return ""
        return self.tree.modules[0].code_for_node(node.slice[0])

    # -- taken by a model ----------------------------------------------------------------------------------------

    @cached_property
    def rows_taken(self) -> list[tuple[cst.CSTNode, list[cst.BaseExpression]]]:
        """The expressions that take something row by row, for all that is known of it, with what they take."""
        found = [(node, self._taken_by(node)) for node in self.tree.all_of(cst.BinaryOperation, cst.Call)]
        return [(node, taken) for node, taken in found if taken]

    def _taken_by(self, place: cst.CSTNode) -> list[cst.BaseExpression]:
        if isinstance(place, cst.BinaryOperation) and isinstance(place.operator, cst.MatrixMultiply):
            return [place.left] if self._is_variable(place.right) else []
        if not isinstance(place, cst.Call) or not place.args:
            return []
        first = place.args[0].value
        values = self.resolver.values(place.func)
        if any(isinstance(v, External) and v.path in _PRODUCTS for v in values):
            return [first] if len(place.args) > 1 and self._is_variable(place.args[1].value) else []
        if not any(map(self.kinds.has_weights, values)):
            return []
        if isinstance(first, (cst.List, cst.Tuple)):
            return [element.value for element in first.elements]
        if isinstance(first, cst.Dict):
            return [element.value for element in first.elements]
        return [first]

    def _is_variable(self, node: cst.BaseExpression) -> bool:
        return any(map(self.kinds.is_variable, self.resolver.values(node)))

    def comes_from(self, node: cst.BaseExpression, source: cst.BaseExpression, depth: int = 0) -> bool:
        """Whether it is the source, or a part of it that was taken by its name or place."""
        if node is source or depth > _DEEPEST:
            return node is source
        kept = self.kept(node)
        if kept:
            return any(self.comes_from(part, source, depth + 1) for part in kept)
        if isinstance(node, cst.Attribute):
            found = self.resolver.bound(node)
            is_same = bool(found) and found == self.resolver.bound(source)
            is_bound = is_same or any(self._is_bound_to(b, source, depth) for b in found)
            return is_bound or self.comes_from(node.value, source, depth + 1)
        if isinstance(node, cst.Subscript) and self._is_part(node):
            return self.comes_from(node.value, source, depth + 1)
        if isinstance(node, cst.Call):
            return self._is_made_of(node, source, depth)
        if not isinstance(node, cst.Name):
            return False
        bindings = self._bindings(node)
        if isinstance(source, cst.Name) and bindings and bindings == self._bindings(source):
            return True
        return any(self._is_bound_to(b, source, depth) for b in bindings)

    def kept(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """What has the same rows in another form: the x of `x.astype("float32")`, `tf.cast(x, tf.float32)`,
        `x / 255.0`, `tf.pad(x, ((0, 0), (2, 2)))`, `x[..., None]`, `x[:, :3]`."""
        if isinstance(node, cst.BinaryOperation):
            return [node.left] if isinstance(node.operator, cst.MatrixMultiply) else [node.left, node.right]
        if isinstance(node, cst.UnaryOperation):
            return [node.expression]
        if isinstance(node, cst.Subscript) and takes_all(node.slice[0].slice):
            is_kept = _opens_an_axis(node) or isinstance(node.slice[0].slice, cst.Slice)
            return [node.value] if is_kept else []
        if not isinstance(node, cst.Call):
            return []
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in _KEEPING_METHODS:
            return [node.func.value]
        paths = self.resolver.public_alone(node.func)
        if paths and all(path in _PADDING or _is_elementwise(path) for path in paths):
            return [arg.value for arg in node.args[:2]]
        return [node.args[0].value] if node.args and self.resolver.calls_one_of(node, _CASTING) else []

    def _is_bound_to(self, binding: Binding, source: cst.BaseExpression, depth: int) -> bool:
        if binding.kind == "param" and isinstance(binding.node, cst.Param):
            given = self.resolver.given(binding.node) or self._unpacked(binding.node)
            return any(self.comes_from(a, source, depth + 1) for a in given)
        value = binding.value
        if isinstance(value, (cst.Tuple, cst.List)):
            value = part_at(value, binding.path)
        if binding.kind != "assign" or not isinstance(value, cst.BaseExpression):
            return False
        is_same = not (isinstance(value, cst.Call) and binding.path)
        return is_same and self.comes_from(value, source, depth + 1)

    def _is_made_of(self, call: cst.Call, source: cst.BaseExpression, depth: int) -> bool:
        """Whether a function of the script's gives back the rows of an argument, in another form, that comes from the
        source: `model.reparameterize(noise, mean, deviation)`."""
        returned = self._returned_by(call)
        for arg in call.args if returned else ():
            reads = [name for value in returned for name in self._reads_of_given(arg, value)]
            is_in_each = all(any(self.comes_from(value, name, depth + 1) for name in reads) for value in returned)
            if is_in_each and self.comes_from(arg.value, source, depth + 1):
                return True
        return False

    def _reads_of_given(self, arg: cst.Arg, returned: cst.BaseExpression) -> list[cst.Name]:
        """Where the function around it reads the parameter that gets the argument."""
        function = self.tree.function_of(returned)
        names = self.tree.names_in(function.body) if function is not None and not arg.star else ()
        return [
            name
            for name in names
            if self.tree.is_read(name)
            and (bindings := self._bindings(name))
            and all(
                isinstance(b.node, cst.Param) and b.kind == "param" and arg.value in self.resolver.given(b.node)
                for b in bindings
            )
        ]

    def _unpacked(self, param: cst.Param) -> list[cst.BaseExpression]:
        """The tuples and dictionaries in which callers give it: `step(*batch)`, `step(**batch)`."""
        callers = self.resolver.callers(self.resolver.function_of_parameter(param))
        return [arg.value for call in callers for arg in call.args if arg.star]

    def _is_part(self, node: cst.Subscript) -> bool:
        """`batch["x"]`, `batch[0]`"""
        index = node.slice[0].slice if len(node.slice) == 1 else None
        return isinstance(index, cst.Index) and all(
            isinstance(v, Literal) for v in self.resolver.values(index.value) or (None,)
        )

    def _returned_by(self, node: cst.CSTNode) -> list[cst.BaseExpression]:
        """What the functions of the script's return that a call may be of."""
        values = self.resolver.values(node.func) if isinstance(node, cst.Call) else ()
        functions = [v.node for v in values if isinstance(v, Function) and isinstance(v.node, cst.FunctionDef)]
        if not functions or len(functions) < len(values):
            return []
        return [given for function in functions for given in self.resolver.returned(function)]


def _is_elementwise(path: str) -> bool:
    row = ops.lookup(path)
    return row is not None and isinstance(row.kind, Elementwise)


def _opens_an_axis(node: cst.Subscript) -> bool:
    """`y[:, None]`"""
    return any(isinstance(e.slice, cst.Index) and isinstance(e.slice.value, cst.Name) and e.slice.value.value == "None"
               for e in node.slice)  # fmt: skip
