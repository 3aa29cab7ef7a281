"""Feeds mutated scripts to `migrate` for as long as it is told, and keeps those of which something is wrong.

python tests/fuzz/run.py --seconds 600 --seed 1 --keep build/fuzz
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
from mutate import Mutator, seeds

_MOST_MEMORY = 4 << 30


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"))
    arguments = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    arguments.keep.mkdir(parents=True, exist_ok=True)
    mutator = Mutator(arguments.seed, seeds())
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
            if problems[kind] == 1:
                name = arguments.keep / f"{hashlib.sha256(data).hexdigest()[:12]}.py"
                name.write_bytes(data)
                print(f"{name}: {verdict.problem}", flush=True)
    print(f"seed {arguments.seed}: {inputs} inputs, {migrated} migrated, slowest {slowest:.1f} s of CPU time")
    for problem, count in problems.most_common():
        print(f"{count:6} {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
