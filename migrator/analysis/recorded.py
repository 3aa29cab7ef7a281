"""What a run records by the nodes of the text: needed repairs, what decides, what is trained, who is called.

It is forgotten when the run begins anew, and set aside while something is tried.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.libraries.keras.applying import BuiltCall
from migrator.analysis.placement import Placement, Unknown
from migrator.analysis.plan import Plain
from migrator.analysis.values import Data, Value

if TYPE_CHECKING:
    from migrator.analysis.libraries.keras.hooks import Hook


class Recorded:
    def __init__(self) -> None:
        before = set(vars(self))
        self.forget()
        self._recorded = vars(self).keys() - before

    def records(self) -> dict[str, Any]:
        """All that is recorded until now, to be restored."""
        return {name: vars(self)[name] for name in self._recorded}

    def restore(self, records: Mapping[str, Any]) -> None:
        vars(self).update(records)

    def forget(self) -> None:
        """Begins with no records."""
        self.needed_words: set[cst.CSTNode] = set()
        # What the user says otherwise than it is seen to be.
        self.contradicted: dict[cst.CSTNode, Placement] = {}
        self.combined_by_itself: set[cst.CSTNode] = set()  # what is seen, and needs no word
        self.batch_sizes: set[int | None] = set()  # the sizes of batches that are known numbers
        self.trusted: dict[cst.CSTNode, str] = {}
        self.trusted_rows: dict[cst.CSTNode, str] = {}
        self._lost_first: dict[int, tuple[Unknown, cst.CSTNode]] = {}
        self.seen: dict[cst.CSTNode, Value] = {}
        # Of `rows`, those that stand, some time, for a number that has none, and those that stand for a batch.
        self.numbers: set[cst.CSTNode] = set()
        # The names under which a batch that is cut holds numbers, and rows.
        self.numbers_in: dict[cst.CSTNode, set[str]] = defaultdict(set)
        self.rows_in: dict[cst.CSTNode, set[str]] = defaultdict(set)
        self.batches: set[cst.CSTNode] = set()
        # Of these, what may be an object of a class of the program's that is no record.
        self.objects_cut: set[cst.CSTNode] = set()
        self.not_rows: set[cst.CSTNode] = set()  # what stands, some time, otherwise than as rows of a worker
        # What is, some time in training, neither a mean over the batch nor the same on all workers.
        self.not_means: set[cst.CSTNode] = set()
        self.not_symbolic: set[cst.CSTNode] = set()  # what is, some time, no tensor of a model that is built
        self.decisions: dict[cst.CSTNode, Value] = {}
        self.compares: set[cst.CSTNode] = set()  # subjects of `match` of which more is asked than their form, some time
        # The ways of branches that were run; None: both.
        self.ways: dict[cst.CSTNode, set[bool | None]] = defaultdict(set)
        self.alone: set[cst.CSTNode] = set()  # functions that nobody has called, and that were run by themselves
        self.handed: set[cst.CSTNode] = set()  # those that another library may call, with what nobody sees
        # What settles how many numbers a `range` gives.
        self.turns: dict[v.Atom, list[Value]] = {}
        self.losses: dict[cst.CSTNode, Value] = {}
        self.seen_to_run: set[cst.CSTNode] = (
            set()
        )  # those of losses that something is seen to run, or to give batches to
        self.whole_losses: dict[cst.CSTNode, Value] = {}
        self.gradients: dict[cst.CSTNode, Value] = {}
        self.added_losses: dict[cst.CSTNode, Value] = {}
        self.kept_by_layers: set[v.Repair] = set()
        self.compiled: dict[cst.CSTNode, Value] = {}
        self.fits: dict[cst.CSTNode, list[tuple[v.Atom, Value, Value]]] = defaultdict(list)
        self.called: set[cst.CSTNode] = set()
        self.called_apart: set[cst.CSTNode] = set()  # of these, outside of losses, with rows or gradients of a worker
        self.barred: set[cst.CSTNode] = set()  # functions that run where nothing can be put together, too
        self.plain = Plain(set(), set(), set())
        # The same in evaluations of Keras's.
        self.left_alone = Plain(set(), set(), set())
        # The same in calls of models on what all workers have, and nothing else, by these calls.
        self.plain_in: dict[cst.CSTNode, Plain] = defaultdict(lambda: Plain(set(), set(), set()))
        # The innermost calls in which something is right as it stands, by what that is; None: outside of all functions.
        self.plain_calls: dict[cst.CSTNode, set[cst.CSTNode | None]] = defaultdict(set)
        self.called_at: dict[cst.CSTNode, set[cst.CSTNode]] = defaultdict(set)  # functions, by the calls that run them
        # Of the calls that are planned as undivided, those in which something is a worker's part.
        self.divided: set[cst.CSTNode] = set()
        self.repairs: dict[cst.CSTNode, set[v.Repair]] = defaultdict(set)
        # Where a worker's rows meet what is made of all of them, with the repairs that make it so.
        self.meetings: dict[cst.CSTNode, set[frozenset[v.Repair]]] = defaultdict(set)
        self.put_in: dict[v.Container, set[cst.CSTNode | None]] = defaultdict(set)  # lists, by what is put into them
        self.growing: set[v.Container] = set()  # dictionaries of which it matters which keys were asked for before
        # By the call that makes an object of another package what its methods are given of rows of a batch.
        self.given_to: dict[cst.CSTNode, set[v.Repair]] = defaultdict(set)
        # What changes rows of a worker's part in place as only all rows can be; with the repair that makes it right.
        self.changed: dict[cst.CSTNode, v.Repair] = {}
        self.lost_at: dict[cst.CSTNode, set[cst.CSTNode]] = defaultdict(set)
        self.of_means: set[cst.CSTNode] = set()  # calls that take gradients of samples, of means over a worker's part
        self.to_sum: set[cst.CSTNode] = set()  # sums of terms that are to be planned as `summed`
        self.forward: set[cst.CSTNode] = set()
        # Where a model, a layer, weights or a product work on the rows of a worker, but for evaluations of Keras's.
        self.work: set[cst.CSTNode] = set()
        # Calls of one of several functions, of which only some need their arguments put together.
        self.torn: set[cst.CSTNode] = set()
        self.torn_functions: set[cst.CSTNode] = set()
        self.reductions: set[str] = set()  # the kinds that are taken over rows
        # Functions with the names of what they get a worker's rows by in some call. What else they get in a call that
        # may be as many rows, by the function and the call; None where it is not surely an array.
        self.given_rows: set[tuple[cst.CSTNode, int | str]] = set()
        self.given_arrays: dict[tuple[cst.CSTNode, cst.CSTNode], dict[int | str, cst.CSTNode | None]]
        self.given_arrays = defaultdict(dict)
        self.made_of_all: set[cst.CSTNode | None] = set()  # of these, what is made of all rows of a batch
        # Arrays in which rows look up, by what these hold; what is one on some ways alone.
        self.tables: set[cst.CSTNode] = set()
        self.not_tables: set[cst.CSTNode] = set()
        # What makes rows of samples out of one number, which look up in a table; what looks up in one for all samples
        # outside of graphs, or in functions that Keras calls, and what does so on some ways alone.
        self.filled: set[cst.CSTNode] = set()
        self.for_all: set[cst.CSTNode] = set()
        self.for_all_in_keras: set[cst.CSTNode] = set()
        self.trains_eagerly = False  # whether some gradients are taken outside of graphs
        self.not_for_all: set[cst.CSTNode] = set()
        self.lists: set[cst.CSTNode] = set()  # the operations that give lists of tensors
        self.hidden: set[cst.CSTNode] = set()
        self.hooks: dict[cst.CSTNode, set[Hook]] = defaultdict(set)  # what is set that Keras runs, by where that is
        self.trained_by_keras: set[v.Atom] = set()  # the models of `fit` and `train_on_batch`
        self.traced: set[cst.CSTNode] = set()  # functions of which a graph is made
        self.traced_models: set[v.Atom] = set()  # the same of objects: `tf.function(model)`
        # Of these, those that are traced once for all shapes that their signatures tell.
        self.signatures: dict[cst.CSTNode, set[Value]] = defaultdict(set)
        self.left_open: set[cst.CSTNode] = set()  # the sizes, where they are written, that become None
        self.of_open_size: set[cst.CSTNode] = set()  # functions of which the graph is not told how many rows there are
        self.of_fixed_size: set[cst.CSTNode] = set()  # functions that go on only if there are as many as a batch has
        self.sizeless: set[cst.CSTNode] = set()  # what a graph makes of sizes that it is not told, and cannot
        # The sizes of all workers' batches that the runtime makes those of one worker's of, by the call
        # and the context of the frame.
        self.shared_sizes: dict[tuple[cst.CSTNode, tuple[int, ...]], Value] = {}
        self.full_batches: set[int] = set()  # the ids of calls that make batches of one size
        self.with_gradients: set[cst.CSTNode] = set()  # functions that give their own, of values as they are there
        self.baked: set[cst.CSTNode] = set()  # what a graph has as it was when it was traced, and changes
        self.whole_layers: set[cst.CSTNode] = set()  # functions that Keras calls and that give all rows of a batch
        # Of what kind the metrics of a `fit` are that are no means: "class" of Keras's, "function", "own" class.
        self.odd_metrics: dict[cst.CSTNode, set[str]] = defaultdict(set)
        self.fed_parts: set[cst.CSTNode] = set()  # calls that give metrics something else than all rows of a batch
        # What metrics are given in steps of Keras's `fit`, by the calls of `fit`, and when no `fit` runs.
        self.fed: dict[cst.CSTNode | None, dict[cst.CSTNode, set[Data]]] = defaultdict(lambda: defaultdict(set))
        # What metrics of the program's own classes tell behind a `fit`, by the calls that make them.
        self.told: dict[cst.CSTNode, dict[cst.CSTNode, Value]] = defaultdict(dict)
        self.applied: set[v.Atom] = set()
        self.built_in: set[v.Atom] = set()
        # Of layers, the models of layers one behind the other that they are in.
        self.sequences: dict[v.Atom, dict[v.Atom, None]] = defaultdict(dict)
        # Whether a part of a model that is made of Keras's tensors makes else than a row of each row.
        self.has_odd_layers = False
        # How many expressions had been met when a model was first applied, and when what it gives was taken.
        self.first_use: dict[v.Atom, int] = {}
        self.first_taken: dict[v.Atom, int] = {}
        self.built_calls: list[BuiltCall] = []
        self.known_weights: set[v.Atom] = set()
        self.wanting: set[cst.CSTNode] = set()
        # The calls of `train_on_batch`, with those that compile their models.
        self.trained_on_batches: dict[cst.CSTNode, set[cst.CSTNode]] = defaultdict(set)
