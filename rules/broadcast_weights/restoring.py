"""Broadcasts behind what is restored: of weights, of optimizers and counters, where all workers come by."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import libcst as cst

from migrator.edits import InsertAfter, Refusal
from migrator.facts.files.known import CHECKPOINTS, LATEST_CHECKPOINT
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.holders import Holder
from migrator.facts.objects.told import TELLING, is_only_told
from migrator.facts.objects.values import is_call_of
from migrator.facts.program.tree import Statement, nodes_in
from migrator.facts.script import Facts
from migrator.insertion.elsewhere import Written, callers_of, is_known_outside, written_at
from migrator.insertion.handover import gives

from .broadcast_call import call_on

_TELLING = (*TELLING, "os.path.")
_PLAIN = frozenset({"builtins.int", "builtins.len", "builtins.repr", "builtins.str"})
_OF_TEXTS = frozenset({"endswith", "format", "replace", "rsplit", "split", "startswith", "strip"})
_OF_STATUS = frozenset({
    "assert_consumed", "assert_existing_objects_matched", "assert_nontrivial_match", "expect_partial",
})  # fmt: skip


def after_restoring(facts: Facts, holders: list[Holder], found: dict[InsertAfter, list[str]]) -> Iterator[Refusal]:
    """Puts the broadcasts behind what is restored into `found`, with what each sends."""
    held = {facts.source(h.target) for h in holders}
    trained = {facts.source(o.target) for o in facts.trained.holders() if isinstance(o, Holder)}
    for method in facts.files.restores.taken:
        if any(_names_one_of(facts, m, held) or _may_steer(facts, m) for m in facts.files.restores.models_of(method)):
            yield _unfollowed(method)
    if held:
        yield from map(_unfollowed, facts.files.restores.unfollowed)
    for call in (*facts.files.restores.calls, *_foreign_weights(facts)):
        is_kept = not isinstance(getattr(call.func, "value", None), cst.Call)  # else nobody has what is made for it
        models = [m for m in facts.files.restores.models_of(call.func) if is_kept or not _is_made_for_it(facts, m)]
        sought = held if call in facts.files.restores.calls else trained
        if not any(_names_one_of(facts, model, sought) or _may_steer(facts, model) for model in models):
            continue
        if facts.apart.are_apart(call, facts.training.sites):
            continue  # what all have loaded is not trained
        places = _places_that_know(facts, call, models, call, set())
        late = next((at for at, _ in places or () if trains_in(facts, facts.tree.statement_of(at))), None)
        if late is not None:
            yield Refusal(
                late,
                "this restores weights and trains in one statement, so there is no place for a broadcast between",
                "restore them on a line of its own",
                breaks_training=True,
            )
            continue
        if places is None:
            reason = f"no name that is known here leads to `{facts.source(models[0])}`"
            advice = "restore them where the model has a name, or call lockstep.broadcast by hand"
            if _is_left(facts, call):
                reason, advice = "control may leave this statement before its end", "restore them on a line of its own"
            yield Refusal(
                call, f"these weights would have to be broadcast again, and {reason}", advice, breaks_training=True
            )
            continue
        for at, known in places:
            statement = _outside_of_conditions(facts, facts.tree.statement_of(at), known)
            if not gives(facts, known[0].text, facts.tree.block_of(statement), Role.BROADCAST, statement):
                names = [one.text for one in known]
                found[InsertAfter(statement, (call_on(facts, names),))] = names  # one helper may restore in two ways


def _unfollowed(method: cst.BaseExpression) -> Refusal:
    return Refusal(
        method,
        "weights are restored where this is called, which is not followed, so there is no place to broadcast them",
        "call the method by its name where it restores",
        breaks_training=True,
    )


def _places_that_know(
    facts: Facts, call: cst.Call, models: Sequence[cst.BaseExpression], at: cst.Call, passed: set[cst.Call]
) -> list[tuple[cst.Call, list[Written]]] | None:
    """The call that restores the models, or those through which it is made, from where names lead to all of these, with
    the models as they are written there; None where control may come from somewhere else."""
    passed.add(at)
    owner = cst.ensure_type(call.func, cst.Attribute).value
    known = [one for model in models if (one := _restored_at(facts, model, at, owner)) is not None]
    function, callers = facts.tree.function_of(at), callers_of(facts, at)
    # Else those that meet behind its call would differ in more than the weights.
    is_plain = (
        function is not None and _only_restores(facts, function) and all(_is_for_nothing(facts, c) for c in callers)
    )
    is_left = _is_left(facts, at)
    if is_left and not is_plain:
        return None
    if is_left or isinstance(facts.tree.callable_of(at), cst.Lambda):
        known = []  # no statement can stand in it, or behind it
    is_known = len(known) == len(models)
    is_alone = any(_is_called_for_some(facts, caller) for caller in callers)
    if is_known and not is_alone and not (is_plain and _is_passed_over(facts, at, known)):
        return [(at, known)]
    found = []
    for caller in callers:
        more = _places_that_know(facts, call, models, caller, passed) if caller not in passed else None
        if more is None or (is_known and any(trains_in(facts, facts.tree.statement_of(place)) for place, _ in more)):
            return [(at, known)] if is_known else None
        found += more
    return found or ([(at, known)] if is_known else None)


def _is_called_for_some(facts: Facts, caller: cst.Call) -> bool:
    """Whether the call stands in a condition that asks for files: only the workers that find one come there."""
    statement = facts.tree.statement_of(caller)
    inside = itertools.takewhile(lambda owner: not isinstance(owner, cst.FunctionDef), facts.tree.ancestors(statement))
    return any(
        isinstance(owner, cst.If)
        and not leaves(owner)
        and not trains_in(facts, owner)
        and any(asks_for_files(facts, part) for part in facts.origins.behind(owner.test, through_functions=False))
        for owner in inside
    )


def _is_passed_over(facts: Facts, at: cst.Call, models: Sequence[Written]) -> bool:
    """Whether the function returns without coming there where it finds no file, as a worker may that shares none with
    the chief."""
    function, statement = facts.tree.function_of(at), facts.tree.statement_of(at)
    if function is None or gives(facts, models[0].text, facts.tree.block_of(statement), Role.BROADCAST, statement):
        return False
    return any(
        _may_pass_over(facts, node, statement)
        for node in nodes_in(function.body)
        if isinstance(node, (cst.If, cst.Try)) and leaves(node)
    )


def _may_pass_over(facts: Facts, asking: cst.If | cst.Try, statement: Statement) -> bool:
    """Whether control may come past the statement by this one, of a file that is not found."""
    if isinstance(asking, cst.Try):
        return facts.tree.contains(asking.body, statement)
    is_before = facts.tree.contains(asking, statement) or facts.tree.order[asking] < facts.tree.order[statement]
    asked = facts.origins.behind(asking.test, through_functions=False)
    return is_before and any(asks_for_files(facts, part) for part in asked)


def _only_restores(facts: Facts, function: cst.FunctionDef) -> bool:
    """Whether what the function does leaves nothing but the weights other than it was."""
    nodes = list(nodes_in(function.body))
    if any(isinstance(node, (cst.Global, cst.Nonlocal, cst.Yield, cst.Await, cst.Del)) for node in nodes):
        return False
    if any(node in facts.tree.targets and not isinstance(node, cst.Name) for node in nodes):
        return False
    return all(_leaves_nothing(facts, node) for node in nodes if isinstance(node, cst.Call))


def _leaves_nothing(facts: Facts, call: cst.Call) -> bool:
    """Whether the call restores, asks for files, or only tells."""
    if call in facts.files.restores.calls or asks_for_files(facts, call):
        return True
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in _OF_TEXTS | _OF_STATUS:
        return call.func.attr.value not in facts.tree.methods
    paths = facts.resolver.public_alone(call.func)
    return bool(paths) and all(path in _PLAIN or path.startswith(_TELLING) for path in paths)


def _is_for_nothing(facts: Facts, call: cst.Call) -> bool:
    """Whether nothing is made of what the call gives, but perhaps told."""
    return isinstance(facts.tree.parent[call], cst.Expr) or is_only_told(facts.tree, facts.resolver, call)


def asks_for_files(facts: Facts, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Attribute) and node.attr.value == LATEST_CHECKPOINT:
        return any(is_call_of(value, *CHECKPOINTS) for value in facts.resolver.values(node.value))
    return isinstance(node, cst.Call) and (
        f"tensorflow.train.{LATEST_CHECKPOINT}" in facts.resolver.public(node.func) or facts.files.asks(node)
    )


def _restored_at(facts: Facts, model: cst.BaseExpression, at: cst.Call, owner: cst.BaseExpression) -> Written | None:
    """The model as it is written there: what is made for a checkpoint has no other name than its attribute."""
    if not _is_made_for_it(facts, model):
        return written_at(facts, model, at, owner)
    holder = written_at(facts, owner, at, owner)
    is_managed = any(is_call_of(v, "tensorflow.train.CheckpointManager") for v in facts.resolver.values(owner))
    keyword = cst.ensure_type(cst.ensure_type(facts.tree.parent[model], cst.Arg).keyword, cst.Name).value
    path = f".checkpoint.{keyword}" if is_managed else f".{keyword}"
    return Written(holder.text + path, holder.bound) if holder is not None else None


def _is_made_for_it(facts: Facts, model: cst.BaseExpression) -> bool:
    """`Checkpoint(step=tf.Variable(0), optimizer=Adam())`"""
    arg = facts.tree.parent[model]
    is_made = isinstance(model, (cst.Call, cst.List, cst.Tuple, cst.Dict))
    return is_made and isinstance(arg, cst.Arg) and arg.keyword is not None


def _foreign_weights(facts: Facts) -> Iterator[cst.Call]:
    """The `model.set_weights(…)` that may give a model the weights of one that is not trained here: those differ from
    worker to worker, as nothing broadcasts them."""
    for call in facts.files.restores.copies:
        taken = [
            part.func.value
            for part in facts.origins.behind(call.args[0].value)
            if isinstance(part, cst.Call)
            and isinstance(part.func, cst.Attribute)
            and part.func.attr.value == "get_weights"
        ]
        if not taken or not all(_is_broadcast_here(facts, t) for t in taken):
            yield call


def _outside_of_conditions(facts: Facts, statement: Statement, models: Sequence[Written]) -> Statement:
    """The statement, or the `if` around it: where only the chief finds a file to restore, all must meet afterwards. But
    not where training goes on in the branch, or the models are made in it."""
    for owner in facts.tree.ancestors(statement):
        if isinstance(owner, (cst.FunctionDef, cst.For, cst.While, cst.ClassDef)):
            break
        if isinstance(owner, (cst.If, cst.Try)) and not leaves(owner):
            if trains_in(facts, facts.tree.block_of(statement)) or not all(
                is_known_outside(facts, one, owner) for one in models
            ):
                break
            statement = owner
    return statement


def trains_in(facts: Facts, node: cst.CSTNode) -> bool:
    reached = facts.training.reached_from(node)
    return any(facts.tree.contains(body, site) for body in reached for site in facts.training.sites)


def _is_left(facts: Facts, call: cst.Call) -> bool:
    """Whether it stands in the head of a statement that control may leave before its end."""
    statement = facts.tree.statement_of(call)
    if not isinstance(statement, cst.BaseCompoundStatement) or not leaves(statement):
        return False
    around = itertools.takewhile(lambda owner: owner is not statement, facts.tree.ancestors(call))
    return not any(isinstance(owner, cst.SimpleStatementSuite) for owner in around)  # else it gets a line of its own


def leaves(statement: cst.BaseCompoundStatement) -> bool:
    """Whether a branch returns or raises, so that not all control comes out at the end."""
    return any(isinstance(node, (cst.Return, cst.Raise, cst.Break, cst.Continue)) for node in nodes_in(statement))


def _is_broadcast_here(facts: Facts, model: cst.BaseExpression) -> bool:
    """Whether the model is one of those that this rule broadcasts where they are made."""
    origins = facts.trained.of(model)
    return bool(origins) and all(origin in facts.trained.holders() for origin in origins)


def _may_steer(facts: Facts, restored: cst.BaseExpression) -> bool:
    """Whether it is no model, but a counter, an optimizer, or a checkpoint that may hold such."""
    return facts.kinds.is_variable_or_list(restored) or any(
        facts.kinds.is_optimizer(v) or is_call_of(v, *CHECKPOINTS) for v in facts.resolver.values(restored)
    )


def _names_one_of(facts: Facts, model: cst.BaseExpression, names: set[str]) -> bool:
    origins = facts.trained.of(model)
    if isinstance(facts.tree.callable_of(model), cst.Lambda) and not any(isinstance(o, Holder) for o in origins):
        return bool(names)  # what it is given by a partial has no name that is seen
    return any(isinstance(o, Holder) and facts.source(o.target) in names for o in origins)
