"""Where a trained object gets its name: the statement after which it can be broadcast."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Union, cast

import libcst as cst

from migrator.facts.objects.contents import Contents, Parts
from migrator.facts.objects.iteration import Iteration, Turn
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Object, Result, Value
from migrator.facts.program.syntax import argument, declared_fields, is_constant
from migrator.facts.program.tree import Binding, Statement, Tree, nodes_in
from migrator.records import dataclass

_NO_NAME = "it has no name of its own here"
# They give what they are given one by one.
_SAME_ITEMS = {External(f"builtins.{name}") for name in ("list", "tuple", "reversed", "sorted", "set")}
# They declare what objects of a class hold: their value is none of these.
_FIELDS = {"dataclasses.field", "attr.ib", "attr.attrib", "attr.field", "attrs.field", "pydantic.Field"}


@dataclass(frozen=True)
class Holder:
    """A name or attribute with the statement that gives it its object, and the expression that makes the object.

    Where the name is that of a list, or dictionary, of tuples, `path` leads to the object in each of these. Where it is
    that of a list of records, `field` is the attribute of each that holds the object. Where a call gives several
    objects, `part` leads to this one.
    """

    target: cst.BaseExpression
    statement: Statement
    value: cst.CSTNode
    path: tuple[int, ...] = ()
    field: str = ""
    part: tuple[int, ...] = ()


@dataclass(frozen=True)
class HeldByParameter:
    """An object that has its first name as a function's parameter (`train(Net())`)."""

    name: str
    function: cst.FunctionDef


@dataclass(frozen=True)
class Unheld:
    """An object that no statement gives a name to."""

    node: cst.CSTNode
    reason: str
    # Nothing in the files given calls what is given it.
    is_uncalled: bool = False


@dataclass(frozen=True)
class Nameless:
    """A call that makes an object which no statement gives a name to, in a place where one could be given before."""

    node: cst.Call


Origin = Union[Holder, HeldByParameter, Nameless, Unheld]


