"""What a script writes: checkpoints, models, arrays, plots, summaries, and where it reads them again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import libcst as cst

from migrator.facts.files import known
from migrator.facts.files.animations import Animations
from migrator.facts.files.commands import Commands
from migrator.facts.files.opening import Openings
from migrator.facts.files.paths import Paths
from migrator.facts.files.restores import Restores
from migrator.facts.files.written_rows import WrittenRows
from migrator.facts.names import api
from migrator.facts.objects.kinds import Kinds, origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import (
    Class,
    Element,
    External,
    Function,
    Member,
    Object,
    Value,
    calls,
    is_call_of,
)
from migrator.facts.ports.ranks import Ranks
from migrator.facts.program.syntax import argument, method_called
from migrator.facts.program.tree import Statement, Tree
from migrator.records import dataclass


@dataclass(frozen=True, eq=False)
class Write:
    """A statement that writes files, or several in a row: what opens a file, writes to it, and closes it."""

    node: cst.CSTNode
    statement: Statement
    is_with: bool = False
    following: tuple[Statement, ...] = ()

    @property
    def statements(self) -> tuple[Statement, ...]:
        return (self.statement, *self.following)


class Told(NamedTuple):
    """What is written into a file, or names it, and a call that may read that; `is_inside`: the call tells the names of
    files, and this is in them."""

    written: cst.CSTNode
    read: cst.Call
    is_inside: bool


class Files:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, ranks: Ranks) -> None:
        self.tree = tree
        self.resolver = resolver
        self._commands = Commands(resolver)
        self.kinds = kinds
        self.ranks = ranks
        self.openings = Openings(tree, resolver, ranks)
        self.restores = Restores(tree, resolver, kinds)
        self._names = Paths(tree, resolver)
        self._animations = Animations(tree, resolver, kinds)

    @cached_property
    def writes(self) -> list[Write]:
        """The places that write files, in source order, a `with open(…, "w")` as a whole."""
        found: dict[cst.CSTNode, Write] = {}
        rows = WrittenRows(self.tree, self.resolver, self.kinds, self.openings.is_opening)
        in_rows: set[Statement] = set()
        for call in self.tree.calls:
            if self.openings.is_opening(call) and self.tree.statement_of(call) not in in_rows:
                with_ = self.openings.with_around(call)
                row = rows.row(call) if with_ is None else ()
                if row:
                    in_rows |= set(row)
                    found.setdefault(call, Write(call, row[0], following=row[1:]))
                elif with_ is not None:
                    found.setdefault(with_, Write(call, with_, is_with=True))
                elif isinstance(self.tree.parent.get(call), cst.Arg) or self._is_used_at_once(call):
                    found.setdefault(call, Write(call, self.tree.statement_of(call)))
            elif self._is_write(call) or call in self.fetches:
                found.setdefault(call, Write(call, self.tree.statement_of(call)))
        return sorted(found.values(), key=lambda w: self.tree.order[w.node])

    @cached_property
    def fetches(self) -> set[cst.Call]:
        """Calls that download files, unpack them, or run a command that may."""
        found = set()
        for call in self.tree.calls:
            paths = self.resolver.public(call.func)
            name = method_called(call)
            owners = self.resolver.values(call.func.value) if isinstance(call.func, cst.Attribute) else ()
            unpacks = name in known.UNPACKING and any(origin(v).startswith(known.ARCHIVES) for v in owners)
            if unpacks or (any(map(known.FETCHING.match, paths)) and not self._is_told(call)):
                found.add(call)
        return found

    def _is_told(self, call: cst.Call) -> bool:
        """Whether it runs a program that leaves all as it is."""
        return self._commands.only_reads(call) or self._commands.only_asks(call)

    @cached_property
    def cached_downloads(self) -> list[cst.Call]:
        """Downloads that are only looked up where the file is there already: Keras's `get_file`."""
        return [
            call
            for call in self.tree.calls
            if any(
                name in ("keras.utils.get_file", "keras.utils.data_utils.get_file")
                for name in self.resolver.public(call.func)
            )
        ]

    def _is_used_at_once(self, call: cst.Call) -> bool:
        """`open(path, "w").close()`, `open(path, "w").write(text)`: a statement of its own."""
        method = self.tree.parent.get(call)
        used = self.tree.parent.get(method) if isinstance(method, cst.Attribute) else None
        return isinstance(used, cst.Call) and isinstance(self.tree.parent.get(used), cst.Expr)

    def told_again(self) -> Iterator[Told]:
        """What is written into files, or names them, with the calls that may read these afterwards."""
        for write in self.writes:
            paths = [path for c in self._calls_of(write) for path in self.paths(c, most=2)]
            reads = [r for r in self.looks if self._may_read(r, write, paths)]
            for call in self.tree.calls if reads else ():
                if self.tree.is_in(call, write.statements) and not self._is_given(call):
                    yield from self._told(call, paths, write.node, reads)
        for opening in self.opened:
            write = Write(opening, self.tree.statement_of(opening))
            reads = [r for r in self.looks if self._may_read(r, write, self.paths(opening))]
            for call in self.openings.written_by(opening) if reads else ():
                yield from self._told(call, (), opening, reads)

    def _told(
        self, call: cst.Call, paths: Sequence[cst.BaseExpression], write: cst.CSTNode, reads: Sequence[cst.Call]
    ) -> Iterator[Told]:
        """What the call is given that writes, or is a part of that."""
        opened = self.resolver.public(write.func) if isinstance(write, cst.Call) else ()
        names_others = any(path.startswith(known.ARCHIVES) for path in opened)  # files, once it is unpacked
        for arg in call.args:
            is_name = names_others or any(self.tree.contains(path, arg.value) for path in paths)
            yield from (Told(arg.value, r, self.lists(r) and not is_name) for r in reads if r is not call)

    def _is_given(self, call: cst.Call) -> bool:
        """Whether another call is given what this one returns, and with it what this one is given."""
        return isinstance(self.tree.parent.get(call), cst.Arg)

    def _may_read(self, read: cst.Call, write: Write, written: list[cst.BaseExpression]) -> bool:
        """Whether the call reads what was written: by the same text, from a list of files, or further down by a path
        that only the run tells."""
        paths = self.paths(read)
        if any(self._names.may_be_same(path, other) for path in paths for other in written):
            return True
        if all(isinstance(path, cst.SimpleString) for path in (*paths, *written)) and not self.lists(read):
            return False
        same = self.tree.function_of(read) is self.tree.function_of(write.node)
        return self._may_follow(read, write.node) if same else self.lists(read)

    def asks(self, node: cst.CSTNode) -> bool:
        """Whether something in the node asks if a file is there, or which there are."""
        return bool(self.asking_in(node)) or any(self.lists(c) for c in self.tree.calls if self.tree.contains(node, c))

    def _asks(self, call: cst.Call) -> bool:
        paths = self.resolver.public(call.func)
        name = method_called(call)
        return any(map(known.ASKING.match, paths)) or (name in known.PATH_ASKERS and self.openings.is_path(call))

    def asking_in(self, node: cst.CSTNode) -> list[cst.Call]:
        """The calls in the node that ask whether a file is there."""
        return [c for c in self.tree.calls if self.tree.contains(node, c) and self._asks(c)]

    def lists(self, read: cst.Call) -> bool:
        """Whether the call tells the names of files."""
        paths = self.resolver.public(read.func)
        name = method_called(read)
        return any(map(known.LISTING.match, paths)) or name in known.PATH_LISTERS

    @cached_property
    def folders(self) -> list[cst.Call]:
        """Calls that make a folder, and fail where it is there already, if they are not told otherwise."""
        found = []
        for call in self.tree.calls:
            paths = set(self.resolver.public(call.func))
            is_method = (
                isinstance(call.func, cst.Attribute) and call.func.attr.value == "mkdir" and self.openings.is_path(call)
            )
            if is_method or paths & known.FOLDERS:
                found.append(call)
        return found

    def is_shown(self, call: cst.CSTNode) -> bool:
        """Whether the call shows a window: no file is made."""
        return isinstance(call, cst.Call) and "matplotlib.pyplot.show" in self.resolver.public(call.func)

    def _may_follow(self, later: cst.CSTNode, node: cst.CSTNode) -> bool:
        """Whether the one may run after the other in their function: it stands below, or in a loop with it."""
        loops = set(self.tree.loops_around(node))
        return self.tree.order[later] > self.tree.order[node] or any(
            loop in loops for loop in self.tree.loops_around(later)
        )

    def paths(self, call: cst.Call, most: int = 1) -> list[cst.BaseExpression]:
        """The path that a call is of: its first argument, or what its method is one of (`Path("a.txt").read_text()`);
        of calls that are not known, with `most`, one of the first arguments. Of copies and new names both paths."""
        func = call.func
        is_method = (
            isinstance(func, cst.Attribute) and func.attr.value in known.PATH_METHODS and self.openings.is_path(call)
        )
        if not is_method:
            for value in self.resolver.values(func):
                if isinstance(value, Member) and calls(value.owner) == "tensorflow.train.CheckpointManager":
                    return []  # it is given a number
                for writer, places in known.PATHS_OF.items():
                    if isinstance(value, External) and writer.match(value.path):
                        return [arg.value for arg in call.args[places]]
            return [arg.value for arg in call.args[:most]]
        owner = cst.ensure_type(func, cst.Attribute).value
        if isinstance(owner, cst.Call) and len(owner.args) == 1 and self.resolver.public(owner.func):
            return [owner.args[0].value]
        return [owner]  # `folder.joinpath("a.txt").read_text()`

    def _calls_of(self, write: Write) -> Iterator[cst.Call]:
        """The calls of the statement that may write, but not those that only put a path together."""
        calls = (c for c in self.tree.calls if self.tree.contains(write.node, c) and (c is write.node or write.is_with))
        return (c for c in calls if c is write.node or not self._makes_path(c))

    def _makes_path(self, call: cst.Call) -> bool:
        names = self.resolver.public_alone(call.func)
        return bool(names) and all(name.startswith("os.path.") for name in names)

    @cached_property
    def looks(self) -> list[cst.Call]:
        """Calls that read files or ask whether they are there."""
        return [
            call
            for call in self.tree.calls
            if call in self.reads
            or (any(map(known.LOOKING.match, self.resolver.public(call.func))) and not self.openings.is_opening(call))
        ]

    @cached_property
    def opened(self) -> list[cst.Call]:
        """Files that are opened for writing outside of a `with`, and log files: they stay open, and no one statement
        writes them."""
        found = []
        for call in self.tree.calls:
            paths = set(self.resolver.public(call.func))
            logs = paths & known.LOG_FILES or (
                "logging.basicConfig" in paths and argument(call, "filename") is not None
            )
            opens = (
                self.openings.is_opening(call)
                and self.openings.with_around(call) is None
                and not self._is_in_write(call)
            )
            if opens or (logs and not self.openings.is_parted(call)):
                found.append(call)
        return found

    def _is_in_write(self, call: cst.Call) -> bool:
        """`pickle.dump(history, open(path, "wb"))`: the statement as a whole is guarded."""
        return any(self.tree.contains(statement, call) for w in self.writes for statement in w.statements)

    @cached_property
    def summary_writers(self) -> list[cst.Call]:
        return [call for call in self.tree.calls if known.SUMMARY_WRITER in self.resolver.public(call.func)]

    @cached_property
    def reads(self) -> list[cst.Call]:
        """Calls that read what a script of this kind writes."""
        return [call for call in self.tree.calls if self._is_read(call)]

    def only_lists(self, read: cst.Call) -> bool:
        """Whether it only asks for the names of the files in a folder, and reads none of them."""
        names = self.resolver.public_alone(read.func)
        is_method = isinstance(read.func, cst.Attribute) and read.func.attr.value in known.PATH_LISTERS
        if is_method and self.openings.is_path(read):
            return True
        return bool(names) and all(known.LISTING.match(name) and name != "os.scandir" for name in names)

    def is_chief_only(self, node: cst.CSTNode) -> bool:
        """Whether the node runs on one rank alone already."""
        return self.ranks.is_guarded(node)

    def is_in_chiefs_callback(self, node: cst.CSTNode) -> bool:
        """Whether it runs in a callback that the other workers leave out, as it derives from one that writes files."""
        queue, seen = [node], set[cst.CSTNode]()
        while queue:
            place = queue.pop()
            classes = (owner for owner in self.tree.ancestors(place) if isinstance(owner, cst.ClassDef))
            if any(self.resolver.derives_from(Class(cls), api.WRITING_CALLBACKS.__contains__) for cls in classes):
                return True
            function = self.tree.function_of(place)
            if function is not None and function not in seen:
                seen.add(function)
                queue += self.resolver.callers(function)
        return False

    # -- kinds of calls ------------------------------------------------------------------------------------------

    def _is_write(self, call: cst.Call) -> bool:
        if call.args and any(origin(v) in known.MEMORY for v in self.resolver.values(call.args[0].value)):
            return False  # `savefig(buffer)`
        if isinstance(call.func, cst.Attribute):
            name = call.func.attr.value
            for owner in self.resolver.values(call.func.value):
                if name in known.MODEL_WRITERS and self._has_weights(owner) and not self._is_own_method(call):
                    return True
                if name in known.CHECKPOINT_WRITERS and is_call_of(owner, *known.CHECKPOINTS):
                    return True
                if name == "savefig" and self._is_figure(owner):
                    return True
                if name == "save" and (origin(owner).startswith(known.PICTURES) or self.kinds.is_dataset(owner)):
                    return True
                if name == "save" and self._animations.is_one(owner):
                    return True
                if name in known.PATH_WRITERS and origin(owner).startswith("pathlib."):
                    return True
                if name in known.TABLE_WRITERS and origin(owner).startswith("pandas."):
                    return True
        return any(map(known.WRITING_FUNCTIONS.match, self.resolver.public(call.func)))

    def _has_weights(self, owner: Value) -> bool:
        # `self.model` inside of a Keras callback is the model that is being fitted, and holds others.
        part = owner
        while isinstance(part, Member):
            if part.name == "model" and self._is_callback(part.owner):
                return True
            part = part.owner
        return self.kinds.has_weights(owner)

    def _is_callback(self, value: Value) -> bool:
        return isinstance(value, Object) and self.resolver.derives_from(
            value.of, lambda path: path.startswith("keras.callbacks.")
        )

    def _is_own_method(self, call: cst.Call) -> bool:
        return any(isinstance(v, Function) for v in self.resolver.values(call.func))

    def _is_figure(self, owner: Value) -> bool:
        return bool(known.FIGURES.match(calls(owner.of if isinstance(owner, Element) else owner)))

    def _is_read(self, call: cst.Call) -> bool:
        if any(map(known.READING_FUNCTIONS.match, self.resolver.public(call.func))):
            return True
        if (
            isinstance(call.func, cst.Attribute)
            and call.func.attr.value in known.PATH_READERS
            and self.openings.is_path(call)
        ):
            return True
        return call in self.restores.calls or self._commands.only_reads(call)
