"""What each worker gets of datasets, batches and arrays: each sample once, the same number of steps on all."""

from __future__ import annotations

import collections
import dataclasses
import math
import types
from typing import Any

import numpy as np
import tensorflow as tf
from checking import of_all_ranks, raised, run_checks
from tensorflow.python.eager import context

import lockstep

RANK, SIZE = lockstep.rank(), lockstep.size()
UNKNOWN = int(tf.data.UNKNOWN_CARDINALITY)
INFINITE = int(tf.data.INFINITE_CARDINALITY)


def uncounted(dataset: tf.data.Dataset) -> tf.data.Dataset:
    dataset = dataset.filter(lambda *_: True)
    assert cardinality(dataset) == UNKNOWN
    return dataset


def cardinality(dataset: tf.data.Dataset) -> int:
    return int(dataset.cardinality())


def elements(dataset: Any) -> list[Any]:
    return [element.numpy().tolist() for element in dataset]


def check_samples_are_dealt_out_in_turn() -> None:
    dataset, local = lockstep.shard_and_rebatch_dataset(tf.data.Dataset.range(6 * SIZE), 2 * SIZE)
    assert local == 2
    assert cardinality(dataset) == 6
    batches = of_all_ranks(elements(dataset.batch(local)))
    for k in range(3):
        union = sorted(sample for rank in range(SIZE) for sample in batches[rank][k])
        assert union == list(range(2 * SIZE * k, 2 * SIZE * (k + 1)))


