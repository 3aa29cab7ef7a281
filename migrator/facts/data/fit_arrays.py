"""Whether the arrays that `fit` trains on are cut."""

from __future__ import annotations

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.data.obstacles import Obstacles, built_in_size
from migrator.facts.names import api
from migrator.facts.objects.keywords import Keywords
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.repeatable import Repeatable
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Element, External, is_call_of
from migrator.facts.ports.ranks import Ranks
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import Tree

_SHARD = f"{api.RUNTIME}.shard_arrays"


class FitArrays:
    def __init__(
        self, tree: Tree, resolver: Resolver, kinds: Kinds, ranks: Ranks, keywords: Keywords, obstacles: Obstacles
    ) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self._ranks = ranks
        self._keywords = keywords
        self._obstacles = obstacles
        self._repeatable = Repeatable(tree, resolver)

    def are_cut(self, call: cst.Call) -> bool:
        """Whether each worker's `fit` is given, or going to be given, its part of them."""
        is_given = argument(call, "x", 0) is not None or self._keywords.pair(call) is not None
        return self.are_cut_already(call) or (is_given and self.obstacle(call) is None)

    def are_cut_already(self, call: cst.Call) -> bool:
        given = (argument(call, "x", 0), argument(call, "y", 1), *call.args[:1])
        return any(self._is_sharded(arg.value) for arg in given if arg is not None)

    def obstacle(self, call: cst.Call) -> Refusal | None:
        """Why the arrays that the call names are not cut."""
        pair = self._keywords.pair(call)
        x, y = (argument(call, "x", 0), argument(call, "y", 1)) if pair is None else (pair, pair)
        if x is None:
            return Refusal(
                call, "what this `fit` trains on cannot be seen", "pass the data as x=... and y=... in the call"
            )
        values = self.resolver.values(x.value)
        if self._keywords.hides_arguments(call, pair) or self._is_unpacked(call, "sample_weight"):
            return Refusal(
                call,
                "the batch size may be among the unpacked arguments, where it cannot be seen",
                "pass batch_size=... in the call",
            )
        has_labels = y is not None and not (isinstance(y.value, cst.Name) and y.value.value == "None")
        if not has_labels and self.batch_size(call) is None and not any(self.kinds.is_array(v) for v in values):
            return Refusal(
                x.value,
                "whether these data are arrays or a dataset cannot be seen",
                "make the data in this file, or shard them by hand with lockstep.shard_arrays or "
                "lockstep.shard_batches",
                breaks_training=True,  # a source with its own randomness gives each worker batches of its own
            )
        batch_size = self.batch_size(call)
        kept = self._obstacles.kept_by_model(batch_size) if batch_size is not None else None
        return self._obstacles.own_randomness or built_in_size(self.tree) or kept or self._asked_once(call)

    def batch_size(self, call: cst.Call) -> cst.BaseExpression | None:
        return self._keywords.given(call, "batch_size", 2)

    def to_name(self, call: cst.Call) -> dict[str, cst.BaseExpression]:
        """What the call and the cut both need and may be asked for only once, by the keywords, as the call asks."""
        return {
            name: given
            for name, given in self._needed_twice(call)
            if self.tree.contains(call, given) and not self._repeatable.is_so(given)
        }

    def _needed_twice(self, call: cst.Call) -> list[tuple[str, cst.BaseExpression]]:
        split, size = self._keywords.given(call, "validation_split"), self.batch_size(call)
        both = (("validation_split", split), ("batch_size", size))
        return sorted(((name, x) for name, x in both if x is not None), key=lambda one: self.tree.order[one[1]])

    def _asked_once(self, call: cst.Call) -> Refusal | None:
        """A number that the cut of the arrays would have to ask for once more, or under a name that it cannot get."""
        named = self.to_name(call)
        for name, given in self._needed_twice(call):
            if name in named:
                is_known = self._repeatable.can_be_named(given)
            else:  # or in a dictionary that is written out
                is_known = self.tree.contains(call, given) or self._repeatable.is_elsewhere(given, call)
            if not is_known:
                return Refusal(
                    given,
                    f"the arrays are to be cut with `{name}`, too, and asking for it twice may give two answers",
                    f"give it a name in a line of its own (`{name} = ...`), and pass that",
                )
        return None

    def _is_unpacked(self, call: cst.Call, name: str) -> bool:
        return argument(call, name) is None and self._keywords.given(call, name) is not None

    def _is_sharded(self, node: cst.BaseExpression) -> bool:
        if self._ranks.is_share(node):
            return True
        values = (v.of if isinstance(v, Element) else v for v in self.resolver.values(node))
        return any(is_call_of(v, _SHARD) for v in values) or (
            isinstance(node, cst.Call) and any(v == External(_SHARD) for v in self.resolver.values(node.func))
        )
