"""Who decides by the logs of a `fit`: its callbacks, or the script itself by the history.

A callback only tells if all is seen that it may do with the logs: one of Keras's that is known to, or one of a class
whose only base is such a one, and by whose reading nothing is steered. What is not seen decides by any log.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.names.vocabulary import Role, has_role
from migrator.facts.objects.contents import Part, Parts
from migrator.facts.objects.values import External, Object, Result, Value, calls
from migrator.facts.program.syntax import argument
from migrator.facts.script import Facts
from migrator.facts.training.sites import Fit

CALLBACKS = 5  # position in fit
ANY = ""
_KERAS = "keras.callbacks."
_MONITORING = {"EarlyStopping": 0, "ReduceLROnPlateau": 0, "ModelCheckpoint": 1}  # with the position of `monitor`
# They read no metric, or tell it.
_TELLING = frozenset({
    "BackupAndRestore", "BaseLogger", "CSVLogger", "Callback", "History", "LearningRateScheduler", "ProgbarLogger",
    "RemoteMonitor", "TensorBoard", "TerminateOnNaN",
})  # fmt: skip
_NUMBERED = frozenset(  # hooks with the number of the epoch or batch before the logs
    f"on_{what}_{when}"
    for what in ("epoch", "batch", "train_batch", "test_batch", "predict_batch")
    for when in ("begin", "end")
)
_SET = frozenset({"monitor", "schedule", "get_monitor_value"})  # by which those of Keras decide


def decides_by_training(facts: Facts, fit: Fit, *, any_log: bool = False) -> bool:
    """Whether a callback, or the script itself, may decide by a training metric of the fit; `any_log`: or by its loss,
    or a callback of the script's own tells any."""
    if facts.decisions.first_steered_by(fit.call) is not None or _reads_histories(facts):
        return True
    asked_for = logs_asked_for(facts, fit, told=any_log)
    return any(not log.startswith("val_") and (any_log or log != "loss") for log in asked_for)


def logs_asked_for(facts: Facts, fit: Fit, *, told: bool = False) -> Iterator[str]:
    """The logs that callbacks of the fit decide by; ANY where that may be any. `told`: also those that callbacks of the
    script's own only tell."""
    asking = facts.keywords.given(fit.call, "callbacks", CALLBACKS)
    if asking is None:
        if facts.keywords.hides_arguments(fit.call, facts.keywords.pair(fit.call)):
            yield ANY
        return
    given = list(_callbacks(facts, asking))
    if given and _are_changed(facts):
        yield ANY
    for callback in given:
        is_own = told and isinstance(callback, Object)
        log = ANY if callback is None or is_own else _decides_by(facts, callback)
        if log is not None:
            yield log


def _callbacks(facts: Facts, node: cst.BaseExpression) -> Iterator[Value | None]:
    """The callbacks in the list; None for such as are not seen."""
    values = facts.resolver.values(node)
    if values == (External("builtins.None"),):
        return
    for value in values:
        if isinstance(value, Result) and has_role(calls(value), Role.CALLBACKS):
            if value.call.args:  # the runtime's stand around those given
                yield from _callbacks(facts, value.call.args[0].value)
            return
    if values and all(isinstance(v, Object) or _is_of_keras(v) for v in values):
        yield from values  # one, in no list
        return
    elements = facts.contents.ends(Parts([Part(node, (None,))]))
    if elements is None:
        yield None
        return
    for element in elements:
        found = facts.resolver.values(element)
        yield from found or (None,)


def _is_of_keras(value: Value) -> bool:
    return isinstance(value, Result) and calls(value).startswith(_KERAS)


def _decides_by(facts: Facts, callback: Value) -> str | None:
    """The log that the callback decides by; ANY where that may be any, None where it decides by none."""
    if callback == External("builtins.None"):
        return None
    if isinstance(callback, Object):
        return None if _only_tells(facts, callback) else ANY
    name = calls(callback)[len(_KERAS) :] if _is_of_keras(callback) else ANY
    if name in _TELLING:
        return None
    if name not in _MONITORING or not isinstance(callback, Result):
        return ANY
    monitor = facts.keywords.given(callback.call, "monitor", _MONITORING[name])
    if monitor is None:
        return ANY if facts.keywords.hides_arguments(callback.call) else "val_loss"
    return str(monitor.evaluated_value) if isinstance(monitor, cst.SimpleString) else ANY


def _only_tells(facts: Facts, callback: Object) -> bool:
    """Whether nothing is steered by the logs that a callback of the script's own is given."""
    lineage = facts.resolver.lineage(callback.of)
    bases = [base for cls in lineage for base in facts.resolver.bases(cls) if base not in lineage]
    known = {f"{_KERAS}{name}" for name in _TELLING} | {"builtins.object"}
    if not all(isinstance(base, External) and base.path in known for base in bases):
        return False
    hooks = [f for cls in lineage for f in facts.tree.functions if facts.tree.class_of(f) is cls.node]
    hooks = [function for function in hooks if function.name.value.startswith("on_")]
    read = [name for hook in hooks for name in facts.tree.names_in(hook.body) if _is_logs(facts, name, hook)]
    return all(facts.decisions.first_steered_by(name) is None for name in read)


def _is_logs(facts: Facts, name: cst.Name, hook: cst.FunctionDef) -> bool:
    """Whether the name may be the logs that the hook is given, and is not the object or a number."""
    others = hook.params.params[: 1 + (hook.name.value in _NUMBERED)]
    params = [binding.node for binding in facts.resolver.reaching(name) if binding.kind == "param"]
    return any(all(param is not other for other in others) for param in params)


def _are_changed(facts: Facts) -> bool:
    """Whether the script gives some callback another hook, or has one of Keras's decide by something else."""
    for name, bindings in facts.tree.attributes.items():
        for binding in bindings if name in _SET or name.startswith("on_") else ():
            owner = binding.target.value if isinstance(binding.target, cst.Attribute) else None
            owners = facts.resolver.values(owner)
            if name.startswith("on_") or not owners or not all(_decides_itself(facts, v) for v in owners):
                return True
    return any(_sets(facts, call) for call in facts.tree.calls)


def _decides_itself(facts: Facts, owner: Value) -> bool:
    """Whether it is an object of the script's for which no code of Keras's decides."""
    return isinstance(owner, Object) and not facts.resolver.derives_from(
        owner.of, lambda path: path.startswith(_KERAS) and path != f"{_KERAS}Callback"
    )


def _sets(facts: Facts, call: cst.Call) -> bool:
    """`setattr(callback, "monitor", …)`"""
    if External("builtins.setattr") not in facts.resolver.values(call.func):
        return False
    name = argument(call, "name", 1)
    text = name.value.evaluated_value if name is not None and isinstance(name.value, cst.SimpleString) else None
    return text is None or str(text) in _SET or str(text).startswith("on_")


def _reads_histories(facts: Facts) -> bool:
    """Whether training is steered by a history of Keras's that no `fit` gave: `self.model.history`."""
    for node in facts.tree.all_of(cst.Attribute):
        if node.attr.value == "history" and not isinstance(facts.tree.parent[node], cst.AssignTarget):
            owners = facts.resolver.values(node.value)
            is_own = bool(owners) and all(isinstance(v, Object) for v in owners)
            if not is_own and facts.decisions.first_steered_by(node) is not None:
                return True
    return False
