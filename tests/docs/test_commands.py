"""Each command of the README and of the pages is run, or as much of it is checked as can be without a cluster."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest
import tomli
import yaml
from click.testing import CliRunner
from pages import CONSOLE, PAGES, PROJECT, SHELL, Block, Command, blocks, inline_commands

import lockstep.cli
from migrator.command.cli import main
from migrator.verify.command import verify

TRAINING = """import numpy as np
from tensorflow import keras

x, y = np.load("x.npy"), np.load("y.npy")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse")
model.fit(x, y, batch_size=32)
"""
NOTEBOOK = {
    "cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": TRAINING}],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 2,
}
PROOFS = ("port.py", "project/train.py", "package/train.py", "by_hand.py", "digits_quickstart.py")
# What each page takes for granted is there.
FILES = {
    "docs/interactive.md": {f"experiments/{name}.py": TRAINING for name in ("mnist", "resnet", "vae")},
    "docs/notebooks.md": {"train.ipynb": json.dumps(NOTEBOOK)},
    "docs/runtime.md": {"hosts": "one\ntwo\n"},
    "docs/verify.md": {**dict.fromkeys(PROOFS, TRAINING), "train.ipynb": json.dumps(NOTEBOOK)},
    "docs/words.md": {
        "train.py": """import tensorflow as tf
import helpers, monitor, numpy as np

model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam()
for images, labels in tf.data.Dataset.from_tensor_slices((np.load("x.npy"), np.load("y.npy"))).batch(32):
    with tf.GradientTape() as tape:
        logits = model(images)
        loss = helpers.loss(labels, logits)  # migrate: loss=mean
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    if monitor.wants_to_stop(loss):  # migrate: replicated
        break
model.save("model.keras")  # migrate: rows=0
""",
    },
}
# The answers to the questions of a command.
ANSWERS = {"migrate -i experiments": "n\nn\nn\n", "migrate -i src": "n\n"}
# What is not run, though its words are checked.
NOT_RUN = {
    "lockstep run": "starts workers: tests/runtime does",
    "migrate verify": "trains for minutes: tests/verify does",
    "mpiexec": "starts workers: the tests of the backend mpi do",
    "mpirun": "needs several machines",
    "pip install": "installs from a registry: tests/packaging installs what is built",
    "python": "trains: tests/equality does",
    "make": "is what this test belongs to",
}
OPTIONS = {
    "migrate": main,
    "migrate verify": verify,
    "lockstep run": lockstep.cli.run,
    "lockstep doctor": lockstep.cli.doctor,
}


def name_of(page: Path) -> str:
    return page.relative_to(PROJECT).as_posix()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """What the block's page takes for granted."""
    page = name_of(request.getfixturevalue("block").page)
    for name, text in {"train.py": TRAINING, **FILES.get(page, {})}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


SHELL_BLOCKS = [
    pytest.param(block, id=f"{name_of(page)}-{number}")
    for page in PAGES
    for number, block in enumerate(blocks(page))
    if block.language in (SHELL, CONSOLE) and block.included is None
]


@pytest.mark.parametrize("block", SHELL_BLOCKS)
@pytest.mark.usefixtures("folder")
def test_commands_of_a_block_work(block: Block) -> None:
    commands = list(block.commands())
    assert commands
    for command in commands:
        try_out(command)


def examples(command: click.Command) -> list[str]:
    """The commands under `Examples:` of its help, without what stands behind them."""
    help_text = click.Context(command, info_name="migrate").get_help()
    _, _, rest = help_text.partition("Examples:\n")
    lines = re.findall(r"^ +(migrate .*)$", rest.partition("\n\n")[0], re.MULTILINE)
    return [re.split("  +", line)[0] for line in lines]


@pytest.mark.parametrize(("command", "fewest"), [(main, 5), (verify, 4)], ids=["migrate", "verify"])
def test_examples_of_the_help_work(
    command: click.Command, fewest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "src").mkdir()
    for name in ("train.py", "model.py", "port.py", "src/train.py"):
        (tmp_path / name).write_text(TRAINING)
    (tmp_path / "train.ipynb").write_text(json.dumps(NOTEBOOK))
    monkeypatch.chdir(tmp_path)
    lines = examples(command)
    assert len(lines) >= fewest
    for line in lines:
        try_out(Command(shlex.split(line), line))


def try_out(command: Command) -> None:
    """Runs the command, or checks its words where it is among those that are not run."""
    reason = next((key for key in NOT_RUN if command.line.startswith(f"{key} ")), None)
    if reason is not None:
        check(reason, command.words)
    elif command.words[0] == "eval":
        complete(command)
    elif command.words[0] == "migrate":
        words, _, stdin = command.line.partition(" < ")
        answers = Path(stdin).read_text() if stdin else ANSWERS.get(command.line)
        done = CliRunner().invoke(main, shlex.split(words, comments=True)[1:], input=answers)
        assert done.exit_code in (0, 1), done.output
        assert_printed(command, done.output)
    elif command.words[0] == "git":
        subprocess.run(command.words, check=True)
    else:
        raise AssertionError(f"{command.line}: nothing is known of this command")


