"""What `migrate --check` found in files that have not changed since: told again without an analysis.

An entry stands for one command line. It holds for the very contents of its files, for what lies around them on disk
(files that they import, and paths where such a file would be looked for first), for the settings and for the code of
this tool. Nothing in it is executed; an entry that is damaged counts as none.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from migrator.files.project import Filter, NoSuchScript, scripts
from migrator.findings.callers import asks_for_caller
from migrator.findings.results import Failure, FileResult, Outcome, RunResult
from migrator.notebooks.cells import is_notebook
from migrator.records import dataclass
from migrator.text.source import Source

_MOST_ENTRIES = 50
# What is made anew from the contents of the files.
_FROM_CONTENTS = frozenset({"old", "data", "old_text", "text"})


@dataclass(frozen=True)
class Look:
    """The files of a run as they are now: their names, the same as absolute paths, and what they hold.

    Of a notebook that is its script.
    """

    paths: Mapping[str, Path]
    data: Mapping[str, bytes]

    @classmethod
    def at(cls, named: Iterable[Path], without: Filter) -> Look | None:
        """None where one of them cannot be read: the run will say why."""
        paths: dict[str, Path] = {}
        data: dict[str, bytes] = {}

        def unreadable(error: OSError) -> None:
            raise error

        try:
            for path in named:
                if str(path) == "-":
                    return None
                for script in scripts(path, None, unreadable, without):
                    paths[str(script)] = Path(os.path.abspath(script))
                    held = script.read_bytes()
                    data[str(script)] = _script_of(held) if is_notebook(script) else held
        except (OSError, NoSuchScript, Failure):
            return None
        return cls(paths, data)

    def digests(self) -> list[list[str]]:
        return [[name, _digest(data)] for name, data in sorted(self.data.items())]


class Cache:
    """The entries in a folder. `question` is all that the outcome depends on beside the files."""

    def __init__(self, folder: Path, question: Mapping[str, Any]) -> None:
        asked = {**question, "cwd": os.getcwd(), "python": sys.version, "tool": _tool()}
        self._file = folder / f"{_digest(json.dumps(asked, sort_keys=True, default=str).encode())}.json"

    def recall(self, look: Look) -> RunResult | None:
        """The result of the run over the files as they are now, if it is known."""
        try:
            digest, _, body = self._file.read_bytes().partition(b"\n")
            if digest.decode() != _digest(body):
                return None
            entry = json.loads(body)
            if entry["files"] != look.digests() or not _are_as_they_were(entry["around"]):
                return None
            return RunResult([_file(one, look.data) for one in entry["result"]])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def remember(self, look: Look, result: RunResult, around: Iterable[Path]) -> None:
        """Keeps the result, unless a file has changed meanwhile or could not be analysed."""
        if result.is_interrupted or result.failed or {f.name for f in result.files} != look.data.keys():
            return
        if any(not isinstance(f.outcome, Outcome) or f.outcome.old != look.data[f.name] for f in result.files):
            return
        if any(isinstance(f.outcome, Outcome) and asks_for_caller(f.outcome) for f in result.files):
            return  # told with the scripts that lie around, whatever they are called
        entry = {
            "files": look.digests(),
            "around": _states(set(around) - set(look.paths.values())),
            "result": [_encoded(file) for file in result.files],
        }
        body = json.dumps(entry).encode()
        with suppress(OSError):
            self._write(_digest(body).encode() + b"\n" + body)

    def _write(self, data: bytes) -> None:
        folder = self._file.parent
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix=".writing-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            os.replace(name, self._file)
        except BaseException:
            os.unlink(name)
            raise
        entries = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in entries[_MOST_ENTRIES:]:
            with suppress(FileNotFoundError):
                old.unlink()


def _script_of(notebook: bytes) -> bytes:
    """Raises Failure."""
    from migrator.notebooks.file import script_of  # which brings the parser

    return script_of(notebook)


def folder_of(given: str | None) -> Path:
    """Where the entries are: as the user says, or in the user's folder for caches."""
    if given:
        return Path(given)
    caches = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(caches) if os.path.isabs(caches) else Path(os.path.expanduser("~")) / ".cache") / "tf-lockstep"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _tool() -> list[str]:
    """The code of this tool and of its parser, by the names, sizes and times of the files."""
    from importlib.util import find_spec

    here = Path(__file__).resolve().parents[1]
    folders = [here, here.parent / "rules", here.parent / "lockstep"]
    libcst = find_spec("libcst")
    found = [str(libcst.origin if libcst is not None else "")]
    if libcst is not None and libcst.origin:
        found.append(str(os.stat(libcst.origin).st_mtime_ns))
    while folders:
        with suppress(FileNotFoundError), os.scandir(folders.pop()) as entries:
            for entry in sorted(entries, key=lambda e: e.name):
                if entry.is_dir():
                    folders.append(Path(entry.path))
                elif entry.name.endswith((".py", ".json")):
                    found.append(f"{entry.path} {entry.stat().st_size} {entry.stat().st_mtime_ns}")
    return found


