"""Data that a script makes once, and of which each training step reads all: a full batch, the points at which a
differential equation is to hold.

Each worker has its rows of them from where they are made on, or where the step reads them, if anything else does, too.
How the loss adds up over the workers' rows is proven elsewhere, from what the step computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import libcst as cst

from migrator.facts.data.batch_cuts import Cut, CutExpressions, CutNames
from migrator.facts.data.batch_forms import BatchForms
from migrator.facts.data.changes_made import ChangesMade
from migrator.facts.data.data_reads import DataReads
from migrator.facts.data.made_before import MadeBefore
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Literal
from migrator.facts.program.tree import Binding, Statement, Tree, semantic_children
from migrator.facts.training.sites import Training, Update

# What they give is no view of anything.
_NEW = (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison, cst.BaseString, cst.BaseNumber, cst.Lambda)
_MOST = 200


class FullBatches:
    def __init__(
        self, tree: Tree, resolver: Resolver, training: Training, reads: DataReads, before: MadeBefore,
        forms: BatchForms,
        is_share: Callable[[cst.CSTNode], bool],
    ) -> None:  # fmt: skip
        """`is_share`: whether an expression is a worker's share already."""
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.reads = reads
        self._before = before
        self.forms = forms
        self._is_share = is_share
        self._changes = ChangesMade(tree, resolver)

    def of(self, body: cst.CSTNode, block: Statement, update: Update) -> list[Cut] | None:
        """Where to cut what the step reads, if that is nothing but data which are made once; empty where all of it is
        cut already."""
        codes = self.training.run_by(body)
        read = [node for code in codes for node in self.reads.of(code, block if code is body else code)]  # type: ignore[arg-type]
        shares = [node for node in read if self._is_cut(node)]
        whole = [node for node in read if node not in shares and not self._is_written_out(node)]
        if shares:
            return []
        if not all(map(self._is_made_once, whole)):
            return None
        rows = self._rows_apart(whole, codes)
        if not rows:
            return None
        place = self._place_for(rows, codes)
        names = {node.value: node for node in rows if isinstance(node, cst.Name)}
        if place is None or len(names) < len({self.resolver.bound(node)[0] for node in rows}):
            return [CutExpressions(tuple(rows), [update])]
        return [CutNames(sorted(names.values(), key=self._made_at), place, [update])]

    def _rows_apart(self, read: Sequence[cst.BaseExpression], codes: Sequence[cst.CSTNode]) -> list[cst.BaseExpression]:
        """Those that surely are rows, and do not stand beside others, which stay whole; none where that is not seen."""
        rows = self._rows_among(read, codes)
        while True:
            beside = [self._beside(node) for node in read if node not in rows]
            if None in beside:
                return []
            met = {binding for several in beside for binding in several or ()}
            apart = [node for node in rows if met.isdisjoint(self.resolver.bound(node))]
            if len(apart) == len(rows):
                return rows
            rows = apart

    def _beside(self, node: cst.BaseExpression) -> set[Binding] | None:
        """What names stand for that is worked on together with the data, up to where these are reduced, and what that
        is made of; None where it is not seen how far they go."""
        top = self._before.reduced_at(node)
        if top is None:
            return None
        found = self._behind([top], views_alone=False)
        return found if len(found) < _MOST else None

    def _is_cut(self, node: cst.BaseExpression) -> bool:
        """Whether it is a worker's share by the time that the step reads it: a function that reads a name of the module
        may see what that got before, too."""
        found, order = self.resolver.bound(node), self.tree.order
        cuts = [b for b in found if b.value is not None and self._is_share(b.value)]
        first = min((order[b.node] for b in cuts), default=0)
        return self._is_share(node) or (bool(cuts) and all(b in cuts or order[b.node] < first for b in found))

    # -- where they come from ------------------------------------------------------------------------------------

    def _made_at(self, node: cst.CSTNode) -> int:
        return self.tree.order[self.resolver.bound(node)[0].node]

    def _is_made_once(self, node: cst.BaseExpression) -> bool:
        """Whether the name, or the attribute, gets it in one place, and not in a loop."""
        found = self.resolver.bound(node)
        if len(found) != 1 or found[0].kind != "assign" or any(True for _ in self.tree.loops_around(found[0].node)):
            return False
        function = self.tree.function_of(found[0].node)
        if isinstance(node, cst.Attribute):
            return function is not None and function.name.value == "__init__"
        scope = self.tree.scope_of(node).lookup(cst.ensure_type(node, cst.Name).value)
        is_local = scope is not None and scope is self.tree.scope_of(found[0].node)
        return is_local and scope is not None and scope.bindings[found[0].name] == found

    def _is_written_out(self, node: cst.BaseExpression) -> bool:
        """Whether it is a few numbers that stand in the text: `tf.constant([[0.0]])`"""
        found = self.resolver.bound(node)
        value = found[0].value if len(found) == 1 and not found[0].path else None
        if isinstance(value, cst.Call) and value.args:
            value = value.args[0].value
        values = self.resolver.values(value) if value is not None else ()
        return bool(values) and all(
            isinstance(v, Literal) and isinstance(v.node, (cst.List, cst.Tuple)) for v in values
        )

    # -- rows ----------------------------------------------------------------------------------------------------

    def _rows_among(self, read: Sequence[cst.BaseExpression], codes: Sequence[cst.CSTNode]) -> list[cst.BaseExpression]:
        """Those that surely have their samples along the first axis: a model takes them as they are, or they come out
        of the same statement as one of these, or are made of that, value by value."""
        given = [part for place, rows in self.forms.rows_taken for part in rows if _is_within(self.tree, codes, place)]
        taken = [node for node in read if any(self.forms.comes_from(part, node) for part in given)]
        return [node for node in read if node in taken or self._goes_with(node, taken)]

    def _goes_with(self, node: cst.BaseExpression, taken: Sequence[cst.BaseExpression]) -> bool:
        made = self.resolver.bound(node)[0]
        beside = {self.resolver.bound(other)[0].node for other in taken}
        if made.path and made.node in beside:
            return True
        value = made.value if not made.path else None
        return isinstance(value, cst.BaseExpression) and any(self.forms.comes_from(value, other) for other in taken)

    # -- places --------------------------------------------------------------------------------------------------

    def _place_for(self, reads: Sequence[cst.BaseExpression], codes: Sequence[cst.CSTNode]) -> Statement | None:
        """The first statement that reads the data in training, from where on nothing else does."""
        made = [self.resolver.bound(node)[0] for node in reads]
        lines = [self.tree.statement_of(binding.node) for binding in made]
        block = self.tree.block_of(lines[0])
        if any(self.tree.block_of(line) is not block for line in lines):
            return None
        order = self.tree.order
        found = [
            (read, _is_within(self.tree, codes, read))
            for binding in made
            for read in self.tree.names[binding.name]
            if self.tree.is_read(read) and binding in self.resolver.reaching(read)
        ]
        first = min((read for read, trains in found if trains), key=order.__getitem__, default=None)
        place = self.tree.lift(first, block) if first is not None else None
        if place is None or any(order[place] <= order[line] for line in lines):
            return None
        is_kept = all(trains is (order[read] > order[place]) for read, trains in found)
        return place if is_kept and not self._is_changed_behind(made, place) else None

    def _is_changed_behind(self, made: Sequence[Binding], place: Statement) -> bool:
        """Whether what the data are made of, and may be views of, is changed in place later on, by whichever name."""
        held = self._behind([binding.value for binding in made], views_alone=False)
        return bool(held) and any(
            self._runs_behind(node, place, set()) and not held.isdisjoint(self._behind([changed], views_alone=True))
            for node, changed, _ in self._changes.among(self.tree.modules)
        )

    def _behind(self, nodes: Iterable[cst.CSTNode | None], *, views_alone: bool) -> set[Binding]:
        """What names stand for in the nodes, and in what these get; `views_alone`: of which they may be views."""
        queue = [node for node in nodes if node is not None]
        found: set[Binding] = set()
        for node in queue:
            if views_alone and isinstance(node, _NEW):
                continue
            if views_alone and isinstance(node, cst.Call) and self._gives_tensors(node):
                continue
            queue += [] if isinstance(node, (cst.Name, cst.Attribute)) else semantic_children(node)
            queue += [node.value] if isinstance(node, cst.Attribute) else []
            for binding in self.resolver.bound(node):
                if binding not in found and len(found) < _MOST:
                    found.add(binding)
                    is_param = binding.kind == "param" and isinstance(binding.node, cst.Param)
                    queue += self.resolver.given(binding.node) if is_param else []  # type: ignore[arg-type]
                    queue += [binding.value] if binding.value is not None and binding.kind != "augmented" else []
        return found

    def _gives_tensors(self, call: cst.Call) -> bool:
        """Whether it is a function of TensorFlow's or Keras's, or a model: what these give is no view of an array."""
        values = self.resolver.values(call.func)
        return bool(values) and all(origin(v).startswith(("tensorflow.", "keras.")) for v in values)

    def _runs_behind(self, node: cst.CSTNode, place: Statement, passed: set[cst.CSTNode]) -> bool:
        """Whether the node may run later than the place, also through the functions that call it."""
        function = self.tree.function_of(node)
        if function is None or function is self.tree.function_of(place):
            return self.tree.order[node] > self.tree.order[place]
        if function in passed:
            return False
        callers = self.resolver.callers(function)
        return not callers or any(self._runs_behind(call, place, passed | {function}) for call in callers)


def _is_within(tree: Tree, codes: Sequence[cst.CSTNode], node: cst.CSTNode) -> bool:
    return any(tree.contains(code, node) for code in codes)
