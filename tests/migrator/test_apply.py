"""Edits become text: they compose, and every byte outside of them stays."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
from script_nodes import Script

from migrator.edits import AddArgument, Guard, InsertAfter, InsertBefore, InsertFirst, Replace, Wrap


def text(indented: str) -> str:
    return dedent(indented).lstrip("\n")


# -- expressions -----------------------------------------------------------------------------------------------------


def test_wrap_stands_directly_around_the_expression() -> None:
    script = Script("f( a +  b , c )\n")
    assert script.after(Wrap(script.node("a +  b"), "g(", ")")) == "f( g(a +  b) , c )\n"


def test_wrap_reaches_to_the_last_of_several() -> None:
    script = Script("fit(x, y, epochs=3)\n")
    edit = Wrap(script.node("x"), "*share(", ")", last=script.node("y"))
    assert script.after(edit) == "fit(*share(x, y), epochs=3)\n"


def test_wraps_nest_whatever_their_order() -> None:
    script = Script("f(g(x))\n")
    inner = Wrap(script.node("x"), "[", "]")
    middle = Wrap(script.node("g(x)"), "<", ">")
    outer = Wrap(script.node("f(g(x))"), "{", "}")
    expected = "{f(<g([x])>)}\n"
    assert script.after(inner, middle, outer) == expected
    assert script.after(outer, inner, middle) == expected


def test_wraps_that_end_at_one_offset_close_the_inner_first() -> None:
    script = Script("a.b(c)\n")
    assert script.after(Wrap(script.node("a.b(c)"), "{", "}"), Wrap(script.node("a"), "<", ">")) == "{<a>.b(c)}\n"
    script = Script("x = not y\n")
    assert script.after(Wrap(script.node("y"), "<", ">"), Wrap(script.node("not y"), "{", "}")) == "x = {not <y>}\n"


def test_wrap_within_what_a_replacement_moves() -> None:
    script = Script("ds = source(files).batch(n)\n")
    base = script.node("source(files)")
    edits = (
        InsertBefore(script.statement("source(files)"), ("ds = ", base)),
        Replace(base, ("ds",)),
        Wrap(script.node("files"), "sorted(", ")"),
        Wrap(script.node("n"), "local(", ")"),
    )
    assert script.after(*edits) == "ds = source(sorted(files))\nds = ds.batch(local(n))\n"


def test_replacement_within_a_wrap() -> None:
    script = Script("compile(None)\n")
    edits = (Replace(script.node("None"), ("32",)), Wrap(script.node("compile(None)"), "f(", ")"))
    assert script.after(*edits) == "f(compile(32))\n"


# -- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()", "f(k=1)"),
        ("f(a)", "f(a, k=1)"),
        ("f(a,)", "f(a, k=1,)"),
        ("f(a, b=2)", "f(a, b=2, k=1)"),
        ("f((a))", "f((a), k=1)"),
        ("f(b=(a))", "f(b=(a), k=1)"),
        ("f(b=((a)))", "f(b=((a)), k=1)"),
        ("f((a, b))", "f((a, b), k=1)"),
        ("f(b=(x, y))", "f(b=(x, y), k=1)"),
        ("f(a)(b)", "f(a)(b, k=1)"),
        ("f(a  # why\n)", "f(a, k=1  # why\n)"),
        ("f(\n    a,\n    b,\n)", "f(\n    a,\n    b,\n    k=1,\n)"),
        ("f(\n    a,\n    b\n)", "f(\n    a,\n    b,\n    k=1\n)"),
        ("f(a,\n  b)", "f(a,\n  b,\n  k=1)"),
        ("f(*a)", "f(*a, k=1)"),
        ("f(a, *b)", "f(a, *b, k=1)"),
        ('f("s")', 'f("s", k=1)'),
    ],
)
def test_argument_is_added_in_the_layout_of_the_call(before: str, after: str) -> None:
    script = Script(f"{before}\n")
    call = script.call(before)
    result = script.after(AddArgument(call, ("k=1",)))
    ast.parse(result)
    assert result == f"{after}\n"


def test_arguments_are_added_in_the_order_of_the_edits() -> None:
    script = Script("f(a)\n")
    call = script.call("f(a)")
    assert script.after(AddArgument(call, ("b=1",)), AddArgument(call, ("c=2",))) == "f(a, b=1, c=2)\n"


def test_argument_follows_a_wrapped_last_argument() -> None:
    script = Script("fit(x, y)\n")
    edits = (
        AddArgument(script.call("fit(x, y)"), ("k=1",)),
        Wrap(script.node("x"), "*share(", ")", last=script.node("y")),
    )
    assert script.after(*edits) == "fit(*share(x, y), k=1)\n"


def test_long_line_is_broken_with_the_added_argument() -> None:
    script = Script(f"history = model.fit({'x' * 30}, {'y' * 30})\n")
    call = script.call(f"model.fit({'x' * 30}, {'y' * 30})")
    result = script.after(AddArgument(call, ("callbacks=lockstep.callbacks()",)))
    body = f"{'x' * 30}, {'y' * 30}, callbacks=lockstep.callbacks()"
    assert result == f"history = model.fit(\n    {body}\n)\n"


@pytest.mark.parametrize("indent", ["", "    ", "\t", "\t  "])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_long_line_is_broken_alike_in_every_indentation(indent: str, newline: str) -> None:
    head = f"if a:\n{indent}" if indent else ""
    script = Script(f"{head}fit({'x' * 40}, {'y' * 40}, z)\n".replace("\n", newline))
    result = script.after(Wrap(script.node("x" * 40), "lockstep.shard_arrays(", ")"))
    inner = indent + (indent or "    ")
    arguments = [f"lockstep.shard_arrays({'x' * 40})", "y" * 40, "z"]
    broken = "fit(\n" + "".join(f"{inner}{argument},\n" for argument in arguments) + f"{indent})\n"
    assert result == (head + broken).replace("\n", newline)


def test_line_that_stays_short_is_not_broken() -> None:
    script = Script("fit(x, y, z)\n")
    assert script.after(Wrap(script.node("y"), "f(", ")")) == "fit(x, f(y), z)\n"


# -- statements ------------------------------------------------------------------------------------------------------


def test_insertions_keep_the_order_of_the_edits() -> None:
    script = Script("a()\nb()\n")
    a, b = script.statement("a()"), script.statement("b()")
    edits = (InsertAfter(a, ("one()",)), InsertAfter(a, ("two()",)), InsertBefore(b, ("three()",)))
    assert script.after(*edits) == "a()\none()\ntwo()\nthree()\nb()\n"


def test_insertion_has_the_indentation_of_its_statement() -> None:
    script = Script.of("""
        class T:
            def run(self):
                if ready:
                    go()
        """)
    go = script.statement("go()")
    expected = "            before()\n            go()\n            after()\n"
    assert expected in script.after(InsertBefore(go, ("before()",)), InsertAfter(go, ("after()",)))


def test_insertion_after_a_compound_statement_follows_its_whole_body() -> None:
    script = Script.of("""
        with tape:
            loss = f()
            # the end of the block
        g()
        """)
    loop = script.facts.tree.parent[script.facts.tree.block_of(script.statement("f()"))]
    assert "with tape:\n    loss = f()\n" in script.after(InsertAfter(loop, ("new()",)))
    lines = script.after(InsertAfter(loop, ("new()",))).splitlines()
    assert lines.index("new()") < lines.index("g()")


def test_insertion_before_a_statement_stands_below_its_comments() -> None:
    script = Script("# about the data\nx = load()\n")
    assert script.after(InsertBefore(script.statement("load()"), ("new()",))) == "# about the data\nnew()\nx = load()\n"


def test_insertion_after_keeps_the_comment_on_the_line() -> None:
    script = Script("x = load()  # all of it\ny = 1\n")
    after = script.after(InsertAfter(script.statement("load()"), ("new()",)))
    assert after == "x = load()  # all of it\nnew()\ny = 1\n"


def test_insertion_around_a_statement_of_several_lines() -> None:
    script = Script('x = f(\n    1,\n)\ny = """\n"""; z = 2\n')
    call = script.statement("f(\n    1,\n)")
    after = script.after(InsertBefore(call, ("a()",)), InsertAfter(call, ("b()",)))
    assert after == 'a()\nx = f(\n    1,\n)\nb()\ny = """\n"""; z = 2\n'


def test_insertion_after_backslash_continuation() -> None:
    script = Script("x = a + \\\n    b\ny = 1\n")
    assert script.after(InsertAfter(script.statement("b"), ("new()",))) == "x = a + \\\n    b\nnew()\ny = 1\n"


def test_insertion_in_a_file_without_final_newline() -> None:
    script = Script("a()\nb()")
    b = script.statement("b()")
    assert script.after(InsertAfter(b, ("c()",))) == "a()\nb()\nc()"
    assert script.after(InsertBefore(b, ("c()",))) == "a()\nc()\nb()"
    assert script.after(InsertAfter(b, ("c()",)), InsertAfter(b, ("d()",))) == "a()\nb()\nc()\nd()"


@pytest.mark.parametrize("newline", ["\r\n", "\n"])
def test_inserted_lines_end_like_the_others(newline: str) -> None:
    script = Script(f"a(){newline}b(){newline}")
    assert script.after(InsertAfter(script.statement("a()"), ("c()",))) == f"a(){newline}c(){newline}b(){newline}"


def test_insertion_after_a_trailing_semicolon() -> None:
    script = Script("a();\nb()\n")
    after = script.after(InsertAfter(script.node("a()"), ("new()",)))
    ast.parse(after)
    assert [ast.unparse(s) for s in ast.parse(after).body] == ["a()", "new()", "b()"]


def test_form_feed_between_sections_stays() -> None:
    script = Script("a()\n\f\nb()  # \f\nc()\n")
    assert script.after(InsertAfter(script.statement("b()"), ("new()",))) == "a()\n\f\nb()  # \f\nnew()\nc()\n"


# -- the first statement of a function -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(m):\n    go()\n", "def f(m):\n    new()\n    go()\n"),
        ('def f(m):\n    """What."""\n    go()\n', 'def f(m):\n    """What."""\n    new()\n    go()\n'),
        ("def f(m):  # why\n    # how\n    go()\n", "def f(m):  # why\n    # how\n    new()\n    go()\n"),
        ("def f(m):\n\tgo()\n", "def f(m):\n\tnew()\n\tgo()\n"),
        ("def f(\n    m,\n):\n  go()\n", "def f(\n    m,\n):\n  new()\n  go()\n"),
    ],
)
def test_first_statement_of_a_function(before: str, after: str) -> None:
    script = Script(before)
    assert script.after(InsertFirst(script.function("f"), ("new()",))) == after


# -- guards ----------------------------------------------------------------------------------------------------------


def test_guard_indents_all_lines_from_first_to_last() -> None:
    script = Script.of("""
        def end():
            save(
                path,

                # at the end
                model,
            )
            log("x")
            done()
        """)
    guard = Guard(
        script.statement("save(\n        path,\n\n        # at the end\n        model,\n    )"),
        script.statement('log("x")'),
        "chief",
    )
    assert script.after(guard) == text("""
        def end():
            if chief:
                save(
                    path,

                    # at the end
                    model,
                )
                log("x")
            done()
        """)


@pytest.mark.parametrize("quotes", ['"""', "'''", 'f"""', 'r"""', 'rb"""'])
def test_guard_leaves_the_inside_of_strings(quotes: str) -> None:
    closing = quotes.lstrip("frb")
    string = f"{quotes}\n  a\n\n    b\n{closing}"
    script = Script(f"write({string},\n  1)\nrest()\n")
    statement = script.statement(f"write({string},\n  1)")
    assert script.after(Guard(statement, statement, "chief")) == f"if chief:\n    write({string},\n      1)\nrest()\n"