class Holders:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self._iteration = Iteration(tree, resolver)
        self._contents = Contents(tree, resolver)
        self._fields: dict[tuple[cst.BaseExpression, str], cst.Attribute] = {}

    def of(self, expression: cst.CSTNode) -> list[Origin]:
        """The places where what the expression stands for is made or handed over, each once."""
        return list(dict.fromkeys(self._trace(expression, set())))

    def made_by(self, call: cst.Call) -> list[Origin]:
        """The places where what the call makes gets its name."""
        return list(dict.fromkeys(self._named(call, set())))

    def _trace(self, node: cst.CSTNode, seen: set[cst.CSTNode]) -> Iterator[Origin]:
        if node in seen:
            return
        seen.add(node)
        if isinstance(node, cst.Name):
            bindings = self.resolver.reaching(node)
            if not bindings:
                yield Unheld(node, f"`{node.value}` is not defined in this file")
            for binding in bindings:
                yield from self._trace_binding(binding, seen, node)
        elif isinstance(node, cst.Attribute):
            yield from self._trace_attribute(node, seen)
        elif isinstance(node, (cst.IfExp,)):
            yield from self._trace(node.body, seen)
            yield from self._trace(node.orelse, seen)
        elif isinstance(node, cst.Call):
            yield from self._trace_call(node, seen)
        elif isinstance(node, cst.Subscript):
            yield from self._trace_ends(self._contents.items(node), seen) or [Unheld(node, _NO_NAME)]
        else:
            yield Unheld(node, _NO_NAME)

    def _trace_ends(self, start: Parts, seen: set[cst.CSTNode]) -> list[Origin]:
        """What is at these places of a container, each with the name that it has, or as a part of what has one; nothing
        where that is not all seen."""
        return self._trace_all(self._contents.ends(start) or (), seen)

    def _trace_all(self, ends: Sequence[cst.CSTNode], seen: set[cst.CSTNode]) -> list[Origin]:
        found: list[Origin] = []
        for end in ends:
            if isinstance(end, (cst.Name, cst.Attribute)):
                found += self._trace(end, seen)
            elif not is_constant(end):
                found += self._named(end, set())
        return found

    def _trace_call(self, call: cst.Call, seen: set[cst.CSTNode]) -> Iterator[Origin]:
        """What a function of the script returns, or what is made here."""
        functions = self.resolver.values(call.func)
        nodes = [f.node for f in functions if isinstance(f, Function) and isinstance(f.node, cst.FunctionDef)]
        if functions and len(nodes) == len(functions):
            yield from self._trace_returned(nodes, seen, call)
        else:
            yield self._without_name(call)

    def _trace_returned(
        self, functions: Sequence[cst.FunctionDef], seen: set[cst.CSTNode], use: cst.CSTNode
    ) -> Iterator[Origin]:
        returned = [node for function in functions for node in self.resolver.returned(function)]
        if all(map(is_constant, returned)):
            yield Unheld(use, _NO_NAME)
        for node in returned:
            if not is_constant(node):
                yield from self._trace(node, seen)

    def _without_name(self, node: cst.CSTNode) -> Nameless | Unheld:
        """An object that is made by a call which stands for itself; where it is what its statement begins with, and is
        made each time that this runs, a name may come before."""
        values = self.resolver.values(node)
        is_seen = bool(values) and all(map(self.kinds.has_weights, values))
        if isinstance(node, cst.Call) and is_seen and self._comes_first(node):
            return Nameless(node)
        return Unheld(node, _NO_NAME)

    def _comes_first(self, node: cst.CSTNode) -> bool:
        """Whether nothing that does anything is evaluated before it in its statement, a line of its own."""
        owner = self.tree.parent[node]
        while not isinstance(owner, cst.SimpleStatementLine):
            if isinstance(owner, cst.Arg):
                node, owner = owner, self.tree.parent[owner]
            before: Sequence[cst.CSTNode] = ()
            if isinstance(owner, cst.Call) and node is not owner.func:
                before = [owner.func, *(arg.value for arg in owner.args[: owner.args.index(cast(cst.Arg, node))])]
            elif isinstance(owner, (cst.DictElement, cst.Element)):
                node, owner = owner, self.tree.parent[owner]
                listed = owner.elements[: owner.elements.index(node)]  # type: ignore[attr-defined]
                before = [
                    p for e in listed for p in ((e.key, e.value) if isinstance(e, cst.DictElement) else (e.value,))
                ]
                if isinstance(node, cst.DictElement):
                    before.append(node.key)
            elif isinstance(owner, (cst.Assign, cst.AnnAssign, cst.Return, cst.Expr, cst.Attribute)):
                if owner.value is not node:
                    return False
            elif not isinstance(owner, cst.Call):
                return False
            if not all(map(_does_nothing, before)):
                return False
            node, owner = owner, self.tree.parent[owner]
        return len(owner.body) == 1

    def _trace_attribute(self, node: cst.Attribute, seen: set[cst.CSTNode]) -> Iterator[Origin]:
        properties = self.resolver.properties(node)
        if properties:
            yield from self._trace_returned(properties, seen, node)
            return
        kept = [n for value in self.resolver.values(node.value) for n in self.resolver.kept_in(value, node.attr.value)]
        if kept:
            for made in kept:
                yield from self._trace(made, seen)
            return
        bindings = [*self.resolver.bindings_of(node), *self.resolver.class_bindings_of(node)]
        for binding in bindings:
            yield from self._trace_binding(binding, seen, node)
        if bindings and all(map(self._declares, bindings)) and not any(map(self._factory, bindings)):
            yield Unheld(node, f"no statement in this file shows what the field `{node.attr.value}` gets")
        if not bindings:
            # A part of a larger object (`vae.encoder` of an imported class): the whole is broadcast in its stead.
            if any(self.kinds.has_weights(v) for v in self.resolver.values(node.value)):
                yield from self._trace(node.value, seen)
            else:
                yield from self._of_named_tuples(node, seen) or [
                    Unheld(node, f"`{node.attr.value}` is not assigned in this file")
                ]

    def _of_named_tuples(self, node: cst.Attribute, seen: set[cst.CSTNode]) -> list[Origin]:
        """What named tuples are called with for the attribute; nothing where the owner may be anything else."""
        name, values = node.attr.value, self.resolver.values(node.value)
        made = [(v.call, self._contents.field(v.call, name)) for v in values if isinstance(v, Result)]
        if len(made) < len(values):
            return []
        held = [(call, part) for call, part in made if part is not None]
        if len(held) < len(made):
            return []
        return [origin for call, part in held for origin in self._in_record(call, name, part, seen)]

    def _trace_binding(self, binding: Binding, seen: set[cst.CSTNode], use: cst.CSTNode) -> Iterator[Origin]:
        if binding.kind == "param":
            yield from self._trace_parameter(binding, seen, use)
        elif self._declares(binding):
            yield from self._trace_declared(binding, seen)
        elif binding.kind == "assign" and binding.value is not None and not isinstance(binding.node, cst.NamedExpr):
            yield from self._trace_assignment(binding, seen)
        elif binding.kind == "field" and binding.value is not None:
            yield from self._trace_field(binding, seen)
        elif binding.kind == "for" and self._has_parts(binding):
            yield from self._trace(self._gone_through(binding), seen)
        elif binding.kind == "for" and binding.value is not None:
            turns = self._iteration.turns(binding.value, binding.path)
            ends = self._contents.ends(self._contents.bound(binding)) or []
            if not ends or all(turn.node is not None for turn in turns):
                for turn in turns:
                    yield from self._trace_turn(turn, seen, use)
                ends = [end for end in ends if all(turn.node is not end for turn in turns)]
            yield from self._trace_all(ends, seen)
        elif binding.kind == "augmented":
            return  # it adds to what another statement gives the name
        else:
            yield Unheld(use, f"`{binding.name}` gets its value in a way that cannot be followed")

    def _gone_through(self, binding: Binding) -> cst.CSTNode:
        """What the loop takes one after the other: `model.layers` of `zip(optimizers, model.layers[1:])`."""
        node, path = self._iteration.narrowed(cast(cst.CSTNode, binding.value), binding.path)
        while not path:
            if isinstance(node, cst.Subscript):
                node = node.value
            elif isinstance(node, cst.Call) and node.args and _SAME_ITEMS & set(self.resolver.values(node.func)):
                node = node.args[0].value
            else:
                break
        return node

    def _has_parts(self, binding: Binding) -> bool:
        """Whether the loop goes through parts of one object that has weights (`model.layers`)."""
        return binding.value is not None and self._whole_of(self._gone_through(binding)) is not None

    def _whole_of(self, node: cst.CSTNode | None) -> cst.BaseExpression | None:
        """The object with weights of which these are the parts."""
        is_kept = isinstance(node, cst.Attribute) and not self.resolver.bindings_of(node)
        if not isinstance(node, cst.Attribute) or not is_kept or self.resolver.properties(node):
            return None
        return node.value if any(map(self.kinds.has_weights, self.resolver.values(node.value))) else None

    def _trace_assignment(self, binding: Binding, seen: set[cst.CSTNode]) -> Iterator[Origin]:
        value: cst.CSTNode | None = binding.value
        whole = self._whole_of(value) if binding.path else None
        if whole is not None:  # `generator, discriminator = gan.layers`
            yield from self._trace(whole, seen)
            return
        part: tuple[int, ...] = ()
        for i, index in enumerate(binding.path):
            if isinstance(value, (cst.Tuple, cst.List)) and -len(value.elements) <= index < len(value.elements):
                value = value.elements[index].value
            elif isinstance(value, (cst.ListComp, cst.GeneratorExp)) and not isinstance(
                value.elt, (cst.Name, cst.Attribute)
            ):
                value = value.elt
            elif isinstance(value, cst.Call):
                part = tuple(binding.path[i:])
                break
            else:
                value = None
                break
        if value is not None and is_constant(value):
            return  # `model = None` until it is built, `model = "CNN"` until it is chosen
        target = cast(cst.BaseExpression, binding.target)
        parts = self._contents.items(value) if isinstance(value, cst.Subscript) else None
        is_of_script = isinstance(value, cst.Call) and any(
            isinstance(function, Function) for function in self.resolver.values(value.func)
        )
        if binding.path and (value is None or (isinstance(value, cst.Call) and not is_of_script)):
            parts = self._contents.bound(binding)
        known = self._trace_ends(parts, seen) if parts is not None else []
        if isinstance(value, (cst.Name, cst.Attribute)):
            yield from self._trace(value, seen)
        elif known and not any(isinstance(origin, Unheld) for origin in known):
            yield from known
        elif isinstance(value, cst.CSTNode):
            yield Holder(target, self.tree.statement_of(binding.node), value=value, part=part)
        else:
            yield Unheld(target, f"`{binding.name}` gets its value in a way that cannot be followed")

    def _declares(self, binding: Binding) -> bool:
        """`model: keras.Model = field(init=False)` in the body of a class, which has no model itself."""
        value = binding.value if binding.kind == "assign" else None
        if not isinstance(value, cst.Call) or not isinstance(self.tree.scope_of(value).node, cst.ClassDef):
            return False
        return bool(_FIELDS & set(self.resolver.public(value.func)))

    def _factory(self, binding: Binding) -> cst.BaseExpression | None:
        """What makes the value of the field that is declared, in each object or for all of them."""
        call = cast(cst.Call, binding.value)
        given = [arg for name in ("default_factory", "factory", "default") if (arg := argument(call, name)) is not None]
        return next((arg.value for arg in given if not is_constant(arg.value)), None)

    def _trace_declared(self, binding: Binding, seen: set[cst.CSTNode]) -> Iterator[Origin]:
        """What the field is made with in objects that are called with nothing for it, where these have names."""
        declared = cast(cst.Call, binding.value)
        factory = self._factory(binding)
        if factory is None:
            return  # it gets its value where the object is made
        if argument(declared, "default") is not None:
            yield from self._trace(factory, seen)
            return
        cls = Class(cst.ensure_type(self.tree.scope_of(declared).node, cst.ClassDef))
        makers = [c for c in self.tree.calls if any(self._is_of(v, cls) for v in self.resolver.values(c.func))]
        for call in makers:
            if argument(call, binding.name) is None:
                yield from self._in_record(call, binding.name, declared, seen)
        if not makers:
            yield Unheld(declared, f"no statement in this file makes an object of the class `{cls.node.name.value}`")

    def _is_declared(self, cls: Class, field: str) -> bool:
        return any(field in declared_fields(each.node) for each in self.resolver.lineage(cls))

    def _is_of(self, value: Value, cls: Class) -> bool:
        return isinstance(value, Class) and cls in self.resolver.lineage(value)

    def _trace_field(self, binding: Binding, seen: set[cst.CSTNode]) -> Iterator[Origin]:
        """What a dataclass is called with: it has a name before that, or that of the field."""
        yield from self._in_record(binding.node, binding.name, cast(cst.BaseExpression, binding.value), seen)

    def _in_record(
        self, made: cst.CSTNode, name: str, value: cst.BaseExpression, seen: set[cst.CSTNode]
    ) -> Iterator[Origin]:
        if isinstance(value, (cst.Name, cst.Attribute)):
            yield from self._trace(value, seen)
        elif not is_constant(value):
            for origin in self._named(made, set(), name):
                if isinstance(origin, Holder) and origin.field:
                    yield Holder(origin.target, origin.statement, value=value, field=origin.field)
                elif isinstance(origin, Holder):
                    key, field = (origin.target, name), cst.Attribute(origin.target, cst.Name(name))
                    target = self._fields.setdefault(key, field)
                    yield Holder(target, origin.statement, value=value)
                else:
                    yield self._without_name(value)

    def _trace_turn(self, turn: Turn, seen: set[cst.CSTNode], use: cst.CSTNode) -> Iterator[Origin]:
        """What one turn of a loop gets: something with a name of its own, or a part of a list that has one."""
        if isinstance(turn.node, (cst.Name, cst.Attribute)):
            yield from self._trace(turn.node, seen)
        elif turn.node is None or turn.within is None:
            yield Unheld(use, "what the loop goes through cannot be followed")
        else:
            target = cast(cst.BaseExpression, turn.within.target)
            statement = turn.complete or self.tree.statement_of(turn.within.node)
            yield Holder(target, statement, turn.node, turn.path)

    def _trace_parameter(self, binding: Binding, seen: set[cst.CSTNode], use: cst.CSTNode) -> Iterator[Origin]:
        param = cast(cst.Param, binding.node)
        function = self.resolver.function_of_parameter(param)
        if isinstance(function, cst.Lambda):
            yield Unheld(use, f"`{binding.name}` is a parameter of a lambda")
            return
        owner = self.resolver.owner_class(function)
        if owner is not None and function.params.params and function.params.params[0] is param:
            yield from self._trace_instances(Class(owner), use)
            return
        arguments = self.resolver.arguments(param, function)
        if not arguments:
            reason = f"no call in this file shows what the parameter `{binding.name}` is"
            yield Unheld(use, reason, is_uncalled=not self.resolver.callers(function))
        for given in arguments:
            if is_constant(given):
                continue
            if isinstance(given, (cst.Name, cst.Attribute)):
                yield from self._trace(given, seen)
                continue
            held = list(self._trace(given, set(seen))) if isinstance(given, cst.Subscript) else []
            if held and all(isinstance(origin, Holder) for origin in held):
                yield from held  # `step(models[name], x)`
            else:
                yield HeldByParameter(binding.name, function)

    def _trace_instances(self, cls: Class, use: cst.CSTNode) -> Iterator[Origin]:
        """The statements that name the instances of a class which trains itself."""
        found = False
        for call in self.tree.calls:
            for value in self.resolver.values(call.func):
                if isinstance(value, Class) and cls in self.resolver.lineage(value):
                    found = True
                    yield from self._named(call, set())
        if not found:
            reason = f"no statement in this file makes an object of the class `{cls.node.name.value}`"
            yield Unheld(use, reason, is_uncalled=True)

    def _named(self, call: cst.CSTNode, seen: set[cst.CSTNode], field: str = "") -> Iterator[Origin]:
        """Where the object that a call makes gets its name, here or in the callers of the function that returns it.

        With a `field`, it is a record whose field of that name is asked for.
        """
        parent = self.tree.parent[call]
        if isinstance(parent, cst.Assign) and isinstance(parent.targets[0].target, (cst.Name, cst.Attribute)):
            yield Holder(parent.targets[0].target, self.tree.statement_of(parent), value=call)
            return
        if isinstance(parent, cst.Assign) and _is_place(parent.targets[0].target):
            yield Holder(parent.targets[0].target, self.tree.statement_of(parent), value=call)
            return
        if isinstance(parent, cst.AnnAssign):
            yield Holder(parent.target, self.tree.statement_of(parent), value=call)
            return
        listed = self._named_in_list(call, field)
        if listed is not None:
            yield listed
            return
        function = self.tree.function_of(call)
        if isinstance(parent, cst.Return) and function is not None and function not in seen:
            found = [o for c in self.resolver.callers(function) for o in self._named(c, seen | {function}, field)]
            here = self._without_name(call)
            if isinstance(here, Nameless) and any(isinstance(origin, (Nameless, Unheld)) for origin in found):
                found = [here]  # one name for all callers
            yield from found
            if found:
                return
        if isinstance(parent, cst.Arg) and isinstance(self.tree.parent[parent], cst.Call):
            outer = cast(cst.Call, self.tree.parent[parent])
            for value in self.resolver.values(outer.func):
                called = self.resolver.method(value, "__init__") if isinstance(value, Class) else None
                if isinstance(value, Function) and isinstance(value.node, cst.FunctionDef):
                    called = value.node
                if called is not None:
                    name = self._parameter_for(called, outer, parent, given=1 if isinstance(value, Class) else 0)
                    if name is not None:
                        yield HeldByParameter(name, called)
                        return
        yield self._without_name(call)

    def _named_in_list(self, call: cst.CSTNode, field: str) -> Holder | None:
        """`a, b = Net(), Net()`, or a list of such objects that has a name."""
        element = self.tree.parent[call]
        around = self.tree.parent[element]
        is_value = isinstance(element, (cst.DictElement, cst.DictComp)) and element.value is call
        if (isinstance(element, cst.Element) and isinstance(around, (cst.Tuple, cst.List))) or (
            is_value and isinstance(around, cst.Dict)
        ):
            assigned = self.tree.parent[around]
        elif is_value or (isinstance(element, cst.ListComp) and element.elt is call):
            assigned = around
        elif isinstance(element, cst.GeneratorExp) and element.elt is call and isinstance(around, cst.Arg):
            listed = self.tree.parent[around]  # `tuple(Net() for _ in range(2))`
            is_listed = isinstance(listed, cst.Call) and _SAME_ITEMS & set(self.resolver.values(listed.func))
            assigned = self.tree.parent[listed] if is_listed else listed
        else:
            return None
        if not isinstance(assigned, cst.Assign):
            return None
        target: cst.BaseExpression = assigned.targets[0].target
        if isinstance(target, (cst.Tuple, cst.List)) and isinstance(around, (cst.Tuple, cst.List)):
            if len(target.elements) != len(around.elements) or any(
                isinstance(e, cst.StarredElement) for e in (*target.elements, *around.elements)
            ):
                return None
            target = target.elements[[e.value for e in around.elements].index(call)].value  # type: ignore[arg-type]
            field = ""
        elif isinstance(around, (cst.Tuple, cst.List, cst.Dict)) and not all(
            self._is_record(e.value, field)
            if field
            else any(map(self.kinds.has_weights, self.resolver.values(e.value)))
            for e in around.elements
        ):
            return None
        if not isinstance(target, (cst.Name, cst.Attribute)):
            return None
        return Holder(target, self.tree.statement_of(assigned), value=call, field=field)

    def _is_record(self, node: cst.CSTNode, field: str) -> bool:
        """Whether it surely has an attribute of that name."""
        values = self.resolver.values(node)
        return bool(values) and all(
            isinstance(value, Object)
            and (self.resolver.attribute_bindings(value.of, field) or self._is_declared(value.of, field))
            for value in values
        )

    @staticmethod
    def _parameter_for(function: cst.FunctionDef, call: cst.Call, arg: cst.Arg, given: int = 0) -> str | None:
        """The parameter that gets the argument, behind those that are `given` anyway, such as `self`."""
        if arg.keyword is not None:
            return arg.keyword.value
        names = [p.name.value for p in (*function.params.posonly_params, *function.params.params)]
        position = next(i for i, a in enumerate(call.args) if a is arg) + given
        return names[position] if position < len(names) else None


def _does_nothing(node: cst.CSTNode) -> bool:
    """A constant, or a name with its attributes."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name) or is_constant(node)


def _is_place(node: cst.BaseExpression) -> bool:
    """`models[i]`, that means the same place when it is written once more."""
    index = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
    return (
        isinstance(node, cst.Subscript)
        and isinstance(index, cst.Index)
        and _does_nothing(node.value)
        and (_does_nothing(index.value) or isinstance(index.value, cst.FormattedString))
        and not any(isinstance(inner, cst.Call) for inner in nodes_in(index))
    )
