"""Give every worker the chief's weights before training starts.

Workers that start from different random weights apply equal updates to unequal models and never agree. All weights
are sent, the statistics of BatchNormalization among them, and a model that gets its variables only with its first
batch is synchronised at that moment. After weights are restored they are sent once more, with all else that the
checkpoint holds, so that a file which only the chief can read, or has heard of, is enough; so are weights that
`set_weights` takes from somewhere else than a model that is trained, and so broadcast, itself. Where a file is looked
for, all that is set once it is found is sent behind that: a teacher, averages, optimizers, and numbers.

before:
    model = keras.Sequential([keras.layers.Dense(10)])
after:
    model = keras.Sequential([keras.layers.Dense(10)])
    lockstep.broadcast(model)

Where every worker trains on all of the data, `noise="same"` says so: all then draw the same masks and noise.
Models that are run without being trained, as a random teacher is, are sent, too; where nobody is seen to run a
training, all that start from random weights. A model that no statement gives a name to gets one, if nothing else is
evaluated before it. One that a function makes is sent where the caller names it; in the function, if that keeps its
weights (fills a teacher with them, takes a snapshot). One that each branch of a chain of conditions makes is sent
behind the chain.

Leaves alone: models that nothing runs, or that are run only so that their results are printed or drawn; loaded ones;
what is broadcast already, or with the model that keeps it; what is restored in a branch that only predicts; an image
or another input that gradients are applied to.
Refuses: a model that can be given no name, or whose origin is not in this file; weights that are kept while their model
is made, where nothing can be sent in front of that (in a constructor, in the `build` of a layer); variables that are
made while a `tf.function` is traced.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import libcst as cst

from migrator.edits import InsertAfter, InsertBefore, InsertFirst, Refusal, Replace
from migrator.facts.files.known import CHECKPOINTS
from migrator.facts.names import api
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.holders import HeldByParameter, Holder, Nameless, Unheld
from migrator.facts.objects.values import Class, Function, Object, Result, calls, is_call_of
from migrator.facts.program.tree import Statement
from migrator.facts.script import Facts
from migrator.findings.callers import WITH_CALLER
from migrator.insertion.behind import behind
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

from .broadcast_call import call_on
from .restoring import after_restoring
from .some_workers import behind_branches

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
            yield InsertBefore(origin.node, (call_on(facts, [name]),))
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
    yield from after_restoring(facts, holders, restored)
    yield from behind_branches(facts, restored)
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
                yield InsertAfter(statement, (call_on(facts, [name]),))
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
            yield InsertFirst(param.function, (call_on(facts, [param.name]),))
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
                yield InsertAfter(at, (call_on(facts, [name], are_variables=True),))


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
    return call_on(facts, [written(facts, holder) for holder in held], are_variables=are_variables)
