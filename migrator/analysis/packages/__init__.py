"""Code of packages, run as the program's own where the program calls it.

A call into a package is taken as what its code is seen to do, or, where that is not seen to the end, as if nobody knew
the package: the run of its code leaves nothing behind but its result. Nothing can be written into it, so that what
needs all rows of a batch inside of it gets them where the program calls it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.libraries.keras.names import LAYER, LOSS
from migrator.analysis.packages.met import Met
from migrator.analysis.packages.modules import PackageModules
from migrator.analysis.packages.sources import Sources
from migrator.analysis.placement import LOCAL, Sharded, Unknown
from migrator.analysis.placing.operation import operation
from migrator.analysis.placing.repaired import gathered
from migrator.analysis.values import Atom, Bound, Class, Container, Curried, Data, External, Function, Instance, Value
from migrator.facts.names import api

if TYPE_CHECKING:
    from migrator.analysis.run import Run

Action = Callable[[Arguments], Value]

_MOST_STEPS = 20_000  # for one call from the program
_DEEPEST_PARTS = 4
_UNREAD = ("as", "unread")
_RELATES = "the code of {} relates the samples of a batch"
_BLOCKED = "it is the code of a package"


class UsedUp(Exception):
    """The packages are too large to be run in bounded time: the program is to be analysed without them."""


class Packages:
    """`inside`: whether code runs that a package's was called for; `met`: what the last such call has met."""

    def __init__(self, run: Run, sources: Sources) -> None:
        self.run = run
        self.sources = sources
        self.modules = PackageModules(run, sources)
        self.inside = False
        self.met = Met(run)
        self._undo: Callable[[], None] = lambda: None

    # -- names -----------------------------------------------------------------------------------------------------

    def opened(self, value: Value) -> Value:
        """What a name of a package stands for, where its source is seen."""
        atom = value.only
        if not isinstance(atom, External) or not self.sources.has(atom.path):
            return value
        return self.modules.value(atom.path) or value

    def base(self, value: Value) -> Value:
        """The class of a package that a class of the program comes from, where that is a layer, a model or a loss."""
        found = self.opened(value)
        return found if all(isinstance(a, Class) and self._is_followed(a) for a in found) else value

    def _is_followed(self, cls: Class) -> bool:
        """Whether it is a layer, a model or a loss, or an object of nobody else's class that is called."""
        bases = self.run.classes.external_bases(cls)
        if any(LAYER.match(p) or LOSS.match(p) or api.is_model_class(p) for p in bases):
            return True
        is_plain = all(p in ("builtins.object", "abc.ABC") for p in bases)
        return is_plain and self.run.classes.of_class(cls, "__call__") is not None

    # -- calls from the program -------------------------------------------------------------------------------------

    def call(self, path: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value | None:
        """The call of a package's function or class by its name; None where it is not followed."""
        if not self.sources.has(path) or api.is_optimizer_class(path):
            return None
        opened = self.modules.value(path)
        atom = opened.only if opened is not None else None
        if opened is None or (isinstance(atom, External) and self.sources.has(atom.path)):
            return None
        if isinstance(atom, External):  # of another library, by the package's name for it
            return self.run.calls.call(opened, args, node, frame)
        if not isinstance(atom, Function) and not self._is_made(atom, args):
            return None
        result = self._taken(path, args, node, lambda given: self.run.calls.call(opened, given, node, frame))
        for made in result or () if isinstance(atom, Class) else ():
            self.run.heap.store(made, _UNREAD, self.run.libraries.unread(path, args, node, frame))
        return result

    def call_object(self, atom: Atom, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value | None:
        """The call of what a package's code has made, or of a method of that; None where it is the program's own."""
        name = self.modules.name_of(atom) if self.modules.are_there and not self.inside else ""
        if not name:
            return None
        found = None
        if not isinstance(atom, Class) or self._is_made(atom, args):
            found = self._taken(name, args, node, lambda given: self.run.calls.call(v.of(atom), given, node, frame))
        return found if found is not None else self._as_unseen(atom, args, node, frame)

    def fill(self, made: Value, path: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> None:
        """Has a model that a package makes of Keras's tensors give what it is seen to."""
        model, opened = made.only, self.opened(v.of(External(path)))
        if not (isinstance(model, v.Made) and isinstance(opened.only, Function) and self._is_plain(args)):
            return
        result = self._seen(path, args, lambda given: self.run.calls.call(opened, given, node, frame))
        atom = result.only if result is not None else None
        outputs = self.run.heap.load(atom, ("end", "outputs")) if isinstance(atom, v.Made) else v.NOTHING
        leaves = list(self.run.objects.leaves(outputs))
        if self.met.relates_rows(outputs):
            outputs = v.unseen(_RELATES.format(path))
        elif not leaves or not all(d.placement == Sharded(0) and not d.needs for d in leaves):
            outputs = v.NOTHING
        if result is None or outputs is v.NOTHING:
            self._undo()
        else:
            self.run.heap.store(model, ("end", "outputs"), outputs)
            self.sources.read[path] = None

    def _is_made(self, atom: Atom | None, args: Arguments) -> bool:
        """Whether an object of the class is followed that is made with these."""
        return isinstance(atom, Class) and self._is_followed(atom) and self._is_plain(args)

    def _is_plain(self, args: Arguments) -> bool:
        """Whether nothing of a batch is among the arguments, and no Keras tensors."""
        return all(d.is_replicated and not d.whole for _, x in args.all() for d in self.run.objects.leaves(x))

    def _as_unseen(self, atom: Atom, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value:
        """What the call is taken for where nobody knows the package."""
        receiver = atom.receiver.only if isinstance(atom, Bound) else atom
        unread = self.run.heap.load(receiver, _UNREAD) if isinstance(receiver, Instance) else v.NOTHING
        if unread is v.NOTHING:
            unread = Value(Data(foreign=True))
        if not isinstance(atom, Bound):
            return self.run.calls.call(unread, args, node, frame)
        name = atom.function.node.name.value if isinstance(atom.function.node, cst.FunctionDef) else ""
        is_own = isinstance(receiver, Instance) and self.run.bindings.module_of(receiver.cls.frame) not in self.modules
        if not is_own and any(not d.is_replicated for d in self.run.objects.leaves(atom.receiver)):
            return v.unseen(f"what `.{name}` makes of what its object keeps of a batch is not seen")
        return self.run.libraries.call_method(atom.receiver if is_own else unread, name, args, node, frame)

    # -- what is taken of them ---------------------------------------------------------------------------------------

    def _taken(self, name: str, args: Arguments, node: cst.CSTNode, action: Action) -> Value | None:
        """What the call gives; None where that is not seen."""
        if self.inside:
            return action(args)
        result = self._seen(name, args, action)
        if result is None:
            return None
        is_mean_of_all = self.met.kinds & self.run.plan.reductions and not self.run.placing.repairing.blocked
        if self.met.relates_rows(result) or (is_mean_of_all and not self.run.is_symbolic(args)):
            self._undo()
            self.sources.read[name] = None
            return self._on_all_rows(name, args, node, action)
        if not self._is_proven(result, args):
            self._undo()
            return None
        if not self._is_plain(args):
            self.sources.read[name] = None
        self.run.note_plain(node)
        self.run.reductions |= self.met.kinds
        return result

    def _on_all_rows(self, name: str, args: Arguments, node: cst.CSTNode, action: Action) -> Value:
        """What the call gives that relates the rows of a batch: right on all of them, if it has no others."""
        why = _RELATES.format(name)
        result = None
        if not self.run.is_symbolic(args):
            with self.run.heap.undone_later() as undo:
                result = self.seen(lambda: action(self.run.placing.gathering.whole(args)))
            undo()
        given = self._needs_of(args)
        leaves = self.run.objects.leaves(result) if result is not None else ()
        if result is None or not all(d.is_replicated and d.needs <= given for d in leaves):
            return v.unseen(why)
        return gathered(self.run, operation(self.run, None, "", args, node, None), why)

    def _needs_of(self, args: Arguments) -> set[v.Repair]:
        return {r for _, x in args.all() for d in self.run.objects.leaves(x) for r in d.needs}

    def _is_proven(self, result: Value, args: Arguments) -> bool:
        """Whether all of the result is known without anything being put together, and tells more than is known of what
        nobody knows."""
        given = [d for _, x in args.all() for d in self.run.objects.leaves(x)]
        others = frozenset(a for a in result if not isinstance(a, Instance))  # what objects hold shows in their calls
        leaves = list(self.run.objects.leaves(Value(result.data, others)))
        needs, lost = self._needs_of(args), {d.placement for d in given}
        if any(not d.needs <= needs for d in leaves):
            return False
        if any((isinstance(d.placement, Unknown) or d.placement is LOCAL) and d.placement not in lost for d in leaves):
            return False
        if not result.objects and all(d.is_replicated for d in (*given, *leaves)):
            return False
        return self._are_usable(result)

    def _are_usable(self, value: Value, depth: int = 0) -> bool:
        """Whether the program may go on with the objects in the value."""
        for atom in value:
            if isinstance(atom, (v.Tuple, Container)):
                fields = [] if isinstance(atom, v.Tuple) else [None, *self.run.heap.fields(atom)]
                parts = atom.items if isinstance(atom, v.Tuple) else [self.run.heap.load(atom, key) for key in fields]
                if depth > _DEEPEST_PARTS or not all(self._are_usable(part, depth + 1) for part in parts):
                    return False
            elif not isinstance(atom, (Function, Bound, Curried, Instance)):
                return False
        return True

    # -- the run of their code ---------------------------------------------------------------------------------------

    def _seen(self, name: str, args: Arguments, action: Action) -> Value | None:
        """What the call gives, unless it is not followed; what was not, is not tried again."""
        if name in self.sources.given_up:
            return None
        with self.run.heap.undone_later() as self._undo:
            result = self.seen(lambda: action(args))
        if result is None:
            self._undo()
            self.sources.given_up.add(name)
        return result

    def seen(self, action: Callable[[], Value]) -> Value | None:
        """What is seen of the code to its end; None where that is not all, or where it does what is not followed."""
        with self._apart(), self.run.placing.repairing.ruled_out(_BLOCKED):
            try:
                result = action()
            except UsedUp:
                raise
            except Exception:  # code in a style that no program was tried with must not end the analysis of this one
                return None
            return result if self.met.is_harmless() else None

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """While code of a package runs, whose records are nobody's."""
        run, is_first = self.run, not self.inside
        records, calls, steps_left = run.records(), run.calls.begin_anew(), run.steps_left
        run.forget()
        if is_first:
            self.inside, self.met, run.steps_left = True, Met(run), _MOST_STEPS
        try:
            yield
        finally:
            self.met.kinds, called = run.reductions, run.called
            run.restore(records)
            run.called |= called
            run.calls.go_on(calls)
            if is_first:
                self.inside = False
                self.sources.steps += _MOST_STEPS - run.steps_left
                run.steps_left = steps_left
        if self.sources.are_used_up:
            raise UsedUp