def complete(command: Command) -> None:
    """Has a shell read what completes a command, as `eval` does."""
    name = command.line.split()[-1].rstrip(')"')
    tool = {"migrate": main, "lockstep": lockstep.cli.main}[name]
    printed = CliRunner().invoke(tool, prog_name=name, env={f"_{name.upper()}_COMPLETE": "bash_source"})
    assert f"_{name.upper()}_COMPLETE=bash_source" in command.line
    program = f"{printed.output}\ncomplete -p {name}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True)
    assert done.stdout.rstrip().endswith(f" {name}"), done.stderr


def assert_printed(command: Command, output: str) -> None:
    """What the page shows is what is printed, but for lines `...`, which stand for any number of lines."""
    expected = "\n".join(re.escape(line) for line in command.printed).replace(re.escape("...") + "\n", r"(?:.*\n)*?")
    assert re.search(f"^{expected}", output, re.MULTILINE), output


def check(kind: str, words: list[str]) -> None:
    """That all which the words name is there: options, their values, files, targets."""
    if kind in OPTIONS:
        parsed = words[len(kind.split()) :]
        context = OPTIONS[kind].make_context(kind, parsed)
        # What a script is handed is its own; the one of `lockstep run` must be there.
        if kind == "lockstep run":
            assert Path(context.params["script"]).is_file()
        elif context.params["module"] is None:
            assert Path(context.params["command"][0]).exists()
        else:
            assert Path(context.params["module"].replace(".", "/") + ".py").is_file()
    elif kind == "make":
        done = subprocess.run(["make", "-n", *words[1:]], cwd=PROJECT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    elif kind == "pip install":
        assert f'name = "{words[2]}"' in (PROJECT / "pyproject.toml").read_text()
    else:  # python, or a launcher with its options before it
        assert "python" in words
        assert Path(words[words.index("python") + 1]).is_file()


# -- everything is looked at -----------------------------------------------------------------------------------------

# The pages that are printed from the code have pieces of Python, which the fixtures of the rules have whole.
READERS = {"yaml": yaml.safe_load, "json": json.loads, "toml": tomli.loads, "python": ast.parse}
PRINTED = ("rules.md", "refusals.md")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_is_looked_at(page: Path) -> None:
    for block in blocks(page):
        if block.included is not None:
            # The tests of what lies there: of the job files, and of the schemas.
            tests = ("docs/test_job_files.py", "migrator/test_formats.py", "verify/verification.py")
            assert any(block.included.stem in (PROJECT / "tests" / test).read_text() for test in tests)
        elif block.language in READERS and page.name not in PRINTED:
            READERS[block.language](block.text)
        elif block.language not in (SHELL, CONSOLE):
            assert block.language in ("text", "diff", "python"), block.text
            assert not re.search(r"^\s*(?:\$ )?(?:migrate|lockstep|make|pip) \S", block.text, re.MULTILINE), block.text


def test_each_reason_is_needed() -> None:
    shells = [block for page in PAGES for block in blocks(page) if block.language in (SHELL, CONSOLE)]
    lines = [command.line for block in shells if block.included is None for command in block.commands()]
    assert [key for key in NOT_RUN if not any(line.startswith(f"{key} ") for line in lines)] == []
    assert set(ANSWERS) <= {*lines, *examples(main)}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_of_the_text_have_options_that_are_there(page: Path) -> None:
    for line in (*inline_commands(page), *yaml_commands(page)):
        words = shlex.split(line)
        name = next((name for name in ("migrate verify", *OPTIONS) if f"{line} ".startswith(f"{name} ")), "")
        assert name, line
        command: click.Command = OPTIONS[name]
        known = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
        own = words[len(name.split()) : words.index("--") if "--" in words else None]
        used = {word.split("=")[0] for word in own if word.startswith("-") and word != "-"}
        assert used <= known | {"--help"}, line


def yaml_commands(page: Path) -> list[str]:
    """The commands of this tool that a block of YAML has a CI server run."""
    texts = [block.text for block in blocks(page) if block.language == "yaml" and block.included is None]
    steps = [step for text in texts for job in yaml.safe_load(text).get("jobs", {}).values() for step in job["steps"]]
    return [step["run"] for step in steps if step.get("run", "").startswith("migrate ")]


def test_hooks_of_the_page_are_those_of_the_manifest() -> None:
    (block,) = [block for block in blocks(PROJECT / "docs" / "ci.md") if "pre-commit" in block.text]
    (repository,) = yaml.safe_load(block.text)["repos"]
    manifest = yaml.safe_load((PROJECT / ".pre-commit-hooks.yaml").read_text())
    assert {hook["id"] for hook in repository["hooks"]} <= {hook["id"] for hook in manifest}
