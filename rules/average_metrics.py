"""Average a loss or metric over the workers before the script decides by it.

In a loop of the script's own, the loss and the training metrics of a worker are those of its share of the batches. A
script that stops, skips a step or changes the learning rate by them would do so on one worker and not on another:
the weights part, or one leaves the loop and the others wait for ever. Averaged numbers are the same everywhere, and
the decision with them.

before:
    if train_loss.result() < 0.1:
        break
after:
    if lockstep.all_reduce(train_loss.result()) < 0.1:
        break

The time is such a number, too: no two workers read the same clock. So are validation metrics of a model with
BatchNormalization, whose moving statistics are each worker's own.

Leaves alone: numbers that are only printed or stored; other validation metrics, which every worker computes on the
whole data; conditions on steps and epochs; `fit`, whose callbacks are synchronised.
Refuses: a decision by the number of samples seen (`x.shape[0]`), which on N workers is another one.
"""

from __future__ import annotations

from migrator.edits import InsertAfter, Refusal, Wrap
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
        elif number.binding is not None:
            name = facts.source(number.expression)
            yield InsertAfter(number.binding.node, (f"{name} = {facts.call('all_reduce', name)}",))
        else:
            yield Wrap(number.expression, f"{facts.runtime}.all_reduce(", ")")
