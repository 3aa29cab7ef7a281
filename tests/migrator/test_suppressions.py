"""What may be accepted without a port: comments that are added, settings for files, and how reports tell of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import ERROR, HALF_REFUSED, NOTHING_LEFT, PLAIN, SOMETHING_LEFT, TRAINING, contents, migrate

from migrator.text.parsing import is_python

SAVING = TRAINING + 'model.save("m.keras")\n'
LOOP = """import tensorflow as tf

data = tf.data.Dataset.from_tensor_slices(tf.ones([64, 4])).batch(32)
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD()


@tf.function
def step(x):
\twith tf.GradientTape() as tape:
\t\tloss = tf.reduce_mean(
\t\t\tmodel(x) ** 2)
\tgradients = tape.gradient(loss, model.trainable_variables); print("x")
\toptimizer.apply_gradients(zip(gradients, model.trainable_variables))


for x in data: step(x)
if True: model.save("m.keras"); print("saved")
"""
FOREIGN = """import tensorflow as tf
import tensorflow_hub as hub

model = tf.keras.Sequential([hub.KerasLayer("https://tfhub.dev/some/module/1"), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(tf.ones([64, 8]), tf.ones([64, 1]), batch_size=32)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "old").mkdir(parents=True)
    (folder / "old" / "train.py").write_text(SAVING)
    (folder / "train.py").write_text(SAVING)
    monkeypatch.chdir(folder)
    return folder


def configure(folder: Path, settings: str) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.migrate]\n{settings}\n")


# -- comments that are added -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [TRAINING, SAVING, HALF_REFUSED, LOOP, LOOP.replace("\n", "\r\n"), FOREIGN])
def test_all_that_is_left_is_accepted_by_comments(script: Path, text: str) -> None:
    script.write_bytes(text.encode())
    result = migrate("--add-ignore=one device for good", script)
    assert result.exit_code == NOTHING_LEFT, result.output
    written = script.read_bytes().decode()
    lines = written.splitlines(keepends=True)
    added = [line for line in lines if "# migrate: ignore[" in line]
    assert "".join(line for line in lines if line not in added) == text
    assert all("] one device for good" in line for line in added)
    assert f"{len(added)} comments written to 1 file" in result.stderr
    assert is_python(written)
    checked = migrate("--check", script)
    assert (checked.exit_code, checked.stdout) == (NOTHING_LEFT, "")
    assert "unused" not in checked.stderr


def test_second_run_adds_nothing(script: Path) -> None:
    migrate("--add-ignore=why", script)
    once = script.read_bytes()
    result = migrate("--add-ignore=why", script)
    assert (result.exit_code, script.read_bytes()) == (NOTHING_LEFT, once)


def test_what_one_rule_finds_is_accepted_and_the_rest_is_ported(project: Path) -> None:
    assert migrate("--add-ignore=own disks", "--select=write-once", "train.py").exit_code == NOTHING_LEFT
    assert (project / "train.py").read_text().count("# migrate: ignore[write-once] own disks\nmodel.save") == 1
    assert migrate("train.py").exit_code == NOTHING_LEFT
    written = (project / "train.py").read_text()
    assert "lockstep.broadcast(model)" in written
    assert "is_chief" not in written


def test_what_the_rest_needs_gets_no_comment_and_is_told(project: Path) -> None:
    before = contents(project)
    result = migrate("--add-ignore=why", "--select=wrap-optimizer", "train.py")
    assert result.exit_code == SOMETHING_LEFT
    assert "train.py:6:" in result.stdout
    assert "needed" in result.stdout
    assert contents(project) == before


def test_what_no_comment_can_stand_above_is_told(script: Path) -> None:
    text = LOOP.replace("for x in data: step(x)", "if data is None:\n    pass\nelse: [step(x) for x in data]")
    script.write_text(text)
    result = migrate("--add-ignore=why", script)
    checked = migrate("--check", script)
    assert result.exit_code == checked.exit_code
    assert (result.stdout == "") == (checked.stdout == "")


def test_comments_may_be_shown_first(script: Path) -> None:
    result = migrate("--add-ignore=why", "--dry-run", script)
    assert "+# migrate: ignore[broadcast-weights] why" in result.stdout
    assert script.read_text() == TRAINING
    assert "would be written" in result.stderr


def test_standard_input_gets_its_comments(script: Path) -> None:
    result = migrate("--add-ignore=why", "-", stdin=TRAINING)
    assert "# migrate: ignore[broadcast-weights] why\nmodel = " in result.stdout


@pytest.mark.parametrize("reason", ["", "  ", "a # b", "two\nlines"])
def test_a_reason_is_one_line(script: Path, reason: str) -> None:
    assert migrate(f"--add-ignore={reason}", script).exit_code == ERROR
    assert script.read_text() == TRAINING


@pytest.mark.parametrize("other", ["--check", "-i", "--write-baseline", "--no-suppressions"])
def test_other_ways_of_writing_are_refused(script: Path, other: str) -> None:
    assert migrate("--add-ignore=why", other, script).exit_code == ERROR
    assert script.read_text() == TRAINING


