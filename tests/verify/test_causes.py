"""Verdicts and causes, told from made-up records in each of which one thing is wrong."""

from __future__ import annotations

import json
from typing import Callable

import numpy as np
import pytest
from runs_made_up import NAMES, STEPS, moved, original, two_ranks
from verification import PROJECT

from migrator.verify.comparison import FAILURE, ORDER, Rounding, compare
from migrator.verify.record import BEFORE, GRADIENTS, LOCAL, WEIGHTS, Optimizer, Record, Step
from migrator.verify.verdict import (
    DIFFERENT,
    INCONCLUSIVE,
    NOT_TRAINING,
    SAME,
    Verdict,
    beyond_rounding,
    judge,
    not_training,
)

EPSILON = 2.0**-23
Ranks = list[Record]


def verdict_on(ranks: Ranks, alone: Record | None = None, again: float = 0.0, moved_by: float = 1e-7) -> Verdict:
    alone = alone or original()
    rounding = Rounding(alone, moved(alone, again), moved(alone, moved_by), EPSILON)
    return judge(alone, compare(alone, ranks, rounding), ranks, rounding, STEPS)


def test_what_differs_by_rounding_is_the_same() -> None:
    verdict = verdict_on([moved(rank, 1e-6) for rank in two_ranks()])
    assert verdict.kind == SAME
    assert "1.0e-06" in verdict.reason


def test_schema_knows_all_that_may_differ() -> None:
    schema = json.loads((PROJECT / "docs" / "proof.schema.json").read_text())
    assert set(schema["$defs"]["what"]["enum"]) == {*ORDER, FAILURE}
    assert set(schema["$defs"]["verdict"]["properties"]["kind"]["enum"]) == {
        SAME,
        DIFFERENT,
        INCONCLUSIVE,
        NOT_TRAINING,
    }


def test_equal_to_the_last_bit_is_said_so() -> None:
    assert "bit for bit" in verdict_on(two_ranks()).reason


def scaled(factor: float) -> Callable[[Ranks, Record], None]:
    def change(ranks: Ranks, _: Record) -> None:
        for rank in ranks:
            rank.steps[0].arrays[GRADIENTS] = [g * factor for g in tensors(rank, GRADIENTS)]

    return change


def tensors(record: Record, kind: str, step: int = 0) -> list[np.ndarray]:
    return [tensor for tensor in record.steps[step].arrays[kind] if tensor is not None]


def not_broadcast(ranks: Ranks, _: Record) -> None:
    ranks[1].steps[0].arrays[BEFORE] = [w * 1.1 + 0.05 for w in tensors(ranks[1], BEFORE)]


def not_reduced(ranks: Ranks, _: Record) -> None:
    for rank in ranks:
        rank.steps[0].arrays[GRADIENTS] = rank.steps[0].arrays[LOCAL]


def not_reduced_in_fit(ranks: Ranks, alone: Record) -> None:
    not_reduced(ranks, alone)
    for record in (*ranks, alone):
        record.steps[0].is_loop = False


def clipped_first(ranks: Ranks, alone: Record) -> None:
    """The original halves what its tape gives; the ranks clip theirs by other factors, and average that."""
    alone.steps[0].arrays[GRADIENTS] = [g * 0.5 for g in tensors(alone, LOCAL)]
    one, other = (tensors(rank, LOCAL) for rank in ranks)
    for rank in ranks:
        rank.steps[0].arrays[GRADIENTS] = [(0.3 * a + 0.9 * b) / 2 for a, b in zip(one, other)]


def penalty_twice(ranks: Ranks, alone: Record) -> None:
    for rank in ranks:
        for kind in (LOCAL, GRADIENTS):
            rank.steps[0].arrays[kind] = [g + 0.01 * w for g, w in zip(tensors(rank, kind), tensors(alone, WEIGHTS))]


def penalty_twice_behind_a_clip(ranks: Ranks, alone: Record) -> None:
    """Clipping hides in what is applied what shows in what the tapes gave."""
    for rank in ranks:
        rank.steps[0].arrays[LOCAL] = [g + 0.05 * w for g, w in zip(tensors(rank, LOCAL), tensors(alone, WEIGHTS))]
        rank.steps[0].arrays[GRADIENTS] = [np.clip(g, -0.1, 0.1) for g in tensors(rank, GRADIENTS)]


