"""The command on scripts of which the verdict is known, with real workers."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from verification import ERROR, SAME, SOMETHING_LEFT, committed, ported, proof_of, start, verify

ORIGINAL = """import numpy as np
import tensorflow as tf

x = np.random.RandomState(0).normal(size=(96, 5)).astype("float32")
y = (x @ np.arange(1.0, 6.0, dtype="float32"))[:, None]
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(96).batch(16)
model = tf.keras.Sequential([tf.keras.Input((5,)), tf.keras.layers.Dense(4, "tanh"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.05)
for epoch in range(2):
    for inputs, targets in dataset:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(inputs, training=True) - targets) ** 2)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    print(f"epoch {epoch}: loss {loss:.4f}, rate {float(optimizer.learning_rate):.3f}")
"""
APPLIES = "        optimizer.apply_gradients"


def check_page(page: Path) -> None:
    """It shows what it has to, loads nothing, and a browser draws it."""
    text = page.read_text()
    for part in ("<h1>SAME</h1>", "Loss of each step", "all-reduce-gradients", "original, 1 process", "rank 1 of 2"):
        assert part in text
    for part in ("http://", "https://", "<script", "<link"):
        assert part not in text
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        return
    picture = page.with_suffix(".png")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={page.parent / 'profile'}"]
    subprocess.run(
        [*command, "--window-size=820,1400", f"--screenshot={picture}", page.as_uri()],
        check=True,
        capture_output=True,
        timeout=120,
    )
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.stat().st_size > 30_000  # a blank page has a tenth of it


def test_a_migrated_script_trains_the_same(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ORIGINAL)
    page = tmp_path / "out" / "page.html"
    found = proof_of(tmp_path, "train.py", "-n", "2", "--report", str(page), code=SAME)
    assert found["verdict"]["kind"] == "SAME"
    assert [run["processes"] for run in found["runs"]] == [1, 2]
    assert found["compared_steps"] == found["steps"] == 12
    on_two = found["runs"][1]["figures"]
    assert len(on_two["weights"]) == 12
    assert 0 < max(size for _, size, _ in on_two["weights"]) < 1e-5
    alone, together = (found["runs"][i]["ranks"] for i in range(2))
    assert [rank["exchanging"] for rank in alone] == [0]
    assert [0 < rank["exchanging"] < 1 for rank in together] == [True, True]
    assert found["runs"][1]["seconds_per_step"] > 0
    (remark,) = found["runs"][1]["remarks"]
    assert "what each worker's own share of the samples gives" in remark["detail"]
    assert [run["figures"].get("printed") for run in found["runs"]] == [[[6, 0, 1e-4]], None]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "train.py"]
    check_page(page)


def check_named(verdict: dict[str, Any], port: str, name: str, what: str, rule: str) -> None:
    """The first step differs, in this, at the port's line that applies gradients."""
    line = next(number for number, text in enumerate(port.splitlines(), 1) if text.startswith(APPLIES))
    assert (verdict["kind"], verdict["rule"]) == ("DIFFERENT", rule)
    assert (verdict["difference"]["what"], verdict["difference"]["step"]) == (what, 1)
    assert verdict["difference"]["line"] == f"{name}:{line}"


@pytest.mark.long
def test_a_wrong_port_is_different(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ORIGINAL)
    port = ported(ORIGINAL, "lockstep.all_reduce")
    (tmp_path / "port.py").write_text(port)
    verdict = proof_of(tmp_path, "port.py", "--original", "train.py", code=SOMETHING_LEFT)["verdict"]
    check_named(verdict, port, "port.py", "gradients", "all-reduce-gradients")


@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        (".shuffle(96)", ".shuffle(96, seed=lockstep.rank())", "shuffles"),
        ("epoch {epoch}:", "epoch {epoch + 1}:", "printed"),
    ],
)
def test_a_port_that_cuts_by_hand_is_different_where_it_shuffles_or_prints_otherwise(
    tmp_path: Path, before: str, after: str, what: str
) -> None:
    (tmp_path / "train.py").write_text(ORIGINAL)
    port = ORIGINAL.replace("import tensorflow as tf\n", "import tensorflow as tf\nimport lockstep\n")
    cut = "        inputs, targets = (part[lockstep.rank() :: lockstep.size()] for part in (inputs, targets))\n"
    port = port.replace("        with tf.GradientTape", f"{cut}        with tf.GradientTape")
    port = port.replace("optimizer =", "lockstep.broadcast(model)\noptimizer =")
    port = port.replace(
        "= tape.gradient(loss, model.trainable_variables)",
        "= lockstep.all_reduce(tape.gradient(loss, model.trainable_variables))",
    )
    assert before in port
    (tmp_path / "right.py").write_text(port)
    assert proof_of(tmp_path, "right.py", "--original", "train.py", code=SAME)["verdict"]["kind"] == "SAME"
    (tmp_path / "port.py").write_text(port.replace(before, after))
    verdict = proof_of(tmp_path, "port.py", "--original", "train.py", code=SOMETHING_LEFT)["verdict"]
    line = next(number for number, text in enumerate(port.splitlines(), 1) if before in text)
    assert (verdict["kind"], verdict["difference"]["what"]) == ("DIFFERENT", what)
    assert verdict["difference"]["line"] == f"port.py:{line}"


