"""What the patterns of a `match` statement compare with values."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

_DISPLAYS = (cst.Tuple, cst.List)


def compared_by(pattern: cst.MatchPattern, subject: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The parts of the subject that the pattern compares with a value, as far as the subject is written out; else the
    subject. What is only taken apart, or only gets a name, is not compared."""
    if isinstance(pattern, cst.MatchAs):
        if pattern.pattern is not None:
            yield from compared_by(pattern.pattern, subject)
    elif isinstance(pattern, cst.MatchOr):
        for element in pattern.patterns:
            yield from compared_by(element.pattern, subject)
    elif isinstance(pattern, cst.MatchSequence) and isinstance(subject, _DISPLAYS) and _is_plain(pattern, subject):
        for part, value in zip(pattern.patterns, subject.elements):
            if isinstance(part, cst.MatchSequenceElement):
                yield from compared_by(part.value, value.value)
    elif any(isinstance(part, (cst.MatchValue, cst.MatchSingleton)) for part in _parts(pattern)):
        yield subject


def _is_plain(pattern: cst.MatchSequence, subject: cst.Tuple | cst.List) -> bool:
    return all(isinstance(part, cst.MatchSequenceElement) for part in pattern.patterns) and not any(
        isinstance(element, cst.StarredElement) for element in subject.elements
    )


def _parts(pattern: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield pattern
    for part in pattern.children:
        yield from _parts(part)
