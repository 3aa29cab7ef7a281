"""Whether what is to be started is there, before anything is."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from importlib.machinery import PathFinder
from pathlib import Path


def refuse_missing(script: str, is_module: bool) -> None:
    """Raises ValueError when there is no such script, or no such module."""
    if is_module:
        if not _is_module(script):
            raise ValueError(f"there is no module {script}; modules are looked for in {os.getcwd()} too")
    elif not _is_program(Path(script)):
        if os.path.basename(script).startswith("python"):
            raise ValueError(f"there is no script {script}: name the script itself, without a {script} before it")
        raise ValueError(f"there is no script {script} in {Path(script).absolute().parent}")


def _is_program(path: Path) -> bool:
    return (path / "__main__.py").is_file() if path.is_dir() else path.exists()


def _is_module(name: str) -> bool:
    """Whether `python -m` would find it. Nothing is imported: a package might take the launcher for a worker."""
    first, *rest = name.split(".")
    found = PathFinder.find_spec(first, [os.getcwd()])
    if found is None:
        with contextlib.suppress(ImportError, ValueError):
            found = importlib.util.find_spec(first)
    for part in rest:
        if found is None or found.submodule_search_locations is None:
            return False
        found = PathFinder.find_spec(f"{found.name}.{part}", list(found.submodule_search_locations))
    return found is not None
