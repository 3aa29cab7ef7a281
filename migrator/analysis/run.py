"""An abstract run of a whole program: every statement that may run is run, on values that say what may be.

Loops run until nothing changes, both ways of a branch are taken where its condition is not known, functions run anew
for each kind of arguments that they get. What objects hold is joined over the whole run, which is repeated until it is
stable; names are followed in the order of the statements. What is met on the way is recorded by the nodes of the text.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import libcst as cst

from migrator.analysis import handles
from migrator.analysis import values as v
from migrator.analysis.bindings import Bindings
from migrator.analysis.calls import Arguments, Calls
from migrator.analysis.changing import Changing
from migrator.analysis.classes import Classes
from migrator.analysis.definitions import Definitions
from migrator.analysis.dictionaries import Lacking
from migrator.analysis.evaluations import Evaluations
from migrator.analysis.expressions import Expressions
from migrator.analysis.frames import Frame, Heap
from migrator.analysis.imports import Imports
from migrator.analysis.libraries import Libraries, claims
from migrator.analysis.libraries.keras import unseen_layer
from migrator.analysis.libraries.keras.convention import is_built_layer, sample_by_sample
from migrator.analysis.objects import Objects
from migrator.analysis.packages import Packages
from migrator.analysis.packages.sources import Sources
from migrator.analysis.placement import Local, Partial, Shape, Sharded, Unknown, options
from migrator.analysis.placing import HELD, Placing, giving_back
from migrator.analysis.plan import Plain, Plan
from migrator.analysis.recorded import Recorded
from migrator.analysis.redefined import Redefined
from migrator.analysis.shares import Shares
from migrator.analysis.statements import Statements
from migrator.analysis.truth import asked, outcome
from migrator.analysis.values import (
    NOTHING,
    NUMBER,
    Bound,
    Class,
    Container,
    Data,
    External,
    Function,
    Instance,
    Tuple,
    Value,
)
from migrator.facts.program.modules import Modules, Script
from migrator.facts.program.tree import Tree
from migrator.records import replace

_CALLABLES = (Function, Bound, External, v.Curried)
_MOST_STEPS = 400_000
_MOST_RUNS = 4
_DEEPEST = 6_000  # Python's own calls, of which each call of the program takes some dozen


class TooMuch(Exception):
    """The program is too large to be run in bounded time."""


class Run(Recorded):
    """`readers`: loops and calls whose data each worker has its part of; `datasets`: the expressions that these data
    are; `rows`: expressions that are such parts; `sizes`: numbers that become those of a worker's rows; `whole`:
    where what came with such rows is read that all workers have; `reduced`:
    calls that give gradients of which an update makes those of all workers; `watched`: those of them where that is done
    at once, while another tape watches; `combined`: names whose number all workers add up or average right behind the
    assignment, and numbers of which they do where these stand; `models`: calls of packages that make models; `said`:
    what the user says of expressions, see Stated; `sources`: the packages whose code is run, too; `written`: the calls
    that may read a file, by what is written into it; `cuts`: whether workers share out the batches at all, or have all
    of them."""

    def __init__(
        self,
        tree: Tree,
        scripts: Sequence[Script],
        *,
        readers: Collection[cst.CSTNode] = (),
        datasets: Collection[cst.CSTNode] = (),
        rows: Collection[cst.CSTNode] = (),
        sizes: Collection[cst.CSTNode] = (),
        whole: Collection[cst.CSTNode] = (),
        reduced: Collection[cst.CSTNode] = (),
        watched: Collection[cst.CSTNode] = (),
        combined: Collection[cst.CSTNode] = (),
        models: Collection[cst.CSTNode] = (),
        plan: Plan | None = None,
        said: Mapping[cst.CSTNode, str] | None = None,
        sources: Sources | None = None,
        written: Mapping[cst.CSTNode, Collection[cst.CSTNode]] | None = None,
        cuts: bool = True,
    ) -> None:
        self.tree = tree
        self.cuts = cuts
        self.readers = readers
        self.datasets = datasets
        self.rows = rows
        self.sizes = sizes
        self.whole = whole
        self.reduced = reduced
        self.watched = watched
        self.combined = set(combined)
        self.models = models
        self.plan = plan or Plan()
        self.said = said or {}
        self.written = written or {}
        self.running: list[Frame] = []
        self.changing = Changing(self)
        self.heap = Heap(self.chosen_now, self.changing.note_filled)
        self.imports = Imports(tree, Modules(scripts), self)
        self.statements = Statements(self)
        self.expressions = Expressions(self)
        self.calls = Calls(self)
        self.classes = Classes(self)
        self.objects = Objects(self)
        self.redefined = Redefined(self)
        self.lacking = Lacking(self)
        self.bindings = Bindings(self)
        self.definitions = Definitions(self)
        self.shares = Shares(self)
        self.placing = Placing(self)
        self.evaluations = Evaluations(self)
        self.libraries = Libraries(self)
        self.frames: dict[cst.Module, Frame] = {}
        self.generators: set[cst.CSTNode | None] = {tree.callable_of(node) for node in tree.all_of(cst.Yield)}
        self.steps_left = _MOST_STEPS
        self._chosen_apart: set[v.Atom] = set()  # known from the last time that the program was run, too
        # What decides that exceptions come which the program catches.
        self.tried: list[list[Value]] = []
        # Where gradients are taken of what is made now, in a "graph", in one that "keras" makes, or outside of such
        # ("eager"); empty where no loss is made.
        self.loss_made = ""
        self.packages = Packages(self, sources or Sources((), tree))
        self.is_seen_to_run = True  # whether what runs now is called, or comes by batches that are seen to be split
        super().__init__()  # last: what is made above is none of the records

    def run(self, entries: Mapping[cst.FunctionDef, bool]) -> None:
        """Runs the modules in their order, then those of the `entries` that nobody has called: with what all workers
        have if a worker takes its part in there, else with a part of a batch.

        Raises TooMuch.
        """
        for _ in range(_MOST_RUNS):
            self.heap.is_stale = False
            self.heap.forget_reads()
            self.calls.forget()
            self.forget()
            for module in self.tree.modules:
                self._run_module(module)
            for function, takes_part in entries.items():
                if function not in self.called:
                    self.alone.add(function)
                    self.is_seen_to_run = takes_part
                    self._enter_alone(function, self.shares.unseen() if takes_part else self.shares.batch())
                    self.is_seen_to_run = True
            if not self.heap.is_stale:
                return

    def _run_module(self, module: cst.Module) -> None:
        frame = Frame(self.tree.scopes[module], None)
        frame.names = {"__name__": v.constant("__main__"), "__file__": v.NUMBER}
        # The functions of a module close over one frame, however often it is run: what holds them is as it was.
        known = self.frames.setdefault(module, frame)
        known.__dict__.update(frame.__dict__)
        self.running = [known]
        self.statements.body(module, known)
        if known.names is None:  # `raise SystemExit`, at the end of a script
            known.names = {}

    def _enter_alone(self, function: cst.FunctionDef, given: Value) -> None:
        """Runs a function that nobody calls, with arguments of which nothing else is known; a method also as one of the
        classes that derive from its own."""
        scope = self.tree.scopes[function].parent
        owner = self.tree.class_of(function)
        module = self.frames[self.tree.module_of(function)]
        if owner is not None:
            for cls in self.classes.heirs(self.classes.at(owner) or Class(owner, module)):
                instance = Instance(cls, v.Site(cls.node, ()))
                self.libraries.prepare(instance, Arguments(), cls.node, module)
                init = self.classes.method(instance, "__init__")
                if init is not None:
                    self.calls.call(init, Arguments(rest=v.NUMBER), cls.node, module)
                method = v.of(Bound(Function(function, module), v.of(instance)))
                self.calls.call(method, Arguments(rest=given), function, module)
        elif scope is not None and scope.parent is None:
            self.calls.call(v.of(Function(function, module)), Arguments(rest=given), function, module)

    # -- what is met ---------------------------------------------------------------------------------------------

    def spend(self) -> None:
        self.steps_left -= 1
        if self.steps_left < 0:
            raise TooMuch

    def record(self, node: cst.CSTNode, value: Value) -> None:
        if self.evaluations.entered is not None and value.data is not None and not value.data.is_replicated:
            self.evaluations.note_part()
        before = self.seen.get(node)
        if before is not value:
            joined = value if before is None else v.join(before, value)
            if joined is not before:
                self.seen[node] = joined
            if value.data is not None:
                placement = value.data.placement
                if not value.data.symbolic:
                    self.not_symbolic.add(node)
                if not (isinstance(placement, Sharded) and placement.axis == 0 and placement.blocks == 1):
                    self.not_rows.add(node)
                if isinstance(placement, Unknown):
                    # What is lost is handed on as it is; parts of an expression are recorded before the whole.
                    self._lost_first.setdefault(id(placement), (placement, node))
            elif not all(d.symbolic for d in v.contents(value)):
                self.not_symbolic.add(node)
            if node not in self.not_means and not v.may_be_averaged(value) and not self.is_left_alone:
                self.not_means.add(node)

    def where_lost(self, placement: Unknown) -> cst.CSTNode | None:
        """The first expression that stands nowhere in this way."""
        return self._lost_first.get(id(placement), (placement, None))[1]

    def note_batch_size(self, size: Value) -> None:
        """Notes how many rows batches have."""
        if isinstance(size.constant, int):
            self.batch_sizes.add(size.constant)

    @property
    def plain_now(self) -> Plain:
        """Where to note what is right as it stands, on some way to it."""
        if self.is_left_alone:
            return self.left_alone
        entered = self.evaluations.entered
        return self.plain if entered is None else self.plain_in[entered]

    def runs_plain(self, repair: v.Repair) -> bool:
        """Whether what is repaired also runs on what all workers have, where it does what it does in training."""
        return self.plain.has(repair) or any(plain.has(repair) for plain in self.plain_in.values())

    @property
    def is_left_alone(self) -> bool:
        """Whether code runs in which the runtime puts nothing together."""
        return self.evaluations.are_left_alone

    @property
    def is_traced(self) -> bool:
        """Whether code runs of which TensorFlow makes a graph by itself."""
        return not self.traced.isdisjoint(self.calls.stack)

    def is_traced_with(self, node: cst.CSTNode) -> bool:
        """Whether code runs of which TensorFlow makes a graph, and the node is part of what that is made of."""
        stack = self.calls.stack
        traced = next((i for i, function in enumerate(stack) if function in self.traced), None)
        function = self.tree.callable_of(node) if node in self.tree.order else node
        return traced is not None and function is not None and function not in stack[:traced]

    @property
    def has_open_size(self) -> bool:
        """Whether code runs of which the graph is not told how many rows there are."""
        return not self.of_open_size.isdisjoint(self.calls.stack)

    def trust(
        self, node: cst.CSTNode, found: dict[cst.CSTNode, str], what: str, maker: cst.CSTNode | None = None
    ) -> None:
        """Notes what is taken to keep the rows of a batch apart, unless the user says that it does, there or where it
        is made."""
        said = self._vouching(node) or (self._vouching(maker) if maker is not None else None)
        if said is not None:
            self.needed_words.add(said)
        else:
            found[node] = found.get(node) or what

    def _vouching(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """What the user says of the node, or of what it is a part of, if it is that rows stay apart."""
        return next((n for n in (node, *self.tree.ancestors(node)) if self.said.get(n) == "rows"), None)

    def note_plain(self, node: cst.CSTNode, kind: str = "operations") -> None:
        """Notes an operation, or what else `kind` names, that is right as it stands, on some way to it."""
        getattr(self.plain_now, kind).add(node)
        if not self.is_left_alone:
            self.plain_calls[node].add(self.calls.site)

    def note_plain_repair(self, repair: v.Repair) -> None:
        """Notes that what is repaired there also runs on what all workers have."""
        for kind in Plain._fields:
            self.note_plain(repair.node, kind)

    def note_repair(self, repair: v.Repair) -> None:
        self.repairs[repair.node].add(repair)
        self.evaluations.note_part()

    def note_hidden(self, function: Value) -> None:
        """Notes functions that Keras calls, so that nothing can be written around their arguments."""
        self.hidden.update(_functions_of(function))

    def note_handed(self, function: Value) -> None:
        """Notes functions that another library may call, with arguments that are not seen."""
        several = (one for atom in function for one in (atom.function if isinstance(atom, v.Curried) else (atom,)))
        self.handed.update(f for one in several if _takes_any(one) for f in _functions_of(v.of(one)))

    def note_traced(self, function: Value, signature: Value | None = None) -> None:
        """Notes functions of which TensorFlow makes graphs: what else they run, runs once, for all shapes if these are
        in their signature."""
        self.traced.update(_functions_of(function))
        self.traced_models.update(atom for atom in function.objects if isinstance(atom, (Instance, v.Made)))
        if signature is not None and not signature.is_none:
            for node in _functions_of(function):
                self.signatures[node].add(signature)

    @property
    def makes_graph(self) -> bool:
        """Whether code runs of which TensorFlow, or Keras, makes a graph."""
        return self.is_traced or not self.hidden.isdisjoint(self.calls.stack)

    def note_whole_layer(self, function: Value) -> None:
        """Notes functions that Keras takes rows of, which give those of all workers."""
        self.whole_layers.update(_functions_of(function))

    def given_back(self, node: cst.BaseExpression, value: Value, frame: Frame) -> Value:
        """What a function returns, or a worker's rows of it where that is planned."""
        if self._is_loss_of_fit(frame.scope.node) and value.data is not None and value.data.placement == Partial("sum"):
            value = self.placing.repairing.agreed(node, value)  # Keras takes the mean of the workers'
        return giving_back.given_back(self, node, value, frame) if frame.scope.node in self.plan.layers else value

    def _is_loss_of_fit(self, function: cst.CSTNode) -> bool:
        """Whether Keras's own step takes the gradients of what the function returns."""
        if not isinstance(function, cst.FunctionDef) or function.name.value != "compute_loss":
            return False
        return self.tree.class_of(function) is not None

    def renamed(self, node: cst.BaseExpression, value: Value, name: str, frame: Frame) -> Value:
        """What a name gets that has held a worker's rows, or those of it again where that is planned."""
        return giving_back.renamed(self, node, value, name, frame) if frame.scope.node in self.plan.at_once else value

    def note_forward(self) -> None:
        """Notes that the functions which run now run a model."""
        self.forward.update(self.calls.stack)

    def note_work(self, node: cst.CSTNode, made: Value) -> Value:
        """Notes what a model, a layer or a weight makes of a worker's rows; gives that. What is lost is of no use."""
        leaves = [d for d in self.objects.leaves(made) if not (d.is_replicated or d.symbolic)]
        if not self.is_left_alone and any(not isinstance(d.placement, (Unknown, Local)) for d in leaves):
            self.work.add(node)
        return made

    def note_applied(self, model: v.Atom, args: Arguments, node: cst.CSTNode) -> None:
        """Notes a model or layer that runs on data, or that Keras's tensors make a part of another one."""
        symbolic = any(d.symbolic for _, x in args.all() for d in self.objects.leaves(x))
        (self.built_in if symbolic else self.applied).add(model)
        if not symbolic:
            self.first_use.setdefault(model, len(self.seen))
            if not isinstance(self.tree.parent.get(node), cst.Expr):
                self.first_taken.setdefault(model, len(self.seen))

    def note_built(self, args: Arguments, result: Value) -> Value:
        """Notes what a layer makes of Keras's tensors; gives that."""
        if self.is_symbolic(args):
            found = [(p, d.needs) for d in self.objects.leaves(result) for p in options(d.placement)]
            if not found or any(needs or p != Sharded(0) for p, needs in found):
                self.has_odd_layers = True
        return result

    def note_weights(self, model: v.Atom) -> None:
        """Notes a model that is trained or filled: whoever asks for its weights sees to them."""
        self.known_weights.add(model)

    def decide(self, node: cst.CSTNode, value: Value) -> Value:
        """Notes that what runs next depends on this value; gives it as all workers have it once it is put together."""
        value = asked(value)
        before = self.decisions.get(node, NOTHING)
        self.decisions[node] = v.join(before, value)
        return self.agreed(node, value)

    def way(self, branch: cst.If | cst.IfExp, condition: Value) -> bool | None:
        """The way that is taken, where its condition is known."""
        taken = None if branch in self.plan.branches else outcome(condition)
        self.ways[branch].add(taken)
        return taken

    def agreed(self, node: cst.CSTNode, value: Value) -> Value:
        """What a loss is decided by, as all workers have it once it is put together."""
        return self.placing.repairing.agreed(node, value) if self.in_loss else value

    def settling_turns(self, iterated: Value) -> list[Value]:
        """What decides how often a loop over it turns, where workers may differ in that: but for rows, of which each
        has its own."""
        found = [given for atom in iterated for given in self._settling(atom)]
        if iterated.data is not None and (isinstance(iterated.data.placement, Unknown) or iterated.data.needs):
            found.append(Value(iterated.data))
        return list(filter(self.may_differ, found))

    def _settling(self, atom: v.Atom) -> Iterator[Value]:
        yield from self.turns.get(atom, ())
        if isinstance(atom, v.Made) and atom.path.startswith("python."):  # `zip`, `reversed`
            for place in self.heap.fields(atom):
                for inner in self.heap.load(atom, place):
                    yield from self._settling(inner)

    @staticmethod
    def may_differ(condition: Value) -> bool:
        """Whether workers may decide otherwise by it, or would if nothing was put together."""
        return any(not d.is_replicated or d.needs for d in v.contents(condition))

    @property
    def conditions(self) -> list[Value]:
        """Those that have decided that the code which runs now does, in whichever function."""
        return [condition for frame in self.running for condition in frame.conditions]

    @contextmanager
    def decided_by(self, conditions: Iterable[Value], frame: Frame) -> Iterator[None]:
        """While code runs of which these have decided that it does, by a call in this frame."""
        before = list(frame.conditions)
        frame.conditions += filter(self.may_differ, conditions)
        try:
            yield
        finally:
            frame.conditions[:] = before

    @contextmanager
    def trying(self) -> Iterator[list[Value]]:
        """While code runs of which exceptions are caught; gives what decides that they come."""
        self.tried.append([])
        try:
            yield self.tried[-1]
        finally:
            self.tried.pop()

    def may_raise(self, conditions: Iterable[Value]) -> None:
        """Notes that these decide whether an exception comes here."""
        if self.tried and self.in_loss:
            self.tried[-1] += conditions

    def asserted(self, args: Arguments, node: cst.CSTNode) -> None:
        """Notes that a library's function raises an exception by what it is given."""
        self.may_raise([self.agreed(given or node, value) for given, value in args.all()])

    def chosen_now(self, value: Value) -> Value:
        """The value, where it is kept by what decides that the code runs which keeps it."""
        conditions = self.conditions
        return self.chosen(value, conditions) if conditions else value

    @contextmanager
    def making_loss(self, *, by_keras: bool = False) -> Iterator[None]:
        """While code runs that a loss is made by; by_keras: as a part of a model, of whose steps Keras makes graphs."""
        before, self.loss_made = self.loss_made, "graph" if self.is_traced else "eager"
        if not self.is_traced and (by_keras or self.makes_graph):
            self.loss_made = "keras"
        self.trains_eagerly |= self.loss_made == "eager"
        try:
            yield
        finally:
            self.loss_made = before

    @property
    def in_loss(self) -> bool:
        """Whether code runs that a loss is made by."""
        return bool(self.loss_made)

    def is_there_for_all(self, value: Value) -> bool:
        """Whether all workers have a list, a tuple or the like in the same steps, and None in the others: whatever it
        holds, unless a worker's rows have chosen which it is."""
        if not all(isinstance(atom, (Container, Tuple)) for atom in value.objects):
            return False
        if not value.objects or (value.data is not None and value.data.constant is not None):
            return False
        is_marked = any(d.needs or isinstance(d.placement, Unknown) for d in v.contents(value))
        return not is_marked and self._chosen_apart.isdisjoint(value.objects)

    def _note_chosen(self, value: Value) -> None:
        """Notes lists and the like of which it is chosen by parts of a batch whether they are there."""
        found = {atom for atom in value.objects if isinstance(atom, Container)} - self._chosen_apart
        self._chosen_apart |= found
        self.heap.is_stale = self.heap.is_stale or bool(found)

    def chosen(self, value: Value, conditions: Sequence[Value]) -> Value:
        """The value, where these decide, in what a loss is made of, that it is this one and no other."""
        leaves = [d for condition in conditions for d in v.contents(condition)]
        if not self.in_loss:  # by numbers a script decides anywhere: facts/decisions.py
            leaves = [d for d in leaves if d.needs and all(o.how == "gather" for r in d.needs for o in r.operands)]
        apart = next((d for d in leaves if not d.is_replicated), None)
        needs = frozenset(r for d in leaves for r in d.needs)
        if apart is None and not needs:
            return value
        self._note_chosen(value)
        lost = Unknown("it is chosen by what a worker has seen of the batch") if apart is not None else None

        whole = any(d.whole for d in leaves)

        def choose(data: Data) -> Data:
            is_whole = data.whole or (whole and data.is_replicated)
            return replace(data, placement=lost or data.placement, whole=is_whole, needs=data.needs | needs)

        if any(isinstance(a, _CALLABLES) for a in value):
            value = Value(v.join(Value(value.data), NUMBER).data, value.objects)
        return v.mapped(value, choose)

    def differentiate(self, node: cst.CSTNode, loss: Value, gradients: Value = NOTHING) -> None:
        """Notes the loss of which a call takes these gradients; apart what an evaluation makes of whole batches, unless
        an update applies them."""
        is_whole = node not in self.reduced and all(d.is_replicated and not d.needs for d in self.objects.leaves(loss))
        losses = self.whole_losses if is_whole else self.losses
        losses[node] = v.join(losses.get(node, NOTHING), loss)
        self.seen_to_run.update((node,) if self.is_seen_to_run else ())
        if not is_whole:
            self.gradients[node] = v.join(self.gradients.get(node, NOTHING), gradients)
        self.evaluations.note_part()  # where nothing is put together, gradients are not, either

    def fit(self, model: v.Atom, node: cst.CSTNode, predicted: Value, loss: Value) -> None:
        """Notes what a model predicts in training, and the loss that Keras makes of it."""
        self.fits[node].append((model, predicted, loss))
        self.evaluations.note_part()

    def lifted(self, function: Function, args: Arguments, node: cst.CSTNode, *, is_method: bool) -> Arguments:
        """The arguments as the function gets them: all rows, where that is planned, or it says how many there are."""
        self.called.add(function.node)
        if not self.in_loss and any(
            not d.is_replicated and d.rank != 0 for _, value in args.all() for d in self.objects.leaves(value)
        ):
            self.called_apart.add(function.node)
        if self.placing.repairing.is_barred:
            self.barred.add(function.node)
        args = giving_back.dealt(self, function.node, args, node)
        if function.node in self.plan.functions and node not in self.plan.calls:
            args = self.placing.gathering.arguments(args, node)
        elif function.node in self.plan.added_up:
            args = self.placing.gathering.added_up(args, node)
        return claims.meet_signature(self, function, args, node, is_method=is_method)

    # -- operations ----------------------------------------------------------------------------------------------

    def operator(
        self, path: str, operands: Sequence[Value], nodes: Sequence[cst.CSTNode | None], node: cst.CSTNode
    ) -> Value:
        return self.placing.op(path, Arguments(list(operands), nodes=_placed(nodes)), node)

    def compared(self, operands: Sequence[Value], nodes: Sequence[cst.CSTNode], node: cst.CSTNode) -> Value:
        """`in`, `is`, `not` and chains of comparisons: the same on all workers if all of it is."""
        operator = node.comparisons[0].operator if isinstance(node, cst.Comparison) else None
        if isinstance(operator, (cst.In, cst.NotIn)):  # it looks through all rows, and tells of none by itself
            return self.placing.unknown(Arguments(list(operands)[:2], nodes=_placed(nodes[:2])), node)
        return self.placing.op("operator.eq", Arguments(list(operands)[:2], nodes=_placed(nodes[:2])), node)

    def unknown_call(self, function: Value, args: Arguments, node: cst.CSTNode) -> Value:
        """What nobody knows, called: of Keras tensors, a layer, as where the user says that it works as one."""
        self.libraries.called["", node] = None
        maker = function.data.maker if function.data is not None and not function.objects else None
        if self.is_symbolic(args) or (maker is not None and self._vouching(maker) is not None):
            return self.note_built(args, unseen_layer(self, function, node, "", args))
        if is_built_layer(self, function):
            return sample_by_sample(self, args)
        if function.data is not None and isinstance(function.data.placement, Shape):
            return v.unseen("what is called is the shape of a worker's part of the batch")  # `size = x.get_shape`
        if function.data is not None and function.data.placement == HELD:
            return function
        result = self.placing.unknown(args, node)
        if function.data is not None:
            result = handles.behind(result, function.data.behind)
        self.libraries.may_set(args, result, node)
        is_picked = function.data is not None and function.data.is_replicated
        return self.chosen(result, [function]) if is_picked else result

    def is_symbolic(self, args: Arguments) -> bool:
        """Whether Keras's tensors are among the arguments, which stand for those of a model."""
        return any(d.symbolic for _, value in args.all() for d in self.objects.leaves(value))


def comes_to_an_end(run: Run, entries: Mapping[cst.FunctionDef, bool]) -> bool:
    """Runs the program; whether that came to an end."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEEPEST))
    try:
        run.run(entries)
    except (TooMuch, RecursionError):
        return False
    finally:
        sys.setrecursionlimit(limit)
    return True


def _functions_of(value: Value) -> Iterator[cst.CSTNode]:
    for atom in value:
        inner = atom.function if isinstance(atom, Bound) else atom
        if isinstance(inner, Function):
            yield inner.node


def _takes_any(atom: v.Atom) -> bool:
    """Whether the function may be given anything, but for the object of which it is a method."""
    inner = atom.function if isinstance(atom, Bound) else atom
    params = inner.node.params if isinstance(inner, Function) else None
    return params is not None and len(params.children) > isinstance(atom, Bound)


def _placed(nodes: Sequence[cst.CSTNode | None]) -> dict[Any, Any]:
    return {i: n for i, n in enumerate(nodes) if n is not None}
