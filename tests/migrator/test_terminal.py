"""What people and editors need around a run: versions, completion, the name of standard input, a bar for long work."""

from __future__ import annotations

import json
import os
import platform
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command import MIGRATED, NOTHING_LEFT, PLAIN, PROJECT, SOMETHING_LEFT, TRAINING, migrate

from lockstep._version import __version__
from migrator.registry import all_rules

# -- versions and completion -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [["--version", "--verbose"], ["-v", "--version"]])
def test_verbose_version_names_what_the_outcome_depends_on(options: list[str]) -> None:
    result = migrate(*options)
    assert result.exit_code == 0
    first, python, *packages, rules = result.stdout.splitlines()
    assert first == f"migrate {__version__}"
    assert python.startswith(f"Python {platform.python_version()} ")
    assert [line.split()[0] for line in packages] == ["libcst", "click", "pathspec"]
    assert rules.startswith(f"{len(all_rules())} rules")


def completed(*words: str) -> list[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(PROJECT),
        "_MIGRATE_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["migrate", *words]),
        "COMP_CWORD": str(len(words)),
    }
    program = "import sys\nsys.argv[0] = 'migrate'\nfrom migrator.command.cli import main\nmain(prog_name='migrate')"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_shell_completes_options_rules_and_forms() -> None:
    assert {"--output-format", "--output-file"} <= set(completed("--output"))
    assert completed("--select", "shard-a") == ["shard-after-shuffle", "shard-arrays"]
    assert completed("--ignore", "write-once,broadcast-w") == ["write-once,broadcast-weights"]
    assert set(completed("--explain", "")) == set(all_rules())
    assert completed("--output-format", "s") == ["sarif"]


def test_shell_completes_the_options_of_verify() -> None:
    assert completed("verify", "--s") == ["--steps"]
    assert completed("verify", "train.py", "--backend", "m") == ["mpi"]
    assert "--timeout" in completed("verify", "-n", "4", "--")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash is installed")
def test_bash_completes_by_what_the_command_prints(tmp_path: Path) -> None:
    command = tmp_path / "migrate"
    program = f"import sys\nsys.path.insert(0, {str(PROJECT)!r})\nfrom migrator.command.cli import main\nmain()\n"
    command.write_text(f"#!{sys.executable}\n{program}")
    command.chmod(0o755)
    program = """eval "$(_MIGRATE_COMPLETE=bash_source migrate)"
        COMP_WORDS=(migrate --explain scale); COMP_CWORD=2; _migrate_completion migrate; echo "${COMPREPLY[@]}"
        complete -p migrate"""
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    done = subprocess.run(["bash", "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == ["scale-loss", "complete -o nosort -F _migrate_completion migrate"], done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_told_how_to_complete(shell: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "_MIGRATE_COMPLETE": f"{shell}_source"}
    program = "from migrator.command.cli import main\nmain(prog_name='migrate')"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert f"_MIGRATE_COMPLETE={shell}_complete" in done.stdout


# -- standard input with a name --------------------------------------------------------------------------------------


def test_name_of_standard_input_is_told_and_nothing_is_read_or_written_there(script: Path) -> None:
    script.write_text(PLAIN)
    result = migrate("-", "--check", "--stdin-filename", script, "--output-format", "json", stdin=TRAINING)
    assert result.exit_code == SOMETHING_LEFT
    assert {finding["path"] for finding in json.loads(result.stdout)["findings"]} == {script.as_posix()}
    result = migrate("-", "--stdin-filename", script, stdin=TRAINING)
    assert (result.exit_code, result.stdout) == (NOTHING_LEFT, MIGRATED)
    assert script.read_text() == PLAIN


def test_name_of_standard_input_leads_to_its_settings(script: Path) -> None:
    (script.parent / "pyproject.toml").write_text('[tool.migrate]\nselect = ["broadcast-weights"]\n')
    result = migrate("-", "--check", "--stdin-filename", script, stdin=TRAINING)
    assert {line.split(": ")[1] for line in result.stdout.splitlines()} == {"broadcast-weights"}


def test_name_of_standard_input_leads_to_what_it_imports(script: Path) -> None:
    helper = script.parent / "helper.py"
    helper.write_text(TRAINING)
    result = migrate("-", "--check", "--stdin-filename", script, stdin="import helper\nimport tensorflow\n" + TRAINING)
    assert "this runs helper.py, which takes part in the training" in result.stdout
    helper.write_text(PLAIN)
    result = migrate("-", "--check", "--stdin-filename", script, stdin="import helper\nimport tensorflow\n" + TRAINING)
    assert "refused" not in result.stdout


# -- the bar ---------------------------------------------------------------------------------------------------------


def on_a_terminal(folder: Path, *options: str, interrupt: bool = False) -> tuple[str, int]:
    """What the command shows on a terminal, and its exit code. `interrupt`: Ctrl-C as soon as the bar is there."""
    reader, terminal = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "TERM": "xterm"}
    command = [sys.executable, "-m", "migrator", *options, str(folder)]
    with subprocess.Popen(
        command, env=environment, stdin=terminal, stdout=subprocess.DEVNULL, stderr=terminal, start_new_session=True
    ) as process:
        os.close(terminal)
        shown = b""
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            try:
                more = os.read(reader, 4096)
            except OSError:  # the other side is closed
                break
            if not more:
                break
            shown += more
            if interrupt and b" of 24" in shown:
                os.killpg(process.pid, signal.SIGINT)
                interrupt = False
        process.wait(timeout=60)
    os.close(reader)
    return shown.decode(), process.returncode


@pytest.fixture
def many(tmp_path: Path) -> Path:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(24):
        (folder / f"train_{number}.py").write_text(TRAINING)
    return folder


def test_bar_shows_how_much_is_done_and_goes(many: Path) -> None:
    shown, code = on_a_terminal(many, "--check", "--jobs", "1")
    assert code == SOMETHING_LEFT
    counts = [int(count) for count in re.findall(r"\r\[[#-]{30}\] (\d+) of 24", shown)]
    assert counts == sorted(counts)
    assert counts
    assert shown.rindex("\r\x1b[K") > shown.rindex(" of 24")
    assert "24 files would be migrated" in shown.rpartition("\x1b[K")[2]


def test_bar_is_for_terminals_only(many: Path) -> None:
    assert " of 24" not in on_a_terminal(many, "--check", "--quiet")[0]
    assert " of 24" not in migrate("--check", many).stderr


def test_interruption_leaves_whole_files_and_says_which_were_written(many: Path) -> None:
    shown, code = on_a_terminal(many, "--jobs", "1", interrupt=True)
    assert code == 130
    texts = {path.name: path.read_text() for path in many.iterdir()}
    assert set(texts.values()) <= {TRAINING, MIGRATED}
    written = [name for name, text in texts.items() if text == MIGRATED]
    assert 0 < len(written) < 24
    count = "1 file was" if len(written) == 1 else f"{len(written)} files were"
    assert f"interrupted: {count} written before" in shown
