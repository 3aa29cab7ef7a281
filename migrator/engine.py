"""A program from source to source: parse once, find the facts, ask the rules, apply their edits, check the outcome."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import libcst as cst

from migrator.analysis.packages import UsedUp
from migrator.by_run import asked_apart
from migrator.edits import Edit, Guard, InsertBefore, Refusal, Trust, Wrap
from migrator.edits.apply import Edited
from migrator.edits.crowded import crowded, parted
from migrator.edits.unbound import without_unbound
from migrator.facts.program.modules import Script
from migrator.facts.script import Facts
from migrator.files.imports import reachable
from migrator.files.programs import Program
from migrator.files.self_tests import without_self_tests
from migrator.files.unused import asked_of_used
from migrator.findings.found import Found, changes_of, extent, finding_of, moved, site, with_causes
from migrator.findings.heeded import Heeded, Heeding, heed, needless, told
from migrator.findings.missing import pointed_out
from migrator.findings.results import Defect, Failure, Finding, Outcome
from migrator.findings.words import UnknownWord, Word, check_rules
from migrator.garbage import seldom_collected
from migrator.registry import all_rules, needed
from migrator.rule import Rule
from migrator.targets import Spelling, Target
from migrator.targets.lockstep import LOCKSTEP
from migrator.text.lines import line_and_column, line_starts
from migrator.text.parsing import OLDEST_PYTHON, ScriptSyntaxError, is_python, parse
from migrator.text.source import Source, UnreadableSource, is_about_training, mentions_training
from migrator.text.spans import UnprintableSource
from migrator.trained_whole import (
    is_half_split,
    is_trained_whole,
    left_whole,
    may_be_written,
    may_train_whole,
    sends_as_much,
    trained_whole,
    with_what_is_left,
)

# Of more files than these, the folder is named that holds them.
_LONGEST_COMMAND = 12
# A source that is mostly data takes 2,000 times its size as a tree of libcst.
_LARGEST_SCRIPT = 1_000_000
# Python frames, of which the walks take up to 20 for each level of an expression.
_DEEPEST_RECURSION = 8000
# All that the user says counts, and what libraries do by convention.
_HEEDING = Heeding()


class BrokenOutput(Defect):
    """The edits gave text that is not Python: a defect of this tool, and the file is left alone."""


def migrate(data: bytes, rules: Sequence[Rule], target: Target = LOCKSTEP, heeding: Heeding = _HEEDING) -> Outcome:
    """Applies the rules to the bytes of one file, spelled in the API of the target.

    Raises UnreadableSource, ScriptSyntaxError, or BrokenOutput where the tool itself is at fault.
    """
    path = Path("script.py")
    outcome = migrate_program(Program({path: data}), rules, target, heeding)[path]
    if isinstance(outcome, Outcome):
        return outcome
    raise outcome


@seldom_collected()
def migrate_program(
    program: Program, rules: Sequence[Rule], target: Target = LOCKSTEP, heeding: Heeding = _HEEDING
) -> dict[Path, Outcome | Failure]:
    """Applies the rules to the files of a program, as one; gives what came of each file that is not mere context.

    `heeding`: how far the user's word counts. A file that cannot be read does not stop the others.
    """

    def together(part: Program) -> Mapping[Path, Outcome | Failure]:
        return _migrate_together(part, rules, target, heeding)

    return dict(asked_apart(program, together(program), together))


def _migrate_together(
    program: Program, rules: Sequence[Rule], target: Target, heeding: Heeding
) -> dict[Path, Outcome | Failure]:
    done: dict[Path, Outcome | Failure] = {p: Outcome(data, data) for p, data in program.files.items()}
    done.update(program.unread)
    sources: dict[Path, Source] = {}
    scripts: dict[Path, Script] = {}
    if is_about_training(*program.files.values()):
        for path in (path for path in program.files if path not in program.unread):
            if len(program.files[path]) > _LARGEST_SCRIPT:
                done[path] = Failure(
                    f"too large to be analysed (more than {_LARGEST_SCRIPT // 10**6} MB): keep data apart"
                )
                continue
            try:
                sources[path] = Source.decode(program.files[path])
                module = parse(sources[path].text)
                style = program.style_of(path).of(sources[path].text)
                scripts[path] = Script(path, module, sources[path].text, style=style)
            except (UnreadableSource, ScriptSyntaxError) as error:
                done[path] = error
    while scripts:
        failures = {path: outcome for path, outcome in done.items() if isinstance(outcome, Failure)}
        try:
            with _deep_recursion():
                scripts = {script.path: script for script in without_self_tests(list(scripts.values()), program)}

                asked = partial(_asked, sources, failures, program, rules, target, heeding)
                may_leave = not (heeding.is_strict or heeding.only_looks)
                several = list(scripts.values())
                found = asked_of_used(several, sources, program, asked) if may_leave else asked(several)
            done.update(found)
            break
        except UnknownWord as error:
            path = next(p for p, script in scripts.items() if script.module is error.module)
            done[path] = Failure(str(error), *line_and_column(line_starts(scripts[path].text), error.offset))
            del scripts[path]
        except UnprintableSource as error:
            path = next(p for p, script in scripts.items() if script.module is error.module)
            done[path] = ScriptSyntaxError("libcst, the parser of this tool, loses text here", *error.place)
            del scripts[path]
        except UsedUp:
            program = replace(program, site_packages=())
        except RecursionError:
            too_deep = Failure("the analysis of this program goes too deep: migrate fewer of its files at once")
            done.update((path, too_deep) for path in scripts if mentions_training(program.files[path]))
            break
    return {path: outcome for path, outcome in done.items() if path not in program.context}


def _asked(
    sources: Mapping[Path, Source],
    failures: Mapping[Path, Failure],
    program: Program,
    rules: Sequence[Rule],
    target: Target,
    heeding: Heeding,
    scripts: Sequence[Script],
) -> dict[Path, Outcome]:
    return dict(_migrate(scripts, sources, failures, program, rules, target, heeding))


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """Room for the walks over expressions of the depth that the parser lets pass; Python's own limit is for less."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEEPEST_RECURSION))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def _migrate(
    scripts: Sequence[Script],
    sources: Mapping[Path, Source],
    failures: Mapping[Path, Failure],
    program: Program,
    rules: Sequence[Rule],
    target: Target,
    heeding: Heeding,
) -> Iterator[tuple[Path, Outcome]]:
    written = {script.path: script for script in scripts}
    to_part: dict[Path, set[int]] = {path: set() for path in written}
    while True:
        facts, heeded, edits = _found(scripts, failures, program, rules, target, heeding)
        shared = {script: set(_places_to_part(facts, script, edits.get(script.path, ()))) for script in scripts}
        if not any(shared.values()):
            break
        # Statements that share a line with one that an edit is for get lines of their own, and all is asked again.
        for script, offsets in shared.items():
            to_part[script.path] |= offsets
        scripts = [parted(script, to_part[path]) if to_part[path] else script for path, script in written.items()]
    lacking = _lacking(facts, scripts, heeded.found, program, rules)
    for script in scripts:
        old = written[script.path].text + script.left_out
        findings: dict[Found | Word, Finding] = {f: finding_of(facts, f) for f in heeded.found[script.path]}
        sites: dict[Found | Word, tuple[int, int]] = {f: extent(facts, site(f.what)) for f in heeded.found[script.path]}
        for word in (word for word in heeded.needless if word.module is script.module):
            findings[word], sites[word] = needless(facts, word), (word.offset, word.offset)
        before, remarks = told(findings, findings)
        data = program.files[script.path]
        outcome = Outcome(data, data, before, old, old, before, remarks=remarks, remarks_after=remarks)
        outcome = replace(outcome, read=tuple(sorted(facts.sources.read)), trains_whole=facts.trains_whole)
        if script.path in edits:
            spans = facts.spans(script.module)
            edited = Edited(facts.tree, spans, edits[script.path], script.style)
            text = edited.text + script.left_out
            _check(old, text)
            new = edited.places(list(sites.values()))
            after, remarks_after = told(findings, moved(findings, sites, new, text))
            causes: dict[Edit, list[Finding]] = {}
            for one, finding in findings.items():
                if isinstance(one, Found) and one.edit is not None:
                    causes.setdefault(one.edit, []).append(finding)
            outcome = replace(
                outcome,
                data=sources[script.path].encode(text),
                text=text,
                findings_after=after,
                lacking=lacking,
                changes=changes_of(script, edited.changes, causes),
                remarks_after=remarks_after,
            )
        yield script.path, outcome


