"""How a loss adds up over the workers, and what has to be put together for that: read off an abstract run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.classes import CUT
from migrator.analysis.left_out import LeftOut
from migrator.analysis.libraries.keras.applying import is_of_tensors
from migrator.analysis.libraries.keras.compiling import is_eager
from migrator.analysis.libraries.keras.hooks import Hook
from migrator.analysis.libraries.tensorflow import VARIABLE
from migrator.analysis.models import standalone
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.packages.sources import Sources
from migrator.analysis.placement import ROWS, Placement, Sharded, Unknown, options
from migrator.analysis.placing import MEETS
from migrator.analysis.plan import Plan
from migrator.analysis.planning import Planner
from migrator.analysis.run import Run, comes_to_an_end
from migrator.analysis.values import Data, Instance, Repair, Value
from migrator.analysis.verdicts import MEAN, NONE, NOT_RUN, SUM, Verdict, Verdicts, kinds_of, needed_anyway
from migrator.facts.names import run_by_keras
from migrator.facts.program.modules import Script
from migrator.facts.program.tree import FunctionLike, Tree

# Functions whose arguments are put together, from the inside outwards: so many rounds at most.
_MOST_ROUNDS = 7
_DEEPEST_STRUCTURE = 4
# Of a loss that each worker computes for the whole batch the mean is the loss, whatever it is made of.
_WHOLE = Verdict(MEAN)


class Losses:
    """`readers`, `datasets`, `rows`, `sizes`, `reduced`, `watched`, `combined`, `models`, `said`, `sources`, `written`,
    `cuts`, `whole`: see Run. `sites`: where the script trains, in functions that are called or not; `entries`: those
    that are not, see there. `numbers`: what the script decides by; where there is any, each row of a batch is on one
    worker, so that means are taken over all rows.
    `gathered`: expressions around which all rows are put together for that.
    `cut_together`: see Planner. `runs`: those of the same program that were asked of other `numbers`, `gathered` and
    `combined`, by their plans; None is one that came to no end. The program is run once for each plan. `branches`: of
    which these runs have left out one way, whatever they put together; more are added."""

    def __init__(
        self,
        tree: Tree,
        scripts: Sequence[Script],
        readers: Collection[cst.CSTNode],
        rows: Collection[cst.CSTNode],
        sizes: Collection[cst.CSTNode],
        reduced: Collection[cst.CSTNode],
        watched: Collection[cst.CSTNode],
        sites: Collection[cst.CSTNode],
        entries: Mapping[cst.FunctionDef, bool],
        models: Collection[cst.CSTNode] = (),
        said: Mapping[cst.CSTNode, str] | None = None,
        numbers: Collection[cst.CSTNode] = (),
        gathered: Collection[cst.CSTNode] = (),
        datasets: Collection[cst.CSTNode] = (),
        combined: Collection[cst.CSTNode] = (),
        sources: Sources | None = None,
        written: Mapping[cst.CSTNode, Collection[cst.CSTNode]] | None = None,
        cut_together: Sequence[Collection[cst.CSTNode]] = (),
        cuts: bool = True,
        runs: dict[object, Run | None] | None = None,
        branches: set[cst.CSTNode] | None = None,
        whole: Collection[cst.CSTNode] = (),
    ) -> None:
        self.tree = tree
        self._gathered = gathered
        branches = set() if branches is None else branches
        self._plan = Plan(expressions=set(gathered), reductions={MEAN} if numbers else set(), branches=set(branches))
        self.too_much = False
        known = {"readers": readers, "rows": rows, "sizes": sizes, "reduced": reduced, "models": models, "whole": whole}
        known.update(datasets=datasets, combined=combined, watched=watched)
        runs = {} if runs is None else runs
        least = (Plan(branches=set(branches)).key, frozenset[cst.CSTNode]())
        if least in runs and runs[least] is None:  # what comes to no end with nothing planned does not with more to do
            self.too_much = True
            return
        rounds = 0
        while True:
            key = (self._plan.key, frozenset(combined))
            if key not in runs:
                plan = self._plan.copy()
                run = Run(tree, scripts, **known, plan=plan, said=said, sources=sources, written=written, cuts=cuts)
                runs[key] = run if comes_to_an_end(run, entries) else None
            found = runs[key]
            if found is None:
                self.too_much = True
                return
            self._run = found
            self._plan = found.plan.copy()  # which it may have added to
            self._verdicts = Verdicts(tree, found)
            left_out = LeftOut(tree, self._run).conditions(sites) - self._plan.branches
            self._plan.branches |= left_out
            branches |= left_out
            if left_out:
                continue
            mixed = self._plan.undivided & found.divided
            if rounds >= _MOST_ROUNDS and not mixed:
                return
            if rounds >= _MOST_ROUNDS:  # what was found of these does not hold
                self._plan.undivided -= mixed
                self._plan.divided |= mixed
                continue
            planner = Planner(tree, self._run, self._plan, self._verdicts, numbers, gathered, cut_together)
            if not planner.is_changed():
                return
            rounds += 1

    # -- questions -----------------------------------------------------------------------------------------------

    def of(self, call: cst.CSTNode) -> Verdict:
        """The loss of which the call takes gradients, or which it minimises."""
        if self.too_much:
            return Verdict(NONE, why="the program is too large to be followed")
        if not self._run.cuts:
            return self._of_whole
        value = self._run.losses.get(call, self._run.whole_losses.get(call))
        return (self._verdicts.changed or self._verdicts.of(value, call)) if value is not None else NOT_RUN

    def asks_for_form(self, match: cst.Match) -> bool:
        """Whether nothing but the form of its subject decides which case of it is met, and all workers have the same: a
        batch is taken apart."""
        return not self.too_much and match.subject in self._run.seen and match.subject not in self._run.compares

    def are_same(self, call: cst.Call) -> bool:
        """Whether all workers take gradients of the same loss there, without any repair."""
        verdict = self.of(call)
        return verdict.is_agreed and not verdict.repairs

    def of_fit(self, call: cst.CSTNode) -> Verdict:
        """The loss that Keras's `fit` makes of what the model is compiled with."""
        if self.too_much:
            return Verdict(NONE, why="the program is too large to be followed")
        if not self._run.cuts:
            return self._of_whole
        fits = self._run.fits.get(call, ())
        return (
            (self._verdicts.changed or self._verdicts.of(v.join_all(loss for _, _, loss in fits), call))
            if fits
            else NOT_RUN
        )

    @property
    def _of_whole(self) -> Verdict:
        """Of what is not split. Where nobody is seen to run a step, what it runs is not seen either: a random model
        that nothing trains has to be sent, too."""
        return NOT_RUN if self._run.alone else _WHOLE

    def of_forward(self, call: cst.CSTNode) -> Verdict:
        """What the model predicts in training: "mean" where each sample is by itself, given the repairs."""
        if self.too_much:
            return NOT_RUN
        if not self._run.cuts:
            return self._of_whole
        fits = self._run.fits.get(call, ())
        if not fits:
            return NOT_RUN
        leaves = [d for _, predicted, _ in fits for d in self._run.objects.leaves(predicted)]
        lost = next((k for d in leaves for k in kinds_of(d) if isinstance(k, Unknown)), None)
        if lost is None and any(d.whole for d in leaves):
            lost = Unknown("the model gives all rows of a batch, where Keras takes those of a worker")
        if lost is not None:
            return Verdict(NONE, why=lost.why, node=self._verdicts.where(lost, call))
        return self._verdicts.repairable(MEAN, frozenset(r for d in leaves for r in d.needs))

    @property
    def hooks(self) -> dict[cst.CSTNode, list[Hook]]:
        """What the program sets that Keras runs or reads then, and that is not followed, by where that
        is: of a model, where Keras trains it."""
        if self.too_much:
            return {}
        trained = {a.site.node for a in self._run.trained_by_keras if isinstance(a, (v.Made, Instance))}
        apart = self._run.called_apart
        found = {node: [h for h in hooks if _is_run(h, trained, apart)] for node, hooks in self._run.hooks.items()}
        return {node: sorted(hooks, key=lambda h: h[:2]) for node, hooks in found.items() if hooks}

    @property
    def whole_compiles(self) -> set[cst.CSTNode]:
        """The calls of `compile` of which the loss has to be given the whole batch."""
        return self._plan.losses

    @property
    def undivided(self) -> set[cst.CSTNode]:
        """The calls of models on what all workers have in which nothing is to be put together."""
        return set() if self.too_much else self._plan.undivided

    def of_added(self, call: cst.CSTNode) -> Verdict:
        """What the call of `add_loss` adds."""
        if not self.too_much and not self._run.cuts:
            return self._of_whole
        value = self._run.added_losses.get(call) if not self.too_much else None
        return (self._verdicts.changed or self._verdicts.of(value, call)) if value is not None else NOT_RUN

    def of_fed(self, fit: cst.CSTNode) -> dict[cst.CSTNode, Verdict]:
        """What metrics are given while `fit` trains, by the calls that give it: rows, which each worker has its own of,
        as good as a mean."""
        several = [self._run.fed.get(of, {}) for of in (fit, None)] if not self.too_much else []
        return {node: self._of_fed(data, node) for fed in several for node, data in fed.items()}

    def of_told(self, fit: cst.CSTNode) -> dict[cst.CSTNode, Verdict]:
        """What metrics of the program's own classes tell that the fitted model keeps, by the calls that make them."""
        told = self._run.told.get(fit, {}) if not self.too_much else {}
        return {node: self._verdicts.of(value, node) for node, value in told.items()}

    def _of_fed(self, data: Collection[Data], node: cst.CSTNode) -> Verdict:
        numbers = [kind for d in data if not isinstance(d.placement, Sharded) for kind in kinds_of(d)]
        lost = next((kind for kind in numbers if isinstance(kind, Unknown)), None)
        if lost is not None or {MEAN, SUM} <= set(numbers):
            return Verdict(NONE, why=lost.why if lost is not None else "some of it is a mean, some a sum", node=node)
        # What metrics tell is asked of them by themselves.
        repairs = frozenset(r for d in data for r in d.needs if r.form != "metric")
        return self._verdicts.repairable(SUM if SUM in numbers else MEAN, repairs)

    def of_number(self, node: cst.CSTNode) -> Verdict:
        """A number that the script decides by or tells."""
        value = self._run.seen.get(node) if not self.too_much else None
        if value is None:
            return NOT_RUN
        leaves = list(self._run.objects.leaves(value))
        if all(isinstance(p, Sharded) for d in leaves for p in options(d.placement)):
            return Verdict(NONE, why="it is a number for each sample", node=node)
        if leaves and all(d.placement == ROWS for d in leaves):
            return self._verdicts.repairable(SUM, frozenset(r for d in leaves for r in d.needs))
        return self._verdicts.of(value, node)

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

    def run_at(self, call: cst.Call) -> list[FunctionLike] | None:
        """The functions of the program that the call runs, and no other; None where not all of them are seen."""
        value = self._run.seen.get(call.func) if not self.too_much else None
        if value is None or (value.data is not None and value.data.constant is not None) or not value.objects:
            return None  # None, which `table.get("step")` may give, runs nothing
        found = [atom.function if isinstance(atom, v.Bound) else atom for atom in value]
        nodes = [atom.node for atom in found if isinstance(atom, v.Function)]
        return nodes if len(nodes) == len(found) else None

    def met_at(self, call: cst.Call) -> list[FunctionLike]:
        """The functions of the program that the call was seen to run, whether or not it may run others, too."""
        value = self._run.seen.get(call.func) if not self.too_much else None
        atoms = (atom.function if isinstance(atom, v.Bound) else atom for atom in value or ())
        return [atom.node for atom in atoms if isinstance(atom, v.Function)]

    def is_symbolic(self, node: cst.CSTNode) -> bool:
        """Whether the value is a tensor of a functional model that is built, and no number."""
        value = self._run.seen.get(node) if not self.too_much else None
        leaves = list(self._run.objects.leaves(value)) if value is not None else []
        return bool(leaves) and all(d.symbolic for d in leaves)

    def is_told_in_step(self, call: cst.CSTNode) -> bool:
        """Whether a step of `fit` asks there a Mean of numbers, one for each batch, for its result."""
        return not self.too_much and call in self._run.libraries.keras.told_in_steps

    def is_told_mixed(self, call: cst.CSTNode) -> bool:
        """Whether a metric is asked there that has counted what all workers have, beside a worker's rows."""
        return not self.too_much and call in self._run.libraries.keras.told_mixed

    @property
    def told_apart(self) -> set[cst.CSTNode]:
        """The calls that ask a metric in a step of `fit` for what is each worker's own, be it told the same numbers."""
        return set() if self.too_much else self._run.libraries.keras.told_apart

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

    def calls_on_whole_data(self, repair: Repair) -> list[cst.CSTNode]:
        """The calls of models, on what all workers have, in which this runs."""
        return [] if self.too_much else [c for c, plain in self._run.plain_in.items() if plain.has(repair)]

    def is_share(self, node: cst.CSTNode) -> bool:
        """Whether it is a dictionary of which each worker has its rows: what is under each key is known."""
        value = self._run.seen.get(node) if not self.too_much else None
        return bool(value and value.objects) and all(
            isinstance(atom, v.Container) and atom.site.context[-1:] == (CUT,) for atom in value or ()
        )

    def can_be_sent(self, node: cst.CSTNode) -> bool:
        """Whether workers may send each other the value: numbers, text, arrays, tensors, variables and lists of these,
        and no iterator, dataset, function or other object."""
        value = self._run.seen.get(node) if not self.too_much else None
        return value is None or self._can_be_sent(value)

    def _can_be_sent(self, value: Value, depth: int = 0) -> bool:
        for atom in value if depth < _DEEPEST_STRUCTURE else ():
            if isinstance(atom, v.Tuple):
                parts = list(atom.items)
            elif isinstance(atom, v.Container) and atom.kind in ("list", "dict"):
                heap = self._run.heap
                parts = [heap.load(atom, key) for key in (None, *heap.fields(atom))]
            elif (isinstance(atom, v.Made) and atom.path == VARIABLE) or isinstance(atom, (v.External, v.Method)):
                continue  # a constant, an attribute
            else:
                return False
            if not all(self._can_be_sent(part, depth + 1) for part in parts):
                return False
        return True

    def is_plain(self, node: cst.CSTNode) -> bool:
        """Whether the value is a number, a text or an array of the program's or of NumPy's, the same on all workers."""
        value = self._run.seen.get(node) if not self.too_much else None
        if value is None or value.data is None or value.objects:
            return False
        return value.data.is_replicated and not (value.data.foreign or value.data.needs or value.data.symbolic)

    def is_variable(self, node: cst.CSTNode) -> bool:
        """Whether the value is surely a variable itself, or a tuple of such, and not what that holds just then."""
        value = self._run.seen.get(node) if not self.too_much else None
        return value is not None and _is_variable(value)

    def is_number(self, node: cst.CSTNode, *, whole: bool = True) -> bool:
        """Whether the value is surely a single number or text; not a `whole` one."""
        value = self._run.seen.get(node) if not self.too_much else None
        if value is None or value.data is None or value.objects:
            return False
        return value.data.rank == 0 and (whole or not value.data.integral)

    def number_of_items(self, node: cst.CSTNode) -> int | None:
        """How many items the tuple or list has on every way there; None where that is not seen."""
        numbers = self.numbers_of_items(node)
        return next(iter(numbers)) if len(numbers) == 1 else None

    def numbers_of_items(self, node: cst.CSTNode) -> set[int]:
        """How many items the tuple or list has on the ways there; empty where that is not seen of all."""
        value = self._run.seen.get(node) if not self.too_much else None
        if value is None or value.data is not None:
            return set()
        several = [self._run.objects.sequence_items(v.of(atom)) for atom in value]
        return {len(items) for items in several if items is not None} if None not in several else set()

    def is_dictionary(self, node: cst.CSTNode) -> bool:
        """Whether it surely is a dictionary that the script makes."""
        value = self._run.seen.get(node) if not self.too_much else None
        if value is None or value.data is not None or not value.objects:
            return False
        return all(isinstance(atom, v.Container) and atom.kind == "dict" for atom in value)

    def is_batch_of_parts(self, node: cst.CSTNode) -> bool:
        """Whether it is a batch that has several parts, as many on all workers: what has keys of these is a
        dictionary."""
        value = self._run.seen.get(node) if not self.too_much else None
        data = value.data if value is not None and not value.objects else None
        return data is not None and data.nested and isinstance(data.placement, Sharded)

    def gives_several(self, node: cst.CSTNode) -> bool:
        """Whether an operation gives a list of tensors there, or one that has the samples along another axis than the
        first: a loop goes through as many on all workers, whatever they hold."""
        value = self._run.seen.get(node) if not self.too_much else None
        if value is None or value.data is None:
            return value is not None and node in self._run.lists
        cut = value.data.placement
        return isinstance(cut, Sharded) and cut.axis > 0 and not value.data.nested and not value.objects

    def is_rows(self, node: cst.CSTNode) -> bool:
        """Whether the value is rows that can be gathered, a worker's part of a batch whenever the node runs."""
        value = self._run.seen.get(node) if not self.too_much else None
        data = value.data if value is not None and not value.objects else None
        if data is None or data.symbolic or data.masked or node in self._plan.expressions:
            return False
        if self.tree.is_in(node, self._run.with_gradients):
            return False
        if data.listed and isinstance(node, cst.BaseExpression) and self.array_in(node) is node:
            return False  # a list is gathered item by item
        return node not in self._run.not_rows

    def has_rows(self, node: cst.CSTNode) -> bool | None:
        """Of an expression that is to get a worker's rows, whether it has any; False where it is a number whenever it
        runs, None where it never does."""
        if self.too_much or node in self._run.batches:
            return True
        return False if node in self._run.numbers else None

    def is_object(self, node: cst.CSTNode) -> bool:
        """Whether what is to get a worker's rows may be an object of the script's, of which nothing says what its rows
        are: what it gives for a slice, or for a name, may be anything."""
        return not self.too_much and node in self._run.objects_cut

    def whole_in(self, node: cst.CSTNode) -> list[str]:
        """The names under which a batch that is to be cut holds a number, that of all rows, whenever it runs."""
        if self.too_much:
            return []
        return sorted(self._run.numbers_in.get(node, set()) - self._run.rows_in.get(node, set()))

    def may_be_a_row(self, node: cst.Subscript) -> bool:
        """Whether the item is a part of a structure, or a row: what it is taken of may be either."""
        value = self._run.seen.get(node.value) if not self.too_much else None
        return value is not None and value.data is not None and value.data.nested

    def array_in(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The array of which the expression makes a list: rows are put together before that."""
        return node if self.too_much else self._run.placing.repairing.unlisted(node)

    def has_row_of_each(self, node: cst.CSTNode) -> bool:
        """Whether the value is rows, one of each sample, in their order."""
        value = self._run.seen.get(node) if not self.too_much else None
        return value is not None and value.data is not None and value.data.placement == Sharded(0)

    def may_be_rows(self, node: cst.CSTNode) -> bool:
        """Whether the value may be all rows of a batch without being seen as that: none has told how many it holds."""
        value = self._run.seen.get(node) if not self.too_much else None
        data = value.data if value is not None else None
        return data is not None and data.is_replicated and not data.whole and data.rank != 0

    def is_apart(self, node: cst.CSTNode) -> bool:
        """Whether the value does not stand beside a worker's rows there: rows look up in it, or a worker takes its own
        of it."""
        return not self.too_much and (node in self._plan.dealt or node in self._run.tables - self._run.not_tables)

    def meets_rows(self, node: cst.CSTNode) -> bool:
        """Whether a worker's rows, or what is made of them, enter the value as such."""
        value = self._run.seen.get(node) if not self.too_much else None
        leaves = self._run.objects.leaves(value) if value is not None else ()
        return any(not d.is_replicated for d in leaves)

    @property
    def needed_anyway(self) -> set[Repair]:
        """What is put together whether it is trained on or not: random numbers for the rows of a worker, as what is
        drawn next depends on how many there were, and rows that meet what all workers have of the same batch."""
        return needed_anyway(self._run, self._verdicts) if not self.too_much else set()

    @property
    def works_apart(self) -> bool:
        """Whether a worker's rows go through a model, a layer or weights, or what is not seen may be one."""
        return self.too_much or bool(self._run.work or self._run.trusted)

    @property
    def left_open(self) -> set[cst.CSTNode]:
        """The sizes, where they are written, that say how many rows a batch has, and become None: see claims.py."""
        return set() if self.too_much else self._run.left_open

    @property
    def filled(self) -> set[cst.CSTNode]:
        """What makes rows of samples out of one number, which look up in a table in a graph, see lookups.py."""
        return set() if self.too_much or not self._run.cuts else self._run.filled

    @property
    def for_all(self) -> set[cst.CSTNode]:
        """What looks up in a table for all samples at once, outside of graphs, see lookups.py."""
        found = self._for_all
        return found and found - self._run.not_for_all

    @property
    def looked_up_in_two_ways(self) -> set[cst.CSTNode]:
        """The same of what looks up rows of samples on another way, or where no indices are written."""
        found = self._for_all
        return found and found & self._run.not_for_all

    @property
    def _for_all(self) -> set[cst.CSTNode]:
        if self.too_much or not self._run.cuts:
            return set()
        run = self._run
        in_keras = run.for_all_in_keras if run.trains_eagerly or is_eager(run) else set()
        return run.for_all | in_keras

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

    def standalone_models(self, sent: Iterable[cst.CSTNode], *, any_made: bool = False) -> set[cst.CSTNode]:
        """The calls that make models which run on data, start at random and are no part of another one, nor of what is
        sent; of `any_made` such, whether or not they are seen to run."""
        return standalone(self._run, sent, any_made=any_made) if not self.too_much else set()

    @property
    def given_unseen(self) -> set[cst.CSTNode]:
        """The functions that nobody is seen to call, or that another library may, with what is not seen."""
        return set() if self.too_much else self._run.alone | self._run.handed

    @property
    def trusted(self) -> dict[cst.CSTNode, str]:
        """Where layers and models are made, or called, that are taken to work on each sample by itself, as Keras's do;
        with their dotted names, where these are seen."""
        return {} if self.too_much or not self._run.cuts else self._run.trusted

    @property
    def trusted_rows(self) -> dict[cst.CSTNode, str]:
        """Where rows of a batch are taken to stay apart, and what is not seen of them: their SIZE where a reshape may
        put two into one, their AXES where vectors may stand beside columns."""
        return {} if self.too_much or not self._run.cuts else self._run.trusted_rows

    @property
    def baked(self) -> set[cst.CSTNode]:
        """Where Python's state is read while a step is traced, and changes between two traces, see changing.py."""
        return set() if self.too_much or not self._run.cuts else self._run.baked

    @property
    def needed_words(self) -> set[cst.CSTNode]:
        """The expressions of which the user's word says what would not be known, or known otherwise, without it."""
        return set() if self.too_much else self._run.needed_words

    @property
    def contradicted(self) -> dict[cst.CSTNode, Placement]:
        """How the expressions stand, as it is seen, of which the user's word says something else."""
        return {} if self.too_much else self._run.contradicted

    @property
    def combined_by_itself(self) -> set[cst.CSTNode]:
        """The expressions of which the user's word says what a few sums and means tell, and all else is seen."""
        return set() if self.too_much else self._run.combined_by_itself

    def obstacle(self, repair: Repair) -> str:
        """Why the repair cannot be written down; empty where it can."""
        return self._verdicts.obstacle(repair)


def _is_variable(value: Value) -> bool:
    only = value.only if value.data is None else None
    if isinstance(only, v.Tuple):
        return bool(only.items) and all(map(_is_variable, only.items))
    return isinstance(only, v.Made) and only.path == VARIABLE


def _is_run(hook: Hook, trained: Collection[cst.CSTNode], apart: set[cst.CSTNode]) -> bool:
    """Whether Keras runs what is set there, given the makers of the models that it trains; or the program does with
    what is a worker's own, and not in a loss, whose functions are followed wherever they come from."""
    if hook.kind == run_by_keras.REPLACED:
        own = hook.of.node if isinstance(hook.of, (v.Class, v.Function)) else None
        return own in apart or (isinstance(own, cst.ClassDef) and not apart.isdisjoint(own.body.body))
    if hook.kind not in (run_by_keras.MODEL, run_by_keras.METRIC) or hook.name in run_by_keras.IN_CALLS:
        return True
    is_one = hook.kind == run_by_keras.MODEL and isinstance(hook.of, (v.Made, Instance))
    return hook.of.site.node in trained if is_one else bool(trained)  # type: ignore[union-attr]
