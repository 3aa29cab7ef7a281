"""Feeds mutated scripts to `migrate` for as long as it is told, and keeps those of which something is wrong.

python tests/fuzz/run.py --seconds 600 --seed 1 --keep build/fuzz [FOLDER...]

The scripts are those of the fixtures, and the training code of the folders. The last line is one of the table in
benchmarks/results/fuzz.md.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import resource
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from judge import judged
from mutate import Mutator, corpus, seeds

_MOST_MEMORY = 4 << 30
# Scripts of each kind of problem.
_KEPT = 3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"))
    parser.add_argument("folders", type=Path, nargs="*", metavar="FOLDER")
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    arguments.keep.mkdir(parents=True, exist_ok=True)
    mutator = Mutator(arguments.seed, [*seeds(), *(text for folder in arguments.folders for text in corpus(folder))])
    problems: Counter[str] = Counter()
    inputs = migrated = 0
    slowest = 0.0
    end = time.monotonic() + arguments.seconds
    while time.monotonic() < end:
        data = mutator.script()
        began = time.process_time()
        verdict = judged(data)
        slowest = max(slowest, time.process_time() - began)
        inputs += 1
        migrated += verdict.is_changed
        if verdict.problem:
            kind = re.sub(r"\d+", "N", verdict.problem)
            problems[kind] += 1
            if problems[kind] <= _KEPT:
                name = arguments.keep / f"{hashlib.sha256(data).hexdigest()[:12]}.py"
                name.write_bytes(data)
                print(f"{name}: {verdict.problem}", flush=True)
    for problem, count in problems.most_common():
        print(f"{count:6} {problem}")
    print(f"| {arguments.seed} | {inputs:,} | {migrated:,} | {slowest:.1f} s | {sum(problems.values())} |")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
