"""From an expression to what it may be: names, attributes, parameters and returns are followed to their origin.

The analysis takes the order of statements into account within a function, and every caller of a function
together. Whatever it cannot follow becomes a `Parameter` or `Unknown`, never a guess.
"""

from __future__ import annotations

import builtins
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, cast

import libcst as cst

from migrator.facts.names import api
from migrator.facts.names.starred import lends
from migrator.facts.objects.bindings import Names
from migrator.facts.objects.callgraph import CallGraph
from migrator.facts.objects.classes import Classes
from migrator.facts.objects.datasets import is_dataset
from migrator.facts.objects.decorated import Decorated
from migrator.facts.objects.values import (
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
    Values,
    calls,
    is_strategy,
)
from migrator.facts.program.modules import Modules, module_name
from migrator.facts.program.syntax import argument, dotted
from migrator.facts.program.tree import Binding, Tree

if TYPE_CHECKING:
    from migrator.facts.objects.contents import Contents

_PROPERTIES = (External("builtins.property"), External("functools.cached_property"))
_SUPER, _CHECKPOINT = External("builtins.super"), External("tensorflow.train.Checkpoint")
_BUILTINS = frozenset(dir(builtins))
_LITERALS = (
    cst.BaseString,
    cst.BaseNumber,
    cst.Tuple,
    cst.List,
    cst.Set,
    cst.Dict,
    cst.ListComp,
    cst.GeneratorExp,
    cst.DictComp,
    cst.SetComp,
)
# Of these, the most: told without asking for base classes, which libcst's make slow.
_PLAIN_LITERALS = frozenset({cst.SimpleString, cst.Integer, cst.Float, cst.Tuple, cst.List, cst.Dict})
# Nested calls deeper than this are generated code, not a training script; Python's own stack must not decide.
# Methods that give the elements of a list other places.
_REORDERING = frozenset({"sort", "reverse", "insert", "pop", "remove", "rotate"})
_MAX_DEPTH = 120
_MOST_VALUES = 32
# After so many evaluations a node every result is kept, even one that a cycle left incomplete: time must stay bounded.
_EVALUATIONS_A_NODE = 2


