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

Models that are run without being trained, as a random teacher is, are sent, too.

Leaves alone: models that nothing runs; loaded ones; what is broadcast already; an image or another input that gradients
are applied to.
Refuses: a model that no statement gives a name to, or whose origin is not in this file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from migrator.edits import InsertAfter, InsertFirst, Refusal
from migrator.facts import vocabulary
from migrator.facts.holders import Holder, Unheld
from migrator.facts.script import Facts
from migrator.facts.tree import Statement
from migrator.facts.values import Class, External, Member, Object, Result, is_strategy
from migrator.facts.vocabulary import Role
from migrator.rule import Findings, rule

_ADVICE = "give the model a name where it is built in this file, or call lockstep.broadcast by hand"
# Sequential models are often built up in steps; the broadcast follows the last.
_BUILDING = frozenset({"add", "build", "pop"})


@rule
def broadcast_weights(facts: Facts) -> Findings:
    if not facts.trains:
        return
    holders = []
    for origin in (*facts.trained.holders(), *facts.untrained):
        if isinstance(origin, Holder):
            holders.append(origin)
        elif isinstance(origin, Unheld):
            what = "the untrained model" if origin in facts.untrained else "what is trained here"
            reason = f"{what} cannot be broadcast: {origin.reason}"
            yield Refusal(origin.node, reason, _ADVICE, breaks_training=True)
        elif not _broadcasts(facts, origin.name, origin.function.body):
            yield InsertFirst(origin.function, (facts.call("broadcast", origin.name),))
    restored = list(_after_restoring(facts, holders))
    yield from _after_building(facts, holders, restored)
    yield from restored


def _after_building(facts: Facts, holders: list[Holder], restored: list[InsertAfter]) -> Findings:
    variables: dict[cst.CSTNode, list[Holder]] = defaultdict(list)
    whole: dict[InsertAfter, None] = {}  # of a list, each model in it is a holder
    for holder in holders:
        block = facts.tree.block_of(holder.statement)
        if _is_broadcast(facts, holder, block) or _is_repeated(facts, holder, restored):
            continue
        late = _made_late(facts, holder)
        called = facts.built.later(holder.target, holder.statement, facts.training) if late is not None else None
        if late is not None and called is not None:
            yield InsertAfter(called, (_call(facts, [holder]),))
            continue
        refusal = late or _trained_at_once(facts, holder)
        if refusal is not None:
            yield refusal
            continue
        scope = _scope_of_owner(facts, holder)
        if facts.kinds.is_variable_or_list(holder.value):
            variables[block].append(holder)
        elif scope is not None:
            statement, name = scope
            if not _broadcasts(facts, name, facts.tree.block_of(statement)):
                yield InsertAfter(statement, (facts.call("broadcast", name),))
        else:
            whole.setdefault(InsertAfter(_built(facts, holder), (_call(facts, [holder]),)))
    yield from whole
    for group in variables.values():
        yield InsertAfter(group[-1].statement, (_call(facts, group),))


def _is_broadcast(facts: Facts, holder: Holder, block: cst.CSTNode) -> bool:
    """Whether the script broadcasts this very object, not another that had the name before."""
    for part in _broadcast_values(facts, block):
        if facts.source(part) != facts.source(holder.target) and not facts.source(part).startswith(
            f"{facts.source(holder.target)}."
        ):
            continue
        names = list(facts.tree.names_in(part))
        if not isinstance(holder.target, cst.Name) or not names:
            return True
        reaching = facts.resolver.reaching(names[0])
        if any(b.target is holder.target or facts.tree.statement_of(b.node) is holder.statement for b in reaching):
            return True
    return False


def _scope_of_owner(facts: Facts, holder: Holder) -> tuple[cst.With, str] | None:
    """The `with strategy.scope():` under which an object is made that makes the model for itself, and the model's name
    behind it: what is communicated inside of the scope would be part of the strategy."""
    function = facts.tree.function_of(holder.target)
    if not isinstance(holder.target, cst.Attribute) or function is None or function.name.value != "__init__":
        return None
    callers = facts.resolver.callers(function)
    made = facts.tree.parent[callers[0]] if len(callers) == 1 else None
    if not isinstance(made, cst.Assign) or not isinstance(made.targets[0].target, (cst.Name, cst.Attribute)):
        return None
    for owner in facts.tree.ancestors(made):
        if isinstance(owner, cst.FunctionDef):
            break
        if isinstance(owner, cst.With) and any(_is_scope(facts, item.item) for item in owner.items):
            return owner, f"{facts.source(made.targets[0].target)}.{holder.target.attr.value}"
    return None