def _lacking(
    facts: Facts,
    scripts: Sequence[Script],
    kept: Mapping[Path, list[Found]],
    program: Program,
    rules: Sequence[Rule],
) -> tuple[tuple[str, str], ...]:
    """Rules that edit the program, with rules that they rely on, which were not asked and would find something."""
    editing = {f.rule for several in kept.values() for f in several if f.edit is not None}
    unasked = needed([rule for rule in rules if rule.id in editing], rules)
    if not unasked:
        return ()
    asked = _ask_each_part(facts, scripts, program, unasked)
    found = {f.rule for several in asked.values() for f in several if not isinstance(f.what, Trust)}
    return tuple(sorted((r.id, name) for r in rules if r.id in editing for name in r.needs if name in found))


def _places_to_part(facts: Facts, script: Script, edits: Sequence[Edit]) -> Iterator[int]:
    spans = facts.spans(script.module)
    for node in crowded(facts.tree, edits):
        yield script.written_offset(spans.span(node.body[0])[0])


def _found(
    scripts: Sequence[Script],
    failures: Mapping[Path, Failure],
    program: Program,
    rules: Sequence[Rule],
    target: Target,
    heeding: Heeding,
) -> tuple[Facts, Heeded, dict[Path, list[Edit]]]:
    """What the rules find in each file, and the edits of those that are to be changed. Where the data cannot be split,
    every worker trains on all of them, if nothing speaks against that either."""
    found = _found_with(None, scripts, failures, program, rules, target, heeding)
    if is_trained_whole(found[0], program):
        return _found_with({}, scripts, failures, program, rules, target, heeding, found[0])
    if heeding.is_strict or not heeding.may_train_whole:
        return found
    left = left_whole(found[0], found[1].found)
    if not may_train_whole(found[0], found[1].found, left, rules, target, program):
        return found
    whole = _found_with(left, scripts, failures, program, rules, target, heeding, found[0])
    if may_be_written(whole[1].found):
        return whole if sends_as_much(whole[0], found[0]) else found
    if not found[2]:
        found[1].found = with_what_is_left(found[1].found, whole[1].found)
    return found


