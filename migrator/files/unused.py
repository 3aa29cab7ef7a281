"""Functions and classes that no code of a program names: nothing runs them, so nothing is judged by what they do.

Where the program is refused with them, such as for a helper of another script, they are left as they are, and the rest
is asked again. Each place counts that has the name, unless it is seen to mean something else, as in `tf.train`, and
nothing is left out where code may be found by names that are made, or read, as the program runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Callable, Union

import libcst as cst

from migrator.facts.objects.met_alike import is_main
from migrator.facts.program.modules import Script
from migrator.facts.program.tree import nodes_in
from migrator.facts.script import Facts
from migrator.files import found_by_name
from migrator.files.programs import Program
from migrator.findings.results import Finding, Outcome, Remarks
from migrator.notebooks.cells import SUFFIX
from migrator.records import dataclass
from migrator.text.parsing import parse
from migrator.text.source import Source, mentions_training

_Definition = Union[cst.FunctionDef, cst.ClassDef]

# What they make of a function hands it to nobody.
_LEAVING = frozenset({
    "abc.abstractmethod", "builtins.classmethod", "builtins.property", "builtins.staticmethod", "tensorflow.function",
})  # fmt: skip
_REASON = "nothing that the program runs names this, and it is left as it is"
_ADVICE = "migrate it with the script that runs it"


@dataclass(frozen=True)
class Unused:
    """A definition that nothing names: the text of its body, from where to where, and its lines."""

    name: str
    start: int
    end: int
    first_line: int
    last_line: int
    column: int

    def among(self, outcome: Outcome) -> list[Finding]:
        """The findings that stand in it."""
        return [f for f in outcome.findings if self.first_line <= f.line <= self.last_line]


def asked_of_used(
    scripts: Sequence[Script],
    sources: Mapping[Path, Source],
    program: Program,
    asked: Callable[[Sequence[Script]], Mapping[Path, Outcome]],
) -> dict[Path, Outcome]:
    """What comes of the files without what nothing in them runs, where that is refused, or too much to be analysed, and
    a training is left; else what comes of all of them. Raises RecursionError."""
    together: dict[Path, Outcome] | None
    try:
        together = dict(asked(scripts))
    except RecursionError:
        together = None
    if together is not None and not _refusals(together):
        return together
    left = unused(scripts, Facts(scripts, site_packages=program.site_packages))
    apart = _apart(scripts, sources, program, left, together, asked) if left else None
    if apart is not None:
        return apart
    if together is None:
        raise RecursionError
    return together


def _apart(
    scripts: Sequence[Script],
    sources: Mapping[Path, Source],
    program: Program,
    left: Mapping[Path, Sequence[Unused]],
    together: Mapping[Path, Outcome] | None,
    asked: Callable[[Sequence[Script]], Mapping[Path, Outcome]],
) -> dict[Path, Outcome] | None:
    if together is not None and not any(
        finding.is_refusal for path, several in left.items() for one in several for finding in one.among(together[path])
    ):
        return None
    used = [without(script, left.get(script.path, ())) for script in scripts]
    if not _train(used, program):
        return None  # a library, whose training nothing here runs, is judged by all that it has
    found = asked(used)
    if together is not None and _refusals(found) > _refusals(together):
        return None
    whole: dict[Path, Outcome] = {}
    for script in scripts:
        path = script.path
        before = together[path] if together is not None else None
        outcome = put_back(script, sources[path], found[path], left.get(path, ()), before)
        if outcome is None:
            return None
        whole[path] = outcome
    return whole


def _train(scripts: Sequence[Script], program: Program) -> bool:
    """Whether something trains that runs: in what is named, and not in the self-test of a file that others import."""
    facts = Facts(scripts, site_packages=program.site_packages)
    imported = {other for path, others in program.imported.items() for other in others - {path}}

    def runs(call: cst.Call) -> bool:
        is_imported = facts.scripts[facts.tree.module_of(call)].path in imported
        is_test = is_imported and any(isinstance(o, cst.If) and is_main(o) for o in facts.tree.ancestors(call))
        return not is_test and not facts.training.is_never_run(call)

    return any(map(runs, facts.training.sites))


def _refusals(found: Mapping[Path, Outcome]) -> int:
    return sum(len(outcome.refusals) for outcome in found.values())


def unused(scripts: Sequence[Script], facts: Facts) -> dict[Path, list[Unused]]:
    """The functions and classes at the top of the files that nothing in the program names which may run."""
    waiting: list[tuple[Script, _Definition]] = []
    running: list[cst.CSTNode] = []
    for script in scripts:
        for statement in script.module.body:
            if _may_be_left(statement, script, facts):
                assert isinstance(statement, (cst.FunctionDef, cst.ClassDef))
                running += _headers(statement)
                waiting.append((script, statement))
            else:
                running.append(statement)
    named: set[str] = set()
    makes_models = False
    while running and waiting:
        if any(found_by_name.may_find(node, facts) for node in running):
            return {}
        named.update(found_by_name.names(*running, facts=facts))
        if any(isinstance(definition, cst.ClassDef) for _, definition in waiting):
            makes_models = makes_models or any(map(found_by_name.makes_models, running))
        running = [
            definition
            for _, definition in waiting
            if definition.name.value in named
            or (isinstance(definition, cst.ClassDef) and (makes_models or f"{definition.name.value}." in named))
        ]
        waiting = [one for one in waiting if one[1] not in running]
    found: dict[Path, list[Unused]] = {}
    for script, definition in waiting:
        found.setdefault(script.path, []).append(_extent(script, definition, facts))
    return found


def without(script: Script, several: Sequence[Unused]) -> Script:
    """The script with an expression of the same extent in the place of each body."""
    if not several:
        return script
    text = script.text
    for one in several:
        text = text[: one.start] + _filled(text[one.start : one.end]) + text[one.end :]
    return replace(script, module=parse(text), text=text)


def put_back(
    script: Script, source: Source, outcome: Outcome, several: Sequence[Unused], before: Outcome | None
) -> Outcome | None:
    """What came of the file without these, with them again; `before`: what comes of it with them. None where something
    would be changed in one."""
    if any(change.start < one.end and one.start < change.end for change in outcome.changes for one in several):
        return None
    old = script.text + script.left_out
    parts, position = [], 0
    for change in outcome.changes:
        parts += [old[position : change.start], change.new]
        position = change.end
    text = "".join([*parts, old[position:]])
    told = tuple(finding for one in several for finding in _told(one, old, before))
    lines = [_line_after(outcome, old, one) for one in told]
    moved = tuple(replace(one, line=line, end_line=line) for one, line in zip(told, lines))
    remarks = Remarks(tuple(sorted((*outcome.remarks.trusted, *told))), outcome.remarks.unused)
    after = Remarks(tuple(sorted((*outcome.remarks_after.trusted, *moved))), outcome.remarks_after.unused)
    data = source.encode(text) if outcome.is_changed else outcome.old
    return replace(outcome, data=data, old_text=old, text=text, remarks=remarks, remarks_after=after)


def _line_after(outcome: Outcome, old: str, finding: Finding) -> int:
    """The line of the finding in the new text."""
    starts = [0, *(m.end() for m in re.finditer("\n", old))]
    shift = 0
    for change in outcome.changes:
        if change.end <= starts[finding.line - 1]:
            shift += change.new.count("\n") - old.count("\n", change.start, change.end)
    return finding.line + shift


def _told(one: Unused, text: str, before: Outcome | None) -> Iterator[Finding]:
    """That it is left, if there was something to do, or may have been."""
    rules = [f.rule for f in one.among(before)] if before is not None else []
    if before is None and mentions_training(text[one.start : one.end].encode()):
        rules = ["all-reduce-gradients"]
    end = one.column + len(one.name)
    for rule in rules[:1]:
        yield Finding(one.first_line, one.column, rule, _REASON, _ADVICE, False, one.first_line, end, one.name)


def _may_be_left(statement: cst.CSTNode, script: Script, facts: Facts) -> bool:
    """Whether the statement does nothing, as it stands, but to give a name to a function or a class."""
    if script.path.suffix == SUFFIX or not isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
        return False
    if not isinstance(statement.body, cst.IndentedBlock) or not _leave_it(statement.decorators, facts):
        return False
    if isinstance(statement, cst.FunctionDef):
        return not statement.name.value.startswith("__")  # a module's own __getattr__, say
    if not found_by_name.is_kept_by_none(statement, facts):
        return False
    for part in statement.body.body:
        if isinstance(part, cst.FunctionDef):
            if not _leave_it(part.decorators, facts):
                return False
        elif not isinstance(part, cst.SimpleStatementLine) or any(isinstance(n, cst.Call) for n in nodes_in(part)):
            return False
    return True


def _leave_it(decorators: Sequence[cst.Decorator], facts: Facts) -> bool:
    """Whether these are known not to keep what they decorate, for others to find."""

    def leaves(node: cst.BaseExpression) -> bool:
        function = node.func if isinstance(node, cst.Call) else node
        names = facts.resolver.public_alone(function)
        return bool(names) and set(names) <= _LEAVING

    return all(leaves(decorator.decorator) for decorator in decorators)


def _headers(definition: _Definition) -> Iterator[cst.CSTNode]:
    """What is evaluated where the function or class is defined."""
    yield from definition.decorators
    if isinstance(definition, cst.FunctionDef):
        params = definition.params
        for param in (*params.posonly_params, *params.params, *params.kwonly_params):
            if param.default is not None:
                yield param.default
        return
    yield from definition.bases
    for part in definition.body.body:
        if isinstance(part, cst.FunctionDef):
            yield from _headers(part)
        else:
            yield part


def _extent(script: Script, definition: _Definition, facts: Facts) -> Unused:
    spans = facts.spans(script.module)
    start, end = spans.span(definition.body.body[0])[0], spans.span(definition.body.body[-1])[1]
    line, column = facts.position(definition.name)
    last = script.text.count("\n", 0, end) + 1
    return Unused(definition.name.value, start, end, line, last, column)


def _filled(body: str) -> str:
    """A string that takes as many lines and columns as the body; one that has no room for its quotes stays."""
    stripped = body.rstrip()
    quotes = '"""'
    if "\n" in body[:3] or "\n" in stripped[-3:] or len(stripped) < 2 * len(quotes):
        return body
    middle = re.sub(r"[^\r\n]", ".", stripped[3:-3])
    return quotes + middle + quotes + body[len(stripped) :]
