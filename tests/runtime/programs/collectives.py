"""all_reduce, broadcast of plain values, barriers, and what happens when workers do not do the same."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import tensorflow as tf
from checking import assert_equal_on_all_ranks, of_all_ranks, raised, run_checks

import lockstep
from lockstep.collectives.world import backend

RANK, SIZE = lockstep.rank(), lockstep.size()
MEAN_RANK = (SIZE - 1) / 2
SUM_RANK = SIZE * (SIZE - 1) // 2


def check_ranks_are_numbered() -> None:
    assert of_all_ranks(RANK) == list(range(SIZE))
    assert of_all_ranks(lockstep.local_rank()) == list(range(SIZE))
    assert lockstep.is_chief() == (RANK == 0)


def check_all_ranks_draw_the_same_random_numbers() -> None:
    drawn = [random.random(), float(np.random.rand()), float(tf.random.uniform([]))]
    everyone = of_all_ranks(drawn)
    assert all(one == everyone[0] for one in everyone)


def check_mean_sum_max_min_of_tensors() -> None:
    mine = tf.constant([1.0, -2.0]) * (RANK + 1)
    np.testing.assert_allclose(lockstep.all_reduce(mine), np.array([1, -2]) * (MEAN_RANK + 1))
    np.testing.assert_allclose(lockstep.all_reduce(mine, "sum"), np.array([1, -2]) * (SUM_RANK + SIZE))
    np.testing.assert_allclose(lockstep.all_reduce(mine, "max"), [SIZE, -2])
    np.testing.assert_allclose(lockstep.all_reduce(mine, "min"), [1, -2 * SIZE])


def check_structures_and_none_come_back_as_they_were() -> None:
    values = {"b": [tf.fill([2, 3], float(RANK)), None], "a": (tf.constant(1.0), {"c": None})}
    reduced = lockstep.all_reduce(values)
    assert list(reduced) == ["b", "a"]
    assert reduced["b"][1] is None
    assert reduced["a"][1] == {"c": None}
    assert isinstance(reduced["a"], tuple)
    np.testing.assert_allclose(reduced["b"][0], np.full([2, 3], MEAN_RANK))
    assert lockstep.all_reduce([]) == []
    assert lockstep.all_reduce([None, None]) == [None, None]
    assert lockstep.all_reduce(None) is None


def check_what_is_gone_through_once_comes_back_as_a_list() -> None:
    ranks = [*range(SIZE)]
    reduced = lockstep.all_reduce((value + RANK for value in (1, 5)), reduction="sum")
    assert reduced == [SIZE + sum(ranks), 5 * SIZE + sum(ranks)]
    assert lockstep.all_gather(map(np.array, ([RANK], [-RANK])))[0].tolist() == ranks
    first, second = lockstep.shard_batch((rows[:SIZE] for rows in (np.arange(9), -np.arange(9))), loss="sum")
    assert first.tolist() == [RANK]
    assert second.tolist() == [-RANK]


def check_every_dtype() -> None:
    for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64):
        reduced = lockstep.all_reduce(tf.cast(tf.fill([3], RANK), dtype))
        assert reduced.dtype == dtype
        np.testing.assert_allclose(tf.cast(reduced, tf.float64), [MEAN_RANK] * 3)
    for dtype in (tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.int64, tf.uint32, tf.uint64):
        mine = tf.cast(tf.fill([3], RANK + 1), dtype)
        product = int(np.prod(np.arange(1, SIZE + 1)))
        for reduction, expected in (("sum", SUM_RANK + SIZE), ("max", SIZE), ("min", 1), ("prod", product)):
            reduced = lockstep.all_reduce(mine, reduction)
            assert reduced.dtype == dtype
            assert reduced.numpy().tolist() == [expected] * 3
    reduced = lockstep.all_reduce(tf.complex([1.0 * RANK], [2.0]))
    np.testing.assert_allclose(reduced, [MEAN_RANK + 2j])


def check_unsigned_numbers_of_64_bits_keep_their_order() -> None:
    mine = np.array([2**63 + RANK, 7, 2**64 - 1 - RANK], np.uint64)
    assert lockstep.all_reduce(mine, "max").tolist() == [2**63 + SIZE - 1, 7, 2**64 - 1]
    assert lockstep.all_reduce(mine, "min").tolist() == [2**63, 7, 2**64 - SIZE]


def check_halves_are_added_up_in_single_precision() -> None:
    large = tf.constant([50_000.0], tf.float16)
    assert lockstep.all_reduce(large).numpy().tolist() == [float(large[0])]


def check_bools() -> None:
    first, none, all_of_them = RANK == 0, False, True
    assert lockstep.all_reduce([first, none, all_of_them], "max") == [True, False, True]
    assert lockstep.all_reduce([first, none, all_of_them], "min") == [False, False, True]
    assert type(lockstep.all_reduce(first, "max")) is bool
    reduced = lockstep.all_reduce(tf.constant([first, none, all_of_them]), "max")
    assert reduced.dtype == tf.bool
    assert reduced.numpy().tolist() == [True, False, True]
    assert '"max"' in raised(TypeError, lockstep.all_reduce, True, "sum")


def check_empty_tensors() -> None:
    for reduction in ("mean", "sum", "max"):
        reduced = lockstep.all_reduce([tf.zeros([0]), tf.zeros([3, 0, 2])], reduction)
        assert [one.shape.as_list() for one in reduced] == [[0], [3, 0, 2]]
    assert lockstep.all_reduce(np.zeros([0], np.int64), "sum").shape == (0,)


def check_numbers_stay_numbers() -> None:
    assert lockstep.all_reduce(RANK, "sum") == SUM_RANK
    assert type(lockstep.all_reduce(RANK, "sum")) is int
    assert lockstep.all_reduce(RANK) == MEAN_RANK
    assert type(lockstep.all_reduce(0.5 * RANK)) is float
    reduced = lockstep.all_reduce(np.float32(RANK))
    assert isinstance(reduced, np.float32)
    assert reduced == np.float32(MEAN_RANK)
    reduced = lockstep.all_reduce(np.full([2, 2], RANK, np.float32))
    assert isinstance(reduced, np.ndarray)
    assert reduced.tolist() == [[MEAN_RANK] * 2] * 2


def check_variables() -> None:
    variable = tf.Variable([float(RANK)])
    np.testing.assert_allclose(lockstep.all_reduce(variable), [MEAN_RANK])
    assert variable.numpy().tolist() == [RANK]


def check_what_cannot_be_reduced_is_refused() -> None:
    assert "int32" in raised(TypeError, lockstep.all_reduce, tf.constant([1, 2]))
    assert "str" in raised(TypeError, lockstep.all_reduce, ["text"])
    assert "median" in raised(ValueError, lockstep.all_reduce, tf.constant(1.0), "median")
    slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]), tf.constant([5, 2]))
    assert "max" in raised(TypeError, lockstep.all_reduce, slices, "max")
    assert "complex" in raised(TypeError, lockstep.all_reduce, tf.constant([1j]), "prod")
    assert "string" in raised(TypeError, lockstep.all_reduce, tf.constant(["text"]))
    assert "RaggedTensor" in raised(TypeError, lockstep.all_reduce, [tf.ragged.constant([[1.0], [2.0, 3.0]])])


def check_many_tensors_in_many_buckets() -> None:
    generator = np.random.RandomState(RANK)
    shapes = [[k % 7 + 1, 1 + k % 5] for k in range(60)] + [[1200, 1000], [], [0, 3]]
    mine = [generator.standard_normal(shape).astype("float32") for shape in shapes]
    expected = sum_over_ranks_of_same_draws(shapes)
    for reduced, total in zip(lockstep.all_reduce([tf.constant(one) for one in mine], "sum"), expected):
        np.testing.assert_allclose(reduced, total, atol=1e-5)


def sum_over_ranks_of_same_draws(shapes: list[list[int]]) -> list[np.ndarray]:
    totals = [np.zeros(shape, "float32") for shape in shapes]
    for rank in range(SIZE):
        generator = np.random.RandomState(rank)
        for total in totals:
            total += generator.standard_normal(total.shape).astype("float32")
    return totals


def check_slices_stay_sparse_and_are_not_merged() -> None:
    rows = RANK + 1
    mine = tf.IndexedSlices(tf.fill([rows, 2], float(RANK + 1)), tf.range(rows), tf.constant([10, 2]))
    reduced, none = lockstep.all_reduce([mine, None])
    assert none is None
    assert isinstance(reduced, tf.IndexedSlices)
    assert reduced.indices.numpy().tolist() == [i for rank in range(SIZE) for i in range(rank + 1)]
    expected = [[(rank + 1) / SIZE] * 2 for rank in range(SIZE) for _ in range(rank + 1)]
    np.testing.assert_allclose(reduced.values, expected)
    assert reduced.dense_shape.numpy().tolist() == [10, 2]


def check_in_a_function_step_after_step() -> None:
    traces = []

    @tf.function
    def step(x: tf.Tensor, slices: tf.IndexedSlices) -> tuple[tf.Tensor, tf.Tensor, tf.IndexedSlices]:
        traces.append(1)
        first, sparse = lockstep.all_reduce([x, slices])
        second = lockstep.all_reduce(first + x, "sum")
        return first, second, sparse

    for k in range(6):
        rows = 1 + (RANK + k) % 3
        slices = tf.IndexedSlices(tf.ones([rows, 1]) * k, tf.fill([rows], RANK), tf.constant([9, 1]))
        first, second, sparse = step(tf.constant([float(RANK + k)]), slices)
        np.testing.assert_allclose(first, [MEAN_RANK + k])
        np.testing.assert_allclose(second, [2 * (SUM_RANK + SIZE * k)])
        assert len(sparse.indices) == sum(1 + (rank + k) % 3 for rank in range(SIZE))


def check_in_loops_and_branches_of_a_function() -> None:
    @tf.function
    def loop(x: tf.Tensor, doubled: tf.Tensor) -> tf.Tensor:
        for _ in tf.range(4):
            x = lockstep.all_reduce(x) + 1.0
        if doubled:
            return lockstep.all_reduce(x * 2.0)
        return lockstep.all_reduce(x * 3.0)

    for doubled, factor in ((True, 2), (False, 3), (True, 2)):
        result = loop(tf.constant([float(RANK)]), tf.constant(doubled))
        np.testing.assert_allclose(result, [(MEAN_RANK + 4) * factor])


def check_calls_that_are_useless_or_alike_on_one_rank_only() -> None:
    """TensorFlow must not leave them out, nor make one of two: the other ranks make them all."""

    @tf.function
    def step(x: tf.Tensor) -> list[tf.Tensor]:
        lockstep.gather(x)
        if RANK == 0:
            lockstep.all_reduce(x, "max")
        else:
            unread = lockstep.all_reduce(x, "max")
            x += 0 * unread
        sums = [lockstep.all_reduce(tf.constant([1.0 * RANK]), "sum"), lockstep.all_reduce(tf.constant([0.0]), "sum")]
        return [*sums, lockstep.all_reduce(x, "sum")]

    for _ in range(3):
        first, second, third = step(tf.constant([1.0]))
        assert (first.numpy(), second.numpy(), third.numpy()) == ([SUM_RANK], [0], [SIZE])


def check_shapes_known_only_at_run_time() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, 2]), tf.TensorSpec([])])
    def step(x: tf.Tensor, y: tf.Tensor) -> list[tf.Tensor]:
        return lockstep.all_reduce([x, y], "sum")

    for rows in (3, 1, 5, 3, 0, 1):
        x, y = step(tf.fill([rows, 2], float(RANK)), tf.constant(1.0))
        assert x.numpy().tolist() == [[SUM_RANK] * 2] * rows
        assert y.numpy() == SIZE


def check_a_function_retraced_on_one_rank_only() -> None:
    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        return lockstep.all_reduce(tf.reduce_sum(x)[None], "sum")

    for rows in (4, 3 if RANK == 0 else 4, 4):
        step(tf.ones([rows]))
    assert step(tf.ones([4])).numpy().tolist() == [4.0 * SIZE]


class Series:
    """What lockstep knows pandas' by."""

    def __init__(self, values: Any, index: Any, name: str = "") -> None:
        self.values, self.index, self.name = np.asarray(values), index, name

    def to_numpy(self) -> Any:
        return self.values


