"""Lines that edits have made too long are broken as ruff and black break them, and nothing else is."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest
from command import PROJECT
from fixture_cases import FIXTURES, Case, cases
from script_nodes import Script

from migrator.edits import AddArgument, Guard, Wrap
from migrator.engine import migrate_program
from migrator.files.programs import Program
from migrator.findings.results import Outcome
from migrator.layout import spliced
from migrator.layout.breaking import Breaks
from migrator.layout.lines import logical_line
from migrator.layout.pieces import Moves, TextChange, composed
from migrator.registry import choose
from migrator.targets import target_named

RUFF = shutil.which("ruff") or PROJECT / ".venv" / "bin" / "ruff"
# The others run by `make test-long`.
WIDTHS = (88, *(pytest.param(width, marks=pytest.mark.long) for width in (72, 100, 120)))


def ruff(folder: Path, width: int, *options: str) -> str:
    """What `ruff format` says of the files of the folder: the names of those that it would change."""
    command = [RUFF, "format", "--isolated", "--no-cache", "--output-format=concise", f"--line-length={width}"]
    return subprocess.run([*command, *options, folder], capture_output=True, text=True, timeout=300).stdout


def laid_out(text: str, width: int = 100) -> str:
    """The one logical line of the text, broken."""
    line = logical_line(text, 0)
    assert line is not None
    breaks = Breaks(line, width)
    breaks.lay_out()
    return spliced(text, [TextChange(*change) for change in breaks.changes()])


# -- as ruff and black -------------------------------------------------------------------------------------------------


def migrated(case: Case, width: int) -> str:
    path = Path("script.py")
    rules = choose(extend_select=[case.rule] if case.rule != "scripts" else [])
    program = Program({path: case.before.encode()}, line_length=width)
    outcome = migrate_program(program, rules, target_named(case.target))[path]
    assert isinstance(outcome, Outcome)
    return outcome.text


@pytest.mark.parametrize("width", WIDTHS)
def test_fixtures_that_are_formatted_before_are_formatted_after(tmp_path: Path, width: int) -> None:
    by_name = {f"{number}.py": case for number, case in enumerate([*cases(), *cases("npu")]) if case.is_changed}
    for name, case in by_name.items():
        (tmp_path / name).write_text(case.before)
    unformatted = {line.split(":", 1)[0].rpartition("/")[2] for line in ruff(tmp_path, width, "--check").splitlines()}
    formatted = [name for name in by_name if name not in unformatted]
    assert len(formatted) > 20  # there is something to be seen
    for path in tmp_path.iterdir():
        path.unlink()
    for name in formatted:
        (tmp_path / name).write_text(migrated(by_name[name], width))
    found = ruff(tmp_path, width, "--check").splitlines()
    names = {by_name[line.split(":", 1)[0].rpartition("/")[2]].name for line in found if ".py:" in line}
    assert names == set()


@pytest.mark.parametrize("width", WIDTHS)
def test_scripts_that_ruff_has_formatted_are_formatted_after(tmp_path: Path, width: int) -> None:
    scripts = sorted(FIXTURES.glob("scripts/*.py"))
    for script in scripts:
        shutil.copy(script, tmp_path)
    ruff(tmp_path, width)
    changed = 0
    for path in tmp_path.glob("*.py"):
        before = path.read_bytes()
        (outcome,) = migrate_program(Program({path: before}, line_length=width), choose()).values()
        assert isinstance(outcome, Outcome)
        changed += outcome.data != before
        path.write_bytes(outcome.data)
    assert changed > 20
    assert [line for line in ruff(tmp_path, width, "--check").splitlines() if ".py:" in line] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_what_ruff_has_formatted_stays(tmp_path: Path, width: int) -> None:
    """Each logical line of the project's own sources is what this layout makes of it; `make test` looks at a third."""
    step = 3 if width == 88 else 1
    for number, path in enumerate(sorted(PROJECT.glob("migrator/**/*.py"))[::step]):
        shutil.copy(path, tmp_path / f"{number}.py")
    ruff(tmp_path, width)
    seen = differing = 0
    for path in tmp_path.glob("*.py"):
        text = path.read_text()
        offset = 0
        while offset < len(text):
            line = logical_line(text, offset)
            if line is None:
                offset = text.find("\n", offset) + 1 or len(text)
                continue
            offset = line.end
            if line.is_simple and "\n" in text[line.start : line.end].rstrip("\n"):
                breaks = Breaks(line, width)
                breaks.lay_out()
                seen += 1
                differing += bool(breaks.changes())
    assert seen > 500
    # Targets that are broken, and a few others.
    assert differing <= seen / 200


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = call(aaaaa, bbbb)", "x = call(\n    aaaaa, bbbb\n)"),
        ("x = call(aaaa, bbbbbbbbbb, cc)", "x = call(\n    aaaa,\n    bbbbbbbbbb,\n    cc,\n)"),
        ("x = [aaaaaaaaa, bbbb]", "x = [\n    aaaaaaaaa,\n    bbbb,\n]"),
        ("x = aaaaaaaa + bbbbb * cc", "x = (\n    aaaaaaaa\n    + bbbbb * cc\n)"),
        ("x = aaaaaaaaa + call(bbb)", "x = aaaaaaaaa + call(\n    bbb\n)"),
        ("x = a.bbb(c).ddd(e).ff(g)", "x = (\n    a.bbb(c)\n    .ddd(e)\n    .ff(g)\n)"),
        ("for a in call(bbbbb, ccc):", "for a in call(\n    bbbbb, ccc\n):"),
        ("if aaaaaaaaa and bbbbbbbb:", "if (\n    aaaaaaaaa\n    and bbbbbbbb\n):"),
        ("call(f(x) for x in yyyyy)", "call(\n    f(x)\n    for x in yyyyy\n)"),
        ("x = aaaaaaa if bbb else cc", "x = (\n    aaaaaaa\n    if bbb\n    else cc\n)"),
        ("def f(aaaaaaa, bb) -> int:", "def f(\n    aaaaaaa, bb\n) -> int:"),
        ("return aaa(bb), ccc(dddd)", "return aaa(bb), ccc(\n    dddd\n)"),
        ("return aa, bbb(c, ddddddddd, eeee)", "return aa, bbb(\n    c,\n    ddddddddd,\n    eeee,\n)"),
        ("x = (\n    aaaa\n    + b\n)", "x = aaaa + b"),
        ("call(\n    a,  # why\n    b,\n)", "call(\n    a,  # why\n    b,\n)"),
    ],
)
def test_lines_end_where_those_of_black_do(before: str, after: str) -> None:
    assert laid_out(before + "\n", 20) == after + "\n"


