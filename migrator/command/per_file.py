"""Rules that the settings have ignored in some files: `per-file-ignores`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from pathspec import GitIgnoreSpec

from migrator.records import dataclass


@dataclass(frozen=True)
class PerFile:
    """The rules to ignore by patterns of .gitignore, below the folder `root`."""

    root: Path = Path()
    rules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def ignored_in(self, path: Path) -> tuple[str, ...]:
        """The rules that are ignored in this file, each once."""
        if not self.rules:
            return ()
        name = os.path.relpath(os.path.realpath(path), os.path.realpath(self.root)).replace(os.sep, "/")
        meant = (rules for pattern, rules in self.rules.items() if GitIgnoreSpec.from_lines([pattern]).match_file(name))
        return tuple(dict.fromkeys(rule for rules in meant for rule in rules))


NOWHERE = PerFile()
