"""Print the public functions that no row names, with the kinds of which all claims hold for them.

    python tests/analysis/discover.py [tensorflow.math ...]

A kind that survives is a candidate for a row, with sample arguments by hand: what follows from these few samples alone
is not proven yet.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2])]

from proving import Outcome, data, leaves, prove, resolved, runner  # noqa: E402
from samples import S, i, square, variants  # noqa: E402

from migrator.analysis.ops import Op, lookup  # noqa: E402
from migrator.analysis.ops.rows import KINDS, kind_named  # noqa: E402
from migrator.analysis.placement import Unknown  # noqa: E402

MODULES = (
    "tensorflow tensorflow.math tensorflow.nn tensorflow.linalg tensorflow.signal tensorflow.image tensorflow.strings "
    "keras.ops keras.activations numpy numpy.linalg"
)
LAST = ("last 1->1", "last 1->0", "last 1,1->0", "last 1,1->1", "last 2->2", "last 2->0", "last 2->1", "last 1->2")
# The looser kinds claim less; the first that holds and claims most is printed first.
ATTEMPTS = (
    *(name for name in KINDS if not name.startswith(("loss", "constant", "needs", "same"))),
    *(f"{name}{linear}" for name in LAST for linear in ("", " linear")),
)
SAMPLES = (
    S(data(8, 4)), S(data(8, 4), data(8, 4)), S(data(8, 4), data(4)), S(data(8, 6, 4)), S(square(8, 4, 4)), S(data(8)),
    S(data(4, 8)), S(data(8, 4), 2), S(data(8, 4), axis=1), S(data(8, 4), axis=0), S(data(8, 6, 6, 3)), S(i(8)),
    S(data(8, 4), data(8, 4), data(8, 4)), S([data(8, 4), data(8, 4)]), S(data(8, 4), 0.5, 0.7), S(data(8, 4), i(8)),
)  # fmt: skip


def missing(module: str) -> Iterator[str]:
    """The public functions of a module that have no row."""
    for name in dir(resolved(module)):
        found, path = getattr(resolved(module), name), f"{module}.{name}"
        if not name.startswith("_") and callable(found) and not inspect.isclass(found) and not lookup(path):
            yield path


def runnable(op: Op) -> list[Any]:
    """The samples that the op takes."""
    found = []
    for sample in SAMPLES:
        for variant in variants(sample)[:2]:
            try:
                Outcome(runner(op, variant), variant, [leaf.value for leaf in leaves(variant)])
            except BaseException:  # whatever it raises, it is no sample for it
                continue
            found.append(variant)
            break
    return found


def survivors(path: str) -> dict[str, int]:
    """The kinds that claim nothing wrong of the op, with the number of their claims."""
    try:
        names = tuple(name for name in inspect.signature(resolved(path)).parameters if name not in ("name", "layout"))
    except (TypeError, ValueError):
        names = ("x", "y")
    samples = runnable(Op(path, names, kind_named("same"), "same"))
    found = {}
    for name in ATTEMPTS if samples else ():
        claims = 0
        try:
            for sample in samples:
                for finding in prove(Op(path, names, kind_named(name), name), sample, gradients=False):
                    if finding.error:
                        raise ArithmeticError(finding.error)
                    claims += not isinstance(finding.claimed, Unknown)
        except Exception:  # wrong, or a kind that does not fit the op's arguments
            continue
        if claims:
            found[name] = claims
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    for module in sys.argv[1:] or MODULES.split():
        for path in missing(module):
            kinds = sorted(survivors(path).items(), key=lambda item: -item[1])
            print(path, " ".join(f"{name}:{claims}" for name, claims in kinds[:4]) or "-", flush=True)