def check_what_has_labels_keeps_them() -> None:
    mean = lockstep.all_reduce({"loss": Series([RANK, 4], index=["first", "second"], name="loss")})["loss"]
    assert (type(mean), mean.index, mean.name) == (Series, ["first", "second"], "loss")
    np.testing.assert_allclose(mean.values, [(SIZE - 1) / 2, 4])


def check_python_numbers_in_a_function_become_tensors() -> None:
    @tf.function
    def step() -> tf.Tensor:
        return tf.constant(1.0) * lockstep.all_reduce(2.0 * RANK)

    @tf.function
    def count() -> tf.Tensor:
        return tf.constant(1) * lockstep.all_reduce(RANK, reduction="sum")

    assert step().numpy() == 2 * MEAN_RANK
    assert count().numpy() == lockstep.size() * MEAN_RANK


def check_jit_compiled_functions_are_refused() -> None:
    compiled = tf.function(lambda x: lockstep.all_reduce(x), jit_compile=True)
    assert "jit_compile=False" in raised(lockstep.LockstepError, compiled, tf.constant([1.0]))


def check_other_shapes_on_one_rank_raise_on_all() -> None:
    mine = tf.ones([2, 3] if RANK == 1 else [3, 2])
    message = raised(lockstep.MismatchError, lockstep.all_reduce, [mine])
    assert f"rank {RANK} of {SIZE}" in message
    assert "rank 0: all_reduce(reduction='mean') 1: float32(3,2)" in message
    assert "rank 1: all_reduce(reduction='mean') 1: float32(2,3)" in message


