"""A file that nothing among those given calls is told of with the scripts that import it."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from migrator.command.cli import main
from migrator.files.importers import importers_of

STEP = """import tensorflow as tf


def train(model, x, y):
    optimizer = tf.keras.optimizers.SGD(0.1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    grads = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(grads, model.trainable_variables))
"""


def test_scripts_of_the_folder_and_above_are_found(tmp_path: Path) -> None:
    package = tmp_path / "net"
    package.mkdir()
    (tmp_path / "setup.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "step.py").write_text(STEP)
    (package / "fit.py").write_text("from .step import train\n")
    (tmp_path / "main.py").write_text("from net.step import train\n")
    (tmp_path / "other.py").write_text("step = 1\n")
    assert importers_of(package / "step.py", {package / "fit.py"}) == [tmp_path / "main.py"]
    assert importers_of(package / "step.py", ()) == [package / "fit.py", tmp_path / "main.py"]


def test_the_refusal_names_them(tmp_path: Path) -> None:
    step, start = tmp_path / "step.py", tmp_path / "main.py"
    step.write_text(STEP)
    assert "calls it: migrate" not in CliRunner().invoke(main, ["--check", "--output-format", "full", str(step)]).output
    start.write_text("from step import train\n")
    told = CliRunner().invoke(main, ["--check", "--output-format", "full", str(step)]).output
    assert "migrate it together with the script that calls it: migrate step.py main.py, or" in " ".join(told.split())
