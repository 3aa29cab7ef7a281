"""Which models and layers run by themselves, on weights that they were given at random: read off an abstract run."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.run import Run
from migrator.analysis.values import Atom, Instance, Made, Value
from migrator.facts import api

# Layers that start from random weights. Others of Keras have none, or such as are the same wherever they are made.
_RANDOM_LAYERS = re.compile(
    r"keras\.layers\.(?:\w*Dense|\w*Conv\w*|Embedding|(?:\w*)(?:LSTM|GRU|RNN)\w*|\w*Attention|Bidirectional|"
    r"TimeDistributed|LocallyConnected\w+)$"
)
_VARIABLES = ("tensorflow.Variable", "keras.Variable", "keras.backend.variable")
_APPLICATION = re.compile(r"keras\.applications\.")


def standalone(run: Run) -> set[cst.CSTNode]:
    """The calls that make models and layers which are run on data, are a part of no other, start at random, and
    of which the weights are never asked for."""
    holders: dict[Atom, list[Atom]] = defaultdict(list)
    parts: dict[Atom, list[Atom]] = defaultdict(list)
    for owner, value in run.heap.held():
        for atom in _atoms(value):
            holders[atom].append(owner)
            parts[owner].append(atom)
    found = set()
    for atom in run.applied - run.built_in - run.known_weights:
        if _is_part(run, atom, holders) or not _is_random(run, atom, parts, set()):
            continue
        if isinstance(atom, (Made, Instance)):
            found.add(atom.site.node)
    return found


def _atoms(value: Value) -> Iterator[Atom]:
    """What the value may be, and what stands in its tuples."""
    for atom in value:
        yield atom
        if isinstance(atom, v.Tuple):
            for item in atom.items:
                yield from _atoms(item)


def _is_part(run: Run, atom: Atom, holders: dict[Atom, list[Atom]]) -> bool:
    """Whether a model holds it, in an attribute, or in a list or dictionary that it has."""
    queue, seen = [*holders[atom]], {atom}
    while queue:
        owner = queue.pop()
        if owner in seen:
            continue
        seen.add(owner)
        if isinstance(owner, v.Container):
            queue += holders[owner]
        elif any(_is_broadcast(run, owner, base) for base in _bases(run, owner)):
            return True
    return False


def _is_broadcast(run: Run, owner: Atom, base: str) -> bool:
    """Whether what the owner holds is sent with it: a module may hold networks that are trained one by one."""
    return (
        api.makes_model(base)
        or api.is_layer_class(base)
        or (api.is_module_class(base) and (owner in run.applied or owner in run.known_weights))
    )


def _is_random(run: Run, atom: Atom, parts: dict[Atom, list[Atom]], seen: set[Atom]) -> bool:
    """Whether it has weights that are drawn where it is made."""
    if atom in seen:
        return False
    seen.add(atom)
    if isinstance(atom, Made):
        if _RANDOM_LAYERS.match(atom.path) or atom.path in _VARIABLES:
            return True
        if _APPLICATION.match(atom.path):
            weights = run.heap.load(atom, ("argument", "weights"))
            return weights.is_none
        if atom.path in api.LOAD_MODEL:
            return False
        if api.makes_model(atom.path) and atom.path not in api.SEQUENTIAL:
            return True
    if isinstance(atom, Instance) and not any(_holds_weights(base) for base in _bases(run, atom)):
        return False
    return any(_is_random(run, part, parts, seen) for part in _parts(atom, parts))


def _parts(atom: Atom, parts: dict[Atom, list[Atom]]) -> Iterator[Atom]:
    for part in parts[atom]:
        yield part
        if isinstance(part, v.Container):
            yield from parts[part]


def _bases(run: Run, atom: Atom) -> list[str]:
    if isinstance(atom, Made):
        return [atom.path]
    return run.objects.external_bases(atom.cls) if isinstance(atom, Instance) else []


def _holds_weights(path: str) -> bool:
    return api.makes_model(path) or api.is_layer_class(path) or api.is_module_class(path)
