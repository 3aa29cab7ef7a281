"""What is at one place of a value: of a tuple, list, dictionary or record that the script puts together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Optional, Union, cast

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Result, calls
from migrator.facts.program.syntax import declared_fields, is_none, is_slice
from migrator.facts.program.tree import Binding, FunctionLike, Tree, semantic_children
from migrator.records import dataclass

# A position, a key, an attribute with its dot; None for an element, whichever it is.
Step = Optional[Union[int, str]]
Path = tuple[Step, ...]

_SAME = frozenset({"builtins.list", "builtins.tuple", "builtins.dict", "collections.OrderedDict"})
_REORDERING = frozenset({"builtins.sorted", "builtins.reversed", "builtins.set", "builtins.iter"})
_CHOOSING = frozenset({"builtins.min", "builtins.max", "random.choice"})
_LOOK_UPS = frozenset({"get", "get_nowait", "pop", "popleft", "setdefault"})
_PUT_IN = {"append": 0, "appendleft": 0, "add": 0, "insert": 1, "put": 0, "put_nowait": 0, "setdefault": 1}
_MAPPING = frozenset({"builtins.map", "tensorflow.nest.map_structure", "keras.tree.map_structure"})
_MOST_PARTS = 200
_DISPLAYS = (cst.List, cst.Tuple, cst.Set)
_EVALUATED = (cst.BaseExpression, cst.Arg, cst.BaseElement, cst.BaseDictElement, cst.BaseSlice, cst.SubscriptElement)


@dataclass(frozen=True)
class Part:
    """What is at the path of the expression's value.

    `way` are the calls through which the expression was come to, outermost first: its parameters are what these give.
    `holder` is the binding that gives this a name, where there is one; `held` steps of the path lead to what it holds.
    """

    node: cst.CSTNode
    path: Path = ()
    way: tuple[cst.Call, ...] = ()
    holder: Binding | None = None
    held: int = 0

    def at(self, node: cst.CSTNode, path: Path | None = None) -> Part:
        """Another expression that has no name of its own, reached on the same way."""
        return Part(node, self.path if path is None else path, self.way)


@dataclass(frozen=True)
class Parts:
    """The expressions that a part of a value is one of, or is put together from.

    `is_whole`: these are all, and it is made of nothing else.
    """

    found: Sequence[Part]
    is_whole: bool = True


class Contents:
    """Takes values apart, one step at a time."""

    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver

    def of(self, part: Part) -> Parts:
        """What the part is, one step closer to where it is made; of what is computed, its operands."""
        node, path = part.node, part.path
        if type(node) is cst.Name or type(node) is cst.Attribute:
            return self._named(node, part)
        if type(node) is cst.Call:  # these three, the most, are told without libcst's slow classes
            return self._of_call(node, part)
        if isinstance(node, _DISPLAYS):
            return Parts(
                _of_display(node, part.at(node, _anywhere(path)) if self.resolver.is_reordered(node) else part)
            )
        if isinstance(node, cst.Dict):
            return Parts(_of_dictionary(node, part))
        if isinstance(node, (cst.ListComp, cst.SetComp, cst.GeneratorExp)):
            return Parts([part.at(node.elt, path[1:])], bool(path) or not isinstance(node, cst.GeneratorExp))
        if isinstance(node, cst.DictComp):
            return Parts([part.at(node.value, path[1:])])
        if isinstance(node, cst.IfExp):
            return Parts([part.at(node.body), part.at(node.orelse)])
        if isinstance(node, cst.BooleanOperation):
            return Parts([part.at(node.left), part.at(node.right)])
        if isinstance(node, (cst.NamedExpr, cst.StarredElement)):
            return Parts([part.at(node.value)])
        if isinstance(node, cst.Subscript):
            return Parts([part.at(node.value, (*_steps_of(node, path), *path[is_slice(node) :]))])
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
            inside = _anywhere(path)
            return Parts([part.at(node.left, inside), part.at(node.right, inside)])
        if isinstance(node, (cst.Lambda, cst.BaseString)):
            return Parts((), is_whole=False)
        return Parts([part.at(child, ()) for child in semantic_children(node) if isinstance(child, _EVALUATED)], False)

    def ends(self, start: Parts) -> list[cst.CSTNode] | None:
        """The expressions that make what is at these places, also where functions of the script return it; None where
        not all are seen."""
        found: dict[cst.CSTNode, None] = {}
        seen: set[Part] = set()
        stack = [start]
        while stack:
            parts = stack.pop()
            if not parts.is_whole or len(seen) > _MOST_PARTS:
                return None
            for part in parts.found:
                if not part.path:
                    found.setdefault(part.node)
                elif part not in seen:
                    seen.add(part)
                    stack.append(self._returned(part) or self.of(part))
                    stack.append(self._stored_elsewhere(part))
        return list(found)

    def behind(self, part: Part) -> Sequence[Part]:
        """What the part is, one step closer to where it is made, also by functions of the script."""
        return (self._returned(part) or self.of(part)).found

    def _stored_elsewhere(self, part: Part) -> Parts:
        """What is put into the container where it has another name: that of a parameter, an attribute."""
        if not isinstance(part.node, (cst.Name, cst.Attribute)):
            return Parts(())
        names: dict[object, None] = {self._container(part.node): None}
        found = []
        queue = list(names)
        while queue:
            for other in map(self._container, self._other_names(queue.pop())):
                if other not in names:
                    names[other] = None
                    queue.append(other)
                    found += [
                        part.at(value, part.path[len(steps) :])
                        for steps, value in self._stored.get(other, ())
                        if all(a is None or b is None or a == b for a, b in zip(steps, part.path))
                    ]
                    found += [part.at(value, _anywhere(part.path)) for value in self._extended.get(other, ())]
        return Parts(found)

    def _other_names(self, container: object) -> Iterator[cst.Name | cst.Attribute]:
        """The names that what has this one is given, too."""
        if isinstance(container, str):
            owners = (self.tree.parent[name] for name in self.tree.names[container])
            uses: list[cst.Name | cst.Attribute] = [
                o for o in owners if isinstance(o, cst.Attribute) and o.attr.value == container
            ]
        else:
            uses = [*self.resolver.reads_of(container)] if isinstance(container, tuple) else []
        for use in uses:
            owner = self.tree.parent[use]
            if isinstance(owner, cst.Assign) and owner.value is use:
                yield from (t.target for t in owner.targets if isinstance(t.target, (cst.Name, cst.Attribute)))
            elif isinstance(owner, cst.Arg) and isinstance(call := self.tree.parent[owner], cst.Call):
                yield from self._parameters(call, use)

    def _parameters(self, call: cst.Call, given: cst.BaseExpression) -> Iterator[cst.Name]:
        """The parameters that the call gives it to."""
        for value in self.resolver.values(call.func):
            made = self.resolver.method(value, "__init__") if isinstance(value, Class) else None
            function = value.node if isinstance(value, Function) else made
            if isinstance(function, cst.FunctionDef):
                params = (*function.params.posonly_params, *function.params.params, *function.params.kwonly_params)
                for param in params:
                    if given in self.resolver.arguments(param, function, [call]):
                        yield param.name

    def _returned(self, part: Part) -> Parts | None:
        """What functions of the script return; None for all else."""
        call = part.node
        functions = self.resolver.values(call.func) if isinstance(call, cst.Call) else ()
        nodes = [f.node for f in functions if isinstance(f, Function) and isinstance(f.node, cst.FunctionDef)]
        if not isinstance(call, cst.Call) or not nodes or len(nodes) < len(functions):
            return None
        returned = [node for function in nodes for node in self.resolver.returned(function)]
        return Parts([Part(node, part.path, (*part.way, call)) for node in returned], call not in part.way)

    def items(self, node: cst.Subscript) -> Parts:
        """What is at that place of a container."""
        return self.of(Part(node))

    def field(self, call: cst.Call, name: str) -> cst.BaseExpression | None:
        """What the call that makes a record gives the field; None where it makes none, or that is not seen."""
        parts = self.of(Part(call, (f".{name}",))) if self._is_record(call) else Parts((), is_whole=False)
        node = parts.found[0].node if parts.is_whole and len(parts.found) == 1 else None
        return node if isinstance(node, cst.BaseExpression) else None

    def bound(self, binding: Binding) -> Parts:
        """What the binding gives its name, one step closer to where it is made."""
        return self._bound(binding, Part(binding.node))

    # -- names ---------------------------------------------------------------------------------------------------

    def _named(self, node: cst.Name | cst.Attribute, part: Part) -> Parts:
        if isinstance(node, cst.Name):
            bindings = self.resolver.reaching(node)
        else:
            bindings = self.resolver.bindings_of(node) if node.attr.value in self.tree.attributes else []
            if not bindings:
                return Parts([part.at(node.value, (f".{node.attr.value}", *part.path))])
        if not bindings:
            return Parts((), is_whole=is_none(node))
        each = [self._bound(binding, part) for binding in bindings]
        stored = self._stored_in(node, part)
        return Parts([*(p for ps in each for p in ps.found), *stored], all(ps.is_whole for ps in each))

    def _bound(self, binding: Binding, part: Part) -> Parts:
        """What the binding gives its name."""
        if binding.kind == "param":
            return self._given(cast(cst.Param, binding.node), part)
        if binding.kind == "other":
            return _rest(binding, part)
        if binding.value is None or binding.kind not in ("assign", "augmented", "for"):
            return Parts((), is_whole=False)
        if binding.kind == "for":
            return Parts([part.at(binding.value, (None, *binding.path, *part.path))])
        if binding.kind == "augmented":
            return self._added(binding, part)
        node, path = binding.value, binding.path
        while path and isinstance(node, (cst.Tuple, cst.List)) and not _has_star(node):
            if not -len(node.elements) <= path[0] < len(node.elements):
                return Parts((), is_whole=False)
            node, path = node.elements[path[0]].value, path[1:]
        return Parts([Part(node, (*path, *part.path), part.way, binding, len(path))])

    def _added(self, binding: Binding, part: Part) -> Parts:
        """`grads += more`, which may be one of several in a loop, each of which follows on the others."""
        found: list[Part] = []
        is_whole, seen, queue = True, {binding}, [binding]
        while queue:
            added = queue.pop()
            adds = isinstance(added.node, cst.AugAssign) and isinstance(added.node.operator, cst.AddAssign)
            path = _anywhere(part.path) if adds else ()
            found.append(part.at(cast(cst.CSTNode, added.value), path))
            is_whole = is_whole and adds
            for before in self.resolver.reaching(added.target) if isinstance(added.target, cst.Name) else []:
                if before.kind == "augmented":
                    queue += {before} - seen
                    seen.add(before)
                else:
                    earlier = self._bound(before, part.at(part.node, path))
                    found += earlier.found
                    is_whole = is_whole and earlier.is_whole
        return Parts(found, is_whole)

    def _given(self, param: cst.Param, part: Part) -> Parts:
        """What the call on the way gives the parameter; all calls do where none is on the way."""
        function = self.resolver.function_of_parameter(param)
        callers = self.resolver.callers(function)
        passed = next((i for i in reversed(range(len(part.way))) if part.way[i] in callers), None)
        way = part.way[:passed] if passed is not None else ()
        mapped = self._mapped.get(function, []) if not callers else []
        if mapped:
            params = (*function.params.posonly_params, *function.params.params)
            given_to_each = [a.value for c in mapped for p, a in zip(params, c.args[1:]) if p is param]
            return Parts([Part(node, (None, *part.path), part.way) for node in given_to_each], is_whole=False)
        found: list[Part] = []
        is_whole = True
        for call in callers if passed is None else [part.way[passed]]:
            if function.params.star_arg is param:
                rest = self._rest_of(param, call)
                found += [Part(node, part.path[1:], way) for node in _at(rest or [], part.path)]
                is_whole = is_whole and rest is not None
                continue
            starred = self._unpacked(param, call)
            given = [] if starred else self.resolver.arguments(param, function, [call])
            found += [Part(node, part.path, way) for node in given]
            found += [Part(node, (index, *part.path), way) for node, index in starred]
            is_whole = is_whole and bool(given or starred)
        return Parts(found, is_whole and bool(found))

    @cached_property
    def _mapped(self) -> dict[FunctionLike, list[cst.Call]]:
        """The calls that run a function once for each item of what they are given beside it."""
        found: dict[FunctionLike, list[cst.Call]] = {}
        for call in self.tree.calls:
            is_plain = not any(arg.star or arg.keyword for arg in call.args)
            if len(call.args) > 1 and is_plain and self.resolver.calls_one_of(call, _MAPPING):
                for value in self.resolver.values(call.args[0].value):
                    if isinstance(value, Function) and value.owner is None:
                        found.setdefault(value.node, []).append(call)
        return found

    def _rest_of(self, param: cst.Param, call: cst.Call) -> list[cst.BaseExpression] | None:
        """What the call gives `*param`; None where it unpacks something itself."""
        function = self.resolver.function_of_parameter(param)
        taken = len(function.params.posonly_params) + len(function.params.params)
        positional = [arg for arg in call.args if arg.keyword is None and arg.star != "**"]
        if any(arg.star for arg in positional):
            return None
        return [arg.value for arg in positional[taken - (self.resolver.owner_class(function) is not None) :]]

    def _unpacked(self, param: cst.Param, call: cst.Call) -> list[tuple[cst.CSTNode, int]]:
        """The `*values` of the call that the parameter gets an element of, and which."""
        function = self.resolver.function_of_parameter(param)
        params = [*function.params.posonly_params, *function.params.params]
        star = next((i for i, arg in enumerate(call.args) if arg.star == "*"), None)
        if star is None or param not in params:
            return []
        is_bound = self.resolver.owner_class(function) is not None
        index = next(i for i, p in enumerate(params) if p is param) - is_bound - star
        return [(call.args[star].value, index)] if index >= 0 else []

    # -- what is put into a container later ----------------------------------------------------------------------

    def held(self, collection: cst.CSTNode) -> list[Part]:
        """What the list or dictionary that an expression makes holds: what is written out there, and what the script
        adds to it under the name that it is given."""
        written: list[cst.CSTNode] = []
        copied: list[Part] = []
        if isinstance(collection, (*_DISPLAYS, cst.Dict)):
            written = [element.value for element in collection.elements]
        elif isinstance(collection, (cst.ListComp, cst.SetComp)):
            written = [collection.elt]
        elif isinstance(collection, cst.DictComp):
            written = [collection.value]
        elif isinstance(collection, cst.Call) and self._is_record(collection):
            return [Part(arg.value, (None,) if arg.star else ()) for arg in collection.args]
        elif isinstance(collection, cst.Call) and External("builtins.dict") in self.resolver.values(collection.func):
            written = [arg.value for arg in collection.args if arg.keyword is not None]
            copied = [Part(arg.value, (None,)) for arg in collection.args if arg.keyword is None]
        elif not isinstance(collection, cst.Call):
            return []
        assigned = self.tree.parent.get(collection)
        targets = [target.target for target in assigned.targets] if isinstance(assigned, cst.Assign) else []
        named = [target for target in targets if isinstance(target, (cst.Name, cst.Attribute))]
        containers = [self._container(name) for name in named]
        stored = [pair for container in containers for pair in self._stored.get(container, ())]
        extended = [Part(value, (None,)) for container in containers for value in self._extended.get(container, ())]
        return [
            *map(Part, written),
            *copied,
            *(Part(value, () if steps else (None,)) for steps, value in stored),
            *extended,
        ]

    def _stored_in(self, node: cst.Name | cst.Attribute, part: Part) -> Iterator[Part]:
        for steps, value in self._stored.get(self._container(node), ()):
            if all(a is None or b is None or a == b for a, b in zip(steps, part.path)):
                yield part.at(value, part.path[len(steps) :])

    @cached_property
    def _stored(self) -> dict[object, list[tuple[Path, cst.BaseExpression]]]:
        """`found.append(x)`, `found.extend(xs)`, `found["a"] = x`, by what the container is called."""
        found: dict[object, list[tuple[Path, cst.BaseExpression]]] = {}
        for call in self.tree.calls:
            func = call.func
            if isinstance(func, cst.Attribute) and call.args:
                position = _PUT_IN.get(func.attr.value, -1 if func.attr.value in ("extend", "update") else None)
                if position is not None and position < len(call.args):
                    container, steps = _container_of(func.value)
                    inside: Path = () if position < 0 else (None,)
                    put_in = found.setdefault(self._container(container), [])
                    put_in.append(((*steps, *inside), call.args[max(position, 0)].value))
                    put_in += [((*steps, arg.keyword.value), arg.value) for arg in call.args[1:] if arg.keyword]
        for target, value in self.tree.item_assignments:
            container, steps = _container_of(target)
            found.setdefault(self._container(container), []).append((steps, value))
        return found

    @cached_property
    def _extended(self) -> dict[object, list[cst.BaseExpression]]:
        """`found += xs`, `found |= more`, by what the list or dictionary is called."""
        found: dict[object, list[cst.BaseExpression]] = {}
        for node in self.tree.augmented:
            if isinstance(node.operator, (cst.AddAssign, cst.BitOrAssign)):
                found.setdefault(self._container(node.target), []).append(node.value)
        return found

    def _container(self, node: cst.CSTNode) -> object:
        if isinstance(node, cst.Name):
            return self.resolver.variable(node)
        return node.attr.value if isinstance(node, cst.Attribute) else None

    # -- calls ---------------------------------------------------------------------------------------------------

    def _of_call(self, call: cst.Call, part: Part) -> Parts:
        parts = self._of_collection(call, part)
        if parts is not None:
            return parts
        for value in self.resolver.values(call.func):
            fields = self._fields(value)
            if fields is not None:
                is_tuple = not isinstance(value, Class) or External("typing.NamedTuple") in self.resolver.bases(value)
                return _of_record(call, fields, part, is_tuple)
        if part.path and isinstance(part.path[0], str) and part.path[0].startswith("."):
            return Parts((), is_whole=False)  # an attribute of something that is no record
        receiver = [call.func.value] if isinstance(call.func, cst.Attribute) else []
        return Parts([part.at(node, ()) for node in (*(arg.value for arg in call.args), *receiver)], is_whole=False)

    def _of_collection(self, call: cst.Call, part: Part) -> Parts | None:
        """Calls of Python's that give what they are given in another order or form."""
        paths = set(self.resolver.public(call.func))
        given, path = [arg.value for arg in call.args if not arg.star], part.path
        if paths & _SAME:
            keywords = [
                a.value for a in call.args if a.keyword is not None and path[:1] in ((a.keyword.value,), (None,))
            ]
            same = [part.at(arg.value) for arg in call.args if arg.keyword is None and arg.star != "*"]
            is_whole = not any(arg.star == "*" for arg in call.args)
            return Parts([*same, *(part.at(node, path[1:]) for node in keywords)], is_whole)
        if paths & _REORDERING and given:
            return Parts([part.at(given[0], _anywhere(path))], bool(path) or "builtins.sorted" in paths)
        positional = [arg for arg in call.args if arg.keyword is None]
        is_one_of = bool(paths & _CHOOSING) and len(positional) == 1 and not positional[0].star
        if is_one_of or ("builtins.next" in paths and given):
            return Parts([part.at(given[0], (None, *path))])
        if len(path) > 1 and "builtins.zip" in paths and isinstance(path[1], int) and 0 <= path[1] < len(given):
            return Parts([part.at(given[path[1]], (None, *path[2:]))])
        if len(path) > 1 and "builtins.enumerate" in paths and path[1] == 1 and given:
            return Parts([part.at(given[0], (None, *path[2:]))])
        if isinstance(call.func, cst.Attribute) and not paths:
            return _of_method(call, call.func, part)
        return None

    def is_made_of(self, collection: cst.CSTNode, is_one: Callable[[cst.CSTNode], bool]) -> bool:
        """Whether the list, dictionary or record that an expression makes holds something, and such ones only; also
        in lists, dictionaries and records that it holds."""
        return self.are_made_of(self.held(collection), is_one)

    def are_made_of(self, parts: Sequence[Part], is_one: Callable[[cst.CSTNode], bool]) -> bool:
        """The same of parts: at least one, and each is such a one, or a collection of them."""
        return bool(parts) and all(
            self.is_made_of(part.node, is_one)
            if part.path or isinstance(part.node, (*_DISPLAYS, cst.Dict)) or self._is_record(part.node)
            else is_one(part.node)
            for part in parts
        )

    def _is_record(self, node: cst.CSTNode) -> bool:
        values = self.resolver.values(node.func) if isinstance(node, cst.Call) else ()
        return bool(values) and all(self._fields(value) is not None for value in values)

    def _fields(self, value: object) -> list[str] | None:
        """The names of what a record holds, in the order in which its constructor takes them; None for all else."""
        if value == External("types.SimpleNamespace"):
            return []
        if isinstance(value, Result) and calls(value) == "collections.namedtuple" and len(value.call.args) > 1:
            names = value.call.args[1].value
            if isinstance(names, cst.SimpleString):
                return str(names.evaluated_value).replace(",", " ").split()
            if isinstance(names, (cst.List, cst.Tuple)):
                texts = [e.value for e in names.elements]
                return [str(t.evaluated_value) for t in texts if isinstance(t, cst.SimpleString)]
        if isinstance(value, Class) and self.resolver.method(value, "__init__") is None:
            return declared_fields(value.node) or None
        return None


