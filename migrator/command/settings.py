"""The settings of a run: defaults, then `[tool.migrate]` of the project's pyproject.toml, then the command line."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Callable

from migrator.command.per_file import PerFile
from migrator.command.terminal import BACKENDS
from migrator.files.project import EXCLUDED, Filter
from migrator.records import dataclass

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FILE = "pyproject.toml"


class BadSetting(Exception):
    """A setting that is not there or has no such value; the message says where it stands."""


@dataclass(frozen=True)
class Settings:
    """What a project wants of each run. Patterns are those of .gitignore, below the folder `root`."""

    root: Path
    # The file that the settings come from.
    source: Path | None = None
    target: str = "lockstep"
    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = EXCLUDED
    extend_exclude: tuple[str, ...] = ()
    respect_gitignore: bool = True
    # None: as ruff or black is told, or as each file shows.
    line_length: int | None = None
    # Refuse what would be taken on trust.
    strict: bool = False
    # Let every worker train on all of the data where these cannot be split.
    whole: bool = True
    # Rules to ignore in the files of a pattern.
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # The accepted findings; empty where there are none.
    baseline: str = ""
    # What connects the workers that `migrate verify` starts, and that the next step names.
    backend: str = BACKENDS[0]
    # The environment whose packages are read: an interpreter, a folder, or "none"; empty: that of this tool.
    python: str = ""

    @property
    def baseline_file(self) -> Path | None:
        return self.root / self.baseline if self.baseline else None

    def filter(self) -> Filter:
        """What of the folders is left out."""
        return Filter(self.root, (*self.exclude, *self.extend_exclude), self.respect_gitignore)

    def per_file(self) -> PerFile:
        return PerFile(self.root, self.per_file_ignores)

    def lines(self) -> Iterator[str]:
        """The settings as they stand in [tool.migrate], for people."""
        yield f"# from {self.source}" if self.source is not None else "# no settings were found: these are the defaults"
        for name in _KEYS:
            if getattr(self, _attribute(name)) is None:
                yield f"# {name}: as ruff or black is told, or as each file shows"
                continue
            yield f"{name} = {_toml(getattr(self, _attribute(name)))}"


@dataclass(frozen=True)
class _Key:
    """How a setting is read: `what` names the values that it takes."""

    what: str
    read: Callable[[Any], Any]


def _strings(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError
    return tuple(value)


def _lists(value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, Mapping):
        raise ValueError
    return {key: _strings(several) for key, several in value.items()}


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _width(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 20 <= value <= 320:
        raise ValueError
    return value


def _backend(value: Any) -> str:
    if value not in BACKENDS:
        raise ValueError
    return str(value)


_KEYS = {
    "target": _Key("a string", _string),
    "select": _Key("a list of rules", _strings),
    "extend-select": _Key("a list of rules", _strings),
    "ignore": _Key("a list of rules", _strings),
    "per-file-ignores": _Key("a table of patterns with lists of rules", _lists),
    "strict": _Key("true or false", _truth),
    "whole": _Key("true or false", _truth),
    "exclude": _Key("a list of patterns", _strings),
    "extend-exclude": _Key("a list of patterns", _strings),
    "respect-gitignore": _Key("true or false", _truth),
    "baseline": _Key("the name of a file", _string),
    "line-length": _Key("a number from 20 to 320", _width),
    "backend": _Key(" or ".join(BACKENDS), _backend),
    "python": _Key("the path of an interpreter, or of an environment's folder", _string),
}


def _attribute(key: str) -> str:
    return key.replace("-", "_")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return str(value)


def settings_for(paths: Sequence[Path], given: Sequence[str] = (), *, isolated: bool = False) -> Settings:
    """The settings for these files and folders.

    `given`: files that take the place of the project's own, and single settings `key=value` in TOML, which count more.
    Without a file, the next pyproject.toml with [tool.migrate] counts, upward from the folder that holds all paths.
    `isolated`: no file counts. Raises BadSetting.
    """
    files = [Path(one) for one in given if _is_file(one)]
    if len(files) > 1:
        raise BadSetting("one file of settings at a time")
    if files and isolated:
        raise BadSetting("--isolated and a file of settings exclude each other")
    if not files:
        found = Settings(Path.cwd()) if isolated else _discovered(paths)
    else:
        found = _with_file(files[0], _table(files[0]))
    for one in given:
        if not _is_file(one):
            found = _with(found, _inline(one), f"'{one}'")
    return found


def _is_file(given: str) -> bool:
    return given.endswith(".toml") or os.path.isfile(given)


def _discovered(paths: Sequence[Path]) -> Settings:
    folder = _common_folder(paths)
    for here in (folder, *folder.parents):
        file = here / _FILE
        if os.path.isfile(file):
            table = _load(file).get("tool", {}).get("migrate")
            if table is not None:
                return _with_file(file, table)
    return Settings(folder if folder.is_dir() else Path.cwd())


def _common_folder(paths: Sequence[Path]) -> Path:
    """The folder that holds all; for standard input, the current one."""
    absolute = [os.path.abspath(path) for path in paths if str(path) != "-"]
    if not absolute:
        return Path.cwd()
    try:
        common = os.path.commonpath(absolute)
    except ValueError:  # on several drives
        return Path.cwd()
    return Path(common if os.path.isdir(common) else os.path.dirname(common))


def _load(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadSetting(f"{file}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(f"{file}: this is not TOML: {error}") from None


def _table(file: Path) -> Any:
    """The settings of a file that was named: [tool.migrate], or the whole file where it is none of Python's."""
    loaded = _load(file)
    if file.name == _FILE:
        return loaded.get("tool", {}).get("migrate", {})
    return loaded.get("tool", {}).get("migrate", loaded)


def _with_file(file: Path, table: Any) -> Settings:
    found = _with(Settings(Path(os.path.abspath(file)).parent, file), table, f"{file}: [tool.migrate]")
    beside = os.path.join(found.root, found.python)
    return replace(found, python=beside) if found.python and os.path.exists(beside) else found


def _inline(given: str) -> dict[str, Any]:
    key, separator, value = given.partition("=")
    if not separator:
        raise BadSetting(f"'{given}': this is neither a file nor key=value")
    try:
        return {key.strip(): tomllib.loads(f"value = {value}")["value"]}
    except tomllib.TOMLDecodeError:
        return {key.strip(): value.strip()}  # a plain word needs no quotes


def _with(settings: Settings, table: Any, place: str) -> Settings:
    if not isinstance(table, Mapping):
        raise BadSetting(f"{place} is no table")
    found = {}
    for key, value in table.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"the settings are {', '.join(_KEYS)}"
            raise BadSetting(f"{place}: there is no setting '{key}': {hint}")
        try:
            found[_attribute(key)] = _KEYS[key].read(value)
        except ValueError:
            raise BadSetting(f"{place}: '{key}' takes {_KEYS[key].what}") from None
    return replace(settings, **found)
