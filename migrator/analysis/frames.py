"""The names of a running function, class body or module, and what the objects of the program hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

import libcst as cst

from migrator.analysis.values import NOTHING, Atom, Value, forgotten, join
from migrator.facts.program.tree import Scope

Names = dict[str, Value]
ELEMENT = "element"  # of a dataset


@dataclass(eq=False)
class Loop:
    """A loop that is running: the names where it is left, and where a turn ends early."""

    breaks: list[Names] = field(default_factory=list)
    continues: list[Names] = field(default_factory=list)


@dataclass(eq=False)
class Frame:
    """A function, class body or module that runs. `names` is None behind a `return`, where nothing runs; when it has
    ended, they are those where it `ended`, which functions made in it go on to read.

    `context` tells on which way of calls it runs, as far as objects made on different ways are kept apart.
    """

    scope: Scope
    parent: Frame | None
    context: tuple[int, ...] = ()
    names: Names | None = field(default_factory=dict)
    receiver: Value = NOTHING
    owner: cst.ClassDef | None = None
    returned: Value = NOTHING
    ended: list[Names] = field(default_factory=list)
    yielded: Value = NOTHING
    has_ended: bool = False
    loops: list[Loop] = field(default_factory=list)
    # The conditions that have decided that the code which runs now does.
    conditions: list[Value] = field(default_factory=list)
    # What the arrays hold by now that parameters are given, and that are changed in place.
    filled: dict[str, Value] = field(default_factory=dict)


def join_names(states: Iterable[Names | None]) -> Names | None:
    """The names where several ways meet; a name that one of them does not have is as on the others."""
    found: Names | None = None
    for names in states:
        if names is None or names is found:
            continue
        if found is None:
            found = names
            continue
        merged = dict(found)
        for name, value in names.items():
            known = merged.get(name)
            if known is None:
                merged[name] = value
            elif known is not value:
                merged[name] = join(known, value)
        found = merged
    return found


@dataclass(eq=False)
class Cell:
    """What an object holds at one of its fields, or which fields it has, or all objects; `version`: that of the heap
    when it was changed last."""

    value: Value = NOTHING
    is_read: bool = False
    version: int = 0


class _Stored(NamedTuple):
    """Where something is stored, with what was there before, since when, and whether that was read."""

    at: tuple[Atom, object]
    before: Value
    version: int
    is_read: bool


class Heap:
    """What objects hold, at each of their fields: all that is ever stored there, whenever that is."""

    def __init__(self, chosen: Callable[[Value], Value], filled: Callable[[Atom], None]) -> None:
        """`chosen` gives what is stored as it is under the conditions that decide that it is; `filled` is told of the
        object that gets it."""
        self._chosen = chosen
        self._filled = filled
        self._cells: dict[tuple[Atom, object], Cell] = {}
        self._fields: dict[Atom, dict[object, None]] = {}
        self._empty: dict[tuple[Atom, object], Cell] = {}  # of what was read where nothing is held
        self._of_fields: dict[Atom, Cell] = {}
        self._all = Cell()
        self.version = 0
        self.changes = 0  # all that is stored, taken back or no longer read: what was found before may be another now
        self.elsewhere = 0  # of the changes, those of what else objects are known by
        self.reads: set[Cell] = set()  # what was read until now, by the calls that run
        self._journal: list[_Stored] | None = None
        self.is_stale = False  # something was read before all of it was stored

    def load(self, owner: Atom, key: object) -> Value:
        cell = self._cells.get((owner, key))  # once: objects are slow keys
        if cell is None:
            cell = self._empty.get((owner, key))
            if cell is None:
                cell = self._empty[owner, key] = Cell()
        cell.is_read = True
        self.reads.add(cell)
        return cell.value

    def store(self, owner: Atom, key: object, value: Value, *, is_at_once: bool = False) -> None:
        """`is_at_once`: it is read where it is stored, and never again."""
        # What is kept may be read in another turn; of a dataset, each element is told by itself when it is read.
        value = self._chosen(value if is_at_once or key == ELEMENT else forgotten(value))
        self._filled(owner)
        cell = self._cells.get((owner, key))
        before = cell.value if cell is not None else NOTHING
        after = join(before, value)
        if after is before or after == before:
            return
        self.version += 1
        self.changes += 1
        if cell is None:
            cell = self._cells[owner, key] = self._empty.pop((owner, key), Cell())
            self._fields.setdefault(owner, {})[key] = None
            self._note_fields(owner)
        if self._journal is not None:
            self._journal.append(_Stored((owner, key), before, cell.version, cell.is_read))
        cell.value = after
        cell.version = self._all.version = self.version
        self.is_stale = self.is_stale or cell.is_read

    @contextmanager
    def undone_later(self) -> Iterator[Callable[[], None]]:
        """Gives what takes back all that is stored meanwhile, but for what is `kept`."""
        journal: list[_Stored] = []
        before, is_stale = self.version, self.is_stale

        def undo() -> None:
            self.changes += 1
            for stored in reversed(journal):
                cell = self._cells[stored.at]
                cell.value, cell.version = stored.before, stored.version
                if stored.before is NOTHING:
                    cell.is_read = stored.is_read
                    self._empty[stored.at] = self._cells.pop(stored.at)
                    owner, key = stored.at
                    del self._fields[owner][key]
                    self._note_fields(owner)
            if before + len(journal) == self.version:
                self.version, self.is_stale = before, is_stale
            journal.clear()

        self._journal = journal
        try:
            yield undo
        finally:
            self._journal = None

    @contextmanager
    def kept(self) -> Iterator[None]:
        """While what is stored is not taken back."""
        journal, self._journal = self._journal, None
        try:
            yield
        finally:
            self._journal = journal

    @contextmanager
    def reading(self) -> Iterator[set[Cell]]:
        """Gives what is read meanwhile."""
        before, self.reads = self.reads, set()
        try:
            yield self.reads
        finally:
            before |= self.reads
            self.reads = before

    def forget_reads(self) -> None:
        self.changes += 1
        for cell in (*self._cells.values(), *self._empty.values()):
            cell.is_read = False

    def held(self) -> Iterator[tuple[Atom, Value]]:
        """Each object that holds something, with what it holds."""
        self.reads.add(self._all)
        for (owner, _), cell in self._cells.items():
            yield owner, cell.value

    def fields(self, owner: Atom) -> list[object]:
        cell = self._of_fields.get(owner)
        if cell is None:
            cell = self._of_fields[owner] = Cell()
        self.reads.add(cell)
        return list(self._fields.get(owner, ()))

    def _note_fields(self, owner: Atom) -> None:
        cell = self._of_fields.get(owner)
        if cell is not None:
            cell.version = self.version

    def change_elsewhere(self) -> None:
        """Notes that what else objects are known by has changed."""
        self.version += 1
        self.elsewhere += 1
