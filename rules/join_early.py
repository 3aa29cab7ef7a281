"""Leave to the runtime what a function sets up of GPUs and threads, and report device settings that come too late.

`import lockstep` joins the cluster, which starts TensorFlow up; memory growth, visible devices and thread counts can
only be set before that. Where they are set at the top level of the script, or under `if __name__ == "__main__":`, the
import goes right after them. Inside a function they run after every import, below the import of another file of the
program perhaps after one that joins, and TensorFlow would raise an error on N workers. The runtime has given each
worker a GPU of its own by then, lets the memory of these grow, and shares out the cores: what the script says of that
is for one process.

before:
    def use_gpus():
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
after:
    def use_gpus():
        if lockstep.size() == 1:
            for gpu in tf.config.list_physical_devices("GPU"):
                tf.config.experimental.set_memory_growth(gpu, True)

A session of TensorFlow 1 that is only made to let the memory of GPUs grow, or to fix the number of threads, is for one
process, too.

What is needed above the import of TensorFlow, such as `lockstep.is_chief()` for a file that is written there, takes the
import of `lockstep` with it. So do random numbers that are drawn there, or above the settings, and that no seed of the
script's own fixes: joining is what gives all workers one seed, and before it each would draw data of its own.

Leaves alone: settings at the top level; scripts that do not train, also under `if __name__` of a file of a program.
Refuses: other settings inside of a function, or under `if __name__` of a file that others import, of virtual devices;
settings below what needs the workers already, or their seed.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrator.edits import Guard, Refusal
from migrator.facts.program.tree import Statement
from migrator.facts.script import Facts
from migrator.rule import Findings, rule


@rule
def join_early(facts: Facts) -> Findings:
    if not facts.trains:
        return
    settings = [
        call
        for call in facts.joining.device_settings
        if facts.joining.comes_late(call) and not facts.training.is_never_run(call)
    ]
    guarded = [
        statement
        for statements in facts.sessions.of_settings.values()
        for statement in statements
        if not _is_for_one_process(facts, statement)
    ]
    for call in settings:
        statement = _only_sets(facts, call)
        if statement is not None and facts.joining.is_made_by_runtime(call):
            if not _is_for_one_process(facts, statement):
                guarded.append(statement)
        elif not _is_beside_training(facts, call):
            yield _late(facts, call)
    for group in _side_by_side(facts, _with_loops(facts, list(dict.fromkeys(guarded)))):
        yield Guard(group[0], group[-1], f"{facts.call('size')} == 1")


def _late(facts: Facts, call: cst.Call) -> Refusal:
    reason = "this setting comes after the workers have joined, when TensorFlow no longer takes it"
    advice = "move it to the top level, right below the import of TensorFlow"
    drawn = facts.joining.drawn_above(facts.tree.module_of(call), call)
    if drawn and facts.tree.function_of(call) is None and facts.joining.block_of_script(call) is None:
        line = facts.position(drawn[0])[0]
        reason = f"this setting would come after the workers have joined, whose common seed line {line} needs"
        advice = f"move it above line {line}, or seed what is drawn there"
    return Refusal(call, reason, advice, breaks_training=True)


def _only_sets(facts: Facts, call: cst.Call) -> Statement | None:
    """The statement that does nothing but this, for one device or for each."""
    whole: cst.CSTNode = call
    owner = facts.tree.parent[call]
    if isinstance(owner, cst.ListComp) and owner.elt is call and owner.for_in.inner_for_in is None:
        whole = owner if facts.joining.lists_devices(owner.for_in.iter) else call
    is_alone = isinstance(facts.tree.parent[whole], cst.Expr)
    return facts.tree.statement_of(call) if is_alone else None


def _is_beside_training(facts: Facts, call: cst.Call) -> bool:
    """Whether it is for a file of the program that runs by itself, and trains nothing then: no workers do that."""
    block = facts.joining.block_of_script(call)
    bodies = facts.training.reached_from(block) if block is not None else []
    trains = any(facts.tree.contains(body, site) for body in bodies for site in facts.training.sites)
    return block is not None and not trains


def _is_for_one_process(facts: Facts, statement: Statement) -> bool:
    owners = facts.tree.ancestors(statement)
    return any(isinstance(owner, cst.If) and facts.ranks.depends_on_size(owner.test) for owner in owners)


def _with_loops(facts: Facts, statements: Sequence[Statement]) -> list[Statement]:
    """The loops over devices that do nothing else, in the place of what they do."""
    found: dict[Statement, None] = {}
    for statement in statements:
        loop = facts.tree.parent.get(facts.tree.block_of(statement))
        if isinstance(loop, cst.For) and loop.orelse is None and facts.joining.lists_devices(loop.iter):
            inside = facts.tree.statements_beside(statement)
            found.setdefault(loop if all(s in statements for s in inside) else statement)
        else:
            found.setdefault(statement)
    return sorted(found, key=facts.tree.order.__getitem__)


def _side_by_side(facts: Facts, statements: Sequence[Statement]) -> list[list[Statement]]:
    groups: list[list[Statement]] = []
    for statement in statements:
        beside = facts.tree.statements_beside(statement)
        place = beside.index(statement)
        if groups and place and beside[place - 1] is groups[-1][-1]:
            groups[-1].append(statement)
        else:
            groups.append([statement])
    return groups
