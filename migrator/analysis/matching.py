"""What the patterns of a `match` statement take out of a value, and whether they ask for more than its form: how many
parts it has, and which, is the same on all workers of a batch, whatever its rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import values as v
from migrator.analysis.ops.call import NOT_CONSTANT
from migrator.analysis.placement import REPLICATED, Sharded
from migrator.analysis.values import NONE, NOTHING, Container, Instance, Tuple, Value
from migrator.records import replace

if TYPE_CHECKING:
    from migrator.analysis.run import Run


def is_of_form(run: Run, pattern: cst.MatchPattern, subject: Value) -> bool:
    """Whether the form of the value alone decides if it matches, and that is the same on all workers."""
    if isinstance(pattern, cst.MatchAs):
        return pattern.pattern is None or is_of_form(run, pattern.pattern, subject)
    if isinstance(pattern, cst.MatchOr):
        return all(is_of_form(run, element.pattern, subject) for element in pattern.patterns)
    if isinstance(pattern, (cst.MatchValue, cst.MatchSingleton)):
        return False
    return _has_one_form(run, subject) and all(
        is_of_form(run, part, x) for part, x in _parts(run, pattern, subject) if part is not None
    )


def _has_one_form(run: Run, subject: Value) -> bool:
    """Whether it is a tuple, a record, a dictionary with known keys, or a batch of tensors: not a list with as many
    items as a worker has rows."""
    data, atom = subject.data, subject.only
    if data is not None:
        is_batch = data.placement in (REPLICATED, Sharded(0)) and data.nested
        return is_batch and not data.listed and not data.needs and not subject.objects
    is_record = isinstance(atom, Instance) and bool(run.classes.fields(atom.cls))
    return isinstance(atom, Tuple) or is_record or (isinstance(atom, Container) and _has_known_keys(run, atom))


def _has_known_keys(run: Run, atom: Container) -> bool:
    keys = run.heap.fields(atom)
    is_known = bool(keys) and all(isinstance(key, str) for key in keys)
    return is_known and (atom.kind == "record" or (atom.kind == "dict" and not run.lacking.lacks_any(atom)))


def matches(run: Run, pattern: cst.MatchPattern, subject: Value) -> bool | None:
    """Whether the value surely matches, or surely does not; None where that is not known."""
    if isinstance(pattern, cst.MatchAs):
        return True if pattern.pattern is None else matches(run, pattern.pattern, subject)
    if isinstance(pattern, cst.MatchSequence) and isinstance(subject.only, Tuple) and subject.data is None:
        starred = any(isinstance(part, cst.MatchStar) for part in pattern.patterns)
        count, least = len(subject.only.items), len(pattern.patterns) - starred
        if count < least or (count > least and not starred):
            return False
        found = [matches(run, part, x) for part, x in _parts(run, pattern, subject) if part is not None]
        return False if False in found else None if None in found else True
    return None


def bind(run: Run, pattern: cst.MatchPattern, subject: Value) -> Iterator[tuple[str, Value]]:
    """The names in the pattern, with what they get."""
    if isinstance(pattern, cst.MatchAs):
        if pattern.pattern is not None:
            yield from bind(run, pattern.pattern, subject)
        if pattern.name is not None:
            yield pattern.name.value, subject
    elif isinstance(pattern, cst.MatchOr):
        for element in pattern.patterns:
            yield from bind(run, element.pattern, subject)
    else:
        for part, value in _parts(run, pattern, subject):
            if part is not None:
                yield from bind(run, part, value)
        for name in _rest_of(pattern):
            yield name, _rest(run, pattern, subject)


def _rest_of(pattern: cst.MatchPattern) -> list[str]:
    """The name that gets what is left: `*rest`, `**rest`."""
    if isinstance(pattern, cst.MatchMapping):
        return [pattern.rest.value] if pattern.rest is not None else []
    stars = [p for p in getattr(pattern, "patterns", ()) if isinstance(p, cst.MatchStar)]
    return [star.name.value for star in stars if star.name is not None]


def _rest(run: Run, pattern: cst.MatchPattern, subject: Value) -> Value:
    items = _items(run, subject)
    if isinstance(pattern, cst.MatchMapping) or items is None:
        return subject
    patterns = getattr(pattern, "patterns", ())
    first = next(i for i, part in enumerate(patterns) if isinstance(part, cst.MatchStar))
    return v.of(Tuple(tuple(items[first : len(items) - (len(patterns) - first - 1)])))


def _parts(run: Run, pattern: cst.MatchPattern, subject: Value) -> Iterator[tuple[cst.MatchPattern | None, Value]]:
    """The patterns inside of the pattern, with the part of the value that each is for."""
    if isinstance(pattern, cst.MatchSequence):
        yield from zip(_patterns(pattern.patterns), _parts_of_sequence(run, pattern.patterns, subject))
    elif isinstance(pattern, cst.MatchMapping):
        for element in pattern.elements:
            key = element.key.evaluated_value if isinstance(element.key, cst.SimpleString) else None
            yield element.pattern, _named(run, subject, key if isinstance(key, str) else None)
    elif isinstance(pattern, cst.MatchClass):
        fields = _fields(run, subject)
        for i, part in enumerate(pattern.patterns):
            name = fields[i] if i < len(fields) else None
            yield part.value, _named(run, subject, name) if fields else subject
        for keyword in pattern.kwds:
            yield keyword.pattern, _named(run, subject, keyword.key.value)


def _patterns(parts: Sequence[cst.CSTNode]) -> Iterator[cst.MatchPattern | None]:
    for part in parts:
        yield part.value if isinstance(part, cst.MatchSequenceElement) else None


def _items(run: Run, subject: Value) -> list[Value] | None:
    atom = subject.only
    if isinstance(atom, Instance) and run.classes.is_named_tuple(atom.cls):
        return [run.heap.load(atom, name) for name in run.classes.fields(atom.cls)]
    return run.objects.sequence_items(subject)


def _parts_of_sequence(run: Run, patterns: Sequence[cst.CSTNode], subject: Value) -> list[Value]:
    items = _items(run, subject)
    starred = next((i for i, part in enumerate(patterns) if isinstance(part, cst.MatchStar)), None)
    if items is not None and starred is None and len(items) == len(patterns):
        return items
    if items is not None and starred is not None and len(items) >= len(patterns) - 1:
        return [*items[:starred], NONE, *items[len(items) - (len(patterns) - starred - 1) :]]
    tuples = [a for a in subject.objects if isinstance(a, Tuple) and len(a.items) == len(patterns)]
    if (
        len(tuples) == 1
        and starred is None
        and all(isinstance(a, Tuple) for a in subject.objects)
        and (subject.data is None or subject.is_none)
    ):
        return list(tuples[0].items)
    return [run.objects.parts(subject)] * len(patterns)


def _fields(run: Run, subject: Value) -> list[str]:
    """Those of the record that the value is."""
    atom = subject.only
    if isinstance(atom, Instance):
        return run.classes.fields(atom.cls)
    is_record = isinstance(atom, Container) and atom.kind == "record"
    return [key for key in run.heap.fields(atom) if isinstance(key, str)] if is_record and atom is not None else []


def _named(run: Run, subject: Value, name: str | None) -> Value:
    """What the value has under that name; any part of it, where no name is known."""
    if name is None:
        return run.objects.parts(subject)
    found = NOTHING
    for atom in subject.objects:
        if isinstance(atom, Container):
            found = v.join(found, run.objects.container_item(atom, v.constant(name)))
        elif isinstance(atom, Instance):
            found = v.join(found, run.heap.load(atom, name))
        else:
            found = v.join(found, run.objects.parts(v.of(atom)))
    data = subject.data
    if data is not None and data.nested:
        found = v.join(found, Value(replace(data, constant=NOT_CONSTANT, rank=None, counts=())))
    elif data is not None:
        found = v.join(found, run.objects.parts(Value(data)))
    return found if found is not NOTHING else run.objects.parts(subject)
