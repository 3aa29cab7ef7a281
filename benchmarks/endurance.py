"""What 10,000 steps leave behind in a worker: threads, open files, memory.

    lockstep run -n 2 benchmarks/endurance.py [STEPS]

Prints a table of the chief's numbers over the run and exits with 1 if files have grown after the first tenth, memory
by more than 16 MB, or threads by more than the few that TensorFlow's pools start late. A step is one traced all-reduce
of a small model's gradients and one eager one.
"""

from __future__ import annotations

import os
import sys
import threading

import tensorflow as tf

import lockstep

_ALLOWED_GROWTH_MB = 16.0
_ALLOWED_THREADS = 8
SHAPES = [(64, 64), (64,), (64, 10), (10,)]


def measured() -> tuple[int, int, float]:
    """Native threads, open files, resident megabytes of this process."""
    with open("/proc/self/statm") as file:
        pages = int(file.read().split()[1])
    threads, files = len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
    return threads, files, pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@tf.function
def step(gradients: list[tf.Tensor]) -> list[tf.Tensor]:
    return lockstep.all_reduce(gradients)


def main(steps: int) -> int:
    gradients = [tf.ones(shape) for shape in SHAPES]
    rows = []
    for number in range(steps + 1):
        if number % (steps // 10) == 0:
            rows.append((number, *measured()))
            if lockstep.is_chief():
                print(f"step {rows[-1][0]:6}  threads {rows[-1][1]}  files {rows[-1][2]}  memory {rows[-1][3]:.1f} MB")
        step(gradients)
        lockstep.all_reduce(1.0)
    _, threads, files, memory = rows[1]
    _, last_threads, last_files, last_memory = rows[-1]
    python = [thread.name for thread in threading.enumerate()]
    grown = last_threads > threads + _ALLOWED_THREADS or last_files > files or last_memory > memory + _ALLOWED_GROWTH_MB
    if grown:
        print(f"rank {lockstep.rank()} has grown; its Python threads: {python}", file=sys.stderr)
    return int(grown)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
