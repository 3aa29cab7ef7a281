"""The result of a run file by file, the sites of each below its name."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import click

from migrator.findings.results import RunResult
from migrator.report import View
from migrator.report.sites import left


def grouped(result: RunResult, view: View) -> Iterator[str]:
    for name, several in groupby(left(result, with_edits=view.with_edits), key=lambda site: site.file.name):
        found = [site.finding for site in several]
        places = [f"{one.line}:{one.column}" for one in found]
        width = max(map(len, places))
        yield click.style(f"{name}:", bold=True)
        for place, one in zip(places, found):
            rule = click.style(one.rule, fg="yellow" if one.is_refusal else "cyan")
            yield f"  {place:<{width}}  {rule}: {'refused: ' if one.is_refusal else ''}{one.message}"
            if one.advice:
                yield f"  {' ' * width}  {one.advice}"
        yield ""
