"""Report names that only the branch for several workers defines, and that are read behind it.

With one worker the branch is not taken, and the script ends with a NameError: most often it is the optimizer that
was made inside of the branch, together with its wrapper.

before:
    if hvd.size() > 1:
        optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam())
    model.compile(optimizer, "mse")
after:
    if hvd.size() > 1:
        optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam())
    model.compile(optimizer, "mse")

Leaves alone: names that are defined before the branch or in all branches; names that are read under a condition, too;
branches after which the script leaves where they are not taken.
Refuses: in lockstep, npu_device and Horovod alike, such a name of a branch that asks for the number of workers; in a
port to another library, also of one that wraps, reduces or cuts something.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.names.vocabulary import Role
from migrator.facts.program.tree import Binding
from migrator.facts.script import Facts
from migrator.rule import Findings, audit

_SPREADING = (Role.OPTIMIZER, Role.TAPE, Role.SHARD, Role.REDUCE, Role.LOCAL_BATCH)


@audit
def branch_only_name(facts: Facts) -> Findings:
    for branch in _branches(facts):
        done: set[str] = set()
        for binding in _bound_in(facts, branch):
            use = next(_unsafe_uses(facts, branch, binding.name), None)
            if use is not None and binding.name not in done:
                done.add(binding.name)
                yield Refusal(
                    use,
                    f"`{binding.name}` has a value only where the branch of line {facts.position(branch)[0]} is taken, "
                    "which it is not with one worker",
                    "give it a value before that branch",
                    breaks_training=True,
                )


def _branches(facts: Facts) -> Iterator[cst.If]:
    # A script that was migrated to lockstep runs the same on one worker: its branches part workers by asking alone.
    spreading = [site.call for site in facts.ports.of(*_SPREADING) if not facts.ports.is_own(site)]
    for node in facts.tree.all_of(cst.If) if facts.ports.calls else ():
        if facts.ranks.leaves(node.orelse):
            continue
        asks = facts.ranks.is_computed_from(Role.SIZE, node.test)
        if asks or any(facts.tree.contains(node.body, call) for call in spreading):
            yield node


def _bound_in(facts: Facts, branch: cst.If) -> Iterator[Binding]:
    scope = facts.tree.scope_of(branch)
    for bindings in scope.bindings.values():
        for binding in bindings:
            if binding.kind == "assign" and facts.tree.contains(branch.body, binding.node):
                yield binding


def _unsafe_uses(facts: Facts, branch: cst.If, name: str) -> Iterator[cst.Name]:
    """Reads of the name that nothing else gives a value to, behind the branch or in a function that is called there."""
    scope = facts.tree.scope_of(branch)
    for use in facts.tree.names[name]:
        if not facts.tree.is_read(use) or facts.tree.scope_of(use).lookup(name) is not scope:
            continue
        reaching = facts.resolver.reaching(use)
        if reaching and all(facts.tree.contains(branch.body, b.node) for b in reaching):
            if facts.tree.scope_of(use) is scope:
                is_run = _surely_follows(facts, branch, use)
            else:
                is_run = _is_called_behind(facts, branch, use)
            if is_run:
                yield use


def _is_called_behind(facts: Facts, branch: cst.If, use: cst.CSTNode) -> bool:
    function = facts.tree.function_of(use)
    if function is None or _is_conditional(facts, use, function.body):
        return False
    return any(_surely_follows(facts, branch, call) for call in facts.resolver.callers(function))


def _surely_follows(facts: Facts, branch: cst.If, node: cst.CSTNode) -> bool:
    """Whether the node stands behind the branch and is run whether or not the branch was."""
    block = facts.tree.block_of(branch)
    behind = facts.tree.lift(node, block) not in (None, branch) and facts.tree.order[node] > facts.tree.order[branch]
    return behind and not _is_conditional(facts, node, block)


def _is_conditional(facts: Facts, use: cst.CSTNode, block: cst.CSTNode) -> bool:
    for owner in facts.tree.ancestors(use):
        if owner is block:
            return False
        if isinstance(owner, (cst.If, cst.IfExp, cst.Try, cst.While, cst.BooleanOperation, cst.FunctionDef)):
            return True
    return True
