"""Every fixture comes out as it is written down, in every layout; second_run.py sees to it that it is accepted then."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest
from fixture_cases import FIXTURES, INDENT, Case, cases, refusal_lines, run, with_crlf, with_tabs

from migrator.registry import all_rules
from migrator.rule import Rule

CASES = cases()
ALL_CASES = [*CASES, *cases("npu")]
# Where a long call is broken depends on the columns to its left, and a tab is one of them.

each_case = pytest.mark.parametrize("case", ALL_CASES, ids=lambda case: case.name)
each_changed = pytest.mark.parametrize("case", [c for c in ALL_CASES if c.is_changed], ids=lambda case: case.name)
each_rule = pytest.mark.parametrize("rule", all_rules().values(), ids=lambda rule: rule.id)


@each_case
def test_comes_out_as_written_down(case: Case) -> None:
    outcome = case.run(case.before)
    assert outcome.data.decode() == case.after
    assert refusal_lines(outcome) == case.refusals


@each_changed
def test_after_differs_from_before_and_is_python(case: Case) -> None:
    assert case.after != case.before
    ast.parse(case.after)


@each_case
def test_crlf_form_gives_crlf_form(case: Case) -> None:
    assert case.run(with_crlf(case.before)).data.decode() == with_crlf(case.after)


@each_case
def test_tab_form_gives_tab_form(case: Case) -> None:
    before = with_tabs(case.before)
    # A script without blocks does not tell how it indents them.
    after = with_tabs(case.after) if before != case.before else case.after
    found = case.run(before).data.decode()
    compile(found, case.name, "exec", dont_inherit=True)  # no block mixes tabs and spaces
    # Within brackets a level may be a tab or the spaces that it is wide.
    assert found.expandtabs(INDENT) == after.expandtabs(INDENT)


@pytest.mark.parametrize("case", [c for c in CASES if c.whole_path.exists()], ids=lambda case: case.name)
def test_every_worker_trains_on_all_of_what_cannot_be_split(case: Case) -> None:
    outcome = run(case.before, extend_select=[case.rule], may_train_whole=True)
    assert outcome.text == case.whole_path.read_text()
    assert outcome.trains_whole
    assert not outcome.refusals
    told = {
        (f.rule, f.message.partition("; so every worker trains on all of the data")[0]) for f in outcome.remarks.trusted
    }
    assert told == {(f.rule, f.message) for f in case.run(case.before).refusals}
    again = run(outcome.text, extend_select=[case.rule], may_train_whole=True)
    assert again.is_ported


def test_folders_are_named_after_rules() -> None:
    assert {case.rule for case in CASES} == set(all_rules())
    files = {p.name for p in FIXTURES.glob("*/*/*") if p.parent.parent.name in all_rules()}
    assert files == {"before.py", "after.py", "refused.txt", "after.npu.py", "refused.npu.txt", "mended.py", "whole.py"}


@pytest.mark.parametrize("case", [c for c in CASES if c.is_refused], ids=lambda case: case.name)
def test_advice_for_npus_names_no_call_of_the_runtime(case: Case) -> None:
    if "lockstep" not in case.before:  # else the script is on it already
        assert [f.advice for f in Case(case.folder, "npu").run(case.before).refusals if "lockstep." in f.advice] == []


@each_rule
def test_rule_has_enough_cases(rule: Rule) -> None:
    kinds: Counter[str] = Counter()
    for case in CASES:
        if case.rule == rule.id:
            found = [f for f in case.run(case.before).findings if f.rule == rule.id]
            kinds["edited"] += any(not f.is_refusal for f in found)
            kinds["refused"] += any(f.is_refusal for f in found)
            kinds["left alone"] += not found
            kinds["untouched"] += not case.is_changed and not case.is_refused
    # Some rules have nothing to edit: they only tell what cannot be migrated.
    refused = 0 if "\nRefuses: nothing" in rule.manual else 1
    edits = {"edited": 3, "untouched": 3, "refused": refused}
    least = edits if kinds["edited"] else {"left alone": 3, "refused": 3}
    assert {kind: kinds[kind] for kind, number in least.items() if kinds[kind] < number} == {}


@each_rule
def test_rule_that_edits_has_a_case_of_each_target(rule: Rule) -> None:
    edits = any(
        f.rule == rule.id and not f.is_refusal for c in CASES if c.rule == rule.id for f in c.run(c.before).findings
    )
    if edits:
        assert any(case.rule == rule.id and case.target == "npu" for case in ALL_CASES)


@each_rule
def test_refused_case_is_refused_by_its_rule(rule: Rule) -> None:
    for case in CASES:
        if case.rule == rule.id and case.is_refused:
            assert any(f": {rule.id}: refused: " in line for line in case.refusals), case.name


@each_rule
def test_manual_tells_what_is_changed_left_alone_and_refused(rule: Rule) -> None:
    manual = rule.manual
    assert rule.summary.endswith(".")
    sections = ["\nbefore:\n", "\nafter:\n", "\nLeaves alone: ", "\nRefuses: "]
    places = [manual.find(section) for section in sections]
    assert -1 not in places
    assert places == sorted(places)
    for section in ("before", "after"):
        ast.parse(_snippet(manual, section))


def _snippet(manual: str, section: str) -> str:
    lines = manual.split(f"\n{section}:\n", 1)[1].splitlines()
    end = next((i for i, line in enumerate(lines) if line and not line.startswith("    ")), len(lines))
    return "\n".join(line[4:] for line in lines[:end]).strip("\n")


@pytest.mark.parametrize("target", ["lockstep", "npu"])
@pytest.mark.parametrize("script", sorted(FIXTURES.glob("scripts/*.py")), ids=lambda path: path.stem)
def test_whole_scripts_are_accepted_once_they_are_migrated(script: Path, target: str) -> None:
    outcome = run(script.read_text(), target)  # and what comes out of it, as every migration of these tests
    assert outcome.is_changed or outcome.refusals
