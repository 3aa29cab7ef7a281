"""Which keys a dictionary may lack, though something stores them: under a condition, in another function, or for a
while. The heap keeps all that is ever stored; a call that is given such a dictionary gets these keywords on some ways
only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis.values import Container, Value
from migrator.facts.program.tree import Tree, nodes_in

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
        self._asked_by_words: dict[cst.CSTNode, list[cst.BaseExpression]] = {}  # by functions and modules

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

    def lacks_any(self, atom: Container) -> bool:
        """Whether the dictionary has some of its keys on some ways only."""
        self._asked.add(atom)
        return bool(self._keys.get(atom))

    def note(self, atom: Container, key: str) -> None:
        """The dictionary has the key on some ways only."""
        if key not in self._keys[atom]:
            self._keys[atom].add(key)
            self.run.heap.change_elsewhere()
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

    def is_asked_for_a_word(self, operator: str, left: Value, right: Value, node: cst.CSTNode) -> bool:
        """Whether it is `"weights" in batch`, of the dictionary that the node stands for: batches have the same keys on
        all workers, and so do dictionaries whose keys the script writes out."""
        if operator not in ("In", "NotIn") or not isinstance(left.constant, str):
            return False
        if right.data is not None:
            return right.data.nested and not right.objects and self._is_dictionary(node)
        return bool(right.objects) and all(
            isinstance(atom, Container)
            and atom.kind == "dict"
            and all(isinstance(key, str) for key in self.run.heap.fields(atom))
            for atom in right
        )

    def _is_dictionary(self, node: cst.CSTNode) -> bool:
        """Whether the function that names it also asks it for what it has under a word: words may be its rows, too."""
        owner = self.run.tree.function_of(node) or self.run.tree.module_of(node)
        if owner not in self._asked_by_words:
            asked = (part for part in nodes_in(owner) if _asks_by_a_word(part))
            self._asked_by_words[owner] = [cst.ensure_type(part, cst.Subscript).value for part in asked]
        return any(part.deep_equals(node) for part in self._asked_by_words[owner])


def _asks_by_a_word(node: cst.CSTNode) -> bool:
    index = node.slice[0].slice if isinstance(node, cst.Subscript) else None
    return isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString)


def turns_over_keys(tree: Tree, node: cst.CSTNode) -> bool:
    """Whether what a loop goes through here is a dictionary: its turns ask it for what they get,
    `for name in sorted(batch): batch[name]`."""
    loop, child = tree.parent[node], node
    while isinstance(loop, cst.Arg) or (isinstance(loop, cst.Call) and loop.func is not child):
        loop, child = tree.parent[loop], loop
    if not isinstance(loop, (cst.For, cst.CompFor)) or child is not loop.iter:
        return False
    within = loop if isinstance(loop, cst.For) else tree.parent[loop]
    return any(isinstance(part, cst.Subscript) and _is_turn(loop, part) for part in nodes_in(within))


def is_asked_for_a_key(tree: Tree, node: cst.Subscript) -> bool:
    """Whether the index is what a loop around it gets of the same dictionary."""
    for owner in tree.ancestors(node):
        loop = owner if isinstance(owner, cst.For) else getattr(owner, "for_in", None)
        while isinstance(loop, (cst.For, cst.CompFor)):
            if _is_turn(loop, node):
                return True
            loop = getattr(loop, "inner_for_in", None)
    return False


def _is_turn(loop: cst.For | cst.CompFor, asked: cst.Subscript) -> bool:
    gone_through: cst.CSTNode = loop.iter
    while isinstance(gone_through, cst.Call) and (gone_through.args or isinstance(gone_through.func, cst.Attribute)):
        owner = gone_through.func.value if isinstance(gone_through.func, cst.Attribute) else gone_through.func
        gone_through = gone_through.args[0].value if gone_through.args else owner  # `sorted(batch)`, `batch.keys()`
    index = asked.slice[0].slice
    return (
        isinstance(index, cst.Index)
        and isinstance(loop.target, cst.Name)
        and isinstance(index.value, cst.Name)
        and index.value.value == loop.target.value
        and asked.value.deep_equals(gone_through)
    )