# -- only what edits have made too long --------------------------------------------------------------------------------


def test_other_layouts_stay_but_for_what_is_too_long() -> None:
    before = dedent("""\
        history = model.fit(x, y,
                            epochs = 5,  # enough
                            callbacks=[stop])
        """)
    script = Script(before)
    edit = Wrap(script.node("[stop]"), f"lockstep.callbacks({'s' * 30}, {'t' * 30}, ", ")")
    assert script.after(edit) == dedent(f"""\
        history = model.fit(x, y,
                            epochs = 5,  # enough
                            callbacks=lockstep.callbacks(
                                {"s" * 30}, {"t" * 30}, [stop]
                            ))
        """)


def test_an_added_argument_goes_below_the_others() -> None:
    script = Script(f"history = model.fit({'x' * 30},\n                    {'y' * 30}, {'z' * 30})\n")
    call = script.call(f"model.fit({'x' * 30},\n                    {'y' * 30}, {'z' * 30})")
    result = script.after(AddArgument(call, ("callbacks=lockstep.callbacks()",)))
    assert result.splitlines()[1:] == [
        f"                    {'y' * 30}, {'z' * 30},",
        "                    callbacks=lockstep.callbacks())",
    ]


def test_no_space_stays_in_front_of_a_comma_that_ends_a_line() -> None:
    assert laid_out("history = fit(first_rows , second_rows , epochs=2)\n", 30) == (
        "history = fit(\n    first_rows,\n    second_rows,\n    epochs=2,\n)\n"
    )


def test_several_targets_stay_on_one_line() -> None:
    script = Script(f"first, self.{'s' * 60} = f({'x' * 20},\n  y)\n")
    result = script.after(Wrap(script.node("x" * 20), "lockstep.all_gather(", ")"))
    assert result.startswith("first, self.")
    assert compile(result, "script.py", "exec")


