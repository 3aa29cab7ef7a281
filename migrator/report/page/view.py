"""What the page shows, as plain values: the template only lays them out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from markupsafe import Markup

from migrator.findings.results import Change, FileResult, Outcome, Remarks, RunResult
from migrator.records import dataclass
from migrator.registry import all_rules
from migrator.report.page.lanes import LANES, lane_of
from migrator.report.page.paint import painted
from migrator.report.sites import Site, failures, relative, sites, spot
from migrator.report.tool import version
from migrator.text.lines import line_and_column, line_starts

_CONTEXT = 3
_LONGEST = 60


@dataclass(frozen=True)
class Row:
    """A line of a diff. `kind`: context, removed, added; a number is None on the side that lacks the line."""

    kind: str
    old: int | None
    new: int | None
    html: Markup


@dataclass
class Hunk:
    """Lines that changed together, for the sake of these rules."""

    id: str
    rules: list[str]
    rows: list[Row]
    scope: str = ""


@dataclass(frozen=True)
class Refusal:
    """A site that is left, with the source around it."""

    id: str
    rule: str
    place: str
    message: str
    advice: str
    is_accepted: bool
    rows: list[Row]


@dataclass(frozen=True)
class Remark:
    """What is taken on trust, or a comment that nothing needs; `rule` is empty where it is about a value."""

    rule: str
    state: str
    place: str
    message: str
    source: str


@dataclass(frozen=True)
class Card:
    """The sites of a rule on one line, in the picture of the program. `href` is the hunk or the refusal on the page."""

    href: str
    rule: str
    place: str
    source: str
    inserted: list[str]
    state: str


@dataclass
class FileView:
    id: str
    name: str
    state: str
    hunks: list[Hunk] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    sites: list[Site] = field(default_factory=list)
    lacking: list[tuple[str, str]] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)


@dataclass(frozen=True)
class ProgramView:
    """Files that import each other. `lanes`: the sites by the part of the training that they are about."""

    files: list[FileView]
    imports: list[tuple[str, str]]
    lanes: list[tuple[str, list[Card]]]


@dataclass(frozen=True)
class PageView:
    version: str
    is_dry: bool
    summary: list[tuple[str, int, str]]
    rules: list[tuple[str, int, int]]
    programs: list[ProgramView]
    files: list[FileView]
    errors: list[tuple[str, str]]
    manuals: list[tuple[str, str]]


def page_view(result: RunResult, *, is_dry: bool) -> PageView:
    by_file: dict[str, list[Site]] = {}
    for site in sites(result):
        by_file.setdefault(site.file.name, []).append(site)
    views: dict[str, FileView] = {}
    for file in result.files:
        found = by_file.get(file.name, [])
        if isinstance(file.outcome, Outcome) and (found or file.is_changed or file.remarks != Remarks()):
            views[file.name] = _file(f"f{len(views)}", file, file.outcome, found)
    counts = Counter(site.finding.rule for several in by_file.values() for site in several)
    refused = Counter(s.finding.rule for several in by_file.values() for s in several if s.finding.is_refusal)
    rules = all_rules()
    return PageView(
        version(),
        is_dry,
        _summary(result, is_dry=is_dry),
        [(rule, counts[rule], refused[rule]) for rule in sorted(counts, key=lambda rule: (-counts[rule], rule))],
        list(_programs(result, views)),
        list(views.values()),
        [(relative(file.name), str(failure)) for file, failure in failures(result)],
        [(rule, rules[rule].manual) for rule in sorted({*counts, *_remarked(views.values())}) if rule in rules],
    )


def _remarked(views: Iterable[FileView]) -> set[str]:
    return {remark.rule for view in views for remark in view.remarks}


def _summary(result: RunResult, *, is_dry: bool) -> list[tuple[str, int, str]]:
    told = [
        ("would be migrated" if is_dry else "migrated", len(result.changed), "edit"),
        ("with refusals", len(result.refused), "refused"),
        ("with nothing to do", len(result.unchanged), "plain"),
        ("passed over as unit tests", len(result.passed_over), "plain"),
        ("failed", len(result.failed), "failed"),
    ]
    return [one for one in told if one[1]]


# -- files -----------------------------------------------------------------------------------------------------------


def _file(id: str, file: FileResult, outcome: Outcome, found: list[Site]) -> FileView:
    state = "refused" if any(s.finding.is_refusal and not s.is_accepted for s in found) else "edit"
    old = painted(outcome.old_text)
    new = painted(outcome.text) if outcome.is_changed else old
    view = FileView(
        id,
        relative(file.name),
        state if found or file.is_changed else "plain",
        sites=found,
        lacking=list(outcome.lacking),
    )
    view.hunks = list(_hunks(id, outcome, old, new))
    now = new if file.is_in_place else old
    view.remarks = list(_remarks(file, (outcome.text if file.is_in_place else outcome.old_text).splitlines()))
    view.refusals = [_refusal(f"{id}r{n}", s, now) for n, s in enumerate(found) if s.finding.is_refusal]
    return view


def _remarks(file: FileResult, lines: Sequence[str]) -> Iterator[Remark]:
    for state, several in (("on trust", file.remarks.trusted), ("unused", file.remarks.unused)):
        for found in several:
            source = lines[found.line - 1].strip() if found.line <= len(lines) else ""
            message = f"{found.message}: {found.advice}" if found.advice else found.message
            told = "ignored" if found.ignored_by else state
            yield Remark(found.rule, told, spot(file, found), message, _short(source))


def _refusal(id: str, site: Site, lines: Sequence[Markup]) -> Refusal:
    found = site.finding
    first, last = max(found.line - _CONTEXT, 1), min(found.line + _CONTEXT, len(lines))
    rows = [
        Row("marked" if number == found.line else "context", number, number, lines[number - 1])
        for number in range(first, last + 1)
    ]
    return Refusal(id, found.rule, spot(site.file, found), found.message, found.advice, site.is_accepted, rows)


@dataclass
class _Block:
    """Old lines from `start` to before `end`, and the new ones in their place; all counted from 0."""

    start: int
    end: int
    new_start: int
    new_end: int
    changes: list[Change]


def _hunks(id: str, outcome: Outcome, old: Sequence[Markup], new: Sequence[Markup]) -> Iterator[Hunk]:
    blocks = list(_blocks(outcome))
    group: list[_Block] = []
    number = 0
    for block in blocks:
        if group and block.start - group[-1].end > 2 * _CONTEXT:
            yield _hunk(f"{id}h{number}", group, old, new)
            group, number = [], number + 1
        group.append(block)
    if group:
        yield _hunk(f"{id}h{number}", group, old, new)


def _blocks(outcome: Outcome) -> Iterator[_Block]:
    """The changes by the lines that they touch."""
    starts = line_starts(outcome.old_text)
    shift = 0
    open_block: _Block | None = None
    for change in outcome.changes:
        line, column = line_and_column(starts, change.start)
        last, last_column = line_and_column(starts, change.end)
        is_whole = column == 1 and last_column == 1 and (change.new.endswith("\n") or not change.new)
        start, end = line - 1, last - 1 if is_whole else last
        grown = len(line_starts(change.new)) - len(line_starts(outcome.old_text[change.start : change.end]))
        if open_block is not None and start < open_block.end:
            open_block.end = max(open_block.end, end)
            open_block.changes.append(change)
        else:
            if open_block is not None:
                yield open_block
            open_block = _Block(start, end, start + shift, 0, [change])
        shift += grown
        open_block.new_end = open_block.end + shift
    if open_block is not None:
        yield open_block


def _hunk(id: str, blocks: Sequence[_Block], old: Sequence[Markup], new: Sequence[Markup]) -> Hunk:
    rows: list[Row] = []
    first, last = blocks[0], blocks[-1]
    shift = first.new_start - first.start
    position = max(first.start - _CONTEXT, 0)
    for block in blocks:
        rows += [Row("context", n + 1, n + 1 + shift, old[n]) for n in range(position, block.start)]
        rows += [Row("removed", n + 1, None, old[n]) for n in range(block.start, min(block.end, len(old)))]
        rows += [Row("added", None, n + 1, new[n]) for n in range(block.new_start, min(block.new_end, len(new)))]
        position, shift = block.end, block.new_end - block.end
    end = min(last.end + _CONTEXT, len(old))
    rows += [Row("context", n + 1, n + 1 + shift, old[n]) for n in range(position, end)]
    found = [finding for block in blocks for change in block.changes for finding in change.findings]
    scopes = {finding.scope for finding in found}
    scope = scopes.pop() if len(scopes) == 1 else ""
    return Hunk(id, list(dict.fromkeys(f.rule for f in found)), _slim(rows), scope)


def _slim(rows: list[Row]) -> list[Row]:
    """Without lines that are removed and added as they were."""
    found: list[Row] = []
    i = 0
    while i < len(rows):
        j = i
        while j < len(rows) and rows[j].kind == "removed":
            j += 1
        k = j
        while k < len(rows) and rows[k].kind == "added":
            k += 1
        removed, added = rows[i:j], rows[j:k]
        before, after = [], []
        while removed and added and removed[0].html == added[0].html:
            before.append(Row("context", removed.pop(0).old, added[0].new, added.pop(0).html))
        while removed and added and removed[-1].html == added[-1].html:
            after.append(Row("context", removed.pop().old, added[-1].new, added.pop().html))
        found += [*before, *removed, *added, *reversed(after)]
        i = k
        if i < len(rows) and rows[i].kind == "context":
            found.append(rows[i])
            i += 1
    return found


# -- the picture of the programs -------------------------------------------------------------------------------------


def _programs(result: RunResult, views: dict[str, FileView]) -> Iterator[ProgramView]:
    """The programs that have anything to show, each with its files in the order of the run."""
    neighbours: dict[str, set[str]] = {file.name: set() for file in result.files}
    for file in result.files:
        for other in file.imports:
            neighbours[file.name].add(other)
            neighbours.setdefault(other, set()).add(file.name)
    seen: set[str] = set()
    for file in result.files:
        if file.name in seen:
            continue
        together, queue = {file.name}, [file.name]
        while queue:
            for other in neighbours[queue.pop()] - together:
                together.add(other)
                queue.append(other)
        seen |= together
        members = [views[f.name] for f in result.files if f.name in together and f.name in views]
        imports = [(relative(f.name), relative(o)) for f in result.files if f.name in together for o in f.imports]
        cards: dict[str, list[Card]] = {lane: [] for lane in LANES}
        for view in members:
            for card in _cards(view):
                cards[lane_of(card.rule)].append(card)
        if members:
            yield ProgramView(members, imports, [(lane, found) for lane, found in cards.items() if found])


def _cards(view: FileView) -> Iterator[Card]:
    refusals = iter(view.refusals)
    found: dict[tuple[str, int, str], Card] = {}
    for site in view.sites:
        one = site.finding
        if one.is_refusal:
            href, state = next(refusals).id, "accepted" if site.is_accepted else "refused"
        else:
            href, state = next((h.id for h in view.hunks if one.rule in h.rules and _has(h, site)), view.id), "edit"
        card = Card(href, one.rule, f"{view.name}:{spot(site.file, one).rpartition(':')[0]}", _source(site), [], state)
        card = found.setdefault((one.rule, one.line, state), card)
        inserted = _inserted(site)
        if inserted and inserted not in card.inserted:
            card.inserted.append(inserted)
    yield from found.values()


def _has(hunk: Hunk, site: Site) -> bool:
    lines = {row.old for row in hunk.rows if row.old is not None}
    return any(piece.start[0] in lines or piece.start[0] - 1 in lines for piece in site.pieces)


def _source(site: Site) -> str:
    outcome = site.file.outcome
    if not isinstance(outcome, Outcome):
        return ""
    before = next((b for b, now in site.file.found if now == site.finding), site.finding)
    lines = outcome.old_text.splitlines()
    return _short(lines[before.line - 1].strip()) if before.line <= len(lines) else ""


def _inserted(site: Site) -> str:
    """The edit in one line: what is put around something, with dots for what stands between."""
    return _short("…".join(" ".join(change.new.split()).lstrip(", ") for change in site.changes if change.new.strip()))


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
