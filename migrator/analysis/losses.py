"""How a loss adds up over the workers, and what has to be put together for that: read off an abstract run."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.libraries.keras.applying import is_of_tensors
from migrator.analysis.models import standalone
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.packages.sources import Sources
from migrator.analysis.placement import ALL_GATHER, ROWS, Partial, Replicated, Scaled, Sharded, Unknown, options
from migrator.analysis.placing import MEETS
from migrator.analysis.placing.ranks import UNKNOWN
from migrator.analysis.placing.repairing import ROUNDED
from migrator.analysis.run import Plan, Run, TooMuch
from migrator.analysis.values import NOTHING, Data, Instance, Repair, Value
from migrator.facts.program.modules import Script
from migrator.facts.program.syntax import part_at
from migrator.facts.program.tree import Tree, semantic_children
from migrator.records import dataclass, replace

MEAN, SUM, NONE = "mean", "sum", ""
# Functions whose arguments are put together, from the inside outwards: so many rounds at most.
_MOST_ROUNDS = 5
_DEEPEST_SOURCE = 12
_DEEPEST = 6_000  # Python's own calls, of which each call of the program takes some dozen


@dataclass(frozen=True)
class Verdict:
    """How gradients of a loss are put together: by their "mean" or "sum", given the repairs; or why by neither."""

    reduction: str
    repairs: frozenset[Repair] = frozenset()
    why: str = ""
    node: cst.CSTNode | None = None
    is_agreed: bool = False  # the same on all workers, once it is repaired
    takes_samples: bool = False  # by themselves, at the node: known of all rows, and not of a worker's

    @property
    def meets_unknown(self) -> bool:
        """Whether it is made by what nobody knows, of what is put together for that: it may take gradients, of which
        each worker has its own."""
        return any(repair.why == UNKNOWN for repair in self.repairs)


NOT_RUN = Verdict(NONE, why="nothing in the program is seen to run this")


def puts_together(repairs: Iterable[Repair]) -> bool:
    """Whether rows, or sums over them, are exchanged in the forward pass, and not only means and what sums are divided
    by: then no row may be computed twice, so that workers have unequally many where they do not divide a batch."""
    return any(
        operand.how in ("gather", "sum", "metric", "unknown")
        for repair in repairs
        if repair.form in ("whole", "call", "term", "metric", "drawn")
        for operand in repair.operands
    )


class Losses:
    """`readers`, `datasets`, `rows`, `sizes`, `reduced`, `combined`, `models`, `said`, `sources`: see Run. `entries`:
    functions of interest, called or not. `numbers`: what the script decides by; where there is any, each row of a
    batch is on one worker, so that means are taken over all rows. `gathered`: expressions around which all rows are
    put together for that."""

    def __init__(
        self,
        tree: Tree,
        scripts: Sequence[Script],
        readers: Collection[cst.CSTNode],
        rows: Collection[cst.CSTNode],
        sizes: Collection[cst.CSTNode],
        reduced: Collection[cst.CSTNode],
        entries: Iterable[cst.FunctionDef],
        models: Collection[cst.CSTNode] = (),
        said: Mapping[cst.CSTNode, str] | None = None,
        numbers: Collection[cst.CSTNode] = (),
        gathered: Collection[cst.CSTNode] = (),
        datasets: Collection[cst.CSTNode] = (),
        combined: Collection[cst.CSTNode] = (),
        sources: Sources | None = None,
    ) -> None:
        self.tree = tree
        self._entries = list(dict.fromkeys(entries))
        self._numbers = numbers
        self._gathered = gathered
        self._plan = Plan(expressions=set(gathered), reductions={MEAN} if numbers else set())
        self.too_much = False
        for _ in range(_MOST_ROUNDS):
            known = {"readers": readers, "rows": rows, "sizes": sizes, "reduced": reduced, "models": models}
            known.update(datasets=datasets, combined=combined)
            self._run = Run(tree, scripts, **known, plan=self._plan, said=said, sources=sources)
            limit = sys.getrecursionlimit()
            sys.setrecursionlimit(max(limit, _DEEPEST))
            try:
                self._run.run(self._entries)
            except (TooMuch, RecursionError):
                self.too_much = True
                return
            finally:
                sys.setrecursionlimit(limit)
            if not self._improve() and not self._mix():
                return

    # -- questions -----------------------------------------------------------------------------------------------

    def of(self, call: cst.CSTNode) -> Verdict:
        """The loss of which the call takes gradients, or which it minimises."""
        if self.too_much:
            return Verdict(NONE, why="the program is too large to be followed")
        value = self._run.losses.get(call)
        return (self._changed or self._verdict(value, call)) if value is not None else NOT_RUN

    def are_same(self, call: cst.Call) -> bool:
        """Whether all workers take gradients of the same loss there, without any repair."""
        verdict = self.of(call)
        return verdict.is_agreed and not verdict.repairs

    def of_fit(self, call: cst.CSTNode) -> Verdict:
        """The loss that Keras's `fit` makes of what the model is compiled with."""
        if self.too_much:
            return Verdict(NONE, why="the program is too large to be followed")
        fits = self._run.fits.get(call, ())
        return (self._changed or self._verdict(v.join_all(loss for _, _, loss in fits), call)) if fits else NOT_RUN

    def of_forward(self, call: cst.CSTNode) -> Verdict:
        """What the model predicts in training: "mean" where each sample is by itself, given the repairs."""
        fits = self._run.fits.get(call, ())
        if self.too_much or not fits:
            return NOT_RUN
        leaves = [d for _, predicted, _ in fits for d in self._run.objects.leaves(predicted)]
        lost = next((k for d in leaves for k in _kinds(d) if isinstance(k, Unknown)), None)
        if lost is None and any(d.whole for d in leaves):
            lost = Unknown("the model gives all rows of a batch, where Keras takes those of a worker")
        if lost is not None:
            return Verdict(NONE, why=lost.why, node=self._where(lost, call))
        return self._repairable(MEAN, frozenset(r for d in leaves for r in d.needs))

    def is_own(self, call: cst.CSTNode) -> bool:
        """Whether the model that is fitted computes its loss by itself."""
        return any(
            isinstance(m, Instance) and self._run.objects.method(m, "compute_loss") for m, _, _ in self._run.fits[call]
        )

    @property
    def whole_compiles(self) -> set[cst.CSTNode]:
        """The calls of `compile` of which the loss has to be given the whole batch."""
        return self._plan.losses

    def of_added(self, call: cst.CSTNode) -> Verdict:
        """What the call of `add_loss` adds."""
        value = self._run.added_losses.get(call) if not self.too_much else None
        return (self._changed or self._verdict(value, call)) if value is not None else NOT_RUN

    def of_fed(self, fit: cst.CSTNode) -> dict[cst.CSTNode, Verdict]:
        """What metrics are given while `fit` trains, by the calls that give it: rows, which each worker has its own of,
        as good as a mean."""
        several = [self._run.fed.get(of, {}) for of in (fit, None)] if not self.too_much else []
        return {node: self._of_fed(data, node) for fed in several for node, data in fed.items()}

    def of_told(self, fit: cst.CSTNode) -> dict[cst.CSTNode, Verdict]:
        """What metrics of the program's own classes tell that the fitted model keeps, by the calls that make them."""
        told = self._run.told.get(fit, {}) if not self.too_much else {}
        return {node: self._verdict(value, node) for node, value in told.items()}

    def _of_fed(self, data: Collection[Data], node: cst.CSTNode) -> Verdict:
        numbers = [kind for d in data if not isinstance(d.placement, Sharded) for kind in _kinds(d)]
        lost = next((kind for kind in numbers if isinstance(kind, Unknown)), None)
        if lost is not None or {MEAN, SUM} <= set(numbers):
            return Verdict(NONE, why=lost.why if lost is not None else "some of it is a mean, some a sum", node=node)
        # What metrics tell is asked of them by themselves.
        repairs = frozenset(r for d in data for r in d.needs if r.form != "metric")
        return self._repairable(SUM if SUM in numbers else MEAN, repairs)

    def of_number(self, node: cst.CSTNode) -> Verdict:
        """A number that the script decides by or tells."""
        value = self._run.seen.get(node) if not self.too_much else None
        if value is None:
            return NOT_RUN
        leaves = list(self._run.objects.leaves(value))
        if all(isinstance(d.placement, Sharded) for d in leaves):
            return Verdict(NONE, why="it is a number for each sample", node=node)
        if leaves and all(d.placement == ROWS for d in leaves):
            return self._repairable(SUM, frozenset(r for d in leaves for r in d.needs))
        return self._verdict(value, node)

    def odd_metrics(self, fit: cst.CSTNode) -> set[str]:
        """Of what kind the metrics are that `fit` or `train_on_batch` tells and that are no means over the rows: a
        "class" of Keras's, a "function" or a class of the script's "own"."""
        return {"class", "function", "own"} if self.too_much else self._run.odd_metrics.get(fit, set())

    def is_same(self, node: cst.CSTNode) -> bool:
        """Whether all workers have the value without any repair."""
        value = self._run.seen.get(node) if not self.too_much else None
        leaves = list(self._run.objects.leaves(value)) if value is not None else []
        return bool(leaves) and all(d.is_replicated and not d.needs for d in leaves)

    def is_constant(self, node: cst.CSTNode) -> bool:
        """Whether the value is a literal, the same one on every way there."""
        value = self._run.seen.get(node) if not self.too_much else None
        return value is not None and value.constant is not NOT_CONSTANT

    def is_rounded(self, node: cst.CSTNode) -> bool:
        """Whether the value is a multiple of a number of rows, of which the parts add up to another one; or is made of
        what is put together already so that it is none."""
        value = self._run.seen.get(node) if not self.too_much else None
        leaves = list(self._run.objects.leaves(value)) if value is not None else []
        is_made = any(d.is_replicated and any(r.node is not node for r in d.needs) for d in leaves)
        return is_made or any(d.multiple_of and d.placement == ROWS for d in leaves)

    def is_symbolic(self, node: cst.CSTNode) -> bool:
        """Whether the value is a tensor of a functional model that is built, and no number."""
        value = self._run.seen.get(node) if not self.too_much else None
        leaves = list(self._run.objects.leaves(value)) if value is not None else []
        return bool(leaves) and all(d.symbolic for d in leaves)

    @property
    def symbols(self) -> Iterator[cst.Call]:
        """The calls that give a tensor of a functional model that is built, or several, whenever they run."""
        for node, value in self._run.seen.items() if not self.too_much else ():
            if isinstance(node, cst.Call) and node not in self._run.not_symbolic and self._is_symbol(value):
                yield node

    def _is_symbol(self, value: Value) -> bool:
        if value.data is not None:
            return value.data.symbolic and not value.objects
        several = [self._run.objects.sequence_items(v.of(atom)) for atom in value if is_of_tensors(atom)]
        return (
            bool(several)
            and len(several) == len(value.objects)
            and all(items and all(map(self._is_symbol, items)) for items in several)
        )

    def is_array(self, node: cst.CSTNode) -> bool:
        """Whether the value is numbers, and no object that holds some."""
        value = self._run.seen.get(node) if not self.too_much else None
        return value is not None and value.data is not None and not value.objects

    def number_of_items(self, node: cst.CSTNode) -> int | None:
        """How many items the tuple or list has on every way there; None where that is not seen."""
        value = self._run.seen.get(node) if not self.too_much else None
        if value is None or value.data is not None:
            return None
        several = [self._run.objects.sequence_items(v.of(atom)) for atom in value]
        lengths = {len(items) if items is not None else None for items in several}
        return lengths.pop() if len(lengths) == 1 else None

    def is_rows(self, node: cst.CSTNode) -> bool:
        """Whether the value is rows that can be gathered, a worker's part of a batch whenever the node runs."""
        value = self._run.seen.get(node) if not self.too_much else None
        data = value.data if value is not None and not value.objects else None
        if data is None or data.symbolic or data.masked or node in self._plan.expressions:
            return False
        return node not in self._run.not_rows

    def may_be_a_row(self, node: cst.Subscript) -> bool:
        """Whether the item is a part of a structure, or a row: what it is taken of may be either."""
        value = self._run.seen.get(node.value) if not self.too_much else None
        return value is not None and value.data is not None and value.data.nested

    def array_in(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The array of which the expression makes a list: rows are put together before that."""
        return self._run.placing.repairing.unlisted(node)

    def may_be_rows(self, node: cst.CSTNode) -> bool:
        """Whether the value may be all rows of a batch without being seen as that: none has told how many it holds."""
        value = self._run.seen.get(node) if not self.too_much else None
        data = value.data if value is not None else None
        return data is not None and data.is_replicated and not data.whole and data.rank != 0

    def meets_rows(self, node: cst.CSTNode) -> bool:
        """Whether a worker's rows, or what is made of them, enter the value as such."""
        value = self._run.seen.get(node) if not self.too_much else None
        leaves = self._run.objects.leaves(value) if value is not None else ()
        return any(not d.is_replicated for d in leaves)

    @property
    def drawn(self) -> set[Repair]:
        """What draws random numbers for the rows of a worker, where all can draw those of the whole batch: be they
        trained on or not, what is drawn next depends on how many there were."""
        if self.too_much:
            return set()
        found = {r for repairs in self._run.repairs.values() for r in repairs if r.form == "drawn"}
        return {repair for repair in found if not self.obstacle(repair)}

    @property
    def gathers(self) -> set[Repair]:
        """What puts all rows together around the expressions that were asked for, as far as these still are rows."""
        if self.too_much:
            return set()
        return {repair for node in self._gathered for repair in self._run.repairs.get(node, ())}

    @property
    def put_together(self) -> Iterator[tuple[cst.BaseExpression, frozenset[Repair]]]:
        """What is the same on all workers once it is repaired, with the repairs."""
        are_repaired: dict[int, bool] = {}  # by their ids: many expressions have the same value
        for node, value in self._run.seen.items() if not self.too_much else ():
            is_repaired = are_repaired.get(id(value))
            if is_repaired is None:
                is_repaired = are_repaired[id(value)] = self._is_repaired(value)
            if is_repaired and isinstance(node, cst.BaseExpression):
                verdict = self.of_number(node)
                if verdict.is_agreed and verdict.repairs:
                    yield node, verdict.repairs

    def _is_repaired(self, value: Value) -> bool:
        if not value.objects:
            return value.data is not None and bool(value.data.needs)
        return any(d.needs for d in self._run.objects.leaves(value))

    def with_meetings(self, repairs: Collection[Repair]) -> set[Repair]:
        """The repairs, and those that they make needful: where what is made of all rows then meets a worker's part of
        them, in a metric or a loss that is only told."""
        found = set(repairs)
        for _ in range(len(self._run.meetings) if not self.too_much else 0):
            before = len(found)
            for node, several in self._run.meetings.items():
                if any(needs <= found for needs in several):
                    found |= {r for r in self._run.repairs[node] if r.why == MEETS}
            if len(found) == before:
                break
        return found

    @cached_property
    def standalone_models(self) -> set[cst.CSTNode]:
        """The calls that make models which run on data, start at random and are no part of another one."""
        return standalone(self._run) if not self.too_much else set()

    @property
    def trusted(self) -> dict[cst.CSTNode, str]:
        """Where layers and models are made, or called, that are taken to work on each sample by itself, as Keras's do;
        with their dotted names, where these are seen."""
        return {} if self.too_much else self._run.trusted

    @property
    def trusted_rows(self) -> set[cst.CSTNode]:
        """Where a reshape is taken to put no two rows of a batch into one: the size of the rows is not seen."""
        return set() if self.too_much else set(self._run.trusted_rows)

    @property
    def needed_words(self) -> set[cst.CSTNode]:
        """The expressions of which the user's word says what would not be known, or known otherwise, without it."""
        return set() if self.too_much else self._run.needed_words

    # -- verdicts ------------------------------------------------------------------------------------------------

    def _verdict(self, value: Value, node: cst.CSTNode) -> Verdict:
        if value == NOTHING:
            return Verdict(NONE, why="nothing is seen that could make it", node=node)
        leaves = list(self._run.objects.leaves(value))
        lost = next((k for data in leaves for k in _kinds(data) if isinstance(k, Unknown)), None)
        if lost is not None:
            by_itself = lost.repair == ALL_GATHER
            return Verdict(NONE, why=lost.why, node=self._where(lost, node), takes_samples=by_itself)
        kinds = {kind for data in leaves for kind in _kinds(data)}
        if len(kinds - {_SAME}) > 1 or (kinds - {_SAME} == {SUM} and _SAME in kinds):
            return Verdict(NONE, why="some of it is a mean over the batch, some a sum", node=node)
        verdict = self._repairable(SUM if SUM in kinds else MEAN, frozenset(r for d in leaves for r in d.needs))
        return replace(verdict, is_agreed=kinds == {_SAME} and bool(verdict.reduction))

    @property
    def _changed(self) -> Verdict | None:
        """Why no loss is known: which names hold the rows that are changed in place somewhere is not followed."""
        repair = next(iter(self._run.changed.values()), None)
        return Verdict(NONE, why=f"{repair.why}; {repair.blocked}", node=repair.node) if repair is not None else None

    def _where(self, lost: Unknown, asked: cst.CSTNode) -> cst.CSTNode:
        """The very expression that is not understood, where it stands in the file that asks."""
        node = self._run.where_lost(lost)
        return node if node is not None and self.tree.module_of(node) is self.tree.module_of(asked) else asked

    def _repairable(self, reduction: str, repairs: frozenset[Repair]) -> Verdict:
        for repair in sorted(repairs, key=lambda r: (self.tree.order.get(r.node, -1), r.why)):
            obstacle = self.obstacle(repair)
            if obstacle:
                place = repair.node if repair.node in self.tree.order else None  # none is in the code of packages
                return Verdict(NONE, why=f"{repair.why}; {obstacle}" if repair.why else obstacle, node=place)
        return Verdict(reduction, repairs)

    def obstacle(self, repair: Repair) -> str:
        """Why the repair cannot be written down; empty where it can."""
        if repair.blocked:
            return repair.blocked
        if repair.node in self._run.torn:
            return "one of several functions is called here, and others take a worker's part"
        if len([r for r in self._run.repairs[repair.node] if r.form == repair.form]) > 1:
            return "it gets other parts of a batch on other ways"
        if repair.form == "once":
            return "it also counts a worker's part of the rows" if repair.node in self._run.fed_parts else ""
        harmless = all(operand.how == "mean" for operand in repair.operands)
        runs_whole = self._run.plain.has(repair) or (self._run.left_alone.has(repair) and not _is_left_alone(repair))
        if runs_whole and not harmless:
            return "it also runs on whole batches, as in an evaluation"
        return ""

    # -- where to put together ------------------------------------------------------------------------------------

    def _improve(self) -> bool:
        """Plans to put rows together further out: around the arguments of a function that gathers, where what stands
        inside of it cannot be repaired, or only in several places; where the rows come from; and what Keras applies.
        """
        functions = set()
        expressions = {node for r in self._run.changed.values() for node in self._sources(r)} - self._plan.expressions
        for repair in self._needed():
            obstacle = self.obstacle(repair)
            if (repair.node in self._gathered and not obstacle) or repair.form in ("drawn", "once"):
                continue
            if repair.blocked == ROUNDED:
                expressions |= self._sources(repair)
                continue
            function = self._function_of(repair.node)
            fixed = function is None or function in self._run.forward or function in self._run.hidden
            if not fixed and function is not None and function not in self._plan.functions:
                if obstacle or any(o.how == "gather" for o in repair.operands):
                    functions.add(function)
            elif obstacle:
                expressions |= self._sources(repair)
        losses = (self._run.wanting | self._of_uneven_batches()) - self._plan.losses
        layers = self._whole_layers()
        at_once = (layers & self._plan.layers) - self._plan.at_once
        layers = layers - self._plan.layers
        if not functions:
            expressions -= self._plan.expressions
            self._plan.expressions |= expressions
        terms = self._run.to_sum - self._plan.summed
        self._plan.summed |= terms
        self._plan.functions |= functions
        self._plan.losses |= losses
        self._plan.layers |= layers
        self._plan.at_once |= at_once
        return bool(functions or expressions or losses or layers or at_once or terms) or self._cut_again()

    def _cut_again(self) -> bool:
        """Plans that a worker takes its own of what is made of all rows, where that meets a worker's part of them in
        what also runs on such parts alone: rolled rows in a model, beside the others. True where that is new."""
        met = [r for r in self._needed() if r.why == MEETS and self.obstacle(r)]
        made = {m.node for r in met for needs in self._run.meetings.get(r.node, ()) for m in needs if m.form == "whole"}
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
        losses = self._run.losses.items()
        trained = [(n, value) for n, value in losses if not self._is_by_rows(n)]
        kinds = {self._verdict(value, n).reduction for n, value in trained if not self._is_of_samples(value)}
        # Of a loss of each row, tapes add the gradients up.
        kinds |= {SUM for n, value in trained if self._is_of_samples(value) and self._is_of_weights(n)}
        repairs = [r for value in self._run.losses.values() for r in self._repairs_of(value)]
        gathers = puts_together([*repairs, *self.drawn])
        planned = self._plan.reductions
        # Batches are then cut as for sums, into parts that may be unequal, or empty.
        of_samples = {r for _, value in losses if self._is_of_samples(value) for r in self._repairs_of(value)}
        gathers |= any(o.how == "mean" for r in (self._needed() if SUM in kinds else of_samples) for o in r.operands)
        batches = self._run.trained_on_batches.values()
        gathers |= bool(self._of_uneven_batches()) or any(compiles & self._plan.losses for compiles in batches)
        if "mean" not in planned and (len(kinds - {NONE}) > 1 or (gathers and "mean" in self._run.reductions)):
            planned.add("mean")
            return True
        # What no reduction of the gradients puts right: then nothing is left to reduce.
        if NONE in kinds and not self._run.reductions <= planned:
            planned |= self._run.reductions
            return True
        return False

    def _is_of_samples(self, value: Value) -> bool:
        """Whether it is a number for each sample, as where a penalty takes gradients by the samples."""
        return any(isinstance(d.placement, Sharded) for d in self._run.objects.leaves(value))

    def _is_by_rows(self, call: cst.CSTNode) -> bool:
        """Whether the gradients that the call takes are those by rows, as of a penalty: however they are added up to
        one number first, each row has its own."""
        leaves = list(self._run.objects.leaves(self._run.seen.get(call, NOTHING)))
        return bool(leaves) and all(isinstance(d.placement, Sharded) for d in leaves)

    def _is_of_weights(self, call: cst.CSTNode) -> bool:
        """Whether the gradients that the call takes are surely none by rows."""
        leaves = list(self._run.objects.leaves(self._run.seen.get(call, NOTHING)))
        return bool(leaves) and not any(isinstance(d.placement, (Sharded, Unknown)) for d in leaves)

    def _repairs_of(self, value: Value) -> Iterable[Repair]:
        return (r for d in self._run.objects.leaves(value) for r in d.needs)

    def _sources(self, repair: Repair) -> set[cst.CSTNode]:
        """The expressions of which what the repair needs whole is made, where they are the rows of a batch as such, or
        the number of them."""
        found: set[cst.CSTNode] = set()
        for node in self._run.lost_at.get(repair.node, ()):
            found |= self._rows_behind(node, 0)
        return found

    def _rows_behind(self, node: cst.CSTNode, depth: int) -> set[cst.CSTNode]:
        value = self._run.seen.get(node)
        data = value.data if value is not None else None
        if data is None or depth > _DEEPEST_SOURCE:
            return {p for child in semantic_children(node) for p in self._rows_behind(child, depth + 1)}
        if data.multiple_of:
            return set(data.multiple_of)
        if data.is_replicated or node in self._run.losses:  # gradients by rows, which stay what the tape has watched
            return set()
        if data.placement in (Sharded(0), ROWS) and not data.symbolic:
            return {node}
        if isinstance(node, cst.Name):
            scope = self.tree.scope_of(node).lookup(node.value)
            bindings = scope.bindings[node.value] if scope is not None else []
            parts = [part_at(b.value, b.path) for b in bindings if b.kind == "assign" and b.value is not None]
            values = [part for part in parts if part is not None]
            if len(values) == len(bindings) == 1 and self.tree.function_of(values[0]) is self.tree.function_of(node):
                return self._rows_behind(values[0], depth + 1)
            return set()
        return {p for child in semantic_children(node) for p in self._rows_behind(child, depth + 1)}

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


_SAME = "same"  # on all workers: as good as a mean


def _is_left_alone(repair: Repair) -> bool:
    """Whether all that is written down is calls of the runtime that do nothing where Keras evaluates."""
    is_put_together = repair.form in ("whole", "call", "given back")
    return is_put_together and all(operand.how in ("gather", "mean", "sum", "shard") for operand in repair.operands)


def _kinds(data: Data) -> Iterable[object]:
    for placement in options(data.placement):
        if isinstance(placement, Partial):
            yield placement.reduction
        elif isinstance(placement, Sharded):
            yield SUM  # a tape sums up what is no number
        elif isinstance(placement, Replicated):
            yield _SAME
        elif isinstance(placement, Scaled):
            yield Unknown("it is divided or multiplied by the size of the batch once too often")
        elif isinstance(placement, Unknown):
            yield placement
        else:
            yield Unknown("each worker has a value of its own")
