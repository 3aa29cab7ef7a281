"""Where the packages are installed whose code is read beside that of the scripts."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

NO_PACKAGES = "none"
_ASK = "import sysconfig; print(sysconfig.get_path('purelib')); print(sysconfig.get_path('platlib'))"
_LONGEST_ANSWER = 30  # seconds
_WITHIN = ("lib/python3*/site-packages", "lib/python3*/dist-packages", "Lib/site-packages")


class NoEnvironment(Exception):
    """What the user names is no interpreter and no folder of an environment."""


def site_packages(python: str) -> tuple[Path, ...]:
    """The folders of an environment: of its interpreter, or of the folder that it lies in; where none is named, of the
    interpreter that runs this tool. Raises NoEnvironment.
    """
    if python == NO_PACKAGES:
        return ()
    if not python:
        return _existing(sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    if os.path.isdir(python):
        within = [str(found) for pattern in _WITHIN for found in sorted(Path(python).glob(pattern))]
        found = _existing(*within) or (_existing(python) if Path(python).name == "site-packages" else ())
    else:
        found = _existing(*_told(python))
    if not found:
        raise NoEnvironment(f"'{python}' has no site-packages: name an interpreter, or the folder of an environment")
    return found


def _told(interpreter: str) -> list[str]:
    """What the interpreter says of itself; none of the project's code is run."""
    try:
        done = subprocess.run(
            [interpreter, "-I", "-c", _ASK], capture_output=True, text=True, timeout=_LONGEST_ANSWER, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.splitlines()


def _existing(*folders: str | None) -> tuple[Path, ...]:
    """Those of the folders that are there, each once."""
    return tuple(Path(folder) for folder in dict.fromkeys(folders) if folder and os.path.isdir(folder))
