"""What the files of a program draw by chance while they are run from their top, where no seed of theirs fixes it.

The workers get one seed for all when they join. What is drawn before that, each of them draws by itself.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Union

import libcst as cst

from migrator.facts.objects.kinds import origin
from migrator.facts.objects.met_alike import UNCERTAIN, is_main
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Member, Result, Value, calls
from migrator.facts.program.syntax import argument, is_none
from migrator.facts.program.tree import Tree
from migrator.facts.randomness.chance import takes_random_state
from migrator.facts.randomness.draws import GENERATOR_MAKERS
from migrator.facts.randomness.entropy import is_own, is_unseeded
from migrator.records import dataclass

Import = Union[cst.Import, cst.ImportFrom]

# The generators that libraries have for all of a program; one that a script makes without a seed is of the system.
_NUMPY, _PYTHON, _TENSORFLOW, _SYSTEM = "numpy", "python", "tensorflow", "system"
_SEEDERS = {
    "numpy.random.seed": {_NUMPY}, "numpy.random.set_state": {_NUMPY}, "random.seed": {_PYTHON},
    "random.setstate": {_PYTHON}, "tensorflow.random.set_seed": {_TENSORFLOW},
    "tensorflow.set_random_seed": {_TENSORFLOW}, "tensorflow.compat.v1.set_random_seed": {_TENSORFLOW},
    "keras.utils.set_random_seed": {_NUMPY, _PYTHON, _TENSORFLOW},
}  # fmt: skip
_DRAWN_FROM = {
    "numpy.random.": {_NUMPY}, "random.": {_PYTHON}, "tensorflow.random.": {_TENSORFLOW},
    "keras.random.": {_PYTHON, _TENSORFLOW},
}  # fmt: skip
_NO_DRAWS = re.compile(
    r"(?:numpy\.random|random)\.get_?state$|numpy\.random\.(?:default_rng|bit_generator)\."
    r"|tensorflow\.random\.(?:(?:experimental\.)?(?:stateless_|Generator|\w+_rng_state)|Algorithm|all_candidate_sampler)"
)
# Methods of pandas, and of scikit-learn's estimators that choose by chance; they and `rvs` draw as NumPy does.
_SAMPLES = re.compile(r"pandas\.")
_FITS_BY_CHANCE = re.compile(
    r"sklearn\.(?:cluster|decomposition|ensemble|manifold|mixture|model_selection|neural_network|random_projection)\."
)
_SEEDS = ("seed", "random_state", "rng")


@dataclass(frozen=True)
class Effect:
    """What running some code does: the generators from which it draws before it seeds them, and those that it surely
    seeds."""

    draws: frozenset[str] = frozenset()
    seeds: frozenset[str] = frozenset()


class EarlyDraws:
    def __init__(
        self, tree: Tree, resolver: Resolver, imported: Mapping[cst.Module, Collection[tuple[Import, cst.Module]]]
    ) -> None:
        self.tree = tree
        self.resolver = resolver
        self._imported = imported
        self._known: dict[cst.CSTNode, tuple[Effect, list[cst.CSTNode]]] = {}

    def of(self, module: cst.Module) -> list[cst.CSTNode]:
        """The calls and imports outside of functions that draw what no seed fixes there, as they stand in the file."""
        return self._run(module)[1]

    def _run(self, owner: cst.CSTNode) -> tuple[Effect, list[cst.CSTNode]]:
        """What a file, function or lambda does, and the calls and imports that draw."""
        if owner in self._known:
            return self._known[owner]
        self._known[owner] = Effect(), []  # what calls itself draws nothing more by that
        draws: set[str] = set()
        seeds: set[str] = set()
        found: list[cst.CSTNode] = []
        for node in self._in_order.get(owner, ()):
            effect = self._of_node(node)
            if effect.draws - seeds:
                draws |= effect.draws - seeds
                found.append(node)
            if effect.seeds and self._is_certain(node):
                seeds |= effect.seeds
        self._known[owner] = Effect(frozenset(draws), frozenset(seeds)), found
        return self._known[owner]

    @cached_property
    def _in_order(self) -> dict[cst.CSTNode, list[cst.CSTNode]]:
        """The calls and imports that each file, function and lambda runs: arguments before the call that takes them."""
        found: dict[cst.CSTNode, list[cst.CSTNode]] = defaultdict(list)
        imports = [node for several in self._imported.values() for node, _ in several]
        for node in dict.fromkeys([*self.tree.calls, *imports]):
            found[self.tree.callable_of(node) or self.tree.module_of(node)].append(node)
        for nodes in found.values():
            nodes.sort(key=lambda node: (self.tree.last_order_in(node), -self.tree.order[node]))
        return found

    def _of_node(self, node: cst.CSTNode) -> Effect:
        if not isinstance(node, cst.Call):
            importer = self.tree.module_of(node)
            return _together([self._run(file)[0] for each, file in self._imported[importer] if each is node])
        values = self.resolver.values(node.func)
        effects = [self._run(function)[0] for function in self.resolver.run_by.get(node, ())]
        effects += [self._run(v.node)[0] for v in values if isinstance(v, Function) and isinstance(v.node, cst.Lambda)]
        # Of what a function is given to call, it is not known that it does.
        handed = [v.node for arg in node.args for v in self.resolver.values(arg.value) if isinstance(v, Function)]
        draws = frozenset().union(
            *(self._run(function)[0].draws for function in handed), *(_drawn_by(node, value) for value in values)
        )
        ran = _together(effects)
        return Effect(ran.draws | draws, ran.seeds | self._seeded_by(node, values))

    def _seeded_by(self, call: cst.Call, values: Collection[Value]) -> frozenset[str]:
        """The generators that the call gives a seed which all workers have: neither none nor the time of day."""
        seeded = [_SEEDERS.get(v.path, set()) if isinstance(v, External) else set() for v in values]
        given = call.args[0].value if call.args else None
        if not all(seeded) or not seeded or given is None or is_none(given):
            return frozenset()
        if any(self._is_own(c) for c in self.tree.calls if self.tree.contains(given, c)):
            return frozenset()
        return frozenset(set.intersection(*seeded))

    def _is_own(self, call: cst.Call) -> bool:
        return any(map(is_own, self.resolver.public(call.func)))

    def _is_certain(self, node: cst.CSTNode) -> bool:
        """Whether it runs whenever what it stands in does."""
        for owner in self.tree.ancestors(node):
            if isinstance(owner, cst.FunctionDef):
                break
            if isinstance(owner, UNCERTAIN) and not is_main(owner):
                return False
        return True


def _together(effects: Collection[Effect]) -> Effect:
    """What one of them does, or another: each may be the one that runs."""
    if not effects:
        return Effect()
    draws = frozenset().union(*(effect.draws for effect in effects))
    return Effect(draws, frozenset.intersection(*(effect.seeds for effect in effects)))


def _drawn_by(call: cst.Call, value: Value) -> Collection[str]:
    """The generators from which calling this draws."""
    if any((seed := argument(call, name)) is not None and not is_none(seed.value) for name in _SEEDS):
        return ()
    if isinstance(value, Member):
        return {_NUMPY} if _samples(value) else ()
    path = value.path if isinstance(value, External) else ""
    if is_unseeded(call, path):
        return {_SYSTEM}
    if takes_random_state(call, path) or (path.startswith("scipy.stats.") and path.endswith(".rvs")):
        return {_NUMPY}
    if path in _SEEDERS or path in GENERATOR_MAKERS or _NO_DRAWS.match(path):
        return ()
    return next((drawn for start, drawn in _DRAWN_FROM.items() if path.startswith(start)), ())


def _samples(method: Member) -> bool:
    """Whether a method of pandas or scikit-learn draws: `rows.sample(frac=1)`, `KMeans(4).fit(x)`."""
    if method.name == "sample":
        return _SAMPLES.match(origin(method)) is not None
    maker = method.owner
    if not method.name.startswith(("fit", "split")) or not isinstance(maker, Result):
        return False
    is_seeded = any(argument(maker.call, name) is not None for name in _SEEDS)
    return not is_seeded and _FITS_BY_CHANCE.match(calls(maker)) is not None