class Resolver:
    """Evaluates expressions of one program, each once."""

    def __init__(self, tree: Tree, modules: Modules) -> None:
        self.tree = tree
        self._modules = modules
        self._busy_imports: set[tuple[cst.Module, str]] = set()
        # By the ids of nodes, which are slow keys, with the node so that its id stays its own.
        self._memo: dict[int, tuple[cst.CSTNode, Values]] = {}
        self._busy: set[cst.CSTNode] = set()
        self._depth = 0
        self._cycles = 0
        self._evaluations = 0
        self._enough = _EVALUATIONS_A_NODE * len(tree.order)
        classes = self._classes = Classes(tree, self.values, self.binding_values, self._is_known)
        names = self._names = Names(tree, modules, classes, self.values)
        graph = self._graph = CallGraph(tree, classes, self.values, names.reaching)
        # What the parts know is asked of the resolver.
        self.bases, self.lineage, self.derives_from = classes.bases, classes.lineage, classes.derives_from
        self.method, self.methods_of = classes.method, classes.methods_of
        self.kin, self.subclasses = classes.kin, classes.heirs.subclasses
        self.attribute_bindings = classes.attribute_bindings
        self.reaching, self.reaching_at, self.bindings_of = names.reaching, names.reaching_at, names.bindings_of
        self.class_bindings_of, self.bound = names.class_bindings_of, names.bound
        self.variable, self.uses, self.reads_of = names.variable, names.uses, names.reads_of
        self.callers, self.given, self.arguments = graph.callers, graph.given, graph.arguments
        self.run_by_partials = graph.run_by_partials
        self.shares_in = graph.shares_in
        self.function_of_parameter, self.owner_class = graph.function_of_parameter, graph.owner_class
        self.is_first = graph.is_first
        self._decorated = Decorated(tree, classes, self.values, names.reaching)
        self.returned, self.returned_by_itself = self._decorated.returned, self._decorated.own
        self._find_calls()

    def imports_file(self, importer: cst.Module, name: str) -> bool:
        """Whether the dotted name, in an import of this file, means a file of the program."""
        return self._modules.named(importer, name) is not None

    def borrows_names(self, module: cst.Module) -> bool:
        """Whether the file has a `from … import *`."""
        return bool(self._names.starred.get(module))

    def _find_calls(self) -> None:
        """Finds for each function its calls, before anything else is asked: what a parameter is depends on them all."""
        unknown = self._graph.build(self.tree.calls)
        self._forget()
        if self._classes.heirs.hang_on_calls:
            unknown = self.tree.calls
        if unknown:  # functions that reach their caller as a parameter are seen only with the first graph at hand
            self._graph.build(unknown)
            self._forget()

    def _forget(self) -> None:
        self._memo.clear()
        self._classes.heirs.forget()

    # -- expressions ---------------------------------------------------------------------------------------------

    def values(self, node: cst.CSTNode | None) -> Values:
        """All that the expression may be; empty where it has no value or depends on itself alone."""
        if node is None:
            return ()
        known = self._memo.get(id(node))
        if known is not None:
            return known[1]
        if node in self._busy:
            self._cycles += 1
            return ()
        if self._depth > _MAX_DEPTH:
            return (Unknown(node),)
        cycles = self._cycles
        self._busy.add(node)
        self._depth += 1
        try:
            found = _unique(node, self._evaluate(node))
        finally:
            self._depth -= 1
            self._busy.discard(node)
        self._evaluations += 1
        if not self._busy or cycles == self._cycles or self._evaluations > self._enough:
            self._memo[id(node)] = (
                node,
                found,
            )  # what met a node still being worked out is complete only seen from there
        return found

    def _is_known(self, node: cst.CSTNode) -> bool:
        return id(node) in self._memo

    def public(self, node: cst.CSTNode | None) -> list[str]:
        """The public names that the expression may stand for (`tensorflow.reduce_mean`), beside whatever else."""
        return [value.path for value in self.values(node) if isinstance(value, External)]

    def public_alone(self, node: cst.CSTNode | None) -> list[str]:
        """The same of an expression that stands for nothing else; empty where it may."""
        values, names = self.values(node), self.public(node)
        return names if len(names) == len(values) else []

    def calls_one_of(self, call: cst.Call, paths: Collection[str]) -> bool:
        """Whether the call may be of one of these public functions."""
        return any(name in paths for name in self.public(call.func))

    def _evaluate(self, node: cst.CSTNode) -> Iterable[Value]:
        if type(node) is cst.Name:
            return self._name_values(node)
        if type(node) is cst.Attribute:
            bases = self.values(node.value)  # what may be None is something else where it is asked for an attribute
            others = [base for base in bases if base != External("builtins.None")]
            private = self._classes.private_method(node)
            if private is not None:
                return [v for base in others or bases for v in self._private_member(base, private)]
            return [v for base in others or bases for v in self.member(base, node.attr.value)]
        if type(node) is cst.Call:
            return [v for function in self.values(node.func) for v in self._call_values(function, node)]
        if type(node) in _PLAIN_LITERALS:
            return (Literal(cast(cst.BaseExpression, node)),)
        if isinstance(node, cst.IfExp):
            return (*self.values(node.body), *self.values(node.orelse))
        if isinstance(node, cst.BooleanOperation):
            return (*self.values(node.left), *self.values(node.right))
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide):
            paths = [v for v in self.values(node.left) if _is_path(v)]  # pathlib: folder / name
            return paths or (Unknown(node),)
        if isinstance(node, (cst.NamedExpr, cst.Await)):
            return self.values(node.value if isinstance(node, cst.NamedExpr) else node.expression)
        if isinstance(node, cst.Subscript):
            found = [v for base in self.values(node.value) for v in self._item_values(base, node)]
            return self._put_in(found, node)
        if isinstance(node, cst.Lambda):
            return (Function(node),)
        if isinstance(node, _LITERALS):
            return (Literal(cast(cst.BaseExpression, node)),)
        return (Unknown(node),)

    def _name_values(self, node: cst.Name) -> Iterable[Value]:
        scope = self.tree.scope_of(node).lookup(node.value)
        if scope is None:
            if node.value in _BUILTINS:
                return (External(f"builtins.{node.value}"),)
            return self._starred_values(self.tree.module_of(node), node.value) or (Unknown(node),)
        found = [v for binding in self.reaching(node) for v in self.binding_values(binding)]
        if node.value in self.tree.deleted and node.value in _BUILTINS:
            found.append(External(f"builtins.{node.value}"))
        return found

    def _starred_values(self, importer: cst.Module, name: str) -> list[Value]:
        """What the name may be by the file's `from … import *`: of other libraries, only the framework's lend names."""
        found: list[Value] = []
        for node in self._names.starred.get(importer, ()):
            module = self._modules.named(importer, module_name(node))
            if module is not None:
                # A file that has no such name lends none.
                found.extend(v for v in self._file_member(module, name) if v != Unknown(module))
            elif module_name(node).split(".")[0] in ("tensorflow", "keras", "tf_keras") and lends(
                module_name(node), name
            ):
                found.append(External(api.canonical(f"{module_name(node)}.{name}")))
        return found

    @cached_property
    def _contents(self) -> Contents:
        from migrator.facts.objects.contents import Contents

        return Contents(self.tree, self)

    def _put_in(self, found: list[Value], place: Binding | cst.Subscript) -> list[Value]:
        """What is found there of a container; where that tells nothing, the objects and functions that the script
        puts into it, if these are all."""
        if found and not any(isinstance(value, Element) for value in found):
            return found
        start = self._contents.bound(place) if isinstance(place, Binding) else self._contents.items(place)
        ends = self._contents.ends(start)
        held = [value for node in ends or () for value in self.values(node)]
        if any(isinstance(value, Function) and self.tree.function_of(value.node) is not None for value in held):
            return found  # what a closure runs depends on what it was made with
        return held if held and all(map(_is_known_object, held)) else found

    def _item_values(self, base: Value, node: cst.Subscript) -> Iterable[Value]:
        if isinstance(base, Literal) and len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
            index = node.slice[0].slice.value
            if isinstance(base.node, (cst.List, cst.Tuple)) and isinstance(index, cst.Integer):
                if self.is_reordered(base.node):
                    return self._members(base, ())
                return self.project(base.node, (int(index.value),))
            if isinstance(base.node, cst.Dict):
                return self._dict_values(base.node, index)
        return self._members(base, ())

    def is_reordered(self, display: cst.CSTNode) -> bool:
        """Whether the script may sort, or turn round, the list that is written out there."""
        statement = self.tree.parent.get(display) if isinstance(display, cst.List) else None
        targets = [t.target for t in statement.targets] if isinstance(statement, cst.Assign) else []
        return any(dotted(target) in self._reordered for target in targets)

    @cached_property
    def _reordered(self) -> set[str]:
        """How the lists are called that methods and functions put into another order."""
        found = set()
        for call in self.tree.calls:
            if isinstance(call.func, cst.Attribute) and call.func.attr.value in _REORDERING:
                found.add(dotted(call.func.value))
            if isinstance(call.func, cst.Attribute) and call.func.attr.value == "shuffle" and call.args:
                found.add(dotted(call.args[0].value))
        return found - {""}

    def _members(self, base: Value, path: tuple[int, ...]) -> Iterable[Value]:
        """What an element of the value may be, whichever it is, at that path of it."""
        if isinstance(base, Literal) and isinstance(base.node, (cst.Tuple, cst.List, cst.Set)):
            return [v for e in base.node.elements for v in self.project(e.value, path)]
        if isinstance(base, Literal) and isinstance(base.node, (cst.ListComp, cst.GeneratorExp, cst.SetComp)):
            return self.project(base.node.elt, path)
        return (_element(base, path),)

    def _dict_values(self, node: cst.Dict, index: cst.BaseExpression) -> Iterable[Value]:
        pairs = [e for e in node.elements if isinstance(e, cst.DictElement)]
        if isinstance(index, cst.SimpleString):
            same = [
                e
                for e in pairs
                if isinstance(e.key, cst.SimpleString) and e.key.evaluated_value == index.evaluated_value
            ]
            pairs = same or pairs
        return [v for e in pairs for v in self.values(e.value)]

    # -- bindings ------------------------------------------------------------------------------------------------

    def binding_values(self, binding: Binding) -> Values:
        if binding.kind in ("def", "class"):
            node = binding.node
            return (Function(node),) if isinstance(node, cst.FunctionDef) else (Class(cast(cst.ClassDef, node)),)
        if binding.kind == "import":
            return self._import_values(binding)
        if binding.kind == "param":
            return self._parameter_values(cast(cst.Param, binding.node))
        if binding.kind == "for":
            return _unique(binding.node, self._put_in(list(self._iterated(binding.value, binding.path)), binding))
        if binding.kind in ("assign", "with", "field") and binding.value is not None:
            found = self.project(binding.value, binding.path)
            if binding.kind == "assign" and binding.path:
                found = self._put_in(list(found), binding)
            return _unique(binding.node, found)
        return (Unknown(binding.node),)

    def project(self, node: cst.CSTNode, path: tuple[int, ...]) -> Iterable[Value]:
        """The values of that part of the expression which the path of tuple positions leads to."""
        if not path:
            return self.values(node)
        if isinstance(node, (cst.Tuple, cst.List)):
            elements = [e.value for e in node.elements]
            if any(isinstance(e, cst.StarredElement) for e in node.elements) or not -len(elements) <= path[0] < len(
                elements
            ):
                return (Unknown(node),)
            return self.project(elements[path[0]], path[1:])
        if isinstance(node, cst.IfExp):
            return (*self.project(node.body, path), *self.project(node.orelse, path))
        if isinstance(node, cst.Call):
            found: list[Value] = []
            for function in self.values(node.func):
                if isinstance(function, Function) and isinstance(function.node, cst.FunctionDef):
                    if node in self._busy:
                        continue
                    self._busy.add(node)
                    try:
                        for returned in self.returned(function.node):
                            found.extend(self.project(returned, path))
                    finally:
                        self._busy.discard(node)
                else:
                    found.extend(_element(v, path) for v in self._call_values(function, node))
            return found
        return [v for base in self.values(node) for v in self._unpacked(base, path)]

    def _unpacked(self, base: Value, path: tuple[int, ...]) -> Iterable[Value]:
        if isinstance(base, Literal) and isinstance(base.node, (cst.Tuple, cst.List)):
            if self.is_reordered(base.node):
                return self._members(base, path[1:])
            return self.project(base.node, path)
        if isinstance(base, Literal) and isinstance(base.node, (cst.ListComp, cst.GeneratorExp)):
            return self.project(base.node.elt, path[1:])
        return (_element(base, path),)

    def _iterated(self, node: cst.CSTNode | None, path: tuple[int, ...]) -> Iterator[Value]:
        """What a `for` target at that path gets, looking through enumerate, zip and literal sequences."""
        for value in self.values(node):
            if isinstance(value, Literal):
                yield from self._members(value, path)
            elif isinstance(value, Result) and isinstance(value.function, External) and path:
                name, args = value.function.path, value.call.args
                if name == "builtins.enumerate" and path[0] == 1 and args:
                    yield from self._iterated(args[0].value, path[1:])
                elif name == "builtins.zip" and 0 <= path[0] < len(args):
                    yield from self._iterated(args[path[0]].value, path[1:])
                else:
                    yield _element(value, path)
            else:
                yield _element(value, path)

    def _import_values(self, binding: Binding) -> Values:
        alias = cast(cst.ImportAlias, binding.value)
        importer = self.tree.module_of(binding.node)
        if isinstance(binding.node, cst.ImportFrom):
            name, source = dotted(alias.name), module_name(binding.node)
            module = self._modules.named(importer, source)
            if module is not None:
                return self._file_member(module, name)
            inside = self._modules.named(importer, source + name if source.endswith(".") else f"{source}.{name}")
            return (File(inside),) if inside is not None else (External(api.canonical(f"{source}.{name}")),)
        full = dotted(alias.name)
        wanted = full if alias.asname is not None else full.split(".")[0]
        module = self._modules.named(importer, wanted)
        return (File(module),) if module is not None else (External(api.canonical(wanted)),)

    def _file_member(self, module: cst.Module, name: str) -> Values:
        """What another file finds under that name of the module, once the module has run."""
        key = (module, name)
        if key in self._busy_imports:
            self._cycles += 1
            return ()
        self._busy_imports.add(key)
        try:
            own = name in self.tree.scopes[module].bindings
            found = [v for b in self._names.bound_in(module, name) for v in self.binding_values(b)] if own else []
            for binding in self.tree.attributes.get(name, ()):  # `config.size = 8` in another file
                owner = cast(cst.Attribute, binding.target).value
                if isinstance(owner, cst.Name) and File(module) in self.values(owner):
                    found.extend(self.binding_values(binding))
            if found:
                return _unique(module, found)
            inside = self._modules.submodule(module, name)
            if inside is not None:
                return (File(inside),)
            return tuple(self._starred_values(module, name)) or (Unknown(module),)
        finally:
            self._busy_imports.discard(key)

    # -- functions -----------------------------------------------------------------------------------------------

    def _call_values(self, function: Value, call: cst.Call) -> Iterable[Value]:
        if isinstance(function, External):
            if function.path in api.TRANSPARENT_WRAPPERS:
                wrapped = next((a for a in call.args if a.keyword is None and not a.star), None)
                return self.values(wrapped.value) if wrapped else (Result(function, call),)
            if function.path == "builtins.type" and len(call.args) == 1:
                objects = self.values(call.args[0].value)
                if objects and all(isinstance(v, Object) for v in objects):
                    return [v.of for v in objects if isinstance(v, Object)]
                if objects and all(map(_is_metric, objects)):
                    return [v.function for v in objects if isinstance(v, Result)]
            if function.path == "builtins.getattr" and len(call.args) == 2:
                owners, name = self.values(call.args[0].value), call.args[1].value
                if isinstance(name, cst.SimpleString) and owners and all(isinstance(v, External) for v in owners):
                    return [v for owner in owners for v in self.member(owner, str(name.evaluated_value))]
            if function.path in api.COPYING and call.args:
                copied = self.values(call.args[0].value)
                if copied and all(map(_is_metric, copied)):
                    return copied
            made = api.metric_from_config(function.path)
            return (Result(External(made) if made else function, call),)
        if isinstance(function, Class):
            return (Object(function, call),)
        if isinstance(function, Function):
            return [v for node in self.returned(function.node) for v in self.values(node)]
        if (
            isinstance(function, Result)
            and isinstance(function.function, External)
            and function.function.path in api.TRANSPARENT_WRAPPERS
            and call.args  # tf.function(jit_compile=True)(step) and the like
        ):
            return self.values(call.args[0].value)
        handed = self._handed_on(function, call) or self._datasets_of(function)
        if handed is not None:
            return handed
        return (Result(function, call),)

    def _datasets_of(self, function: Value) -> list[Value] | None:
        """What an object gives that makes datasets where it is called."""
        method = self.method(function.of, "__call__") if isinstance(function, Object) else None
        values = [v for node in self.returned(method) for v in self.values(node)] if method is not None else []
        return values if values and all(map(is_dataset, values)) else None

    def _handed_on(self, function: Value, call: cst.Call) -> Iterable[Value] | None:
        """What a method of a strategy on one device gives back: the dataset it is given, or a function's result."""
        if not (isinstance(function, Member) and call.args and is_strategy(function.owner)):
            return None
        if function.name in api.DISTRIBUTES_DATASET:
            return self.values(call.args[0].value)
        if function.name in (*api.DISTRIBUTES_FROM_FUNCTION, *api.RUNS_STEP):
            return [
                v
                for f in self.values(call.args[0].value)
                if isinstance(f, Function)
                for v in self._call_values(f, call)
            ]
        return None

    def _parameter_values(self, param: cst.Param) -> Values:
        function = self.function_of_parameter(param)
        owner = self.owner_class(function)
        if owner is not None and self._graph.is_first(param, function):
            return (Object(Class(owner)),)
        if self._graph.is_class_itself(param, function):
            return self._classes_told(cast(cst.FunctionDef, function))
        found: list[Value] = []
        for expression in self.arguments(param, function):
            found.extend(self.values(expression))
        found.extend(self._decorated.registered_by(param, function))
        itself = Parameter(param)  # `total = add(total, x)`, of a function that gives it back: what else it is given
        return _unique(param, [value for value in found if value != itself]) or (itself,)

    def _classes_told(self, method: cst.FunctionDef) -> Values:
        """What the class method gets: `__init_subclass__` each class that derives from its own, and never that."""
        cls = Class(cast(cst.ClassDef, self.tree.class_of(method)))
        heirs = self.subclasses(cls) if method.name.value == "__init_subclass__" else []
        return tuple(heirs) or (cls,)

    def _super_member(self, base: Result, name: str) -> Iterable[Value]:
        """What `super().name` is, or `super(C, self).name`, which is asked behind C, wherever that stands."""
        function = self.tree.function_of(base.call)
        node = self.tree.class_of(function) if isinstance(function, cst.FunctionDef) else None
        asked = self.values(base.call.args[0].value) if base.call.args else ()
        owners = [v for v in asked if isinstance(v, Class)] or ([Class(node)] if node is not None else [])
        if not owners or len(owners) < len(asked):
            return (Member(base, name),)
        found: list[Value] = []
        for owner in owners:
            methods = self._classes.methods_behind(owner, name)
            if any(m is not None and self.is_property(m) for m in methods):
                return (Member(base, name),)
            found += [Member(base, name) if m is None else Function(m, Object(owner)) for m in methods]
        return found

    # -- classes -------------------------------------------------------------------------------------------------

    def member(self, base: Value, name: str) -> Iterable[Value]:
        """What `base.name` is."""
        if isinstance(base, External):
            return (External(api.canonical(f"{base.path}.{name}")),)
        if isinstance(base, Object) and name == "__class__":
            return (base.of,)
        if isinstance(base, Result) and _is_metric(base) and name in ("__class__", "from_config"):
            return (base.function,) if name == "__class__" else self.member(base.function, name)
        if isinstance(base, File):
            return self._file_member(base.node, name)
        if isinstance(base, Class):
            method = self.method(base, name)
            if method is not None:
                return (Function(method),)
            of_class = self._classes.class_attribute(base, name)
            made = self._classes.of_metaclass(base, name) if not of_class else None
            if made is not None:
                return self._of_metaclass(made, base)
            return of_class or (Member(base, name),)
        if isinstance(base, Object):
            return self._object_member(base, name)
        if isinstance(base, Result) and base.function == _SUPER:
            return self._super_member(base, name)
        held = self.kept_in(base, name)
        if name == "layers" and isinstance(base, Result):
            held = self._layers_of(base)
        kept = [v for node in held for v in self.values(node)]
        return kept or (Member(base, name),)

    def kept_in(self, base: Value, name: str) -> list[cst.BaseExpression]:
        """What a checkpoint was given that keeps it as an attribute: `tf.train.Checkpoint(model=model).model`."""
        arg = argument(base.call, name) if isinstance(base, Result) and base.function == _CHECKPOINT else None
        return [arg.value] if arg is not None else []

    def _layers_of(self, model: Result) -> list[cst.BaseExpression]:
        """The list that `model = keras.Sequential([first, second])` has its layers of, if it has no others: those that
        are added, or an Input, which is none of them, would take other places."""
        given = argument(model.call, "layers", 0) if calls(model) in api.SEQUENTIAL else None
        statement = self.tree.parent.get(model.call)
        names = {dotted(t.target) for t in statement.targets} if isinstance(statement, cst.Assign) else {""}
        if given is None or not isinstance(given.value, (cst.List, cst.Tuple)) or names & self._added_to:
            return []
        layers = [value for element in given.value.elements for value in self.values(element.value) or (model,)]
        return [given.value] if layers and all(api.makes_model(calls(v)) for v in layers) else []

    @cached_property
    def _added_to(self) -> set[str]:
        """How the models are called that layers are added to, or taken from; and what has no name."""
        functions = [call.func for call in self.tree.calls if isinstance(call.func, cst.Attribute)]
        return {"", *(dotted(func.value) for func in functions if func.attr.value in ("add", "pop"))}

    def is_property(self, method: cst.FunctionDef) -> bool:
        """Whether it runs where an attribute is read."""
        return any(v in _PROPERTIES for d in method.decorators for v in self.values(d.decorator))

    def _of_metaclass(self, method: cst.FunctionDef, cls: Class) -> Iterable[Value]:
        if self.is_property(method):
            return [v for node in self.returned(method) for v in self.values(node)]
        return (Function(method, cls),)

    @cached_property
    def run_by(self) -> dict[cst.CSTNode, list[cst.FunctionDef]]:
        """The functions that the calls run, see `callers`."""
        found: dict[cst.CSTNode, list[cst.FunctionDef]] = defaultdict(list)
        for function in self.tree.functions:
            for call in self.callers(function):
                found[call].append(function)
        return found

    def properties(self, node: cst.Attribute) -> list[cst.FunctionDef]:
        """The methods that run where the attribute is read."""
        private = self._classes.private_method(node)
        methods: list[cst.FunctionDef] = [private] if private is not None else []
        for owner in self.values(node.value):
            if isinstance(owner, Object) and private is None:
                methods += self._classes.methods(owner, node.attr.value)
            elif isinstance(owner, Class):
                made = self._classes.of_metaclass(owner, node.attr.value)
                methods += [made] if made is not None else []
        return [method for method in dict.fromkeys(methods) if self.is_property(method)]

    def _private_member(self, base: Value, method: cst.FunctionDef) -> Iterable[Value]:
        if isinstance(base, Object):
            return self._as_read(method, base)
        return (Function(method),) if isinstance(base, Class) else self.member(base, method.name.value)

    def _as_read(self, method: cst.FunctionDef, owner: Object) -> Iterable[Value]:
        """What a method of the object is where it is read: a property runs there."""
        if self.is_property(method):
            return [v for node in self.returned(method) for v in self.values(node)]
        return (Function(method, owner),)

    def _object_member(self, base: Object, name: str) -> Iterable[Value]:
        methods = self._classes.methods(base, name)
        if methods:
            return [v for method in methods for v in self._as_read(method, base)]
        found = [v for b in self.attribute_bindings(base.of, name) for v in self.binding_values(b)]
        is_field = self._classes.declares(base.of, name)
        if found and not is_field:
            return found
        # What a field has from the class, an object that is made without it has as its own: a function is no method.
        of_class = self._classes.class_attribute(base.of, name, base.call is None)
        found += [v for v in of_class if is_field or not isinstance(v, Function)]
        return [*found, *(Function(v.node, base) for v in of_class if isinstance(v, Function))] or (Member(base, name),)


