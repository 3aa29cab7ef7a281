"""Give every worker the chief's weights before training starts.

Workers that start from different random weights apply equal updates to unequal models and never agree. All weights
are sent, the statistics of BatchNormalization among them, and a model that gets its variables only with its first
batch is synchronised at that moment. After weights are restored they are sent once more, with all else that the
checkpoint holds, so that a file which only the chief can read, or has heard of, is enough; so are weights that
`set_weights` takes from somewhere else than a model that is trained, and so broadcast, itself.

before:
    model = keras.Sequential([keras.layers.Dense(10)])
after:
    model = keras.Sequential([keras.layers.Dense(10)])
    lockstep.broadcast(model)

Where every worker trains on all of the data, `noise="same"` says so: all then draw the same masks and noise.
Models that are run without being trained, as a random teacher is, are sent, too. A model that no statement gives a
name to gets one, if nothing else is evaluated before it. One that a function makes is sent where the caller names it;
in the function, if that keeps its weights (fills a teacher with them, takes a snapshot). One that each branch of a
chain of conditions makes is sent behind the chain.

Leaves alone: models that nothing runs, or that are run only so that their results are printed or drawn; loaded ones;
what is broadcast already, or with the model that keeps it; what is restored in a branch that only predicts; an image
or another input that gradients are applied to.
Refuses: a model that can be given no name, or whose origin is not in this file; weights that are kept while their model
is made, where nothing can be sent in front of that (in a constructor, in the `build` of a layer); variables that are
made while a `tf.function` is traced.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import libcst as cst

from migrator.edits import InsertAfter, InsertBefore, InsertFirst, Refusal, Replace
from migrator.facts.files.known import CHECKPOINTS, LATEST
from migrator.facts.names import api
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.holders import HeldByParameter, Holder, Nameless, Unheld
from migrator.facts.objects.values import Class, Function, Object, Result, calls, is_call_of
from migrator.facts.program.tree import Statement, nodes_in
from migrator.facts.script import Facts
from migrator.findings.callers import WITH_CALLER
from migrator.insertion.behind import behind
from migrator.insertion.elsewhere import Written, callers_of, is_known_outside, written_at
from migrator.insertion.handover import (
    added_in_training,
    calls_in,
    classes_of,
    complete,
    gives,
    is_given,
    is_given_next,
    name_for,
    scope_of_owner,
    written,
)
from migrator.insertion.kept import is_kept_by
from migrator.insertion.ladders import behind_ladders, is_given_behind
from migrator.rule import Findings, rule

_LEAVING_WEIGHTS = frozenset({"build", "compile", "load_weights", "set_weights", "summary"})
_ADVICE = "give the model a name where it is built in this file, or call lockstep.broadcast by hand"
_WITH_CALLER = f"{WITH_CALLER}, or call lockstep.broadcast by hand"


@rule
def broadcast_weights(facts: Facts) -> Findings:
    if not facts.trains:
        return
    holders: list[Holder] = []
    params: list[HeldByParameter] = []
    for origin in dict.fromkeys((*facts.trained.holders(), *facts.untrained)):
        if isinstance(origin, Holder):
            holders.append(origin)
        elif isinstance(origin, Unheld):
            what = "the untrained model" if origin in facts.untrained else "what is trained here"
            reason = f"{what} cannot be broadcast: {origin.reason}"
            advice = _WITH_CALLER if origin.is_uncalled else _ADVICE
            yield Refusal(origin.node, reason, advice, breaks_training=True)
        elif isinstance(origin, Nameless):
            name = name_for(facts, origin)
            yield InsertBefore(origin.node, (f"{name} = ", origin.node))
            yield InsertBefore(origin.node, (_call_on(facts, [name]),))
            yield Replace(origin.node, (name,))
        elif not gives(facts, origin.name, origin.function.body, Role.BROADCAST):
            params.append(origin)
    for place in facts.put_by_name.among([holder.target for holder in holders]):
        yield Refusal(
            place,
            "a model or variable gets a name here that only the run knows: it may take the place of what is trained, "
            "which has been sent to all workers before",
            "give it a name that is written out, or keep such models in a list or dictionary",
            breaks_training=True,
        )
    restored: dict[InsertAfter, list[str]] = {}
    yield from _after_restoring(facts, holders, restored)
    # Of a builder that others only look at, too, what it makes is sent there.
    last = [holder for holder in holders if not facts.trained.is_named_before(holder, facts.untrained)]
    yield from _after_building(facts, last, params, restored)
    for edit in restored:
        yield from behind(facts, edit, "status")


def _after_building(
    facts: Facts, holders: list[Holder], params: list[HeldByParameter], restored: Mapping[InsertAfter, list[str]]
) -> Findings:
    variables: dict[cst.CSTNode, list[Holder]] = defaultdict(list)
    whole: dict[InsertAfter, None] = {}  # of a list, each model in it is a holder
    named: dict[InsertAfter, Holder] = {}
    sent: list[Holder] = []  # at once
    for holder in holders:
        block = facts.tree.block_of(holder.statement)
        if is_given(facts, holder, block, Role.BROADCAST) or is_given_behind(facts, holder, Role.BROADCAST):
            sent += [holder] if is_given_next(facts, holder, Role.BROADCAST) else []
            continue
        if _is_repeated(facts, holder, restored):
            continue
        late = list(_made_late(facts, holder))
        called = facts.built.later(holder.target, holder.statement, facts.training) if late else None
        if called is not None:
            yield from behind(facts, InsertAfter(called, (_call(facts, [holder]),)), "outputs")
            continue
        unseen = next((refusal for refusal, is_followed in late if not is_followed), None)
        refusal = unseen or _added_late(facts, holder) or _trained_at_once(facts, holder) or _taken_early(facts, holder)
        refusal = refusal or _made_in_graph(facts, holder)
        if refusal is not None:
            yield refusal
            continue
        scope = scope_of_owner(facts, holder)
        if facts.kinds.is_variable_or_list(holder.value):
            variables[block].append(holder)
        elif scope is not None:
            statement, name = scope
            if not gives(facts, name, facts.tree.block_of(statement), Role.BROADCAST):
                yield InsertAfter(statement, (_call_on(facts, [name]),))
        else:
            edit = InsertAfter(complete(facts, holder), (_call(facts, [holder]),))
            whole.setdefault(edit)
            named[edit] = holder
            sent.append(holder)
            whole.update(dict.fromkeys(_read_by_constructors(facts, holder)))
    kept = {
        edit
        for edit, holder in named.items()
        if any(is_kept_by(facts, holder, owner) for owner in sent if owner is not holder)
    }
    yield from behind_ladders(facts, [edit for edit in whole if edit not in kept], named)
    for param in params:
        if not any(is_kept_by(facts, param, owner) for owner in sent):
            yield InsertFirst(param.function, (_call_on(facts, [param.name]),))
    for block, group in variables.items():
        for last, held in _before_they_are_read(facts, block, group):
            yield InsertAfter(last, (_call(facts, held),))


def _before_they_are_read(
    facts: Facts, block: cst.CSTNode, holders: Sequence[Holder]
) -> Iterator[tuple[Statement, list[Holder]]]:
    """The variables of a block that one broadcast sends, with the statement behind which it stands: the last of them,
    or of those that come before somebody takes a value which is not the chief's yet."""
    order = facts.tree.order
    group: list[Holder] = []
    last: Statement | None = None
    for holder in sorted(holders, key=lambda holder: order[complete(facts, holder)]):
        at = complete(facts, holder)
        if last is not None and any(
            _is_read_between(facts, block, one.target, last, at, _leaves_value) for one in group
        ):
            yield last, group
            group = []
        group, last = [*group, holder], at
    if last is not None:
        yield last, group


