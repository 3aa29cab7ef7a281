"""Whether what is no training step reads a batch, too: what follows the step, another branch, or the next turn."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

import libcst as cst

from migrator.facts.data.earlier_cuts import EarlierCuts
from migrator.facts.data.met_behind import is_size
from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.tree import Statement, Tree

_BRANCHES = (cst.If, cst.Else, cst.ExceptHandler, cst.MatchCase)


class ReadBeside:
    def __init__(
        self, tree: Tree, resolver: Resolver, earlier: EarlierCuts, steps: Callable[[], Sequence[cst.With]]
    ) -> None:
        """`steps`: the blocks of all training steps."""
        self.tree = tree
        self.resolver = resolver
        self.earlier = earlier
        self._steps = steps

    def asks_for_sizes_behind(self, names: Iterable[cst.Name], block: Statement) -> bool:
        """Whether what follows, but for other steps, reads of the batches how many rows the whole ones have, and
        nothing else."""
        behind = [read for name in names for read in self._read_after(name, block)]
        return bool(behind) and all(is_size(self.tree, self.resolver, read) for read in behind)

    def are_read_beside(self, names: Sequence[cst.Name], block: Statement) -> bool:
        """Whether the batches are read where they may still be whole, too: before they are made anew in the next turn,
        or, of a block that runs on a condition, `if phase == "train":`, in another branch or behind the branches."""
        turn = next(iter(self.tree.loops_around(block)), self.tree.function_of(block))
        around = itertools.takewhile(lambda owner: owner is not turn, self.tree.ancestors(block))
        branch = next((b for b in around if isinstance(self.tree.parent.get(b), _BRANCHES)), None)
        behind = [read for name in names for read in self._read_after(name, block)] if branch is not None else []
        is_beside = branch is not None and not all(self.tree.contains(branch, read) for read in behind)
        return is_beside or any(map(self._is_read_in_the_next_turn, names))

    def _is_read_in_the_next_turn(self, name: cst.Name) -> bool:
        made = self.earlier.bound_at(name)
        scope = self.tree.scope_of(name).lookup(name.value)
        targets = {binding.target for binding in scope.bindings[name.value]} if scope is not None else set()
        return any(
            self.tree.order[read] < made
            and read not in targets
            and self.tree.is_read(read)
            and set(self.resolver.reaching(name)) & set(self.resolver.reaching(read))
            for read in self.tree.names[name.value]
        )

    def _read_after(self, name: cst.Name, block: Statement) -> Iterator[cst.Name]:
        """Where what the name holds is read behind the block, but for other steps, for which a cut is shared."""
        last = self.tree.last_order_in(block)
        for read in self.tree.names[name.value]:
            if (
                self.tree.order[read] > last
                and self.tree.is_read(read)
                and not self.tree.is_in(read, self._steps())
                and set(self.resolver.reaching(name)) & set(self.resolver.reaching(read))
            ):
                yield read