def test_a_wrong_port_is_different_from_what_git_has(tmp_path: Path) -> None:
    committed(tmp_path, {"train.py": ORIGINAL})
    port = ported(ORIGINAL, "lockstep.broadcast")
    (tmp_path / "train.py").write_text(port)
    verdict = proof_of(tmp_path, "train.py", "--original", "git:HEAD", code=SOMETHING_LEFT)["verdict"]
    check_named(verdict, port, "train.py", "first weights", "broadcast-weights")
    assert (tmp_path / "train.py").read_text() == port


@pytest.mark.long
def test_a_notebook_is_proven_by_its_cells_and_stays(tmp_path: Path) -> None:
    cells = [
        ORIGINAL[: ORIGINAL.index("optimizer =")],
        "%matplotlib inline\n",
        ORIGINAL[ORIGINAL.index("optimizer =") :],
    ]
    kinds = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook = json.dumps(
        {"cells": [{**kinds, "source": cell} for cell in cells], "metadata": {}, "nbformat": 4, "nbformat_minor": 2}
    )
    (tmp_path / "train.ipynb").write_text(notebook)
    found = proof_of(tmp_path, "train.ipynb", code=SAME)
    (remark,) = found["runs"][1]["remarks"]
    assert remark["line"].startswith("train.ipynb:cell 3:")
    assert [path.name for path in tmp_path.iterdir()] == ["train.ipynb"]
    assert (tmp_path / "train.ipynb").read_text() == notebook


@pytest.mark.long
def test_an_original_that_fails_is_told_with_its_traceback(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ORIGINAL + "raise RuntimeError('out of luck')\n")
    ran = verify(tmp_path, "train.py")
    assert ran.returncode == ERROR
    assert "RuntimeError: out of luck" in ran.stderr
    assert "the original fails by itself" in ran.stderr


@pytest.mark.long
def test_files_that_every_worker_writes_are_named(tmp_path: Path) -> None:
    script = ORIGINAL + 'model.save_weights("trained.weights.h5")\n'
    (tmp_path / "train.py").write_text(script)
    port = ported(script).replace("if lockstep.is_chief():", "if True:")
    (tmp_path / "port.py").write_text(port)
    verdict = proof_of(tmp_path, "port.py", "--original", "train.py", code=SOMETHING_LEFT)["verdict"]
    line = next(number for number, text in enumerate(port.splitlines(), 1) if "save_weights" in text)
    assert (verdict["difference"]["what"], verdict["rule"]) == ("files", "write-once")
    assert verdict["difference"]["line"] == f"port.py:{line}"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["port.py", "train.py"]


@pytest.mark.long
def test_a_write_outside_of_the_folder_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text(ORIGINAL + 'model.save_weights("/var/../elsewhere.weights.h5")\n')
    ran = verify(tmp_path / "work", "train.py")
    assert ran.returncode == ERROR
    assert "the script writes to /elsewhere.weights.h5" in ran.stderr
    assert not Path("/elsewhere.weights.h5").exists()


@pytest.mark.long
def test_nothing_is_left_behind_where_it_is_ended_early(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ORIGINAL.replace("range(2)", "range(100_000)"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    process = start(tmp_path, "train.py", "--steps", "100000", scratch=scratch)
    try:
        give_up = time.monotonic() + 200
        while not list(scratch.glob("*/original/record/plan.json")):
            assert process.poll() is None
            assert time.monotonic() < give_up
            time.sleep(0.2)
        process.terminate()
        assert process.wait(timeout=60) == 128 + signal.SIGTERM
    finally:
        process.kill()
    assert list(scratch.iterdir()) == []
    left = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
    assert not [command for command in left if str(scratch) in " ".join(command or ())]


@pytest.mark.long
def test_runs_that_take_too_long_are_ended(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(1000)\n" + ORIGINAL)
    ran = verify(tmp_path, "train.py", "--timeout", "60")
    assert ran.returncode == ERROR
    assert "still running after 60 s: original" in ran.stderr
