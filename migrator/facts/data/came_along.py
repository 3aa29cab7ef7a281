"""What came out of one statement with a batch of which the step takes a worker's rows, and all workers have as a whole:
`images, depths = reader.get_batch()`, of which the step is given the images alone."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import libcst as cst

from migrator.facts.data.batch_forms import BatchForms
from migrator.facts.data.met_behind import is_size
from migrator.facts.objects.resolve import Resolver
from migrator.facts.program.tree import Binding, Tree

_MOST = 200


class CameAlong:
    def __init__(self, tree: Tree, resolver: Resolver, forms: BatchForms) -> None:
        self.tree = tree
        self.resolver = resolver
        self.forms = forms

    def with_rows(self, rows: Collection[cst.CSTNode], steps: Collection[cst.CSTNode]) -> set[cst.CSTNode]:
        """Where it is read, beside the `rows` that are cut there; `steps`: the code that works on these."""
        made, behind = self._made_of(rows)
        return {
            read
            for binding in made
            for read in self._reads_of(binding)
            if read not in rows and read not in behind and not self.tree.is_in(read, steps)
        }

    def _made_of(self, rows: Iterable[cst.CSTNode]) -> tuple[list[Binding], set[cst.Name]]:
        """What binds the batches that the rows are taken of, in whichever form; and the names that are read on the way
        there."""
        names = [node for node in rows if isinstance(node, cst.Name)]
        found: dict[Binding, None] = {}
        for name in names:
            for binding in self.resolver.reaching(name) if len(names) < _MOST else ():
                if binding not in found:
                    names.extend(self._behind(binding))
                if binding.kind in ("assign", "for"):
                    found[binding] = None
        return list(found), set(names)

    def _behind(self, binding: Binding) -> Iterator[cst.Name]:
        """The names of which what is bound has all rows."""
        values: list[cst.CSTNode | None] = []
        if binding.kind == "param":
            values.extend(self.resolver.given(cst.ensure_type(binding.node, cst.Param)))
        elif binding.kind == "assign" and not binding.path:
            values.append(binding.value)
        for value in values:
            while isinstance(value, cst.BaseExpression) and not isinstance(value, cst.Name):
                kept = [part for part in self.forms.kept(value) if not isinstance(part, cst.BaseNumber)]
                value = kept[0] if len(kept) == 1 else None
            if isinstance(value, cst.Name):
                yield value

    def _reads_of(self, binding: Binding) -> Iterator[cst.Name]:
        """Where names are read that the same statement binds, but for how many rows they have."""
        scope = self.tree.scope_of(binding.node)
        beside = [b for bindings in scope.bindings.values() for b in bindings if b.node is binding.node]
        for other in beside:
            for read in self.tree.names[other.name]:
                if (
                    self.tree.is_read(read)
                    and other in self.resolver.reaching(read)
                    and not is_size(self.tree, self.resolver, read)
                ):
                    yield read