# -- what lies around the files --------------------------------------------------------------------------------------


def _states(paths: Iterable[Path]) -> dict[str, dict[str, str]]:
    """What each of the paths holds, by folder and name; empty where there is no file."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for path in paths:
        try:
            state = _digest(path.read_bytes())
        except OSError:
            state = ""
        found[str(path.parent)][path.name] = state
    return found


def _are_as_they_were(around: Mapping[str, Mapping[str, str]]) -> bool:
    for folder, states in around.items():
        try:
            there = set(os.listdir(folder))
        except OSError:
            there = set()
        for name, state in states.items():
            # Nearly all are absent, as they were.
            if (name in there or state) and _states([Path(folder, name)])[folder][name] != state:
                return False
    return True


# -- results as JSON -------------------------------------------------------------------------------------------------


def _encoded(value: Any) -> Any:
    if is_dataclass(value):
        kept = [f.name for f in fields(value) if not (isinstance(value, Outcome) and f.name in _FROM_CONTENTS)]
        encoded = {name: _encoded(getattr(value, name)) for name in kept}
        return {**encoded, "has_text": bool(value.old_text)} if isinstance(value, Outcome) else encoded
    if isinstance(value, (tuple, frozenset)):
        return [_encoded(one) for one in value]
    if value is None or isinstance(value, (str, int, bool)):
        return value
    raise TypeError(f"{type(value).__name__} is not kept")


def _file(encoded: Mapping[str, Any], contents: Mapping[str, bytes]) -> FileResult:
    data = contents[encoded["name"]]
    given = encoded["outcome"]
    text = Source.decode(data).text if given["has_text"] else ""
    outcome = Outcome(data, data, old_text=text, text=text)
    kept = {f.name: given[f.name] for f in fields(Outcome) if f.name not in _FROM_CONTENTS}
    outcome = replace(outcome, **_fields(Outcome, kept))
    if outcome.changes:
        new, position = [], 0
        for change in outcome.changes:
            new += [text[position : change.start], change.new]
            position = change.end
        changed = "".join([*new, text[position:]])
        outcome = replace(outcome, text=changed, data=Source.decode(data).encode(changed))
    rest = {f.name: encoded[f.name] for f in fields(FileResult) if f.name != "outcome"}
    return FileResult(outcome=outcome, **_fields(FileResult, rest))


def _fields(kind: type, encoded: Mapping[str, Any]) -> dict[str, Any]:
    hints = _hints(kind)
    return {name: _decoded(hints[name], value) for name, value in encoded.items()}


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return _FILE_HINTS if kind is FileResult else get_type_hints(kind)


# Its `outcome` has a union for a type, which Python 3.9 cannot evaluate.
_FILE_HINTS: dict[str, Any] = {
    f.name: {"imports": tuple[str, ...], "accepted": frozenset[str]}.get(f.name, str) for f in fields(FileResult)
}


def _decoded(hint: Any, value: Any) -> Any:
    if is_dataclass(hint):
        assert isinstance(hint, type)
        return hint(**_fields(hint, value))
    origin, inner = get_origin(hint), get_args(hint)
    if origin is tuple:
        kinds = inner[:1] * len(value) if inner[1:] == (Ellipsis,) else inner
        return tuple(_decoded(kind, one) for kind, one in zip(kinds, value))
    return frozenset(value) if origin is frozenset else value