def _of_display(node: cst.List | cst.Tuple | cst.Set, part: Part) -> list[Part]:
    path = part.path
    if not path:
        return [part.at(e.value, ()) for e in node.elements]
    index = path[0]
    if isinstance(index, int) and not _has_star(node):
        inside = -len(node.elements) <= index < len(node.elements)
        return [part.at(node.elements[index].value, path[1:])] if inside else []
    if isinstance(index, str) and index.startswith("."):
        return []
    return [part.at(e.value, _anywhere(path) if isinstance(e, cst.StarredElement) else path[1:]) for e in node.elements]


def _of_dictionary(node: cst.Dict, part: Part) -> list[Part]:
    path = part.path
    pairs = [e for e in node.elements if isinstance(e, cst.DictElement)]
    more = [part.at(e.value) for e in node.elements if isinstance(e, cst.StarredDictElement)]
    if path and path[0] is not None:
        same = [e for e in pairs if _constant(e.key) == path[0]]
        if same:
            return [part.at(same[-1].value, path[1:])]
        pairs = [e for e in pairs if _constant(e.key) is None]
    return [*(part.at(e.value, path[1:]) for e in pairs), *more]


def _of_method(call: cst.Call, func: cst.Attribute, part: Part) -> Parts | None:
    """What methods of lists and dictionaries give back."""
    name, path = func.attr.value, part.path
    if name == "values" and path:
        return Parts([part.at(func.value, _anywhere(path))])
    if name == "items" and len(path) > 1 and path[1] == 1:
        return Parts([part.at(func.value, (None, *path[2:]))])
    if name == "copy" and not call.args:
        return Parts([part.at(func.value)])
    if name in _LOOK_UPS and len(call.args) < 2:
        key = _constant(call.args[0].value) if call.args else None
        return Parts([part.at(func.value, (key, *path))])
    return None


