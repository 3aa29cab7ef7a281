"""Average losses and metrics over the workers before the script decides by them or tells them.

In a loop of the script's own, the loss and the training metrics of a worker are those of its share of the batches. A
script that stops, skips a step or changes the learning rate by them would do so on one worker and not on another:
the weights part, or one leaves the loop and the others wait for ever. Averaged numbers are the same everywhere, and
the decision with them. The results of Keras metrics are combined wherever the script asks for them once an epoch, so
that what it prints and stores is of the global batches, too; those that are no means (AUC, precision, recall) from
what all workers have counted. A loss that is a sum over the batch is summed.

before:
    if train_loss.result() < 0.1:
        break
after:
    if lockstep.all_reduce(train_loss.result()) < 0.1:
        break

A local value is followed through whatever it enters: attributes, containers, closures, variables, exceptions, calls
that nobody knows. What is steered by a value that was picked or counted by a loss (the best so far, a patience) agrees
once the loss does, which is averaged where it is made. So are validation metrics of a model with BatchNormalization,
whose moving statistics are each worker's own. No two workers read the same clock, or draw the same from the system's
randomness: where that steers, all take what the chief has, by `lockstep.broadcast(...)`.

Leaves alone: numbers that are printed for single batches, and losses that are only printed or stored; other validation
metrics, which every worker computes on the whole data; what a file that the chief writes is told; conditions on steps
and epochs; `fit`, whose callbacks are synchronised.
Refuses: a decision by the number of samples seen (`x.shape[0]`), which on N workers is another one; one by something
that is neither a mean nor a sum over the batch, as its largest value; a metric of a class of the script's own, of which
it cannot be seen what its state adds up to.
"""

from __future__ import annotations

import libcst as cst

from migrator.analysis.losses import SUM
from migrator.edits import InsertAfter, Refusal, Replace, Wrap
from migrator.facts.decisions import LocalNumber
from migrator.facts.script import Facts
from migrator.rule import Findings, rule


@rule
def average_metrics(facts: Facts) -> Findings:
    for number in facts.decisions.local_numbers:
        if number.is_count:
            yield Refusal(
                number.expression,
                "training is steered by the number of samples of this worker's part of the batch",
                "decide by the number of steps, which is the same on all workers",
                breaks_training=True,
            )
        elif number.metric is not None and number.metric.is_own:
            yield Refusal(
                number.expression,
                "how the workers' parts of this metric of the script's own add up cannot be seen",
                "combine them by hand: lockstep.all_reduce of its sums and counts before the result is computed",
            )
        elif number.metric is not None and not number.metric.is_mean:
            yield Replace(number.expression, (facts.call("metric_result", facts.source(number.metric.metric)),))
        elif not number.reduction:
            yield Refusal(
                number.expression,
                "training is steered by this, which depends on this worker's part of the batch in a way that no mean "
                "or sum over the workers gives back",
                "decide by a mean over the batch, or make the workers agree by hand with lockstep.all_reduce",
                breaks_training=True,
            )
        elif number.reduction == "chief":
            yield _combined(facts, number, "broadcast")
        else:
            reduction = _reduce(facts, number)
            if reduction is not None:
                yield reduction


def _reduce(facts: Facts, number: LocalNumber) -> InsertAfter | Wrap | None:
    if number.metric is None:
        own = facts.losses.of_number(number.expression)
        if own.is_agreed and own.repairs:
            return None  # what it is made of is put together already
    kinds = [facts.losses.of_number(node).reduction for node in _made_of(facts, number)]
    sums = SUM in (*kinds, number.reduction)
    return _combined(facts, number, "all_reduce", *(('reduction="sum"',) if sums else ()))


def _combined(facts: Facts, number: LocalNumber, function: str, *arguments: str) -> InsertAfter | Wrap:
    if number.binding is not None:
        name = facts.source(number.expression)
        return InsertAfter(number.binding.node, (f"{name} = {facts.call(function, name, *arguments)}",))
    return Wrap(number.expression, f"{facts.runtime}.{function}(", "".join(f", {a}" for a in arguments) + ")")


def _made_of(facts: Facts, number: LocalNumber) -> list[cst.BaseExpression]:
    return facts.decisions.locality.fed_to(number.metric.metric) if number.metric is not None else []
