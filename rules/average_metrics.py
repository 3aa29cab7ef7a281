"""Average losses and metrics over the workers before the script decides by them or tells them.

In a loop of the script's own, the loss and the training metrics of a worker are those of its share of the batches. A
script that stops, skips a step or changes the learning rate by them would do so on one worker and not on another:
the weights part, or one leaves the loop and the others wait for ever. Averaged numbers are the same everywhere, and
the decision with them. The results of Keras metrics are combined wherever the script asks for them once an epoch, so
that what it prints and stores is of the global batches, too; those that are no means (AUC, precision, recall) from
what all workers have counted. A loss that is a sum over the batch is summed, also where a `train_step` of the script's
own tells it to `fit` or to a metric.

before:
    if train_loss.result() < 0.1:
        break
after:
    if lockstep.all_reduce(train_loss.result()) < 0.1:
        break

A number that is asked for several times in a row, `if np.mean(losses) < best: best = np.mean(losses)`, is combined
once, under a name, above the first of them, where nothing between them changes what it is made of.

A local value is followed through whatever it enters: attributes, containers, closures, variables, exceptions, calls
that nobody knows. It decides by what it is compared with, by raising what is caught (`table[word]` above `except
KeyError`, a division, `math.sqrt`), and by what it picks: a function that is called, an object that is changed
(`getattr(self, phase)()`, `queues[key].append(step)`). What is steered by a value that was picked or counted by a loss
(the best so far, a patience) agrees once the loss does, which is averaged where it is made. So are validation metrics
of a model with BatchNormalization, whose moving statistics are each worker's own from one step to the next. No two
workers read the same clock,
or draw the same from the system's randomness: where that steers, all take what the chief has, by
`lockstep.broadcast(...)`.

A number that decides nothing may come into the training all the same: kept in a list, an attribute, a closure or by a
decorator it is read in a loss, a layer or an activation, makes rows or their weights, or has picked what a model, an
optimizer or a loss is made of (`tf.keras.Sequential([encoders[best], head])`). It is combined before it meets the
samples, and so is what decides whether the workers come to that place.

Means are the same over parts of one size, sums and counts (hits, samples seen, the accuracy of a Keras metric) over
parts in which each row is once. A batch that the workers do not divide has only one of both. A script that decides by
sums therefore gets every row once (`loss="gather"`), and its means, the loss among them, are taken over all rows.

A metric that counts training rows, of which each worker has its own, and validation rows, which all of them have, is
given those by `lockstep.shard_batch(..., loss="gather")` where training is steered by it: so each row counts once,
wherever the script resets it. Told alone, it is told as it is.
So do a metric's numbers that the script puts into it ahead of the rows (`metric.update_state(0.5, sample_weight=100)`,
`metric.total.assign(50.0)`) count once: the metric is given all rows where training is steered by it.

What the script collects, counts or remembers of single samples in Python or NumPy, and is steered by, is no mean and no
sum of the workers' parts: the rows are put together where they enter such code (`seen.update(...)`, `np.add.at(...)`, a
loop over them), see gather-batch. Keras's own `train_step` takes rows in no order, so that it is refused there.

What a `train_step` of the script's own returns as logs is put together where a callback or the history decides by it,
with what it is made of (a ratio of sums, a function of a mean); so is what a `compute_metrics` or a
`get_metrics_result` of its own returns, and what metrics are given in any step of `fit`: in a `compute_loss`, in the
`call` of a layer, by `add_metric`.

A `Mean` of the losses of batches, asked for its result in a step of `fit`, is of all that the workers have counted
(`lockstep.metric_result`): of each batch they may have unequal parts. A list of such losses gets those of all rows.

A metric that `fit` tells and that is no mean over the samples (a function of the script's own, a metric class of its
own, one of Keras's along the axis of the batch) is given all rows, by `metrics=[lockstep.whole_batch_metric(r2)]`,
where training is steered by it; validation then goes on in batches of the script's size.

Leaves alone: numbers that are printed for single batches, and losses that are only printed or stored; other validation
metrics, which every worker computes on the whole data, and those of a model with BatchNormalization that are only
told, whose moving statistics are averaged with the gradients; what a file that the chief writes is told; conditions
on steps and epochs; `fit`, whose callbacks are synchronised.
Refuses: what cannot be put together; a signal handler or a thread that steers training by itself; where a batch is
handed to `train_on_batch`, which may not get each row once, also a decision by the number of samples seen
(`x.shape[0]`), by a sum, by the largest value; a metric of a class of the script's own, of which it cannot be seen what
its state adds up to, and one that is told alone but has counted what all workers have beside their rows; also in
`compile`, where callbacks may decide by it beside a `train_step` of the script's own; of what that returns over a
dataset, sums and what counts rows, where losses are means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import libcst as cst

from migrator.analysis.values import Repair
from migrator.analysis.verdicts import MEAN, NOT_RUN, SUM, Verdict, puts_together
from migrator.edits import InsertAfter, InsertBefore, Refusal, Replace, Wrap
from migrator.facts.decisions import LocalNumber
from migrator.facts.objects.met_alike import UNCERTAIN
from migrator.facts.objects.values import Literal, Object
from migrator.facts.program.syntax import argument
from migrator.facts.script import Facts
from migrator.facts.training.asking import decides_by_training
from migrator.facts.training.compiled_losses import cuts_for_fit
from migrator.facts.training.reductions import cut_option
from migrator.facts.training.sites import Fit
from migrator.facts.training.told_logs import told_logs
from migrator.facts.training.told_metrics import told_metrics
from migrator.insertion.combined_once import combined_once
from migrator.insertion.repairs import cannot_be, put_together, waits_alone
from migrator.records import replace
from migrator.rule import Findings, Found, rule

# What gives the logs that `fit` tells.
_TELLING = ("train_step", "compute_metrics", "get_metrics_result")


@rule
def average_metrics(facts: Facts) -> Findings:
    gathered = {operand.node for repair in facts.repairs for operand in repair.operands}
    put = set(gathered)
    if facts.cuts:
        yield from _told_by_steps(facts, put)
        yield from dict.fromkeys(_decided_by(facts, put))
        yield from _told_to_callbacks(facts)
        yield from _fed(facts, put)
    agreed: list[Found] = []
    for number in facts.decisions.local_numbers:
        is_of_logs = number.binding is None and number.expression in put
        if number.expression not in gathered and not is_of_logs:  # gather-batch makes it what all workers have
            agreed += _agreed_on(facts, number)
    yield from combined_once(facts, list(_once_a_line(facts, agreed)))


def _agreed_on(facts: Facts, number: LocalNumber) -> Findings:
    """What makes the workers agree on a number that training is steered by."""
    if facts.files.is_in_chiefs_callback(number.expression):
        yield Refusal(
            number.expression,
            "this callback writes files, so that the chief alone has it: the others would not come to what puts "
            "this together",
            "ask for it in a callback of its own, which derives from keras.callbacks.Callback",
            breaks_training=True,
        )
    elif number.by_chance:
        yield Refusal(
            number.expression,
            "training is steered by this, which hangs on what a signal handler, another thread or process does, on "
            "each worker at a moment of its own",
            "have the samples read by tf.data, and set flags alone, which are asked for in the loop or in a callback",
            breaks_training=True,
            cause=facts.decisions.locality.interruptions.starting,
        )
    elif number.is_count:
        yield Refusal(
            facts.decisions.place_of(number),
            "training is steered by this, which depends on the number of samples of this worker's part of the batch",
            "decide by the number of steps, which is the same on all workers",
            breaks_training=True,
            cause=number.expression,
        )
    elif number.metric is not None and number.metric.is_mixed:
        yield Refusal(
            number.expression,
            "this metric has counted what all workers have beside a worker's rows, and what they have does not add up",
            "count the one and the other in metrics of their own",
            breaks_training=facts.decisions.first_steered_by(number.expression) is not None,
        )
    elif number.metric is not None and number.metric.is_own:
        yield Refusal(
            number.expression,
            "how the workers' parts of this metric of the script's own add up cannot be seen",
            "combine them by hand: lockstep.all_reduce of its sums and counts before the result is computed",
            breaks_training=facts.decisions.first_steered_by(number.expression) is not None,
        )
    elif number.metric is not None and (number.metric.of_batches or not number.metric.is_mean):
        if not _has_seen_all(facts, number.expression):
            yield Replace(number.expression, (facts.call("metric_result", facts.source(number.metric.metric)),))
    elif not number.reduction:
        yield Refusal(
            number.expression,
            "training is steered by this, which depends on this worker's part of the batch in a way that no mean "
            f"or sum over the workers gives back{_beside(number)}",
            "decide by a mean over the batch, or make the workers agree by hand with lockstep.all_reduce",
            breaks_training=True,
            cause=number.cause,
        )
    elif number.reduction == "chief" and facts.decisions.locality.interruptions.contain(number.expression):
        yield Refusal(
            number.expression,
            "a signal handler or another thread steers training here, on each worker at a moment of its own",
            "set a flag there, and ask for it in the loop or in a callback",
            breaks_training=True,
        )
    elif facts.decisions.is_truth_of_files(number):  # how many these are differs, and no list is sent that is empty
        yield Wrap(number.expression, f"{facts.runtime}.broadcast(bool(", "))")
    elif number.reduction == "chief":
        yield _combined(facts, number, "broadcast")
    else:
        reduction = _reduce(facts, number)
        if reduction is not None:
            yield reduction


def _beside(number: LocalNumber) -> str:
    if not number.left_out:
        return ""
    return f"; so it is by {number.left_out} more {'place' if number.left_out == 1 else 'places'} of the program"


def _has_seen_all(facts: Facts, result: cst.BaseExpression) -> bool:
    """Whether each worker's metric counts all rows of each batch, since these are put together in front of it."""
    own = facts.losses.of_number(result)
    return own.is_agreed and bool(own.repairs) and all(repair.form != "metric" for repair in own.repairs)


