"""The names of a running function, class body or module, and what the objects of the program hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import libcst as cst

from migrator.analysis.values import NOTHING, Atom, Value, join
from migrator.facts.program.tree import Scope

Names = dict[str, Value]


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
    loops: list[Loop] = field(default_factory=list)
    # The conditions that have decided that the code which runs now does.
    conditions: list[Value] = field(default_factory=list)


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
class _Cell:
    value: Value
    is_read: bool


class Heap:
    """What objects hold, at each of their fields: all that is ever stored there, whenever that is."""

    def __init__(self, chosen: Callable[[Value], Value], filled: Callable[[Atom], None]) -> None:
        """`chosen` gives what is stored as it is under the conditions that decide that it is; `filled` is told of the
        object that gets it."""
        self._chosen = chosen
        self._filled = filled
        self._cells: dict[tuple[Atom, object], _Cell] = {}
        self._fields: dict[Atom, dict[object, None]] = {}
        self._read_empty: set[tuple[Atom, object]] = set()
        self.version = 0
        self._journal: list[tuple[tuple[Atom, object], Value]] | None = None
        self.is_stale = False  # something was read before all of it was stored

    def load(self, owner: Atom, key: object) -> Value:
        cell = self._cells.get((owner, key))  # once: objects are slow keys
        if cell is None:
            self._read_empty.add((owner, key))
            return NOTHING
        cell.is_read = True
        return cell.value

    def store(self, owner: Atom, key: object, value: Value) -> None:
        value = self._chosen(value)
        self._filled(owner)
        cell = self._cells.get((owner, key))
        before = cell.value if cell is not None else NOTHING
        after = join(before, value)
        if after is before or after == before:
            return
        if cell is None:
            cell = self._cells[owner, key] = _Cell(after, (owner, key) in self._read_empty)
        if self._journal is not None:
            self._journal.append(((owner, key), before))
        cell.value = after
        self._fields.setdefault(owner, {})[key] = None
        self.version += 1
        self.is_stale = self.is_stale or cell.is_read

    @contextmanager
    def undone_later(self) -> Iterator[Callable[[], None]]:
        """Gives what takes back all that is stored meanwhile, but for what is `kept`."""
        journal: list[tuple[tuple[Atom, object], Value]] = []
        before, is_stale = self.version, self.is_stale

        def undo() -> None:
            for (owner, key), value in reversed(journal):
                self._cells[owner, key].value = value
                if value is NOTHING:
                    del self._cells[owner, key]
                    del self._fields[owner][key]
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

    def forget_reads(self) -> None:
        self._read_empty.clear()
        for cell in self._cells.values():
            cell.is_read = False

    def held(self) -> Iterator[tuple[Atom, Value]]:
        """Each object that holds something, with what it holds."""
        for (owner, _), cell in self._cells.items():
            yield owner, cell.value

    def fields(self, owner: Atom) -> list[object]:
        return list(self._fields.get(owner, ()))
