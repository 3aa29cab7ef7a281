"""The table mutation x script: what `--check` and `verify` find, and where they point.

python -m tests.mutations.run [--mutation M4] [--script NAME] [--most 5] [--output rows.jsonl]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from migrator.verify.runs import Runner, runner
from tests.mutations.judging import SECONDS, Original, changed_lines, checked, scripts, verified
from tests.mutations.mutations import Mutation, mutations


@dataclass(frozen=True)
class Row:
    """One mutation of one script; "" is the script as it is migrated."""

    mutation: str
    script: str
    by_check: bool
    by_verify: bool
    check_points: str  # "rule", "line" or ""
    verify_points: str
    check_says: str
    verify_says: str
    seconds: float


def judged(original: Original, mutation: Mutation | None, folder: Path, runs: Runner) -> Row | None:
    """None where the mutation cannot be made in the script."""
    right = original.migrated
    port = right if mutation is None else mutation.change(right)
    if port is None:
        return None
    start = time.monotonic()
    rules, lines = (mutation.rules, changed_lines(right, port)) if mutation else (frozenset[str](), [])
    check = checked(port)
    verify = verified(original, port, folder, runs)
    return Row(
        mutation.name if mutation else "",
        original.name,
        check.is_found,
        verify.is_found,
        check.points(rules, lines),
        verify.points(rules, lines),
        check.text,
        verify.text,
        round(time.monotonic() - start, 1),
    )


def spread(wanted: Sequence[Mutation | None], names: Sequence[str], most: int) -> dict[str, list[Mutation | None]]:
    """The mutations to make in each script: each in at most so many, those with the fewest first, so that as many
    scripts as can be have some. All scripts as they are migrated."""
    migrated = {name: Original(name, scripts()[name].read_text()).migrated for name in names}
    chosen: dict[str, list[Mutation | None]] = {name: [] for name in names}
    can_be = {one: [name for name in names if one is None or one.change(migrated[name]) is not None] for one in wanted}
    for one in sorted(wanted, key=lambda one: len(can_be[one])):
        for name in sorted(can_be[one], key=lambda name: len(chosen[name]))[: most if one else None]:
            chosen[name].append(one)
    return chosen


def rows(wanted: dict[str, list[Mutation | None]]) -> Iterator[Row]:
    """Script by script: the original's own runs are made once."""
    with tempfile.TemporaryDirectory(prefix="mutations-") as name:
        folder = Path(name)
        with runner(folder, SECONDS, lambda _: None, is_warm=True) as runs:
            for name, several in wanted.items():
                original = Original(name, scripts()[name].read_text())
                for mutation in several:
                    place = folder / name / (mutation.name if mutation else "migrated")
                    found = judged(original, mutation, place, runs)
                    if found is not None:
                        yield found


def table(found: Sequence[Row]) -> Iterator[str]:
    """The table in Markdown: a line for each mutation of each script, those of one mutation together."""
    yield "| mutation | script | `--check` | points at it by | `verify` | points at it by |"
    yield "|---|---|---|---|---|---|"
    for mutation in mutations():
        for row in (row for row in found if row.mutation == mutation.name):
            cells = [_cell(row.by_check, row.check_points), _cell(row.by_verify, row.verify_points)]
            yield f"| {mutation.name} {mutation.title} | {row.script} | {' | '.join(cells)} |"


def _cell(is_found: bool, points: str) -> str:
    return f"found | {points or 'neither'}" if is_found else "- | "


def totals(found: Sequence[Row]) -> Iterator[str]:
    """How many of the mutations are found, and pointed at, in every script in which they were tried."""
    by_mutation = {one.name: [row for row in found if row.mutation == one.name] for one in mutations()}
    tried = {name: several for name, several in by_mutation.items() if several}
    questions: dict[str, Callable[[Row], bool]] = {
        "found by `--check` or `verify`": lambda row: row.by_check or row.by_verify,
        "found by `--check`": lambda row: row.by_check,
        "found by `verify`": lambda row: row.by_verify,
        "`verify` names the right rule or line": lambda row: bool(row.verify_points),
        "`--check` or `verify` names the right rule or line": lambda row: bool(row.check_points or row.verify_points),
    }
    pairs = sum(map(len, tried.values()))
    yield f"| of {len(tried)} mutations, tried {pairs} times | in every script | in one at least | times |"
    yield "|---|---|---|---|"
    for title, is_so in questions.items():
        every = sum(all(map(is_so, several)) for several in tried.values())
        some = sum(any(map(is_so, several)) for several in tried.values())
        yield f"| {title} | {every} | {some} | {sum(sum(map(is_so, several)) for several in tried.values())} |"
    right = [row for row in found if not row.mutation]
    alarms = [row.script for row in right if row.by_check or not row.verify_says.startswith("SAME")]
    yield ""
    yield f"Scripts as they are migrated: {len(right)}; false alarms: {', '.join(alarms) or 'none'}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutation", action="append", help="only these; M0 is the script as it is migrated")
    parser.add_argument("--script", action="append", help="only these")
    parser.add_argument("--most", type=int, default=1000, help="make each mutation in at most so many scripts")
    parser.add_argument("--output", type=Path, help="add each row to this file, as a line of JSON")
    parser.add_argument("--summarise", type=Path, help="run nothing: print the table of such a file")
    options = parser.parse_args()
    if options.summarise:
        found = [Row(**json.loads(line)) for line in options.summarise.read_text().splitlines()]
        print("\n".join([*table(found), "", *totals(found)]))
        return
    wanted: list[Mutation | None] = [None, *mutations()]
    if options.mutation:
        wanted = [one for one in wanted if (one.name if one else "M0") in options.mutation]
    found = []
    for row in rows(spread(wanted, options.script or list(scripts()), options.most)):
        found.append(row)
        print(_told(row), flush=True)
        if options.output:
            with options.output.open("a") as file:
                file.write(json.dumps(asdict(row)) + "\n")
    print()
    print("\n".join([*table(found), "", *totals(found)]))


def _told(row: Row) -> str:
    check = f"check: {row.check_says or '-'} ({row.check_points or 'elsewhere'})" if row.by_check else "check: -"
    points = f" ({row.verify_points or 'elsewhere'})" if row.by_verify else ""
    return (
        f"{row.mutation or 'M0'} {row.script} {row.seconds:.0f} s\n    {check}\n    verify: {row.verify_says}{points}"
    )


if __name__ == "__main__":
    main()