def _read_by_constructors(facts: Facts, holder: Holder) -> Iterator[InsertAfter]:
    """Broadcasts of the variables whose values the constructor of the object takes as soon as it has made them."""
    objects = [v for v in facts.resolver.values(holder.value) if isinstance(v, Object)]
    for cls in classes_of(facts, objects):
        constructor = facts.resolver.method(cls, "__init__")
        if not isinstance(constructor, cst.FunctionDef):
            continue
        bound = [b for bindings in facts.tree.attributes.values() for b in bindings]
        for binding in sorted(bound, key=lambda b: facts.tree.order[b.node]):
            values = facts.resolver.values(binding.value) if isinstance(binding.value, cst.Call) else ()
            is_made = bool(values) and all(map(facts.kinds.is_variable, values)) and binding.target is not None
            if not is_made or binding.target is None or not facts.tree.contains(constructor.body, binding.target):
                continue
            at, name = facts.tree.statement_of(binding.target), facts.source(binding.target)
            block = facts.tree.block_of(at)
            if not facts.tree.contains(constructor.body, block):
                continue  # all of it stands on one line
            end = getattr(block, "body", (at,))[-1]
            is_read = _is_read_between(facts, block, binding.target, at, end, _leaves_value)
            if is_read and not gives(facts, name, block, Role.BROADCAST):
                yield InsertAfter(at, (_call_on(facts, [name], are_variables=True),))


