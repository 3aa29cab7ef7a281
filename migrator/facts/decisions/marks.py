"""How values differ from worker to worker, and what of that enters what is made of them."""

from __future__ import annotations

from migrator.facts.dependence import Way
from migrator.facts.dependence.spreading import Marks


class Mark:
    """How a value is local. Plain numbers: an enum's are slow, and the marks of all values are joined over and over."""

    NONE = 0
    VALUE = 1  # computed from this worker's samples
    COUNT = 2  # how many samples this worker has seen
    INSIDE = 4  # a container, alike on all workers but for local values in it
    CHOSEN = 8 | 64  # alike, or picked from what is alike, by a local choice
    OWN = 16  # has nothing to do with the data: the time, the process, the system's randomness
    STATISTIC = 32  # comes from a model whose BatchNormalization has seen this worker's samples alone
    PICKED = 64  # chosen itself: without this only something in it is
    HELD = 128  # a container, alike on all workers but for what comes from such a model
    WITHIN = INSIDE | HELD


def _through(way: Way, mark: Marks) -> Marks:
    """How a value is local that another enters in this way."""
    if way is Way.WHOLE:
        return mark
    if way is Way.CHOICE:
        return Mark.CHOSEN if mark & ~Mark.WITHIN else Mark.NONE
    if way is Way.IDENTITY:
        return Mark.CHOSEN if mark & Mark.PICKED else Mark.NONE
    if way is Way.INTO:
        mark &= ~Mark.PICKED
    elif mark & Mark.CHOSEN:  # what is taken out of something may be what was chosen there
        mark |= Mark.CHOSEN
    if way is Way.PRESENCE:
        return mark & Mark.CHOSEN
    if way in (Way.SIZE, Way.LENGTH):
        local = Mark.VALUE | Mark.COUNT if way is Way.LENGTH else Mark.VALUE
        sizes = Mark.COUNT if mark & local else Mark.NONE
        return (mark & (Mark.CHOSEN | Mark.OWN)) | sizes
    for taken_out, put_in in _PUT_IN:
        old, new = (taken_out, put_in) if way is Way.INTO else (put_in, taken_out)
        mark = (mark & ~old) | new if mark & old else mark
    return mark


# What a container holds is local in these ways, and the container with it.
_PUT_IN = ((Mark.VALUE, Mark.INSIDE), (Mark.STATISTIC, Mark.HELD))
EVERY = 2 * Mark.HELD - 1
# What enters a value in a way that is local like this.
PASSED = [[_through(way, mark) for mark in range(EVERY + 1)] for way in Way]
# Which single marks give those when they enter in that way: each is passed on whatever stands beside it.
_SINGLE = [1 << bit for bit in range(EVERY.bit_length())]
TAKEN = [[sum(one for one in _SINGLE if passed[one] & mark) for passed in PASSED] for mark in range(EVERY + 1)]
