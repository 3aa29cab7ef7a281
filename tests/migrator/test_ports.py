"""Scripts that go another way to many devices, beside some that go none: each is treated by itself."""

from __future__ import annotations

from pathlib import Path

from migrator.engine import Outcome, migrate_program
from migrator.files.programs import programs
from migrator.registry import all_rules, choose

NETWORK = """\
import tensorflow as tf


def make():
    return tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
"""
STEP = """\
import tensorflow as tf


def update(model, optimizer, x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x) - y))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""
ON_HOROVOD = """\
import horovod.tensorflow.keras as hvd
import tensorflow as tf
from network import make

hvd.init()
model = make()
model.compile(hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1)), "mse")
pairs = tf.data.Dataset.load("pairs").shard(hvd.size(), hvd.rank()).batch(32)
model.fit(pairs, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
"""
ON_ONE_DEVICE = """\
import tensorflow as tf
from network import make

model = make()
model.compile("sgd", "mse")
model.fit(tf.data.Dataset.load("pairs").batch(32))
"""
LOOP = """\
import tensorflow as tf
from step import update

model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.1)
for x, y in tf.data.Dataset.load("pairs").batch(32):
    update(model, optimizer, x, y)
"""
HOROVOD_LOOP = """\
import horovod.tensorflow as hvd
import tensorflow as tf
from step import update

hvd.init()
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
hvd.broadcast_variables(model.variables, root_rank=0)
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1))
for x, y in tf.data.Dataset.load("pairs").shard(hvd.size(), hvd.rank()).batch(32):
    update(model, optimizer, x, y)
"""


def outcomes(**files: str) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    for program in programs({Path(f"{name}.py"): text.encode() for name, text in files.items()}):
        for path, outcome in migrate_program(program, choose()).items():
            assert isinstance(outcome, Outcome)
            found[path.stem] = outcome
    return found


def test_script_beside_a_port_is_migrated_and_the_port_is_left_alone() -> None:
    found = outcomes(network=NETWORK, on_horovod=ON_HOROVOD, on_one_device=ON_ONE_DEVICE)
    assert found["on_one_device"].is_changed
    assert "lockstep.distributed_optimizer" in found["on_one_device"].text
    assert found["on_horovod"].is_ported
    assert found["network"].is_ported


def test_module_that_both_need_is_not_changed_and_the_script_that_would_need_it_is_refused() -> None:
    found = outcomes(step=STEP, loop=LOOP, horovod_loop=HOROVOD_LOOP)
    assert not any(outcome.is_changed for outcome in found.values())
    assert [f.rule for f in found["step"].refusals] == ["already-distributed"]
    assert found["horovod_loop"].is_ported


def test_mistake_of_a_port_stays_with_the_port() -> None:
    wrong = ON_HOROVOD.replace("hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1))", "tf.keras.optimizers.SGD(0.1)")
    found = outcomes(network=NETWORK, on_horovod=wrong, on_one_device=ON_ONE_DEVICE)
    assert [f.rule for f in found["on_horovod"].refusals] == ["unreduced-gradients"]
    assert found["on_one_device"].is_changed
    assert not found["on_one_device"].refusals


def test_rules_that_edit_are_not_asked_about_a_port() -> None:
    asked = {f.rule for f in outcomes(port=ON_HOROVOD.replace("hvd.init()\n", ""), network=NETWORK)["port"].findings}
    assert asked == {"missing-start"}
    assert asked <= {rule.id for rule in all_rules().values() if rule.is_audit}