def _is_read_between(
    facts: Facts,
    block: cst.CSTNode,
    target: cst.CSTNode,
    first: Statement,
    last: Statement,
    leaves: Callable[[Facts, cst.Name], bool],
) -> bool:
    """Whether a statement of the block, from behind the first on up to the last, may take the value of the variable or
    the weights of the model: it reads the name, or runs a function that does, for more than what `leaves` them."""
    order = facts.tree.order
    name = target.attr if isinstance(target, cst.Attribute) else target
    if not isinstance(name, cst.Name):
        return True
    within = [s for s in getattr(block, "body", ()) if order[first] < order[s] <= order[last]]
    bodies = [body for statement in within for body in facts.training.reached_from(statement)]
    return any(
        facts.tree.contains(body, read) and not leaves(facts, read)
        for read in facts.tree.names[name.value]
        if read is not name and (isinstance(facts.tree.parent[read], cst.Attribute) or facts.tree.is_read(read))
        for body in bodies
    )


def _leaves_value(facts: Facts, read: cst.Name) -> bool:
    """Whether what is read goes into a list as it is, or is asked for what no weights change."""
    owner = facts.tree.parent[read]
    while isinstance(owner, cst.Attribute):
        if owner.attr is not read and owner.attr.value in api.DESCRIPTIONS:
            return True
        owner = facts.tree.parent[owner]
    return isinstance(owner, (cst.Element, cst.DictElement))


def _leaves_weights(facts: Facts, read: cst.Name) -> bool:
    """Whether the model goes into a checkpoint, an optimizer is built for it, an attribute of it is set, or a method of
    Keras's only makes it ready."""
    node: cst.CSTNode = read
    while isinstance(owner := facts.tree.parent[node], cst.Attribute):
        node = owner
    if isinstance(owner, cst.AssignTarget) or (isinstance(node, cst.Attribute) and node.attr.value in api.DESCRIPTIONS):
        return True
    if isinstance(owner, cst.Call):
        is_plain = isinstance(node, cst.Attribute) and node.attr.value in _LEAVING_WEIGHTS
        return is_plain and not _is_own(facts, owner.func) and isinstance(facts.tree.parent[owner], cst.Expr)
    while isinstance(owner, cst.BinaryOperation):  # `optimizer.build(a.trainable_variables + b.trainable_variables)`
        owner = facts.tree.parent[owner]
    call = facts.tree.parent[owner] if isinstance(owner, cst.Arg) else None
    if not isinstance(call, cst.Call):
        return False
    func = call.func
    if isinstance(func, cst.Attribute) and func.attr.value == "build" and isinstance(facts.tree.parent[call], cst.Expr):
        return any(map(facts.kinds.is_optimizer, facts.resolver.values(func.value)))
    return not CHECKPOINTS.isdisjoint(facts.resolver.public(func)) and not _is_reached_through(facts, owner)


def _is_own(facts: Facts, method: cst.BaseExpression) -> bool:
    """Whether a class of the script's has the method that is called."""
    if not isinstance(method, cst.Attribute):
        return True
    owners = facts.resolver.values(method.value)
    own = [facts.resolver.method(v.of, method.attr.value) for v in owners if isinstance(v, Object)]
    return any(own) or any(isinstance(v, Function) for v in facts.resolver.values(method))


def _is_reached_through(facts: Facts, held: cst.CSTNode) -> bool:
    """Whether the script reads what a checkpoint holds as an attribute of it: `ckpt.net.get_weights()`."""
    name = held.keyword.value if isinstance(held, cst.Arg) and held.keyword is not None else "root"
    reads = [facts.tree.parent[node] for node in facts.tree.names.get(name, ())]
    owners = [r.value for r in reads if isinstance(r, cst.Attribute) and r.attr.value == name]
    return any(is_call_of(v, *CHECKPOINTS) for owner in owners for v in facts.resolver.values(owner))