@pytest.mark.parametrize("skip", ["# fmt: skip", "# yapf: disable"])
def test_what_no_formatter_may_touch_stays_on_its_line(skip: str) -> None:
    script = Script(f"x = f({'a' * 40}, {'b' * 40})  {skip}\n")
    result = script.after(Wrap(script.node("a" * 40), "lockstep.all_reduce(", ")"))
    assert result.count("\n") == 1


def test_form_feeds_are_no_indentation() -> None:
    script = Script(f"\ff({'x' * 40}, {'y' * 40})\n")
    result = script.after(Wrap(script.node("x" * 40), "lockstep.all_reduce(", ")"))
    assert result == f"\ff(\n    lockstep.all_reduce({'x' * 40}),\n    {'y' * 40},\n)\n"


def test_lines_that_were_too_long_before_stay() -> None:
    script = Script(f"x = f({'a' * 120}, b)\ny = g(c)\n")
    result = script.after(Wrap(script.node("c"), "lockstep.all_reduce(", ")"))
    assert result == f"x = f({'a' * 120}, b)\ny = g(lockstep.all_reduce(c))\n"


def test_statements_that_a_guard_indents_are_broken_like_others() -> None:
    line = f"model.save({'a' * 42}, {'b' * 42})"
    script = Script(f"{line}\n")
    assert len(line) < 100 < len(line) + 4
    node = script.node(line)
    result = script.after(Guard(node, node, "chief"))
    assert result == f"if chief:\n    model.save(\n        {'a' * 42}, {'b' * 42}\n    )\n"


def test_lines_are_broken_where_a_backslash_ends_one() -> None:
    script = Script(f"x = f({'a' * 30}, {'b' * 40}) \\\n    + g(c), h(d)\n")
    result = script.after(Wrap(script.node("a" * 30), "lockstep.all_reduce(", ")"))
    wrapped = f"lockstep.all_reduce({'a' * 30})"
    assert result == f"x = f(\n    {wrapped}, {'b' * 40}\n) \\\n    + g(c), h(d)\n"
    result = script.after(Wrap(script.node("d"), f"lockstep.all_reduce({'e' * 66}, ", ")"))
    assert result.splitlines()[1:] == ["    + g(c), h(", f"        lockstep.all_reduce({'e' * 66}, d)", "    )"]


def test_statements_on_one_line_are_parted_where_it_is_too_long() -> None:
    script = Script(f"if a:\n    f({'a' * 40}); g(b); h(c)  # all\n    d; e\n")
    result = script.after(Wrap(script.node("b"), f"lockstep.all_reduce({'x' * 66}, ", ")"))
    assert result == (
        f"if a:\n    f({'a' * 40})\n    g(lockstep.all_reduce({'x' * 66}, b))\n    h(c)  # all\n    d; e\n"
    )


# -- changes upon changes ----------------------------------------------------------------------------------------------


def test_changes_upon_changes_are_changes() -> None:
    old = "abcdefghij"
    first = [TextChange(1, 3, "XYZ"), TextChange(5, 5, "+"), TextChange(8, 10, "")]
    middle = spliced(old, first)
    assert middle == "aXYZde+fgh"
    for start in range(len(middle) + 1):
        for end in range(start, len(middle) + 1):
            second = [TextChange(start, end, "--")]
            both = composed(first, middle, second)
            assert spliced(old, both) == spliced(middle, second)
            assert all(a.end <= b.start for a, b in zip(both, both[1:]))


def test_moves_lead_to_where_texts_are() -> None:
    moves = Moves([TextChange(2, 4, "new"), TextChange(6, 6, "!")])
    assert [moves.forward(offset) for offset in range(8)] == [0, 1, 2, 5, 5, 6, 8, 9]


@pytest.mark.parametrize(
    "path", ["migrator/edits/apply.py", "tests/runtime/programs/losses.py", "tests/analysis/samples.py"]
)
def test_outputs_are_python_at_every_width(path: str) -> None:
    source = (PROJECT / path).read_text()
    expected = ast.dump(ast.parse(source))
    for width in (20, 40, 60, 80):
        changes, offset = [], 0
        while offset < len(source):
            line = logical_line(source, offset)
            if line is None:
                offset = source.find("\n", offset) + 1 or len(source)
                continue
            offset = line.end
            if line.is_simple:
                breaks = Breaks(line, width)
                breaks.lay_out()
                assert breaks.keeps_comments
                changes += [TextChange(*change) for change in breaks.changes()]
        assert ast.dump(ast.parse(spliced(source, changes))) == expected