def test_guard_leaves_the_inside_of_concatenated_strings() -> None:
    script = Script('write("a" """\nb\n""" f"""\n{c}\n""")\n')
    statement = script.facts.tree.statement_of(script.facts.tree.calls[0])
    assert (
        script.after(Guard(statement, statement, "chief")) == 'if chief:\n    write("a" """\nb\n""" f"""\n{c}\n""")\n'
    )


def test_guard_around_lines_continued_by_backslash() -> None:
    script = Script("save(a, \\\n     b)\n")
    statement = script.statement("save(a, \\\n     b)")
    assert script.after(Guard(statement, statement, "chief")) == "if chief:\n    save(a, \\\n         b)\n"


def test_guard_keeps_comments_above_outside_and_between_inside() -> None:
    script = Script("# what we keep\nsave()\n# and draw\nplot()  # wide\n")
    guard = Guard(script.statement("save()"), script.statement("plot()"), "chief")
    assert script.after(guard) == "# what we keep\nif chief:\n    save()\n    # and draw\n    plot()  # wide\n"


def test_guard_in_the_indentation_of_the_script() -> None:
    script = Script("def end():\n\tsave()\n\trest()\n")
    statement = script.statement("save()")
    assert script.after(Guard(statement, statement, "chief")) == "def end():\n\tif chief:\n\t\tsave()\n\trest()\n"


