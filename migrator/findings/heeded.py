"""What the user's comments make of the findings: what is ignored or taken on trust, and which comments are needless."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

import libcst as cst

from migrator.analysis.placement import Partial, Placement, Sharded
from migrator.edits import Refusal, Trust
from migrator.facts.script import Facts
from migrator.findings.found import Found, site
from migrator.findings.results import Finding, Remarks
from migrator.findings.words import FILE_IGNORE, IGNORE, PER_FILE, Word
from migrator.records import dataclass
from migrator.rule import Rule

_HELPS_NOT = "to ignore it does not help: the rest would train another model"


@dataclass(frozen=True)
class Heeding:
    """How far the user's word counts.

    `is_strict`: only what is said is taken on trust, nothing by convention. `has_ignored`: comments may have something
    ignored. `may_train_whole`: data that cannot be split may be trained on by every worker. `only_looks`: nothing is
    written, and what a refusal would take back is told with the rest. `ignored`: the rules that the settings ignore in
    a file.
    """

    is_strict: bool = False
    has_ignored: bool = True
    may_train_whole: bool = True
    only_looks: bool = False
    ignored: Mapping[Path, tuple[str, ...]] = field(default_factory=dict)

    def words(self, facts: Facts) -> list[Word]:
        """The comments that are heeded, and what the settings say."""
        said = [w for w in facts.words if self.has_ignored or w.kind not in (IGNORE, FILE_IGNORE)]
        return said + [
            Word(script.module, PER_FILE, rules=rules)
            for path, rules in self.ignored.items()
            for script in [facts.scripts_at.get(path)]
            if script is not None and rules
        ]


@dataclass
class Heeded:
    """`found`: the findings, with what is taken on the user's word; `needless`: the comments that change nothing."""

    found: dict[Path, list[Found]]
    needless: list[Word] = field(default_factory=list)


def heed(facts: Facts, found: Mapping[Path, Sequence[Found]], rules: Mapping[str, Rule], heeding: Heeding) -> Heeded:
    """Leaves out what the user ignores, where the rest trains the same model without it; else it is a refusal.

    Where nothing else is written for the whole program, everything may be ignored: the program stays as it is.
    """
    words = heeding.words(facts)
    if not words:
        return Heeded({path: list(several) for path, several in found.items()})
    ignored = {
        f: word for fs in found.values() for f in fs for word in [_ignoring(facts, words, f)] if word is not None
    }
    is_edited = any(f.edit is not None and f not in ignored for fs in found.values() for f in fs)
    heeded: dict[Path, list[Found]] = {}
    for path, several in found.items():
        heeded[path] = []
        for one in several:
            word = ignored.get(one)
            if word is not None:
                is_needed = one.breaks_training if one.edit is None else not rules[one.rule].optional
                trusted = Found(one.rule, _trust(site(one.what), word, _told(one)))
                one = _refused(one, word) if is_edited and is_needed else trusted
            heeded[path].append(one)
    against = _contradicted(facts)
    used = {*ignored.values(), *_needed(facts)} - against.keys()
    for word in _needed(facts):
        if word.statement is not None:
            heeded[facts.scripts[word.module].path].append(Found("", _trust(word.statement, word)))
    return Heeded(heeded, [word for word in words if word not in used and word.kind != PER_FILE])


def _ignoring(facts: Facts, words: Sequence[Word], found: Found) -> Word | None:
    """The word that has the finding ignored."""
    node = site(found.what)
    if isinstance(found.what, Trust) or isinstance(node, cst.Module):
        return None
    statement, module = facts.tree.statement_of(node), facts.tree.module_of(node)
    for word in words:
        is_meant = word.statement is statement if word.kind == IGNORE else word.module is module
        if found.rule in word.rules and word.kind in (IGNORE, FILE_IGNORE, PER_FILE) and is_meant:
            return word
    return None


def _told(found: Found) -> str:
    return found.what.reason if isinstance(found.what, (Refusal, Trust)) else found.summary.rstrip(".")


def _refused(found: Found, word: Word) -> Found:
    if isinstance(found.what, Refusal):
        return replace(found, what=replace(found.what, advice=f"{found.what.advice}; {_HELPS_NOT}"))
    told = _told(found)
    reason = f"what this rule writes here is ignored, and needed: {told[:1].lower()}{told[1:]}"
    mending = f"take it out of {PER_FILE}" if word.kind == PER_FILE else "take the comment away"
    return replace(found, what=Refusal(site(found.what), reason, f"{mending}; {_HELPS_NOT}", True))


def _trust(node: cst.CSTNode, word: Word, what: str = "") -> Trust:
    said = f"{word.text} {word.reason}".strip()
    if not what:
        return Trust(node, said, is_word=True)
    return Trust(node, f"{said} ({what[:1].lower()}{what[1:]})", is_word=True, ignored_by=said)


def _needed(facts: Facts) -> list[Word]:
    """The comments on values and conditions that say what would not be known without them."""
    nodes = facts.losses.needed_words | facts.decisions.agreed_by_word
    return list(dict.fromkeys(word for node, word in facts.stated.words.items() if node in nodes))


def _contradicted(facts: Facts) -> dict[Word, Placement]:
    """The comments that say something else than is seen, and what that is."""
    against = facts.losses.contradicted
    return {word: against[node] for node, word in facts.stated.words.items() if node in against}


def needless(facts: Facts, word: Word) -> Finding:
    """What the user reads of a comment that changes nothing."""
    ((line, column),) = facts.positions(word.module, [word.offset])
    seen = _contradicted(facts).get(word)
    told = f"nothing here needs `# migrate: {word.text}`"
    if seen is not None:
        told = f"`# migrate: {word.text}` is not heeded: this is {_as_seen(seen)}"
    return Finding(line, column, "", told, end_line=line, end_column=column)


def _as_seen(placement: Placement) -> str:
    if isinstance(placement, Partial):
        return f"a {placement.reduction} over the samples"
    return "a value of each sample" if isinstance(placement, Sharded) else "made of the number of samples"


def told(
    before: Mapping[Found | Word, Finding], now: Mapping[Found | Word, Finding]
) -> tuple[tuple[Finding, ...], Remarks]:
    """The findings, as they are now, in the order of their places before; and what is to be remarked beside them."""
    findings: dict[Finding, Finding] = {}
    trusted: dict[Finding, Finding] = {}
    unused: dict[Finding, Finding] = {}
    for one, finding in before.items():
        is_trust = isinstance(one, Found) and isinstance(one.what, Trust)
        (unused if isinstance(one, Word) else trusted if is_trust else findings)[finding] = now[one]
    in_order = [tuple(kind[finding] for finding in sorted(kind)) for kind in (findings, trusted, unused)]
    return in_order[0], Remarks(*in_order[1:])
