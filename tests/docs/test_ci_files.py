"""The hooks and the files for CI servers: valid by their schemas, and their commands do what they promise."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

PROJECT = Path(__file__).resolve().parents[2]
CI = PROJECT / "docs" / "ci"
TRAINING = """import numpy as np
from tensorflow import keras

x, y = np.load("x.npy"), np.load("y.npy")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse")
model.fit(x, y, batch_size=32)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Where the command `migrate` is this checkout's."""
    tools = tmp_path / "bin"
    tools.mkdir()
    command = tools / "migrate"
    python = f"PYTHONPATH={shlex.quote(str(PROJECT))} exec {shlex.quote(sys.executable)}"
    command.write_text(f'#!/bin/sh\n{python} -m migrator "$@"\n')
    command.chmod(0o755)
    path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PRE_COMMIT_HOME": str(tmp_path / "home"), "HOME": str(tmp_path)}


@pytest.fixture
def repository(tmp_path: Path, environment: dict[str, str]) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "train.py").write_text(TRAINING)
    for command in (["git", "init", "-q"], ["git", "add", "-A"]):
        subprocess.run(command, cwd=folder, env=environment, check=True, timeout=60)
    return folder


def run(command: list[str], folder: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


# -- pre-commit ------------------------------------------------------------------------------------------------------


def pre_commit(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pre_commit", *arguments]


def configure(repository: Path, hook: str, environment: dict[str, str]) -> None:
    """The hook as the manifest has it, but with the command of this checkout instead of an installed one."""
    hooks = yaml.safe_load((PROJECT / ".pre-commit-hooks.yaml").read_text())
    (chosen,) = [one for one in hooks if one["id"] == hook]
    config = {"repos": [{"repo": "local", "hooks": [{**chosen, "language": "system"}]}]}
    (repository / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    run(["git", "add", "-A"], repository, environment).check_returncode()


def test_manifest_of_the_hooks_is_valid(environment: dict[str, str]) -> None:
    done = run(pre_commit("validate-manifest", ".pre-commit-hooks.yaml"), PROJECT, environment)
    assert done.returncode == 0, done.stdout


def test_hook_fails_until_the_repository_is_ported(repository: Path, environment: dict[str, str]) -> None:
    configure(repository, "migrate-check", environment)
    done = run(pre_commit("run", "--all-files"), repository, environment)
    assert done.returncode == 1
    assert "train.py:5:1: broadcast-weights: " in done.stdout
    assert (repository / "train.py").read_text() == TRAINING
    configure(repository, "migrate", environment)
    done = run(pre_commit("run", "--all-files"), repository, environment)
    assert done.returncode == 1  # pre-commit fails where a hook has written
    assert "files were modified by this hook" in done.stdout
    run(["git", "add", "-A"], repository, environment).check_returncode()
    configure(repository, "migrate-check", environment)
    done = run(pre_commit("run", "--all-files"), repository, environment)
    assert done.returncode == 0, done.stdout


def test_hook_looks_at_the_whole_program(repository: Path, environment: dict[str, str]) -> None:
    """A commit of a file that trains nothing itself is looked at together with the one that it trains."""
    (repository / "sub").mkdir()
    (repository / "sub" / "plain.py").write_text("print(1)\n")
    configure(repository, "migrate-check", environment)
    done = run(pre_commit("run", "--files", "sub/plain.py"), repository, environment)
    assert done.returncode == 1
    assert "train.py:5:1" in done.stdout


# -- CI servers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "schema"), [("github.yml", "github-workflows"), ("gitlab-ci.yml", "gitlab-ci")])
def test_file_is_valid_by_the_schema_of_the_server(name: str, schema: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    options = ["--data-transform", "gitlab-ci"] if schema == "gitlab-ci" else []
    done = subprocess.run([*command, *options, str(CI / name)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


def commands(name: str) -> list[str]:
    """What the server runs of this tool, in order."""
    text = (CI / name).read_text()
    if name == "Jenkinsfile":
        found = re.findall(r"sh '([^']+)'", text)
    elif name == "gitlab-ci.yml":
        found = yaml.safe_load(text)["migrate"]["script"]
    else:
        found = [step["run"] for step in yaml.safe_load(text)["jobs"]["migrate"]["steps"] if "run" in step]
    installs = [command for command in found if command.startswith("pip ")]
    assert installs == ["pip install tf-lockstep"]
    return [command for command in found if command not in installs]


def outputs(name: str) -> list[str]:
    """The files that the server reads afterwards."""
    text = (CI / name).read_text()
    if name == "Jenkinsfile":
        return re.findall(r"(?:junit|archiveArtifacts) '([^']+)'", text)
    if name == "gitlab-ci.yml":
        return [yaml.safe_load(text)["migrate"]["artifacts"]["reports"]["codequality"]]
    steps: list[dict[str, Any]] = yaml.safe_load(text)["jobs"]["migrate"]["steps"]
    return [step["with"]["sarif_file"] for step in steps if "sarif_file" in step.get("with", {})]


@pytest.mark.parametrize(("name", "codes"), [("github.yml", [1, 0]), ("gitlab-ci.yml", [1]), ("Jenkinsfile", [0])])
def test_commands_of_the_file_fail_or_pass_and_write_what_the_server_reads(
    repository: Path, environment: dict[str, str], name: str, codes: list[int]
) -> None:
    done = [run(["bash", "-e", "-c", command], repository, environment) for command in commands(name)]
    assert [one.returncode for one in done] == codes, [one.stderr for one in done]
    assert outputs(name)
    for output in outputs(name):
        told = (repository / output).read_text()
        assert "broadcast-weights" in told
        if output.endswith((".json", ".sarif")):
            json.loads(told)
    if name == "github.yml":
        assert done[0].stdout.startswith("::warning title=migrate (")


def test_page_names_every_file() -> None:
    page = (PROJECT / "docs" / "ci.md").read_text()
    assert set(re.findall(r"\]\(ci/([^)]+)\)", page)) == {path.name for path in CI.iterdir()}