def _of_record(call: cst.Call, fields: Sequence[str], part: Part, is_tuple: bool) -> Parts:
    if not part.path:
        return Parts([part.at(arg.value, ()) for arg in call.args], is_tuple)
    step = part.path[0]
    name = fields[step] if isinstance(step, int) and step < len(fields) else str(step)[1:]
    for i, arg in enumerate(call.args):
        if arg.star or (arg.keyword.value == name if arg.keyword is not None else fields[i : i + 1] == [name]):
            return Parts([part.at(arg.value, () if arg.star else part.path[1:])], is_whole=not arg.star)
    return Parts((), is_whole=False)


def _rest(binding: Binding, part: Part) -> Parts:
    """`first, *rest = values`"""
    if not isinstance(binding.node, cst.Assign) or not isinstance(
        binding.node.targets[0].target, (cst.Tuple, cst.List)
    ):
        return Parts((), is_whole=False)
    elements = binding.node.targets[0].target.elements
    start = next((i for i, e in enumerate(elements) if e.value is binding.target), None)
    if start is None:
        return Parts((), is_whole=False)
    step = part.path[0] if part.path else None
    index = start + step if isinstance(step, int) and step >= 0 else None
    return Parts([part.at(binding.node.value, (index, *part.path[1:]))], is_whole=index is not None)


