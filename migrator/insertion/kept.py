"""What a model of the script's own keeps from its constructor on, or a list holds: who sends all of it, sends that too.

`gan = GAN(generator, discriminator)` gets one broadcast instead of three, where the constructor surely keeps what it is
given or makes, and nothing in between may read it; so does `models = [small, Large()]`.
"""

from __future__ import annotations

import libcst as cst

from migrator.facts.objects.holders import HeldByParameter, Holder
from migrator.facts.objects.values import Object
from migrator.facts.program.syntax import argument
from migrator.facts.script import Facts
from migrator.facts.training.sites import is_super
from migrator.insertion.handover import complete


def is_kept_by(facts: Facts, origin: Holder | HeldByParameter, owner: Holder) -> bool:
    """Whether the model that the owner holds has the object of the origin in an attribute as soon as it is made, or a
    list has both."""
    if isinstance(origin, Holder) and _is_listed_with(facts, origin, owner):
        return True
    model = next(iter(facts.resolver.values(owner.value)), None)
    constructor = facts.resolver.method(model.of, "__init__") if isinstance(model, Object) else None
    if not isinstance(model, Object) or not facts.kinds.is_model(model) or not isinstance(owner.value, cst.Call):
        return False
    if not isinstance(constructor, cst.FunctionDef) or facts.resolver.method(model.of, "__setattr__") is not None:
        return False
    if complete(facts, owner) is not owner.statement or len(facts.resolver.values(owner.value)) > 1:
        return False
    if not _is_named_at_once(facts, owner) or not _only_sets(facts, model, constructor):
        return False
    kept = _kept_in(facts, origin, owner, constructor)
    if kept is None or facts.resolver.method(model.of, kept.attr.value) is not None:
        return False
    attributes = [n for n in facts.tree.names[kept.attr.value] if isinstance(facts.tree.parent[n], cst.Attribute)]
    return [n for n in attributes if facts.tree.contains(constructor.body, n)] == [kept.attr]


def _is_named_at_once(facts: Facts, holder: Holder) -> bool:
    """Whether the object gets this name where it is made, no other one, and nothing else runs in the same line."""
    assign = facts.tree.parent[holder.value]
    line = holder.statement
    is_alone = isinstance(line, cst.SimpleStatementLine) and list(line.body) == [assign]
    return is_alone and isinstance(assign, cst.Assign) and assign.value is holder.value and len(assign.targets) == 1


def _only_sets(facts: Facts, model: Object, constructor: cst.FunctionDef) -> bool:
    """Whether constructors do nothing with the object but to set its attributes: `self.weights` would be all it has."""
    own = [cls for cls in facts.resolver.lineage(model.of) if _constructor_in(cls.node) is not None]
    if len(own) != 1 or not constructor.params.params:
        return False
    own_name = constructor.params.params[0].name
    read = [n for n in _named_alike(facts, own_name) if n is not own_name]
    return all(_is_set(facts, name) or _is_for_super(facts, name) for name in read) and all(
        isinstance(facts.tree.parent[call], cst.Attribute)
        and cst.ensure_type(facts.tree.parent[call], cst.Attribute).attr.value == "__init__"
        for call in facts.tree.calls
        if facts.tree.contains(constructor.body, call) and is_super(call)
    )


def _constructor_in(cls: cst.ClassDef) -> cst.CSTNode | None:
    return next((s for s in cls.body.body if isinstance(s, cst.FunctionDef) and s.name.value == "__init__"), None)


def _is_set(facts: Facts, name: cst.Name) -> bool:
    """`self.generator = …`"""
    attribute = facts.tree.parent[name]
    is_own = isinstance(attribute, cst.Attribute) and attribute.value is name
    return is_own and isinstance(facts.tree.parent[attribute], cst.AssignTarget)


def _is_for_super(facts: Facts, name: cst.Name) -> bool:
    """`super(GAN, self)`"""
    call = facts.tree.parent[facts.tree.parent[name]]
    return isinstance(call, cst.Call) and is_super(call)


