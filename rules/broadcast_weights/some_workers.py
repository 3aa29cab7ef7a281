"""What else changes in a branch that only the workers take which find a file: they share none with the chief, perhaps.

Behind the branch the models that are restored in it are sent to all; so are a teacher that gets their weights there,
variables and optimizers that are set, and numbers that names get.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import InsertAfter, Refusal
from migrator.facts.names import api
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.holders import Holder
from migrator.facts.objects.iteration import Iteration
from migrator.facts.program.syntax import is_constant
from migrator.facts.program.tree import Binding, Statement
from migrator.facts.script import Facts
from migrator.insertion.elsewhere import is_known_outside, written_at
from migrator.insertion.handover import gives

from .broadcast_call import call_on
from .restoring import asks_for_files, is_only_told, leaves, trains_in


def behind_branches(facts: Facts, found: dict[InsertAfter, list[str]]) -> Iterator[Refusal]:
    """Puts the broadcasts behind such branches into `found`, with what each sends: together with what is restored
    there, where that has one at the same place."""
    for branch in _branches(facts):
        parts = list(_changed(facts, branch))
        restored = next((edit for edit in found if edit.node is branch), None)
        if not parts and restored is None and not _restores(facts, branch):
            continue
        if facts.apart.are_apart(branch, facts.training.sites):
            continue  # what all have loaded is not trained
        names = list(found.get(restored, ())) if restored is not None else []
        before = len(names)
        for part in parts:
            written = written_at(facts, part, branch, part)
            if written is None or not is_known_outside(facts, written, branch):
                if not _is_made_inside(facts, part, branch):
                    yield _unsent(facts, part)
            elif written.text not in names and not _is_sent(facts, written.text, branch):
                names.append(written.text)
        numbers = [name for name in _numbers(facts, branch) if not _is_sent(facts, name, branch)]
        if len(names) > before:
            if restored is not None:
                del found[restored]
            found[InsertAfter(branch, (call_on(facts, names),))] = names
        for name in numbers:
            found[InsertAfter(branch, (f"{name} = {facts.call('broadcast', name)}",))] = []


def _is_sent(facts: Facts, name: str, branch: Statement) -> bool:
    return gives(facts, name, facts.tree.block_of(branch), Role.BROADCAST, branch)


def _unsent(facts: Facts, part: cst.BaseExpression) -> Refusal:
    return Refusal(
        part,
        "this is set in a branch that a worker takes only if it finds a file, and no name that is known behind the "
        "branch leads to it",
        "set it where it has a name, or call lockstep.broadcast by hand",
        breaks_training=True,
    )


def _branches(facts: Facts) -> Iterator[Statement]:
    """The outermost statements which ask for files, or try to read one, and that control leaves at their end, where
    training does not go on inside of them or around."""
    found: set[cst.BaseCompoundStatement] = set()
    for node in (*facts.tree.all_of(cst.If), *facts.tree.all_of(cst.Try)):
        is_elif = isinstance(owner := facts.tree.parent[node], cst.If) and owner.orelse is node
        if is_elif or not _is_for_some(facts, node):
            continue
        found.add(node)
    for branch in sorted(found, key=facts.tree.order.__getitem__):
        if any(owner in found for owner in facts.tree.ancestors(branch)) or leaves(branch):
            continue
        if not any(trains_in(facts, node) for node in (branch, *facts.tree.loops_around(branch))):
            yield branch


def _is_for_some(facts: Facts, node: cst.CSTNode | None) -> bool:
    if isinstance(node, cst.Try):
        return _restores(facts, node.body)
    if not isinstance(node, cst.If):
        return False
    asked = facts.origins.behind(node.test, through_functions=False)
    return any(asks_for_files(facts, part) for part in asked) or _is_for_some(facts, node.orelse)


def _restores(facts: Facts, node: cst.CSTNode) -> bool:
    bodies = facts.training.reached_from(node)
    return any(facts.tree.is_in(call, bodies) for call in facts.files.restores.calls)


def _changed(facts: Facts, branch: Statement) -> Iterator[cst.BaseExpression]:
    """The models, variables and optimizers that are given other weights in the branch, as they are called there."""
    bodies = facts.training.reached_from(branch)
    for call in facts.files.restores.copies:
        if facts.tree.is_in(call, bodies):
            yield from facts.files.restores.models_of(call.func)
    for call in facts.tree.calls:
        if not facts.tree.is_in(call, bodies):
            continue
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in api.SETTING_VARIABLES:
            yield from _set_by(facts, call.func.value)
        elif call.args and any(map(api.SETTING_FUNCTIONS.match, facts.resolver.public(call.func))):
            yield from _set_by(facts, call.args[0].value)
    for bindings in facts.tree.attributes.values():
        for binding in bindings:
            target = binding.target
            if (
                isinstance(target, cst.Attribute)
                and facts.tree.is_in(target, bodies)
                and _is_optimizer(facts, target.value)
            ):
                yield target.value


def _set_by(facts: Facts, variable: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What the variable that is set belongs to; itself where it has a name of its own."""
    owner = variable.value if isinstance(variable, cst.Attribute) else None
    if owner is not None and _is_optimizer(facts, owner):
        yield owner
        return
    taken = [b for b in facts.resolver.reaching(variable) if b.kind == "for"] if isinstance(variable, cst.Name) else []
    for binding in taken:  # `for average, weight in zip(averages, model.weights)`
        several = Iteration(facts.tree, facts.resolver).narrowed(binding.value or variable, binding.path)[0]
        yield from facts.trained.listed(several) if isinstance(several, cst.BaseExpression) else ()
    if not taken and any(map(facts.kinds.is_variable, facts.resolver.values(variable))):
        yield variable
    elif not taken:
        yield from facts.trained.listed(variable)


def _is_optimizer(facts: Facts, node: cst.BaseExpression) -> bool:
    return any(map(facts.kinds.is_optimizer, facts.resolver.values(node)))


def _is_made_inside(facts: Facts, part: cst.BaseExpression, branch: Statement) -> bool:
    """Whether what is set is made in the branch, too, for nobody behind it."""
    origins = facts.trained.of(part)
    return bool(origins) and all(isinstance(o, Holder) and facts.tree.contains(branch, o.statement) for o in origins)


def _numbers(facts: Facts, branch: Statement) -> Iterator[str]:
    """The names that get a number, a text or an array in the branch, had one before, and are read behind it."""
    scope = facts.tree.scope_of(branch)
    for name, bindings in scope.bindings.items():
        inside = [b for b in bindings if facts.tree.contains(branch, b.node) and b.kind in ("assign", "augmented")]
        if not inside or any(facts.tree.contains(branch, b.node) for b in bindings if b not in inside):
            continue
        before = [b for b in bindings if b not in inside and facts.tree.order[b.node] < facts.tree.order[branch]]
        reads = [read for read in facts.tree.names[name] if _reads_behind(facts, read, branch, inside)]
        if before and reads and (_begins_plain(before) or all(map(facts.losses.is_plain, reads))):
            yield name


def _reads_behind(facts: Facts, read: cst.Name, branch: Statement, inside: list[Binding]) -> bool:
    if facts.tree.contains(branch, read) or not facts.tree.is_read(read):
        return False
    return not set(inside).isdisjoint(facts.resolver.reaching(read)) and not is_only_told(facts, read)


def _begins_plain(bindings: list[Binding]) -> bool:
    """Whether the name begins with a literal: `start_epoch = 0`."""
    values = [b.value for b in bindings]
    return all(value is not None and is_constant(value) for value in values) and not any(
        isinstance(value, cst.Name) and value.value == "None" for value in values
    )