def not_cut(ranks: Ranks, alone: Record) -> None:
    for rank in ranks:
        rank.steps[0].rows = alone.steps[0].rows


def same_half(ranks: Ranks, _: Record) -> None:
    ranks[1].steps[0].rows = ranks[0].steps[0].rows


def faster(ranks: Ranks, _: Record) -> None:
    for rank in ranks:
        rank.steps[0].learning_rate = 0.2


def scheduled_otherwise(ranks: Ranks, _: Record) -> None:
    for rank in ranks:
        rank.steps[0].learning_rate = 0.1001


def faster_with_its_weights(ranks: Ranks, alone: Record) -> None:
    faster(ranks, alone)
    for rank in ranks:
        gradients = tensors(alone, GRADIENTS)
        rank.steps[0].arrays[WEIGHTS] = [w - 0.1 * g for w, g in zip(tensors(alone, WEIGHTS), gradients)]


def fewer_steps(ranks: Ranks, _: Record) -> None:
    for rank in ranks:
        del rank.steps[3:]


def all_write(ranks: Ranks, alone: Record) -> None:
    for record in (*ranks, alone):
        record.files, record.lasting = [["model.keras", "train.py:12"]], ["model.keras"]


def callbacks_of_all_write(ranks: Ranks, alone: Record) -> None:
    all_write(ranks, alone)
    for record in (*ranks, alone):
        record.files = [["history.csv", "train.py:9"]]
        for step in record.steps:
            step.is_loop = False


def nobody_writes(ranks: Ranks, alone: Record) -> None:
    alone.files, alone.lasting = [["model.keras", "train.py:12"]], ["model.keras"]


def longer_epochs(ranks: Ranks, alone: Record) -> None:
    alone.epochs = [2, 4]
    for rank in ranks:
        rank.epochs = [4]


def step_left_out(ranks: Ranks, alone: Record) -> None:
    alone.epochs = [48, 96]
    for rank in ranks:
        rank.epochs = [47, 95]


def stopped_early(ranks: Ranks, alone: Record) -> None:
    alone.epochs = [2, 4]
    for rank in ranks:
        rank.epochs = [2]


def stopped_by_one(ranks: Ranks, _: Record) -> None:
    del ranks[1].steps[3:]


def waits_for_one_that_stopped(ranks: Ranks, alone: Record) -> None:
    stopped_by_one(ranks, alone)
    del ranks[0].steps[3:]
    ranks[0].end, ranks[0].error = "failed", "MismatchError: rank 1: leaving"


def slower_on_one(ranks: Ranks, alone: Record) -> None:
    for record in (*ranks, alone):
        record.epochs = [4]
    ranks[1].steps[3].learning_rate = 0.05


def shuffled_by_each(ranks: Ranks, _: Record) -> None:
    for rank in ranks:
        rank.orders = [["5", "train.py:3"], [str(rank.rank), "train.py:4"]]


def each_shuffles_all_in_an_order_of_its_own(ranks: Ranks, alone: Record) -> None:
    alone.shuffles = [["1", "train.py:3", 20], ["1", "train.py:4", 96]]
    for rank in ranks:
        rank.shuffles = [[str(rank.rank), "train.py:3", 20], [str(rank.rank), "train.py:4", 96]]


def faster_on_weights_that_start_from_zero(ranks: Ranks, alone: Record) -> None:
    """The weights are a multiple of the gradients then, as if the penalty were, too."""
    for record, factor in ((alone, 1.0), *((rank, 2.0) for rank in ranks)):
        step = record.steps[0]
        step.learning_rate = 0.1 * factor
        step.arrays[WEIGHTS] = [-0.1 * factor * g for g in tensors(alone, GRADIENTS)]


def second_model_not_broadcast(ranks: Ranks, alone: Record) -> None:
    """A second optimizer makes its steps after those of the first, whose gradients its weights have spoilt by then."""
    for record in (*ranks, alone):
        record.optimizers.append(Optimizer("critic", ["critic/kernel"], [[3]]))
        for index in range(STEPS, 0, -1):
            first = record.steps[index - 1]
            step = Step(1, first.number, "train.py:12", [1.0], 1.0, 0.1, is_loop=True)
            step.arrays = {kind: [np.ones(3)] for kind in (GRADIENTS, WEIGHTS)}
            if index == 1:
                step.arrays[BEFORE] = [np.ones(3) * (1 + 0.1 * record.rank)]
            record.steps.insert(index, step)
    scaled(1.5)(ranks, alone)