def _is_scope(facts: Facts, item: cst.BaseExpression) -> bool:
    return any(
        isinstance(value, Result)
        and isinstance(value.function, Member)
        and value.function.name == "scope"
        and is_strategy(value.function.owner)
        for value in facts.resolver.values(item)
    )


def _made_late(facts: Facts, holder: Holder) -> Refusal | None:
    """A refusal for a tf.Module that makes its variables in its first call, or that is made of such modules or of
    layers: there is nothing to broadcast before."""
    modules = [
        v for v in facts.resolver.values(holder.value) if isinstance(v, Object) and facts.kinds.is_plain_module(v)
    ]
    for cls in _made_of(facts, modules):
        for made in _calls_in(facts, cls):
            values = facts.resolver.values(made)
            is_late = any(map(facts.kinds.is_variable, values)) and not _is_made_at_once(facts, cls, made)
            if is_late or any(isinstance(v, Result) and _waits_for_input(facts, v) for v in values):
                return Refusal(
                    made,
                    "this module makes its variables in its first call, so there is nothing to broadcast before",
                    "make them in __init__, or call the module once before it is trained",
                    breaks_training=True,
                )
    return None


def _made_of(facts: Facts, modules: list[Object]) -> list[Class]:
    """The classes of the modules, and of those that these make for themselves."""
    found: dict[Class, None] = {}
    queue = [cls for module in modules for cls in facts.resolver.lineage(module.of)]
    while queue:
        cls = queue.pop(0)
        if cls not in found:
            found[cls] = None
            inner = [v for call in _calls_in(facts, cls) for v in facts.resolver.values(call) if isinstance(v, Object)]
            queue += [c for v in inner if facts.kinds.is_plain_module(v) for c in facts.resolver.lineage(v.of)]
    return list(found)


def _calls_in(facts: Facts, cls: Class) -> Iterator[cst.Call]:
    return (call for call in facts.tree.calls if facts.tree.contains(cls.node, call))


def _waits_for_input(facts: Facts, value: Result) -> bool:
    """Whether it is a Keras layer or model that is not built where it is made."""
    return facts.kinds.has_weights(value) and not facts.built.when_made(value)


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


def _is_repeated(facts: Facts, holder: Holder, restored: list[InsertAfter]) -> bool:
    """Whether the block goes on to restore the model, and broadcasts it then, before anything trains."""
    block, order = facts.tree.block_of(holder.statement), facts.tree.order
    sites = facts.training.sites
    body = getattr(block, "body", ())
    for edit in restored:
        first, last = order[holder.statement], order[edit.node]
        same = facts.tree.block_of(edit.node) is block and edit.code == (_call(facts, [holder]),)
        if same and first < last:
            between = [b for s in body if first < order[s] <= last for b in facts.training.reached_from(s)]
            return not any(facts.tree.contains(b, site) for b in between for site in sites)
    return False


def _call(facts: Facts, held: list[Holder]) -> str:
    return _call_on(facts, [_written(facts, holder) for holder in held])


def _call_on(facts: Facts, names: list[str]) -> str:
    names = list(dict.fromkeys(names))
    return facts.call("broadcast", names[0] if len(names) == 1 else f"[{', '.join(names)}]")


def _written(facts: Facts, holder: Holder) -> str:
    """The name; of a list of pairs `(model, "a text")`, only what is trained in each of them."""
    name = facts.source(holder.target)
    pair = facts.tree.parent[facts.tree.parent[holder.value]] if holder.path else None
    if not isinstance(pair, (cst.Tuple, cst.List)) or all(_has_variables(facts, e.value) for e in pair.elements):
        return name
    each = facts.fresh_name("each", holder.target)
    places = "".join(f"[{index}]" for index in holder.path)
    is_dictionary = isinstance(facts.tree.parent[facts.tree.parent[pair]], cst.Dict)
    return f"[{each}{places} for {each} in {name}{'.values()' if is_dictionary else ''}]"


def _has_variables(facts: Facts, node: cst.BaseExpression) -> bool:
    """Whether it can be broadcast: a model, a layer, a variable, an optimizer."""
    kinds = facts.kinds
    values = facts.resolver.values(node)
    return bool(values) and all(kinds.has_weights(v) or kinds.is_variable(v) or kinds.is_optimizer(v) for v in values)


