"""What two runs print, told from made-up records: what counts as a difference, and what no two runs have in common."""

from __future__ import annotations

import copy

import pytest
from runs_made_up import moved, original, two_ranks

from migrator.verify.comparison import PRINTED, Comparison, Rounding, compare
from migrator.verify.record import STOPPED, Record
from migrator.verify.verdict import DIFFERENT, SAME, Verdict, judge, unwidened, widened

EPSILON = 2.0**-23
# After the last of the five steps.
AT_END = 5


def told(record: Record, *texts: str, line: str = "train.py:12") -> Record:
    record.printed += [[AT_END, line, text] for text in texts]
    return record


def ranks_that_print(*texts: str, others: tuple[str, ...] = ()) -> list[Record]:
    chief, other = two_ranks()
    return [told(chief, *texts), told(other, *(others or texts))]


def compared(
    expected: Record, ranks: list[Record], again: Record | None = None, moved_too: Record | None = None
) -> tuple[Comparison, Verdict]:
    again = again or copy.deepcopy(expected)
    rounding = Rounding(expected, again, moved_too or moved(copy.deepcopy(expected), 1e-7), EPSILON)
    comparison = compare(expected, ranks, rounding)
    return comparison, judge(expected, comparison, ranks, rounding, AT_END)


def verdict_on(expected: str, found: str) -> Verdict:
    return compared(told(original(), expected), ranks_that_print(found))[1]


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("epoch 1: loss 0.5127", "epoch 1: loss 0.5128"),
        ("loss 0.51273", "loss 0.51276"),
        ("rate 1.000e-04", "rate 1.001e-04"),
        ("took 12.5 seconds, loss 0.5", "took 3.25 seconds, loss 0.5"),
        ("Time for epoch 1 is 0.5 sec", "Time for epoch 1 is 12.5 sec"),
        ("elapsed: 3.1, loss 0.5", "elapsed: 4.1, loss 0.5"),
        ("1203.5 samples/s", "800.1 samples/s"),
        ("500 images per second", "732 images per second"),
        ("saved to /tmp/a8f/model.keras", "saved to /tmp/zz1/model.keras"),
        ("40.24626541137695 6.035207748413086", "40.24626159667969 6.035207271575928"),
        ("0.123456789012 1.5678901234", "0.1234567890124 1.567890123"),
        ("logs/20260102-101112/train", "logs/20260203-111213/train"),
        ("18:43:19,123 INFO done", "19:01:02,456 INFO done"),
        ("<Model object at 0x7f11aa>", "<Model object at 0x7f22bb>"),
        ("  139866890290576: TensorSpec(shape=())", "  139990117735632: TensorSpec(shape=())"),
        ("2026-01-02 10:11:12 epoch 1", "2026-02-03 11:12:13 epoch 1"),
        ("22/22 [====] - 1s 5ms/step - loss: 0.5127", "22/22 [====] - 9s 80ms/step - loss: 0.5127"),
        ("[0.12 -3.1e-09 4.5]", "[ 0.12 2.7e-09 4.5]"),
        ("loss nan", "loss nan"),
    ],
)
def test_what_no_two_runs_have_in_common_is_no_difference(expected: str, found: str) -> None:
    assert verdict_on(expected, found).kind == SAME


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ("epoch 1: loss 0.5127", "epoch 1: loss 0.5312"),
        ("epoch 3: loss 0.5127", "epoch 4: loss 0.5127"),
        ("learning rate 0.001", "learning rate 0.002"),
        ("loss 0.5", "loss nan"),
        ("1437 train samples", "718 train samples"),
        ("22/22 - 1s - 5ms/step - loss: 0.5127", "22/22 - 1s - 5ms/step - loss: 0.5000"),
        ("stopped early", "did not stop"),
    ],
)
def test_numbers_and_text_that_differ_are_told(expected: str, found: str) -> None:
    verdict = verdict_on(expected, found)
    assert verdict.kind == DIFFERENT
    assert verdict.difference is not None
    assert (verdict.difference.what, verdict.difference.line) == (PRINTED, "train.py:12")
    assert expected in verdict.reason


def test_what_is_trained_comes_first() -> None:
    ranks = [moved(rank, 1e-2) for rank in ranks_that_print("loss 0.9")]
    _, verdict = compared(told(original(), "loss 0.5"), ranks)
    assert verdict.difference is not None
    assert verdict.difference.what != PRINTED


def test_a_line_that_is_missing_is_told() -> None:
    expected = told(original(), "epoch 1: loss 0.5", "best so far: saved", "epoch 2: loss 0.4")
    _, verdict = compared(expected, ranks_that_print("epoch 1: loss 0.5", "epoch 2: loss 0.4"))
    assert "'best so far: saved' is not printed" in verdict.reason


def test_a_line_that_the_original_prints_elsewhere_is_told_and_one_of_the_port_is_not() -> None:
    expected = told(original(), "epoch 1", "epoch 2", "best so far: saved")
    ranks = ranks_that_print("rank 0 of 2", "epoch 1", "best so far: saved", "epoch 2", "best so far: saved")
    comparison, verdict = compared(expected, ranks)
    assert [one.detail for one in comparison.differences] == [
        "'best so far: saved' is printed, which the original does not print there"
    ]
    assert verdict.kind == DIFFERENT