def _once_a_line(facts: Facts, found: Sequence[Found]) -> Findings:
    """What a `return` reads by its name, and one of it several times, `total / count, hits / count`, is combined above,
    once."""
    wraps = {edit.node: edit for edit in found if isinstance(edit, Wrap) and isinstance(edit.node, cst.Name)}
    read: dict[cst.Return, list[list[cst.Name]]] = {}
    for node in wraps:
        line, names = _read_with(facts, cst.ensure_type(node, cst.Name))
        if line is not None and names[0] is node and all(wraps.get(n) == replace(wraps[node], node=n) for n in names):
            read.setdefault(line, []).append(names)
    several = [names for line in read.values() if any(len(names) > 1 for names in line) for names in line]
    above: dict[cst.CSTNode, cst.Name] = {name: names[0] for names in several for name in names}
    for edit in found:
        name = above.get(edit.node) if isinstance(edit, Wrap) else None
        if not isinstance(edit, Wrap) or name is None:
            yield edit
        elif edit.node is name:
            yield InsertBefore(name, (f"{name.value} = {edit.before}{name.value}{edit.after}",))


def _read_with(facts: Facts, name: cst.Name) -> tuple[cst.Return | None, list[cst.Name]]:
    """The `return` that gives the variable back, whatever else may happen, and all that reads it there."""
    owners = list(facts.tree.ancestors(name))
    line = next((owner for owner in owners if isinstance(owner, cst.Return)), None)
    scope = facts.tree.scope_of(name)
    if line is None or scope.lookup(name.value) is not scope:  # others may read it afterwards
        return None, []
    is_uncertain = any(isinstance(owner, UNCERTAIN) for owner in owners[: owners.index(line)])
    if is_uncertain or not isinstance(facts.tree.parent[facts.tree.parent[line]], cst.IndentedBlock):
        return None, []
    if any(isinstance(owner, cst.Try) for owner in owners):
        return None, []
    return line, [n for n in facts.tree.names_in(line) if n.value == name.value and facts.tree.is_read(n)]