def _found_with(
    left: Mapping[Path, Sequence[Found]] | None,
    scripts: Sequence[Script],
    failures: Mapping[Path, Failure],
    program: Program,
    rules: Sequence[Rule],
    target: Target,
    heeding: Heeding,
    before: Facts | None = None,
) -> tuple[Facts, Heeded, dict[Path, list[Edit]]]:
    """`left`: what is refused where the data are split; given where they are not. `before`: see Facts."""
    facts = Facts(scripts, target.package, program.site_packages, cuts=left is None, before=before)
    check_rules(facts.words, all_rules())
    spellings = {script.module: target.spelling(facts, script.module) for script in scripts}
    asked = _ask_each_part(facts, scripts, program, rules)
    found = _spelled({m: _alone(without_unbound(facts, m, several)) for m, several in asked.items()}, spellings)
    kept = {s.path: _without_trust(found[s.module]) if heeding.is_strict else found[s.module] for s in scripts}
    for path, refused in _beside_failed(facts, kept, failures, program):
        kept[path] = [refused]  # what else is found there may come of what could not be seen
    for path, refused in (*_outside(facts, kept, program), *_shadowed(facts, kept, program)):
        kept[path].append(refused)
    calls = {script.module: _calls(kept[script.path], spellings[script.module]) for script in scripts}
    for module, refused in _settings(facts, {module for module, nodes in calls.items() if nodes}):
        kept[facts.scripts[module].path].append(refused)
    for path, refused in _needed_early(facts, calls, target):
        kept[path].append(refused)
    kept = {path: [_pointed_out(facts, one) for one in several] for path, several in kept.items()}
    for path, refusals in (left or {}).items():
        kept[path] += map(trained_whole, refusals)
    heeded = heed(facts, kept, all_rules(), heeding)
    kept = heeded.found
    if heeding.only_looks:
        return facts, heeded, {}
    for path in _taken_back(kept, program):
        # Half a migration would train another model: what is left undone takes the rest with it.
        kept[path] = [f for f in kept[path] if f.edit is None]
    for path, several in kept.items():
        kept[path] = with_causes(facts, several)
    calls = {script.module: _calls(kept[script.path], spellings[script.module]) for script in scripts}
    joining = target.joining(facts, {module for module, nodes in calls.items() if nodes})
    edits = {
        script.path: [
            # First, so that they come first where several insert at one place.
            *_standard_imports(facts, script.module, kept[script.path]),
            *(spellings[script.module].imports(calls[script.module]) if script.module in joining else ()),
            # Once, what several rules want at one place: all workers have the chief's then.
            *dict.fromkeys(found.edit for found in kept[script.path] if found.edit is not None),
        ]
        for script in scripts
    }
    return facts, heeded, {path: own for path, own in edits.items() if own}


