"""Let the callbacks of `fit` see the same numbers on every worker, and write once.

A worker's loss and metrics are those of its share of the data. EarlyStopping, ReduceLROnPlateau and best-only
checkpoints decide by them; workers that decide differently part ways, and the one that stops leaves the others
waiting for ever. The runtime averages the logs first, then calls the script's callbacks, of which those that write
files (ModelCheckpoint, TensorBoard, CSVLogger, BackupAndRestore) write on the chief alone. The history and the
printed progress are the averages, too. Where a callback reads the logs behind each batch, these are averaged as well,
which costs an exchange of a few numbers a step.

before:
    model.fit(dataset, epochs=5, callbacks=[keras.callbacks.EarlyStopping()])
after:
    model.fit(dataset, epochs=5, callbacks=lockstep.callbacks([keras.callbacks.EarlyStopping()]))

Leaves alone: `evaluate` and `predict`, which run on whole data everywhere; callbacks that are synchronised already.
Refuses: `fit(**config)`, where callbacks may hide; a callback that writes files, so that the chief alone has it, and
changes what is trained.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import AddArgument, Refusal, Wrap
from migrator.facts.names import api
from migrator.facts.objects.values import Class, is_call_of
from migrator.facts.program.syntax import has_unpacked_keywords
from migrator.facts.script import Facts
from migrator.rule import Findings, rule

_CHANGING = api.SETTING_VARIABLES | {"load_weights", "set_weights", "apply_gradients", "apply", "compile"}
_POSITION = 5  # fit(x, y, batch_size, epochs, verbose, callbacks)


@rule
def synchronise_callbacks(facts: Facts) -> Findings:
    for node in _changes_by_the_chief(facts) if facts.training.fits else ():
        yield Refusal(
            node,
            "this callback writes files, so that the chief alone has it: the others would not come to what it changes "
            "of the training",
            "change that in a callback of its own, which derives from keras.callbacks.Callback",
            breaks_training=True,
        )
    # Each once: two calls may unpack one dictionary.
    yield from dict.fromkeys(finding for fit in facts.training.fits for finding in _synchronise(facts, fit.call))


def _synchronise(facts: Facts, call: cst.Call) -> Findings:
    callbacks = facts.keywords.given(call, "callbacks", _POSITION)
    given = [*(arg.value for arg in call.args), *([callbacks] if callbacks is not None else [])]
    if any(_is_synchronised(facts, value) for value in given):
        return
    hides = has_unpacked_keywords(call) and facts.keywords.hides_arguments(call, facts.keywords.pair(call))
    if callbacks is None and hides:
        yield Refusal(
            call,
            "callbacks may be among the unpacked arguments, where they cannot be seen",
            "pass callbacks=... in the call",
            breaks_training=True,
        )
    elif callbacks is None:
        yield AddArgument(call, (f"callbacks={facts.call('callbacks')}",))
    else:
        yield Wrap(callbacks, f"{facts.runtime}.callbacks(", ")")


def _changes_by_the_chief(facts: Facts) -> Iterator[cst.BaseExpression]:
    """The first place in each class of such callbacks that changes the model, its optimizer, or whether it goes on."""
    for cls in facts.tree.all_of(cst.ClassDef):
        if facts.resolver.derives_from(Class(cls), lambda path: path in api.WRITING_CALLBACKS):
            methods = (call.func for call in facts.tree.calls if isinstance(call.func, cst.Attribute))
            changed = [*facts.tree.targets_in([cls]), *(func for func in methods if func.attr.value in _CHANGING)]
            yield from [c for c in changed if facts.tree.contains(cls, c) and _is_of_its_model(facts, c)][:1]


def _is_of_its_model(facts: Facts, node: cst.BaseExpression) -> bool:
    """`self.model.optimizer.learning_rate` in a class of callbacks"""
    while isinstance(node, cst.Attribute):
        node = node.value
        if facts.training.is_model_of_callback(node):
            return True
    return False


def _is_synchronised(facts: Facts, node: cst.BaseExpression) -> bool:
    return any(is_call_of(v, f"{api.RUNTIME}.callbacks") for v in facts.resolver.values(node))
