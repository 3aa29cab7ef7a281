"""What the values of a program are before anything is cut, when every worker has all rows: where the cuts are to stand
depends on that."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.left_out import LeftOut
from migrator.analysis.libraries.tensorflow import VARIABLE
from migrator.analysis.packages.sources import Sources
from migrator.analysis.plan import Plan
from migrator.analysis.run import Run, comes_to_an_end
from migrator.analysis.values import NOTHING, Atom, Container, Data, Value
from migrator.facts.names import api
from migrator.facts.program.modules import Script
from migrator.facts.program.tree import Tree

_LIBRARIES = ("tensorflow.", "keras.", "numpy.", "builtins.", "math.", f"{api.RUNTIME}.", "horovod.", "npu_device.")
# What is made by these.
_WITHOUT_ROWS = (
    "keras.losses.", "keras.metrics.", "keras.optimizers.", "keras.regularizers.", "keras.models.", VARIABLE,
    "tensorflow.GradientTape",
)  # fmt: skip


class Uncut:
    """`sites`, `branches`: see Losses; `entries`: those of them that are known, asked for where the program is run."""

    def __init__(
        self,
        tree: Tree,
        scripts: Sequence[Script],
        entries: Callable[[], Mapping[cst.FunctionDef, bool]],
        sites: Collection[cst.CSTNode] = (),
        models: Collection[cst.CSTNode] = (),
        sources: Sources | None = None,
        branches: set[cst.CSTNode] | None = None,
    ) -> None:
        self.tree = tree
        self._scripts = scripts
        self._entries = entries
        self._sites = sites
        self._models = models
        self._sources = sources
        self._branches = set() if branches is None else branches

    @cached_property
    def run(self) -> Run | None:
        """None where it came to no end."""
        entries = self._entries()
        while True:
            plan = Plan(branches=set(self._branches))
            run = Run(self.tree, self._scripts, models=self._models, plan=plan, sources=self._sources)
            if not comes_to_an_end(run, entries):
                return None
            left_out = LeftOut(self.tree, run).conditions(self._sites) - self._branches
            if not left_out:
                return run
            self._branches |= left_out

    def is_number(self, node: cst.CSTNode) -> bool:
        """Whether it surely is one number, whatever that is made of."""
        data = self._data(node)
        return data is not None and data.rank == 0

    def has_no_rows(self, node: cst.CSTNode) -> bool:
        """Whether it surely is no data: weights, functions, losses, and objects that hold nothing else but numbers."""
        value = self._value(node)
        return bool(value.objects) and value.data is None and self._are_rowless(value, set())

    def is_called(self, node: cst.CSTNode) -> bool:
        """Whether it stands in code that is seen to be run: of others, what they work with may be something else."""
        return self.run is not None and self.tree.function_of(node) not in self.run.alone

    def _are_rowless(self, value: Value, passed: set[Atom], *, numbers: bool = False) -> bool:
        """`passed`: what is asked for already; `numbers`: whether these have none, either, while a list of them may be
        rows."""
        is_number = value.data is None or (numbers and (value.data.rank == 0 or value.data.constant is None))
        return is_number and all(atom in passed or self._is_rowless(atom, passed) for atom in value)

    def _is_rowless(self, atom: Atom, passed: set[Atom]) -> bool:
        passed.add(atom)
        if isinstance(atom, (v.Function, v.Class, v.File, v.Bound, v.Curried)):
            return True
        if isinstance(atom, v.External):
            return f"{atom.path}.".startswith(_LIBRARIES)
        if isinstance(atom, v.Made):
            is_model = api.makes_model(atom.path) or api.is_layer_class(atom.path)
            return is_model or atom.path.startswith(_WITHOUT_ROWS)
        if not isinstance(atom, (Container, v.Instance, v.Tuple)):
            return False
        is_object = isinstance(atom, v.Instance)
        if is_object and not self._holds_all_it_gives(atom, set()):
            return False
        numbers = is_object or self._is_written_out(atom)
        return all(self._are_rowless(value, passed, numbers=numbers) for value in self._held(atom))

    def _is_written_out(self, atom: Atom) -> bool:
        """Whether it is a dictionary of which each key is known, `{"a": 0.5, "b": loss}`: others may have one a row."""
        is_known = self.run is not None and self.run.heap.load(atom, None) is NOTHING
        return is_known and isinstance(atom, Container) and atom.kind == "dict"

    def _holds_all_it_gives(self, atom: Atom, passed: set[Atom]) -> bool:
        """Whether an object is a model, a layer or a loss, or keeps weights: what is called of any other one may give
        rows that it does not keep, whatever form that has."""
        passed.add(atom)
        if isinstance(atom, v.Made):
            return atom.path == VARIABLE or api.makes_model(atom.path) or api.is_layer_class(atom.path)
        if isinstance(atom, v.Instance) and self.run is not None:
            bases = self.run.classes.external_bases(atom.cls)
            if bases:
                return all(base.startswith(("keras.", "tensorflow.", "builtins.object")) for base in bases)
        elif not isinstance(atom, (Container, v.Tuple)):
            return False
        inside = {each for value in self._held(atom) for each in value} - passed
        return any(self._holds_all_it_gives(each, passed) for each in inside)

    def _held(self, atom: Atom) -> list[Value]:
        if isinstance(atom, v.Tuple):
            return list(atom.items)
        heap = self.run.heap if self.run is not None else None
        return [heap.load(atom, key) for key in (*heap.fields(atom), None)] if heap is not None else []

    def are_several(self, node: cst.CSTNode) -> bool:
        """Whether it surely is an array with an axis, or a list of Python's."""
        value = self._value(node)
        if value.data is not None:
            return not value.objects and value.data.axes > 0
        return bool(value.objects) and all(isinstance(a, Container) and a.kind == "list" for a in value)

    def is_item(self, node: cst.CSTNode) -> bool:
        """Whether it is one item of an array, `x[i]`, or holds such items, and nothing else but fewer numbers and
        arrays."""
        parts = list(self._parts(self._value(node), set()))
        items = [data for data in parts if data.item]
        return len(items) > len(parts) / 2 and all(data.item or data.rank == 0 or data.axes > 0 for data in parts)

    def _parts(self, value: Value, passed: set[Atom]) -> Iterator[Data]:
        if value.data is not None:
            yield value.data
        for atom in value.objects - passed:
            passed.add(atom)
            if isinstance(atom, (Container, v.Instance, v.Tuple)):
                for held in self._held(atom):
                    yield from self._parts(held, passed)

    def is_part(self, node: cst.CSTNode) -> bool:
        """Whether it is `slice(i, i + 6)`, or `np.s_[i : i + 6]`: a part of the rows, as `x[i : i + 6]` takes it."""
        data = self._data(node)
        bounds = data.constant if data is not None else None
        return isinstance(bounds, v.Slice) and not bounds.lower is bounds.upper is None

    def has_fewer_axes(self, node: cst.CSTNode, other: cst.CSTNode) -> bool:
        """Whether it is a number, or an array that stands beside each row of the other."""
        one, rows = self._data(node), self._data(other)
        if one is None or one.rank is None:
            return False
        return one.rank == 0 or (rows is not None and rows.rank is not None and one.rank < rows.rank)

    def comes_to_a_number(self, node: cst.BaseExpression) -> bool:
        """Whether it is so many numbers in a row of which the code around it makes one, beside nothing but as many
        others: `weights[0]`, `tf.reduce_sum(weights * losses)`."""
        size = self.size(node)
        for owner in self.tree.ancestors(node) if size is not None else ():
            if not isinstance(owner, (cst.Arg, cst.Element, cst.List, cst.Tuple, cst.Attribute)):
                beside = [part for part in _operands(owner) if not self.is_number(part) and self._data(part)]
                if any(self.size(part) != size for part in beside):
                    return False
                if self.is_number(owner) or self.size(owner) != size:
                    return self.is_number(owner)
        return False

    def size(self, node: cst.CSTNode) -> int | None:
        """How many numbers it is in a row, as an array or as a list of Python's; None where that is not known."""
        data = self._data(node)
        if data is not None:
            return data.rows if data.rank == 1 else None
        items = self.run.objects.sequence_items(self._value(node)) if self.run is not None else None
        return len(items) if items and all(item.data is not None and item.data.rank == 0 for item in items) else None

    def rows(self, node: cst.CSTNode) -> int | None:
        """The size of its first axis, where that is known."""
        data = self._data(node)
        return data.rows if data is not None else None

    def _data(self, node: cst.CSTNode) -> Data | None:
        """What it is, where that is no object."""
        value = self._value(node)
        return value.data if not value.objects else None

    def _value(self, node: cst.CSTNode) -> Value:
        return self.run.seen.get(node, NOTHING) if self.run is not None else NOTHING


def _operands(node: cst.CSTNode) -> list[cst.BaseExpression]:
    if isinstance(node, cst.BinaryOperation):
        return [node.left, node.right]
    if isinstance(node, cst.Call):
        owner = [node.func.value] if isinstance(node.func, cst.Attribute) else []
        return [*owner, *(arg.value for arg in node.args)]
    return []
