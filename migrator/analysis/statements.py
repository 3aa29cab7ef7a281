"""Runs the statements of a program on values that say what may be, and where it stands, instead of what is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Callable

import libcst as cst

from migrator.analysis import arrays, in_place, matching, row_counts, same_batch, shortened
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame, Loop, Names, join_names
from migrator.analysis.libraries.keras import masks
from migrator.analysis.libraries.tensorflow import TAPE
from migrator.analysis.truth import outcome
from migrator.analysis.values import NONE, NOTHING, NUMBER, Class, Container, External, Function, Made, Site, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run

# A loop whose names still change after so many turns has them made of something that grows.
_MOST_TURNS = 6
_RAISED = External("builtins.BaseException")  # holds what the program raises
_ASSERTION = External("builtins.AssertionError")
_OF_OTHER_CLASSES = ("__new__", "__call__", "__prepare__", "__getattribute__")  # by which a metaclass changes a class


class Statements:
    def __init__(self, run: Run) -> None:
        self.run = run

    def body(self, block: cst.BaseSuite | cst.Module, frame: Frame) -> None:
        for statement in block.body:
            if frame.names is None:
                return
            self.statement(statement, frame)

    def statement(self, node: cst.CSTNode, frame: Frame) -> None:
        self.run.spend()
        if isinstance(node, cst.SimpleStatementLine):
            for small in node.body:
                if frame.names is not None:
                    _EXECUTE[type(small)](self, small, frame)
        else:
            _EXECUTE[type(node)](self, node, frame)

    def eval(self, node: cst.CSTNode, frame: Frame) -> Value:
        return self.run.expressions.eval(node, frame)

    # -- simple statements ---------------------------------------------------------------------------------------

    def _expr(self, node: cst.Expr, frame: Frame) -> None:
        self.eval(node.value, frame)
        if isinstance(node.value, cst.Call):
            arrays.fill(self.run, node.value, frame)

    def _assign(self, node: cst.Assign, frame: Frame) -> None:
        value = self.eval(node.value, frame)
        if len(node.targets) == 1 and isinstance(node.targets[0].target, cst.Name):
            value = self.run.renamed(node.value, value, node.targets[0].target.value, frame)
        for target in node.targets:
            self.bind(target.target, value, frame)

    def _annotated(self, node: cst.AnnAssign, frame: Frame) -> None:
        if node.value is not None:
            self.bind(node.target, self.eval(node.value, frame), frame)

    def _augmented(self, node: cst.AugAssign, frame: Frame) -> None:
        before = self.eval(node.target, frame)
        operator = type(node.operator).__name__[: -len("Assign")]
        after = self.run.expressions.augmented(node, operator, before, frame)
        self.bind(node.target, after, frame)
        arrays.augment(self.run, node, before, after, frame)

    def _return(self, node: cst.Return, frame: Frame) -> None:
        value = NONE
        if node.value is not None:
            value = self.run.given_back(node.value, self.eval(node.value, frame), frame)
        frame.returned = v.join(frame.returned, self.run.chosen(value, frame.conditions))
        if frame.names is not None:
            frame.ended.append(frame.names)
        frame.names = None

    def _raise(self, node: cst.Raise, frame: Frame) -> None:
        if node.exc is not None:
            self.run.heap.store(_RAISED, None, self.eval(node.exc, frame))
        self.run.may_raise(frame.conditions)
        frame.names = None

    def _assert(self, node: cst.Assert, frame: Frame) -> None:
        failed = self.run.decide(node.test, self.eval(node.test, frame))
        if node.msg is not None:
            told = Arguments([self.eval(node.msg, frame)])
            self.run.heap.store(_RAISED, None, self.run.calls.call(v.of(_ASSERTION), told, node.msg, frame))
        self.run.may_raise([failed])

    def _delete(self, node: cst.Del, frame: Frame) -> None:
        targets = [e.value for e in node.target.elements] if isinstance(node.target, cst.Tuple) else [node.target]
        for target in targets:
            if isinstance(target, cst.Name):
                self.run.bindings.delete(target.value, frame)
            if isinstance(target, cst.Attribute):
                self.run.objects.delete_attribute(self.eval(target.value, frame), self.run.tree.name_of(target))
            if isinstance(target, cst.Subscript):
                owner = self.eval(target.value, frame)
                in_place.delete(self.run, owner, target)
                for atom in owner:
                    if isinstance(atom, Container) and atom.kind == "dict":
                        self.run.lacking.note_removed(atom, self.run.expressions.index(target.slice, frame).constant)
                    if shortened.is_of_numbers(self.run, atom):
                        index = self.run.expressions.index(target.slice, frame)
                        shortened.without_item(self.run, atom, index, target.value, target, frame)  # type: ignore[arg-type]
                    elif isinstance(atom, Container) and atom.kind == "list":
                        shortened.scatter(self.run, atom)

    def _break(self, node: cst.Break, frame: Frame) -> None:
        if frame.loops and frame.names is not None:
            frame.loops[-1].breaks.append(frame.names)
        frame.names = None

    def _continue(self, node: cst.Continue, frame: Frame) -> None:
        if frame.loops and frame.names is not None:
            frame.loops[-1].continues.append(frame.names)
        frame.names = None

    def _nothing(self, node: cst.CSTNode, frame: Frame) -> None:
        return

    def _import(self, node: cst.Import | cst.ImportFrom, frame: Frame) -> None:
        for name, value in self.run.imports.bound_by(node, self.run.tree.module_of(node)):
            self.run.bindings.assign(name, value, frame)

    # -- compound statements -------------------------------------------------------------------------------------

    def _if(self, node: cst.If, frame: Frame) -> None:
        condition = self.eval(node.test, frame)
        agreed = self.run.decide(node.test, condition)
        truth = self.run.way(node, condition)
        before = frame.names
        ends = []
        deciding = [agreed] if self.run.may_differ(agreed) else []
        first = len(frame.conditions)
        frame.conditions += deciding
        if truth is not False:
            frame.names = dict(before or {})
            self.run.expressions.assume(node.test, True, frame)
            self.body(node.body, frame)
            ends.append(frame.names)
        if truth is not True:
            frame.names = dict(before or {})
            self.run.expressions.assume(node.test, False, frame)
            if isinstance(node.orelse, cst.If):
                self.statement(node.orelse, frame)
            elif node.orelse is not None:
                self.body(node.orelse.body, frame)
            ends.append(frame.names)
        # Where one way is left, the condition also decides that what follows runs; of the loops of a training, that is
        # followed by facts/decisions.
        if None not in ends or (frame.loops and not self.run.in_loss):
            del frame.conditions[first : first + len(deciding)]
        frame.names = self.chosen_names(ends, before, deciding)

    def chosen_names(
        self, ends: Sequence[Names | None], before: Names | None, conditions: Sequence[Value]
    ) -> Names | None:
        """The names where ways meet of which these conditions have chosen one."""
        joined = join_names(ends)
        if joined is None:
            return None
        known = before or {}
        changed = [
            name
            for name, value in joined.items()
            if any(e is not None and e.get(name) is not known.get(name) for e in ends)
        ]
        for name in changed:
            met = [end[name] for end in ends if end is not None and name in end]
            value = v.one_of(*met) if len(met) == 2 else joined[name]
            joined[name] = self.run.chosen(value, conditions)
        return joined

    def _while(self, node: cst.While, frame: Frame) -> None:
        agreed: list[Value] = []
        before = frame.names

        def enter() -> bool:
            condition = self.eval(node.test, frame)
            agreed[:] = [self.run.decide(node.test, condition)]
            return outcome(condition) is not False

        self._loop(node, enter, frame, endless=self._is_true(node.test))
        frame.names = self.chosen_names([frame.names], before, agreed)

    @staticmethod
    def _is_true(node: cst.BaseExpression) -> bool:
        return (isinstance(node, cst.Name) and node.value == "True") or (
            isinstance(node, cst.Integer) and node.value == "1"
        )

    def _for(self, node: cst.For, frame: Frame) -> None:
        iterated = self.eval(node.iter, frame)
        element = self.run.objects.elements(iterated, node, node.iter)
        agreed = self.run.settling_turns(iterated)
        before = frame.names

        def enter() -> bool:
            self.bind(node.target, element, frame)
            return element is not NOTHING

        with self.run.decided_by(agreed, frame):
            self._loop(node, enter, frame)
        if agreed:
            frame.names = self.chosen_names([frame.names], before, agreed)

    def _loop(
        self, node: cst.For | cst.While, enter: Callable[[], bool], frame: Frame, *, endless: bool = False
    ) -> None:
        state = frame.names
        loop = Loop()
        ends: list[Names | None] = []
        for _ in range(_MOST_TURNS):
            names = row_counts.in_next_turn(state or {}, node, self.run.tree)
            frame.names = same_batch.in_next_turn(names, node, self.run.tree)
            if not enter():
                ends = [frame.names]
                break
            ends = [] if endless else [state if isinstance(node, cst.For) else frame.names]
            loop = Loop()
            frame.loops.append(loop)
            self.run.changing.loops.append(node)
            self.body(node.body, frame)
            self.run.changing.loops.pop()
            frame.loops.pop()
            after = join_names([state, frame.names, *loop.continues])
            if after == state:
                break
            state = after
        if not endless:
            ends.append(state)
        frame.names = join_names(ends)
        if node.orelse is not None and frame.names is not None:
            self.body(node.orelse.body, frame)
        frame.names = join_names([frame.names, *loop.breaks])

    def _with(self, node: cst.With, frame: Frame) -> None:
        taped = False
        for item in node.items:
            value = self.eval(item.item, frame)
            entered = self.run.objects.enter(value, item.item)
            if item.asname is not None:
                self.bind(item.asname.name, entered, frame)
            taped |= any(isinstance(atom, Made) and atom.path == TAPE for atom in entered)
        with self.run.making_loss() if taped else nullcontext():
            if any(self._suppresses(item.item) for item in node.items):
                self._suppressed(node, frame)
            else:
                self.body(node.body, frame)

    def _suppresses(self, manager: cst.BaseExpression) -> bool:
        """`contextlib.suppress(ValueError)`"""
        made = self.run.seen.get(manager.func, NOTHING) if isinstance(manager, cst.Call) else NOTHING
        return v.External("contextlib.suppress") in made.objects

    def _suppressed(self, node: cst.With, frame: Frame) -> None:
        """A block that may end anywhere."""
        before = dict(frame.names or {})
        with self.run.trying() as raising:
            self.body(node.body, frame)
        agreed = list(filter(self.run.may_differ, raising))
        ends = [frame.names, join_names([before, frame.names])]
        frame.names = self.chosen_names(ends, before, agreed) if agreed else join_names(ends)

    def _try(self, node: cst.Try | cst.TryStar, frame: Frame) -> None:
        before = dict(frame.names or {})
        with self.run.trying() as raising:
            self.body(node.body, frame)
        # An exception may come from anywhere in the body.
        interrupted = join_names([before, frame.names, *([frame.names] if frame.names else [])])
        agreed = list(filter(self.run.may_differ, raising)) if node.handlers else []
        first = len(frame.conditions)
        frame.conditions += agreed
        if frame.names is not None and node.orelse is not None:
            self.body(node.orelse.body, frame)
        ends = [frame.names]
        for handler in node.handlers:
            frame.names = dict(interrupted or {})
            if handler.name is not None:
                self.bind(handler.name.name, v.join(v.NUMBER, self.run.heap.load(_RAISED, None)), frame)
            self.body(handler.body, frame)
            ends.append(frame.names)
        if None not in ends:
            del frame.conditions[first : first + len(agreed)]
        frame.names = self.chosen_names(ends, before, agreed) if agreed else join_names(ends)
        if node.finalbody is not None:
            is_left = frame.names is None
            if is_left:
                frame.names = dict(interrupted or {})
            self.body(node.finalbody.body, frame)
            if is_left:
                frame.names = None

    def _match(self, node: cst.Match, frame: Frame) -> None:
        subject = self.eval(node.subject, frame)
        is_of_form = all(matching.is_of_form(self.run, case.pattern, subject) for case in node.cases)
        if not is_of_form:
            self.run.compares.add(node.subject)
        agreed = [self.run.decide(node.subject, subject) if not is_of_form else NUMBER]
        before = frame.names
        ends = [before]
        frame.conditions += agreed
        for case in node.cases:
            is_met = matching.matches(self.run, case.pattern, subject)
            if is_met is False:
                continue
            frame.names = dict(before or {})
            for name, value in matching.bind(self.run, case.pattern, subject):
                self.run.bindings.assign(name, value, frame)
            if case.guard is not None:
                agreed.append(self.run.decide(case.guard, self.eval(case.guard, frame)))
            self.body(case.body, frame)
            ends.append(frame.names)
            if is_met and case.guard is None:
                del ends[0]  # one matches
                break
        if None not in ends:
            frame.conditions.remove(agreed[0])
        frame.names = self.chosen_names(ends, before, agreed)

    # -- definitions ---------------------------------------------------------------------------------------------

    def _function(self, node: cst.FunctionDef, frame: Frame) -> None:
        function = Function(node, frame)
        self.run.definitions.define(function, node.params)
        value = v.of(function)
        for decorator in reversed(node.decorators):
            value = self.run.definitions.decorated(value, decorator.decorator, frame)
        self.run.bindings.assign(node.name.value, value, frame)

    def _class(self, node: cst.ClassDef, frame: Frame) -> None:
        cls = Class(node, frame)
        bases = [self.run.packages.base(base) for arg in node.bases for base in self._bases(arg, frame)]
        keywords = {k.keyword.value: self.eval(k.value, frame) for k in node.keywords if k.keyword is not None}
        inner = Frame(self.run.tree.scopes[node], frame, frame.context, owner=node)
        self.body(node.body, inner)
        makers = [d.decorator.func if isinstance(d.decorator, cst.Call) else d.decorator for d in node.decorators]
        self.run.classes.define(cls, bases, [self.eval(maker, frame) for maker in makers], inner)
        hook = self.run.classes.inherited(cls, "__init_subclass__")
        if hook is not None:
            self.run.calls.call(hook, Arguments([], keywords), node, frame)
        value = self._made_by_metaclass(cls, keywords.get("metaclass"), node, frame)
        for decorator in reversed(node.decorators):
            value = self.run.definitions.decorated(value, decorator.decorator, frame)
        self.run.bindings.assign(node.name.value, value, frame)

    def _bases(self, arg: cst.Arg, frame: Frame) -> list[Value]:
        value = self.eval(arg.value, frame)
        if arg.star == "":
            return [value]
        items = self.run.objects.sequence_items(value)  # `class Trainer(*mixins, Base)`
        return items if items is not None else [self.run.objects.elements(value, arg, arg.value)]

    def _made_by_metaclass(self, cls: Class, metaclass: Value | None, node: cst.ClassDef, frame: Frame) -> Value:
        made = v.of(cls)
        if metaclass is None or isinstance(metaclass.only, External):
            return made
        if not isinstance(metaclass.only, Class) or any(
            self.run.classes.of_class(metaclass.only, name) is not None for name in _OF_OTHER_CLASSES
        ):
            return v.unseen("what its metaclass makes of a class is not followed")
        init = self.run.classes.of_class(metaclass.only, "__init__")
        if init is not None:
            self.run.calls.call(init, Arguments([made, NUMBER, NUMBER, NUMBER]), node, frame)
        return made

    def hand_back(self, filled: Mapping[cst.BaseExpression, Value], frame: Frame) -> None:
        """Has the arrays that a function was given hold what it has put into them."""
        for place, stored in filled.items():
            arrays.hold(self.run, place, stored, frame)

    # -- binding -------------------------------------------------------------------------------------------------

    def bind(self, target: cst.BaseExpression, value: Value, frame: Frame) -> None:
        """Gives the target of an assignment its value."""
        if isinstance(target, cst.Name):
            if target in self.run.combined:
                self.run.record(target, value)
                value = self.run.shares.once_combined(value, target)
            site = Site(target, frame.context)
            self.run.bindings.assign(target.value, same_batch.named(row_counts.named(value, site), site), frame)
        elif isinstance(target, (cst.Tuple, cst.List)):
            self._unpack(target.elements, value, target, frame)
        elif isinstance(target, cst.Attribute):
            owner = self.eval(target.value, frame)
            masked = masks.set_by(target, value, owner)
            if masked is not None:
                self.bind(target.value, masked, frame)
            self.run.objects.store_attribute(owner, self.run.tree.name_of(target), value, target)
        elif isinstance(target, cst.Subscript):
            owner = self.eval(target.value, frame)
            index = self.run.expressions.index(target.slice, frame)
            self.run.objects.store_item(owner, index, value, target)
            if owner.data is not None and not in_place.store_rows(self.run, owner.data, index, value, target):
                arrays.store(self.run, owner.data, index, value, target, frame)
            element = owner.data is not None and owner.data.is_replicated and bool(owner.data.batch)
            if element and isinstance(target.value, cst.Name):  # what is put in may have other rows than the rest
                self.run.bindings.assign(target.value.value, v.forgotten(owner), frame)

    def _unpack(self, elements: Sequence[cst.BaseElement], value: Value, node: cst.CSTNode, frame: Frame) -> None:
        starred = next((i for i, e in enumerate(elements) if isinstance(e, cst.StarredElement)), None)
        parts = self.run.objects.unpacked(value, len(elements), starred)
        for element, part in zip(elements, parts):
            self.bind(element.value, part, frame)


_EXECUTE: dict[type, Callable[..., None]] = {
    cst.Expr: Statements._expr,
    cst.Assign: Statements._assign,
    cst.AnnAssign: Statements._annotated,
    cst.AugAssign: Statements._augmented,
    cst.Return: Statements._return,
    cst.Raise: Statements._raise,
    cst.Assert: Statements._assert,
    cst.Del: Statements._delete,
    cst.Break: Statements._break,
    cst.Continue: Statements._continue,
    cst.Pass: Statements._nothing,
    cst.Global: Statements._nothing,
    cst.Nonlocal: Statements._nothing,
    cst.Import: Statements._import,
    cst.ImportFrom: Statements._import,
    cst.If: Statements._if,
    cst.While: Statements._while,
    cst.For: Statements._for,
    cst.With: Statements._with,
    cst.Try: Statements._try,
    cst.TryStar: Statements._try,
    cst.Match: Statements._match,
    cst.FunctionDef: Statements._function,
    cst.ClassDef: Statements._class,
}
for _name in ("TypeAlias",):
    if hasattr(cst, _name):
        _EXECUTE[getattr(cst, _name)] = Statements._nothing
