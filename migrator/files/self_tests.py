"""What a file that others import does below `if __name__ == "__main__":`: nothing, while these run.

It is a program of its own then, and one that trains nothing needs no workers: it is left alone, and nothing else is
judged by what it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from migrator.facts.objects.met_alike import is_main
from migrator.facts.program.modules import Script
from migrator.facts.program.tree import nodes_in
from migrator.facts.script import Facts
from migrator.files.programs import Program
from migrator.text.parsing import parse

# `app.run()` and `fire.Fire()` call what the file defines.
_CALLING_MAIN = frozenset({"run", "Fire"})


def without_self_tests(scripts: Sequence[Script], program: Program) -> list[Script]:
    """The scripts, each up to the block at its end that does not run and trains nothing."""
    imported = {other for path, others in program.imported.items() for other in others - {path}}
    blocks = {script.path: block for script in scripts if script.path in imported for block in _last_block(script)}
    if not blocks:
        return list(scripts)
    facts = Facts(scripts, site_packages=program.site_packages)
    return [
        _up_to(script, facts.spans(script.module).span(blocks[script.path])[0])
        if script.path in blocks and not _may_train(facts, blocks[script.path])
        else script
        for script in scripts
    ]


def _last_block(script: Script) -> Iterator[cst.If]:
    last = script.module.body[-1] if script.module.body else None
    if isinstance(last, cst.If) and last.orelse is None and is_main(last):
        [target] = cst.ensure_type(last.test, cst.Comparison).comparisons
        name = target.comparator.evaluated_value if isinstance(target.comparator, cst.SimpleString) else ""
        if isinstance(target.operator, cst.Equal) and name == "__main__":
            yield last


def _up_to(script: Script, end: int) -> Script:
    text = script.text[:end]
    return replace(script, module=parse(text), text=text, left_out=script.text[end:] + script.left_out)


def _may_train(facts: Facts, block: cst.If) -> bool:
    """Whether the block trains, or names something that does, whoever may call it: also the file as such."""
    if _trains(facts, block.body):
        return True
    names = {node.value for node in nodes_in(block.body) if isinstance(node, cst.Name)}
    module = facts.tree.module_of(block)
    return any(
        _trains(facts, function)
        for function in facts.tree.functions
        if not names.isdisjoint(_names(facts, function))
        or (not names.isdisjoint(_CALLING_MAIN) and facts.tree.module_of(function) is module)
    )


def _names(facts: Facts, function: cst.FunctionDef) -> set[str]:
    owner = facts.tree.class_of(function)
    return {function.name.value} | ({owner.name.value} if owner is not None else set())


def _trains(facts: Facts, body: cst.CSTNode) -> bool:
    sites = [*facts.training.sites, *facts.training.handed_to_keras]
    return any(facts.tree.contains(reached, site) for reached in facts.training.reached_from(body) for site in sites)
