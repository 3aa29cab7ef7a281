"""Paths that differ from worker to worker: temporary folders, names with the time in them.

What the chief writes under such a path, no other worker finds under its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.files.writes import Files
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Value
from migrator.facts.program.tree import Tree, semantic_children

_OWN = re.compile(
    r"^(?:tempfile\.(?:mkdtemp|mkstemp|mktemp|TemporaryDirectory|NamedTemporaryFile)|uuid\.uuid\d|os\.getpid"
    r"|time\.(?:time|time_ns|strftime|ctime|asctime|localtime|gmtime)|datetime\.(?:datetime|date)\.(?:now|utcnow|today))$"
)
_UNIQUE = re.compile(r"^(?:tempfile\.\w+|uuid\.uuid[14])$")
_NO_READERS = ("builtins.", "logging.", "os.", "tempfile.", "pathlib.", "shutil.")
_WRITING_CALLBACKS = frozenset({"keras.callbacks.ModelCheckpoint"})


class WorkerPaths:
    def __init__(self, tree: Tree, resolver: Resolver, files: Files) -> None:
        self.tree = tree
        self.resolver = resolver
        self.files = files

    def lost_reads(self) -> Iterator[cst.Call]:
        """Calls that read what the chief alone has written, under a path that is this worker's own."""
        written = {origin for write in self._written() for origin in self._origins(write, set())}
        for read in self.files.reads if written else ():
            if not self.files.is_chief_only(read) and written & set(self._origins(read, set())):
                yield read

    def is_read_by_itself(self, write: cst.CSTNode) -> bool:
        """Whether each worker writes into a folder that is surely its own, and reads it again there."""
        mine = {origin for origin in self._origins(write, set()) if self._is_unique(origin)}
        if not mine or any(not self._is_unique(origin) for origin in self._origins(write, set())):
            return False
        kept = {origin for node in self._written_by_callbacks() for origin in self._origins(node, set())}
        return not mine & kept and any(mine & set(self._origins(read, set())) for read in self._may_read)

    @cached_property
    def _may_read(self) -> list[cst.Call]:
        """Calls that may read a file whose path they are given: those that read files, and those that nobody knows."""
        writing = {write.node for write in self.files.writes}
        return [
            call
            for call in self.tree.calls
            if call in self.files.looks
            or not (call in writing or any(map(_reads_nothing, self.resolver.values(call.func))))
        ]

    def _is_unique(self, call: cst.Call) -> bool:
        return any(isinstance(v, External) and _UNIQUE.match(v.path) for v in self.resolver.values(call.func))

    def _written(self) -> Iterator[cst.CSTNode]:
        yield from (write.node for write in self.files.writes if not self.is_read_by_itself(write.node))
        yield from self._written_by_callbacks()

    def _written_by_callbacks(self) -> Iterator[cst.CSTNode]:
        for call in self.tree.calls:
            paths = {v.path for v in self.resolver.values(call.func) if isinstance(v, External)}
            if paths & _WRITING_CALLBACKS:
                yield call

    def _origins(self, node: cst.CSTNode, seen: set[cst.CSTNode]) -> Iterator[cst.Call]:
        """The calls that make a value of this worker's own, on which the expression depends."""
        if node in seen:
            return
        seen.add(node)
        if isinstance(node, cst.Call) and any(
            isinstance(v, External) and _OWN.match(v.path) for v in self.resolver.values(node.func)
        ):
            yield node
            return
        if isinstance(node, (cst.Name, cst.Attribute)):
            bindings = self.resolver.reaching(node) if isinstance(node, cst.Name) else self.resolver.bindings_of(node)
            for binding in bindings:
                given = self.resolver.given(binding.node) if isinstance(binding.node, cst.Param) else [binding.value]
                for value in given:
                    if isinstance(value, cst.BaseExpression):
                        yield from self._origins(value, seen)
        for child in semantic_children(node):
            yield from self._origins(child, seen)


def _reads_nothing(value: Value) -> bool:
    return origin(value).startswith(_NO_READERS)