def test_guard_around_the_last_line_without_newline() -> None:
    script = Script("a()\nsave()")
    statement = script.statement("save()")
    assert script.after(Guard(statement, statement, "chief")) == "a()\nif chief:\n    save()"


def test_guard_and_barrier_after_it() -> None:
    script = Script("save()\nload()\n")
    statement = script.statement("save()")
    edits = (Guard(statement, statement, "chief"), InsertAfter(statement, ("barrier()",)))
    assert script.after(*edits) == "if chief:\n    save()\nbarrier()\nload()\n"
    assert script.after(*reversed(edits)) == "if chief:\n    save()\nbarrier()\nload()\n"


def test_insertion_before_a_guarded_statement_stands_outside() -> None:
    script = Script("save()\n")
    statement = script.statement("save()")
    edits = (Guard(statement, statement, "chief"), InsertBefore(statement, ("new()",)))
    assert script.after(*edits) == "new()\nif chief:\n    save()\n"


def test_edits_inside_of_a_guard() -> None:
    script = Script.of("""
        with open(path) as file:
            total = count()
            file.write(total)
        """)
    block = script.facts.tree.parent[script.facts.tree.block_of(script.statement("count()"))]
    edits = (
        Guard(block, block, "chief"),
        InsertAfter(script.statement("count()"), ("new()",)),
        Wrap(script.node("path"), "str(", ")"),
        Wrap(script.call("count()"), "int(", ")"),
        AddArgument(script.call("file.write(total)"), ("end=1",)),
    )
    assert script.after(*edits) == text("""
        if chief:
            with open(str(path)) as file:
                total = int(count())
                new()
                file.write(total, end=1)
        """)


def test_no_edits_give_the_same_bytes() -> None:
    source = "x = 1 ;y=2 # c\r\n\r\nif x :\r\n\ty= '''\r\n  '''\r\n\t# end"
    assert Script(source).after() == source
