"""Callbacks of `fit`: npu_device has no word for them, so only those stay that do right by themselves.

Callbacks that write files stay on the chief. Those that decide may do so by validation metrics, which every worker
computes on the whole data; the numbers of the training data are each worker's own.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import AddArgument, Edit, Refusal, Wrap
from migrator.facts.objects.values import Literal, Object, Result, Value, calls
from migrator.facts.program.syntax import argument, is_none
from migrator.facts.script import Facts
from migrator.layout import LONGEST_LINE
from migrator.targets.npu.refusing import refuse
from migrator.targets.npu.setup import Setup
from migrator.targets.npu.sites import Site

_WRITING = frozenset({"ModelCheckpoint", "TensorBoard", "CSVLogger"})
_DECIDING = frozenset({"EarlyStopping", "ReduceLROnPlateau", "ModelCheckpoint"})
_HARMLESS = frozenset({"LearningRateScheduler", "History", "ProgbarLogger"})
_HOOKS = ("on_epoch_begin", "on_epoch_end", "on_train_begin", "on_train_end", "on_test_begin", "on_test_end")


class Callbacks:
    def __init__(self, facts: Facts, setup: Setup) -> None:
        self._facts = facts
        self._setup = setup

    def callbacks(self, site: Site) -> Iterator[Edit | Refusal]:
        call = self._fit(site)
        decision = self._decision_by_history(call) if call is not None else None
        if decision is not None:
            yield refuse(decision, "this decides by the history of `fit`, which is that of each worker's own data")
        elif call is not None and isinstance(site.edit, Wrap):
            yield from self._given(call, site.edit.node)
        elif not isinstance(site.edit, AddArgument):
            yield refuse(site.node, "which call of `fit` these callbacks belong to cannot be seen")

    def _fit(self, site: Site) -> cst.Call | None:
        """The call that is given the callbacks."""
        if isinstance(site.edit, AddArgument):
            return site.edit.call
        return next((o for o in self._facts.tree.ancestors(site.node) if isinstance(o, cst.Call)), None)

    def _decision_by_history(self, call: cst.Call) -> cst.CSTNode | None:
        """A condition that steers training by what `fit` returned."""
        return self._facts.decisions.first_steered_by(call)

    def _given(self, call: cst.Call, node: cst.CSTNode) -> Iterator[Edit | Refusal]:
        displays = [v.node for v in self._facts.resolver.values(node) if isinstance(v, Literal)]
        lists = [d for d in displays if isinstance(d, (cst.List, cst.Tuple))]
        if is_none(node):
            return
        if isinstance(node, cst.Name) and self._grows(node):
            yield refuse(node, "what is in this list of callbacks cannot be seen", "write them in one list")
        elif not lists:
            yield from self._one(call, node, ("", "", "else None"))
        for element in (e for display in lists for e in display.elements):
            if not self._facts.ranks.depends_on_rank(element.value):
                yield from self._one(call, element.value, ("*(", "[]", "else []"))

    def _grows(self, name: cst.Name) -> bool:
        """Whether callbacks are added to the list later on."""
        return any(
            isinstance(call.func, cst.Attribute)
            and call.func.attr.value in ("append", "extend", "insert")
            and call.func.value.deep_equals(name)
            for call in self._facts.tree.calls
        )

    def _one(self, call: cst.Call, node: cst.CSTNode, guard: tuple[str, str, str]) -> Iterator[Edit | Refusal]:
        """One callback: nothing where it may stay as it is, else its guard or a refusal.

        `guard`: what opens the guarded expression, the brackets around the callback in it, and what stands for it on
        the other workers.
        """
        writes = False
        for value in self._facts.resolver.values(node) or (None,):
            path = calls(value) if value is not None else ""
            name = path.rpartition(".")[2] if path.startswith("keras.callbacks.") else ""
            writes = writes or name in _WRITING
            if isinstance(value, Object) and not self._reads_logs(value):
                continue
            if name in _DECIDING and isinstance(value, Result) and not self._decides_alike(call, name, value):
                yield refuse(
                    node,
                    f"this {name} decides by numbers of each worker's own data",
                    "let it monitor a validation metric of a model without BatchNormalization",
                )
                return
            if name not in _WRITING | _DECIDING | _HARMLESS:
                yield refuse(node, "whether this callback does the same on every worker cannot be seen")
                return
        if writes:
            yield self._on_chief(node, *guard)

    def _on_chief(self, node: cst.CSTNode, opening: str, brackets: str, otherwise: str) -> Wrap:
        facts = self._facts
        condition, closing = f"if {self._setup.rank} == 0", ")" if opening else ""
        left, right = brackets[:1], brackets[1:]
        (line, column), statement = facts.position(node), facts.tree.statement_of(node)
        width = len(facts.source(node).splitlines()[0]) + len(f"{opening}{brackets} {condition} {otherwise}{closing},")
        first_line, first_column = facts.position(statement)
        longest = facts.scripts[facts.tree.module_of(node)].style.line_length or LONGEST_LINE
        if not opening or line == first_line or column + width <= longest:
            return Wrap(node, f"{opening}{left}", f"{right} {condition} {otherwise}{closing}")
        # The element stands on a line of its own, deeper than its statement.
        outer = "\n" + " " * (column - first_column)
        inner = outer + facts.indent(node)
        return Wrap(node, f"{opening}{inner}{left}", f"{right}{inner}{condition}{inner}{otherwise}{outer}{closing}")

    def _decides_alike(self, call: cst.Call, name: str, value: Result) -> bool:
        if name == "ModelCheckpoint":
            best = argument(value.call, "save_best_only")
            if best is None or (isinstance(best.value, cst.Name) and best.value.value == "False"):
                return True
        monitor = argument(value.call, "monitor", 1 if name == "ModelCheckpoint" else 0)
        text = self._facts.source(monitor.value) if monitor is not None else '"val_loss"'
        validates = argument(call, "validation_data") is not None
        return validates and text[1:].startswith("val_") and not self._facts.decisions.locality.keeps_statistics

    def _reads_logs(self, value: Value) -> bool:
        """Whether a callback of the script's own looks at metrics, or stops training."""
        assert isinstance(value, Object)
        for name in _HOOKS:
            method = self._facts.resolver.method(value.of, name)
            if method is None:
                continue
            params = method.params.params
            names = {n.value for n in self._facts.tree.names_in(method.body)}
            if (params[-1].name.value in names and params[-1].name.value != "epoch") or "stop_training" in names:
                return True
        return any(
            self._facts.resolver.method(value.of, f"on_{kind}batch_{end}") is not None
            for kind in ("", "train_", "test_")
            for end in ("begin", "end")
        )