# -- settings for files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["old/", "old/*.py", "/old/train.py", "**/old/**"])
def test_rules_are_ignored_in_the_files_of_a_pattern(project: Path, pattern: str) -> None:
    configure(project, f'per-file-ignores = {{"{pattern}" = ["write-once"]}}')
    result = migrate(".")
    assert result.exit_code == NOTHING_LEFT
    assert "is_chief" in (project / "train.py").read_text()
    old = (project / "old" / "train.py").read_text()
    assert "lockstep.broadcast(model)" in old
    assert "is_chief" not in old
    assert "write-once: on trust: per-file-ignores[write-once] (" in result.stderr
    assert "unused" not in result.stderr


def test_what_the_rest_needs_is_refused_with_the_setting(project: Path) -> None:
    configure(project, 'per-file-ignores = {"old/" = ["wrap-optimizer"]}')
    result = migrate("old")
    assert result.exit_code == SOMETHING_LEFT
    assert "take it out of per-file-ignores" in result.stdout
    assert (project / "old" / "train.py").read_text() == SAVING


def test_the_command_line_has_the_same(project: Path) -> None:
    configure(project, 'per-file-ignores = {"old/" = ["write-once"]}')
    migrate("--per-file-ignores", "/train.py:write-once", ".")
    assert "is_chief" not in (project / "train.py").read_text()
    assert "is_chief" in (project / "old" / "train.py").read_text()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('per-file-ignores = {"a" = ["write"]}', "there is no rule 'write'"),
        ('per-file-ignores = {"a" = "write-once"}', "'per-file-ignores' takes a table of patterns with lists of rules"),
        ('per-file-ignores = ["write-once"]', "'per-file-ignores' takes a table"),
        ('strict = "yes"', "'strict' takes true or false"),
    ],
)
def test_mistake_is_told(project: Path, settings: str, message: str) -> None:
    configure(project, settings)
    result = migrate(".")
    assert result.exit_code == ERROR
    assert message in result.stderr


def test_settings_can_be_read_back(project: Path) -> None:
    configure(project, 'strict = true\nper-file-ignores = {"a b/" = ["write-once"], c = []}')
    told = migrate("--show-settings", ".").stdout
    assert 'per-file-ignores = {"a b/" = ["write-once"], "c" = []}\nstrict = true\n' in told
    (project / "copy.toml").write_text(told)
    assert migrate("--show-settings", "--config", "copy.toml", ".").stdout.splitlines()[1:] == told.splitlines()[1:]


def test_strict_is_a_setting(project: Path) -> None:
    (project / "train.py").write_text(FOREIGN)
    configure(project, "strict = true")
    assert migrate("--check", "--no-cache", "train.py").stdout.count("gather-batch: refused") == 1
    assert "refused" not in migrate("--check", "--no-strict", "train.py").stdout


# -- all that is found -----------------------------------------------------------------------------------------------


def test_without_suppressions_all_is_found(script: Path) -> None:
    plain = migrate("--check", script).stdout
    migrate("--add-ignore=why", script)
    shown = migrate("--check", "--no-suppressions", script)
    assert shown.exit_code == SOMETHING_LEFT
    assert shown.stdout.count(": ") == plain.count(": ")
    assert "unused" not in shown.stderr
    assert migrate("--check", script).exit_code == NOTHING_LEFT


# -- reports ---------------------------------------------------------------------------------------------------------


def test_sarif_tells_what_is_ignored_and_what_is_on_trust(script: Path) -> None:
    script.write_text(FOREIGN + '# migrate: ignore[write-once] own disks\nmodel.save("m.keras")  # migrate: rows=0\n')
    told = json.loads(migrate("--check", script, "--output-format", "sarif").stdout)["runs"][0]["results"]
    (ignored,) = [one for one in told if one["suppressions"]]
    assert (ignored["ruleId"], ignored["level"]) == ("write-once", "note")
    assert ignored["suppressions"] == [{"kind": "inSource", "justification": "ignore[write-once] own disks"}]
    (trusted,) = [one for one in told if one.get("kind") == "review"]
    assert trusted["message"]["text"].startswith("taken on trust: what tensorflow_hub.KerasLayer")
    assert trusted["locations"][0]["physicalLocation"]["region"]["startLine"] == 4
    (unused,) = [one for one in told if one.get("kind") == "informational"]
    assert "ruleId" not in unused
    assert "nothing here needs" in unused["message"]["text"]
    assert all(one["level"] == "none" for one in (trusted, unused))


def test_page_tells_what_is_ignored_and_what_is_on_trust(project: Path) -> None:
    (project / "train.py").write_text(FOREIGN + 'model.save("<m>")  # migrate: ignore[write-once] own <disks>\n')
    (project / "plain.py").write_text(PLAIN)
    migrate("--check", "train.py", "plain.py", "--report", "review.html")
    page = (project / "review.html").read_text()
    assert "<b>ignored</b>: ignore[write-once] own &lt;disks&gt; (" in page
    assert "<b>on trust</b>: what tensorflow_hub.KerasLayer" in page
    assert 'id="rule-write-once"' in page
    assert 'id="rule-gather-batch"' in page
    assert "plain.py" not in page