def _is_known_object(value: Value) -> bool:
    """A function, a class, an object of the script's or of Keras's, a function of TensorFlow's, or what is called with
    something beforehand."""
    of = value.function if isinstance(value, Result) else value
    is_of_keras = isinstance(of, External) and of.path.startswith("keras.")
    is_function = isinstance(value, External) and value.path.startswith("tensorflow.")
    is_partial = isinstance(of, External) and of.path == "functools.partial"
    return isinstance(value, (Function, Class, Object)) or is_of_keras or is_function or is_partial


def _is_metric(value: Value) -> bool:
    """Whether it is an object of a class of Keras's metrics."""
    return api.METRIC_CLASS.match(calls(value)) is not None


def _is_path(value: Value) -> bool:
    return isinstance(value, Result) and isinstance(value.function, External) and value.function.path == "pathlib.Path"


def _element(base: Value, path: tuple[int, ...] = ()) -> Element:
    """An element of a value; of an element of an element no more is known than of the first."""
    return Element(base.of) if isinstance(base, Element) else Element(base, path)


def _unique(node: cst.CSTNode, values: Iterable[Value]) -> Values:
    """The values, each once; of an expression that may be too many things, nothing is known."""
    if isinstance(values, (list, tuple)) and len(values) < 2:
        return tuple(values)
    found: dict[Value, None] = {}
    for value in values:
        found.setdefault(value)
        if len(found) > _MOST_VALUES:
            return (Unknown(node),)
    return tuple(found)