def _fed(facts: Facts, put: set[cst.CSTNode]) -> Findings:
    """What metrics are given by whose results training is steered: neither rows nor a mean over these, but what is made
    of one, as its square, which has to be made of the mean over all rows."""
    for number in facts.decisions.local_numbers:
        own = facts.losses.of_number(number.expression) if number.metric is not None else NOT_RUN
        if own == NOT_RUN or (number.metric is not None and number.metric.is_own):
            continue
        is_told = not facts.decisions.decides(number)
        if not own.reduction and not is_told:
            yield Refusal(
                number.expression,
                "training is steered by this metric, and how the workers' parts of it add up cannot be seen: "
                f"{own.why}",
                "give the metric the rows, or a mean over the batch that lockstep.all_reduce has made the same on all "
                "workers",
                breaks_training=True,
            )
        missing = []
        for repair in own.repairs:
            if repair.form == "metric":
                continue
            if repair.form == "once" and is_told and number.metric is not None and number.metric.is_mean:
                continue  # of each worker it is the same
            refusal = waits_alone(facts, repair) if repair.form == "once" else None
            if refusal is not None:
                yield refusal
            else:
                missing.append(repair)
        yield from _put_together(facts, missing, put)


def _told_by_steps(facts: Facts, put: set[cst.CSTNode]) -> Findings:
    """What a `train_step` of the script's own returns, or hands to metrics, of a loss that is a sum: `fit` tells the
    mean over the workers, and callbacks decide by it. `put`: what is put together already."""
    reduced = {number.expression for number in facts.decisions.local_numbers}
    classes = {facts.training.step_class(update) for update in facts.training.updates} - {None}
    steps = {facts.resolver.method(cls, "train_step"): None for cls in classes if cls is not None}
    fitted = [value for fit in facts.training.fits for value in fit.values if isinstance(value, Object)]
    steps.update((facts.resolver.method(value.of, name), None) for value in fitted for name in _TELLING)
    for step in steps:
        returned = facts.resolver.returned(step) if step else []
        told = [value for node in returned for value in told_logs(facts, node)]
        told += _fed_in(facts, step) if step and step.name.value == "train_step" else []
        for node in told:
            verdict = facts.losses.of_number(node)
            if verdict.reduction == SUM and not verdict.is_agreed and node not in reduced:
                yield from _put_together(facts, verdict.repairs, put)
                put.add(node)
                yield Wrap(node, f"{facts.runtime}.all_reduce(", ', reduction="sum")')


