"""Functions of the script that a library calls of its own accord: handlers, hooks, methods of classes that derive from
the library's, streams. What they get may be anything that the library is told: `log.info("%s", loss)` comes to `emit`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import cast

import libcst as cst

from migrator.facts.dependence.containers import Containers
from migrator.facts.dependence.graph import Graph, Key, Way
from migrator.facts.dependence.libraries import is_of_keras
from migrator.facts.names.vocabulary import PACKAGES
from migrator.facts.objects.kinds import Kinds, origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Literal, Member, Object, Result, Value
from migrator.facts.program.tree import FunctionLike, Tree

# What these call, and with what, is followed elsewhere; or they call at once what they are given, with that alone.
_FOLLOWED = frozenset({
    "", "tensorflow", "keras", "tf_keras", "numpy", "builtins", "typing", "abc", "enum", "dataclasses", "functools",
    "itertools", "operator", "copy", "argparse", "tensorflow_datasets", *PACKAGES,
})  # fmt: skip
# Methods of their objects call at once what they are given, with what these hold: `frame.apply(f)`.
_AT_ONCE = frozenset({"pandas"})
# Where text goes that is printed.
_STREAMS = "sys"
_TO_STREAMS = frozenset({"builtins.print", "contextlib.redirect_stdout", "contextlib.redirect_stderr"})
_EXCEPTIONS = frozenset({"sys.exc_info", "sys.exception", "sys.last_value"})
# They keep what the library is told, for the script to read.
_KEEPING = frozenset({"warnings.catch_warnings", "logging.handlers.MemoryHandler", "logging.handlers.QueueHandler"})
# They write there what the library is told.
_WRITING = ("logging.StreamHandler", "logging.basicConfig", "logging.handlers.")
_METACLASSES = frozenset({"builtins.type", "abc.ABCMeta", "enum.EnumMeta", "enum.EnumType"})
_OF_CLASSES = ("__setattr__", "__call__", "__getitem__")
_GIVEN_EXCEPTIONS = frozenset({"sys", "threading"})


class OutOfSight:
    def __init__(self, graph: Graph, tree: Tree, resolver: Resolver, kinds: Kinds, containers: Containers) -> None:
        self.graph = graph
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.containers = containers

    def link(self) -> None:
        self._link_told()
        self._link_special_methods()
        self._link_formats()
        self._link_metaclasses()
        self._link_fields()
        self._link_exceptions()
        self._link_streams()

    def told_by(self, call: cst.Call) -> list[Key]:
        """What gets what the call gives, or that it is made at all."""
        return [("told", library) for library in sorted(self._told_by(call))]

    def _link_special_methods(self) -> None:
        """What Python itself gives methods: `__exit__` an exception, `__new__` what the class is called with."""
        for function in self.tree.functions:
            if function.name.value in ("__exit__", "__aexit__") and self.tree.class_of(function) is not None:
                self.graph.link(("raised",), ("handed to", function), Way.USED)
        for node in self.tree.classes:
            for base in self.resolver.bases(Class(node)) if node.keywords else ():
                told = self.resolver.method(base, "__init_subclass__") if isinstance(base, Class) else None
                for keyword in node.keywords if told is not None else ():
                    self.graph.link(keyword.value, ("handed to", told))
        for call in self.tree.calls:
            makers = [
                self.resolver.method(v, "__new__") for v in self.resolver.values(call.func) if isinstance(v, Class)
            ]
            for method in makers:
                for arg in call.args if method is not None else ():
                    self.graph.link(arg, ("handed to", method))

    def _link_formats(self) -> None:
        """`f"{model:{rate}}"`, `format(model, rate)`: what says how something is formatted, to any `__format__`."""
        methods = self._named("__format__")
        specs: list[cst.CSTNode] = []
        for node in self.tree.all_of(cst.FormattedStringExpression) if methods else ():
            specs += node.format_spec or ()
        for call in self.tree.calls if methods else ():
            is_method = isinstance(call.func, cst.Attribute) and call.func.attr.value in ("format", "format_map")
            if is_method or External("builtins.format") in self.resolver.values(call.func):
                specs += [call.func, *call.args]
        for method in methods:
            for spec in specs:
                self.graph.link(spec, ("handed to", method), Way.USED)

    def _link_metaclasses(self) -> None:
        """What is set, asked for or called of classes, to the methods of the script's metaclasses."""
        metas = [c for c in self.tree.classes if self.resolver.derives_from(Class(c), _METACLASSES.__contains__)]
        methods = {name: [m for c in metas if (m := self.resolver.method(Class(c), name))] for name in _OF_CLASSES}
        given: dict[str, list[cst.CSTNode]] = {name: [] for name in _OF_CLASSES}
        for bindings in self.tree.attributes.values() if methods["__setattr__"] else ():
            given["__setattr__"] += [b.value for b in bindings if b.value is not None]
        for call in self.tree.calls if methods["__call__"] else ():
            if any(isinstance(v, Class) for v in self.resolver.values(call.func)):
                given["__call__"] += call.args
        for item in self.tree.all_of(cst.Subscript) if methods["__getitem__"] else ():
            given["__getitem__"] += item.slice
        for name, nodes in given.items():
            for method in methods[name]:
                for node in nodes:
                    self.graph.link(node, ("handed to", method), Way.USED)

    def _named(self, name: str) -> list[cst.FunctionDef]:
        """The methods of that name."""
        return [f for f in self.tree.functions if f.name.value == name and self.tree.class_of(f) is not None]

    def _link_fields(self) -> None:
        """What a dataclass is called with, to what its `__post_init__` reads of the object."""
        readers = [function for function in self.tree.functions if function.name.value == "__post_init__"]
        owners = {owner: function for function in readers if (owner := self.tree.class_of(function)) is not None}
        for call in self.tree.calls if owners else ():
            for value in self.resolver.values(call.func):
                for cls in self.resolver.lineage(value) if isinstance(value, Class) else ():
                    for arg in call.args if cls.node in owners else ():
                        self.graph.link(arg, ("fields", cls.node), Way.INTO)
        for attribute in self.tree.all_of(cst.Attribute) if owners else ():
            for owner, function in owners.items():
                is_read = not isinstance(self.tree.parent.get(attribute), cst.AssignTarget)
                if is_read and self.tree.contains(function, attribute):
                    self.graph.link(("fields", owner), attribute, Way.USED)

    def _link_exceptions(self) -> None:
        """`sys.exc_info()`, `traceback.format_exc()`"""
        for call in self.tree.calls:
            for value in self.resolver.values(call.func):
                if isinstance(value, External) and (value.path in _EXCEPTIONS or value.path.startswith("traceback.")):
                    self.graph.link(("raised",), call, Way.USED)

    def _link_streams(self) -> None:
        """What is printed comes to a stream that is put in the place of the one for it; what a library is told, to what
        keeps that."""
        streams: list[cst.CSTNode] = []
        kept: dict[str, list[tuple[cst.Call, Key]]] = {}
        for call in self.tree.calls:
            for value in self.resolver.values(call.func):
                path = value.path if isinstance(value, External) else ""
                if path in _TO_STREAMS - {"builtins.print"}:
                    streams += [arg.value for arg in call.args]
                elif path in _KEEPING:
                    kept.setdefault(_library(value), []).append((call, call))
                elif path.startswith(_WRITING):  # `logging.StreamHandler(buffer)`
                    buffers = (arg.value for arg in call.args if not isinstance(arg.value, cst.BaseString))
                    for holder in (holder for buffer in buffers for holder in self.containers.contents(buffer)):
                        kept.setdefault(_library(value), []).append((call, holder))
        for name in ("stdout", "stderr"):
            streams += [b.value for b in self.tree.attributes.get(name, ()) if b.value is not None]
        holders = [holder for node in streams for holder in self.containers.contents(cast(cst.BaseExpression, node))]
        for call in self.tree.calls if streams or kept else ():
            for library in self._told_by(call):
                for arg in call.args:
                    for holder in holders if library == _STREAMS else ():
                        self.graph.link(arg, holder, Way.INTO)
                    for maker, keeper in kept.get(library, ()):
                        if maker is not call:
                            self.graph.link(arg, keeper, Way.INTO)
        # Whether something is told at all, see `told_by`.
        for holder in holders:
            self.graph.link(("told", _STREAMS), holder, Way.INTO)
        for library, keepers in kept.items():
            for _, keeper in keepers:
                self.graph.link(("told", library), keeper, Way.INTO)

    def _link_told(self) -> None:
        for function, libraries in self._callers.items():
            for library in libraries:
                self.graph.link(("told", library), ("handed to", function), Way.USED)
        told = {library for libraries in self._callers.values() for library in libraries}
        for call in self.tree.calls if told else ():
            for library in self._told_by(call) & told:
                for arg in call.args:
                    self.graph.link(arg, ("told", library), Way.USED)
        for library in told & _GIVEN_EXCEPTIONS:
            self.graph.link(("raised",), ("told", library), Way.USED)

    @cached_property
    def _callers(self) -> dict[FunctionLike, set[str]]:
        """By functions of the script the libraries that may call them."""
        found: dict[FunctionLike, set[str]] = {}
        for library, function in (*self._of_classes(), *self._handed_on(), *self._hooked()):
            found.setdefault(function, set()).add(library)
        return found

    def _of_classes(self) -> Iterator[tuple[str, FunctionLike]]:
        """The methods of classes that derive from a library's."""
        for node in self.tree.classes:
            for library in self._libraries_behind(Class(node)):
                yield from ((library, method) for method in self._methods(Class(node)))

    def _handed_on(self) -> Iterator[tuple[str, FunctionLike]]:
        """What a library is given, to be called later."""
        for call in self.tree.calls:
            libraries = self._told_by(call) if call.args else set()
            if not any(isinstance(v, External) for v in self.resolver.values(call.func)):
                libraries -= _AT_ONCE
            for arg in call.args if libraries else ():
                functions = list(self._run_by(arg.value))
                yield from ((library, function) for library in libraries for function in functions)

    def _hooked(self) -> Iterator[tuple[str, FunctionLike]]:
        """`sys.excepthook = report`, `warnings.showwarning = note`, `sys.stdout = stream`"""
        for bindings in self.tree.attributes.values():
            for binding in bindings:
                target = binding.target.value if isinstance(binding.target, cst.Attribute) else None
                libraries = {_library(owner) for owner in self.resolver.values(target)} - _FOLLOWED
                if libraries and isinstance(binding.value, cst.BaseExpression):
                    for function in self._run_by(binding.value):
                        yield from ((library, function) for library in libraries)

    def _run_by(self, node: cst.BaseExpression) -> Iterator[FunctionLike]:
        """The functions that somebody may call who has the value."""
        for value in self.resolver.values(node):
            if isinstance(value, Function):
                yield value.node
            elif isinstance(value, (Object, Class)):
                of = value.of if isinstance(value, Object) else value
                if not (self.kinds.has_weights(Object(of)) or is_of_keras(Object(of), self.resolver)):
                    yield from self._methods(of)
            elif isinstance(value, Literal) and isinstance(value.node, (cst.List, cst.Tuple, cst.Dict)):
                for element in value.node.elements:
                    if value.node is not node or element.value is not node:
                        yield from self._run_by(element.value)

    def _methods(self, cls: Class) -> Iterator[FunctionLike]:
        for ancestor in self.resolver.lineage(cls):
            for function in self.tree.functions:
                if self.tree.class_of(function) is ancestor.node and function.name.value != "__init__":
                    yield function

    def _libraries_behind(self, cls: Class) -> set[str]:
        bases = (base for ancestor in self.resolver.lineage(cls) for base in self.resolver.bases(ancestor))
        return {_library(base) for base in bases if isinstance(base, External)} - _FOLLOWED

    def _told_by(self, call: cst.Call) -> set[str]:
        """The libraries that get what the call gives."""
        found = set()
        for value in self.resolver.values(call.func):
            if isinstance(value, External) and value.path in _TO_STREAMS:
                found.add(_STREAMS)
            if isinstance(value, Member) and isinstance(value.owner, Object):
                found |= self._libraries_behind(value.owner.of)  # a method that the class inherits
            found.add(_library(value))
        return found - _FOLLOWED


def _library(value: Value) -> str:
    path = value.path if isinstance(value, External) else origin(value) if isinstance(value, (Member, Result)) else ""
    return path.partition(".")[0]
