"""Where a trained object is complete, how the script writes it, and whether a call of the runtime has it already."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from migrator.facts.names import vocabulary
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.holders import Holder, Nameless
from migrator.facts.objects.values import Class, External, Member, Object, Result, is_strategy
from migrator.facts.program.tree import Binding, Statement
from migrator.facts.script import Facts

# Sequential models, and collections of variables, are often built up in steps; what is inserted follows the last.
_BUILDING = frozenset({"add", "build", "pop", "append", "extend", "insert", "update", "setdefault"})
_DISPLAYS = (cst.List, cst.Tuple, cst.Set, cst.Dict, cst.ListComp, cst.DictComp)
_COLLECTIONS = frozenset({
    "builtins.list", "builtins.dict", "builtins.set", "collections.OrderedDict", "collections.defaultdict",
    "collections.deque",
})  # fmt: skip


def is_given(facts: Facts, holder: Holder, block: cst.CSTNode, role: Role) -> bool:
    """Whether the block gives this very object to a call of that role, not another that had the name before."""
    for part in _given_values(facts, block, role):
        if facts.source(part) != facts.source(holder.target) and not facts.source(part).startswith(
            f"{facts.source(holder.target)}."
        ):
            continue
        names = list(facts.tree.names_in(part))
        if not isinstance(holder.target, cst.Name) or not names:
            return True
        reaching = _reaching(facts, names[0])
        if any(b.target is holder.target or facts.tree.statement_of(b.node) is holder.statement for b in reaching):
            return True
    return False


def is_given_next(facts: Facts, holder: Holder, role: Role) -> bool:
    """Whether the statement right behind that of the holder gives the object to a call of that role."""
    block = facts.tree.block_of(holder.statement)
    body = list(getattr(block, "body", ()))
    place = body.index(holder.statement) + 1 if holder.statement in body else len(body)
    parts = [part for part in _given_values(facts, block, role) if part.deep_equals(holder.target)]
    return place < len(body) and any(facts.tree.statement_of(part) is body[place] for part in parts)


def _reaching(facts: Facts, name: cst.Name) -> list[Binding]:
    """The bindings that the name has its value from; of a list that is extended (`weights += …`), the first, too."""
    found: dict[Binding, None] = {}
    queue = facts.resolver.reaching(name)
    while queue:
        binding = queue.pop()
        if binding not in found:
            found[binding] = None
            if binding.kind == "augmented" and isinstance(binding.target, cst.Name):
                queue += facts.resolver.reaching(binding.target)
    return list(found)


def scope_of_owner(facts: Facts, holder: Holder) -> tuple[cst.With, str] | None:
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


def classes_of(facts: Facts, modules: list[Object]) -> list[Class]:
    """The classes of the modules, and of those that these make for themselves."""
    found: dict[Class, None] = {}
    queue = [cls for module in modules for cls in facts.resolver.lineage(module.of)]
    while queue:
        cls = queue.pop(0)
        if cls not in found:
            found[cls] = None
            inner = [v for call in calls_in(facts, cls) for v in facts.resolver.values(call) if isinstance(v, Object)]
            queue += [c for v in inner if facts.kinds.is_plain_module(v) for c in facts.resolver.lineage(v.of)]
    return list(found)


def calls_in(facts: Facts, cls: Class) -> Iterator[cst.Call]:
    return (call for call in facts.tree.calls if facts.tree.contains(cls.node, call))


def complete(facts: Facts, holder: Holder) -> Statement:
    """The statement after which the model, or the list or dictionary of variables, is complete: the last `model.add(…)`
    or `weights["w"] = …` in its block, in front of what trains it."""
    order, statement = facts.tree.order, holder.statement
    block = facts.tree.block_of(statement)
    changes = [later for later in _later_changes(facts, holder, block) if order[later] > order[statement]]
    if not changes:
        return statement
    behind = [other for other in getattr(block, "body", ()) if order[other] > order[statement]]
    end = next((order[other] for other in behind if _trains(facts, other)), None)
    before = [later for later in changes if (end is None or order[later] < end) and not _trains(facts, later)]
    return max((statement, *before), key=order.__getitem__)


def added_in_training(facts: Facts, holder: Holder) -> Statement | None:
    """The statement that trains and puts variables into the list or dictionary as well; for a broadcast it is too late
    then."""
    function = holder.value.func if isinstance(holder.value, cst.Call) else None
    made_by = set(facts.resolver.public(function))
    if not isinstance(holder.value, _DISPLAYS) and not made_by & _COLLECTIONS:
        return None
    block = facts.tree.block_of(holder.statement)
    return next((later for later in _later_changes(facts, holder, block) if _trains(facts, later)), None)


def _later_changes(facts: Facts, holder: Holder, block: cst.CSTNode) -> Iterator[Statement]:
    """The statements of the block in which something is added to what the holder names."""
    for change in _changes(facts, holder):
        later = facts.tree.lift(change, block)
        if (
            later is not None
            and later is not holder.statement
            and facts.tree.function_of(change) is facts.tree.function_of(holder.target)
            and not _is_rebound(facts, holder, later)
        ):
            yield later


def _trains(facts: Facts, statement: Statement) -> bool:
    sites = facts.training.sites
    return any(facts.tree.contains(body, s) for body in facts.training.reached_from(statement) for s in sites)


def _changes(facts: Facts, holder: Holder) -> Iterator[cst.CSTNode]:
    """What adds to the model or collection under the holder's name, and the calls of functions that do so."""
    owners = [(call, call.func.value) for call in facts.tree.calls
              if isinstance(call.func, cst.Attribute) and call.func.attr.value in _BUILDING]  # fmt: skip
    items = [(item, item.value) for item, _ in facts.tree.item_assignments]
    extended = [(node, node.target) for node in facts.tree.augmented]
    for change, owner in [*owners, *items, *extended]:
        if owner.deep_equals(holder.target):
            yield change
            if _is_same_name(facts, owner, holder.target):
                yield from _calls_around(facts, change, facts.tree.function_of(holder.target))


