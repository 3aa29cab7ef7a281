"""Runs `migrate verify` for the tests, as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema

from migrator.engine import migrate
from migrator.registry import choose

PROJECT = Path(__file__).resolve().parents[2]
SAME, SOMETHING_LEFT, ERROR = 0, 1, 2


def start(folder: Path, *arguments: str, scratch: Path) -> subprocess.Popen[bytes]:
    """The command, with its scratch folders in this one."""
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "TMPDIR": str(scratch)}
    command = [sys.executable, "-m", "migrator", "verify", *arguments]
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def verify(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    command = [sys.executable, "-m", "migrator", "verify", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=580)


def proof_of(folder: Path, *arguments: str, code: int) -> dict[str, Any]:
    """What the command says as JSON; it must end with this code."""
    ran = verify(folder, *arguments, "--output-format", "json")
    assert ran.returncode == code, ran.stdout[-3000:] + ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    problems = [f"{error.json_path}: {error.message}" for error in _SCHEMA.iter_errors(found)]
    assert problems == []
    return found


def _closed(value: Any) -> Any:
    """The schema that knows no keys but its own, so that none is missing in it."""
    if isinstance(value, list):
        return [_closed(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: _closed(one) for key, one in value.items()}
    is_open = value.get("type") == "object" and "additionalProperties" not in value
    return {**found, "additionalProperties": False} if is_open else found


_SCHEMA = jsonschema.Draft202012Validator(_closed(json.loads((PROJECT / "docs" / "proof.schema.json").read_text())))


def committed(folder: Path, files: dict[str, str]) -> None:
    """Make a repository of the folder, with these files in its first commit."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", "-C", str(folder), *command], check=True)


def ported(script: str, *without: str) -> str:
    """The script as it is migrated, without the lines that hold these."""
    text = migrate(script.encode(), choose()).text
    kept = [line for line in text.splitlines() if not any(part in line for part in without)]
    assert len(kept) == len(text.splitlines()) - len(without)
    return "\n".join(kept) + "\n"