def _calls(found: Sequence[Found], spelling: Spelling) -> list[cst.CSTNode]:
    """The sites of a file whose edits call the target."""
    return [site(one.edit) for one in found if one.edit is not None and spelling.calls(one.edit)]


def _standard_imports(facts: Facts, module: cst.Module, found: Sequence[Found]) -> Iterator[InsertBefore]:
    wanted = {f.edit.imports for f in found if isinstance(f.edit, Wrap) and f.edit.imports}
    for name in sorted(wanted):
        if facts.standard_imports.name(module, name) is None:
            place, is_apart = facts.standard_imports.place(module, name)
            yield InsertBefore(place, (f"import {name}" + "\n" * is_apart,))


def _pointed_out(facts: Facts, found: Found) -> Found:
    return replace(found, what=pointed_out(facts, found.what)) if isinstance(found.what, Refusal) else found


def _alone(found: list[Found]) -> list[Found]:
    """The findings; of a file whose way to many devices leads no further, that one alone: what comes next would be
    asked about another script."""
    audits = {rule.id for rule in all_rules().values() if rule.is_audit}
    leads_elsewhere = any(f.rule == "already-distributed" and f.breaks_training for f in found)
    return [f for f in found if f.rule in audits] if leads_elsewhere else found


def _without_trust(found: Sequence[Found]) -> list[Found]:
    """The findings with refusals of what would be taken on trust."""

    def strict(one: Found) -> Found:
        if not isinstance(one.what, Trust):
            return one
        return replace(one, what=Refusal(one.what.node, one.what.reason, one.what.advice, breaks_training=True))

    return [strict(one) for one in found]


def _beside_failed(
    facts: Facts, found: Mapping[Path, list[Found]], failures: Mapping[Path, Failure], program: Program
) -> Iterator[tuple[Path, Found]]:
    """Refuses the files that take part in the training and run one that could not be analysed."""
    for path in [path for path, several in found.items() if several]:
        failed = sorted(reachable([path], program.imported) & failures.keys())
        if failed:
            module = facts.scripts_at[path].module
            names = ", ".join(other.name for other in failed)
            reason = f"this runs {names}, which cannot be analysed ({failures[failed[0]]})"
            node = facts.joining.import_leading_to(module, failed, program.imported) or module.body[0]
            refusal = Refusal(node, reason, "mend that file first, then migrate both together", breaks_training=True)
            yield path, Found(found[path][0].rule, refusal)