def _made_late(facts: Facts, holder: Holder) -> Iterator[tuple[Refusal, bool]]:
    """Refusals for a tf.Module that makes its variables in its first call, or that is made of such modules or of
    layers: there is nothing to broadcast before. With each, whether the runtime sends them all the same."""
    modules = [
        v for v in facts.resolver.values(holder.value) if isinstance(v, Object) and facts.kinds.is_plain_module(v)
    ]
    for cls in classes_of(facts, modules):
        for made in calls_in(facts, cls):
            values = facts.resolver.values(made)
            is_late = any(map(facts.kinds.is_variable, values)) and not _is_made_at_once(facts, cls, made)
            waits = any(isinstance(v, Result) and _waits_for_input(facts, v) for v in values)
            waits = waits and not (_is_built_with_its_model(facts, cls, made) or _is_built_next(facts, cls, made))
            if is_late or waits:
                refusal = Refusal(
                    made,
                    "this module makes its variables in its first call, so there is nothing to broadcast before",
                    "make them in __init__, or call the module once before it is trained",
                    breaks_training=True,
                )
                yield refusal, not waits and _is_followed(facts, cls, made)


def _is_followed(facts: Facts, cls: Class, made: cst.Call) -> bool:
    """Whether the runtime sends the variable as soon as it is made: it becomes an attribute of the module at once,
    when that is called."""
    assign, call = facts.tree.parent[made], facts.resolver.method(cls, "__call__")
    targets = [target.target for target in assign.targets] if isinstance(assign, cst.Assign) else []
    owners = facts.resolver.values(targets[0].value) if targets and isinstance(targets[0], cst.Attribute) else ()
    is_module = bool(owners) and all(isinstance(v, Object) and facts.kinds.is_plain_module(v) for v in owners)
    is_attribute = len(targets) == 1 and is_module
    bodies = facts.training.reached_from(call.body) if is_attribute and call is not None else []
    return any(facts.tree.contains(body, made) for body in bodies)


def _added_late(facts: Facts, holder: Holder) -> Refusal | None:
    """A refusal for a list or dictionary that gets its variables while they are trained."""
    statement = added_in_training(facts, holder)
    if statement is None:
        return None
    return Refusal(
        holder.target,
        "variables are added to this while it is trained, so there is nothing to broadcast before",
        "make all variables before the first step, in a function of their own or by one call of the model",
        breaks_training=True,
    )


def _made_in_graph(facts: Facts, holder: Holder) -> Refusal | None:
    """A refusal for a variable that a function under `tf.function` makes: it gets its first value after the graph that
    is traced there, so a broadcast in that would send none."""
    if not facts.kinds.is_variable_or_list(holder.value) or not any(
        facts.tree.contains(body, holder.statement) for body in facts.training.traced_bodies
    ):
        return None
    return Refusal(
        holder.target,
        "this variable is made while a tf.function is traced, where nothing can be broadcast",
        "make it in a function of its own, before the first step",
        breaks_training=True,
    )


def _taken_early(facts: Facts, holder: Holder) -> Refusal | None:
    """A refusal for what keeps random weights while their model is made, of which a broadcast would come too late."""
    call = facts.early_reads.of(holder)
    if call is None:
        return None
    return Refusal(
        call,
        "this takes weights while their model is made, before the workers have the chief's",
        "take them once the model is made and has its name, or call lockstep.broadcast by hand in front of this",
        breaks_training=True,
    )


def _waits_for_input(facts: Facts, value: Result) -> bool:
    """Whether it is a Keras layer or model that is not built where it is made."""
    return facts.kinds.has_weights(value) and not facts.built.when_made(value)


def _is_built_with_its_model(facts: Facts, cls: Class, layer: cst.Call) -> bool:
    """Whether the layer is listed in a Sequential model that the constructor makes, and that is built there."""
    listed = facts.tree.parent[facts.tree.parent[layer]]
    arg = facts.tree.parent[listed]
    model = facts.tree.parent[arg] if isinstance(listed, (cst.List, cst.Tuple)) else None
    if not isinstance(arg, cst.Arg) or not isinstance(model, cst.Call):
        return False
    values = facts.resolver.values(model)
    is_built = bool(values) and all(
        isinstance(v, Result) and calls(v) in api.SEQUENTIAL and facts.built.when_made(v) for v in values
    )
    return is_built and _is_made_at_once(facts, cls, model)


