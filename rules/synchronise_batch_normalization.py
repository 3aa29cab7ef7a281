"""Let BatchNormalization normalise with the moments of the global batch (off by default).

By default each worker normalises with the mean and variance of its own part of the batch, as in every data-parallel
system, so that a model with such layers trains almost, but not quite, what one process trains. With this rule it
trains the same. It costs two exchanges between the workers for each layer forwards and two backwards, one after the
other, which is why it has to be asked for: `migrate --extend-select synchronise-batch-normalization`.

before:
    model = keras.Sequential([keras.layers.Dense(64), keras.layers.BatchNormalization(), keras.layers.Dense(10)])
after:
    model = keras.Sequential([keras.layers.Dense(64), keras.layers.BatchNormalization(), keras.layers.Dense(10)])
    lockstep.broadcast(model)
    lockstep.synchronise_batch_normalization(model)

Leaves alone: programs in which nothing normalises by the batch; variables and modules without such layers; what is
synchronised already.
Refuses: layers with `renorm` or `virtual_batch_size`, which ask for statistics of a part of the batch; an object of
which cannot be seen whether it holds layers.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.edits import InsertAfter, InsertBefore, InsertFirst, Refusal
from migrator.facts.names import api
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.holders import Holder, Nameless, Origin, Unheld
from migrator.facts.objects.values import Object, calls
from migrator.facts.script import Facts
from migrator.insertion.handover import classes_of, complete, gives, is_given, name_for, scope_of_owner, written
from migrator.rule import Findings, rule

_LOCAL_STATISTICS = ("renorm", "virtual_batch_size")
_OWN_LIBRARIES = ("tensorflow.", "keras.", "numpy.", "builtins.")


@rule(needs=("broadcast-weights",), opt_in=True, optional=True)
def synchronise_batch_normalization(facts: Facts) -> Findings:
    holders = facts.trained.holders() if facts.trains and facts.cuts else []
    if not holders or not (_mentions_it(facts) or any(_may_hold_it(facts, node) for node in _models(facts, holders))):
        return
    local = list(_with_statistics_of_parts(facts))
    if local:
        yield from local
        return
    found: dict[InsertAfter | InsertBefore | InsertFirst | Refusal, None] = {}
    for holder in holders:
        if isinstance(holder, Unheld):
            continue  # broadcast-weights refuses that
        if isinstance(holder, Nameless):
            found.setdefault(InsertBefore(holder.node, (_call(facts, name_for(facts, holder)),)))
        elif not isinstance(holder, Holder):
            if not gives(facts, holder.name, holder.function.body, Role.NORMALISE):
                found.setdefault(InsertFirst(holder.function, (_call(facts, holder.name),)))
        elif not is_given(facts, holder, facts.tree.block_of(holder.statement), Role.NORMALISE):
            found.update(dict.fromkeys(_of_holder(facts, holder)))
    yield from found


def _of_holder(facts: Facts, holder: Holder) -> Iterator[InsertAfter | Refusal]:
    if facts.kinds.is_variable_or_list(holder.value):
        return
    values = facts.resolver.values(holder.value)
    if not values:
        yield Refusal(
            holder.target,
            "whether this holds layers that normalise by the batch cannot be seen",
            "call lockstep.synchronise_batch_normalization by hand",
        )
        return
    modules = [v for v in values if isinstance(v, Object) and not _is_layer(facts, v)]
    if len(modules) == len(values) and not _is_made_in(facts, modules):
        return
    scope = scope_of_owner(facts, holder)
    if scope is None:
        yield InsertAfter(complete(facts, holder), (_call(facts, written(facts, holder)),))
    elif not gives(facts, scope[1], facts.tree.block_of(scope[0]), Role.NORMALISE):
        yield InsertAfter(scope[0], (_call(facts, scope[1]),))


def _call(facts: Facts, name: str) -> str:
    return facts.call("synchronise_batch_normalization", name)


def _is_layer(facts: Facts, value: Object) -> bool:
    return facts.kinds.has_weights(value) and not facts.kinds.is_plain_module(value)


def _is_made_in(facts: Facts, modules: list[Object]) -> bool:
    """Whether the modules make such a layer for themselves."""
    return any(_is_named_so(n) for cls in classes_of(facts, modules) for n in facts.tree.names_in(cls.node))


def _is_named_so(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Name) and "BatchNorm" in node.value


def _mentions_it(facts: Facts) -> bool:
    return any("BatchNorm" in name for name in facts.tree.names)


def _models(facts: Facts, holders: list[Origin]) -> Iterator[cst.CSTNode]:
    """What is trained, and what models are made of."""
    yield from (holder.value for holder in holders if isinstance(holder, Holder))
    for call in facts.tree.calls:
        is_adding = isinstance(call.func, cst.Attribute) and call.func.attr.value == "add"
        if is_adding or any(map(facts.kinds.is_model, facts.resolver.values(call))):
            yield call
            for given in (argument.value for argument in call.args):
                listed = given.elements if isinstance(given, (cst.List, cst.Tuple)) else ()
                yield from (given, *(element.value for element in listed))


def _may_hold_it(facts: Facts, node: cst.CSTNode) -> bool:
    """Whether it is a ready-made or loaded model, or one of another package."""
    paths = [calls(value) for value in facts.resolver.values(node)]
    ready = (p for p in paths if api.makes_model(p) and not api.is_model_class(p))
    return any(ready) or any(p and not p.startswith(_OWN_LIBRARIES) for p in paths)


def _with_statistics_of_parts(facts: Facts) -> Iterator[Refusal]:
    for call in facts.tree.calls:
        if not any(map(_is_named_so, facts.tree.names_in(call.func))) and not _is_attribute_so(call.func):
            continue
        for name in _LOCAL_STATISTICS:
            given = facts.keywords.given(call, name)
            if given is not None and not (isinstance(given, cst.Name) and given.value in ("None", "False")):
                yield Refusal(
                    given,
                    f"with {name} this layer normalises by a part of the batch, and cannot do so by the whole",
                    f"leave {name} away",
                )


def _is_attribute_so(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Attribute) and _is_named_so(node.attr)
