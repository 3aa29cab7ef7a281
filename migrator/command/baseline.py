"""The findings that a project accepts for now: they do not count as left, new ones do.

A finding is known by its file, its rule and the function or class that holds it, never by its line; of several alike
in one scope, so many are accepted as were there.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from migrator.files.writing import Write, write_all
from migrator.findings.results import Failure, FileResult, Finding, Gone, Outcome, RunResult
from migrator.records import dataclass

NAME = "migrate-baseline.json"
_VERSION = 1

# Path as seen from the baseline's folder, rule, scope.
Key = tuple[str, str, str]


class BadBaseline(Exception):
    """A file that is no baseline; the message says why."""


@dataclass(frozen=True)
class Baseline:
    """How many findings of each key are accepted. Paths count from the folder of `file`."""

    file: Path
    counts: Counter[Key]

    @classmethod
    def read(cls, file: Path) -> Baseline:
        """Raises BadBaseline."""
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
            if document["format_version"] != _VERSION:
                raise BadBaseline(f"{file}: this baseline is of another version of this tool: write it anew")
            return cls(file, Counter({_key(one): _count(one) for one in document["findings"]}))
        except OSError as error:
            raise BadBaseline(f"{file}: cannot be read: {error.strerror} (--write-baseline makes it)") from None
        except (ValueError, KeyError, TypeError):
            raise BadBaseline(f"{file}: this is no baseline of this tool: write it anew") from None

    @classmethod
    def of(cls, file: Path, result: RunResult) -> Baseline:
        """All that is left after a run."""
        found = cls(file, Counter())
        for one in result.files:
            found.counts.update(found._key(one, finding) for finding in _left(one))
        return found

    def heeded(self, result: RunResult) -> RunResult:
        """The result with what is accepted, and what is gone of it. Files that the run did not read are not gone."""
        files = [replace(file, accepted=frozenset(self._accepted(file))) for file in result.files]
        return replace(result, files=files, gone=tuple(sorted(self._gone(result.files))))

    def without(self, gone: Iterable[Gone]) -> Baseline:
        left = Counter(self.counts)
        left.subtract({(one.path, one.rule, one.scope): one.count for one in gone})
        return Baseline(self.file, +left)

    def write(self) -> None:
        """Raises NotWritten."""
        write_all([Write(self.file, self._text().encode("utf-8", "surrogateescape"), like=self.file)])

    def _text(self) -> str:
        findings = [
            {"path": path, "rule": rule, "scope": scope, "count": count}
            for (path, rule, scope), count in sorted(self.counts.items())
        ]
        return json.dumps({"format_version": _VERSION, "findings": findings}, indent=2) + "\n"

    def _accepted(self, file: FileResult) -> Iterator[Finding]:
        seen: Counter[Key] = Counter()
        for finding in _left(file):
            key = self._key(file, finding)
            seen[key] += 1
            if seen[key] <= self.counts[key]:
                yield finding

    def _gone(self, files: Iterable[FileResult]) -> Iterator[Gone]:
        found: Counter[Key] = Counter(self._key(file, finding) for file in files for finding in _left(file))
        read = {self._path(file.name) for file in files if not isinstance(file.outcome, Failure)}
        for key, count in (self.counts - found).items():
            path, rule, scope = key
            if path in read or not os.path.exists(self.file.parent / path):
                yield Gone(path, rule, scope, count)

    def _key(self, file: FileResult, finding: Finding) -> Key:
        return self._path(file.name), finding.rule, finding.scope

    def _path(self, name: str) -> str:
        if name == "<stdin>":
            return name
        folder = os.path.abspath(self.file.parent)
        return os.path.relpath(os.path.abspath(name), folder).replace(os.sep, "/")


def _left(file: FileResult) -> list[Finding]:
    """The refusals and the edits that were not made, in their places before the run."""
    if not isinstance(file.outcome, Outcome):
        return []
    return [finding for finding in file.outcome.findings if finding.is_refusal or not file.written]


def _key(one: Any) -> Key:
    path, rule, scope = one["path"], one["rule"], one["scope"]
    if not all(isinstance(part, str) for part in (path, rule, scope)):
        raise ValueError
    return path, rule, scope


def _count(one: Any) -> int:
    count = one["count"]
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError
    return count