def _is_same_name(facts: Facts, name: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether two functions mean the same by a name; `self.weights` is another object's in another class."""
    scopes = [facts.tree.scope_of(node) for node in (name, other)]
    if isinstance(name, cst.Name):
        return scopes[0].lookup(name.value) is scopes[1].lookup(name.value)
    functions = [facts.tree.function_of(node) for node in (name, other)]
    classes = [facts.tree.class_of(function) for function in functions if function is not None]
    return len(classes) == len(functions) and classes[0] is classes[1] is not None


def _calls_around(facts: Facts, node: cst.CSTNode, home: cst.FunctionDef | None) -> Iterator[cst.Call]:
    """The calls in the function `home` through which the node runs, which stands in another."""
    queue, passed = [node], set()
    while queue:
        function = facts.tree.function_of(queue.pop())
        if function is None or function is home or function in passed:
            continue
        passed.add(function)
        for call in facts.resolver.callers(function):
            if facts.tree.function_of(call) is home:
                yield call
            queue.append(call)


def _is_rebound(facts: Facts, holder: Holder, later: Statement) -> bool:
    """`model = A()` … `model = B()` … `model.add(…)`: the addition belongs to the second."""
    name, order = holder.target, facts.tree.order
    if not isinstance(name, cst.Name):
        return False
    bindings = facts.tree.scope_of(name).bindings.get(name.value, [])
    return any(b.target is not name and order[name] < order[b.node] < order[later] for b in bindings)


def written(facts: Facts, holder: Holder) -> str:
    """The name; of a list of pairs `(model, "a text")`, or of records, only what is trained in each of them."""
    name = facts.source(holder.target)
    if holder.field:
        each = facts.fresh_name("each", holder.target)
        return f"[{each}.{holder.field} for {each} in {name}]"
    pair = facts.tree.parent[facts.tree.parent[holder.value]] if holder.path else None
    if not isinstance(pair, (cst.Tuple, cst.List)) or all(_has_variables(facts, e.value) for e in pair.elements):
        return name
    each = facts.fresh_name("each", holder.target)
    places = "".join(f"[{index}]" for index in holder.path)
    is_dictionary = isinstance(facts.tree.parent[facts.tree.parent[pair]], cst.Dict)
    return f"[{each}{places} for {each} in {name}{'.values()' if is_dictionary else ''}]"


def name_for(facts: Facts, origin: Nameless) -> str:
    """The name that what has none is given."""
    is_model = any(map(facts.kinds.is_model, facts.resolver.values(origin.node)))
    return facts.fresh_variable("model" if is_model else "layer", origin.node)


def _has_variables(facts: Facts, node: cst.BaseExpression) -> bool:
    """Whether it can be broadcast: a model, a layer, a variable, an optimizer."""
    kinds = facts.kinds
    values = facts.resolver.values(node)
    return bool(values) and all(kinds.has_weights(v) or kinds.is_variable(v) or kinds.is_optimizer(v) for v in values)


def gives(facts: Facts, name: str, block: cst.CSTNode, role: Role, since: Statement | None = None) -> bool:
    """Whether the block gives that name to a call of that role already, after the given statement."""
    start = facts.tree.order[since] if since is not None else -1
    return any(
        facts.source(part) == name or facts.source(part).startswith(f"{name}.")
        for part in _given_values(facts, block, role)
        if facts.tree.order[part] > start
    )


def _given_values(facts: Facts, block: cst.CSTNode, role: Role) -> Iterator[cst.BaseExpression]:
    """What the calls of that role in the block are given."""
    for call in facts.tree.calls:
        if not call.args or facts.tree.lift(call, block) is None:
            continue
        values = facts.resolver.values(call.func)
        if any(isinstance(v, External) and vocabulary.has_role(v.path, role) for v in values):
            given = call.args[0].value
            given = _gone_through(given) if isinstance(given, cst.ListComp) else given
            yield from [e.value for e in given.elements] if isinstance(given, (cst.List, cst.Tuple)) else [given]


def _gone_through(comprehension: cst.ListComp) -> cst.BaseExpression:
    """The list, or dictionary, of `[pair[0] for pair in pairs]`."""
    iterated = comprehension.for_in.iter
    if isinstance(iterated, cst.Call) and isinstance(iterated.func, cst.Attribute):
        return iterated.func.value
    return iterated
