"""Which calls may still read a file, on the other workers, when the chief comes to write over it or to move it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from migrator.facts.files.known import SUMMARY_WRITER
from migrator.facts.files.meetings import Meetings
from migrator.facts.files.paths import Paths, lies_in
from migrator.facts.files.writes import Files
from migrator.facts.objects.origins import Origins
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function
from migrator.facts.program.tree import Tree

_MOST_CALLS = 40  # ways by which a function comes to run
# They are told where a file is, and do not read it now.
_NO_READERS = (
    "builtins.print", "builtins.str", "logging.", "os.path.", "os.makedirs", "os.mkdir", "pathlib.", "tempfile.",
    "keras.callbacks.", SUMMARY_WRITER,
)  # fmt: skip
_LISTING = frozenset({"append", "extend", "insert", "add"})  # methods that keep a path in a list
_DATASETS = re.compile(r"^tensorflow\.data\.|_dataset_from_directory$")
# What is opened is read later.
_ARRAYS = "numpy.load"
_OPENS = re.compile(
    r"^(?:numpy\.load|builtins\.open|io\.open|codecs\.open|(?:gzip|bz2|lzma|shelve|tarfile)\.open|zipfile\.ZipFile"
    r"|h5py\.File|tensorflow\.(?:io\.)?gfile\.(?:GFile|FastGFile|Open))$"
)
_TAKES_AWAY = re.compile(r"(?:^|\.)(?:rmtree|rmdir|remove|unlink|move|rename|replace|DeleteRecursively|Remove|Rename)$")


class StillRead:
    def __init__(self, tree: Tree, resolver: Resolver, files: Files, paths: Paths, meetings: Meetings) -> None:
        self.tree = tree
        self.resolver = resolver
        self.files = files
        self.paths = paths
        self.meetings = meetings
        self._origins = Origins(resolver)

    def reads(self, first: cst.CSTNode, writing: Sequence[cst.Call]) -> Iterator[cst.Call]:
        """The calls that all workers may not be done with when the chief comes to the first statement of those in which
        these calls write, and that may read what is written there."""
        writing = [call for call in writing if not self.files.is_shown(call)]
        for read in self.tree.calls if writing else ():
            is_one = any(self._may_read(read, call) for call in writing)
            if is_one and any(self._comes_upon(place, first) for place in self._read_at(read)):
                yield read

    def is_in(self, read: cst.Call, loop: cst.CSTNode) -> bool:
        """Whether the loop runs the call."""
        return any(self.tree.contains(loop, place) for way in self._ways(read) for place in way)

    def is_open_behind(self, read: cst.Call, block: cst.CSTNode) -> bool:
        """Whether the workers may come out of the block, one by one, without having met since the call has read."""
        for way in self._ways(read):
            for place in way:
                inside = self.tree.contains(block, place)
                if self.meetings.behind(place, block if inside else None):
                    break
                if inside:
                    return True
        return False

    # -- files ---------------------------------------------------------------------------------------------------

    def _may_read(self, read: cst.Call, write: cst.Call) -> bool:
        if read is write:
            return False
        written = self.files.paths(write)
        if read in self.files.cached_downloads:
            return self._takes_away(write) and read in self._origins.behind_all(written)
        if read not in self.files.looks and read not in self.files.reads:
            return self._is_given(read, written)
        paths = self.files.paths(read)
        names, others = [self.paths.spelled(p) for p in written], [self.paths.spelled(p) for p in paths]
        if names and others and all(p[:1] in "'\"" for p in (*names, *others)):
            return any(lies_in(one, other) or lies_in(other, one) for one in names for other in others)
        if any(self.paths.may_be_same(one, other) for one in paths for other in written):
            return True
        # Which files there are is taken from the chief where it matters, and data are not written over.
        is_of_others = bool(self.files.asking_in(read)) or self.files.lists(read) or self._makes_dataset(read)
        return (not is_of_others or self._takes_away(write)) and not self.paths.differ(written, paths)

    def _makes_dataset(self, read: cst.Call) -> bool:
        return any(map(_DATASETS.search, self.resolver.public(read.func)))

    def _takes_away(self, write: cst.Call) -> bool:
        """Whether it takes files away, or a folder with all that is in it."""
        values = self.resolver.values(write.func)
        is_method = isinstance(write.func, cst.Attribute) and _TAKES_AWAY.search(write.func.attr.value) is not None
        return is_method or any(isinstance(v, External) and _TAKES_AWAY.search(v.path) for v in values)

    def _is_given(self, call: cst.Call, written: Sequence[cst.BaseExpression]) -> bool:
        """Whether a call that nobody knows is given the path."""
        if any(write.node is call for write in self.files.writes):
            return False
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in _LISTING:
            return False
        values = self.resolver.values(call.func)
        if any(isinstance(v, Function) or (isinstance(v, External) and v.path.startswith(_NO_READERS)) for v in values):
            return False
        return any(self.paths.may_be_same(arg.value, path) for arg in call.args for path in written)

    def _read_at(self, read: cst.Call) -> Iterator[cst.CSTNode]:
        """Where the file is read: by the call, or by what is done later with the file that it has opened."""
        header = self.tree.parent[read]
        is_opened = isinstance(header, cst.WithItem) or (isinstance(header, cst.For) and header.iter is read)
        yield self.tree.statement_of(read) if is_opened else read
        if isinstance(header, cst.Assign):
            opens = {
                v.path for v in self.resolver.values(read.func) if isinstance(v, External) and _OPENS.match(v.path)
            }
            names = [target.target.value for target in header.targets if isinstance(target.target, cst.Name)]
            for use in (use for name in names if opens for use in self.tree.names[name]):
                is_use = self.tree.is_read(use) and any(b.node is header for b in self.resolver.reaching(use))
                if is_use and (opens != {_ARRAYS} or self._asks_for_array(use)):
                    yield use

    def _asks_for_array(self, use: cst.Name) -> bool:
        """Whether one of several arrays of a file is asked for by its name: it is only read then."""
        parent = self.tree.parent[use]
        if isinstance(parent, cst.Attribute):
            return parent.attr.value in ("items", "values")
        index = parent.slice[0].slice if isinstance(parent, cst.Subscript) else None
        return isinstance(index, cst.Index) and isinstance(index.value, (cst.BaseString, cst.Name))

    # -- ways ----------------------------------------------------------------------------------------------------

    def _comes_upon(self, read: cst.CSTNode, write: cst.CSTNode) -> bool:
        """Whether the write may follow on the read before all workers have met."""
        ends = [list(self._open_ends(way)) for way in self._ways(write)]
        for way in self._ways(read):
            for place in self._left(way):
                for end in ends:
                    if any(self._follows(place, other) for other in end):
                        return True
        return False

    def _ways(self, node: cst.CSTNode) -> Iterator[list[cst.CSTNode]]:
        """The node with the calls through which it comes to run, the innermost first."""
        queue, number = [[node]], 0
        while queue and number < _MOST_CALLS:
            way, number = queue.pop(0), number + 1
            function = self.tree.function_of(way[-1])
            callers = [c for c in self.resolver.callers(function) if c not in way] if function is not None else []
            queue += [[*way, caller] for caller in callers]
            if not callers:
                yield way

    def _left(self, way: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
        """The places of a way from the read outwards, as long as the workers have not met in its functions since."""
        for place in way:
            yield place
            if self.meetings.behind(place, None):
                return

    def _open_ends(self, way: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
        """The places of a way to the write, as long as the workers do not meet in its functions before."""
        for place in way:
            yield place
            if self.meetings.above(place, None):
                return

    def _follows(self, read: cst.CSTNode, write: cst.CSTNode) -> bool:
        """Whether, in one function, the second may follow on the first with no meeting between them."""
        function = self.tree.function_of(read)
        if function is not self.tree.function_of(write):
            return self._are_hooks_of_one_time(read, write)
        if function is None and self.tree.module_of(read) is not self.tree.module_of(write):
            return not self.meetings.above(write, None)
        loops = list(self.tree.loops_around(write))
        loop = next((loop for loop in self.tree.loops_around(read) if loop in loops), None)
        if loop is not None and not self.meetings.behind(read, loop) and not self.meetings.above(write, loop):
            return True
        if self.tree.order[write] <= self.tree.order[read] or self.tree.are_exclusive(read, write):
            return False
        return self._runs_into(read, write)

    def _runs_into(self, read: cst.CSTNode, write: cst.CSTNode) -> bool:
        """Whether nobody waits between a read and a write further down."""
        around = [self.tree.statement_of(write), *self.tree.ancestors(self.tree.statement_of(write))]
        for owner in self.tree.ancestors(read) if read not in around else ():
            if isinstance(owner, (cst.IndentedBlock, cst.Module)) and owner in around:
                first, last = self.tree.lift(read, owner), self.tree.lift(write, owner)
                if first is None or last is None or first is last:
                    return not self.meetings.above(write, first)
                is_met = self.meetings.behind(read, owner) or self.meetings.between(first, last)
                return not (is_met or self.meetings.above(write, owner))
        return not self.meetings.above(write, read)

    def _are_hooks_of_one_time(self, read: cst.CSTNode, write: cst.CSTNode) -> bool:
        """Whether both stand in methods of one name that a library calls: in those of two callbacks, say, one after the
        other."""
        one, other = self.tree.function_of(read), self.tree.function_of(write)
        if one is None or other is None or one.name.value != other.name.value:
            return False
        return not any(self.resolver.callers(function) for function in (one, other))
