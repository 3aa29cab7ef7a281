"""Refuse training that a magic of a notebook runs, where no rule can see it.

`%time model.fit(x, y)` hands its text to IPython, and a cell that is no Python even without its magics cannot be read.
What is trained there would be trained by each worker for itself, or beside a model of which the rest is ported.

before:
    get_ipython().run_line_magic("time", "model.fit(x, y)")
after:
    model.fit(x, y)

Leaves alone: magics around a whole cell (`%%time`, `%%capture`), which is read as without them; commands of the shell;
magics whose text can train nothing; cells in other languages.
Refuses: a magic whose text calls a method that trains, or one that runs Python and calls a function of the user's that
does; a cell that is no Python and has a call that trains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.script import Facts
from migrator.rule import Findings, rule

# The methods of get_ipython() that run Python, with the places of the magic's name and of its text.
_RUNNERS = {"run_line_magic": (0, 1), "run_cell_magic": (0, 2), "run_cell": (None, 0)}
_PYTHON = frozenset({"time", "timeit", "prun", "memit", "mprun", "lprun", "debug"})
# They tell of what is there, or run something else than Python of this process.
_HARMLESS = frozenset(
    {
        "!", "R", "bash", "bigquery", "cmd", "file", "html", "HTML", "javascript", "js", "latex", "markdown", "perl",
        "pdoc", "pinfo", "pinfo2", "pypy", "python", "python2", "python3", "ruby", "script", "sh", "shell", "sql",
        "svg", "SVG", "sx", "system", "who", "whos", "writefile",
    }
)  # fmt: skip
_TRAINS = re.compile(r"\b(?:fit|fit_generator|train_on_batch|minimize|apply_gradients|GradientTape|\w*train\w*)\s*\(")
_CALLED = re.compile(r"(\w+)[ \t]*\(")


@rule
def hidden_training(facts: Facts) -> Findings:
    for call, function, name, text in _run_by_magics(facts):
        trains = _leads_to_training(facts, text) if name in _PYTHON else _TRAINS.search(text)
        if name in _HARMLESS or not trains:
            continue
        magic = f"{'%%' if function == 'run_cell_magic' else '%'}{name}"
        reason = (
            f"`{magic}` runs code that may train, and hides it" if name else "this cell is no Python, and may train"
        )
        advice = "put the code on lines of its own; %%time before a whole cell is understood"
        yield Refusal(call, reason, advice if name else "mend the cell, or take it out", breaks_training=True)


def _run_by_magics(facts: Facts) -> Iterator[tuple[cst.Call, str, str, str]]:
    """The calls that hand text to IPython, with the method, the magic's name and the text."""
    for call in facts.tree.calls:
        function = call.func
        if isinstance(function, cst.Attribute) and function.attr.value in _RUNNERS and _is_ipython(function.value):
            place, at = _RUNNERS[function.attr.value]
            yield call, function.attr.value, _text(call, place) if place is not None else "", _text(call, at)


def _is_ipython(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "get_ipython"


def _text(call: cst.Call, place: int) -> str:
    value = call.args[place].value if place < len(call.args) else None
    found = value.evaluated_value if isinstance(value, (cst.SimpleString, cst.ConcatenatedString)) else None
    return found if isinstance(found, str) else ""


def _leads_to_training(facts: Facts, text: str) -> bool:
    """Whether the text calls a function or class of the user's that trains, or one that calls such a one."""
    own: dict[str, list[cst.CSTNode]] = {}
    for function in facts.tree.functions:
        own.setdefault(function.name.value, []).append(function)
    for cls in facts.tree.classes:
        own.setdefault(cls.name.value, []).append(cls)
    seen: set[str] = set()
    texts = [text]
    while texts:
        text = texts.pop()
        if _TRAINS.search(text):
            return True
        called = {name for name in _CALLED.findall(text) if name in own} - seen
        seen |= called
        texts += [facts.source(node) for name in called for node in own[name]]
    return False
