"""What `lockstep doctor` runs on two workers: is a sum over them right, and how long does it take?"""

from __future__ import annotations

import sys
import time

import lockstep

_REPEATS = 20
_ELEMENTS = 1 << 20


def main() -> int:
    import tensorflow as tf

    size = lockstep.size()
    if size < 2:
        print("this worker has found no other: it runs alone")
        return 1
    total = lockstep.all_reduce(tf.constant([lockstep.rank() + 1.0]), "sum").numpy()
    if total[0] != size * (size + 1) / 2:
        print(f"the sum over {size} workers is wrong: {total[0]}")
        return 1
    step = tf.function(lambda gradient: lockstep.all_reduce(gradient))
    gradient = tf.ones([_ELEMENTS])
    step(gradient)
    began = time.perf_counter()
    for _ in range(_REPEATS):
        step(gradient)
    milliseconds = (time.perf_counter() - began) / _REPEATS * 1000
    print(f"{size} workers agree; all_reduce of 4 MB takes {milliseconds:.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
