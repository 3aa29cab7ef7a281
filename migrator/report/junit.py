"""The result of a run as JUnit's XML, which Jenkins and most CI servers show as tests.

A suite is a file, a failure is a site that is left; a file with nothing left is a test that passes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from xml.etree import ElementTree

from migrator.findings.results import Failure, FileResult, RunResult
from migrator.report import View
from migrator.report.sites import Site, left, relative

# What XML 1.0 cannot hold, not even escaped.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(result: RunResult, view: View) -> Iterator[str]:
    top = ElementTree.Element("testsuites", name="migrate")
    found = {
        name: list(several)
        for name, several in groupby(left(result, with_edits=view.with_edits), key=lambda site: site.file.name)
    }
    for file in result.files:
        _suite(top, file, found.get(file.name, []))
    for count in ("tests", "failures", "errors"):
        top.set(count, str(sum(int(suite.get(count, "0")) for suite in top)))
    ElementTree.indent(top)
    yield '<?xml version="1.0" encoding="utf-8"?>'
    yield ElementTree.tostring(top, encoding="unicode")


def _suite(top: ElementTree.Element, file: FileResult, found: list[Site]) -> None:
    failure = file.outcome if isinstance(file.outcome, Failure) else None
    path = _text(relative(file.name))
    counts = {"tests": str(max(len(found), 1)), "failures": str(len(found)), "errors": str(int(failure is not None))}
    suite = ElementTree.SubElement(top, "testsuite", {"name": path, **counts})
    if failure is not None:
        case = ElementTree.SubElement(suite, "testcase", classname=path, name="error")
        ElementTree.SubElement(case, "error", message=_text(failure.message), type="error").text = _text(str(failure))
    elif not found:
        ElementTree.SubElement(suite, "testcase", classname=path, name="ported")
    for site in found:
        one = site.finding
        place = f"{relative(site.file.name)}:{one.line}:{one.column}"
        case = ElementTree.SubElement(suite, "testcase", classname=path, name=f"{one.rule} ({one.line}:{one.column})")
        told = ElementTree.SubElement(case, "failure", message=_text(site.message), type=one.rule)
        told.text = _text("\n".join(line for line in (place, site.message, one.advice) if line))


def _text(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
