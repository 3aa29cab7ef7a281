"""Judge the cases: `python -m tests.soundness.run`. Ends with 1 where one is wrong or proves nothing.

The numbers are told by group, and for what is not the same also by what the loss really is: see truth.py.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from . import runs
from .case import Case
from .groups import CASES
from .judge import DOCUMENTED, INVALID, OPEN, REFUSED, SAME, WRONG, Judgement, judge

_COLUMNS = (SAME, REFUSED, DOCUMENTED, OPEN, WRONG, INVALID)


def judge_all(cases: Sequence[Case], jobs: int) -> Iterator[Judgement]:
    """As many at a time as there are jobs, each in a fork of its own; in the order in which they end."""
    runs.preload()
    with tempfile.TemporaryDirectory() as folder:
        waiting, running = list(enumerate(cases)), {}
        while waiting or running:
            while waiting and len(running) < jobs:
                number, case = waiting.pop(0)
                fork = os.fork()
                if fork == 0:
                    _become_judge(case, Path(folder, str(number)))
                running[fork] = (case, Path(folder, str(number)))
            ended, _ = os.wait()
            if ended in running:
                case, path = running.pop(ended)
                yield pickle.loads(path.read_bytes()) if path.exists() else Judgement(case, INVALID, "its judge died")


def _become_judge(case: Case, path: Path) -> None:
    try:
        path.write_bytes(pickle.dumps(judge(case)))
    except BaseException as error:
        path.write_bytes(pickle.dumps(Judgement(case, INVALID, f"{type(error).__name__}: {error}")))
    finally:
        os._exit(0)


def table(judgements: Sequence[Judgement]) -> str:
    """The numbers of verdicts, by group and, where it was measured, by what the loss is."""
    counts: dict[str, Counter[str]] = {}
    for judgement in judgements:
        for row in (judgement.case.group, f"  {judgement.truth}" if judgement.truth else "", "all"):
            counts.setdefault(row, Counter())[judgement.verdict] += 1
    counts.pop("", None)
    rows = sorted(counts, key=lambda row: (row == "all", row.startswith(" "), row))
    lines = [f"{'':24}" + "".join(f"{column:>12}" for column in _COLUMNS)]
    lines += [f"{row:24}" + "".join(f"{counts[row][column]:>12}" for column in _COLUMNS) for row in rows]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--group", help="only the cases of this group")
    parser.add_argument("--list", action="store_true", help="name the cases, and judge none")
    parser.add_argument("--name", default="", help="only the cases with this text in group/name")
    parser.add_argument("--names-from", type=Path, metavar="FILE", help="only the cases that the file names by line")
    parser.add_argument("--verbose", action="store_true", help="tell of every case, and show what was migrated wrongly")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write verdicts and reasons there")
    options = parser.parse_args()

    named = set(options.names_from.read_text().split()) if options.names_from else None
    cases = [
        case
        for case in CASES
        if options.group in (None, case.group) and options.name in case.title and (named is None or case.title in named)
    ]
    if options.list:
        print("\n".join(case.title for case in cases))
        return 0
    judgements = []
    for judgement in judge_all(cases, options.jobs):
        judgements.append(judgement)
        if options.verbose or judgement.verdict in (WRONG, INVALID) or judgement.is_needless:
            kind = f" [{judgement.truth}]" if judgement.truth else ""
            print(f"{judgement.verdict:10} {judgement.case.title}{kind}  {judgement.why}", flush=True)
        if options.verbose and judgement.verdict == WRONG:
            print(judgement.migrated)
    print(table(judgements))
    if options.json:
        fields = [{"name": j.case.title, "verdict": j.verdict, "truth": j.truth, "why": j.why} for j in judgements]
        options.json.write_text(json.dumps(fields, indent=1))
    return int(any(j.verdict in (WRONG, INVALID) for j in judgements))


if __name__ == "__main__":
    sys.exit(main())
