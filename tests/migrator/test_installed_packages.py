"""Code of installed packages is read like the script's own; where it is not followed, all is as if nobody knew it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from command import ERROR, migrate

from migrator.command.environment import NO_PACKAGES, NoEnvironment, site_packages
from migrator.engine import migrate_program
from migrator.files.programs import Program
from migrator.findings.results import Outcome
from migrator.registry import choose

PACKAGE = {
    "__init__.py": """
        from .losses import *
        from .layers import Scale, Centre, Norm as Renamed, Keeps, Penalty, Deep
        from .models import backbone, centred_backbone
        from .broken import lost
    """,
    "constants.py": "EPSILON = 1e-6\n",
    "losses.py": """
        import tensorflow as tf
        from .constants import EPSILON

        class Base(tf.keras.losses.Loss):
            def __init__(self, weight=1.0, **kwargs):
                super().__init__(**kwargs)
                self.weight = weight

            def call(self, y_true, y_pred):
                return self.weight * self.values(y_true, y_pred)

        class Mean(Base):
            def values(self, y_true, y_pred):
                return tf.reduce_mean(tf.square(y_true - y_pred), axis=-1)

        class Dice(Base):
            def values(self, y_true, y_pred):
                return 1 - 2 * tf.reduce_sum(y_true * y_pred) / (tf.reduce_sum(y_true + y_pred) + EPSILON)

        def mean(y_true, y_pred):
            return tf.reduce_mean(tf.square(y_true - y_pred))

        def total(y_true, y_pred):
            return tf.reduce_sum(tf.square(y_true - y_pred))

        def ratio(y_true, y_pred):
            return tf.reduce_sum(tf.square(y_true - y_pred)) / (EPSILON + tf.reduce_sum(y_true))

        def power(exponent):
            def loss(y_true, y_pred):
                return tf.reduce_mean(tf.pow(tf.abs(y_true - y_pred), exponent), axis=-1)
            return loss

        def around(function):
            return lambda y_true, y_pred: 2.0 * function(y_true, y_pred)
    """,
    "layers.py": """
        import tensorflow as tf
        from tensorflow.keras import layers

        class Scale(layers.Layer):
            def build(self, shape):
                self.scale = self.add_weight(name="scale", shape=(shape[-1],), initializer="ones")

            def call(self, x):
                return x * self.scale

        class Deep(Scale):
            def __init__(self, units=4):
                super().__init__()
                self.parts = [layers.Dense(units, activation="tanh") for _ in range(2)]

            def call(self, x, training=None):
                for part in self.parts:
                    x = part(x, training=training)
                return super().call(x)

        class Norm(layers.Layer):
            def call(self, x):
                return tf.math.l2_normalize(x, axis=-1)

        class Centre(layers.Layer):
            def call(self, x):
                return x - tf.reduce_mean(x, axis=0, keepdims=True)

        class Keeps(layers.Layer):
            def build(self, shape):
                self.mean = self.add_weight(name="mean", shape=(shape[-1],), initializer="zeros", trainable=False)

            def call(self, x):
                self.mean.assign(0.9 * self.mean + 0.1 * tf.reduce_mean(x, axis=0))
                return x

        class Penalty(layers.Layer):
            def call(self, x):
                self.add_loss(tf.reduce_sum(tf.square(x)))
                return x
    """,
    "models.py": """
        from tensorflow import keras
        from .layers import Centre

        def backbone(units):
            image = keras.Input((4,))
            return keras.Model(image, keras.layers.Dense(units)(image))

        def centred_backbone(units):
            image = keras.Input((4,))
            return keras.Model(image, Centre()(keras.layers.Dense(units)(image)))
    """,
    "broken.py": "import tensorflow as tf\ndef lost(x:\n",
}
FIT = """
import tensorflow as tf
from tensorflow import keras
import small_package
image = keras.Input((4,))
hidden = keras.layers.Dense(4)(image)
{layer}
model = keras.Model(image, keras.layers.Dense(1)(hidden))
model.compile(optimizer=keras.optimizers.SGD(0.01), loss={loss})
model.fit(x, y, batch_size=12)
"""
LOOP = """
import tensorflow as tf
import small_package
model = tf.keras.Sequential([tf.keras.layers.Dense(4), tf.keras.layers.Dense(2)])
optimizer = tf.keras.optimizers.SGD(0.01)
for a, b in tf.data.Dataset.from_tensor_slices((x, y)).batch(12):
    with tf.GradientTape() as tape:
        loss = {loss}
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
"""


def install(folder: Path, files: Mapping[str, str] = PACKAGE, name: str = "small_package") -> Path:
    """Puts a package into a folder that is looked into."""
    (folder / name).mkdir(parents=True)
    for file, text in files.items():
        lines = text.splitlines()
        (folder / name / file).write_text("\n".join(line.removeprefix(" " * 8) for line in lines) + "\n")
    return folder


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return install(tmp_path / "site-packages")


def migrated(script: str, *folders: Path) -> Outcome:
    path = Path("script.py")
    outcome = migrate_program(Program({path: script.encode()}, site_packages=folders), choose())[path]
    assert isinstance(outcome, Outcome), outcome
    return outcome


def fit(site: Path, layer: str = "", loss: str = '"mse"') -> Outcome:
    return migrated(FIT.format(layer=layer and f"hidden = {layer}(hidden)", loss=loss), site)


def loop(site: Path, loss: str) -> Outcome:
    return migrated(LOOP.format(loss=loss), site)


# -- losses ----------------------------------------------------------------------------------------------------------


MEANS = ("mean", "Mean(2.0)", "power(3.0)", "around(keras.losses.mse)")


@pytest.mark.parametrize("loss", [f"small_package.{mean}" for mean in MEANS])
def test_means_of_packages_are_no_longer_given_the_whole_batch(site: Path, loss: str) -> None:
    outcome = fit(site, loss=loss)
    assert "whole_batch" in migrated(FIT.format(layer="", loss=loss)).text
    assert f"loss={loss}" in outcome.text
    assert not outcome.refusals


@pytest.mark.parametrize("loss", ["small_package.ratio", "small_package.losses.Dice()", "small_package.total"])
def test_others_are(site: Path, loss: str) -> None:
    assert f"loss=lockstep.whole_batch({loss})" in fit(site, loss=loss).text


def test_in_loops_sums_are_summed_and_ratios_gathered(site: Path) -> None:
    assert "all_gather" not in loop(site, "small_package.mean(b, model(a))").text
    text = loop(site, "small_package.total(b, model(a))").text
    assert 'reduction="sum"' in text
    assert "all_gather" not in text
    assert "lockstep.all_gather(model(a))" in loop(site, "small_package.ratio(b, model(a))").text


def test_beside_what_is_gathered_a_mean_of_a_package_is_taken_over_all_rows(site: Path) -> None:
    text = loop(site, "small_package.mean(b, model(a)) + small_package.ratio(b, model(a))").text
    assert text.count("lockstep.all_gather(model(a))") == 2


# -- layers and models -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", ["small_package.Scale()", "small_package.Deep()", "small_package.Renamed()"])
def test_layers_that_work_row_by_row_need_no_trust(site: Path, layer: str) -> None:
    assert migrated(FIT.format(layer=f"hidden = {layer}(hidden)", loss='"mse"')).remarks.trusted
    outcome = fit(site, layer)
    assert outcome.is_changed
    assert not outcome.remarks.trusted
    assert not outcome.refusals


@pytest.mark.parametrize("layer", ["Centre", "Keeps", "Penalty"])
def test_layers_that_relate_the_samples_of_a_batch_are_not_trusted(site: Path, layer: str) -> None:
    outcome = fit(site, f"small_package.{layer}()")
    assert not outcome.is_changed
    assert not outcome.remarks.trusted
    assert f"small_package.layers.{layer} relates the samples" in outcome.refusals[0].message


def test_in_loops_they_are_given_all_rows(site: Path) -> None:
    own = "class Net(tf.keras.Model):\n    def __init__(self):\n        super().__init__()\n"
    own += "        self.centre = small_package.Centre()\n        self.out = tf.keras.layers.Dense(1)\n"
    own += "    def call(self, x):\n        return self.out(self.centre(x))\n"
    script = LOOP.format(loss="small_package.mean(b, model(a))").replace("model = ", f"{own}model = Net()\nother = ", 1)
    assert "self.centre(lockstep.all_gather(x))" in migrated(script, site).text


def test_a_class_of_the_script_comes_from_one_of_a_package(site: Path) -> None:
    own = "class Own(small_package.Base):\n    def values(self, a, b):\n        return tf.reduce_mean(a - b, axis=-1)"
    script = FIT.format(layer=own, loss="Own()")
    assert "whole_batch" in migrated(script).text
    assert "whole_batch" not in migrated(script, site).text


def test_models_that_a_package_builds(site: Path) -> None:
    script = "from tensorflow import keras\nimport small_package\nmodel = small_package.{}(1)\n"
    script += "model.compile(optimizer='sgd', loss='mse')\nmodel.fit(x, y)\n"
    outcome = migrated(script.format("backbone"), site)
    assert outcome.is_changed
    assert not outcome.remarks.trusted
    outcome = migrated(script.format("centred_backbone"), site)
    assert outcome.trains_whole
    assert "relates the samples" in outcome.remarks.trusted[0].message


# -- what is not followed ---------------------------------------------------------------------------------------------


def test_what_cannot_be_read_is_as_if_nobody_knew_it(tmp_path: Path, site: Path) -> None:
    long = "import tensorflow as tf\ndef mean(a, b):\n    return tf.reduce_mean(a - b)\n" + "A = 1\n" * 5_000
    several = {
        "__init__.py": "from .compiled import mean\nfrom .far import Layer",
        "far.py": "from elsewhere import Layer",
    }
    install(site, {"__init__.py": long}, "long_package")
    install(site, several, "compiled_package")
    (site / "compiled_package" / "compiled.so").write_bytes(b"\x7fELF")
    for loss in ("small_package.lost", "long_package.mean", "compiled_package.mean", "compiled_package.Layer()"):
        script = FIT.format(layer="import long_package, compiled_package", loss=loss)
        outcome = migrated(script, site)
        assert outcome.text == migrated(script).text
        assert not outcome.read


def test_code_that_trains_or_never_ends_is_not_followed(site: Path) -> None:
    training = """
        import tensorflow as tf

        def train(model, x, y):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.square(model(x) - y)) / tf.reduce_sum(y)
            return tape.gradient(loss, model.trainable_variables)

        def deep(a, b):
            return deep(b, (a,))
    """
    install(site, {"__init__.py": training}, "training_package")
    for loss in ("training_package.train(model, a, b)[0]", "training_package.deep(a, b)"):
        script = LOOP.format(loss=loss).replace("small_package", "training_package", 1)
        assert migrated(script, site).text == migrated(script).text


def test_functions_that_the_code_hands_on_are_not_lost(site: Path) -> None:
    drawn = """
        from tensorflow import keras

        class Drawn(keras.layers.Layer):
            def call(self, x, training=None):
                return keras.backend.in_train_phase(lambda: x * 2.0, lambda: x, training=training)
    """
    install(site, {"__init__.py": drawn}, "drawing_package")
    script = FIT.format(layer="hidden = drawing_package.Drawn()(hidden)", loss='"mse"')
    script = script.replace("small_package", "drawing_package", 1)
    outcome = migrated(script, site)
    assert outcome.text == migrated(script).text
    assert outcome.remarks.trusted


def test_what_an_object_of_a_package_keeps_of_a_batch_is_a_workers_part(site: Path) -> None:
    kept = """
        import tensorflow as tf

        class Kept(tf.keras.layers.Layer):
            def call(self, x):
                self.mean = tf.reduce_mean(x, axis=0)
                return x

            def last(self):
                return self.mean

            def penalty(self):
                return tf.reduce_sum(tf.square(self.mean))
    """
    install(site, {"__init__.py": kept}, "keeping_package")
    script = LOOP.format(loss="tf.reduce_mean(tf.square(kept(model(a)) - b)) + {}")
    script = script.replace("import small_package", "import keeping_package\nkept = keeping_package.Kept()")
    assert "lockstep.all_reduce(kept.last())" in migrated(script.format("tf.reduce_sum(kept.last() ** 2)"), site).text
    assert "kept(lockstep.all_gather(model(a)))" in migrated(script.format("kept.penalty()"), site).text


def test_packages_that_are_too_large_are_left_out(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("migrator.analysis.packages.sources._MOST_STEPS", 3)
    script = FIT.format(layer="", loss="small_package.mean")
    assert migrated(script, site).text == migrated(script).text


# -- where packages are ------------------------------------------------------------------------------------------------


def test_the_command_reads_the_packages_of_the_environment_that_is_named(tmp_path: Path) -> None:
    install(tmp_path / "env" / "lib" / "python3.11" / "site-packages")
    script = tmp_path / "train.py"
    script.write_text(FIT.format(layer="", loss="small_package.mean"))
    read = migrate("--dry-run", "--verbose", "--python", tmp_path / "env", script)
    assert "whole_batch" not in read.stdout
    assert "read: small_package.mean" in read.stderr
    assert "whole_batch" in migrate("--dry-run", "--verbose", "--python", NO_PACKAGES, script).stdout
    (tmp_path / "pyproject.toml").write_text('[tool.migrate]\npython = "env"\n')
    assert "whole_batch" not in migrate("--dry-run", script).stdout
    assert "has no site-packages" in migrate("--python", tmp_path / "nowhere", script).stderr
    assert migrate("--python", tmp_path / "nowhere", script).exit_code == ERROR


def test_an_interpreter_tells_where_its_packages_are(tmp_path: Path) -> None:
    assert set(site_packages(sys.executable)) == set(site_packages(""))
    with pytest.raises(NoEnvironment):
        site_packages(str(tmp_path))
