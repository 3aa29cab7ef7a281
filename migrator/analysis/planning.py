"""Where to put together what losses and decisions need of all rows: planned by what one abstract run has found, for the
next one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.placement import ROWS, Partial, Scaled, Sharded
from migrator.analysis.placing import MEETS
from migrator.analysis.placing.repairing import IN_PARTS, MIXED, ROUNDED
from migrator.analysis.plan import Plan
from migrator.analysis.run import Run
from migrator.analysis.values import NOTHING, Bound, Container, Function, Repair, Tuple, Value
from migrator.analysis.verdicts import NONE, RUNS_WHOLE, SUM, Verdicts, needed_anyway, puts_together
from migrator.facts.program.syntax import part_at
from migrator.facts.program.tree import Tree, semantic_children

_DEEPEST_SOURCE = 12


class Planner:
    """`numbers`, `gathered`: see Losses. `cut_together`: the calls that take gradients, those together whose batches
    are cut as one."""

    def __init__(
        self,
        tree: Tree,
        run: Run,
        plan: Plan,
        verdicts: Verdicts,
        numbers: Collection[cst.CSTNode],
        gathered: Collection[cst.CSTNode],
        cut_together: Sequence[Collection[cst.CSTNode]] = (),
    ) -> None:
        self.tree = tree
        self.verdicts = verdicts
        self._run = run
        self._plan = plan
        self._numbers = numbers
        self._gathered = gathered
        self._cut_together = cut_together

    def is_changed(self) -> bool:
        """Whether the plan asks for more than the run has had, so that it is to run again."""
        first = (self._put_means_together, self._improve, self._mix)
        last = (self._gather_always, self._deal, self._gather_behind_names, self._name_means, self._leave_undivided)
        return any(plan() for plan in (*first, *last, self._gather_put))

    def _put_means_together(self) -> bool:
        """Plans to put means together of which gradients of samples are taken, where these meet what is not divided by
        the number of a worker's rows; of losses that models are compiled with, too. True where that is new."""
        if not self._run.of_means:
            return False
        lost = {node for r in self._needed() if r.blocked for node in self._run.lost_at.get(r.node, ())}
        if not any(map(self._is_divided, lost)):
            return False
        reductions, losses = self._run.reductions - self._plan.reductions, self._run.compiled.keys() - self._plan.losses
        if reductions:
            self._plan.reductions |= reductions
        else:
            self._plan.losses |= losses
        return bool(reductions or losses)

    def _is_divided(self, node: cst.CSTNode) -> bool:
        leaves = self._run.objects.leaves(self._run.seen.get(node, NOTHING))
        return any(isinstance(d.placement, Scaled) and isinstance(d.placement.base, Sharded) for d in leaves)

    def _improve(self) -> bool:
        """Plans to put rows together further out: around the arguments of a function that gathers, where what stands
        inside of it cannot be repaired, or only in several places; where the rows come from; what Keras applies; and
        around those of a call of which one of several functions, or dictionaries of keywords, asks for it.
        """
        functions = self._run.of_fixed_size - self._run.hidden - self._plan.functions
        added_up: set[cst.CSTNode] = set()
        expressions = {node for r in self._run.changed.values() for node in self._sources(r)} - self._plan.expressions
        for repair in self._needed():
            obstacle = self.verdicts.obstacle(repair)
            if (repair.node in self._gathered and not obstacle) or repair.form in ("drawn", "once"):
                continue
            if repair.blocked == ROUNDED:
                expressions |= self._sources(repair)
                continue
            function = self._function_of(repair.node)
            fixed = function is None or function in self._run.forward or function in self._run.hidden
            if not fixed and function is not None and function not in self._plan.functions:
                if any(o.how == "gather" for o in repair.operands):
                    functions.add(function)
                elif obstacle:
                    (functions if function in self._plan.added_up else added_up).add(function)
            elif obstacle:
                expressions |= self._sources(repair)
        losses = (self._run.wanting | self._of_uneven_batches()) - self._plan.losses
        layers = self._whole_layers()
        at_once = (layers & self._plan.layers) - self._plan.at_once
        layers = layers - self._plan.layers
        added_up -= functions
        if not functions and not added_up:
            expressions -= self._plan.expressions
            self._plan.expressions |= expressions
        calls = self._run.torn_functions - self._plan.calls
        self._plan.calls |= calls
        terms = self._run.to_sum - self._plan.summed
        self._plan.summed |= terms
        self._plan.functions |= functions
        self._plan.added_up |= added_up
        self._plan.losses |= losses
        self._plan.layers |= layers
        self._plan.at_once |= at_once
        is_new = functions or added_up or expressions or losses or layers or at_once or terms or calls
        return bool(is_new) or self._cut_again()

    def _cut_again(self) -> bool:
        """Plans that a worker takes its own of what is made of all rows, where that meets a worker's part of them in
        what also runs on such parts alone: rolled rows in a model, beside the others. True where that is new."""
        met = [r for r in self._needed() if r.why == MEETS and self.verdicts.obstacle(r)]
        meeting = {m for r in met for needs in self._run.meetings.get(r.node, ()) for m in needs if m.form == "whole"}
        made = {m.node for m in meeting if any(operand.how == "gather" for operand in m.operands)}
        made -= {r.node for r in met} | self._plan.cut_again
        self._plan.cut_again |= made
        return bool(made)

    def _of_uneven_batches(self) -> set[cst.CSTNode]:
        """The calls of `compile` of which `train_on_batch` gets parts of a batch that may be unequal, for the sake of
        what the model puts together: their mean is not that of the batch, and nothing weighs them as in `fit`."""
        added = {r for value in self._run.added_losses.values() for r in self._repairs_of(value)}
        found: set[cst.CSTNode] = set()
        for call, compiles in self._run.trained_on_batches.items():
            fits = self._run.fits.get(call, ())
            repairs = {r for _, predicted, loss in fits for value in (predicted, loss) for r in self._repairs_of(value)}
            if puts_together(repairs | added):
                found |= compiles
        return found

    def _whole_layers(self) -> set[cst.CSTNode]:
        """The functions of layers that give all rows of a batch to a model that Keras fits."""
        fitted = [predicted for fits in self._run.fits.values() for _, predicted, _ in fits]
        leaves = [d for predicted in fitted for d in self._run.objects.leaves(predicted)]
        return self._run.whole_layers if any(d.whole or d.placement == v.PARTLY_WHOLE for d in leaves) else set()

    def _mix(self) -> bool:
        """Plans to take means over all rows where other losses, or other parts of the same, need those anyway: means of
        unequal parts are not the mean of all. True where that is new."""
        losses = [(node, value) for node, value in self._run.losses.items() if self._may_share_batches(node)]
        # Of a loss of each row, tapes add the gradients up.
        of_calls = {n: self.verdicts.of(value, n).reduction for n, value in losses if not self._is_by_rows(n)}
        kinds = set(of_calls.values())
        repairs = [r for _, value in losses for r in self._repairs_of(value)]
        gathers = puts_together([*repairs, *needed_anyway(self._run, self.verdicts)])
        planned = self._plan.reductions
        # Batches are then cut as for sums, into parts that may be unequal, or empty.
        gathers |= SUM in kinds and any(o.how == "mean" for r in self._needed() for o in r.operands)
        batches = self._run.trained_on_batches.values()
        gathers |= bool(self._of_uneven_batches()) or any(compiles & self._plan.losses for compiles in batches)
        if "mean" not in planned and (self._are_mixed(of_calls) or (gathers and "mean" in self._run.reductions)):
            planned.add("mean")
            return True
        # `fit` weighs the workers' gradients by their rows, and with them what comes back through what is put together:
        # for their mean, and for no sum.
        by_keras = bool(self._run.compiled) and (gathers or bool(self._plan.losses))
        if SUM in kinds and by_keras and "sum" in self._run.reductions - planned:
            planned |= self._run.reductions
            return True
        # What no reduction of the gradients puts right: then nothing is left to reduce.
        if NONE in kinds and not self._run.reductions <= planned:
            planned |= self._run.reductions
            return True
        return False

    def _may_share_batches(self, call: cst.CSTNode) -> bool:
        """Whether batches that are cut for others may come to the call; to none in a function that nobody calls, and
        that comes by no batches, where others train."""
        is_known = call in self._run.seen_to_run or any(call in calls for calls in self._cut_together)
        return is_known or self._run.seen_to_run.isdisjoint(self._run.losses)

    def _are_mixed(self, kinds: Mapping[cst.CSTNode, str]) -> bool:
        """Whether batches that are cut as one have losses of both kinds; of what batches those others are that no cut
        is known of, is not seen."""
        others = kinds.keys() - {call for calls in self._cut_together for call in calls}
        groups = [*self._cut_together, others]
        return any(len({kinds[n] for n in kinds if n in calls or n in others} - {NONE}) > 1 for calls in groups)

    def _gather_always(self) -> bool:
        """Plans, where nothing else is left, to gather what is rows of a worker whenever it meets something, be that
        made of all rows or not: a queue of rows is a constant at first. True where that is new."""
        met = [r for r in self._needed() if r.why == MEETS and not r.blocked and self.verdicts.obstacle(r)]
        given = {o.node for r in met for o in r.operands if o.how == "gather"}
        new = (given & self._run.seen.keys()) - self._run.not_rows - self._plan.expressions
        self._plan.expressions |= new
        return bool(new)

    def _gather_behind_names(self) -> bool:
        """Plans, where nothing else is left, to put rows together in front of all that makes what a name holds in turn:
        `t = tf.transpose(x, [1, 0, 2]); t = tf.cumsum(t)`. True where that is new."""
        blocked = [r for r in self._needed() if r.blocked and self.verdicts.obstacle(r)]
        found = {node for r in blocked for node in self._sources(r, in_turn=True)}
        new = found - self._run.not_rows - self._plan.expressions
        self._plan.expressions |= new
        return bool(new)

    def _gather_put(self) -> bool:
        """Plans, where nothing else is left, to put rows together where a list gets them that else has what all workers
        have: features of earlier batches behind those that it begins with. True where that is new."""
        mixed = [r for r in self._needed() if r.blocked in (MIXED, IN_PARTS) and self.verdicts.obstacle(r)]
        held = {atom for r in mixed for node in self._run.lost_at[r.node] for atom in self._lists_in(node)}
        put = {node for atom in held for node in self._run.put_in.get(atom, ()) if node is not None}
        new = (put & self._run.seen.keys()) - self._run.not_rows - self._plan.expressions
        self._plan.expressions |= new
        return bool(new)

    def _lists_in(self, node: cst.CSTNode) -> set[Container]:
        """The lists of Python's that the expression names."""
        found = {atom for atom in self._run.seen.get(node, NOTHING) if isinstance(atom, Container)}
        return found.union(*map(self._lists_in, semantic_children(node)))

    def _deal(self) -> bool:
        """Plans, for steps that train on a worker's rows and otherwise on what is made of all of them, that a worker
        takes its own of that, too: samples of earlier batches. True where that is new."""
        training = {self.tree.function_of(call) for call in self._run.losses}
        met = [r for r in self._needed() if not r.blocked and self.verdicts.obstacle(r)]
        steps = training & {self._function_of(r.node) for r in met}
        new: set[cst.CSTNode] = set()
        for (function, _), arrays in self._run.given_arrays.items():
            beside = [node for name, node in arrays.items() if (function, name) in self._run.given_rows]
            if function in steps and not self._run.made_of_all.isdisjoint(beside):
                new.update(node for node in beside if node is not None and None not in beside)
        new -= self._plan.dealt | self._plan.expressions
        self._plan.dealt |= new
        return bool(new)

    def _leave_undivided(self) -> bool:
        """Plans that nothing is put together in calls on what all workers have, where that is all that stands against
        it elsewhere: of a model, to build it; of a function that evaluates. True where that is new."""
        mixed = self._plan.undivided & self._run.divided
        self._plan.undivided -= mixed
        self._plan.divided |= mixed
        met = [r for r in self._needed() if self.verdicts.obstacle(r) and not self._run.plain.has(r)]
        calls = {call for call, plain in self._run.plain_in.items() if any(map(plain.has, met))}
        new = calls - self._plan.undivided - self._plan.divided
        if not new and not mixed:
            new = {c for r in self._needed() if self.verdicts.obstacle(r) == RUNS_WHOLE for c in self._on_whole_data(r)}
        self._plan.undivided |= new
        return bool(new or mixed)

    def _on_whole_data(self, repair: Repair) -> set[cst.CSTNode]:
        """The calls of functions that may be planned so: the innermost ones in which this runs on what all workers
        have, and of those that run on a worker's part as well the ones around them."""
        queue = [*self._run.plain_calls[repair.node]]
        found: set[cst.CSTNode] = set()
        for call in queue:
            if call in self._plan.undivided or not isinstance(call, cst.Call) or call not in self.tree.order:
                continue
            if call not in self._plan.divided and self._is_over_at_once(call) and not self._is_given_parts(call):
                found.add(call)
                continue
            function = self.tree.function_of(call)
            queue += [c for c in self._run.called_at[function] if c not in queue] if function is not None else []
        return found

    def _is_given_parts(self, call: cst.Call) -> bool:
        """Whether it is given, some time, what is not the same on all workers."""
        given = (self._run.seen.get(arg.value, NOTHING) for arg in call.args)
        return any(not d.is_replicated for value in given for d in self._run.objects.leaves(value))

    def _is_over_at_once(self, call: cst.Call) -> bool:
        """Whether functions of the program run there, and have run by the time that it gives what they make: no
        generator, and nothing else that may go on later."""
        called = self._run.seen.get(call.func, NOTHING)
        are_functions = called.data is None and all(isinstance(atom, (Bound, Function)) for atom in called.objects)
        return are_functions and bool(called.objects) and self._holds_data(self._run.seen.get(call, NOTHING))

    def _holds_data(self, value: Value, depth: int = 0) -> bool:
        return depth < _DEEPEST_SOURCE and all(
            all(self._holds_data(item, depth + 1) for item in atom.items)
            if isinstance(atom, Tuple)
            else isinstance(atom, Container)
            and atom.kind in ("list", "dict", "tuple")
            and all(self._holds_data(self._run.heap.load(atom, key), depth + 1) for key in self._run.heap.fields(atom))
            for atom in value.objects
        )

    def _name_means(self) -> bool:
        """Plans to put a mean together where a name gets it that several calls are given: once is enough. True where
        that is new."""
        reads: dict[cst.CSTNode, set[cst.CSTNode]] = defaultdict(set)
        of_calls: set[cst.CSTNode] = set()
        for repair in self._needed():
            for operand in repair.operands:
                made = self._given_to(operand.node) if isinstance(operand.node, cst.Name) else set()
                if operand.how == "mean" and len(made) == 1:
                    reads[next(iter(made))].add(operand.node)
                    of_calls |= made if repair.form == "call" else set()
        several = {made for made in of_calls if len(reads[made]) > 1} - self._plan.expressions
        new = {made for made in several if self._is_mean(self._run.seen.get(made, NOTHING))}
        self._plan.expressions |= new
        return bool(new)

    @staticmethod
    def _is_mean(value: Value) -> bool:
        return value.data is not None and value.data.placement == Partial("mean") and not value.objects

    def _is_by_rows(self, call: cst.CSTNode) -> bool:
        """Whether the gradients that the call takes are those by rows, as of a penalty: however they are added up to
        one number first, each row has its own."""
        leaves = list(self._run.objects.leaves(self._run.gradients.get(call, NOTHING)))
        return bool(leaves) and all(isinstance(d.placement, Sharded) for d in leaves)

    def _repairs_of(self, value: Value) -> Iterable[Repair]:
        return (r for d in self._run.objects.leaves(value) for r in d.needs)

    def _sources(self, repair: Repair, *, in_turn: bool = False) -> set[cst.CSTNode]:
        """The expressions of which what the repair needs whole is made, where they are the rows of a batch as such, or
        the number of them; `in_turn`: also through names that get one thing after the other."""
        found: set[cst.CSTNode] = set()
        for node in self._run.lost_at.get(repair.node, ()):
            found |= self._rows_behind(node, 0, set() if in_turn else None)
        return found

    def _rows_behind(self, node: cst.CSTNode, depth: int, seen: set[cst.CSTNode] | None) -> set[cst.CSTNode]:
        value = self._run.seen.get(node)
        data = value.data if value is not None else None
        if data is None or depth > _DEEPEST_SOURCE:
            return {p for child in semantic_children(node) for p in self._rows_behind(child, depth + 1, seen)}
        if data.multiple_of:
            return set(data.multiple_of)
        if data.is_replicated or node in self._run.losses:  # gradients by rows, which stay what the tape has watched
            return set()
        if data.placement in (Sharded(0), ROWS) and not (data.symbolic or data.listed):
            return {node}
        if isinstance(node, cst.Name):
            given = self._given_to(node)
            if seen is None:
                given = given if len(given) == 1 else set()
            else:
                given -= seen
                seen |= given
            return {p for part in given for p in self._rows_behind(part, depth + 1, seen)}
        return {p for child in semantic_children(node) for p in self._rows_behind(child, depth + 1, seen)}

    def _given_to(self, name: cst.Name) -> set[cst.CSTNode]:
        """The expressions that the name gets in its function; none where it gets others besides."""
        scope = self.tree.scope_of(name).lookup(name.value)
        bindings = scope.bindings[name.value] if scope is not None else []
        parts = [part_at(b.value, b.path) for b in bindings if b.kind == "assign" and b.value is not None]
        values = {part for part in parts if part is not None}
        function = self.tree.function_of(name)
        is_all = len(values) == len(bindings) and all(self.tree.function_of(part) is function for part in values)
        return values if is_all else set()

    def _needed(self) -> set[Repair]:
        values = [*self._run.losses.values(), *self._run.added_losses.values()]
        values += [
            value for fits in self._run.fits.values() for _, predicted, loss in fits for value in (predicted, loss)
        ]
        values += [self._run.seen[node] for node in self._numbers if node in self._run.seen]
        return {r for value in values for d in self._run.objects.leaves(value) for r in d.needs}

    def _function_of(self, node: cst.CSTNode) -> cst.CSTNode | None:
        child = node
        for owner in self.tree.ancestors(node):
            if isinstance(owner, (cst.FunctionDef, cst.Lambda)) and child is owner.body:
                return owner
            child = owner
        return None
