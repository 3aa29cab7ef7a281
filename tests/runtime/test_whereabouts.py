"""When rank 0 may say that workers will never meet: a job must not end because a worker or a network is slow."""

from __future__ import annotations

from lockstep.peers.whereabouts import END_OF_SCRIPT, Place, Whereabouts

MEAN = Place("all_reduce of 3 tensors", begun=8, finished=7, line="train.py:9")
OTHER = Place("broadcast", begun=8, finished=7, line="train.py:4")


def asked(waits: dict[int, Place], answers: dict[int, Place], size: int = 2) -> Whereabouts:
    known = Whereabouts(size, dict(waits))
    inquiry = known.inquire()
    for rank, place in answers.items():
        known.answer(rank, inquiry, place)
    return known


def test_workers_that_still_wait_in_different_calls() -> None:
    both = {0: MEAN, 1: OTHER}
    known = asked(both, both)
    assert known.are_suspicious()
    assert known.are_complete()
    assert known.are_deadlocked()
    assert "rank 0 waits in all_reduce of 3 tensors at train.py:9" in known.describe()
    assert "rank 1 waits in broadcast at train.py:4" in known.describe()


def test_two_of_three_are_enough() -> None:
    waits = {0: MEAN, 2: OTHER}
    known = asked(waits, {**waits, 1: Place(line="train.py:77", finished=7)}, size=3)
    assert known.are_deadlocked()
    assert "rank 1 is in no collective call, but at train.py:77" in known.describe()


def test_workers_that_wait_in_the_same_call() -> None:
    both = {0: MEAN, 1: MEAN}
    assert not asked(both, both).are_suspicious()
    assert not asked(both, both).are_deadlocked()


def test_a_worker_that_is_slow_to_finish_the_call_before() -> None:
    """It has made its part of that call, since others have finished it: it will come."""
    ahead = Place("broadcast", begun=9, finished=8)
    both = {0: MEAN, 1: ahead}
    assert not asked(both, both).are_suspicious()
    assert not asked(both, both).are_deadlocked()


def test_a_worker_that_has_moved_on_since_it_reported() -> None:
    waits = {0: MEAN, 1: OTHER}
    moved = Place("all_reduce of 3 tensors", begun=9, finished=8)
    assert not asked(waits, {0: MEAN, 1: moved}).are_deadlocked()
    assert not asked(waits, {0: MEAN, 1: Place(finished=8)}).are_deadlocked()


def test_a_worker_that_does_not_answer() -> None:
    known = asked({0: MEAN, 1: OTHER}, {0: MEAN})
    assert not known.are_complete()
    assert not known.are_deadlocked()
    assert "rank 1 does not answer" in known.describe()


def test_late_answers_to_an_earlier_inquiry_do_not_count() -> None:
    known = asked({0: MEAN, 1: OTHER}, {})
    known.inquire()
    known.answer(1, 1, OTHER)
    assert known.answers == {}


def test_a_worker_that_has_left_never_comes_back() -> None:
    known = Whereabouts(2, {0: MEAN})
    known.leave(1, finished=7)
    assert known.are_suspicious()
    known.answer(0, known.inquire(), MEAN)
    assert known.are_deadlocked()
    assert known.some_have_left()
    assert "rank 1 has come to the end of its script" in known.describe()


def test_workers_that_leave_together() -> None:
    known = Whereabouts(2, {0: Place(END_OF_SCRIPT, begun=8, finished=7)})
    known.leave(1, finished=7)
    assert not known.are_suspicious()