@pytest.mark.parametrize(
    ("change", "what", "step", "rule", "text"),
    [
        (not_broadcast, "first weights", 1, "broadcast-weights", "not broadcast"),
        (not_reduced, "gradients", 1, "all-reduce-gradients", "not averaged"),
        (not_reduced_in_fit, "gradients", 1, "wrap-optimizer", "not averaged"),
        (scaled(2), "gradients", 1, "all-reduce-gradients", "2 times the original's"),
        (scaled(0.5), "gradients", 1, "all-reduce-gradients", "1/2 of the original's"),
        (scaled(0.75), "gradients", 1, "all-reduce-gradients", "0.75 times"),
        (clipped_first, "gradients", 1, "all-reduce-gradients", "reduce them first"),
        (penalty_twice, "gradients", 1, "scale-loss", "penalty"),
        (penalty_twice_behind_a_clip, "gradients", 1, "scale-loss", "penalty"),
        (not_cut, "samples", 1, "shard-dataset", "not cut"),
        (same_half, "samples", 1, "shard-dataset", "same samples"),
        (faster, "learning rate", 1, "", "2 times the original's"),
        (scheduled_otherwise, "learning rate", 1, "local-step-count", "another schedule"),
        (faster_with_its_weights, "weights", 1, "", "2 times the original's"),
        (faster_on_weights_that_start_from_zero, "weights", 1, "", "2 times the original's"),
        (fewer_steps, "steps", 4, "local-step-count", "share of the data"),
        (all_write, "files", 5, "write-once", "every worker writes"),
        (callbacks_of_all_write, "files", 5, "synchronise-callbacks", "callbacks of every worker write"),
        (nobody_writes, "files", 5, "write-once", "none does"),
        (stopped_by_one, "steps", 4, "average-metrics", "each worker decides how to go on"),
        (waits_for_one_that_stopped, "steps", 4, "average-metrics", "each worker decides how to go on"),
        (slower_on_one, "learning rate", 4, "synchronise-callbacks", "each worker decides"),
        (shuffled_by_each, "shuffles", 1, "shard-after-shuffle", "order of its own"),
        (each_shuffles_all_in_an_order_of_its_own, "shuffles", 1, "shard-after-shuffle", "order of its own"),
        (second_model_not_broadcast, "gradients", 1, "broadcast-weights", "critic/kernel starts from other weights"),
        (longer_epochs, "epochs", 2, "local-step-count", "another number of steps"),
        (stopped_early, "epochs", 4, "synchronise-callbacks", "epochs"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_is_wrong_is_named_with_its_cause(
    change: Callable[[Ranks, Record], None], what: str, step: int, rule: str, text: str
) -> None:
    alone, ranks = original(), two_ranks()
    change(ranks, alone)
    verdict = verdict_on(ranks, alone)
    assert verdict.kind == DIFFERENT
    assert verdict.difference is not None
    assert verdict.cause is not None
    assert (verdict.difference.what, verdict.difference.step, verdict.cause.rule) == (what, step, rule)
    assert text in verdict.cause.text


@pytest.mark.parametrize(
    ("change", "is_beyond"),
    [
        (longer_epochs, True),
        (all_write, True),
        (slower_on_one, True),
        (faster, False),
        (step_left_out, False),
        (stopped_early, False),
    ],
)
def test_what_rounding_cannot_do_is_told_where_it_is_amplified(
    change: Callable[[Ranks, Record], None], is_beyond: bool
) -> None:
    alone, ranks = original(), two_ranks()
    change(ranks, alone)
    comparison = compare(alone, ranks, Rounding(alone, alone, alone, EPSILON))
    verdict = beyond_rounding(alone, comparison, ranks)
    assert (verdict.kind if verdict else None) == (DIFFERENT if is_beyond else None)


def test_ranks_may_shuffle_what_is_their_share_already_or_is_not_trained_on() -> None:
    alone, ranks = original(), two_ranks()
    each_shuffles_all_in_an_order_of_its_own(ranks, alone)
    for rank in ranks:
        rank.shuffles[1][2] = 48
    assert verdict_on(ranks, alone).kind == SAME


def test_a_rank_that_waits_for_one_that_stopped_is_told_with_it() -> None:
    ranks, alone = two_ranks(), original()
    waits_for_one_that_stopped(ranks, alone)
    assert "rank 1 ended after 3 optimizer steps, while rank 0 goes on" in verdict_on(ranks, alone).reason


def test_a_rank_that_makes_more_steps_than_the_one_that_left_is_told_so() -> None:
    ranks, alone = two_ranks(), original()
    ranks[0].end, ranks[0].error = "failed", "MismatchError: rank 1: leaving"
    verdict = verdict_on(ranks, alone)
    assert f"rank 1 ended after {STEPS} optimizer steps, while rank 0 goes on" in verdict.reason
    assert verdict.cause is not None
    assert verdict.cause.rule == "average-metrics"
    ranks[0].error = "OSError: disk full"
    assert "rank 0 failed, which the original does not: OSError" in verdict_on(ranks, alone).reason


def test_another_learning_rate_is_told_where_the_optimizer_is_made() -> None:
    ranks, alone = two_ranks(), original()
    for rank in ranks:
        rank.optimizers[0].line = "train.py:5"
    faster_with_its_weights(ranks, alone)
    assert verdict_on(ranks, alone).difference.line == "train.py:5"  # type: ignore[union-attr]


def test_a_script_that_does_not_repeat_itself_proves_nothing() -> None:
    verdict = verdict_on([moved(rank, 0.3) for rank in two_ranks()], again=0.01)
    assert (verdict.kind, "not deterministic" in verdict.reason) == (INCONCLUSIVE, True)


def test_a_script_that_amplifies_rounding_proves_nothing_in_float32() -> None:
    verdict = verdict_on([moved(rank, 0.3) for rank in two_ranks()], moved_by=0.05)
    assert (verdict.kind, "amplifies rounding" in verdict.reason) == (INCONCLUSIVE, True)


def test_losses_alone_that_workers_tell_otherwise_are_no_difference() -> None:
    ranks = two_ranks()
    for rank in ranks:
        rank.steps[2].losses = [17.0]
    assert verdict_on(ranks).kind == SAME


def test_a_rank_that_fails_is_told() -> None:
    ranks = two_ranks()
    ranks[1].end, ranks[1].error, ranks[1].failed_at = "failed", "ValueError: no such shape", "train.py:7"
    verdict = verdict_on(ranks)
    assert verdict.kind == DIFFERENT
    assert "rank 1 failed" in verdict.reason
    assert "ValueError: no such shape" in verdict.reason
    assert verdict.difference is not None
    assert verdict.difference.line == "train.py:7"


def test_what_parted_before_a_rank_failed_is_told_first() -> None:
    ranks, alone = two_ranks(), original()
    not_reduced(ranks, alone)
    ranks[1].end, ranks[1].error = "failed", "ValueError: not a number"
    verdict = verdict_on(ranks, alone)
    assert verdict.cause is not None
    assert verdict.cause.rule == "all-reduce-gradients"


def test_a_rank_that_failed_is_told_where_what_parted_before_may_be_rounding() -> None:
    ranks = [moved(rank, 3e-5) for rank in two_ranks()]
    ranks[1].end, ranks[1].error, ranks[1].failed_at = "failed", "ValueError: not a number", "train.py:7"
    assert verdict_on(ranks).kind == DIFFERENT
    assert "rank 1 failed" in verdict_on(ranks).reason


def test_a_training_model_is_told_from_dead_ones() -> None:
    assert not_training(original()) is None
    assert not_training(Record()).kind == NOT_TRAINING  # type: ignore[union-attr]


def test_weights_that_stay_are_not_trained() -> None:
    record = original()
    for step in record.steps:
        step.arrays[WEIGHTS] = record.steps[0].arrays[BEFORE]
    verdict = not_training(record)
    assert verdict is not None
    assert "leave all its weights as they were" in verdict.reason


def test_a_gradient_that_is_always_zero_is_named() -> None:
    record = original()
    for step in record.steps:
        step.arrays[GRADIENTS][1] = np.zeros(1)
    verdict = not_training(record)
    assert verdict is not None
    assert f"the gradient of {NAMES[1]} is zero" in verdict.reason


def test_a_variable_that_nobody_updates_is_named() -> None:
    record = original()
    record.untouched = ["head/kernel"]
    verdict = not_training(record)
    assert verdict is not None
    assert "head/kernel can be trained, but is given to no optimizer" in verdict.reason