def check_a_known_number_stays_known() -> None:
    for count, wanted in ((4 * SIZE, 4), (4 * SIZE + 1, 4 * SIZE + 1)):
        dataset, _ = lockstep.shard_and_rebatch_dataset(tf.data.Dataset.range(count), SIZE)
        assert cardinality(dataset) == wanted
        assert cardinality(dataset.batch(1)) == -(-count // SIZE)
    dataset, _ = lockstep.shard_and_rebatch_dataset(tf.data.Dataset.range(3).repeat(), SIZE)
    assert cardinality(dataset) == INFINITE
    assert elements(dataset.take(2)) == [RANK % 3, (RANK + SIZE) % 3]


def check_the_number_of_batches_is_that_of_one_process() -> None:
    for count in range(1, 40):
        whole = tf.data.Dataset.range(count)
        for drop in (False, True):
            share, local = lockstep.shard_and_rebatch_dataset(whole, 2 * SIZE)
            expected = cardinality(whole.batch(2 * SIZE, drop_remainder=drop))
            assert cardinality(share.batch(local, drop_remainder=drop)) == expected


def check_shuffle_and_repeat_behind_the_shard() -> None:
    for make in (lambda d: d, uncounted):
        dataset, local = lockstep.shard_and_rebatch_dataset(make(tf.data.Dataset.range(10 * SIZE + 1)), 2 * SIZE)
        dataset = dataset.shuffle(7).repeat(3).batch(local, drop_remainder=True)
        counts = of_all_ranks(len(elements(dataset)))
        assert counts == [3 * (10 * SIZE + 1) // (2 * SIZE)] * SIZE


def check_elements_of_all_kinds() -> None:
    count = 2 * SIZE
    features = {
        "dense": np.arange(count * 2).reshape(count, 2),
        "ragged": tf.ragged.constant([[i] * (i % 3) for i in range(count)]),
        "sparse": tf.sparse.from_dense(np.eye(count, 4)),
    }
    by_tuple = tf.data.Dataset.from_tensor_slices((features, np.arange(count)))
    share, local = lockstep.shard_and_rebatch_dataset(by_tuple, SIZE)
    assert share.element_spec == by_tuple.element_spec
    for k, (element, label) in enumerate(share):
        i = RANK + k * SIZE
        assert int(label) == i
        assert element["ragged"].numpy().tolist() == [i] * (i % 3)
        np.testing.assert_allclose(tf.sparse.to_dense(element["sparse"]), np.eye(count, 4)[i])
    share, local = lockstep.shard_and_rebatch_dataset(uncounted(by_tuple), SIZE)
    for k, (element, label) in enumerate(share.batch(local)):
        i = RANK + k * SIZE
        assert label.numpy().tolist() == [i]
        assert element["ragged"].to_list() == [[i] * (i % 3)]
        np.testing.assert_allclose(tf.sparse.to_dense(element["sparse"])[0], np.eye(count, 4)[i])
    raised(TypeError, lockstep.shard_and_rebatch_dataset, [1, 2, 3], SIZE)


def check_slices_of_batches_are_the_batch() -> None:
    whole = tf.data.Dataset.range(10 * SIZE).batch(2 * SIZE)
    # Dealt out one by one, as the other cuts do it; what is gathered keeps the order.
    for loss, of_row in (("mean", lambda i: i % SIZE), ("gather", lambda i: i // 2)):
        share = lockstep.shard_batches(whole, loss=loss)
        assert cardinality(share) == cardinality(whole)
        assert share.element_spec.shape.as_list() == whole.element_spec.shape.as_list()
        ranks = of_all_ranks(elements(share))
        for k, batch in enumerate(elements(whole)):
            dealt = [[sample for i, sample in enumerate(batch) if of_row(i) == rank] for rank in range(SIZE)]
            assert [ranks[rank][k] for rank in range(SIZE)] == dealt


def check_a_batch_cut_in_the_step_meets_its_samples() -> None:
    """Rows that a step makes, whichever way the samples beside them were cut."""
    for count in (10 * SIZE, 10 * SIZE + 1):
        samples = tf.data.Dataset.range(count)
        pipeline, local = lockstep.shard_and_rebatch_dataset(samples, 2 * SIZE, drop_remainder=True)
        whole = samples.batch(2 * SIZE, drop_remainder=True)
        for share in (pipeline.batch(local, drop_remainder=True), lockstep.shard_batches(whole)):
            for k, batch in enumerate(share):
                made = lockstep.shard_batch(tf.range(2 * SIZE, dtype=tf.int64))
                assert (made + 2 * SIZE * k).numpy().tolist() == batch.numpy().tolist()


def check_batches_of_any_size() -> None:
    """For a mean all parts have one size and all samples come equally often; for a sum each comes once."""
    for rows in range(1, 3 * SIZE + 2):
        whole = tf.data.Dataset.range(rows).batch(3 * SIZE + 2)
        for loss in ("mean", "sum"):
            own = elements(lockstep.shard_batches(whole, loss=loss))[0]
            assert lockstep.shard_batches([np.arange(rows)], loss=loss).__iter__().__next__().tolist() == own
            ranks = of_all_ranks(own)
            times = {sum(one.count(sample) for one in ranks) for sample in range(rows)}
            if loss == "mean":
                assert len({len(one) for one in ranks}) == 1
                assert times == {SIZE // math.gcd(rows, SIZE)}
            else:
                assert max(map(len, ranks)) - min(map(len, ranks)) <= 1
                assert times == {1}
    raised(ValueError, lockstep.shard_batches, tf.data.Dataset.range(3).batch(3), "max")


def check_ops_with_seeds_draw_what_they_draw_in_one_process() -> None:
    def draw() -> list[Any]:
        order = list(tf.data.Dataset.range(20).shuffle(20, seed=3).as_numpy_iterator())
        drawn = tf.random.uniform([3], seed=4), tf.function(lambda: tf.random.normal([3], seed=5))()
        return [order, *(one.numpy().tolist() for one in drawn)]

    common = context.context()._seed
    assert common is not None
    here = draw()
    tf.random.set_seed(None)
    in_one_process = draw()
    tf.random.set_seed(int(common))  # by the script itself, it counts
    assert here == in_one_process != draw()
    tf.random.set_seed(common)


def check_batches_of_shuffled_repeated_prefetched_datasets() -> None:
    whole = tf.data.Dataset.range(8 * SIZE).shuffle(100).repeat(2).batch(2 * SIZE).prefetch(2)
    ranks = of_all_ranks(elements(lockstep.shard_batches(whole)))
    drawn = sorted(sample for one in ranks for batch in one for sample in batch)
    assert drawn == sorted([*range(8 * SIZE)] * 2)


def check_batches_of_all_kinds() -> None:
    rows = 2 * SIZE
    batch = {
        "dense": tf.reshape(tf.range(rows * 2), [rows, 2]),
        "ragged": tf.ragged.constant([[i] * (i % 3) for i in range(rows)]),
        "sparse": tf.sparse.from_dense(np.eye(rows, 4)),
    }
    whole = tf.data.Dataset.from_tensors((batch, tf.range(rows), tf.constant(7.0)))
    ((features, labels, scalar),) = list(lockstep.shard_batches(whole))
    own = [RANK, RANK + SIZE]
    assert labels.numpy().tolist() == own
    assert scalar.numpy() == 7.0
    assert features["dense"].numpy()[:, 0].tolist() == [2 * i for i in own]
    assert features["ragged"].to_list() == [[i] * (i % 3) for i in own]
    np.testing.assert_allclose(tf.sparse.to_dense(features["sparse"]), np.eye(rows, 4)[own])


def check_static_batch_shapes_stay_static() -> None:
    whole = tf.data.Dataset.range(4 * SIZE).batch(2 * SIZE, drop_remainder=True)
    assert lockstep.shard_batches(whole).element_spec.shape == [2]


def check_sequences_and_generators() -> None:
    sequence_class = getattr(tf.keras.utils, "PyDataset", tf.keras.utils.Sequence)

    class Batches(sequence_class):  # type: ignore[misc, valid-type]
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
            rows = np.arange(index * 2 * SIZE, (index + 1) * 2 * SIZE)
            return rows[:, None], rows

    sequence = Batches()
    share = lockstep.shard_batches(sequence)
    assert isinstance(share, Batches)
    assert len(share) == 3
    assert share[1][1].tolist() == [2 * SIZE + RANK, 3 * SIZE + RANK]
    assert len(sequence[1][1]) == 2 * SIZE
    generator = lockstep.shard_batches(sequence[k] for k in range(3))
    assert [labels.tolist() for _, labels in generator] == [share[k][1].tolist() for k in range(3)]
    batches = lockstep.shard_batches([sequence[k] for k in range(3)])
    for _ in range(2):
        assert [labels.tolist() for _, labels in batches] == [share[k][1].tolist() for k in range(3)]
    assert len(batches) == 3
    raised(TypeError, lockstep.shard_batches, np.zeros(3))


def check_what_was_cut_is_not_cut_again() -> None:
    whole = tf.data.Dataset.range(8 * SIZE)
    samples, _ = lockstep.shard_and_rebatch_dataset(whole, 2 * SIZE)
    batches = lockstep.shard_batches(whole.batch(2 * SIZE))
    x, y = lockstep.shard_arrays(np.arange(8 * SIZE).reshape(-1, 2), np.arange(4 * SIZE))
    generator = lockstep.shard_batches(np.zeros(SIZE) for _ in range(2))
    listed = lockstep.shard_batches([np.zeros(SIZE)])
    drawn = lockstep.shard_batch(tf.range(4 * SIZE))
    numbers = whole.enumerate()
    for cut in (
        batches,
        batches.prefetch(1),
        iter(batches),
        batches.repeat(2).map(lambda row: row + 1),
        samples.batch(2),
        tf.data.Dataset.zip((numbers.batch(2), samples)).take(3),
        generator,
        listed,
        iter(listed),
        batches.as_numpy_iterator(),
        tf.data.Dataset.from_tensor_slices((x, y)).shuffle(3).batch(2),
        tf.data.Dataset.from_tensor_slices(drawn),
    ):
        text = raised(ValueError, lockstep.shard_batches, cut)
        assert "was cut already, by lockstep.shard_" in text
        assert "data.py:" in text
    raised(ValueError, lockstep.shard_and_rebatch_dataset, samples.shuffle(3), SIZE)
    for cut in (x, x[1:], x[::2].T, {"y": y.reshape(-1, 1)}, drawn):
        raised(ValueError, lockstep.shard_arrays, cut)
        raised(ValueError, lockstep.shard_batch, cut)
    twice = tf.function(lambda rows: lockstep.shard_batch(lockstep.shard_batch(rows)))
    raised(ValueError, twice, tf.range(4 * SIZE))
    for again in (whole, whole.batch(2), numbers):
        lockstep.shard_batches(again)


def check_different_random_states_are_noticed() -> None:
    whole = tf.data.Dataset.range(8 * SIZE).batch(2 * SIZE)
    state = np.random.get_state()
    np.random.seed(RANK)
    lockstep.shard_batches(whole)  # NumPy does not matter to tf.data
    assert "random states differ" in raised(lockstep.MismatchError, lockstep.shard_batches, [np.zeros(SIZE)])
    np.random.set_state(state)
    tf.random.set_seed(100 + RANK)
    assert "random states differ" in raised(lockstep.MismatchError, lockstep.shard_batches, whole)
    assert "random states differ" in raised(
        lockstep.MismatchError, lockstep.shard_and_rebatch_dataset, tf.data.Dataset.range(9), SIZE
    )
    tf.random.set_seed(100)
    if RANK == 0:
        tf.random.normal([1])
    assert "random states differ" in raised(lockstep.MismatchError, lockstep.shard_batches, whole)
    tf.random.set_seed(100)
    lockstep.shard_batches(whole)


def check_arrays_of_all_kinds() -> None:
    import scipy.sparse

    count = 3 * SIZE + 1
    rows = np.arange(count)
    own = [RANK, RANK + SIZE, RANK + 2 * SIZE, (RANK + 3 * SIZE) % count]
    x, y, none = lockstep.shard_arrays(np.eye(count), rows, None)
    np.testing.assert_array_equal(x, np.eye(count)[own])
    assert y.tolist() == own
    assert none is None
    assert lockstep.shard_arrays(rows.tolist()) == own
    assert lockstep.shard_arrays(tf.range(count)).numpy().tolist() == own
    nested = lockstep.shard_arrays({"a": rows, "b": [rows, (tf.range(count), None)]})
    assert nested["a"].tolist() == own
    assert nested["b"][1][0].numpy().tolist() == own
    assert lockstep.shard_arrays(tf.ragged.constant([[i] * (i % 3) for i in rows])).to_list() == [
        [i] * (i % 3) for i in own
    ]
    sparse = lockstep.shard_arrays(scipy.sparse.csr_matrix(np.eye(count)))
    np.testing.assert_array_equal(sparse.toarray(), np.eye(count)[own])
    assert lockstep.shard_arrays(np.array(["a", "b"] * SIZE)).shape == (2,)


def check_arrays_that_do_not_belong_together() -> None:
    assert "[4, 5]" in raised(ValueError, lockstep.shard_arrays, np.zeros(4), np.zeros(5))
    raised(TypeError, lockstep.shard_arrays, tf.data.Dataset.range(3))
    raised(TypeError, lockstep.shard_arrays, 3)
    raised(ValueError, lockstep.shard_arrays, np.zeros(4), validation_split=1.0)


def check_differently_shuffled_arrays_are_noticed() -> None:
    x = np.random.RandomState(RANK).permutation(1000)
    assert "in the same order" in raised(lockstep.MismatchError, lockstep.shard_arrays, x)
    lockstep.shard_arrays(np.random.permutation(1000))  # the common seed
    raised(lockstep.MismatchError, lockstep.shard_arrays, np.zeros(100 + RANK))


def check_fit_cuts_the_share_where_training_ends() -> None:
    """By fit itself: what it trains on and what it validates on, over all ranks."""
    for count, split in ((20 * SIZE, 0.25), (101, 0.2), (57, 0.1)):
        x = np.arange(count, dtype="float32")
        training = int(count * (1.0 - split))
        share = lockstep.shard_arrays(x, validation_split=split)
        cut = int(len(share) * (1.0 - split))
        trained, validated = of_all_ranks(share[:cut].tolist()), of_all_ranks(share[cut:].tolist())
        assert {len(one) for one in trained} == {-(-training // SIZE)}
        assert {sample for one in trained for sample in one} == set(range(training))
        validation = [sample for one in validated for sample in one]
        assert set(validation) <= set(range(training, count))
        assert len(set(validation)) >= min(count - training, len(validation)) - SIZE
        assert len({len(one) for one in validated}) == 1


def check_a_batch_in_hand_is_dealt_out() -> None:
    for count in (4 * SIZE, 4 * SIZE + 1, SIZE - 1):
        batch = np.arange(count)
        ranks = of_all_ranks(lockstep.shard_batch(batch).tolist())
        assert len({len(one) for one in ranks}) == 1  # or the mean over the ranks is none over the rows
        (times,) = {sum(one.count(row) for one in ranks) for row in range(count)}
        assert times > 0
        summed = of_all_ranks(lockstep.shard_batch(batch, loss="sum").tolist())
        assert sorted(row for one in summed for row in one) == list(range(count))


def check_batches_that_each_worker_made_for_itself_are_noticed() -> None:
    def own_batches() -> Any:
        generator = np.random.RandomState(RANK)
        while True:
            yield generator.standard_normal([2 * SIZE, 3]), np.zeros(2 * SIZE)

    text = raised(lockstep.MismatchError, lambda: [lockstep.shard_batch(*next(own_batches())) for _ in range(200)])
    assert "lockstep.shard_batch at " in text
    assert "data.py:" in text
    text = raised(lockstep.MismatchError, next, lockstep.shard_batches(own_batches()))
    assert "own_batches" in text
    text = raised(lockstep.MismatchError, list, lockstep.shard_batches([np.full([SIZE], RANK)]))
    assert "batch 1 of list" in text
    whole = tf.data.Dataset.range(8 * SIZE).batch(2 * SIZE)
    twice = lambda: [lockstep.shard_batch(batch) for batch in lockstep.shard_batches(whole)]  # noqa: E731
    assert "was cut for it before" in raised(lockstep.MismatchError, lambda: [twice() for _ in range(99)])
    state = np.random.get_state()
    np.random.seed(RANK)  # that some worker drew for itself does not matter
    lockstep.shard_batch(np.zeros(SIZE))
    np.random.set_state(state)


def check_a_batch_in_a_graph_is_dealt_out() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None]), tf.RaggedTensorSpec([None, None])])
    def own(x: tf.Tensor, ragged: tf.RaggedTensor) -> Any:
        return lockstep.shard_batch({"x": x, "none": None}, ragged)

    for count in (2 * SIZE, 2 * SIZE + 1):
        rows = tf.range(float(count))
        x, ragged = own(rows, tf.RaggedTensor.from_tensor(rows[:, None]))
        assert x["none"] is None
        assert x["x"].numpy().tolist() == lockstep.shard_batch(rows).numpy().tolist()
        assert ragged.to_list() == [[row] for row in x["x"].numpy()]


def check_batches_of_unequally_many_rows_that_come_together() -> None:
    several = np.arange(4 * SIZE), np.arange(2 * SIZE)
    mine = lockstep.shard_batch(*several)
    assert [len(part) for part in mine] == [4, 2]
    for part, whole in zip(mine, several):
        assert sorted(row for rows in of_all_ranks(part.tolist()) for row in rows) == whole.tolist()
    several = [np.arange(4 * SIZE + 1), np.arange(2 * SIZE)], np.arange(1)
    for loss in ("sum", "gather"):
        mine = tf.nest.flatten(lockstep.shard_batch(*several, loss=loss))
        for part, whole in zip(mine, tf.nest.flatten(several)):
            assert sorted(row for rows in of_all_ranks(part.tolist()) for row in rows) == whole.tolist()
    first, _, last = tf.nest.flatten(lockstep.shard_batch(*several))
    assert last.tolist() == [0]
    assert np.isclose(np.mean([np.mean(part) for part in of_all_ranks(first.tolist())]), np.mean(several[0][0]))


@dataclasses.dataclass(frozen=True)
class Samples:
    inputs: Any
    targets: Any
    weights: Any = None


Pair = collections.namedtuple("Pair", "inputs targets")


def check_records_are_dealt_out_field_by_field() -> None:
    rows = np.arange(4 * SIZE)
    for made in (Pair(rows, [rows * 2]), Samples(rows, [rows * 2])):
        for mine in (lockstep.shard_batch(made), *lockstep.shard_batches(iter([made]))):
            assert type(mine) is type(made)
            assert len(mine.inputs) == 4
            assert (mine.targets[0] == mine.inputs * 2).all()
            assert sorted(row for part in of_all_ranks(mine.inputs.tolist()) for row in part) == rows.tolist()
        assert len(made.inputs) == 4 * SIZE


def check_what_is_named_as_whole_stays() -> None:
    rows = np.arange(4 * SIZE)
    made_of = types.SimpleNamespace(inputs=rows, targets={"rows": rows, "rate": 0.5})
    for made in (Pair(**vars(made_of)), Samples(**vars(made_of)), made_of):
        mine = lockstep.shard_batch(made, whole=["rate"])
        assert type(mine) is type(made)
        assert mine.targets["rate"] == 0.5
        assert mine.targets["rows"].tolist() == mine.inputs.tolist()
        assert sorted(row for part in of_all_ranks(mine.inputs.tolist()) for row in part) == rows.tolist()
        assert len(made.inputs) == 4 * SIZE
        raised(TypeError, lockstep.shard_batch, made)
        raised(TypeError, lockstep.shard_batch, made, whole=["rat"])
    assert lockstep.shard_batch({"rows": rows, "rate": 0.5}, whole="rate")["rate"] == 0.5


def check_tables_in_a_batch_are_no_rows() -> None:
    rows, table = np.arange(4 * SIZE), np.arange(SIZE)
    batch = {"rows": rows, "name": "batch 0", "table": table, "none": None}
    if SIZE > 1:
        assert "whole=['table']" in raised(ValueError, lockstep.shard_batch, {**batch, "more": rows})
        assert "table" in raised(ValueError, lockstep.shard_batch, {"batch": types.SimpleNamespace(**batch)})
    mine = lockstep.shard_batch(batch, whole=["table"])
    assert (len(mine["rows"]), mine["name"], mine["none"]) == (4, "batch 0", None)
    assert mine["table"].tolist() == table.tolist()

    @tf.function(input_signature=[{"rows": tf.TensorSpec([None]), "table": tf.TensorSpec([None])}])
    def cut(batch: dict[str, tf.Tensor]) -> tf.Tensor:
        return lockstep.shard_batch(batch)["rows"]

    floats = np.float32(rows)
    assert len(cut({"rows": floats, "table": floats})) == 4
    if SIZE > 1:
        raised(tf.errors.InvalidArgumentError, cut, {"rows": floats, "table": np.float32(table)})


def check_what_is_no_batch_is_said() -> None:
    raised(ValueError, lockstep.shard_batch, np.zeros(4), loss="max")
    raised(TypeError, lockstep.shard_batch, 3)


run_checks(globals())
