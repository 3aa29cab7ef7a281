"""Batches that a training step has from its callers: each worker has its rows of the arguments of these calls."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrator.facts.data.batch_cuts import Cut, CutArguments, CutExpressions, CutNames
from migrator.facts.data.batch_forms import BatchForms
from migrator.facts.data.data_reads import DataReads
from migrator.facts.data.earlier_cuts import EarlierCuts
from migrator.facts.data.made_before import MadeBefore
from migrator.facts.data.met_behind import MetBehind
from migrator.facts.data.read_beside import ReadBeside
from migrator.facts.data.worker_shares import WorkerShares
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.syntax import takes_all
from migrator.facts.program.tree import Statement, Tree
from migrator.facts.training.sites import Training, Update


class BatchArguments:
    def __init__(
        self, tree: Tree, resolver: Resolver, kinds: Kinds, training: Training, reads: DataReads, before: MadeBefore,
        forms: BatchForms, earlier: EarlierCuts, shares: WorkerShares, beside: ReadBeside,
    ) -> None:  # fmt: skip
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.training = training
        self.reads = reads
        self.before = before
        self.forms = forms
        self.rows = forms.rows
        self.earlier = earlier
        self.shares = shares
        self.beside = beside
        self.met_behind = MetBehind(tree, resolver, earlier)

    def behind(self, body: cst.CSTNode, block: Statement, update: Update) -> list[Cut] | None:
        """Where to cut what the code reads that stands in the block, if that is what its function has from callers."""
        function = self.tree.function_of(block)
        if function is None or not all(
            self._is_of(function, node) or self.before.stays_whole(node, block) for node in self.reads.of(body, block)
        ):
            return None
        return self._in_callers(function, update)

    def _is_of(self, function: cst.FunctionDef, node: cst.BaseExpression) -> bool:
        """Whether the data are the function's own: its parameters, or made of them."""
        if self.reads.is_kept(node):
            owner = cst.ensure_type(node, cst.Attribute).value
            is_array = any(map(self.kinds.is_array, self.resolver.values(node)))
            return self._is_of(function, owner) and (not is_array or self.reads.is_record(owner))
        if isinstance(node, cst.Subscript) and takes_all(node.slice[0].slice):  # a column of it: `users[:, 0]`
            return self._is_of(function, node.value)
        if isinstance(node, cst.Subscript) and self._takes_part(node):
            return self._is_of(function, node.value)
        return isinstance(node, cst.Name) and all(
            b.kind == "param" or self.tree.function_of(b.node) is function for b in self.resolver.reaching(node)
        )

    def _takes_part(self, node: cst.Subscript) -> bool:
        """`labels[0]` of `step(x, (y[i : i + n], z[i : i + n]))`, which is one of the arrays and no row of one."""
        index = node.slice[0].slice if len(node.slice) == 1 else None
        is_place = isinstance(index, cst.Index) and isinstance(index.value, cst.Integer)
        return is_place and self.rows.of(node.value) is None and bool(self.rows.parts(node.value))

    def _in_callers(self, function: cst.FunctionDef, update: Update) -> list[Cut] | None:
        cuts: list[Cut] = []
        callers = self.resolver.callers(function)
        for call in callers:
            found = self._arguments(call, function, update)
            if found is None:
                return None
            cuts.extend(found)
        return cuts if callers else None

    def _arguments(self, call: cst.Call, function: cst.FunctionDef, update: Update) -> list[Cut] | None:
        batches: list[cst.Arg] = []
        cut_before: dict[cst.BaseExpression, CutNames] = {}
        for arg in call.args:
            if self.shares.is_share_at(arg.value, call):
                return []
            if arg.star == "**" and self.reads.uncut.has_no_rows(arg.value):
                continue
            if (cut := self.earlier.behind(arg.value, call)) is not None:
                cut_before[arg.value] = cut
            if (
                cut is not None
                or arg.star
                or self.rows.several(arg.value)
                or not self.reads.is_number_or_constant(arg.value)
            ):
                batches.append(arg)
        if not batches:
            return None
        beside = [arg for arg in batches if self._stays_whole(arg, call, function)]
        rest = [arg for arg in batches if arg not in beside]
        batches = rest if beside and rest and self._are_all_rows(rest, function) else batches
        values = [arg.value for arg in batches]
        if not self._are_all_rows(batches, function) and not self.forms.are_batches(
            values, self.training.reached_from(function)
        ):
            return None
        shared = self.earlier.shared_by(update, call, cut_before)
        whole = tuple(
            arg for arg in batches if arg.value not in cut_before and not self.earlier.join_any(arg.value, shared)
        )
        if not whole:
            return [*shared]
        in_front = self._in_front(call, whole, update)
        if in_front is not None:
            return [*shared, in_front]
        met = self.met_behind.same_rows(call, [arg.value for arg in whole])
        behind = [CutExpressions(tuple(met), [update])] if met else []
        return [*shared, CutArguments(call, whole, [update]), *behind]

    def _stays_whole(self, arg: cst.Arg, call: cst.Call, function: cst.FunctionDef) -> bool:
        """Whether each turn of the loop hands the step the same, which meets no rows there: a matrix of neighbours."""
        name = self._parameter(arg, function) if not arg.star else ""
        reads = [n for n in self.tree.names_in(function.body) if n.value == name and self.tree.is_read(n)]
        return bool(reads) and self.before.is_handed_on(arg.value, call, reads, function)

    def _in_front(self, call: cst.Call, batches: Sequence[cst.Arg], update: Update) -> CutNames | None:
        """The cut of the names in front of the step, where what follows meets what it returned of a worker's rows."""
        names = [arg.value for arg in batches if isinstance(arg.value, cst.Name) and not arg.star]
        are_names = len(names) == len(batches) and all(self.earlier.is_bound_beside(name, call) for name in names)
        if not are_names or not self.met_behind.meets_result(call, names):
            return None
        if self.beside.are_read_beside(names, self.tree.statement_of(call)):
            return None
        if any(self.earlier.may_have_cut(name, call) for name in names):
            return None
        cut = CutNames(sorted(names, key=self.earlier.bound_at), self.tree.statement_of(call), [update])
        self.earlier.found.append(cut)
        return cut

    def _are_all_rows(self, batches: list[cst.Arg], function: cst.FunctionDef) -> bool:
        if not all(map(self._gives_rows, batches)) or (len(batches) > 1 and any(arg.star for arg in batches)):
            return False
        return self.forms.are_samples(
            [a.value for a in batches], function, [self._parameter(a, function) for a in batches]
        )

    def _gives_rows(self, arg: cst.Arg) -> bool:
        """Whether the argument is rows; of `*batch`, what is in it."""
        return bool(self.rows.parts(arg.value)) if arg.star else bool(self.rows.several(arg.value))

    def _parameter(self, arg: cst.Arg, function: cst.FunctionDef) -> str:
        params = [*function.params.posonly_params, *function.params.params]
        return next((p.name.value for p in params if arg.value in self.resolver.given(p)), "")
