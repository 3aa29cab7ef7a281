"""Compile a step by XLA only where one process trains.

XLA cannot hold the collectives between workers. A function that updates weights, or in which something of the workers
is put together, and a model that is trained by `fit`, `train_on_batch` or a `train_step` of its own are compiled by
XLA on one device, as before, and run as graphs of TensorFlow on several. The results are equal to rounding.

before:
    @tf.function(jit_compile=True)
    def train_step(images, labels):
        ...
        optimizer.apply_gradients(zip(grads, model.trainable_variables))
after:
    @tf.function(jit_compile=lockstep.size() == 1)
    def train_step(images, labels):
        ...
        optimizer.apply_gradients(zip(grads, model.trainable_variables))

A setting that is no constant is kept: `jit_compile=args.xla and lockstep.size() == 1`.

Leaves alone: functions that no worker waits in for others, such as one that only computes gradients; models that are
never trained; `jit_compile="auto"`, which the runtime turns off for Keras's models.
Refuses: nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import Replace, Wrap
from migrator.facts.script import Facts
from migrator.rule import Findings, rule


@rule
def xla_on_one_device(facts: Facts) -> Findings:
    for call in {**dict.fromkeys(_trained_compiles(facts)), **dict.fromkeys(facts.compiled_by_xla.steps)}:
        for setting in facts.compiled_by_xla.settings(call):
            yield from _only_alone(facts, setting)


def _trained_compiles(facts: Facts) -> Iterator[cst.Call]:
    for fit in (*facts.training.fits, *facts.training.batch_fits):
        yield from (compile_.call for compile_ in facts.training.compiles_of(fit.values))


def _only_alone(facts: Facts, setting: cst.BaseExpression) -> Iterator[Replace | Wrap]:
    is_alone = f"{facts.call('size')} == 1"
    if isinstance(setting, cst.Name) and setting.value == "True":
        yield Replace(setting, (is_alone,))
    elif isinstance(setting, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)) or setting.lpar:
        yield Wrap(setting, "", f" and {is_alone}")
    else:
        yield Wrap(setting, "(", f") and {is_alone}")