def _is_built_next(facts: Facts, cls: Class, layer: cst.Call) -> bool:
    """Whether the constructor builds or calls the layer behind the statement that makes it."""
    assign = facts.tree.parent[layer]
    if not isinstance(assign, cst.Assign) or len(assign.targets) > 1 or not _is_made_at_once(facts, cls, layer):
        return False
    return facts.built.later(assign.targets[0].target, layer, facts.training) is not None


def _is_made_at_once(facts: Facts, cls: Class, made: cst.Call) -> bool:
    """Whether the constructor makes the variable, or what it calls."""
    constructor = facts.resolver.method(cls, "__init__")
    bodies = facts.training.reached_from(constructor.body) if constructor is not None else []
    return any(facts.tree.contains(body, made) for body in bodies)


def _trained_at_once(facts: Facts, holder: Holder) -> Refusal | None:
    """A loop that makes models and trains them: a statement behind it would come too late. What shares a line is given
    lines of its own."""
    loop = holder.statement
    shares_line = any(isinstance(owner, cst.SimpleStatementSuite) for owner in facts.tree.ancestors(holder.target))
    if isinstance(loop, cst.SimpleStatementLine) or shares_line:
        return None
    if any(facts.tree.contains(body, s) for body in facts.training.reached_from(loop) for s in facts.training.sites):
        return Refusal(
            holder.target,
            "this loop makes models and trains them, too, so there is no place for a broadcast between",
            "make all models before the loop that trains them",
            breaks_training=True,
        )
    return None


def _is_repeated(facts: Facts, holder: Holder, restored: Mapping[InsertAfter, list[str]]) -> bool:
    """Whether the block goes on to restore the model, and broadcasts it then, alone or with others, before anything
    trains."""
    block, order = facts.tree.block_of(holder.statement), facts.tree.order
    sites = facts.training.sites
    body = getattr(block, "body", ())
    for edit, names in restored.items():
        at = facts.tree.statement_of(edit.node)
        first, last = order[holder.statement], order[at]
        if facts.tree.block_of(at) is block and written(facts, holder) in names and first < last:
            between = [b for s in body if first < order[s] <= last for b in facts.training.reached_from(s)]
            is_trained = any(facts.tree.contains(b, site) for b in between for site in sites)
            is_read = _is_read_between(facts, block, holder.target, holder.statement, at, _leaves_weights)
            # Parts of the model, and what has other names.
            taking = [c for c in facts.tree.calls if facts.tree.is_in(c, between) and facts.early_reads.takes(c)]
            is_taken = not all(_is_put_into(facts, call, holder) for call in taking)
            return not (is_trained or is_read or is_taken)
    return False


def _is_put_into(facts: Facts, taking: cst.Call, holder: Holder) -> bool:
    """`model.set_weights(average.get_weights())`, of which the restored weights are made."""
    return any(
        isinstance(owner, cst.Call)
        and isinstance(owner.func, cst.Attribute)
        and owner.func.attr.value == "set_weights"
        and facts.source(owner.func.value) == written(facts, holder)
        for owner in facts.tree.ancestors(taking)
    )


def _call(facts: Facts, held: list[Holder]) -> str:
    are_variables = all(facts.kinds.is_variable_or_list(holder.value) for holder in held)
    return _call_on(facts, [written(facts, holder) for holder in held], are_variables=are_variables)


def _call_on(facts: Facts, names: list[str], *, are_variables: bool = False) -> str:
    names = list(dict.fromkeys(names))
    # On data that nobody shares out all workers have to drop the same; where sharing is given up, it also tells that.
    is_said = facts.trains_whole and not (facts.cuts and are_variables)
    noise = ['noise="same"'] if is_said else []
    return facts.call("broadcast", names[0] if len(names) == 1 else f"[{', '.join(names)}]", *noise)


