"""Calls that draw random numbers from a generator, of which the numbers follow from how many were drawn before."""

from __future__ import annotations

from migrator.facts.names import api
from migrator.facts.objects.values import External, Member, Value, calls

GENERATOR_MAKERS = frozenset({
    *api.GENERATORS, *api.BIT_GENERATORS, "random.Random", "tensorflow.random.create_rng_state",
    "keras.random.SeedGenerator",
})  # fmt: skip


def draws(value: Value) -> bool:
    """Whether what is called draws from a generator of NumPy's or Python's, or from one that a script has made."""
    if isinstance(value, Member):
        return calls(value.owner) in GENERATOR_MAKERS
    return isinstance(value, External) and is_drawn_from_common(value.path)


def is_drawn_from_common(path: str) -> bool:
    """Whether the function draws from the generator that NumPy, or Python, has for all."""
    return path.startswith(("numpy.random.", "random.")) and path not in GENERATOR_MAKERS
