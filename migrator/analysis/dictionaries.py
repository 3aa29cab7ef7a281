"""Which keys a dictionary may lack, though something stores them: under a condition, in another function, or for a
while. The heap keeps all that is ever stored; a call that is given such a dictionary gets these keywords on some ways
only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis.values import Container, Value

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_BRANCHES = (
    cst.If, cst.For, cst.While, cst.Try, cst.Match, cst.IfExp, cst.BooleanOperation, cst.ListComp, cst.SetComp,
    cst.DictComp, cst.GeneratorExp, cst.Lambda,
)  # fmt: skip
_JUMPS = (cst.Return, cst.Raise, cst.Continue, cst.Break)


class Lacking:
    def __init__(self, run: Run) -> None:
        self.run = run
        self._keys: dict[Container, set[str]] = defaultdict(set)
        self._asked: set[Container] = set()

    def note_stored(self, atom: Container, key: object, node: cst.CSTNode) -> None:
        """Before the key is stored there."""
        if isinstance(key, str) and key not in self.run.heap.fields(atom) and not self._is_sure(atom, node):
            self.note(atom, key)

    def note_removed(self, atom: Container, key: object) -> None:
        """Of which key nothing is known, any may be gone."""
        for name in self.run.heap.fields(atom):
            if isinstance(name, str) and (name == key or not isinstance(key, str)):
                self.note(atom, name)

    def note_taken_over(self, atom: Container, other: Container, several: Value) -> None:
        """Before the dictionary gets what the other one holds, which is one of `several`."""
        fields = [set(self.run.heap.fields(one)) for one in several if isinstance(one, Container)]
        unsure = set().union(*fields) - fields[0].intersection(*fields)
        for key in unsure.union(self._keys.get(other, ())):
            if isinstance(key, str) and key not in self.run.heap.fields(atom):
                self.note(atom, key)

    def ways(self, atom: Container, named: Mapping[str, Value], most: int) -> Iterator[dict[str, Value]]:
        """What the dictionary may hold, with each of the keys and without it; all or nothing, where there are more than
        `most` ways."""
        self._asked.add(atom)
        lacking = sorted(self._keys.get(atom, set()) & named.keys())
        if 2 ** len(lacking) > most:
            yield dict(named)
            yield {key: value for key, value in named.items() if key not in lacking}
            return
        for number in range(2 ** len(lacking)):
            without = {key for i, key in enumerate(lacking) if number >> i & 1}
            yield {key: value for key, value in named.items() if key not in without}

    def note(self, atom: Container, key: str) -> None:
        """The dictionary has the key on some ways only."""
        if key not in self._keys[atom]:
            self._keys[atom].add(key)
            self.run.heap.version += 1
            self.run.heap.is_stale = self.run.heap.is_stale or atom in self._asked

    def _is_sure(self, atom: Container, node: cst.CSTNode) -> bool:
        """Whether the key is stored wherever the dictionary is made and read."""
        tree, made = self.run.tree, atom.site.node
        if node is made:
            return not isinstance(node, cst.DictComp)
        function = tree.function_of(node)
        if tree.function_of(made) is not function or tree.module_of(made) is not tree.module_of(node):
            return False
        around = set(tree.ancestors(made))
        if any(isinstance(a, _BRANCHES) and a not in around for a in tree.ancestors(node)):
            return False
        if node not in tree.order:  # in the code of a package, of which the tree knows no more
            return True
        between = range(tree.order[made], tree.order[node])
        jumps = (jump for kind in _JUMPS for jump in tree.all_of(kind))
        return not any(tree.order[jump] in between and tree.function_of(jump) is function for jump in jumps)