def _kept_in(
    facts: Facts, origin: Holder | HeldByParameter, owner: Holder, constructor: cst.FunctionDef
) -> cst.Attribute | None:
    """The attribute which the constructor sets to the object of the origin, come what may."""
    made = facts.resolver.callers(constructor)
    is_only = len(made) == 1 and made[0] is owner.value
    params = constructor.params.params
    if isinstance(origin, HeldByParameter):
        param = next((p for p in params[1:] if p.name.value == origin.name), None)
        is_own = origin.function is constructor and is_only
        return _set_to(facts, param, constructor) if is_own and param is not None else None
    if not _is_named_at_once(facts, origin):
        return None
    if facts.tree.block_of(origin.statement) is constructor.body:
        return _own_attribute(origin.target, constructor) if is_only else None
    read = _read_up_to(facts, origin, owner)
    if read is None:
        return None
    call = cst.ensure_type(owner.value, cst.Call)
    given = [p for i, p in enumerate(params[1:]) if read == [_written_for(call, p, i)]]
    return _set_to(facts, given[0], constructor) if len(given) == 1 else None


def _is_listed_with(facts: Facts, origin: Holder, owner: Holder) -> bool:
    """`models = [small, Large()]`: of the statement that names the second, and is sent with all that it lists."""
    element = facts.tree.parent[owner.value]
    listed = facts.tree.parent[element]
    assign = facts.tree.parent[listed]
    if not isinstance(listed, (cst.List, cst.Tuple)) or not isinstance(assign, cst.Assign) or owner is origin:
        return False
    is_sent = len(assign.targets) == 1 and assign.targets[0].target is owner.target
    if not is_sent or complete(facts, owner) is not owner.statement or not _is_named_at_once(facts, origin):
        return False
    read = _read_up_to(facts, origin, owner)
    return read is not None and len(read) == 1 and any(each.value is read[0] for each in listed.elements)


def _read_up_to(facts: Facts, origin: Holder, owner: Holder) -> list[cst.Name] | None:
    """Where the name of the origin is read before the owner is there; None where that is not seen."""
    block = facts.tree.block_of(owner.statement)
    body = list(getattr(block, "body", ()))
    if not isinstance(origin.target, cst.Name) or facts.tree.block_of(origin.statement) is not block:
        return None
    between = body[body.index(origin.statement) + 1 : body.index(owner.statement) + 1]
    reached = [b for statement in between for b in facts.training.reached_from(statement)]
    named = [n for n in _named_alike(facts, origin.target) if any(facts.tree.contains(b, n) for b in reached)]
    return [n for n in named if not _is_shown(facts, n)]


def _set_to(facts: Facts, param: cst.Param, constructor: cst.FunctionDef) -> cst.Attribute | None:
    """The attribute that is set to the parameter, if nothing else is done with it."""
    read = [n for n in _named_alike(facts, param.name) if n is not param.name]
    assign = facts.tree.parent[read[0]] if len(read) == 1 else None
    if not isinstance(assign, cst.Assign) or assign.value is not read[0] or len(assign.targets) > 1:
        return None
    is_sure = facts.tree.block_of(facts.tree.statement_of(assign)) is constructor.body
    return _own_attribute(assign.targets[0].target, constructor) if is_sure else None


def _is_shown(facts: Facts, name: cst.Name) -> bool:
    """`model.summary()`"""
    attribute = facts.tree.parent[name]
    return isinstance(attribute, cst.Attribute) and attribute.value is name and attribute.attr.value == "summary"


def _named_alike(facts: Facts, name: cst.Name) -> list[cst.Name]:
    """The places that name the same variable."""
    scope = facts.tree.scope_of(name).lookup(name.value)
    alike = (n for n in facts.tree.names[name.value] if facts.tree.is_variable(n))
    return [n for n in alike if facts.tree.scope_of(n).lookup(name.value) is scope]


def _own_attribute(target: cst.BaseExpression, constructor: cst.FunctionDef) -> cst.Attribute | None:
    own = constructor.params.params[0].name.value if constructor.params.params else ""
    is_own = isinstance(target, cst.Attribute) and isinstance(target.value, cst.Name) and target.value.value == own
    return cst.ensure_type(target, cst.Attribute) if is_own else None


def _written_for(call: cst.Call, param: cst.Param, position: int) -> cst.BaseExpression | None:
    """What the call gives to a parameter, where it is written there."""
    found = argument(call, param.name.value, position)
    return found.value if found is not None and not any(arg.star for arg in call.args) else None
