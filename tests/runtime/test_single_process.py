"""In one process lockstep gives back what it was given, costs nothing and touches nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest
from conftest import worker_environment


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=worker_environment(**environment),
        capture_output=True,
        text=True,
        timeout=100,
    )


def test_identity_without_importing_anything() -> None:
    done = run(
        """
        import random, sys
        random.seed(1)
        state = random.getstate()
        import lockstep
        thing = object()
        assert (lockstep.rank(), lockstep.size(), lockstep.local_rank(), lockstep.is_chief()) == (0, 1, 0, True)
        assert lockstep.barrier() is None
        assert lockstep.broadcast(thing) is thing
        assert lockstep.all_reduce(thing) is thing
        assert lockstep.metric_result(type("Metric", (), {"result": lambda self: 7})()) == 7
        assert lockstep.reduce(thing) is thing
        assert lockstep.all_gather(thing) is thing
        assert lockstep.shard_like(thing, thing) is thing
        assert lockstep.unshard_batch(thing) is thing
        assert lockstep.for_each_sample(thing) is thing
        assert lockstep.for_all_samples(thing) is thing
        assert lockstep.on_whole_data(thing) is thing
        assert lockstep.sample_gradients(thing) is thing
        assert lockstep.gather({"a": [thing, None]}) == {"a": [thing, None]}
        assert lockstep.scatter(thing) is thing
        assert lockstep.reduce_scatter(thing) is thing
        assert lockstep.distributed_optimizer("adam") == "adam"
        assert lockstep.shard_and_rebatch_dataset(thing, 33) == (thing, 33)
        assert lockstep.whole_batch(thing) is thing
        assert lockstep.synchronise_batch_normalization(thing) is thing
        assert lockstep.shard_batches(thing) is thing
        assert lockstep.shard_batches(thing, loss="gather") is thing
        assert lockstep.shard_batch(thing) is thing
        assert lockstep.shard_arrays(thing) is thing
        assert lockstep.shard_arrays(thing, None, validation_split=0.2, batch_size=32) == [thing, None]
        assert lockstep.local_batch_size(33) == 33
        assert lockstep.callbacks() is None
        assert lockstep.callbacks(thing) is thing
        assert random.getstate() == state
        assert not any(name.startswith("lockstep.launcher") for name in sys.modules)
        heavy = {"tensorflow", "keras", "tf_keras", "numpy", "click", "libcst", "migrator"} & set(sys.modules)
        assert not heavy, heavy
        print("fine")
        """
    )
    assert done.stdout == "fine\n", done.stderr
    assert done.stderr == ""


def test_gathered_scalars_become_vectors() -> None:
    done = run(
        """
        import tensorflow as tf
        import lockstep
        values = [3.5, tf.constant(2).numpy(), (tf.constant(1), tf.ones([2, 3]))]
        number, scalar, (tensor, rows) = lockstep.all_gather(values)
        assert number.tolist() == [3.5] and scalar.tolist() == [2]
        assert tensor.numpy().tolist() == [1] and rows.shape == [2, 3]
        labels, (pairs, one) = lockstep.all_gather(([0, 1, 1], [[(1, 2), (3, 4)], 5]))
        assert labels == [0, 1, 1] and pairs == [(1, 2), (3, 4)] and one.tolist() == [5]
        print("fine")
        """
    )
    assert done.stdout.endswith("fine\n"), done.stderr


def test_adds_no_operation_to_functions() -> None:
    done = run(
        """
        import tensorflow as tf
        import lockstep
        plain = tf.function(lambda x: x * 2).get_concrete_function(tf.TensorSpec([3]))
        reduced = tf.function(lambda x: lockstep.all_reduce(x * 2)).get_concrete_function(tf.TensorSpec([3]))
        names = [[op.type for op in f.graph.get_operations()] for f in (plain, reduced)]
        assert names[0] == names[1], names
        print("fine")
        """
    )
    assert done.stdout.endswith("fine\n"), done.stderr


CLUSTER = {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}


@pytest.mark.parametrize(
    "config",
    ["", "{}", json.dumps({"cluster": {"worker": ["127.0.0.1:1"]}, "task": {"type": "worker", "index": 0}})],
)
def test_a_cluster_of_one_is_one_process(config: str) -> None:
    assert run("import lockstep; print(lockstep.size())", TF_CONFIG=config).stdout == "1\n"


def test_the_backend_can_be_named() -> None:
    config = json.dumps({"cluster": CLUSTER, "task": {"type": "worker", "index": 0}})
    code = "import lockstep; print(lockstep.size())"
    assert run(code, TF_CONFIG=config, LOCKSTEP_BACKEND="single").stdout == "1\n"
    assert "unknown backend" in run(code, LOCKSTEP_BACKEND="carrier-pigeon").stderr
    assert "needs a TF_CONFIG" in run(code, LOCKSTEP_BACKEND="tensorflow").stderr


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ("{not json", "not the JSON object"),
        ("[1]", "not the JSON object"),
        (json.dumps({"cluster": CLUSTER, "task": {"type": "ps", "index": 0}}), "chief and worker tasks only"),
        (json.dumps({"cluster": CLUSTER, "task": {"type": "worker", "index": 2}}), "chief and worker tasks only"),
    ],
)
def test_an_unusable_tf_config_is_named(config: str, complaint: str) -> None:
    done = run("import lockstep", TF_CONFIG=config)
    assert done.returncode == 1
    assert complaint in done.stderr


def test_the_launcher_itself_never_joins() -> None:
    config = json.dumps({"cluster": CLUSTER, "task": {"type": "worker", "index": 0}})
    done = subprocess.run(
        [sys.executable, "-m", "lockstep", "--version"],
        env=worker_environment(TF_CONFIG=config),
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert done.returncode == 0
    assert "lockstep" in done.stdout