def _decided_by(facts: Facts, put: set[cst.CSTNode]) -> Findings:
    """What a `train_step` of the script's own returns that training is steered by, and that is no mean over parts of
    one size: `fit` tells what the last step of an epoch gave, of each worker. What it is made of is put together first.
    """
    for fit in facts.training.fits:
        if not decides_by_training(facts, fit, any_log=True):
            continue
        objects = [value for value in fit.values if isinstance(value, Object)]
        methods = [facts.resolver.method(value.of, name) for value in objects for name in _TELLING]
        yield from _fed_to_told(facts, fit, [m for m in methods if m and _is_all_seen(facts, m)], put)
        for node in [n for m in methods if m for r in facts.resolver.returned(m) for n in told_logs(facts, r)]:
            verdict = facts.losses.of_number(node)
            if verdict == NOT_RUN:
                continue
            repairs, is_result = verdict.repairs, _is_result(node)
            if is_result:  # `fit` combines it; what the metric is given may have to be put together
                repairs = frozenset(repair for repair in repairs if repair.form != "metric")
                if verdict.reduction and not repairs:
                    continue
            if not verdict.reduction or _counts_twice(facts, fit, node, replace(verdict, repairs=repairs)):
                yield _unseen(node)
                continue
            yield from _put_together(facts, repairs, put)
            if verdict.reduction == MEAN and not verdict.is_agreed and not is_result:
                yield Wrap(node, f"{facts.runtime}.all_reduce(", ")")


def _fed_to_told(facts: Facts, fit: Fit, steps: list[cst.FunctionDef], put: set[cst.CSTNode]) -> Findings:
    """What the metrics are given that `fit` tells: in a step of which all is seen that it returns, or in what else runs
    in a step: a `compute_loss`, the `call` of a layer."""
    for call, verdict in facts.losses.of_told(fit.call).items() if not steps else ():
        if not verdict.is_agreed or _counts_twice(facts, fit, call, verdict):
            yield _unseen(cst.ensure_type(call, cst.Call), "metric")
        else:
            yield from _put_together(facts, verdict.repairs, put)
    for call, verdict in facts.losses.of_fed(fit.call).items():
        given = next((arg.value for arg in cst.ensure_type(call, cst.Call).args), None)
        if given is None or facts.files.is_in_chiefs_callback(call):
            continue
        if facts.tree.function_of(call) in steps:  # the rest of what it needs is that of the result
            verdict = facts.losses.of_number(given)
            divisors = frozenset(repair for repair in verdict.repairs if repair.form == "divisor")
            if _counts_twice(facts, fit, given, replace(verdict, repairs=divisors)):
                yield _unseen(given, "value of a metric")
        elif not verdict.reduction or _counts_twice(facts, fit, given, verdict):
            yield _unseen(given, "value of a metric")
        else:
            yield from _put_together(facts, verdict.repairs, put)
            if verdict.reduction == SUM and given not in put:
                yield Wrap(given, f"{facts.runtime}.all_reduce(", ', reduction="sum")')


def _is_all_seen(facts: Facts, step: cst.FunctionDef) -> bool:
    """Whether all logs that the step returns are written down, and none is what Keras makes of all metrics."""
    values = [value for returned in facts.resolver.returned(step) for value in facts.resolver.values(returned)]
    return step.name.value == "train_step" and all(isinstance(value, Literal) for value in values)


def _unseen(node: cst.BaseExpression, what: str = "log of `train_step`") -> Refusal:
    return Refusal(
        node,
        f"training is steered by this {what}, and how the workers' parts add up cannot be seen",
        "return a mean over the batch, or put it together by hand with lockstep.all_reduce",
        breaks_training=True,
    )


