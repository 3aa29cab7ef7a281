"""What each value of a program may depend on: one graph from everything that gives a value to everything that uses it.

Its default is pessimistic: an expression depends on all of its parts, what is called on all of its arguments, and a
call that nobody knows may put its arguments into whatever else it is given. The forms that are named here make the
graph finer, never smaller by leaving something out.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import cached_property
from typing import Union, cast

import libcst as cst

from migrator.facts import vocabulary
from migrator.facts.draws import is_drawn_from_common
from migrator.facts.indirect import Indirect
from migrator.facts.iteration import Iteration
from migrator.facts.kinds import Kinds, calls, origin
from migrator.facts.resolve import Resolver
from migrator.facts.syntax import dotted, part_at
from migrator.facts.tree import Binding, Tree, semantic_children
from migrator.facts.values import (
    Class,
    Element,
    External,
    File,
    Function,
    Literal,
    Member,
    Object,
    Parameter,
    Result,
    Unknown,
    Value,
)
from migrator.facts.vocabulary import Role


class Way(IntEnum):
    """How a value enters another."""

    WHOLE = 0  # it is the other, or may be
    USED = 1  # the other is computed from it, or taken out of it
    INTO = 2  # the other contains it
    SIZE = 3  # of it only the size matters
    PRESENCE = 4  # only whether it is there: `x is None`
    CHOICE = 5  # it decides what the other is
    LENGTH = 6  # of it only the size matters, which may be a number that it is made from: `np.zeros(count)`


Key = Union[cst.CSTNode, Binding, tuple[object, ...]]
# The keys that lead from a value to an item inside it: text, None for any one key, `...` for any number of keys.
Path = tuple[object, ...]

COLLECTING = frozenset({"append", "extend", "appendleft", "extendleft", "insert", "update", "setdefault", "put"})
_PARTS: tuple[type, ...] = (
    cst.BaseExpression, cst.Arg, cst.BaseElement, cst.BaseDictElement, cst.SubscriptElement, cst.BaseSlice,
    cst.ComparisonTarget, cst.CompFor, cst.CompIf, cst.BaseFormattedStringContent, cst.From,
)  # fmt: skip
# They put in what they are given as it is: as many elements as that has.
_JOINING = frozenset({"extend", "extendleft", "update"})
_MOST_HOLDERS = 300  # what a name was made of more steps ago, it no longer is
# What these make of each of their parts; others ask which part it is.
_WAYS_OF_PARTS = {
    **dict.fromkeys((cst.List, cst.Tuple, cst.Dict), Way.INTO),
    **dict.fromkeys((cst.Element, cst.StarredElement, cst.ComparisonTarget, cst.SubscriptElement), Way.WHOLE),
    **dict.fromkeys((cst.Index, cst.Slice, cst.Await), Way.WHOLE),
    **dict.fromkeys((cst.BinaryOperation, cst.UnaryOperation, cst.BooleanOperation), Way.USED),
    **dict.fromkeys((cst.FormattedString, cst.FormattedStringExpression), Way.USED),
    cst.CompIf: Way.CHOICE,
}
_MOST_PATHS = 4  # by which a name's items are told apart, and the keys of one
_NAMESPACES = ("builtins.globals", "builtins.locals", "builtins.vars")
# These have walks of their own.
_LINKED_APART = frozenset({cst.Call, cst.Attribute, cst.Name})
_OPERATIONS = frozenset({cst.BinaryOperation, cst.Comparison, cst.Subscript, cst.AugAssign})
_COMPREHENSIONS = (cst.ListComp, cst.GeneratorExp, cst.SetComp, cst.DictComp)
_SPECIAL = (
    "__bool__", "__len__", "__float__", "__int__", "__index__", "__lt__", "__le__", "__gt__", "__ge__", "__eq__",
    "__ne__", "__contains__", "__getitem__", "__iter__", "__next__", "__enter__", "__str__", "__format__",
    "__getattr__", "__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__",
)  # fmt: skip
_SIZES = frozenset({"shape", "size"})
# They tell of what kind a value is, which is the same everywhere.
_KIND_CALLS = frozenset({
    "builtins.isinstance", "builtins.type", "builtins.hasattr", "builtins.callable", "tensorflow.is_tensor",
    "keras.backend.is_keras_tensor", "keras.ops.is_tensor", "tensorflow.rank", "keras.backend.ndim", "keras.ops.ndim",
    "numpy.ndim",
})  # fmt: skip
_STEPS = frozenset(
    {"train_step", "test_step", "predict_step"}
)  # of a Keras model, which its `fit` and the like compile
_SIZE_CALLS = frozenset({"builtins.len", "tensorflow.shape", "tensorflow.size"})
# Calls that give the elements that they are given, as many of them.
_SEQUENCES = frozenset({
    "builtins.list", "builtins.tuple", "builtins.sorted", "builtins.reversed", "builtins.enumerate", "builtins.zip",
    "numpy.array", "numpy.asarray", "tensorflow.stack", "tensorflow.convert_to_tensor", "collections.deque",
    "copy.copy", "copy.deepcopy",
})  # fmt: skip
_COLLECTIONS = (
    "builtins.list", "builtins.dict", "builtins.set", "collections.deque", "collections.defaultdict",
    "collections.OrderedDict", "collections.Counter",
)  # fmt: skip
_OF_COLLECTIONS = "collections.defaultdict"
_WRITTEN = (cst.List, cst.Tuple, cst.Dict, cst.Set, cst.Call)
_RANKS = frozenset({"ndims", "rank"})  # of a shape
_AGREED_ATTRIBUTES = frozenset({"trainable_variables", "trainable_weights", "dtype", "ndim", "name", "__name__"})
# Libraries whose functions leave their arguments as they are, but for those named below.
_PURE = (
    "tensorflow.", "keras.", "numpy.", "math.", "builtins.", "random.", "time.", "json.", "logging.", "statistics.",
    "collections.", "itertools.", "functools.", "os.", "sys.", "copy.", "operator.", "pickle.", "csv.", "matplotlib.",
    "pandas.", "sklearn.", "heapq.", "bisect.", "scipy.", "PIL.", "absl.", "warnings.", "datetime.", "pathlib.", "tqdm",
    "lockstep.",
)  # fmt: skip
_FILLING = frozenset({
    "numpy.put", "numpy.copyto", "numpy.place", "numpy.putmask", "numpy.fill_diagonal", "numpy.put_along_axis",
    "builtins.setattr", "operator.setitem", "random.shuffle", "numpy.random.shuffle", "heapq.heappush",
    "heapq.heappushpop", "heapq.heapreplace", "bisect.insort", "bisect.insort_left", "bisect.insort_right",
})  # fmt: skip
# Of TensorFlow's and Keras's objects, those that give back what they were given.
_KEEPING = (
    "tensorflow.Variable", "keras.Variable", "keras.backend.variable", "tensorflow.lookup.", "tensorflow.queue.",
    "tensorflow.TensorArray", "keras.callbacks.", "tensorflow.random.Generator", "keras.random.SeedGenerator",
    "keras.metrics.",
)  # fmt: skip
_HANDING_BACK = frozenset({
    "builtins.getattr", "builtins.vars", "builtins.iter", "builtins.next", "builtins.zip", "builtins.enumerate",
    "builtins.reversed", "builtins.filter", "builtins.map", "numpy.asarray", "numpy.ravel", "numpy.reshape",
    "operator.itemgetter", "operator.attrgetter", "functools.partial", "builtins.super", "builtins.globals",
    "builtins.locals", "csv.writer", "csv.DictWriter", "io.TextIOWrapper", "codecs.getwriter",
})  # fmt: skip
# Calls that give a new container of the same elements, and such that give elements.
_COPYING = frozenset({
    "builtins.list", "builtins.tuple", "builtins.sorted", "builtins.set", "builtins.dict", "copy.copy",
    "collections.OrderedDict", "collections.deque", "collections.defaultdict", "collections.ChainMap",
    "itertools.chain", "itertools.cycle", "itertools.islice", "itertools.repeat",
})  # fmt: skip
_PICKING = frozenset({"builtins.min", "builtins.max", "random.choice", "random.sample", "heapq.nlargest"})
_DUMPING = frozenset({"pickle.dump", "json.dump", "yaml.dump", "yaml.safe_dump", "marshal.dump"})  # into the second
_WRITING_INTO = ("out", "file", "output_stream")  # the keywords that name what is filled
_IN_PLACE = re.compile(r"^numpy\.\w+\.at$")  # `np.add.at(counts, labels, 1)`
_FILLING_PREFIXES = ("builtins.list.", "builtins.dict.", "builtins.set.", "collections.deque.", "operator.i")


class Dependence:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.indirect = Indirect(tree, resolver, kinds)
        self._iteration = Iteration(tree, resolver)
        # Walks go from number to number: nodes and bindings are slow keys.
        self._numbers: dict[Key, int] = {}
        self.keys: list[Key] = []
        self.edges: list[list[tuple[int, Way]]] = []  # to the users of a key
        self.sources: list[list[tuple[int, Way]]] = []  # the other way round
        self._items_at: dict[cst.Subscript, list[tuple[object, ...]]] = {}
        self._with_contents: set[tuple[Binding, bool]] = set()
        self._link_all()

    def number(self, key: Key) -> int:
        """The number of the key, a new one where it has none; it stays."""
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.keys)
            self.keys.append(key)
            self.edges.append([])
            self.sources.append([])
        return found

    def users(self, key: Key) -> list[Key]:
        number = self._numbers.get(key)
        return [] if number is None else [self.keys[user] for user, _ in self.edges[number]]

    def inputs(self, key: Key) -> list[tuple[Key, Way]]:
        number = self._numbers.get(key)
        return [] if number is None else [(self.keys[source], way) for source, way in self.sources[number]]

    def link(self, source: Key | None, target: Key, way: Way = Way.WHOLE) -> None:
        if source is not None and source is not target:
            start, end = self.number(source), self.number(target)
            self.edges[start].append((end, way))
            self.sources[end].append((start, way))

    # -- the walk ------------------------------------------------------------------------------------------------

    def _link_all(self) -> None:
        is_part: dict[type, bool] = {}
        for node, parent in self.tree.parent.items():
            kind, outer = type(node), type(parent)
            for each in (kind, outer):
                if each not in is_part:
                    is_part[each] = issubclass(each, _PARTS)
            if is_part[kind] and is_part[outer]:
                self._link_part(node, parent)
            if kind is cst.Name:
                self._link_name(cast(cst.Name, node))
            elif kind is cst.Attribute:
                self._link_attribute(cast(cst.Attribute, node))
            elif kind is cst.Call:
                self._link_call(cast(cst.Call, node))
            elif kind is cst.Del:
                self._link_deleted(cast(cst.Del, node).target)
            elif kind is cst.Yield:
                self.link(("sent",), node, Way.USED)
            elif kind is cst.Raise and cast(cst.Raise, node).exc is not None:
                self.link(cast(cst.Raise, node).exc, ("raised",))
            if kind in _OPERATIONS:
                self._link_operators(node)
        for scope in self.tree.scopes.values():
            for bindings in scope.bindings.values():
                for binding in bindings:
                    self._link_binding(binding)
        for several in self.tree.attributes.values():
            for binding in several:
                self._link_binding(binding)
        for target, value in self.tree.item_assignments:
            self._link_item(target, value)
        for holder in self._items_of:
            if isinstance(holder, tuple) and holder[0] == "changed":
                for item in self._cells(holder):
                    self.link(item, holder, Way.INTO)

    def _link_part(self, node: cst.CSTNode, parent: cst.CSTNode) -> None:
        """What an expression makes of its parts."""
        if type(parent) in _LINKED_APART:
            return
        way: Way | None = _WAYS_OF_PARTS.get(type(parent))
        if way is not None:
            self.link(node, parent, way)
            return
        way = Way.USED
        if isinstance(parent, cst.Arg):
            way = None if node is parent.keyword else Way.WHOLE
        elif isinstance(parent, cst.DictElement) and node is parent.key:
            self.link(node, self.tree.parent[parent], Way.USED)
            way = None
        elif isinstance(parent, cst.Lambda):
            way = Way.WHOLE if node is parent.body else None
        elif isinstance(parent, _COMPREHENSIONS):
            way = Way.WHOLE if node is parent.for_in else Way.INTO
            if isinstance(parent, cst.SetComp) or (isinstance(parent, cst.DictComp) and node is parent.key):
                way = Way.USED  # how many there are is settled by what they are
        elif isinstance(parent, cst.CompFor):
            way = None if node is parent.target else self._repeating(parent.iter) if node is parent.iter else Way.WHOLE
        elif isinstance(parent, cst.Comparison):
            way = Way.PRESENCE if _asks_for_presence(parent) else Way.USED
        elif isinstance(parent, cst.IfExp):
            way = Way.CHOICE if node is parent.test else Way.WHOLE
        elif isinstance(parent, cst.NamedExpr):
            way = Way.WHOLE if node is parent.value else None
        elif isinstance(parent, cst.Subscript) and node is parent.value and _is_size_of_another_axis(parent):
            way = None
        elif isinstance(parent, cst.Subscript) and node is parent.value and self._items_of_tuples(parent):
            way = Way.PRESENCE  # which tuple it is
            for item in self._items_of_tuples(parent):
                self.link(item, parent, Way.WHOLE)
            # An item may be a list, or an array, that is filled in place.
            for binding in self.bindings_of(cst.ensure_type(node, cst.Name)):
                for put_in in ("stored", "contents", "items"):
                    self.link((put_in, binding), parent, Way.INTO)
        elif isinstance(parent, cst.Subscript) and node is parent.value and _is_slice(parent):
            way = Way.WHOLE
        if way is not None:
            self.link(node, parent, way)

    def _repeating(self, iterated: cst.BaseExpression) -> Way:
        """How a comprehension depends on what it goes through: on how many there are, which `range` is given."""
        is_range = isinstance(iterated, cst.Call) and self._is(iterated, "builtins.range")
        return Way.USED if is_range else self._by_size(iterated)

    def _by_size(self, node: cst.BaseExpression) -> Way:
        """How the size of the value depends on it."""
        return Way.SIZE if self._collects(node) else Way.LENGTH

    def _collects(self, node: cst.BaseExpression) -> bool:
        """Whether the value is seen to be written out, or to begin empty: what numbers it holds tells not how many."""
        if isinstance(node, (cst.List, cst.Tuple, cst.Dict, cst.Set)):
            return True
        if isinstance(node, cst.Subscript):  # one of several
            return self._collects(node.value)
        if isinstance(node, cst.Call):
            return any(self._is(node, path) for path in _COLLECTIONS if not node.args or path == _OF_COLLECTIONS)
        bindings: list[Binding] = []
        if isinstance(node, cst.Name):
            bindings = self.bindings_of(node)
        elif isinstance(node, cst.Attribute):
            bindings = self._attribute_bindings(node)
        values = [
            part_at(b.value, b.path) for b in bindings if b.kind in ("assign", "augmented") and b.value is not None
        ]
        written = [value for value in values if isinstance(value, _WRITTEN) and self._collects(value)]
        return bool(bindings) and len(written) == len(bindings)

    @cached_property
    def _attributes_read(self) -> set[str]:
        return {node.attr.value for node in self.tree.all_of(cst.Attribute)}

    def _items_of_tuples(self, node: cst.Subscript) -> list[cst.CSTNode]:
        """What `acc[1]` takes out of each of the tuples that the name is given; nothing where another value may be."""
        place = node.slice[0].slice if len(node.slice) == 1 else None
        index = place.value if isinstance(place, cst.Index) else None
        if not isinstance(node.value, cst.Name) or not isinstance(index, cst.Integer):
            return []
        found = []
        for binding in self.bindings_of(node.value):
            display = part_at(binding.value, binding.path) if binding.kind == "assign" and binding.value else None
            part = part_at(display, (int(index.value),)) if isinstance(display, cst.Tuple) else None
            if part is None:
                return []
            found.append(part)
        return found

    # -- names and attributes --------------------------------------------------------------------------------------

    def bindings_of(self, name: cst.Name) -> list[Binding]:
        """All bindings that the name may have its value from, those of other functions (`global`) among them."""
        found = dict.fromkeys(self.resolver.reaching(name))
        scope = self.tree.scope_of(name).lookup(name.value)
        if scope is not None:
            home = scope.node if isinstance(scope.node, cst.FunctionDef) else None
            for binding in scope.bindings[name.value]:
                if binding.target is not None and self.tree.function_of(binding.node) is not home:
                    found.setdefault(binding)
        return list(found)

    def _link_name(self, node: cst.Name) -> None:
        if not self.tree.is_read(node) or isinstance(self.tree.parent.get(node), (cst.Global, cst.Nonlocal)):
            return
        bindings = self.bindings_of(node)
        for binding in bindings:
            self.link(binding, node)
        if not bindings:  # `globals()["best"] = loss`
            for name in (node.value, None):
                self.link(("global", name), node)
        self._link_items(node, bindings)
        self._link_object(node)

    def _link_items(self, node: cst.Name | cst.Attribute, holders: Iterable[Key]) -> None:
        """`state["train"]["loss"]` gets what was put there, into `state["train"]` and into `state`; a dictionary as a
        whole what was put anywhere in it. What was put in elsewhere comes to all reads, also where what the name was
        given first is settled: averaged gradients."""
        taken = self._taken_out(node)
        for holder in holders:
            for put_in in (("stored", holder), ("contents", holder)):
                self.link(put_in, node, Way.INTO)
            self.link(("keys", holder), node)
            for path in self._items_of.get(holder, ()):
                for part, way in _meeting(path, node, taken):
                    self.link(("item", holder, path), part, way)

    def _taken_out(self, node: cst.BaseExpression) -> list[tuple[str | None, cst.Subscript]]:
        """What is taken out of the value step by step: each time the key, where it is a text, and the item."""
        found = []
        parent = self.tree.parent.get(node)
        while isinstance(parent, cst.Subscript) and parent.value is node and not _is_slice(parent):
            found.append((_constant_key(parent), parent))
            node, parent = parent, self.tree.parent.get(parent)
        return found

    def _link_attribute(self, node: cst.Attribute) -> None:
        name = node.attr.value
        if name in _AGREED_ATTRIBUTES or isinstance(self.tree.parent.get(node), cst.AssignTarget):
            return
        if name in _RANKS and _is_shape(node.value):
            return
        owners = self.resolver.values(node.value)
        bindings = self._attribute_bindings(node)
        is_own = bool(owners) and all(isinstance(v, (Object, File)) for v in owners)
        if not (is_own and self._is_seen(owners)):
            self.link(node.value, node, self._by_size(node.value) if name in _SIZES else Way.USED)
        for binding in bindings:
            self.link(binding, node)
        self.link(("attribute", name), node)
        for owner in owners:
            if isinstance(owner, Object):
                self.link(("changed", owner.of.node), node, Way.USED)
        self._link_items(node, [*bindings, ("attribute", name)])
        parent = self.tree.parent.get(node)
        if not (isinstance(parent, cst.Call) and parent.func is node):
            for owner in owners:
                method = self.resolver.method(owner.of, name) if isinstance(owner, Object) else None
                if method is not None:  # a property, in one way or another
                    self._link_returned(method, node)
            self._link_object(node)

    def _is_seen(self, owners: Iterable[Value]) -> bool:
        """Whether the attributes of these objects come from assignments alone: no dataclass, no named tuple."""
        return all(not isinstance(v, Object) or self.resolver.method(v.of, "__init__") is not None for v in owners)

    def _attribute_bindings(self, node: cst.Attribute) -> list[Binding]:
        """Where the attribute gets its value; by its name alone where it is not seen whose it is."""
        owners = self.resolver.values(node.value)
        name = node.attr.value
        if owners and all(isinstance(v, (Object, File, External)) for v in owners):
            found = dict.fromkeys(self.resolver.bindings_of(node))
            for owner in owners:
                for cls in self.resolver.lineage(owner.of) if isinstance(owner, Object) else ():
                    found.update(dict.fromkeys(self.tree.scopes[cls.node].bindings.get(name, ())))
            # `Class.name = …` in some method, or of an object that is not seen
            for binding in self.tree.attributes.get(name, ()):
                target = cast(cst.Attribute, binding.target)
                targeted = self.resolver.values(target.value)
                if not targeted or any(isinstance(v, (Class, Parameter, Unknown, Element)) for v in targeted):
                    found.setdefault(binding)
            return list(found)
        if any(isinstance(v, Class) for v in owners):
            classes = [v.node for v in owners if isinstance(v, Class)]
            inside = [b for c in classes for b in self.tree.scopes[c].bindings.get(name, ())]
            return [*inside, *self.tree.attributes.get(name, ())]
        return list(self.tree.attributes.get(name, ()))

    def _link_object(self, node: cst.Name | cst.Attribute | cst.Call) -> None:
        """An object that is used as a whole is all that its attributes and special methods give."""
        parent = self.tree.parent.get(node)
        if isinstance(parent, cst.Attribute) or (isinstance(parent, cst.Call) and parent.func is node):
            return
        for value in self.resolver.values(node):
            if isinstance(value, Object) and not self.kinds.has_weights(value) and not self._is_of_keras(value):
                self.link(("object", value.of.node), node, Way.INTO)
                self.link(("changed", value.of.node), node, Way.INTO)
                for name in _SPECIAL:
                    method = self.resolver.method(value.of, name)
                    if method is not None:
                        self._link_returned(method, node)

    def _is_of_keras(self, value: Object) -> bool:
        return self.resolver.derives_from(value.of, lambda path: path.startswith(("keras.", "tensorflow.")))

    # -- bindings ------------------------------------------------------------------------------------------------

    def _link_binding(self, binding: Binding) -> None:
        value = binding.value
        if binding.kind == "param":
            self._link_parameter(binding, cast(cst.Param, binding.node))
        elif binding.kind == "for" and value is not None:
            iterated, path = self._iteration.narrowed(value, binding.path)
            parts = self._iteration.written(iterated, path)
            for part in parts:
                self.link(part, binding)
            if parts:
                return
            counts = self.kinds.numbers_turns(iterated, path)
            keys = isinstance(iterated, cst.Call) and self._lists_keys(iterated, path)
            self.link(iterated, binding, Way.SIZE if counts or keys else Way.USED)
        elif binding.kind in ("assign", "with", "augmented") and value is not None:
            self._link_assigned(binding, value)
        elif binding.kind == "other":
            self._link_other(binding)
        if isinstance(binding.target, cst.Attribute):
            for method, operands in self.indirect.sets(binding.target, binding.target):
                for operand in operands:
                    self.link(binding if operand is binding.target else operand, ("handed to", method))
            for owner in self.resolver.values(binding.target.value):
                if isinstance(owner, Object):
                    for cls in self.resolver.lineage(owner.of):
                        self.link(binding, ("object", cls.node))

    def _link_assigned(self, binding: Binding, value: cst.CSTNode) -> None:
        if binding.path and binding.path[0] != 0 and _is_shape(value):
            return  # `_, length = tokens.shape`: the size of another axis than that of the samples
        parts = [part_at(value, binding.path)]
        functions: list[cst.CSTNode] = []
        if parts == [None] and isinstance(value, cst.Call):
            functions = self._script_functions(value)
            if functions:
                parts = [part_at(r, binding.path) for f in functions for r in self.returned(f)]
        if parts and None not in parts and binding.path:
            for part in parts:
                self.link(part, binding)
            for function in functions:
                self.link(("returns", function), binding, Way.CHOICE)
            return
        self.link(value, binding, Way.USED if binding.path else Way.WHOLE)
        if binding.kind == "augmented" and isinstance(binding.target, cst.Name):
            for before in self.bindings_of(binding.target):
                self.link(before, binding)

    def _link_parameter(self, binding: Binding, param: cst.Param) -> None:
        function = self.resolver.function_of_parameter(param)
        every = (*function.params.posonly_params, *function.params.params)
        for given in self.resolver.given(param):
            self.link(given, binding)
        if not (self.resolver.owner_class(function) is not None and param is (*every, param)[0]):
            self.link(("handed to", function), binding)  # but the object that a method is of
        rest = param in (function.params.star_arg, function.params.star_kwarg)
        for call in self.resolver.callers(function):
            if any(self.tree.contains(call, given) for given in self.resolver.arguments(param, function, [call])):
                continue  # `step(params, *batch)`: the batch is for other parameters
            for arg in call.args:
                if arg.star or rest:
                    self.link(arg, binding, Way.INTO if rest else Way.USED)

    def _link_other(self, binding: Binding) -> None:
        """`*rest` of an assignment, what an `except` catches, what a pattern of a `match` takes out of its subject."""
        for owner in (binding.node, *self.tree.ancestors(binding.node)):
            if isinstance(owner, cst.ExceptHandler):
                self.link(("raised",), binding, Way.USED)
                return
            if isinstance(owner, cst.Match):
                self.link(owner.subject, binding, Way.USED)
                return
            source = getattr(owner, "value", None) or getattr(owner, "iter", None)
            if isinstance(source, cst.BaseExpression):
                self.link(source, binding, Way.WHOLE)
                return

    def _lists_keys(self, call: cst.Call, path: tuple[int, ...]) -> bool:
        name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        return name == "keys" or (name == "items" and path[:1] == (0,))

    # -- what containers are given -------------------------------------------------------------------------------

    def _link_item(self, target: cst.Subscript, value: cst.BaseExpression) -> None:
        key = _constant_key(target)
        is_dict = any(map(_is_dictionary, self.resolver.values(target.value)))
        for item in self.items(target):
            self.link(value, item, Way.WHOLE if key is not None else Way.INTO)
            for part in target.slice if key is None else ():
                self.link(part, ("keys", item[1]) if is_dict else item, Way.USED)
        for name in [key] if key is not None else self._attributes_read:
            if _holds_attributes(target.value):
                self.link(value, ("attribute", name))
        self._link_to_names(target.value, key, value)
        for method, operands in self.indirect.stores(target, value):
            for operand in operands:
                self.link(operand, ("handed to", method))

    def _link_deleted(self, target: cst.BaseExpression) -> None:
        """`del losses[worst]`"""
        if isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._link_deleted(element.value)
        elif isinstance(target, cst.Subscript):
            for key in self.deleted_from(target):
                for part in target.slice:
                    self.link(part, key, Way.CHOICE)

    def deleted_from(self, target: cst.BaseExpression) -> Iterator[Key]:
        """What containers hold that `del` takes something out of."""
        if isinstance(target, cst.Subscript):
            yield from (("keys", holder) for holder, _ in self.holders(target.value, (None,)))

    def _link_to_names(self, holder: cst.CSTNode, name: str | None, value: cst.CSTNode) -> None:
        """`globals()["best"] = loss`"""
        if self._is_namespace(holder):
            self.link(value, ("global", name))
            self.link(("global", name), ("globals",), Way.INTO)
            for binding in self._bound_in_namespace(holder, name):
                self.link(value, binding)

    def items(self, target: cst.Subscript) -> list[tuple[object, ...]]:
        """What an assignment to `target` changes: that item of a dictionary, or the container."""
        found = self._items_at.get(target)
        if found is None:
            key = _constant_key(target)
            holders = self.holders(target.value, (key,))
            found = [("stored", holder) if key is None else ("item", holder, path) for holder, path in holders]
            found = self._items_at[target] = list(dict.fromkeys(found))
        return found

    @cached_property
    def _items_of(self) -> dict[Key, list[Path]]:
        """By holder the places inside it to which the script assigns."""
        found: dict[Key, dict[Path, None]] = defaultdict(dict)
        for target, _ in self.tree.item_assignments:
            for item in self.items(target):
                if item[0] == "item":
                    found[cast(Key, item[1])][cast(Path, item[2])] = None
        return {holder: list(paths) for holder, paths in found.items()}

    def _cells(self, holder: Key) -> list[Key]:
        return [("item", holder, path) for path in self._items_of.get(holder, ())]

    def holders(self, node: cst.CSTNode, path: Path) -> list[tuple[Key, Path]]:
        """All through which an item of the value that is changed in place may be read again: names, attributes, what
        they are made of, and the parameters' arguments; each with the keys that lead from there to the item."""
        found: dict[tuple[Key, Path], None] = {}
        queue, seen = [(node, path)], defaultdict[Binding, set[Path]](set)
        while queue and len(seen) < _MOST_HOLDERS:
            bindings, others = self._named_in(*queue.pop())
            found.update(dict.fromkeys(others))
            for binding, inside in bindings:
                inside = inside if len(seen[binding]) < _MOST_PATHS else _anywhere(inside)
                if inside not in seen[binding]:
                    seen[binding].add(inside)
                    found[binding, inside] = None
                    queue += self._made_from(binding, inside)
        return list(found)

    def contents(self, node: cst.CSTNode) -> list[Key]:
        """Where what is put into the value goes, from which it comes to all holders."""
        bindings, others = self._named_in(node, (None,))
        found: list[Key] = [*(key for key, _ in others), *(("contents", binding) for binding, _ in bindings)]
        while bindings:
            binding, path = bindings.pop()
            path = path if len(path) == 1 else _anywhere(path)
            if (binding, len(path) == 1) in self._with_contents:
                continue
            self._with_contents.add((binding, len(path) == 1))
            self.link(("contents", binding), binding)
            for part, inside in self._made_from(binding, path):
                inner, outside = self._named_in(part, inside)
                for key in (*(key for key, _ in outside), *(("contents", b) for b, _ in inner)):
                    self.link(("contents", binding), key)
                bindings += inner
        return list(dict.fromkeys(found))

    def _made_from(self, binding: Binding, path: Path) -> list[tuple[cst.CSTNode, Path]]:
        """What the binding has its value from, and how the item is found there that `path` leads to."""
        if binding.kind == "param":
            param = cast(cst.Param, binding.node)
            function = self.resolver.function_of_parameter(param)
            given = [(node, path) for node in self.resolver.given(param)]
            return [*given, *((node, _anywhere(path)) for node in self.indirect.given_to(function))]
        if binding.value is None:
            return []
        if binding.kind == "for":
            return [(binding.value, _anywhere(path) if binding.path else (None, *path))]
        part = part_at(binding.value, binding.path)
        return [(binding.value, _anywhere(path)) if part is None else (part, path)]

    def _named_in(self, node: cst.CSTNode, path: Path) -> tuple[list[tuple[Binding, Path]], list[tuple[Key, Path]]]:
        """The bindings of the names and attributes that the value may be, or be a part of, and their attributes and
        objects; each with the keys that lead from there to the item to which `path` leads from the value."""
        bindings: dict[tuple[Binding, Path], None] = {}
        others: dict[tuple[Key, Path], None] = {}
        queue: list[tuple[cst.CSTNode, Path]] = [(node, path)]
        seen: set[tuple[cst.CSTNode, Path]] = set()
        while queue:
            part, path = queue.pop()
            path = path if len(path) <= _MOST_PATHS else _anywhere(path)
            if (part, path) in seen or self._is_fixed(part):
                continue
            seen.add((part, path))
            named: Iterable[Binding] = ()
            if isinstance(part, cst.Name):
                named = self.bindings_of(part)
                objects = [v for v in self.resolver.values(part) if isinstance(v, Object)]
                others.update(dict.fromkeys((("changed", v.of.node), path) for v in objects))
            elif isinstance(part, cst.Attribute):
                others[("attribute", part.attr.value), path] = None
                named = self._attribute_bindings(part)
            elif isinstance(part, cst.Call):
                queue += self._handed_back(part, path)
                others.update(dict.fromkeys((("changed", cls.node), path) for cls in self._behind_super(part)))
                name = self._attribute_asked_for(part)
                if name is not None:
                    others[("attribute", name), path] = None
                    named = self.tree.attributes.get(name, ())
            elif isinstance(part, cst.Subscript):
                key = _constant_key(part)
                queue.append((part.value, path if _is_slice(part) else (key, *path)))
                if key is not None and _holds_attributes(part.value):  # `vars(state)["best"]`
                    others[("attribute", key), path] = None
                    named = self.tree.attributes.get(key, ())
                elif self._is_namespace(part.value):
                    named = self._bound_in_namespace(part.value, key)
            else:
                queue += _parts_with(part, path)
            bindings.update(dict.fromkeys((b, path) for b in named if b.kind not in ("import", "def", "class")))
            for holder in (*named, *((("attribute", part.attr.value),) if isinstance(part, cst.Attribute) else ())):
                for keys, value in self._put_into.get(holder, ()):
                    inside = _behind(keys, path)
                    if inside is not None and (keys or len(path) > 1):  # what is joined to it is a copy
                        queue.append((value, inside))
        return list(bindings), list(others)

    @cached_property
    def _put_into(self) -> dict[Key, list[tuple[Path, cst.CSTNode]]]:
        """By the name or attribute that holds the container what is put into it, under which keys: what is changed
        there in place is changed under the names that it has besides."""
        found: dict[Key, list[tuple[Path, cst.CSTNode]]] = defaultdict(list)
        puts: list[tuple[cst.BaseExpression, Path, cst.CSTNode]] = []
        puts += [(target.value, (_constant_key(target),), value) for target, value in self.tree.item_assignments]
        for call in self.tree.calls:
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in COLLECTING:
                for arg in call.args:
                    puts.append((call.func.value, () if call.func.attr.value in _JOINING else (None,), arg.value))
        for container, keys, value in puts:
            while isinstance(container, cst.Subscript):
                container, keys = container.value, (_constant_key(container), *keys)
            if isinstance(value, (cst.BaseNumber, cst.BaseString)) or self._is_fixed(value):
                continue
            if isinstance(container, cst.Name):
                for binding in self.bindings_of(container):
                    found[binding].append((keys, value))
            elif isinstance(container, cst.Attribute):
                found["attribute", container.attr.value].append((keys, value))
        return found

    def _is_namespace(self, node: cst.CSTNode) -> bool:
        return isinstance(node, cst.Call) and not node.args and any(self._is(node, path) for path in _NAMESPACES)

    def _bound_in_namespace(self, namespace: cst.CSTNode, name: str | None) -> list[Binding]:
        """What `globals()["best"]` may be, or, where the name is not seen, what is anywhere in there."""
        scopes = dict.fromkeys((self.tree.scopes[self.tree.module_of(namespace)], self.tree.scope_of(namespace)))
        return [b for s in scopes for n in ([name] if name is not None else s.bindings) for b in s.bindings.get(n, ())]

    def _link_namespace(self, call: cst.Call) -> None:
        """What is read by `globals()["best"]`"""
        taken = self._taken_out(call)
        name, reader = taken[0] if taken else (None, call)
        for key in (("global", name), ("global", None)) if name is not None else (("globals",),):
            self.link(key, reader, Way.WHOLE if name is not None else Way.INTO)
        for binding in self._bound_in_namespace(call, name):
            if binding.kind not in ("import", "def", "class"):
                self.link(binding, reader, Way.WHOLE if name is not None else Way.INTO)

    def _attribute_asked_for(self, call: cst.Call) -> str | None:
        """`getattr(state, "best")`"""
        if len(call.args) < 2 or not isinstance(call.args[1].value, cst.SimpleString):
            return None
        return str(call.args[1].value.evaluated_value) if self._is(call, "builtins.getattr") else None

    def _behind_super(self, call: cst.Call) -> Iterator[Class]:
        """The classes whose object `super()` is, where that is a container of the script's: `class Log(list)`."""
        function = self.tree.function_of(call) if self._is(call, "builtins.super") else None
        node = self.tree.class_of(function) if isinstance(function, cst.FunctionDef) else None
        if node is not None and not self._is_of_keras(Object(Class(node))):
            yield Class(node)
            yield from self.indirect.subclasses(Class(node))

    def _is_fixed(self, node: cst.CSTNode) -> bool:
        """Whether the expression is a dataset, which nothing changes."""
        values = self.resolver.values(node) if isinstance(node, (cst.Name, cst.Attribute, cst.Call)) else ()
        return bool(values) and all(map(self.kinds.is_dataset, values))

    def _handed_back(self, call: cst.Call, path: Path) -> Iterator[tuple[cst.CSTNode, Path]]:
        """What a call may give back as it is, and no copy of it: `logs.setdefault("loss", [])`, `next(iterator)`; with
        the keys that lead from there to the item to which `path` leads from the result."""
        functions = self._script_functions(call)
        for function in functions:
            returned = [function.body] if isinstance(function, cst.Lambda) else self.returned(function)
            yield from ((node, path) for node in returned)
            yield from ((node, _anywhere(path)) for node in self.yields.get(function, ()))
        values = self.resolver.values(call.func)
        makes = [
            v for v in values if isinstance(v, (Class, Result)) or (isinstance(v, External) and _makes_new(v.path))
        ]
        if functions or (values and len(makes) == len(values)):
            paths = {v.path for v in values if isinstance(v, External)}
            for arg in call.args:
                if paths & _PICKING:
                    yield arg.value, _anywhere(path)
                elif paths & _COPYING and arg.keyword is None:
                    yield from ((arg.value, inside) for inside in [path] if len(path) > 1)
                elif paths & _COPYING and arg.keyword is not None:
                    inside = _behind((arg.keyword.value,), path)
                    yield from ((arg.value, keys) for keys in [inside] if keys is not None)
            return
        if not (values and all(_is_of_framework(v) for v in values)):
            yield from ((arg.value, _anywhere(path)) for arg in call.args)
        if isinstance(call.func, cst.Attribute):
            yield call.func.value, _of_method(call, path)

    # -- calls ---------------------------------------------------------------------------------------------------

    def _link_call(self, call: cst.Call) -> None:
        values = self.resolver.values(call.func)
        paths = {v.path for v in values if isinstance(v, External)}
        if any(map(_is_agreed, paths)) or any(map(self.kinds.has_weights, self.resolver.values(call))):
            return
        if paths == {"builtins.len"} and len(call.args) == 1 and _is_shape(call.args[0].value):
            return  # the number of its axes
        functions = self._script_functions(call)
        for function in functions:
            self._link_returned(function, call)
        self._link_wrappers(call)
        self._link_object(call)
        if self._is_namespace(call):
            self._link_namespace(call)
        name = self._attribute_asked_for(call)
        if name is not None:
            for source in (*self.tree.attributes.get(name, ()), ("attribute", name)):
                self.link(source, call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "update":
            for arg in call.args:
                self._link_to_names(call.func.value, arg.keyword.value if arg.keyword is not None else None, arg)
        if _sets_attributes(call):
            for arg in call.args:  # by position: whichever attributes
                for name in [arg.keyword.value] if arg.keyword is not None else self._attributes_read:
                    self.link(arg, ("attribute", name))
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("__setattr__", "__setitem__"):
            for arg in call.args:
                for name in self._attributes_read:
                    self.link(arg, ("attribute", name))
        constructed = [v for v in values if isinstance(v, Class)]
        if values and all(isinstance(v, (Function, Object)) for v in values):
            return
        if constructed and self._is_seen([Object(c) for c in constructed]):
            return
        if paths == {"builtins.len"} and self._counts_parts(call):
            return
        way = Way.INTO if constructed else Way.USED
        if paths & _SEQUENCES:
            way = Way.WHOLE
        for arg in call.args:
            self.link(arg, call, self._by_size(arg.value) if paths & _SIZE_CALLS else way)
        self.link(call.func, call, way)
        if isinstance(call.func, cst.Attribute):
            self.link(call.func.value, call.func, Way.USED)
        self._link_handed_functions(call)
        self._link_changed(call, values)

    def _counts_parts(self, call: cst.Call) -> bool:
        """`len(data)` in a model's step: of a tuple, since tensors have no length in the graph that `fit` makes."""
        function = self.tree.function_of(call)
        cls = self.tree.class_of(function) if isinstance(function, cst.FunctionDef) else None
        if function is None or cls is None or not self.kinds.is_keras_model_class(Class(cls)) or len(call.args) != 1:
            return False
        value = call.args[0].value
        bindings = self.bindings_of(value) if isinstance(value, cst.Name) else []
        return function.name.value in _STEPS and bool(bindings) and all(b.kind == "param" for b in bindings)

    def _link_returned(self, function: cst.CSTNode, target: Key) -> None:
        if isinstance(function, cst.Lambda):
            self.link(function.body, target)
        elif isinstance(function, cst.FunctionDef):
            for returned in self.returned(function):
                self.link(returned, target)
            for given in self.yields.get(function, ()):
                self.link(given, target, Way.INTO)
        self.link(("returns", function), target, Way.CHOICE)

    def returned(self, function: cst.CSTNode) -> list[cst.BaseExpression]:
        return self.resolver.returned_by_itself(function) if isinstance(function, cst.FunctionDef) else []

    @cached_property
    def yields(self) -> dict[cst.CSTNode, list[cst.CSTNode]]:
        """What the generators of the script give, by function."""
        found: dict[cst.CSTNode, list[cst.CSTNode]] = defaultdict(list)
        for node in self.tree.all_of(cst.Yield):
            function = self.tree.function_of(node)
            if function is not None and node.value is not None:
                found[function].append(node.value)
        return found

    def _script_functions(self, call: cst.Call) -> list[cst.CSTNode]:
        """The functions of the script that the call runs for what they return."""
        found: dict[cst.CSTNode, None] = {}
        for value in self.resolver.values(call.func):
            if isinstance(value, Function):
                found[value.node] = None
            elif isinstance(value, Object):
                for name in ("__call__", "call"):
                    method = self.resolver.method(value.of, name)
                    if method is not None:
                        found[method] = None
                        break
            elif isinstance(value, (Parameter, Unknown, Element)) or _is_member_of_unknown(value):
                found.update(dict.fromkeys(self._methods_named(call)))
        for function in self._functions_run.get(call, ()):
            if function.name.value != "__init__":
                found.setdefault(function)
        return list(found)

    @cached_property
    def _functions_run(self) -> dict[cst.Call, list[cst.FunctionDef]]:
        found: dict[cst.Call, list[cst.FunctionDef]] = defaultdict(list)
        for function in self.tree.functions:
            for call in self.resolver.callers(function):
                found[call].append(function)
        return found

    def run_by(self, call: cst.Call) -> list[cst.FunctionDef]:
        return self._functions_run.get(call, [])

    def _methods_named(self, call: cst.Call) -> list[cst.FunctionDef]:
        """The methods of the script that a call on an object that is not seen may run."""
        if not isinstance(call.func, cst.Attribute):
            return []
        return list(self._methods.get(call.func.attr.value, ()))

    @cached_property
    def _methods(self) -> dict[str, list[cst.FunctionDef]]:
        found: dict[str, list[cst.FunctionDef]] = defaultdict(list)
        for function in self.tree.functions:
            if self.tree.class_of(function) is not None:
                found[function.name.value].append(function)
        return found

    def _link_handed_functions(self, call: cst.Call) -> None:
        """Functions that are handed to a call run with what else it is given; so does any that the script has stored or
        handed on where it is not seen what is called."""
        functions, given = self.indirect.handed(call)
        for function in functions:
            self._link_returned(function, call)
            for node in given:
                self.link(node, ("handed to", function), Way.USED)

    def _link_wrappers(self, call: cst.Call) -> None:
        """The functions that decorators have put in the place of the one that is called get what it is given."""
        for function in self.indirect.wrappers_run_by(call):
            self._link_returned(function, call)
            for arg in call.args:
                self.link(arg, ("handed to", function), Way.USED)

    def _link_operators(self, node: cst.CSTNode) -> None:
        for method, operands in self.indirect.operators(node):
            for operand in operands:
                self.link(operand, ("handed to", method))
            if not isinstance(node, cst.AugAssign):
                self._link_returned(method, node)

    def _link_changed(self, call: cst.Call, values: Iterable[Value]) -> None:
        """What the call may put into its receiver and into what else it is given."""
        given = list(call.args)
        paths = [v.path for v in values if isinstance(v, External)]
        for holder in self.changed_by(call) if given else ():
            method = self._method(call)
            name = method.attr.value if method is not None else ""
            for arg in given:
                joined = (name in _JOINING and arg.keyword is None) or (name == "setdefault" and arg is given[0])
                self.link(arg, holder, Way.WHOLE if joined else Way.INTO if name in COLLECTING else Way.USED)
        for library in {path.rpartition(".")[0] for path in paths if is_drawn_from_common(path)}:
            # How many numbers were drawn tells which ones come next.
            for arg in given:
                self.link(arg, ("drawn", library), Way.USED)
            self.link(("drawn", library), call, Way.USED)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "sort":
            self.link(call.func.value, ("order", call), Way.USED)
            for holder in self.contents(call.func.value):
                self.link(("order", call), holder, Way.INTO)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "send":
            for arg in given:
                self.link(arg, ("sent",))  # to a generator
        for container in self.indirect.put_by(call):
            for holder in self.contents(container):
                for part in self.indirect.given_by(call):
                    if part is not container:
                        self.link(part, holder, Way.INTO)
        for changed in self._filled(call, paths) if len(given) > 1 else ():
            for holder in self.contents(changed.value):
                for arg in given:
                    if arg is not changed:
                        self.link(arg, holder, Way.INTO)

    def _filled(self, call: cst.Call, paths: Iterable[str]) -> list[cst.Arg]:
        """The arguments that the call may put others into: `np.put(losses, …)`, `out=`, all where nobody knows it."""
        if any(path in _FILLING or path.startswith(_FILLING_PREFIXES) or _IN_PLACE.match(path) for path in paths):
            return list(call.args[:1])
        if any(path in _DUMPING for path in paths):
            return list(call.args[1:2])
        values = self.resolver.values(call.func)
        known = [calls(v) if isinstance(v, Result) else v.path for v in values if isinstance(v, (External, Result))]
        known = [path for path in known if f"{path}.".startswith(_PURE)]
        methods = [v for v in values if isinstance(v, Member) and not _is_member_of_unknown(v)]
        if values and len(known) + len(methods) + len([v for v in values if isinstance(v, Class)]) >= len(values):
            return [arg for arg in call.args if arg.keyword is not None and arg.keyword.value in _WRITING_INTO]
        return [arg for arg in call.args if not isinstance(arg.value, (cst.BaseString, cst.BaseNumber))]

    def changed_by(self, call: cst.Call) -> list[Key]:
        """What a method of an object that the script does not define may change: the object it is called on; a metric
        that is called is its own method."""
        values = self.resolver.values(call.func)
        if any(calls(v).startswith("keras.metrics.") for v in values):
            return self.contents(call.func)
        method = self._method(call)
        if method is None or (values and not any(isinstance(v, Member) for v in values)):
            return []
        if values and all(isinstance(v, Member) and not self._keeps(v.owner) for v in values):
            return []
        return self.contents(method.value)

    def _method(self, call: cst.Call) -> cst.Attribute | None:
        """The method that is called, by a name of its own, too: `add = losses.append; add(loss)`."""
        if isinstance(call.func, cst.Attribute) or not isinstance(call.func, cst.Name):
            return call.func if isinstance(call.func, cst.Attribute) else None
        bound = [b.value for b in self.bindings_of(call.func) if not b.path]
        return bound[0] if len(bound) == 1 and isinstance(bound[0], cst.Attribute) else None

    def _keeps(self, owner: Value) -> bool:
        """Whether a method may store its arguments in this object, for the script to read them from it again; models,
        optimizers and tapes have walks of their own."""
        if isinstance(owner, (External, File)) or self.kinds.has_weights(owner) or self.kinds.is_optimizer(owner):
            return False
        path = calls(owner)
        return not path.startswith(("tensorflow.", "keras.")) or path.startswith(_KEEPING)

    def _is(self, call: cst.Call, path: str) -> bool:
        return External(path) in self.resolver.values(call.func)


def _anywhere(path: Path) -> Path:
    """That the item is found somewhere inside, under its own key."""
    return (..., path[-1])


def _behind(keys: Path, path: Path) -> Path | None:
    """How the item to which `path` leads is found from what stands under the keys; None where it is not there."""
    while keys:
        if path[0] is ...:
            return path
        if len(path) == 1 or (None not in (keys[0], path[0]) and keys[0] != path[0]):
            return None
        keys, path = keys[1:], path[1:]
    return path


def _parts_with(node: cst.CSTNode, path: Path) -> Iterator[tuple[cst.CSTNode, Path]]:
    """The parts of the expression that hold the item to which `path` leads, and how it is found there."""
    inside = _behind((None,), path)
    if isinstance(node, (cst.List, cst.Tuple, cst.Set)):
        for element in node.elements:
            keys = path if isinstance(element, cst.StarredElement) else inside
            yield from ((element.value, part) for part in [keys] if part is not None)
    elif isinstance(node, cst.Dict):
        for item in node.elements:
            key = item.key if isinstance(item, cst.DictElement) else None
            keys = (str(key.evaluated_value),) if isinstance(key, cst.SimpleString) else (None,)
            under = _behind(keys, path) if isinstance(item, cst.DictElement) else path
            yield from ((item.value, part) for part in [under] if part is not None)
    elif isinstance(node, _COMPREHENSIONS):
        made = node.value if isinstance(node, cst.DictComp) else node.elt
        yield from ((made, part) for part in [inside] if part is not None)
    elif isinstance(node, cst.IfExp):
        yield from ((part, path) for part in (node.body, node.orelse))
    elif isinstance(node, (cst.BooleanOperation, cst.BinaryOperation)):
        yield from ((part, path) for part in (node.left, node.right))
    elif isinstance(node, cst.NamedExpr):
        yield node.value, path
    elif not isinstance(node, (cst.Lambda, cst.BaseString, cst.BaseNumber)):
        yield from ((part, _anywhere(path)) for part in semantic_children(node))


def _of_method(call: cst.Call, path: Path) -> Path:
    """How an item of what the method of a container gives is found in the container: `logs.get("train")`."""
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    if name in ("get", "setdefault", "pop", "__getitem__") and call.args:
        key = call.args[0].value
        return (str(key.evaluated_value) if isinstance(key, cst.SimpleString) else None, *path)
    return path if name in ("values", "copy") else _anywhere(path)


def _meeting(
    path: Path, node: cst.BaseExpression, taken: list[tuple[str | None, cst.Subscript]]
) -> Iterator[tuple[cst.CSTNode, Way]]:
    """What reads the item to which `path` leads from the node: the item itself, or what contains it."""
    for i, key in enumerate(path):
        if key is ...:
            for asked, part in taken[i:]:
                if None in (asked, path[-1]) or asked == path[-1]:
                    yield part, Way.WHOLE
            break
        if i == len(taken):
            break
        asked, part = taken[i]
        if None not in (asked, key) and asked != key:
            return
        if i == len(path) - 1:
            yield part, Way.WHOLE
            return
    yield taken[-1][1] if taken else node, Way.INTO


def _is_agreed(path: str) -> bool:
    """Calls whose result is the same on all workers, or, of the runtime and its kind, is meant to differ."""
    return (
        path in _KIND_CALLS
        or vocabulary.has_role(path, Role.REDUCE, Role.RANK, Role.BROADCAST, Role.SIZE)
        or path.endswith(("lockstep.all_gather", "lockstep.barrier"))
    )


def _is_of_framework(value: Value) -> bool:
    return isinstance(value, Member) and origin(value).startswith(("tensorflow.", "keras.", "numpy."))


def _is_member_of_unknown(value: Value) -> bool:
    while isinstance(value, Member):
        value = value.owner
    if isinstance(value, Element) and calls(value.of).startswith("matplotlib."):
        return False  # `figure, axes = plt.subplots()`
    return isinstance(value, (Parameter, Unknown, Element))


def _makes_new(path: str) -> bool:
    """Whether what the function gives is no part of what it is given."""
    return f"{path}.".startswith(_PURE) and path not in _HANDING_BACK


def _sets_attributes(call: cst.Call) -> bool:
    """`state.__dict__.update(last=loss)`, `vars(state).update(last=loss)`"""
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value != "update":
        return False
    return _holds_attributes(func.value)


def _holds_attributes(held: cst.BaseExpression) -> bool:
    """`state.__dict__`, `vars(state)`"""
    if isinstance(held, cst.Call):
        return isinstance(held.func, cst.Name) and held.func.value == "vars"
    return isinstance(held, cst.Attribute) and held.attr.value == "__dict__"


def _is_dictionary(value: Value) -> bool:
    if isinstance(value, Literal):
        return isinstance(value.node, (cst.Dict, cst.DictComp))
    return calls(value) == "builtins.dict" or calls(value).startswith("collections.")


def _asks_for_presence(node: cst.Comparison) -> bool:
    return all(
        isinstance(c.operator, (cst.Is, cst.IsNot))
        and isinstance(c.comparator, cst.Name)
        and c.comparator.value == "None"
        for c in node.comparisons
    )


def _is_slice(node: cst.Subscript) -> bool:
    return len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Slice)


def _is_shape(node: cst.CSTNode) -> bool:
    """`x.shape`, `tf.shape(x)`, `x.get_shape()`, `x.shape.as_list()`"""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        asked = node.func.attr.value
        if asked == "get_shape" or (asked == "as_list" and _is_shape(node.func.value)):
            return True
    return (isinstance(node, cst.Attribute) and node.attr.value == "shape") or (
        isinstance(node, cst.Call) and dotted(node.func).endswith(".shape")
    )


def _is_size_of_another_axis(node: cst.Subscript) -> bool:
    """`x.shape[1]`, of which the number of samples is no part."""
    if not _is_shape(node.value) or len(node.slice) != 1 or not isinstance(node.slice[0].slice, cst.Index):
        return False
    index = node.slice[0].slice.value
    return (isinstance(index, cst.Integer) and index.value != "0") or isinstance(index, cst.UnaryOperation)


def _constant_key(node: cst.CSTNode) -> str | None:
    """The text key of `state["best"]`."""
    if isinstance(node, cst.Subscript) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
        key = node.slice[0].slice.value
        if isinstance(key, cst.SimpleString):
            return str(key.evaluated_value)
    return None
