"""What a rule inserts names only what is known at its place."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst
import pytest

from migrator.edits import AddArgument, Edit, InsertAfter, InsertBefore, InsertFirst, Wrap
from migrator.engine import migrate
from migrator.facts.script import Facts
from migrator.rule import Findings, Rule, rule

SCRIPT = b"""import tensorflow as tf


class Trainer:
    def __init__(self):
        self.model = tf.keras.Sequential()


def main(size):
    print(Trainer(), size)
    Trainer().model.fit([], [])


main(3)
"""
Make = Callable[[cst.Call], Edit]


def refused(*makes: Make) -> list[str]:
    """The reasons that come of edits at the call of print in main."""

    @rule
    def insert(facts: Facts) -> Findings:
        """Insert something."""
        if "lockstep" in facts.tree.names:  # the second run of the same
            return
        call = next(c for c in facts.tree.calls if isinstance(c.func, cst.Name) and c.func.value == "print")
        for make in makes:
            edit = make(call)
            yield InsertFirst(facts.tree.functions[-1], edit.code) if isinstance(edit, InsertFirst) else edit

    assert isinstance(insert, Rule)
    return [finding.message for finding in migrate(SCRIPT, [insert]).refusals]


@pytest.mark.parametrize(
    "make",
    [
        lambda call: InsertAfter(call, ("lockstep.broadcast(self.model)",)),
        lambda call: InsertBefore(call, ("lockstep.broadcast([self.model, tf])",)),
        lambda call: InsertFirst(call, ("lockstep.broadcast(self.model)",)),
        lambda call: Wrap(call.args[0].value, "lockstep.all_gather(", ", self)"),
        lambda call: AddArgument(call, ("sep=self.sep",)),
    ],
)
def test_a_name_of_another_function_is_refused(make: Make) -> None:
    assert refused(make) == ["what would have to be inserted here needs `self`, which is not known here"]


@pytest.mark.parametrize(
    "make",
    [
        lambda call: InsertAfter(call, ("lockstep.broadcast([size, Trainer, tf, *map(int, ())])",)),
        lambda call: InsertAfter(call, ("lockstep.broadcast([each.model for each in (Trainer(),)])",)),
        lambda call: Wrap(call.args[0].value, "*lockstep.shard_batch(", ", math.pi)", imports="math"),
    ],
)
def test_known_names_are_written(make: Make) -> None:
    assert refused(make) == []


def test_what_one_edit_names_another_may_read() -> None:
    assert (
        refused(
            lambda call: InsertBefore(call, ("local_size = lockstep.local_batch_size(size)",)),
            lambda call: Wrap(call.args[1].value, "local_size or ", ""),
        )
        == []
    )
