"""Rows that a training loop keeps for a report, in a table for all samples: `table[i : i + n] = predictions`.

Nothing is steered by them, and nothing is trained on them; but a worker's part does not fit into the place that the
table has for a batch. They are put together where batches are cut in the step, which knows how many rows these have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from migrator.facts.decisions.gathering import Gathering
from migrator.facts.decisions.marks import Mark
from migrator.facts.dependence import Key
from migrator.facts.names import api
from migrator.facts.objects.kinds import Kinds, origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Literal, Member, Value
from migrator.facts.program.syntax import part_at
from migrator.facts.program.tree import Tree
from migrator.worklist import Worklist

_NO_PLACES = (cst.SimpleString, cst.BaseNumber, cst.Ellipsis)
_ARRAYS = ("numpy.", "tensorflow.", "keras.")
_LOOKING = (*_ARRAYS, "builtins.", "math.", "statistics.", "matplotlib.", "sklearn.metrics.", "scipy.stats.", "pandas.")


class KeptRows:
    def __init__(
        self,
        tree: Tree,
        resolver: Resolver,
        kinds: Kinds,
        gathering: Gathering,
        put_together: Collection[cst.CSTNode],
    ) -> None:
        """`put_together`: what of the workers is put together anyway."""
        self.tree = tree
        self.put_together = put_together
        self.resolver = resolver
        self.kinds = kinds
        self.gathering = gathering
        self.losses = gathering.losses
        self.locality = gathering.locality

    def all(self) -> Iterator[cst.BaseExpression]:
        """What is a worker's rows where it is kept."""
        for target, value in self.tree.item_assignments:
            if self.losses.has_row_of_each(value) and self._is_place_of_batch(target):
                rows = self.gathering.leaf(value)
                if rows is value and not self._is_put_together(rows) and self._is_only_looked_at(rows):
                    yield rows

    def _is_put_together(self, rows: cst.BaseExpression) -> bool:
        """Whether that is done to them, or to something that is made of them."""
        reached, inputs = self.locality.reached_from(rows), self.locality.dependence.inputs
        return any(
            self.tree.contains(rows, one)
            or self.tree.contains(one, rows)
            or reached.of(one)
            or any(reached.of(key) for key, _ in inputs(one))
            for one in self.put_together
        )

    def _is_place_of_batch(self, target: cst.Subscript) -> bool:
        """Whether a table for all samples has the place for those of a whole batch."""
        place = target.slice[0].slice
        if isinstance(place, cst.Slice):
            bounds = [bound for bound in (place.lower, place.upper) if bound is not None]
        else:
            bounds = [cst.ensure_type(place, cst.Index).value]
        is_place = bool(bounds) and not any(isinstance(bound, _NO_PLACES) for bound in bounds)
        return is_place and self._is_whole_table(target.value) and not any(map(self._is_of_part, bounds))

    def _is_of_part(self, bound: cst.BaseExpression) -> bool:
        """Whether it is made of a worker's rows, or of how many these are."""
        queue = Worklist[Key]([bound])
        for key in queue:
            if isinstance(key, cst.CSTNode) and self.losses.meets_rows(key):
                return True
            queue += [source for source, _ in self.locality.dependence.inputs(key)]
        return False

    def _is_whole_table(self, held: cst.BaseExpression) -> bool:
        """Whether the script makes an array of it, of other than a worker's rows."""
        if not isinstance(held, (cst.Name, cst.Attribute)):
            return False
        bindings = self.resolver.bound(held)
        made = [part_at(b.value, b.path) if b.value is not None else None for b in bindings]
        return bool(made) and all(map(self._makes_table, made))

    def _makes_table(self, value: cst.CSTNode | None) -> bool:
        values = self.resolver.values(value)
        is_array = bool(values) and all(origin(v).startswith(_ARRAYS) for v in values)
        return value is not None and is_array and not self.losses.meets_rows(value)

    def _is_only_looked_at(self, rows: cst.BaseExpression) -> bool:
        """Whether nothing that is made of them comes under a tape, or to what may train or is not known."""
        reached = self.locality.reached_from(rows)
        own = self.tree.statement_of(rows)
        for key in (self.locality.dependence.keys[number] for number in reached.marks):
            if not isinstance(key, cst.BaseExpression) or self.tree.contains(own, key):
                continue
            if self.tree.is_in(key, self.locality.training.tapes):
                return False
        takers = [c for c in self.tree.calls if any(reached.of(arg.value) & ~Mark.CHOSEN for arg in c.args)]
        return all(self._looks(value) for taker in takers for value in self.resolver.values(taker.func) or (None,))

    def _looks(self, function: Value | None) -> bool:
        if isinstance(function, External):
            is_setting = api.SETTING_FUNCTIONS.match(function.path) is not None
            return function.path.startswith(_LOOKING) and not is_setting
        if isinstance(function, Member):
            if function.name in api.SETTING_VARIABLES or self._trains(function.owner):
                return False
            return isinstance(function.owner, Literal) or origin(function.owner).startswith(_LOOKING)
        return isinstance(function, (Function, Class))

    def _trains(self, owner: Value) -> bool:
        return self.kinds.has_weights(owner) or self.kinds.is_optimizer(owner) or self.kinds.is_dataset(owner)