def _outside(facts: Facts, found: Mapping[Path, list[Found]], program: Program) -> Iterator[tuple[Path, Found]]:
    """Refuses the files that run together with one that needs a change, but is not of this run."""
    for path in found.keys() - program.context:
        needed = [
            other
            for other in sorted(reachable([path], program.imported) & program.context & found.keys())
            if any(f.edit is not None or f.breaks_training for f in found[other])
        ]
        imports = [facts.joining.import_of(facts.scripts_at[path].module, facts.scripts_at[p].module) for p in needed]
        node = next((node for node in imports if node is not None), None)
        if node is not None:
            names = ", ".join(other.name for other in needed)
            verb = "takes" if len(needed) == 1 else "take"
            reason = f"this runs {names}, which {verb} part in the training and {_be(needed)} not among the files given"
            together = [*sorted(found.keys() - program.context), *needed]
            if len(together) > _LONGEST_COMMAND:
                together = [Path(os.path.commonpath([p.parent for p in together]))]
            command = " ".join(shlex.quote(_near(p)) for p in together)
            rule = next(f.rule for f in found[needed[0]] if f.edit is not None or f.breaks_training)
            refusal = Refusal(node, reason, f"migrate them together: migrate {command}", breaks_training=True)
            yield path, Found(rule, refusal)


def _shadowed(facts: Facts, found: Mapping[Path, list[Found]], program: Program) -> Iterator[tuple[Path, Found]]:
    """Refuses what would import a file or folder of the user's in the place of the runtime."""
    shadow = program.shadow
    for path, several in found.items() if shadow is not None else ():
        module = facts.scripts_at[path].module
        if shadow is not None and (several or facts.joining.imports_runtime(module)):
            what = f"the package {shadow.parent.name}" if shadow.name == "__init__.py" else shadow.name
            reason = f"{what} beside the script has the name of the runtime, and would be imported in its place"
            refusal = Refusal(module.body[0], reason, "give it another name", breaks_training=True)
            yield path, Found("join-early", refusal)


def _be(several: Sequence[object]) -> str:
    return "is" if len(several) == 1 else "are"


