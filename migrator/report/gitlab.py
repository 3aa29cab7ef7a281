"""The result of a run as GitLab's code quality report, which it shows in merge requests.

https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from migrator.findings.results import RunResult
from migrator.report import View
from migrator.report.sites import failures, left, relative


def gitlab(result: RunResult, view: View) -> Iterator[str]:
    issues: list[dict[str, Any]] = []
    for site in left(result, with_edits=view.with_edits):
        found = site.finding
        issues.append(
            {
                "description": _sentence(site.message, found.advice),
                "check_name": found.rule,
                "fingerprint": site.fingerprint,
                "severity": "major" if found.is_refusal else "minor",
                "location": {
                    "path": relative(site.file.name),
                    "positions": {
                        "begin": {"line": found.line, "column": found.column},
                        "end": {"line": found.end_line, "column": found.end_column},
                    },
                },
            }
        )
    for file, failure in failures(result):
        path = relative(file.name)
        issues.append(
            {
                "description": failure.message,
                "check_name": "error",
                "fingerprint": hashlib.sha256(f"{path}\0error".encode("utf-8", "surrogateescape")).hexdigest()[:32],
                "severity": "critical",
                "location": {"path": path, "lines": {"begin": failure.line or 1}},
            }
        )
    yield json.dumps(issues, indent=2)


def _sentence(message: str, advice: str) -> str:
    return f"{message}: {advice}" if advice else message
