"""How an object is written at another place of the script than the one where an expression stands for it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.objects.values import Class, Object, Result, Value, Values
from migrator.facts.program.tree import Binding, Scope, Statement
from migrator.facts.script import Facts
from migrator.records import dataclass


@dataclass(frozen=True)
class Written:
    """The text that means the object at a place; `bound`: for each name in it, where that has its value from."""

    text: str
    bound: tuple[tuple[cst.CSTNode, ...], ...]


def written_at(facts: Facts, part: cst.BaseExpression, at: cst.CSTNode, owner: cst.CSTNode) -> Written | None:
    """The part, which belongs to what `owner` means, as it is written in the function that holds the node `at`: a model
    that a class calls `self.model` is `trainer.model` for who has made the trainer. None where no name leads to it."""
    scope = facts.tree.scope_of(at)
    names = [name for name in facts.tree.names_in(part) if facts.tree.is_read(name)]
    if all(_is_known(facts, name, scope) and not _is_bound_again(facts, name, at) for name in names):
        bound = (tuple(b.node for b in facts.resolver.reaching(name)) for name in names)
        return Written(facts.source(part), tuple(bound))
    cls = _class_of_receiver(facts, names[0]) if len(names) == 1 else None
    if cls is not None:
        path = facts.source(part)[len(names[0].value) :]
        found = {facts.source(e): e for e in _instances(facts, cls, at, owner)}
        if len(found) == 1:
            ((text, instance),) = found.items()
            read = [name for name in facts.tree.names_in(instance) if facts.tree.is_read(name)]
            bound = (tuple(b.node for b in facts.resolver.reaching(name)) for name in read)
            return Written(text + path, tuple(bound))
        receiver = _receiver_around(facts, at, cls)
        if receiver is not None:
            return Written(receiver + path, ())
    return _kept_by_receiver(facts, part, at) or _of_same_value(facts, part, at, scope)


def _kept_by_receiver(facts: Facts, part: cst.BaseExpression, at: cst.CSTNode) -> Written | None:
    """`self.net` in a method, for the `model` of which another one of the class has made that."""
    home = facts.tree.function_of(part)
    cls = facts.resolver.owner_class(home) if home is not None else None
    receiver = _receiver_around(facts, at, Class(cls)) if cls is not None else None
    if cls is None or receiver is None or not isinstance(part, cst.Name):
        return None
    for name, bindings in facts.tree.attributes.items():
        own = [b for b in bindings if not _is_of_another_class(facts, b, Class(cls))]
        kept = own[0].value if len(own) == 1 else None
        is_part = isinstance(kept, cst.Name) and kept.value == part.value and facts.tree.function_of(kept) is home
        if is_part and facts.resolver.reaching(cst.ensure_type(kept, cst.Name)) == facts.resolver.reaching(part):
            return Written(f"{receiver}.{name}", ())
    return None


def _is_of_another_class(facts: Facts, binding: Binding, cls: Class) -> bool:
    """Whether a method of a class that has nothing to do with this one sets the attribute of its own object."""
    owner = binding.target.value if isinstance(binding.target, cst.Attribute) else None
    other = _class_of_receiver(facts, owner) if isinstance(owner, cst.Name) else None
    return other is not None and not _are_related(facts, other, cls)


def _is_known(facts: Facts, name: cst.Name, scope: Scope) -> bool:
    """Whether the name means the same in the scope as where it stands."""
    home = facts.tree.scope_of(name).lookup(name.value)
    return home is not None and home is scope.lookup(name.value)


def _is_bound_again(facts: Facts, name: cst.Name, at: cst.CSTNode) -> bool:
    """Whether the name may have another value at the node, since it gets one behind the place where it stands."""
    home, order = facts.tree.scope_of(name).lookup(name.value), facts.tree.order
    reaching = facts.resolver.reaching(name)
    is_local = home is facts.tree.scope_of(at)
    return any(
        order[b.node] > order[name] and not (is_local and order[b.node] > order[at])
        for b in (home.bindings[name.value] if home is not None else ())
        if b not in reaching and not facts.tree.are_exclusive(b.node, name)
    )


def _class_of_receiver(facts: Facts, name: cst.Name) -> Class | None:
    """The class of whose methods the name is the `self`."""
    function = facts.tree.function_of(name)
    cls = facts.resolver.owner_class(function) if function is not None else None
    if function is None or cls is None or _receiver(function) != name.value:
        return None
    return Class(cls)


def _receiver(function: cst.FunctionDef) -> str:
    params = (*function.params.posonly_params, *function.params.params)
    return params[0].name.value if params else ""


def _instances(facts: Facts, cls: Class, at: cst.CSTNode, owner: cst.CSTNode) -> Iterator[cst.Name | cst.Attribute]:
    """The objects of the class, in the function that holds the node `at`, that lead to what the owner means."""
    here = facts.tree.scope_of(at)
    for part in facts.origins.behind(owner, through_functions=False):
        if isinstance(part, (cst.Name, cst.Attribute)) and facts.tree.scope_of(part) is here:
            values = facts.resolver.values(part)
            if values and all(isinstance(v, Object) and _are_related(facts, v.of, cls) for v in values):
                yield part


def _receiver_around(facts: Facts, at: cst.CSTNode, cls: Class) -> str | None:
    """The `self` of the method that holds the node, where that is an object of the class, too."""
    function = facts.tree.function_of(at)
    owner = facts.resolver.owner_class(function) if function is not None else None
    if function is None or owner is None or not _are_related(facts, Class(owner), cls):
        return None
    return _receiver(function)


def _are_related(facts: Facts, one: Class, other: Class) -> bool:
    return other in facts.resolver.lineage(one) or one in facts.resolver.lineage(other)


def _of_same_value(facts: Facts, part: cst.BaseExpression, at: cst.CSTNode, scope: Scope) -> Written | None:
    """The one name that stands for the same object there; of several, that which is written alike."""
    values = facts.resolver.values(part)
    if len(values) != 1 or not _is_one_object(facts, values[0]):
        return None
    found = {name: bound for name in _names_known_in(scope) if (bound := _bound_to(facts, name, values, at, scope))}
    text = facts.source(part) if facts.source(part) in found else next(iter(found), "")
    return Written(text, (found[text],)) if len(found) == 1 or text == facts.source(part) else None


def _bound_to(facts: Facts, name: str, values: Values, at: cst.CSTNode, scope: Scope) -> tuple[cst.CSTNode, ...]:
    """Where the name gets the value, if it has no other in the scope, and has it at the node `at`."""
    home = scope.lookup(name)
    bindings = home.bindings[name] if home is not None else []
    order = facts.tree.order
    is_late = home is scope and any(order[b.node] > order[at] for b in bindings)
    if is_late or any(facts.resolver.binding_values(b) != values for b in bindings):
        return ()
    return tuple(b.node for b in bindings)


def _is_one_object(facts: Facts, value: Value) -> bool:
    """Whether no two objects look like this value."""
    if isinstance(value, Object):
        made = [call for call in facts.tree.calls if value.of in facts.resolver.values(call.func)]
    else:
        made = [value.call] if isinstance(value, Result) else []
    return len(made) == 1 and _runs_once(facts, made[0])


def _runs_once(facts: Facts, call: cst.Call) -> bool:
    """Whether no function around the call is called from several places, and none of these is in a loop."""
    place, passed = call, set()
    while place not in passed:
        passed.add(place)
        if any(facts.tree.loops_around(place)):
            return False
        function = facts.tree.function_of(place)
        callers = list(facts.resolver.callers(function)) if function is not None else []
        if function is None or not callers:
            return True
        if len(callers) > 1:
            return False
        place = callers[0]
    return False


def _names_known_in(scope: Scope) -> list[str]:
    names: dict[str, None] = {}
    inner: Scope | None = scope
    while inner is not None:
        if inner is scope or not inner.is_class:
            names.update(dict.fromkeys(inner.bindings))
        inner = inner.parent
    return list(names)


def callers_of(facts: Facts, at: cst.CSTNode) -> list[cst.Call]:
    """The calls through which the node is run, each in the function that makes it."""
    function = facts.tree.callable_of(at)
    if function is None:
        return []
    return list(dict.fromkeys((*facts.resolver.callers(function), *facts.resolver.run_by_partials(function))))


def is_known_outside(facts: Facts, written: Written, owner: Statement) -> bool:
    """Whether no name in it is known inside of this statement only."""
    return not any(found and all(facts.tree.contains(owner, node) for node in found) for found in written.bound)
