"""`migrate --interactive`: what each key does, on a real terminal and with answers from a pipe."""

from __future__ import annotations

import os
import re
import stat
import sys
from pathlib import Path

import pytest
from command import ERROR, MIGRATED, NOTHING_LEFT, PLAIN, PROJECT, SOMETHING_LEFT, TRAINING, migrate

from migrator.command.patching import UnfitDiff, patched

pexpect = pytest.importorskip("pexpect")

HELPER = "from tensorflow import keras\n\n\ndef model():\n    return keras.Sequential([keras.layers.Dense(1)])\n"
WITH_HELPER = TRAINING.replace("import numpy", "import helper\nimport numpy").replace(
    "keras.Sequential([keras.layers.Dense(1)])", "helper.model()"
)
ASKED = re.compile(r"\((\d)/(\d)\) Migrate (.*?) \[y,n,a,d,e,q,\?\]\? ")


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Three trainings, two of which lie in a folder."""
    folder = tmp_path / "trainings"
    (folder / "deep").mkdir(parents=True)
    for name in ("a.py", "deep/b.py", "deep/c.py"):
        (folder / name).write_text(TRAINING)
    (folder / "plain.py").write_text(PLAIN)
    return folder


def migrated(folder: Path) -> set[str]:
    found = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.py")}
    assert set(found.values()) <= {TRAINING, MIGRATED, PLAIN}
    return {name for name, text in found.items() if text == MIGRATED}


def editor(tmp_path: Path, program: str) -> dict[str, str]:
    """The environment with an editor that changes `text`, the diff, as this program does."""
    file = tmp_path / "editor.py"
    source = f"#!{sys.executable}\nimport sys\nfile = sys.argv[-1]\ntext = open(file).read()\n{program}\n"
    file.write_text(source + "open(file, 'w').write(text)\nimport os\nos.utime(file, (1, 1))\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return {"VISUAL": str(file), "EDITOR": str(file)}


# -- keys ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "expected", "asked"),
    [
        ("y\ny\ny\n", {"a.py", "deep/b.py", "deep/c.py"}, 3),
        ("n\ny\nn\n", {"deep/b.py"}, 3),
        ("y\nq\n", {"a.py"}, 2),
        ("a\n", {"a.py", "deep/b.py", "deep/c.py"}, 1),
        ("n\na\n", {"deep/b.py", "deep/c.py"}, 2),
        ("y\nd\n", {"a.py"}, 2),
        ("Y\n\nNo\nyes\n", {"a.py", "deep/c.py"}, 4),
        ("y\n", {"a.py"}, 2),  # the end of the input
        ("", set(), 1),
    ],
)
def test_keys_take_and_leave_trainings(three: Path, answers: str, expected: set[str], asked: int) -> None:
    result = migrate("-i", three, stdin=answers)
    assert migrated(three) == expected
    assert result.exit_code == (NOTHING_LEFT if len(expected) == 3 else SOMETHING_LEFT)
    assert len(ASKED.findall(result.stderr)) == asked
    assert result.stdout == ""
    left = 3 - len(expected)
    told = f"{left} file{'s' * (left != 1)} left at your word"
    assert (told in result.stderr) is (left > 0)


def test_a_folder_taken_leaves_the_ones_outside_to_be_asked(three: Path) -> None:
    (three / "z.py").write_text(TRAINING)
    result = migrate("-i", three, stdin="n\na\nn\n")
    assert migrated(three) == {"deep/b.py", "deep/c.py"}
    assert [number for number, _, _ in ASKED.findall(result.stderr)] == ["1", "2", "4"]


def test_unknown_keys_explain_all(three: Path) -> None:
    result = migrate("-i", three / "a.py", stdin="x\n?\nq\n")
    assert result.stderr.count("leave it as it is") == 2
    assert all(f"{key} - " in result.stderr for key in "ynadeq?")
    assert migrated(three) == set()


def test_what_is_asked_about_is_shown_with_what_is_refused_beside_it(tmp_path: Path) -> None:
    script = tmp_path / "a.py"
    script.write_text(TRAINING + "if model.save('m.keras') is None and input():\n    pass\n")
    result = migrate("-i", script, stdin="n\n")
    shown = result.stderr.partition("(1/1) ")[0]
    assert "+lockstep.broadcast(model)" in shown
    assert f"+++ b/{str(script).lstrip('/')}" in shown
    assert re.search(rf"{re.escape(str(script))}:8:\d+: write-once: refused: ", shown)


def test_second_run_asks_nothing(three: Path) -> None:
    migrate("-i", three, stdin="a\n")
    result = migrate("-i", three)
    assert result.exit_code == NOTHING_LEFT
    assert not ASKED.search(result.stderr)


@pytest.mark.parametrize("other", [["--check"], ["--dry-run"], ["-o", "out.py"], ["--write-baseline"]])
def test_other_ways_of_writing_are_refused(three: Path, other: list[str]) -> None:
    assert migrate("-i", three, *other).exit_code == ERROR
    assert migrated(three) == set()


def test_standard_input_has_the_answers_and_no_script() -> None:
    result = migrate("-i", "-", stdin=TRAINING)
    assert result.exit_code == ERROR
    assert "standard input" in result.stderr


def test_report_on_standard_output_stays_apart(three: Path) -> None:
    import json

    result = migrate("-i", three, "--output-format", "json", stdin="y\nq\n")
    status = {Path(file["path"]).name: file["status"] for file in json.loads(result.stdout)["files"]}
    assert status == {"a.py": "migrated", "b.py": "to-migrate", "c.py": "to-migrate", "plain.py": "nothing-to-do"}


# -- trainings of several files --------------------------------------------------------------------------------------


def test_files_that_run_together_are_one_training(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER.replace("):\n", "):\n    print('new')\n"))
    (tmp_path / "train.py").write_text(WITH_HELPER)
    (tmp_path / "other.py").write_text(TRAINING)
    result = migrate("-i", tmp_path, stdin="y\nn\n")
    assert [total for _, total, _ in ASKED.findall(result.stderr)] == ["2", "2"]
    assert "import lockstep" not in (tmp_path / "train.py").read_text()
    assert "import lockstep" in (tmp_path / "other.py").read_text()


def test_shared_changes_make_one_training_of_several_scripts(tmp_path: Path) -> None:
    steps = (
        "import tensorflow as tf\n\n\ndef step(model, optimizer, x):\n    with tf.GradientTape() as tape:\n"
        "        loss = tf.reduce_mean(model(x) ** 2)\n    grads = tape.gradient(loss, model.trainable_variables)\n"
        "    optimizer.apply_gradients(zip(grads, model.trainable_variables))\n"
    )
    script = (
        "import numpy as np\nimport tensorflow as tf\nimport steps\n\n"
        "model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\n"
        "optimizer = tf.keras.optimizers.SGD()\ndata = tf.data.Dataset.from_tensor_slices(np.load('x.npy')).batch(32)\n"
        "for x in data:\n    steps.step(model, optimizer, x)\n"
    )
    (tmp_path / "steps.py").write_text(steps)
    (tmp_path / "one.py").write_text(script)
    (tmp_path / "two.py").write_text(script)
    result = migrate("-i", tmp_path, stdin="n\n")
    assert [found[1:] for found in ASKED.findall(result.stderr)] == [("1", "this training of 3 files")]
    assert (tmp_path / "steps.py").read_text() == steps
    assert migrate("-i", tmp_path, stdin="y\n").exit_code == NOTHING_LEFT
    assert all("lockstep" in (tmp_path / name).read_text() for name in ("steps.py", "one.py", "two.py"))


# -- a part ----------------------------------------------------------------------------------------------------------

LEAVE_OUT = "text = text.replace('+lockstep.broadcast(model)\\n', '')"


def test_a_part_is_written_after_a_warning_and_a_second_question(
    three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in editor(tmp_path, LEAVE_OUT).items():
        monkeypatch.setenv(name, value)
    script = three / "a.py"
    result = migrate("-i", script, stdin="e\nn\nq\n")
    assert "only together" in result.stderr
    assert script.read_text() == TRAINING
    result = migrate("-i", script, stdin="e\ny\n")
    assert script.read_text() == MIGRATED.replace("lockstep.broadcast(model)\n", "")
    assert result.exit_code == SOMETHING_LEFT
    assert "1 file written as you edited it" in result.stderr


def test_an_untouched_diff_is_written_without_further_questions(
    three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in editor(tmp_path, "").items():
        monkeypatch.setenv(name, value)
    result = migrate("-i", three / "a.py", stdin="e\n")
    assert (result.exit_code, migrated(three)) == (NOTHING_LEFT, {"a.py"})
    assert "warning" not in result.stderr


@pytest.mark.parametrize(
    ("edit", "problem"),
    [
        ("text = text.replace('+import lockstep', '+import lockstep as')", "would not be valid Python"),
        ("text = text.replace(' from tensorflow', ' from tensorfloww')", "is not 'from tensorfloww import keras'"),
        ("text = text.replace('--- a/', '--- a/x').replace('+++ b/', '+++ b/x')", "not of this training"),
    ],
)
def test_a_diff_that_does_not_fit_may_be_edited_again(
    three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edit: str, problem: str
) -> None:
    for name, value in editor(tmp_path, edit).items():
        monkeypatch.setenv(name, value)
    result = migrate("-i", three / "a.py", stdin="e\nn\nn\n")
    assert problem in result.stderr
    assert len(ASKED.findall(result.stderr)) == 2
    assert migrated(three) == set()


def test_an_empty_diff_leaves_the_training(three: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in editor(tmp_path, "text = ''").items():
        monkeypatch.setenv(name, value)
    result = migrate("-i", three / "a.py", stdin="e\n")
    assert (result.exit_code, migrated(three)) == (SOMETHING_LEFT, set())
    assert "1 file left at your word" in result.stderr


def test_edited_diff_is_applied_with_wrong_counts_and_other_line_ends() -> None:
    old = "a\r\nb\r\nc"
    diff = "# about\n--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n a\n-b\n+B\n+\n c\n\\ No newline at end of file\n"
    assert patched({"x": old, "y": "same"}, diff) == {"x": "a\r\nB\r\n\r\nc", "y": "same"}
    assert patched({"x": "a\n\nb\n"}, "--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n\n-b\n+c\n") == {"x": "a\n\nc\n"}
    assert patched({"x": "a"}, "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+b\n") == {"x": "b\n"}
    with pytest.raises(UnfitDiff, match="line 1 of the file is not 'b'"):
        patched({"x": "a\n"}, "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-b\n+c\n")


# -- a terminal ------------------------------------------------------------------------------------------------------


def on_a_terminal(*arguments: object, environment: dict[str, str] | None = None) -> pexpect.spawn:
    return pexpect.spawn(
        sys.executable,
        ["-m", "migrator", "-i", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(PROJECT), "TERM": "xterm", **(environment or {})},
        timeout=60,
        encoding="utf-8",
        dimensions=(24, 100),
    )


def test_on_a_terminal_each_question_waits_for_its_answer(three: Path, tmp_path: Path) -> None:
    child = on_a_terminal(three, environment=editor(tmp_path, LEAVE_OUT))
    child.expect(r"\x1b\[32m\+lockstep\.broadcast")
    child.expect_exact("(1/3) Migrate")
    child.sendline("y")
    child.expect_exact("(2/3) Migrate")
    assert migrated(three) == {"a.py"}
    child.sendline("e")
    child.expect_exact("Write them all the same [y/n]? ")
    child.sendline("n")
    child.expect_exact("(2/3) Migrate")
    child.sendline("q")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == SOMETHING_LEFT
    assert migrated(three) == {"a.py"}


def test_interruption_keeps_what_was_taken(three: Path) -> None:
    child = on_a_terminal(three)
    child.expect_exact("(1/3) Migrate")
    child.sendline("y")
    child.expect_exact("(2/3) Migrate")
    child.sendintr()
    child.expect_exact("interrupted: 1 file was written before")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 130
    assert migrated(three) == {"a.py"}