def _after_restoring(facts: Facts, holders: list[Holder], found: dict[InsertAfter, list[str]]) -> Iterator[Refusal]:
    """Puts the broadcasts behind what is restored into `found`, with what each sends."""
    held = {facts.source(h.target) for h in holders}
    trained = {facts.source(o.target) for o in facts.trained.holders() if isinstance(o, Holder)}
    for method in facts.files.restores.taken:
        if any(_names_one_of(facts, m, held) or _may_steer(facts, m) for m in facts.files.restores.models_of(method)):
            yield Refusal(
                method,
                "weights are restored where this is called, which is not followed, so there is no place to broadcast "
                "them",
                "call the method by its name where it restores",
                breaks_training=True,
            )
    for call in (*facts.files.restores.calls, *_foreign_weights(facts)):
        is_kept = not isinstance(getattr(call.func, "value", None), cst.Call)  # else nobody has what is made for it
        models = [m for m in facts.files.restores.models_of(call.func) if is_kept or not _is_made_for_it(facts, m)]
        sought = held if call in facts.files.restores.calls else trained
        if not any(_names_one_of(facts, model, sought) or _may_steer(facts, model) for model in models):
            continue
        if facts.apart.are_apart(call, facts.training.sites):
            continue  # what all have loaded is not trained
        places = _places_that_know(facts, call, models, call, set())
        late = next((at for at, _ in places or () if _trains_in(facts, facts.tree.statement_of(at))), None)
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
                found[InsertAfter(statement, (_call_on(facts, names),))] = names  # one helper may restore in two ways


def _places_that_know(
    facts: Facts, call: cst.Call, models: Sequence[cst.BaseExpression], at: cst.Call, passed: set[cst.Call]
) -> list[tuple[cst.Call, list[Written]]] | None:
    """The call that restores the models, or those through which it is made, from where names lead to all of these, with
    the models as they are written there; None where control may come from somewhere else."""
    passed.add(at)
    owner = cst.ensure_type(call.func, cst.Attribute).value
    known = [one for model in models if (one := _restored_at(facts, model, at, owner)) is not None]
    if _is_left(facts, at) or isinstance(facts.tree.callable_of(at), cst.Lambda):
        known = []  # no statement can stand in it, or behind it
    is_known = len(known) == len(models)
    if is_known and not _is_passed_over(facts, at, known):
        return [(at, known)]
    found = []
    callers = callers_of(facts, at)
    for caller in callers:
        more = _places_that_know(facts, call, models, caller, passed) if caller not in passed else None
        if more is None or (is_known and any(_trains_in(facts, facts.tree.statement_of(place)) for place, _ in more)):
            return [(at, known)] if is_known else None
        found += more
    return found or ([(at, known)] if is_known else None)


def _is_passed_over(facts: Facts, at: cst.Call, models: Sequence[Written]) -> bool:
    """Whether the function returns without coming there where it finds no file, as a worker may that the chief alone
    shares none with: then all meet where it is called."""
    function, statement = facts.tree.function_of(at), facts.tree.statement_of(at)
    if function is None or gives(facts, models[0].text, facts.tree.block_of(statement), Role.BROADCAST, statement):
        return False
    here = facts.tree.order[statement]
    for asking in nodes_in(function.body):
        if isinstance(asking, cst.Try) and facts.tree.contains(asking.body, statement) and _leaves(asking):
            return True
        if isinstance(asking, cst.If) and _leaves(asking):
            asked = facts.origins.behind(asking.test, through_functions=False)
            is_before = facts.tree.contains(asking, statement) or facts.tree.order[asking] < here
            if is_before and any(_asks_for_files(facts, part) for part in asked):
                return True
    return False


def _asks_for_files(facts: Facts, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Attribute) and node.attr.value == LATEST:
        return any(is_call_of(value, *CHECKPOINTS) for value in facts.resolver.values(node.value))
    return isinstance(node, cst.Call) and (
        f"tensorflow.train.{LATEST}" in facts.resolver.public(node.func) or facts.files.asks(node)
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
        if isinstance(owner, (cst.If, cst.Try)) and not _leaves(owner):
            if _trains_in(facts, facts.tree.block_of(statement)) or not all(
                is_known_outside(facts, one, owner) for one in models
            ):
                break
            statement = owner
    return statement


def _trains_in(facts: Facts, node: cst.CSTNode) -> bool:
    reached = facts.training.reached_from(node)
    return any(facts.tree.contains(body, site) for body in reached for site in facts.training.sites)


def _is_left(facts: Facts, call: cst.Call) -> bool:
    """Whether it stands in the head of a statement that control may leave before its end."""
    statement = facts.tree.statement_of(call)
    if not isinstance(statement, cst.BaseCompoundStatement) or not _leaves(statement):
        return False
    around = itertools.takewhile(lambda owner: owner is not statement, facts.tree.ancestors(call))
    return not any(isinstance(owner, cst.SimpleStatementSuite) for owner in around)  # else it gets a line of its own


def _leaves(statement: cst.BaseCompoundStatement) -> bool:
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
    return any(isinstance(o, Holder) and facts.source(o.target) in names for o in facts.trained.of(model))
