"""Runs inside the workers: the checks of one program, one after the other, with their outcome in a file.

Starting a worker costs seconds, so a program holds many checks; each is a test of its own to pytest.
"""

from __future__ import annotations

import json
import os
import random
import sys
import traceback
from pathlib import Path
from typing import Any, Callable

import numpy as np
import tensorflow as tf

import lockstep

_LONG: set[str] = set()


def long(check: Callable[[], None]) -> Callable[[], None]:
    """A check that only runs of the whole program make: `make test` does without it for the sake of time."""
    _LONG.add(check.__name__)
    return check


def run_checks(namespace: dict[str, Any]) -> None:
    """Call every check_* function in the order of its definition; stops at the first that fails, since the
    other workers cannot go on without this one."""
    left_out = set() if os.environ.get("LOCKSTEP_TEST_LONG") else _LONG
    outcomes: dict[str, str] = {}
    target = Path(os.environ["LOCKSTEP_TEST_OUTCOMES"]) / f"{lockstep.rank()}.json"
    for name, check in list(namespace.items()):
        if not name.startswith("check_") or name in left_out:
            continue
        try:
            check()
        except BaseException:
            outcomes[name] = traceback.format_exc()
            target.write_text(json.dumps(outcomes))
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        outcomes[name] = "passed"
        target.write_text(json.dumps(outcomes))


def seed_everything(seed: int) -> None:
    """keras.utils.set_random_seed, which TensorFlow 2.6 does not have."""
    random.seed(seed)
    np.random.seed(seed)
    tf.random.set_seed(seed)


def of_all_ranks(value: Any) -> list[Any]:
    """Every rank's value, in rank order; the values go through JSON."""
    from lockstep.collectives.agreement import exchange

    return [json.loads(message) for message in exchange(json.dumps(value).encode())]


def assert_equal_on_all_ranks(arrays: Any) -> None:
    """Bit by bit."""
    everyone = of_all_ranks([np.asarray(array).tobytes().hex() for array in arrays])
    assert all(one == everyone[0] for one in everyone), "the ranks' arrays differ"


def raised(kind: type[BaseException], function: Any, *args: Any, **kwargs: Any) -> str:
    """The message of the exception that the call must raise."""
    try:
        function(*args, **kwargs)
    except kind as error:
        return str(error)
    raise AssertionError(f"{kind.__name__} was not raised")
