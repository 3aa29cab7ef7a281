"""Which places no run of a program comes to both, whatever it decides."""

from __future__ import annotations

from textwrap import indent

import pytest

from tests.migrator.script_nodes import Script


def _are_apart(text: str) -> bool:
    script = Script(text)
    (read,), writes = script.nodes("load()"), script.nodes("save()")
    assert writes
    return script.facts.apart.are_apart(read, writes)


_BRANCHES = "    if a:\n        load()\n    else:\n        save()\n"
APART = {
    "branches": "if mode:\n    load()\nelse:\n    save()\n",
    "a chain": "if a:\n    save()\nelif b:\n    load()\nelif c:\n    save()\n",
    "left before": "def main():\n    if mode:\n        load()\n        return\n    save()\nmain()\n",
    "the program ends": "import sys\nif mode:\n    load()\n    sys.exit(0)\nsave()\n",
    "functions": "def one():\n    load()\ndef two():\n    save()\nif mode:\n    one()\nelse:\n    two()\n",
    "ended by its main": f"import sys\ndef main(a):\n{_BRANCHES}sys.exit(main(1))\n",
}
TOGETHER = {
    "one after the other": "load()\nsave()\n",
    "behind the branch": "if mode:\n    load()\nsave()\n",
    "in the condition": "if save():\n    load()\n",
    "another turn": f"for a in modes:\n{_BRANCHES}",
    "another call": f"def run(a):\n{_BRANCHES}run(1)\nrun(0)\n",
    "a call in a comprehension": f"def run(a):\n{_BRANCHES}[run(a) for a in modes]\n",
    "recursion": "def run(a):\n    if a:\n        load()\n        run(0)\n    else:\n        save()\nrun(1)\n",
    "a break": "def run():\n    for a in b:\n        load()\n        if a: break\n        return\n    save()\nrun()\n",
    "caught": "def run():\n    try:\n        load()\n        return\n    except OSError: pass\n    save()\nrun()\n",
    "handed over": "import atexit\ndef end():\n    save()\natexit.register(end)\nif mode:\n    load()\n",
    "of a table": "def one():\n    load()\ndef two():\n    save()\ntable = {0: one, 1: two}\ntable[0]()\ntable[1]()\n",
    "a class body": "class A:\n    save()\nif mode:\n    load()\n",
}  # fmt: skip


@pytest.mark.parametrize("text", APART.values(), ids=APART)
def test_no_run_comes_to_both(text: str) -> None:
    assert _are_apart(text)
    assert _are_apart("def outer():\n" + indent(text, "    ") + "outer()\n")


@pytest.mark.parametrize("text", TOGETHER.values(), ids=TOGETHER)
def test_a_run_may_come_to_both(text: str) -> None:
    assert not _are_apart(text)
    assert not _are_apart("def outer():\n" + indent(text, "    ") + "outer()\n")
