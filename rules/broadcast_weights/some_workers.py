"""What else changes in a branch that only the workers take which find a file: they share none with the chief, perhaps.

Behind the branch the models that are restored in it are sent to all; so are a teacher that gets their weights there,
variables and optimizers that are set, and numbers that names get.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import InsertAfter, Refusal
from migrator.facts.files import known
from migrator.facts.names import api
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.holders import Holder
from migrator.facts.objects.iteration import Iteration
from migrator.facts.objects.told import is_only_told
from migrator.facts.program.syntax import is_constant, is_none, part_at
from migrator.facts.program.tree import Binding, Statement
from migrator.facts.script import Facts
from migrator.insertion.elsewhere import is_known_outside, written_at
from migrator.insertion.handover import gives

from .broadcast_call import call_on
from .restoring import asks_for_files, leaves, trains_in


def behind_branches(facts: Facts, found: dict[InsertAfter, list[str]]) -> Iterator[Refusal]:
    """Puts the broadcasts behind such branches into `found`, with what each sends: together with what is restored
    there, where that has one at the same place."""
    steering = _steering(facts)
    for branch in _branches(facts):
        parts = list(_changed(facts, branch))
        restored = next((edit for edit in found if edit.node is branch), None)
        sets_weights = bool(parts) or restored is not None or _restores(facts, branch)
        plain = [
            *_numbers(facts, branch, steering, sets_weights),
            *_kept_numbers(facts, branch, steering, sets_weights),
        ]
        if not sets_weights and not plain:
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
        numbers = [name for name in plain if not _is_sent(facts, name, branch)]
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
        return _restores(facts, node.body) or _tries_to_read(facts, node)
    if not isinstance(node, cst.If):
        return False
    asked = facts.origins.behind(node.test, through_functions=False)
    return any(asks_for_files(facts, part) for part in asked) or _is_for_some(facts, node.orelse)


def _restores(facts: Facts, node: cst.CSTNode) -> bool:
    bodies = facts.training.reached_from(node)
    return any(facts.tree.is_in(call, bodies) for call in facts.files.restores.calls)


def _tries_to_read(facts: Facts, node: cst.Try) -> bool:
    """`try: start = int(open(path).read())`"""
    is_caught = bool(node.handlers)
    inside = [call for call in facts.tree.calls if facts.tree.contains(node.body, call)] if is_caught else []
    return any(known.LOOKING.match(path) for call in inside for path in facts.resolver.public(call.func))


def _steering(facts: Facts) -> set[cst.CSTNode]:
    """What the steps that are trained, or the settings of an optimizer, are made of."""
    heads: list[cst.CSTNode] = [loop.iter for loop in facts.tree.all_of(cst.For) if trains_in(facts, loop)]
    heads += [loop.test for loop in facts.tree.all_of(cst.While) if trains_in(facts, loop)]
    for call in facts.tree.calls:
        if any(map(facts.kinds.is_optimizer, facts.resolver.values(call))):
            heads += [arg.value for arg in call.args]
        if (
            isinstance(call.func, cst.Attribute)
            and call.func.attr.value in api.SETTING_VARIABLES
            and isinstance(call.func.value, cst.Attribute)
            and _is_optimizer(facts, call.func.value.value)
        ):  # `optimizer.learning_rate.assign(rate)`
            heads += [arg.value for arg in call.args]
        heads += [
            a.value for a in call.args if a.keyword is not None and a.keyword.value in ("initial_epoch", "epochs")
        ]
    return {part for head in heads for part in facts.origins.behind(head)}


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


def _numbers(facts: Facts, branch: Statement, steering: set[cst.CSTNode], sets_weights: bool) -> Iterator[str]:
    """The names that get a number, a text or an array in the branch, had one before, and are read behind it. Where no
    weights are set there, and of lists and dictionaries, only what steers the training."""
    scope = facts.tree.scope_of(branch)
    for name, bindings in scope.bindings.items():
        inside = [b for b in bindings if facts.tree.contains(branch, b.node) and b.kind in ("assign", "augmented")]
        if not inside or any(facts.tree.contains(branch, b.node) for b in bindings if b not in inside):
            continue
        before = [b for b in bindings if b not in inside and facts.tree.order[b.node] < facts.tree.order[branch]]
        before = before or _in_other_case(facts, branch, inside)
        reads = [read for read in facts.tree.names[name] if _reads_behind(facts, read, branch, inside)]
        if not before or not reads or any(is_none(b.value) for b in before):  # which is sent with no number
            continue
        is_steering = not steering.isdisjoint(reads) and _begins_with(before, (cst.BaseNumber, cst.List, cst.Dict))
        is_plain = _begins_plain(facts, before) or all(map(facts.losses.is_plain, reads))
        if is_steering or (sets_weights and is_plain):
            yield name


def _in_other_case(facts: Facts, branch: Statement, inside: list[Binding]) -> list[Binding]:
    """Those that give the name a number of the script's own, where another case of the branch reads it."""
    orelse = branch.orelse if isinstance(branch, cst.If) else None
    if orelse is None or len({facts.tree.contains(orelse, b.node) for b in inside}) < 2:
        return []
    return [b for b in inside if isinstance(b.value, cst.BaseNumber)]


def _kept_numbers(facts: Facts, branch: Statement, steering: set[cst.CSTNode], sets_weights: bool) -> Iterator[str]:
    """The attributes that begin with a number, get another in the branch, and are read elsewhere: `self.epoch = 3`."""
    bodies = facts.training.reached_from(branch)
    for name, bindings in facts.tree.attributes.items():
        inside = [b for b in bindings if b.target is not None and facts.tree.is_in(b.target, bodies)]
        others = [b for b in bindings if b not in inside]
        if not inside or not others or not _begins_with(others, (cst.BaseNumber,)):
            continue
        reads = [
            owner
            for node in facts.tree.names.get(name, ())
            if isinstance(owner := facts.tree.parent[node], cst.Attribute)
            and owner.attr is node
            and owner not in facts.tree.targets
            and not facts.tree.is_in(owner, bodies)
            and not is_only_told(facts.tree, facts.resolver, owner)
        ]
        if not reads or (not sets_weights and steering.isdisjoint(reads)):
            continue
        for binding in inside:
            target = binding.target
            if not isinstance(target, cst.Attribute) or binding.kind not in ("assign", "augmented"):
                continue
            written = written_at(facts, target, branch, target.value)
            if written is not None and is_known_outside(facts, written, branch):
                yield written.text
                break


def _begins_with(bindings: list[Binding], kinds: tuple[type[cst.BaseExpression], ...]) -> bool:
    """Whether the name begins with such a literal, and not with an empty one, of which nothing can be sent."""
    values = [part_at(b.value, b.path) if b.value is not None else None for b in bindings]
    return all(isinstance(value, kinds) and bool(getattr(value, "elements", True)) for value in values)


def _reads_behind(facts: Facts, read: cst.Name, branch: Statement, inside: list[Binding]) -> bool:
    if facts.tree.contains(branch, read) or not facts.tree.is_read(read):
        return False
    return not set(inside).isdisjoint(facts.resolver.reaching(read)) and not is_only_told(
        facts.tree, facts.resolver, read
    )


def _begins_plain(facts: Facts, bindings: list[Binding]) -> bool:
    """Whether the name begins with a number or a text: `start_epoch = 0`, `best = float("inf")`."""
    values = [part_at(b.value, b.path) if b.value is not None else None for b in bindings]
    return all(
        isinstance(value, cst.BaseExpression) and (is_constant(value) or facts.uncut.is_number(value))
        for value in values
    )