def test_what_a_run_that_was_stopped_did_not_come_to_is_not_missing() -> None:
    expected = told(original(), "epoch 1: loss 0.5", "epoch 2: loss 0.4")
    ranks = ranks_that_print("epoch 1: loss 0.5")
    assert compared(expected, ranks)[1].kind == DIFFERENT
    for record in ranks:
        record.end = STOPPED
    assert compared(expected, ranks)[1].kind == SAME


def test_what_two_runs_of_the_original_do_not_print_alike_is_left_out() -> None:
    expected = told(original(), "run bright-fox", "score 17", "loss 0.5")
    again = told(original(), "run old-owl", "score 40", "loss 0.5")
    ranks = ranks_that_print("run red-ant", "score 3", "loss 0.5")
    assert compared(expected, ranks, again)[1].kind == SAME
    assert compared(expected, ranks)[1].kind == DIFFERENT


def test_what_was_left_out_in_float32_is_in_float64() -> None:
    narrow, wide = told(original(), "score 17"), told(original(), "score 18")
    measured = Rounding(narrow, told(original(), "score 40"), narrow, EPSILON)
    ranks = ranks_that_print("score 3")
    for known, count in ((None, 1), (measured, 0)):
        rounding = Rounding(wide, wide, wide, EPSILON, known)
        assert len(compare(wide, ranks, rounding).differences) == count


def test_what_moved_gradients_change_may_differ_by_a_multiple_of_it() -> None:
    expected, found = told(original(), "170 of 180 right"), ranks_that_print("171 of 180 right")
    assert compared(expected, found)[1].kind == DIFFERENT
    assert compared(expected, found, moved_too=told(moved(original(), 1e-7), "171 of 180 right"))[1].kind == SAME


def test_what_each_worker_prints_of_its_share_is_told_beside_the_verdict() -> None:
    expected = told(original(), "loss 0.50")
    comparison, verdict = compared(expected, ranks_that_print("loss 0.40", others=("loss 0.60",)))
    assert verdict.kind == SAME
    assert [one.detail for one in comparison.remarks] == [
        "'loss 0.40' instead of 'loss 0.50': what each worker's own share of the samples gives"
    ]
    comparison, verdict = compared(expected, ranks_that_print("loss 0.40", others=("loss 0.70",)))
    assert (verdict.kind, comparison.remarks) == (DIFFERENT, [])


def test_counts_of_shares_add_up() -> None:
    expected = told(original(), "batch of 12")
    assert compared(expected, ranks_that_print("batch of 6"))[0].remarks
    for others in ("batch of 5", "batch of 12"):
        assert compared(expected, ranks_that_print("batch of 6", others=(others,)))[1].kind == DIFFERENT


def test_a_loss_that_only_the_chief_prints_is_known_by_what_it_differentiated() -> None:
    ranks = two_ranks()
    ranks[0].steps[-1].losses, ranks[1].steps[-1].losses = [0.15], [0.25]
    told(ranks[0], "loss 0.1500")
    comparison, verdict = compared(told(original(), "loss 0.2000"), ranks)
    assert verdict.kind == SAME
    assert len(comparison.remarks) == 1


def test_progress_bars_count_once_they_are_full() -> None:
    bars = ["3/22 [=>..] - ETA: 3s - loss: 0.9", "22/22 [====] - 1s 5ms/step - loss: 0.5"]
    assert compared(told(original(), *bars), ranks_that_print(bars[1]))[1].kind == SAME


def test_a_number_that_rounding_moves_is_told_by_the_repetition_in_float64() -> None:
    narrow, first = compared(told(original(), "accuracy 0.9722"), ranks_that_print("accuracy 0.9750"))
    wide, second = compared(told(original(), "accuracy 0.9722"), ranks_that_print("accuracy 0.9722"))
    assert first.kind == DIFFERENT
    assert widened(first, narrow, second, wide).kind == SAME
    assert widened(first, narrow, first, narrow).kind == DIFFERENT
    assert unwidened(first).kind != DIFFERENT
    clear = verdict_on("accuracy 0.5", "accuracy 0.9")
    assert unwidened(clear) == clear


def test_of_long_lines_the_part_is_told_that_differs() -> None:
    begin = "validation: " + ", ".join(f"metric{n} {n}" for n in range(20))
    reason = verdict_on(f"{begin}, loss 0.25, end", f"{begin}, loss 0.75, end").reason
    assert "loss 0.75, end' instead of '" in reason
    assert "metric1 " not in reason


def test_samples_that_several_workers_compute_count_for_each_of_them_in_metrics() -> None:
    expected, ranks = told(original(), "epoch 1: loss 0.500"), ranks_that_print("epoch 1: loss 0.520")
    assert compared(expected, ranks)[1].kind == DIFFERENT
    for record in (expected, *ranks):
        record.steps[-1].rows = original().steps[-1].rows[:11]
    comparison, verdict = compared(expected, ranks)
    assert verdict.kind == SAME
    assert "count for each of them" in comparison.remarks[0].detail