def _built(facts: Facts, holder: Holder) -> Statement:
    """The statement after which the model is complete: the last `model.add(…)` or `model.build(…)` in its block."""
    statement = holder.statement
    block = facts.tree.block_of(statement)
    for call in facts.tree.calls:
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in _BUILDING:
            continue
        later = facts.tree.lift(call, block) if func.value.deep_equals(holder.target) else None
        if later is None or facts.tree.function_of(call) is not facts.tree.function_of(holder.target):
            continue
        if facts.tree.order[later] > facts.tree.order[statement] and not _is_rebound(facts, holder, later):
            statement = later
    return statement


def _is_rebound(facts: Facts, holder: Holder, later: Statement) -> bool:
    """`model = A()` … `model = B()` … `model.add(…)`: the addition belongs to the second."""
    name, order = holder.target, facts.tree.order
    if not isinstance(name, cst.Name):
        return False
    bindings = facts.tree.scope_of(name).bindings.get(name.value, [])
    return any(b.target is not name and order[name] < order[b.node] < order[later] for b in bindings)


def _after_restoring(facts: Facts, holders: list[Holder]) -> Iterator[InsertAfter]:
    trained = {facts.source(h.target) for h in holders}
    for call in (*facts.files.restores, *_foreign_weights(facts)):
        parts = list(facts.files.restored(call))
        models = parts if any(_names_one_of(facts, part, trained) for part in parts) else []
        statement = _outside_of_conditions(facts, facts.tree.statement_of(call))
        if not models or _broadcasts(facts, facts.source(models[0]), facts.tree.block_of(statement), statement):
            continue
        yield InsertAfter(statement, (_call_on(facts, [facts.source(model) for model in models]),))


def _foreign_weights(facts: Facts) -> Iterator[cst.Call]:
    """The `model.set_weights(…)` that may give a model the weights of one that is not trained here: those differ from
    worker to worker, as nothing broadcasts them."""
    for call in facts.files.copies:
        taken = [
            part.func.value
            for part in facts.origins.behind(call.args[0].value)
            if isinstance(part, cst.Call)
            and isinstance(part.func, cst.Attribute)
            and part.func.attr.value == "get_weights"
        ]
        if not taken or not all(_is_broadcast_here(facts, t) for t in taken):
            yield call


def _outside_of_conditions(facts: Facts, statement: Statement) -> Statement:
    """The statement, or the `if` around it: where only the chief finds a file to restore, all must meet afterwards."""
    for owner in facts.tree.ancestors(statement):
        if isinstance(owner, (cst.FunctionDef, cst.For, cst.While, cst.ClassDef)):
            break
        if isinstance(owner, (cst.If, cst.Try)) and not _leaves(owner):
            statement = owner
    return statement


def _leaves(statement: cst.If | cst.Try) -> bool:
    """Whether a branch returns or raises, so that not all control comes out at the end."""
    return bool(m.findall(statement, m.Return() | m.Raise() | m.Break() | m.Continue()))


def _is_broadcast_here(facts: Facts, model: cst.BaseExpression) -> bool:
    """Whether the model is one of those that this rule broadcasts where they are made."""
    origins = facts.trained.of(model)
    return bool(origins) and all(origin in facts.trained.holders() for origin in origins)


def _names_one_of(facts: Facts, model: cst.BaseExpression, names: set[str]) -> bool:
    return any(isinstance(o, Holder) and facts.source(o.target) in names for o in facts.trained.of(model))


def _broadcasts(facts: Facts, name: str, block: cst.CSTNode, since: Statement | None = None) -> bool:
    """Whether the block broadcasts that name already, after the given statement."""
    start = facts.tree.order[since] if since is not None else -1
    return any(
        facts.source(part) == name or facts.source(part).startswith(f"{name}.")
        for part in _broadcast_values(facts, block)
        if facts.tree.order[part] > start
    )


def _broadcast_values(facts: Facts, block: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What the broadcasts in the block are given."""
    for call in facts.tree.calls:
        if not call.args or facts.tree.lift(call, block) is None:
            continue
        values = facts.resolver.values(call.func)
        if any(isinstance(v, External) and vocabulary.has_role(v.path, Role.BROADCAST) for v in values):
            given = call.args[0].value
            given = _gone_through(given) if isinstance(given, cst.ListComp) else given
            yield from [e.value for e in given.elements] if isinstance(given, (cst.List, cst.Tuple)) else [given]


def _gone_through(comprehension: cst.ListComp) -> cst.BaseExpression:
    """The list, or dictionary, of `[pair[0] for pair in pairs]`."""
    iterated = comprehension.for_in.iter
    if isinstance(iterated, cst.Call) and isinstance(iterated.func, cst.Attribute):
        return iterated.func.value
    return iterated
