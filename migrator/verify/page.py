"""A proof as one HTML page that needs nothing beside it: no script, no network, readable on paper."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

import numpy as np

from migrator.verify.chart import Line, line_chart
from migrator.verify.comparison import LOSS, ORDER, SAMPLES, Comparison, each_apart
from migrator.verify.pace import paces, seconds_per_step
from migrator.verify.programs import Change
from migrator.verify.proof import Compared, Proof
from migrator.verify.record import GRADIENTS, SLOTS, STATISTICS, WEIGHTS, Numbers, Record
from migrator.verify.report import remarks

_STYLES = ("one", "two", "three", "four", "five")
_DRAWN = (LOSS, GRADIENTS, WEIGHTS, SLOTS, STATISTICS)
_MOST_LAYERS = 40


def page(proof: Proof) -> str:
    """The whole page."""
    verdict = proof.verdict
    parts = [
        f'<header class="{_class(verdict.kind)}"><p class="script">{escape(proof.script)}</p>',
        f"<h1>{escape(verdict.kind)}</h1><p>{escape(verdict.reason)}</p>",
        f"<p>{escape(verdict.advice)}</p>" if verdict.advice else "",
        *_cause(proof),
        "</header>",
        *_section("Losses", _losses(proof)),
    ]
    for one in proof.compared:
        parts += _section(f"{one.title}: {one.verdict.kind}", _figures(one))
    parts += _section("Samples of each step", _samples(proof))
    parts += _section("Gradients by variable, first step", _gradients(proof))
    parts += _section("Time", _time(proof))
    parts += _section("Made equal for the comparison", _made_equal(proof))
    parts += _section("The migration", (text for change in proof.migration.changes for text in _diff(change)))
    title = escape(f"{proof.script}: {verdict.kind}")
    style = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{style}</style></head><body><main>{''.join(parts)}</main></body></html>\n"
    )


def _section(title: str, content: Iterator[str]) -> list[str]:
    found = "".join(content)
    return [f"<section><h2>{escape(title)}</h2>{found}</section>"] if found else []


def _class(kind: str) -> str:
    return kind.lower().replace(" ", "-")


def _cause(proof: Proof) -> Iterator[str]:
    verdict = proof.verdict
    if verdict.difference is not None and verdict.difference.line:
        cause = str(verdict.cause) if verdict.cause else "the cause is not clear"
        yield f"<p><code>{escape(verdict.difference.line)}</code> {escape(cause)}</p>"


def _losses(proof: Proof) -> Iterator[str]:
    lines = [Line("original, 1 process", _losses_of([proof.original]), "original")]
    several = [one for one in proof.compared if one.size > 1]
    lines += [Line(one.title, _losses_of(one.records), style) for one, style in zip(several, _STYLES)]
    yield line_chart("Loss of each step", lines)
    yield "<p>The mean over the workers of what each of them differentiates.</p>"


def _losses_of(records: Sequence[Record]) -> list[tuple[float, float]]:
    points = []
    for index, steps in enumerate(zip(*(record.steps for record in records)), 1):
        if all(step.losses for step in steps):
            points.append((float(index), float(np.mean([np.mean(step.losses) for step in steps]))))
    return points


def _figures(one: Compared) -> Iterator[str]:
    wide = "<th>in float64</th>" if one.wide is not None else ""
    yield "<table><thead><tr><th>compared</th><th>apart at most</th><th>at step</th><th>allowed there</th>"
    yield f"{wide}</tr></thead>"
    for what in ORDER:
        largest = one.comparison.largest(what)
        if largest is not None:
            step, size, allowed = largest
            cells = [what, f"{size:.1e}" if size else "equal", str(step) if size else "", f"{allowed:.0e}"]
            if one.wide is not None:
                other = one.wide.largest(what)
                cells.append(f"{other[1]:.1e}" if other else "")
            yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    yield "</table>"
    yield from (f"<p>{escape(told)}</p>" for told in remarks(one.comparison))
    yield _apart("Differences from the original, relative to the largest value of each tensor", one.comparison)
    if one.wide is not None:
        yield _apart("The same in float64", one.wide)


def _apart(title: str, comparison: Comparison) -> str:
    lines = []
    for what, style in zip(_DRAWN, _STYLES):
        points = [(float(step), size) for step, size, _ in comparison.figures.get(what, ())]
        if any(size > 0 for _, size in points):
            lines.append(Line(what, points, style))
    allowed = [(float(step), allowed) for step, _, allowed in comparison.figures.get(WEIGHTS, ())]
    if lines and allowed:
        lines.append(Line("explained by rounding, weights", allowed, "allowed"))
    return f"<h3>{escape(title)}</h3>{line_chart(title, lines, is_logarithmic=True)}" if lines else ""


def _samples(proof: Proof) -> Iterator[str]:
    several = [one for one in proof.compared if one.size > 1]
    if not any(len(step.rows) for step in proof.original.steps):
        yield "<p>No samples were seen: they come neither through a layer of Keras nor out of a dataset.</p>"
        return
    yield "<table><thead><tr><th>step</th><th>original</th>"
    for one in several:
        yield "".join(f"<th>rank {rank} of {one.size}</th>" for rank in range(one.size))
    yield "<th></th></tr></thead>"
    wrong = {d.step: d.detail for one in several for d in one.comparison.differences if d.what == SAMPLES}
    shown = [i for i, step in enumerate(proof.original.steps) if step.arrays or i + 1 in wrong][:60]
    for index in shown:
        yield f"<tr><td>{index + 1}</td><td>{len(proof.original.steps[index].rows)}</td>"
        for one in several:
            for record in one.records:
                yield f"<td>{len(record.steps[index].rows) if index < len(record.steps) else ''}</td>"
        yield f"<td>{escape(wrong.get(index + 1, 'the same'))}</td></tr>"
    yield "</table>"


def _gradients(proof: Proof) -> Iterator[str]:
    several = [one for one in proof.compared if one.size > 1 and one.records]
    for number, optimizer in enumerate(proof.original.optimizers):
        index = next((i for i, s in enumerate(proof.original.steps) if s.optimizer == number and s.arrays), None)
        if index is None or not several:
            continue
        expected = proof.original.steps[index].arrays.get(GRADIENTS, [])
        yield f"<h3>{escape(optimizer.name)}</h3>"
        yield "<table><thead><tr><th>variable</th><th>shape</th><th>largest gradient</th>"
        yield "".join(f"<th>apart, {escape(one.title)}</th>" for one in several) + "</tr></thead>"
        apart = [_worst_of_ranks(one, index, expected) for one in several]
        for place, name in enumerate(optimizer.variables[:_MOST_LAYERS]):
            gradient = expected[place] if place < len(expected) else None
            size = f"{np.abs(gradient).max():.2e}" if gradient is not None and gradient.size else "none"
            shape = " x ".join(map(str, optimizer.shapes[place])) or "1"
            cells = [name, shape, size, *(f"{a[place]:.1e}" if place < len(a) else "" for a in apart)]
            yield "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
        yield "</table>"


def _worst_of_ranks(one: Compared, index: int, expected: Sequence[Numbers | None]) -> list[float]:
    found = [
        list(each_apart(GRADIENTS, expected, record.steps[index].arrays.get(GRADIENTS, [])))
        for record in one.records
        if index < len(record.steps)
    ]
    return [max(of_tensor) for of_tensor in zip(*found)]


def _time(proof: Proof) -> Iterator[str]:
    alone = seconds_per_step([proof.original])
    yield "<table><thead><tr><th>run</th><th>seconds for one step</th><th>S = T1/Tp</th><th>computing</th>"
    yield "<th>exchanging and waiting</th></tr></thead>"
    yield f"<tr><td>original, 1 process</td><td>{alone:.3g}</td><td>1</td><td></td><td></td></tr>"
    for one in proof.compared:
        together = seconds_per_step(one.records)
        ratio = f"{alone / together:.2f}" if together else ""
        yield f"<tr><td>{escape(one.title)}</td><td>{together:.3g}</td><td>{ratio}</td><td></td><td></td></tr>"
        for pace in paces(one.records) if one.size > 1 else ():
            yield f"<tr><td>rank {pace.rank} of {one.size}</td><td>{pace.seconds:.3g}</td><td></td>"
            yield f"<td>{1 - pace.exchanging:.0%}</td><td>{pace.exchanging:.0%}</td></tr>"
    yield "</table><p>Steps are run eagerly, on one thread each, and with all that is recorded, which counts as "
    yield "computing: these are not the times of a training.</p>"


def _made_equal(proof: Proof) -> Iterator[str]:
    texts = list(dict.fromkeys(text for one in proof.compared for r in one.records for text in r.made_equal))
    if texts:
        yield f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>"


def _diff(change: Change) -> Iterator[str]:
    """The hunks of the file's diff, each under the rules that make it."""
    old, new = change.old.splitlines(), change.new.splitlines()
    yield f"<h3>{escape(change.file)}</h3>"
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(2):
        first, last = group[0][1], group[-1][2]
        rules = dict.fromkeys(f.rule for f in change.findings if first < f.line <= last)
        marks = "".join(f'<span class="rule">{escape(rule)}</span>' for rule in rules)
        yield f'<p class="hunk">line {first + 1} {marks}</p><pre class="diff">'
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield "".join(f"<span>  {escape(line)}</span>\n" for line in old[i1:i2])
                continue
            yield "".join(f"<del>- {escape(line)}</del>\n" for line in old[i1:i2])
            yield "".join(f"<ins>+ {escape(line)}</ins>\n" for line in new[j1:j2])
        yield "</pre>"
