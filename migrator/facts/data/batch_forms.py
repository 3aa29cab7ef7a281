"""Whether what a training step reads surely are batches, whoever made them: a replay buffer, a loader of the script's.

A model, or the product with a variable, takes the rows of one of them as they are; the others came with it out of one
statement, or are arrays. How the loss adds up over the workers' rows is proven elsewhere, from what the step computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import libcst as cst

from migrator.analysis import ops
from migrator.analysis.ops.elementwise import Elementwise
from migrator.analysis.uncut import Uncut
from migrator.facts.data.rows import RowFinder
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Literal, Object, Result, calls
from migrator.facts.program.syntax import part_at, takes_all
from migrator.facts.program.tree import Binding, Tree

# They give an array that has a first axis, of lists and of arrays.
_MAKING = frozenset({
    "numpy.array", "numpy.asarray", "numpy.stack", "numpy.vstack", "numpy.hstack", "numpy.concatenate",
    "numpy.column_stack", "numpy.ones", "numpy.zeros", "numpy.full", "numpy.expand_dims", "numpy.eye",
    "tensorflow.stack", "tensorflow.concat", "tensorflow.convert_to_tensor", "tensorflow.constant",
    "tensorflow.one_hot", "keras.utils.to_categorical", "builtins.list", "builtins.sorted", "numpy.arange",
})  # fmt: skip
# They give an array of the same form.
_LIKE = frozenset({"numpy.zeros_like", "numpy.ones_like", "numpy.empty_like", "numpy.cumsum", "numpy.flip"})
_TAKING_METHODS = frozenset({"pop", "get"})
_KEEPING_METHODS = frozenset({"astype", "copy", "numpy"})
_CASTING = frozenset({
    "tensorflow.cast", "tensorflow.convert_to_tensor", "tensorflow.constant", "tensorflow.identity", "numpy.asarray",
    "numpy.float32", "keras.ops.cast", "keras.ops.convert_to_tensor",
})  # fmt: skip
# They put something at the sides of an array.
_PADDING = frozenset({"tensorflow.pad", "numpy.pad", "keras.ops.pad"})
_PRODUCTS = frozenset({"tensorflow.matmul", "tensorflow.linalg.matmul", "keras.ops.matmul"})
_HOLDING = frozenset({"builtins.dict", "types.SimpleNamespace"})
# What they compare of an array gives one truth value for each of its items.
_OF_EACH = (cst.Equal, cst.NotEqual, cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)
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
        if any(map(self._is_single, known)):
            return False
        read = [taken for place, rows in self.rows_taken if self.tree.is_in(place, steps) for taken in rows]
        taken = [n for n in known if any(self.comes_from(r, n) for r in read)]
        statements = {b.node for node in taken for b in self._sources(node)}
        indices = {self._index(node) for node in taken} - {""}
        return bool(taken) and all(
            node in taken
            or self._is_array(node)
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
        kept = self._kept(node)
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
        kept = self._kept(node)
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

    def _kept(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
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

    # -- single samples ------------------------------------------------------------------------------------------

    def _is_single(self, node: cst.BaseExpression, depth: int = 0) -> bool:
        """Whether the expression is seen to be one item of an array, `x[i]`, with a number that counts, or to hold
        such items alone."""
        if depth > _DEEPEST:
            return False
        if isinstance(node, cst.Subscript):
            own = self._own_items(node) if self._is_counted(node.slice[0].slice) else None
            return (
                self._is_counted(node.slice[0].slice) if own is None else not all(map(self._is_several_or_number, own))
            )
        held = self._taken_apart([node])
        if held != [node]:
            rows = [part for part in held if not self._is_several_or_number(part)]
            return len(rows) > len(held) / 2 and all(self._is_single(part, depth + 1) for part in rows)
        if self._gives_one_row(node) or any(b.path and self._gives_one_row(b.value) for b in self._bindings(node)):
            return True
        return any(self._is_single(part, depth + 1) for b in self._bindings(node) for part in self._bound_to(b))

    def _is_several_or_number(self, node: cst.BaseExpression) -> bool:
        """Whether it is seen to be rows, `self.x[rows]` with `rows = slice(…)`, or a number beside them."""
        index = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
        chosen = self.resolver.values(index.value) if isinstance(index, cst.Index) else ()
        by_slice = bool(chosen) and all(isinstance(v, Result) and calls(v) == "builtins.slice" for v in chosen)
        is_number = isinstance(node, cst.BaseNumber) or self.uncut.is_number(node)
        return by_slice or is_number or self._is_array(node)

    def _gives_one_row(self, node: cst.CSTNode | None) -> bool:
        """`data[i]`, `sample(i)`, of an object or a function of the script's that gives one row for an index,
        `return self.x[i], self.y[i]`."""
        given: Sequence[cst.BaseExpression] = ()
        if isinstance(node, cst.Subscript) and self._is_counted(node.slice[0].slice):
            given = self._own_items(node) or ()
        elif isinstance(node, cst.Call) and any(self._is_counter_at(arg.value) for arg in node.args):
            functions = [v.node for v in self.resolver.values(node.func) if isinstance(v, Function)]
            bodies = [f for f in functions if isinstance(f, cst.FunctionDef)]
            given = self._taken_apart([r for function in bodies for r in self.resolver.returned(function)])
        return any(map(self._is_row_of_parameter, given))

    def _is_counted(self, place: cst.BaseSlice) -> bool:
        return isinstance(place, cst.Index) and self._is_counter_at(place.value)

    def _is_counter_at(self, node: cst.BaseExpression) -> bool:
        return isinstance(node, cst.Name) and self.uncut.is_number(node)

    def _is_row_of_parameter(self, node: cst.CSTNode | None, depth: int = 0) -> bool:
        """Whether it takes of an array what a parameter of the function around it says, and nothing else of that."""
        if isinstance(node, cst.Name) and depth < _DEEPEST:
            bound = [
                part_at(b.value, b.path) for b in self._bindings(node) if b.kind == "assign" and b.value is not None
            ]
            return any(self._is_row_of_parameter(part, depth + 1) for part in bound)
        index = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
        chosen = index.value if isinstance(index, cst.Index) else None
        return isinstance(chosen, cst.Name) and any(b.kind == "param" for b in self.resolver.reaching(chosen))

    def _own_items(self, node: cst.Subscript) -> list[cst.BaseExpression] | None:
        """What an object of the script's gives for an index, taken apart; None of all else."""
        owners = self.resolver.values(node.value)
        methods = [self.resolver.method(v.of, "__getitem__") for v in owners if isinstance(v, Object)]
        if not owners or len(methods) < len(owners):
            return None
        return self._taken_apart([given for m in methods if m is not None for given in self.resolver.returned(m)])

    def _taken_apart(self, nodes: Sequence[cst.BaseExpression]) -> list[cst.BaseExpression]:
        """What tuples, dictionaries and records hold that are written out."""
        queue, found = list(nodes), []
        while queue:
            part = queue.pop(0)
            if isinstance(part, (cst.Tuple, cst.Dict)):
                queue += [element.value for element in part.elements]
            elif isinstance(part, cst.Call) and self._makes_record(part):
                queue += [arg.value for arg in part.args]
            else:
                found.append(part)
        return found

    def _makes_record(self, call: cst.Call) -> bool:
        values = self.resolver.values(call.func)
        is_tuple = any(isinstance(v, Result) and calls(v) == "collections.namedtuple" for v in values)
        return is_tuple or any(isinstance(v, Class) for v in values) or self.resolver.calls_one_of(call, _HOLDING)

    def _bound_to(self, binding: Binding) -> Iterator[cst.BaseExpression]:
        """What the name is seen to get, also from a generator of the script's own."""
        value = binding.value
        if not isinstance(value, cst.BaseExpression):
            return
        source = value
        if (
            binding.kind == "assign"
            and isinstance(value, cst.Call)
            and self.resolver.calls_one_of(value, ("builtins.next",))
        ):
            source = value.args[0].value if value.args else value
        elif binding.kind == "assign":
            part = part_at(value, binding.path)
            if isinstance(part, cst.BaseExpression):
                yield part
            return
        for function in self.rows.generators.of(source):
            for given in self.tree.yields.get(function, ()):
                part = part_at(given.value, binding.path) if given.value is not None else None
                if isinstance(part, cst.BaseExpression):
                    yield part

    # -- arrays --------------------------------------------------------------------------------------------------

    def _is_array(self, node: cst.BaseExpression, depth: int = 0) -> bool:
        """Whether the expression surely has a first axis."""
        if depth > _DEEPEST:
            return False
        if isinstance(node, cst.Name):
            bindings = self._bindings(node)
            made = [b for b in bindings if b.kind != "augmented"]  # an array stays one
            return bool(made) and all(self._binds_array(b, depth) for b in made)
        if isinstance(node, cst.BinaryOperation):
            return self._is_array(node.left, depth + 1) or self._is_array(node.right, depth + 1)
        if isinstance(node, cst.Comparison) and isinstance(node.comparisons[0].operator, _OF_EACH):  # `labels != 0`
            return self._is_array(node.left, depth + 1)
        if isinstance(node, cst.Subscript):
            index = node.slice[0].slice
            chosen = isinstance(index, cst.Slice) or self._is_array(cst.ensure_type(index, cst.Index).value, depth + 1)
            return chosen or _opens_an_axis(node)
        if isinstance(node, cst.Call):
            if isinstance(node.func, cst.Attribute) and node.func.attr.value in _KEEPING_METHODS:
                return self._is_array(node.func.value, depth + 1)
            if node.args and self.resolver.calls_one_of(node, _LIKE):
                return self._is_array(node.args[0].value, depth + 1)
            returned = self._returned_by(node)
            if returned:
                return all(self._is_array(part, depth + 1) for part in returned)
            results = [v for v in self.resolver.values(node) if isinstance(v, Result) and calls(v) in _MAKING]
            return any(calls(v) not in _CASTING or self._may_be_rows(v.call, depth) for v in results)
        return isinstance(node, (cst.List, cst.ListComp))

    def _may_be_rows(self, call: cst.Call, depth: int) -> bool:
        """Whether what a tensor is made of may be rows: an array, or what comes with some, and not what the function is
        only given, `tf.constant(rate)`."""
        given = call.args[0].value if call.args else None
        bindings = self.resolver.reaching(given) if isinstance(given, cst.Name) else []
        is_given = bool(bindings) and all(b.kind == "param" for b in bindings)
        return given is not None and (not is_given or self._is_array(given, depth + 1))

    def _binds_array(self, binding: Binding, depth: int) -> bool:
        if len(binding.path) == 1 and self._makes_arrays(binding.value, depth):
            return True
        if binding.kind == "param" and isinstance(binding.node, cst.Param):
            given = self.resolver.given(binding.node)
            return bool(given) and all(self._is_array(one, depth + 1) for one in given)
        if binding.kind != "assign" or binding.value is None:
            return False
        several: list[cst.CSTNode] = [*self._returned_by(binding.value)] if binding.path else []
        parts = [part_at(one, binding.path) for one in several or [binding.value]]
        return all(isinstance(part, cst.BaseExpression) and self._is_array(part, depth + 1) for part in parts)

    def _returned_by(self, node: cst.CSTNode) -> list[cst.BaseExpression]:
        """What the functions of the script's return that a call may be of."""
        values = self.resolver.values(node.func) if isinstance(node, cst.Call) else ()
        functions = [v.node for v in values if isinstance(v, Function) and isinstance(v.node, cst.FunctionDef)]
        if not functions or len(functions) < len(values):
            return []
        return [given for function in functions for given in self.resolver.returned(function)]

    def _makes_arrays(self, node: cst.CSTNode | None, depth: int) -> bool:
        """Whether each part of it is an array: `map(np.array, zip(*samples))`, `(np.array(p) for p in parts)`."""
        if isinstance(node, (cst.ListComp, cst.GeneratorExp)):
            return self._is_array(node.elt, depth + 1)
        if not isinstance(node, cst.Call) or not node.args or not self.resolver.calls_one_of(node, ("builtins.map",)):
            return False
        makers = self.resolver.values(node.args[0].value)
        return bool(makers) and all(isinstance(v, External) and v.path in _MAKING for v in makers)


def _is_elementwise(path: str) -> bool:
    row = ops.lookup(path)
    return row is not None and isinstance(row.kind, Elementwise)


def _opens_an_axis(node: cst.Subscript) -> bool:
    """`y[:, None]`"""
    return any(isinstance(e.slice, cst.Index) and isinstance(e.slice.value, cst.Name) and e.slice.value.value == "None"
               for e in node.slice)  # fmt: skip