def _at(items: Sequence[cst.BaseExpression], path: Path) -> Sequence[cst.BaseExpression]:
    """The items at the first step of the path."""
    index = path[0] if path else None
    return items[index : index + 1 or None] if isinstance(index, int) else items


def _steps_of(node: cst.Subscript, path: Path) -> Path:
    """Where `values[i]` is in the values; of a slice, the same place, or any."""
    if is_slice(node):
        return _anywhere(path[:1])
    index = node.slice[0].slice if len(node.slice) == 1 else None
    return (_constant(index.value) if isinstance(index, cst.Index) else None,)


def _constant(node: cst.CSTNode) -> Step:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = _constant(node.expression)
        return -inner if isinstance(inner, int) else None
    if isinstance(node, cst.Integer):
        return int(node.value, 0)
    return str(node.evaluated_value) if isinstance(node, cst.SimpleString) else None


def _anywhere(path: Path) -> Path:
    """The path where the first step may be another one."""
    return (None, *path[1:]) if path and not isinstance(path[0], str) else path


def _container_of(node: cst.BaseExpression) -> tuple[cst.BaseExpression, Path]:
    """`sums` and the path `("a", 0)` of `sums["a"][0]`."""
    steps: list[Step] = []
    while isinstance(node, cst.Subscript):
        steps.insert(0, *_steps_of(node, (None,)))
        node = node.value
    return node, tuple(steps)


def _has_star(node: cst.List | cst.Tuple | cst.Set) -> bool:
    return any(isinstance(e, cst.StarredElement) for e in node.elements)