def _counts_twice(facts: Facts, fit: Fit, node: cst.CSTNode, verdict: Verdict) -> bool:
    """Whether rows that several workers have, since the losses take means of them, would count several times in the
    log: where they are gathered or added up, but not in a ratio of sums. Of arrays `fit` counts each once, but not what
    each worker adds to a sum."""
    if cut_option(cuts_for_fit(facts, fit)):
        return False
    missing = verdict.repairs - set(facts.repairs)
    if any(operand.how == "share" for repair in missing for operand in repair.operands):
        return True
    x = argument(fit.call, "x", 0)
    if x is None or not facts.pipelines.is_read_in_batches(x.value):
        return False
    is_sum = verdict.reduction == SUM and not verdict.is_agreed
    return puts_together(missing) or (is_sum and not any(r.form == "divisor" and r.node is node for r in missing))


def _fed_in(facts: Facts, step: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    """What metrics are given in the step itself."""
    for call, _ in facts.training.methods("update_state"):
        if call.args and facts.tree.function_of(call) is step:
            yield call.args[0].value


def _put_together(facts: Facts, repairs: Collection[Repair], put: set[cst.CSTNode]) -> Findings:
    """What the repairs put together that is not yet in `put`, and what then stands beside it."""
    beside = facts.losses.with_meetings({*facts.repairs, *repairs}).difference(facts.repairs, repairs)
    for repair in sorted({*repairs, *beside}, key=lambda r: facts.tree.order.get(r.node, -1)):
        refusal = cannot_be(facts, repair) if repair in beside else None
        if refusal is not None:
            yield refusal
            continue
        for operand in sorted(repair.operands, key=lambda o: facts.tree.order[o.node]):
            if operand.node not in put:
                put.add(operand.node)
                yield from put_together(facts, operand)


def _is_result(node: cst.BaseExpression) -> bool:
    """Of a metric, which `fit` combines over the workers."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "result"


def _told_to_callbacks(facts: Facts) -> Findings:
    """Metrics that are no means over the samples, and that a callback, or what follows, decides by: `fit` tells the
    mean of all workers, which is that of the batch where each worker has seen all of it."""
    for metric in told_metrics(facts):
        if not metric.obstacle:
            yield Wrap(metric.node, f"{facts.runtime}.whole_batch_metric(", ")")
        else:
            yield Refusal(
                metric.node,
                "how the workers' parts of this metric of the script's own add up cannot be seen, and training is "
                f"steered by it{metric.obstacle}",
                "let it be steered by the loss, or by a metric of Keras's",
                breaks_training=True,
            )


def _reduce(facts: Facts, number: LocalNumber) -> InsertAfter | Wrap | None:
    if number.metric is None:
        if _is_made_alike(facts, number):
            return None
        if number.binding is None and _is_within_sum(facts, number.expression):
            return None
    sums = number.metric.is_sum if number.metric is not None else number.reduction == SUM
    return _combined(facts, number, "all_reduce", *(('reduction="sum"',) if sums else ()))


def _is_made_alike(facts: Facts, number: LocalNumber) -> bool:
    """Whether what it is made of is put together already, whatever is done where it stands or a name gets it: of a
    quotient, the divisor alone may be."""
    own = facts.losses.of_number(number.expression)
    bound = {repair.node for repair in own.repairs if repair.form == "bound"}
    if number.expression in bound:
        return False
    target = number.binding.target if number.binding is not None else None
    if target is not None and target in bound:
        own = facts.losses.of_number(target)
    made = {repair for repair in own.repairs if repair.form != "bound"}
    return own.is_agreed and bool(made) and made <= set(facts.repairs)


def _is_within_sum(facts: Facts, node: cst.CSTNode) -> bool:
    """Whether the sum, or the mean, that the number is a term of is put together itself."""
    operands = (operand for repair in facts.repairs for operand in repair.operands)
    return any(o.how in ("mean", "sum") and o.node is not node and facts.tree.contains(o.node, node) for o in operands)


def _combined(facts: Facts, number: LocalNumber, function: str, *arguments: str) -> InsertAfter | Wrap:
    if number.binding is not None:
        name = facts.source(number.expression)
        return InsertAfter(number.binding.node, (f"{name} = {facts.call(function, name, *arguments)}",))
    return Wrap(number.expression, f"{facts.runtime}.{function}(", "".join(f", {a}" for a in arguments) + ")")
