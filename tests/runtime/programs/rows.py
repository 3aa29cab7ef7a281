"""gather, scatter, reduce and broadcast of values; collectives inside functions, loops and Keras's training."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from checking import assert_equal_on_all_ranks, of_all_ranks, raised, run_checks, seed_everything

import lockstep

RANK, SIZE = lockstep.rank(), lockstep.size()
MEAN_RANK = (SIZE - 1) / 2
SUM_RANK = SIZE * (SIZE - 1) // 2
LAST = SIZE - 1
KERAS_3 = getattr(tf.keras, "__version__", "2").startswith("3")


def check_gathering_equal_and_unequal_numbers_of_rows() -> None:
    equal = lockstep.all_gather(tf.fill([2, 3], RANK))
    assert equal.numpy().tolist() == [[rank] * 3 for rank in range(SIZE) for _ in range(2)]
    unequal = lockstep.all_gather(tf.fill([RANK, 2], float(RANK)))
    assert unequal.numpy().tolist() == [[float(rank)] * 2 for rank in range(SIZE) for _ in range(rank)]
    assert lockstep.all_gather(tf.zeros([0, 4])).shape.as_list() == [0, 4]


def check_gathering_ragged_rows() -> None:
    own = tf.RaggedTensor.from_row_lengths(tf.fill([RANK + 2, 3], float(RANK)), [RANK, 2])
    everything = lockstep.all_gather(own)
    assert everything.row_lengths().numpy().tolist() == [n for rank in range(SIZE) for n in (rank, 2)]
    assert everything.flat_values[:, 0].numpy().tolist() == [float(r) for r in range(SIZE) for _ in range(r + 2)]
    weight = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(lockstep.all_gather(own * weight)) / SIZE
    gradient = lockstep.all_reduce(tape.gradient(loss, weight), reduction="sum")
    np.testing.assert_allclose(gradient, sum(3.0 * r * (r + 2) for r in range(SIZE)), rtol=1e-6)


def check_gathering_sparse_rows() -> None:
    def own(rank: int) -> tf.Tensor:  # as many columns as the rank's number and two more
        return tf.sequence_mask(tf.range(rank, 2 * rank + 1), rank + 2, tf.float32) * (rank + 1)

    for gather in (lockstep.all_gather, tf.function(lockstep.all_gather)):
        everything = gather(tf.sparse.from_dense(own(RANK)))
        rows = [tf.pad(own(rank), [[0, 0], [0, SIZE - 1 - rank]]) for rank in range(SIZE)]
        assert tf.sparse.to_dense(everything).numpy().tolist() == tf.concat(rows, 0).numpy().tolist()
    weight = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        given = tf.sparse.from_dense(own(RANK))
        given = lockstep.all_gather(given.with_values(given.values * weight))
        loss = tf.reduce_sum(given.values) / SIZE
    gradient = lockstep.all_reduce(tape.gradient(loss, weight), reduction="sum")
    np.testing.assert_allclose(gradient, sum(float(tf.reduce_sum(own(r))) for r in range(SIZE)), rtol=1e-6)


def check_gathering_strings() -> None:
    everything = [word for rank in range(SIZE) for word in (b"rank %d" % rank, b"", "é\0".encode())[: 3 - rank]]
    own = tf.constant([b"rank %d" % RANK, b"", "é\0".encode()][: 3 - RANK])
    assert lockstep.all_gather(own).numpy().tolist() == everything
    assert lockstep.all_gather(own.numpy()).tolist() == everything
    assert tf.function(lockstep.all_gather)(own).numpy().tolist() == everything
    pairs = lockstep.all_gather(tf.reshape(tf.constant(["a", f"{RANK}"] * RANK, tf.string), [RANK, 2]))
    assert pairs.numpy().tolist() == [[b"a", b"%d" % rank] for rank in range(SIZE) for _ in range(rank)]
    for kind in ("U", "O"):
        assert lockstep.all_gather(np.array([f"é{RANK}"], kind)).tolist() == [f"é{rank}" for rank in range(SIZE)]


def check_gathering_every_kind_of_value() -> None:
    values = {
        "number": RANK,
        "flag": RANK == 0,
        "array": np.full([1, 2], RANK, np.float32),
        "scalar": np.float32(RANK),
        "tensor": tf.constant(RANK),
        "nothing": None,
        "variable": tf.Variable([RANK]),
    }
    gathered = lockstep.all_gather(values)
    ranks = list(range(SIZE))
    assert gathered["nothing"] is None
    assert gathered["flag"].tolist() == [rank == 0 for rank in ranks]
    assert gathered["array"].tolist() == [[rank] * 2 for rank in ranks]
    assert gathered["array"].dtype == np.float32
    for name in ("number", "scalar", "tensor", "variable"):
        assert np.asarray(gathered[name]).tolist() == ranks
    assert isinstance(gathered["number"], np.ndarray)
    assert tf.is_tensor(gathered["tensor"])


def check_a_list_of_numbers_is_gathered_as_one_array() -> None:
    labels, names = lockstep.all_gather(([RANK] * (RANK + 1), ["a", f"{RANK}"]))
    assert labels == [rank for rank in range(SIZE) for _ in range(rank + 1)]
    assert names == [name for rank in range(SIZE) for name in ("a", f"{rank}")]
    pairs = lockstep.all_gather([[RANK, 1.5], [2, 3]])
    assert pairs == [row for rank in range(SIZE) for row in ([rank, 1.5], [2, 3])]
    each = lockstep.all_gather([tf.constant(RANK), RANK])
    assert [np.asarray(one).tolist() for one in each] == [[*range(SIZE)]] * 2

    @tf.function
    def together() -> Any:
        return lockstep.all_gather([float(RANK)] * 2)

    assert together().dtype == tf.float32
    assert together().numpy().tolist() == [float(rank) for rank in range(SIZE) for _ in range(2)]


def check_gathering_every_dtype() -> None:
    names = "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool complex64"
    for name in names.split():
        gathered = lockstep.all_gather(tf.cast(tf.fill([1], RANK), name))
        assert gathered.dtype.name == name
        assert tf.cast(gathered, tf.complex64).numpy().tolist() == [
            bool(r) if name == "bool" else r for r in range(SIZE)
        ]


def check_gathering_slices() -> None:
    mine = tf.IndexedSlices(tf.fill([RANK + 1, 2], float(RANK)), tf.range(RANK + 1), tf.constant([9, 2]))
    gathered = lockstep.all_gather([mine])[0]
    assert gathered.indices.numpy().tolist() == [i for rank in range(SIZE) for i in range(rank + 1)]
    assert gathered.values.numpy()[:, 0].tolist() == [rank for rank in range(SIZE) for _ in range(rank + 1)]


def check_a_batch_that_was_cut_comes_back_as_it_was() -> None:
    for rows in (1, SIZE + 1, 3 * SIZE):
        batch = {
            "numbers": tf.random.stateless_uniform([rows, 2], [3, rows]),
            "labels": tf.range(rows) % 3,
            "names": tf.strings.as_string(tf.range(rows)),
            "words": tf.RaggedTensor.from_row_lengths(tf.range(sum(range(rows))), tf.range(rows)),
        }
        for loss in ("mean", "sum", "gather"):
            cut = {name: lockstep.shard_batch(value, loss=loss) for name, value in batch.items()}

            def together(cut: Any = cut, loss: str = loss) -> Any:
                return lockstep.unshard_batch([cut, 7], loss=loss)

            for function in (together, tf.function(together)) if (rows, loss) == (SIZE + 1, "mean") else (together,):
                found, number = function()
                assert int(number) == 7
                for name, value in batch.items():
                    assert repr(found[name].numpy().tolist()) == repr(value.numpy().tolist()), (rows, loss, name)
            alike = lockstep.shard_batch(tf.zeros([rows]), loss=loss)  # of which the rows tell nothing
            assert lockstep.unshard_batch(alike, loss=loss).shape == [rows]
            array = np.arange(3.0 * rows).reshape(rows, 3)
            back = lockstep.unshard_batch(lockstep.shard_batch(array, loss=loss), loss=loss)
            assert isinstance(back, np.ndarray)
            np.testing.assert_array_equal(back, array)
        batches = list(lockstep.shard_batches(tf.data.Dataset.range(10).batch(rows)))
        assert [n for one in batches for n in lockstep.unshard_batch(one).numpy()] == list(range(10))
    assert "mean" in raised(ValueError, lockstep.unshard_batch, array, "median")
    assert "to_dense" in raised(TypeError, lockstep.unshard_batch, tf.sparse.from_dense([[1.0]]))


def check_each_rank_gets_its_rows_of_what_is_made_of_all() -> None:
    own = tf.Variable(tf.reshape(tf.range(RANK * 10, RANK * 10 + 2 * (RANK + 1), dtype=tf.float32), [-1, 2]))
    everything = [[r * 10 + 2.0 * i, r * 10 + 2.0 * i + 1] for r in range(SIZE) for i in range(r + 1)]

    def compete() -> dict[str, Any]:
        whole = tf.nn.softmax(lockstep.all_gather(own + 0.0) / 9, axis=0)
        return lockstep.shard_like({"a": whole, "b": [2 * whole], "sum": tf.reduce_sum(whole)}, own)

    expected = tf.nn.softmax(tf.constant(everything) / 9, axis=0)
    first = RANK * (RANK + 1) // 2
    for function in (compete, tf.function(compete)):
        found = function()
        np.testing.assert_allclose(found["a"], expected[first : first + RANK + 1], rtol=1e-6)
        np.testing.assert_allclose(found["b"][0], 2 * expected[first : first + RANK + 1], rtol=1e-6)
        np.testing.assert_allclose(found["sum"], 2.0, rtol=1e-6)
    # The sum of the ranks' losses is one of all rows.
    with tf.GradientTape() as tape:
        loss = SIZE * tf.reduce_sum(compete()["a"] ** 3)
    rows = tf.constant(everything)
    with tf.GradientTape() as whole_tape:
        whole_tape.watch(rows)
        whole_loss = tf.reduce_sum(tf.nn.softmax(rows / 9, axis=0) ** 3)
    expected = whole_tape.gradient(whole_loss, rows)[first : first + RANK + 1]
    np.testing.assert_allclose(tape.gradient(loss, own) / SIZE, expected, rtol=1e-4, atol=1e-7)
    message = raised(tf.errors.InvalidArgumentError, lockstep.shard_like, tf.zeros([1, 2]), own)
    assert "not the rows of all workers" in message


def check_what_runs_on_whole_data_puts_nothing_together() -> None:
    def centred(rows: Any) -> Any:
        return rows - tf.reduce_mean(lockstep.all_gather(rows), 0) + lockstep.all_reduce(rows[0], reduction="sum")

    def chosen(rows: Any) -> Any:
        if tf.reduce_sum(rows) > 0:  # a condition of the graph, where there is one
            rows = centred(rows)
        return rows

    layer = type("Centred", (tf.keras.layers.Layer,), {"call": lambda self, rows: centred(rows)})()
    rows = tf.constant([[1.0, 2.0], [3.0, 5.0]])
    alone = tf.constant([[0.0, 0.5], [2.0, 3.5]])
    for on_whole in map(lockstep.on_whole_data, (chosen, layer)):
        np.testing.assert_allclose(on_whole(rows), alone)
        np.testing.assert_allclose(tf.function(on_whole)(rows), alone)
    # Behind it all is put together again, also where it has raised.
    raised(ZeroDivisionError, lockstep.on_whole_data(lambda: 1 / 0))
    assert lockstep.all_gather(rows).shape[0] == 2 * SIZE


def check_one_rank_alone_gets_what_is_gathered_and_reduced() -> None:
    for root in range(SIZE):
        gathered = lockstep.gather([tf.constant([RANK])], root)
        reduced = lockstep.reduce({"a": float(RANK)}, root_rank=root)
        if root == RANK:
            assert gathered[0].numpy().tolist() == list(range(SIZE))
            assert reduced == {"a": MEAN_RANK}
        else:
            assert gathered is None
            assert reduced is None
    assert lockstep.reduce(RANK + 1, "prod") == (int(np.prod(np.arange(1, SIZE + 1))) if RANK == 0 else None)
    for function in (lockstep.gather, lockstep.reduce, lockstep.scatter, lockstep.broadcast):
        assert "root_rank" in raised(ValueError, function, 1.0, root_rank=SIZE)


def check_scattering() -> None:
    for root in (0, LAST):
        whole = {
            "x": np.arange(6 * SIZE).reshape(2 * SIZE, 3),
            "y": [tf.range(SIZE), (tf.fill([SIZE, 1], True), None)],
            3: tf.zeros([0, 2]),
        }
        mine = lockstep.scatter(whole if root == RANK else None, root)
        assert list(mine) == ["x", "y", 3]
        np.testing.assert_array_equal(mine["x"], whole["x"][2 * RANK : 2 * RANK + 2])
        assert isinstance(mine["x"], np.ndarray)
        assert mine["y"][0].numpy().tolist() == [RANK]
        assert mine["y"][1][0].numpy().tolist() == [[True]]
        assert mine["y"][1][1] is None
        assert mine[3].shape.as_list() == [0, 2]


def check_what_cannot_be_scattered_is_refused_on_all_ranks() -> None:
    uneven = raised(ValueError, lockstep.scatter, tf.zeros([SIZE + 1, 2]) if RANK == 0 else None)
    assert f"({SIZE + 1}, 2)" in uneven
    assert "divisible" in raised(ValueError, lockstep.scatter, 1.0 if RANK == 0 else None)
    assert "str" in raised(TypeError, lockstep.scatter, "text" if RANK == 0 else None)
    slices = tf.IndexedSlices(tf.ones([2, 2]), tf.constant([0, 1]), tf.constant([5, 2]))
    assert "IndexedSlices" in raised(TypeError, lockstep.scatter, slices)
    assert "IndexedSlices" in raised(TypeError, lockstep.broadcast, [tf.constant(1.0), slices])


def check_reduce_scatter() -> None:
    mine = lockstep.reduce_scatter([tf.range(2 * SIZE) + RANK, None], "sum")
    assert mine[0].numpy().tolist() == [SIZE * i + SUM_RANK for i in (2 * RANK, 2 * RANK + 1)]
    assert mine[1] is None
    mean = lockstep.reduce_scatter(np.full([SIZE, 2], RANK, np.float32))
    assert mean.tolist() == [[MEAN_RANK] * 2]
    assert "divisible" in raised(ValueError, lockstep.reduce_scatter, tf.zeros([SIZE + 1]))
    assert "divisible" in raised(ValueError, lockstep.reduce_scatter, 1.0)


def check_broadcast_of_values() -> None:
    for root in range(SIZE):
        values = {
            "t": tf.fill([2], RANK),
            "n": RANK,
            "f": float(RANK),
            "b": root == RANK,
            "a": np.array([[RANK]]),
            "o": None,
        }
        sent = lockstep.broadcast(values, root)
        assert (sent["n"], sent["f"], sent["b"], sent["o"]) == (root, float(root), True, None)
        assert type(sent["n"]) is int
        assert sent["t"].numpy().tolist() == [root] * 2
        assert sent["a"].tolist() == [[root]]
    variable = tf.Variable(1.0)
    assert lockstep.broadcast(variable) is variable
    message = raised(lockstep.MismatchError, lockstep.broadcast, tf.zeros([2 if RANK == 0 else 3]))
    assert f"rank {LAST}: broadcast(root_rank=0) 1: float32(3,)" in message
    assert "RaggedTensor" in raised(TypeError, lockstep.broadcast, tf.ragged.constant([[1.0], [2.0, 3.0]]))


def check_mismatches_name_every_rank() -> None:
    message = raised(lockstep.MismatchError, lockstep.all_gather, tf.zeros([1, 2 + RANK]))
    assert "rank 0: all_gather() float32(2,)" in message
    assert "rank 1: all_gather() float32(3,)" in message
    if RANK == 0:
        message = raised(lockstep.MismatchError, lockstep.scatter, tf.zeros([SIZE]))
    else:
        message = raised(lockstep.MismatchError, lockstep.barrier)
    assert "rank 0: scatter(root_rank=0)" in message
    assert "rank 1: barrier" in message


def check_everything_in_one_function_whose_shapes_change() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, 2]), tf.TensorSpec([], tf.int32)])
    def step(x: tf.Tensor, number: tf.Tensor) -> dict[str, Any]:
        lockstep.barrier()
        everyone = lockstep.all_gather([x, number])
        at_root = lockstep.gather(x)
        reduced = lockstep.reduce(number, "max", root_rank=LAST)
        whole = lockstep.all_reduce(tf.shape(x)[0], "max") * 0 + number
        mine = lockstep.reduce_scatter(tf.fill([SIZE, 2], number), "sum")
        return {
            "everyone": everyone,
            "at_root": x if at_root is None else at_root,
            "reduced": number if reduced is None else reduced,
            "whole": lockstep.broadcast(whole, LAST),
            "mine": mine,
            "scattered": lockstep.scatter(tf.range(SIZE) * number, root_rank=LAST),
        }

    for k in (2, 0, 5, 2):
        rows, number = (RANK + 1) * k, RANK + k
        result = step(tf.fill([rows, 2], float(RANK)), tf.constant(number))
        expected = [[float(rank)] * 2 for rank in range(SIZE) for _ in range((rank + 1) * k)]
        assert result["everyone"][0].numpy().tolist() == expected
        assert result["everyone"][1].numpy().tolist() == [rank + k for rank in range(SIZE)]
        assert result["at_root"].shape[0] == (len(expected) if RANK == 0 else rows)
        assert result["reduced"].numpy() == (LAST + k if RANK == LAST else number)
        assert result["whole"].numpy() == LAST + k
        assert result["mine"].numpy().tolist() == [[SUM_RANK + SIZE * k] * 2]
        assert result["scattered"].numpy().tolist() == [RANK * (LAST + k)]


def check_a_first_axis_that_turns_out_indivisible() -> None:
    step = tf.function(lockstep.reduce_scatter, input_signature=[tf.TensorSpec([None])])
    assert step(tf.fill([2 * SIZE], float(RANK))).numpy().tolist() == [MEAN_RANK] * 2
    assert "divisible" in raised(tf.errors.InvalidArgumentError, step, tf.zeros([SIZE + 1]))


def check_in_while_loops() -> None:
    @tf.function
    def loop(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        def body(k: tf.Tensor, x: tf.Tensor, seen: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            everyone = lockstep.all_gather(tf.fill([1], k * (RANK + 1)))
            return k + 1, lockstep.all_reduce(x) + lockstep.all_reduce(x, "max"), seen + tf.reduce_sum(everyone)

        # The counter alone could run ahead of the collectives: their order must not depend on the data.
        _, x, seen = tf.while_loop(lambda k, x, seen: k < 20, body, (0, x, 0), parallel_iterations=10)
        return x, seen

    for _ in range(5):
        x, seen = loop(tf.constant([float(RANK)]))
        np.testing.assert_allclose(x, [(MEAN_RANK + LAST) * 2**19], rtol=1e-6)
        assert seen.numpy() == sum(range(20)) * (SUM_RANK + SIZE)


def check_large_values_in_many_parts() -> None:
    generator = np.random.RandomState(5)
    shapes = [[3_000_000], [700, 1500], [13], [2_100_000], []]
    whole = [generator.standard_normal([SIZE, *shape]).astype("float32") for shape in shapes]

    @tf.function
    def step(values: list[tf.Tensor]) -> list[tf.Tensor]:
        return lockstep.all_reduce(values)

    for reduced in (lockstep.all_reduce([tf.constant(one[RANK]) for one in whole]), step([one[RANK] for one in whole])):
        for mine, one in zip(reduced, whole):
            np.testing.assert_allclose(mine, one.mean(0), atol=1e-6)
        assert_equal_on_all_ranks([mine[:1000] for mine in map(np.ravel, reduced)])


def check_results_of_one_step_stay_when_the_next_one_runs() -> None:
    step = tf.function(lambda x: lockstep.all_reduce([x, tf.fill([1_500_000], x[0])]))
    kept = [step(tf.constant([float(RANK + k)])) for k in range(5)]
    for k, (small, large) in enumerate(kept):
        assert small.numpy().tolist() == [MEAN_RANK + k]
        assert (large.numpy() == MEAN_RANK + k).all()


def fitted(x: Any, y: Any, batch: int, accumulate: bool = False, **options: Any) -> list[np.ndarray]:
    seed_everything(3)
    model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="tanh"), tf.keras.layers.Dense(1)])
    model.build([None, 5])
    arguments = {"gradient_accumulation_steps": 2} if accumulate else {}
    optimizer = tf.keras.optimizers.SGD(0.05, **arguments)
    if batch != 8:
        optimizer = lockstep.distributed_optimizer(optimizer)
    model.compile(optimizer, "mse", **options)
    model.fit(x, y, batch_size=batch, epochs=1, shuffle=False, verbose=0)
    return list(model.get_weights())


def check_training_in_each_of_kerass_ways() -> None:
    generator = np.random.RandomState(7)
    x, y = generator.standard_normal([48, 5]).astype("float32"), generator.standard_normal([48, 1]).astype("float32")
    ways: list[dict[str, Any]] = [{}, {"run_eagerly": True}, {"steps_per_execution": 3}]
    if KERAS_3:
        ways.append({"accumulate": True})
    for way in ways:
        alone = fitted(x, y, 8, **way)
        together = fitted(x[RANK::SIZE], y[RANK::SIZE], 8 // SIZE, **way)
        assert_equal_on_all_ranks(together)
        for mine, wanted in zip(together, alone):
            np.testing.assert_allclose(mine, wanted, atol=2e-6)


def check_metrics_of_what_all_have_seen() -> None:
    generator = np.random.RandomState(3)
    labels, predicted = generator.randint(0, 2, 40).astype("float32"), generator.rand(40).astype("float32")
    for make in (tf.keras.metrics.AUC, tf.keras.metrics.Precision, tf.keras.metrics.MeanSquaredError):
        whole, part = make(), make()
        whole.update_state(labels, predicted)
        part.update_state(labels[RANK::SIZE], predicted[RANK::SIZE])
        own = float(part.result())
        for _ in range(2):  # asking changes nothing
            np.testing.assert_allclose(float(lockstep.metric_result(part)), float(whole.result()), rtol=1e-6)
        assert float(part.result()) == own
    assert "not float" in raised(TypeError, lockstep.metric_result, 1.0)


def check_nobody_is_left_behind() -> None:
    assert of_all_ranks(RANK) == list(range(SIZE))


run_checks(globals())