def _near(path: Path) -> str:
    """The path as a command names it that is typed in this folder."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def _settings(facts: Facts, edited: Collection[cst.Module]) -> Iterator[tuple[cst.Module, Found]]:
    """Refuses the settings of devices that would come after the workers have joined in another file."""
    for call, node in facts.joining.settings_after_joining(edited):
        line = facts.position(node)[0]
        reason = f"this setting comes after the import of line {line}, in which the workers join"
        advice = "move it above that import, right below the one of TensorFlow"
        yield facts.tree.module_of(call), Found("join-early", Refusal(call, reason, advice, breaks_training=True))


def _needed_early(
    facts: Facts, calls: Mapping[cst.Module, Sequence[cst.CSTNode]], target: Target
) -> Iterator[tuple[Path, Found]]:
    """Refuses what would be needed above the import of TensorFlow, where the workers cannot join as early."""
    joining = facts.joining
    for module in target.joining(facts, {module for module, nodes in calls.items() if nodes}):
        own, place, nodes = joining.runtime_import(module), joining.after(module), calls[module]
        if place is None or (own is not None and joining.used_before(module, nodes, own) is None):
            continue
        drawn = joining.drawn_above(module, place) if target.joins_anywhere else []
        first = joining.used_before(module, [*nodes, *drawn], place)
        if first is None:
            continue
        path, line = facts.scripts[module].path, facts.position(first)[0]
        setting = joining.settings_between(module, first, place)
        if not target.joins_anywhere:
            reason, advice = "this needs the other workers before TensorFlow is imported", "move it below that import"
            yield path, Found("join-early", Refusal(first, reason, advice, breaks_training=True))
        elif setting is not None:
            is_drawn = joining.used_before(module, nodes, place) is not first
            needed = f"whose common seed line {line} needs" if is_drawn else f"whom line {line} needs"
            reason = f"this setting would come after the workers have joined, {needed}"
            seeded = ", or seed what is drawn there" if is_drawn else ""
            advice = f"move it above line {line}, or line {line} below the import of TensorFlow{seeded}"
            yield path, Found("join-early", Refusal(setting, reason, advice, breaks_training=True))


def _ask_each_part(
    facts: Facts, scripts: Sequence[Script], program: Program, rules: Sequence[Rule]
) -> dict[cst.Module, list[Found]]:
    """What the rules find in each file, where scripts that go another way to many devices are only read."""
    native, foreign = program.parts({facts.scripts[module].path for module in facts.ports.foreign_files})
    audits = [rule for rule in rules if rule.is_audit]
    if not (native and foreign):
        return _ask(facts, audits if foreign else rules)
    found: dict[cst.Module, list[Found]] = {module: [] for module in facts.tree.modules}
    for part, asked in ((native, rules), (foreign, audits)):
        apart = Facts([s for s in scripts if s.path in part], facts.package, program.site_packages)
        for module, more in _ask(apart, asked).items():
            found[module] += more
    for module in (facts.scripts_at[path].module for path in native & foreign & facts.scripts_at.keys()):
        edited = next((f for f in found[module] if f.edit is not None), None)
        if edited is not None:
            reason = "scripts that are distributed in another way already use this file, too"
            refusal = Refusal(site(edited.what), reason, "give each its own copy of what is changed here", True)
            found[module].append(Found("already-distributed", refusal))
    return found


def _ask(facts: Facts, rules: Sequence[Rule]) -> dict[cst.Module, list[Found]]:
    """What the rules find in each file. Where files call the runtime by several names, they are asked once for each."""
    found: dict[cst.Module, list[Found]] = {module: [] for module in facts.tree.modules}
    names = {module: facts.joining.runtime_name(module) for module in facts.tree.modules}
    for name in dict.fromkeys(names.values()):
        facts.runtime = name
        for rule in rules:
            for what in rule.find(facts):
                module = facts.tree.module_of(site(what))
                if names[module] == name:
                    found[module].append(Found(rule.id, what, rule.summary))
    return _without_waiting_alone(facts, found)


def _without_waiting_alone(facts: Facts, found: dict[cst.Module, list[Found]]) -> dict[cst.Module, list[Found]]:
    """What the chief alone runs must wait for nobody: the numbers that are told there stay its own, unless training is
    steered by what it wrote."""
    guards = [f.what for fs in found.values() for f in fs if isinstance(f.what, Guard)]
    guarded = [statement for guard in guards for statement in _guarded(facts, guard)]
    alone = [body for statement in guarded for body in facts.training.reached_from(statement)]

    def kept(one: Found) -> Iterator[Found]:
        if one.rule != "average-metrics" or not any(_holds(facts, body, one) for body in alone):
            yield one
        elif facts.decisions.is_the_chiefs(site(one.what)) and _decides_within(facts, guarded, site(one.what)):
            return  # the chief asks, and does what depends on it
        elif facts.decisions.steers_by(site(one.what)):
            ahead = _in_front(facts, guards, one)
            if ahead is not None:
                yield replace(one, what=ahead)
                return
            why = "this number is written into a file, and training is steered by it when it is read again"
            advice = "give it a name of its own in front of the write, as in `result = float(loss)`"
            refusal = Refusal(site(one.what), why, advice, breaks_training=True)
            yield Found(one.rule, refusal, one.summary)

    return {module: [k for f in fs for k in kept(f)] for module, fs in found.items()}


def _decides_within(facts: Facts, guarded: Sequence[cst.CSTNode], place: cst.CSTNode) -> bool:
    """Whether all that is asked of it is what an `if` does, and that stands in what is guarded."""
    asking = next((o for o in facts.tree.ancestors(place) if isinstance(o, (cst.If, cst.BaseStatement))), None)
    if not isinstance(asking, cst.If) or not facts.tree.contains(asking.test, place):
        return False
    return any(facts.tree.contains(statement, asking) for statement in guarded)


def _in_front(facts: Facts, guards: Sequence[Guard], found: Found) -> InsertBefore | None:
    """The mean that goes into a file, taken in front of the guard: what else reads the name later may have the mean,
    but for gradients."""
    wrap = found.what
    if not isinstance(wrap, Wrap) or not isinstance(wrap.node, cst.Name) or wrap.after != ")":
        return None
    name, tree = wrap.node, facts.tree
    guard = next((g for g in guards if any(tree.contains(s, name) for s in _guarded(facts, g))), None)
    bindings = facts.resolver.reaching(name)
    if guard is None or len(bindings) != 1 or bindings[0].kind != "assign":
        return None
    bound = bindings[0].node
    is_anew = list(tree.loops_around(bound)) == list(tree.loops_around(guard.first))
    is_beside = is_anew and tree.function_of(bound) is tree.function_of(guard.first)
    if not is_beside or tree.order[bound] > tree.order[guard.first]:
        return None
    tapes = (call for call in tree.calls if facts.training.flow.is_tape_call(call))
    later = (call for call in tapes if tree.order[call] > tree.order[guard.first])
    read = (other for call in later for arg in call.args for other in tree.names_in(arg.value))
    if any(bindings[0] in facts.resolver.reaching(other) for other in read):
        return None
    return InsertBefore(guard.first, (f"{name.value} = {facts.call('all_reduce', name.value)}",))


def _guarded(facts: Facts, guard: Guard) -> list[cst.CSTNode]:
    first, last = facts.tree.statement_of(guard.first), facts.tree.statement_of(guard.last)
    if guard.first is guard.last and guard.first is not first:
        return [guard.first]  # one of several statements on a line
    block = facts.tree.statements_beside(first)
    return block[block.index(first) : block.index(last) + 1]


def _holds(facts: Facts, body: cst.CSTNode, found: Found) -> bool:
    return found.edit is not None and facts.tree.contains(body, site(found.what))


def _spelled(
    found: Mapping[cst.Module, list[Found]], spellings: Mapping[cst.Module, Spelling]
) -> dict[cst.Module, list[Found]]:
    """The findings with every edit as the target spells it, which may be a refusal."""

    def spell(module: cst.Module, one: Found) -> Iterator[Edit | Refusal | Trust]:
        if isinstance(one.what, Refusal):
            yield spellings[module].refused(one.rule, one.what)
        elif isinstance(one.what, Trust):
            yield one.what
        else:
            yield from spellings[module].spell(one.what)

    return {
        module: [Found(one.rule, what, one.summary) for one in several for what in spell(module, one)]
        for module, several in found.items()
    }


def _taken_back(found: Mapping[Path, list[Found]], program: Program) -> set[Path]:
    """The files of which no edit may stay: those that run together with a refused one."""
    breaking = {p for p, fs in found.items() if any(f.breaks_training for f in fs)}
    if is_half_split(found):
        breaking |= {p for p, fs in found.items() if any(f.edit is not None for f in fs)}
    if not breaking or len(found) == 1:
        return breaking
    runs = [reachable([path], program.imported) for path in found]
    grew = True
    while grew:
        # Together with a file runs what any file imports along with it.
        together = {path for run in runs if run & breaking for path in run if found.get(path)}
        grew = not together <= breaking
        breaking |= together
    return breaking


def _check(old: str, new: str) -> None:
    """Raises BrokenOutput where a Python that takes the old text would not take the new one."""
    if is_python(new, OLDEST_PYTHON):
        return
    if is_python(old, OLDEST_PYTHON) or (is_python(old) and not is_python(new)):
        raise BrokenOutput("the edits would not leave valid Python")
    if not is_python(old):  # the interpreter at hand is older than the script's syntax: libcst, which is not, decides
        try:
            cst.parse_module(new)
        except cst.ParserSyntaxError as error:
            raise BrokenOutput(f"the edits would not leave valid Python (line {error.raw_line})") from None
