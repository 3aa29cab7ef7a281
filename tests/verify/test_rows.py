"""Samples of the workers against those of the batch: lost, repeated, strange."""

from __future__ import annotations

import numpy as np
import pytest

from migrator.verify.rows import RowsApart, rows_apart, rows_counted_once

BATCH = np.random.RandomState(0).uniform(1, 2, (12, 2))


def apart(*parts: np.ndarray, batch: np.ndarray = BATCH) -> RowsApart:
    return rows_apart(batch, parts, 1e-6)


def test_interleaved_and_contiguous_shares_make_up_the_batch() -> None:
    assert apart(BATCH[::2], BATCH[1::2]).is_same
    assert apart(BATCH[:6], BATCH[6:]).is_same
    assert apart(BATCH[7:], BATCH[:7]).is_same


def test_samples_computed_in_another_order_are_the_same_but_for_rounding() -> None:
    found = apart(BATCH[::2] * (1 + 1e-8), BATCH[1::2])
    assert found.is_same
    assert 0 < found.size < 1e-7


@pytest.mark.parametrize(
    ("parts", "lost", "repeated", "strange"),
    [
        ((BATCH, BATCH), 0, 12, 0),
        ((BATCH[:6], BATCH[:6]), 6, 6, 0),
        ((BATCH[:6], BATCH[6:11]), 1, 0, 0),
        ((BATCH[:6], BATCH[6:] + 1), 6, 0, 6),
    ],
    ids=["whole-batch-twice", "same-half-twice", "one-lost", "others"],
)
def test_wrong_shares_are_told(parts: tuple[np.ndarray, ...], lost: int, repeated: int, strange: int) -> None:
    found = apart(*parts)
    assert not found.is_same
    assert (found.lost, found.repeated, found.strange) == (lost, repeated, strange)


def test_equal_samples_of_a_batch_count_as_often_as_they_are_there() -> None:
    batch = np.concatenate([BATCH[:4], BATCH[:4]])
    assert apart(batch[:4], batch[4:], batch=batch).is_same
    assert apart(BATCH[:2], BATCH[2:4], batch=batch).lost == 4


def test_a_part_that_cannot_be_shared_out_evenly_may_be_computed_by_several_workers() -> None:
    odd = BATCH[:11]
    assert apart(odd, odd, batch=odd).is_same
    assert not apart(odd, odd, odd[:1], batch=BATCH[:11]).lost
    assert apart(odd[:5], odd[:5], batch=odd).lost == 6


def test_a_last_batch_is_cut_as_a_whole_one_is() -> None:
    last = BATCH[:6]
    assert not rows_apart(last, (last, last, last), 1e-6).is_same
    assert rows_apart(last, (last, last, last), 1e-6, batch=32).is_same
    assert rows_apart(last, (last[:4], last[:4], last), 1e-6, batch=32).is_same
    assert not rows_apart(last, (last, last, last), 1e-6, batch=12).is_same


def test_no_samples_seen_differ_from_some() -> None:
    assert apart(np.zeros((0, 2)), np.zeros((0, 2)), batch=np.zeros((0, 2))).is_same
    assert apart(np.zeros((0, 2)), np.zeros((0, 2))).lost == 12


def test_rows_that_several_workers_have_are_shared_by_them() -> None:
    parts = (BATCH[:1], BATCH[:1] * (1 + 1e-9), BATCH[1:4], BATCH[:0])
    assert rows_counted_once(parts, 1e-6).tolist() == [0.5, 0.5, 3.0, 0.0]
    assert rows_counted_once((BATCH[:0], BATCH[:0]), 1e-6).tolist() == [0.0, 0.0]