def check_other_calls_on_one_rank_raise_on_all() -> None:
    if RANK == 1:
        message = raised(lockstep.MismatchError, lockstep.broadcast, tf.Variable(1.0))
    else:
        message = raised(lockstep.MismatchError, lockstep.all_reduce, [tf.ones([7, 7])], "max")
    assert "rank 0: all_reduce(reduction='max')" in message
    assert "rank 1: broadcast(root_rank=0)" in message


def check_none_on_one_rank_raises_on_all() -> None:
    mine = [tf.ones([5, 5, 5]), None if RANK == 1 else tf.ones([2])]
    assert "None" in raised(lockstep.MismatchError, lockstep.all_reduce, mine)


def check_everything_still_works_after_a_mismatch() -> None:
    assert lockstep.all_reduce(1.0, "sum") == SIZE


def check_broadcast_of_variables_of_any_dtype_and_root() -> None:
    for root in range(SIZE):
        variables = {
            "list": [tf.Variable(tf.fill([2, 2], float(RANK)))],
            "dtypes": [
                tf.Variable(tf.cast(tf.fill([3], RANK), dtype))
                for dtype in (tf.int8, tf.uint8, tf.int32, tf.int64, tf.uint32, tf.float16, tf.bfloat16, tf.float64)
            ],
            "bool": tf.Variable(root == RANK),
            "scalar": tf.Variable(float(RANK)),
        }
        assert lockstep.broadcast(variables, root) is variables
        assert variables["bool"].numpy()
        for variable in [*variables["list"], *variables["dtypes"], variables["scalar"]]:
            assert (tf.cast(variable, tf.float64).numpy() == root).all()
    assert "root_rank" in raised(ValueError, lockstep.broadcast, tf.Variable(1.0), SIZE)


def check_broadcast_sends_bits() -> None:
    special = tf.Variable([np.nan, -0.0, np.inf, 1e-42, float(RANK)])
    lockstep.broadcast(special)
    assert_equal_on_all_ranks([special.numpy()])
    assert np.signbit(special.numpy()[1])


def check_barriers() -> None:
    for _ in range(5):
        lockstep.barrier()


def check_messages_of_different_lengths() -> None:
    assert of_all_ranks("x" * (RANK * 1000)) == ["x" * (rank * 1000) for rank in range(SIZE)]


def check_local_batch_size() -> None:
    assert lockstep.local_batch_size(8 * SIZE) == 8
    assert lockstep.local_batch_size(8 * SIZE + 1) == 8 * SIZE + 1
    assert lockstep.local_batch_size(1) == 1


def check_collectives_leak_no_threads() -> None:
    import threading

    lockstep.all_reduce(1.0)
    before, native = threading.active_count(), native_threads()
    for _ in range(300):
        lockstep.all_reduce(1.0)
    assert threading.active_count() == before
    assert native_threads() < native + 20
    assert backend().size == SIZE


def native_threads() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("Threads:"))


run_checks(globals())
