"""What a call puts into the object that it is called on, and into what else it is given."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import libcst as cst

from migrator.facts.dependence import libraries
from migrator.facts.dependence.advancing import Advancing
from migrator.facts.dependence.containers import COLLECTING, JOINING, Containers
from migrator.facts.dependence.functions import is_member_of_unknown
from migrator.facts.dependence.graph import Graph, Key, Way
from migrator.facts.dependence.names import Names
from migrator.facts.dependence.ordering import Ordering
from migrator.facts.dependence.sizes import Sizes
from migrator.facts.files.known import DUMPING, MEMORY, PICTURES, TABLE_WRITERS
from migrator.facts.objects.indirect import Indirect
from migrator.facts.objects.kinds import Kinds, origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, File, Function, Member, Result, Value, calls
from migrator.facts.randomness.draws import is_drawn_from_common

_NEXT = "builtins.next"  # of which the iterator is another one afterwards
_WRITING_INTO = ("out", "file", "output_stream")  # the keywords that name what is filled


class Changes:
    def __init__(
        self,
        graph: Graph,
        resolver: Resolver,
        kinds: Kinds,
        indirect: Indirect,
        names: Names,
        sizes: Sizes,
        containers: Containers,
        ordering: Ordering,
        computing: Collection[cst.CSTNode],
    ) -> None:
        self.graph = graph
        self.resolver = resolver
        self.kinds = kinds
        self.indirect = indirect
        self.names = names
        self.sizes = sizes
        self.containers = containers
        self.ordering = ordering
        self._computing = computing
        self.advancing = Advancing(indirect.tree, resolver)

    def link(self, call: cst.Call, values: Iterable[Value]) -> None:
        """What the call may put into its receiver and into what else it is given."""
        given = list(call.args)
        paths = [v.path for v in values if isinstance(v, External)]
        ordered = self.ordering.filled_by(call, paths)
        for holder in self.containers.contents(ordered) if ordered is not None else ():
            self.graph.link(call, holder, Way.USED)
        runs = any(isinstance(v, Function) for arg in given for v in self.resolver.values(arg.value))
        for holder in self.changed_by(call) if given else ():
            if runs:  # `members.sort(key=score)`
                self.graph.link(call, holder, Way.USED)
            method = self._method(call)
            name = method.attr.value if method is not None else ""
            for arg in given:
                joined = (name in JOINING and arg.keyword is None) or (name == "setdefault" and arg is given[0])
                self.graph.link(arg, holder, Way.WHOLE if joined else Way.INTO if name in COLLECTING else Way.USED)
        for library in {path.rpartition(".")[0] for path in paths if is_drawn_from_common(path)}:
            # How many numbers were drawn tells which ones come next.
            for i, arg in enumerate(given):
                draws_from = i == 0 and arg.keyword is None and not libraries.PICKED_FROM.isdisjoint(paths)
                way = self.sizes.by_size(arg.value) if draws_from else Way.USED
                self.graph.link(arg, ("drawn", library), way)
            self.graph.link(("drawn", library), call, Way.USED)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "sort":
            self.graph.link(call.func.value, ("order", call), Way.USED)
            for holder in self.containers.contents(call.func.value):
                self.graph.link(("order", call), holder, Way.INTO)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "send":
            for arg in given:
                self.graph.link(arg, ("sent",))  # to a generator
        for container in self.indirect.put_by(call):
            for holder in self.containers.contents(container):
                for part in self.indirect.given_by(call):
                    if part is not container:
                        self.graph.link(part, holder, Way.INTO)
        for changed in self._filled(call, paths) if len(given) > 1 else ():
            for holder in self.containers.contents(changed.value):
                for arg in given:
                    if arg is not changed:
                        self.graph.link(arg, holder, Way.INTO)
        for buffer in given:
            if self._is_in_memory(buffer):
                self._link_written(call, buffer)

    def _link_written(self, call: cst.Call, buffer: cst.Arg) -> None:
        """`np.savetxt(buffer, losses)`, `frame.to_csv(buffer)`"""
        written: list[cst.CSTNode] = [arg for arg in call.args if arg is not buffer]
        written += [call.func.value] if isinstance(call.func, cst.Attribute) else []
        for holder in self.containers.contents(buffer.value):
            for part in written:
                self.graph.link(part, holder, Way.INTO)

    def _is_in_memory(self, arg: cst.Arg) -> bool:
        return any(origin(v) in MEMORY for v in self.resolver.values(arg.value))

    def changed_by(self, call: cst.Call) -> list[Key]:
        """What a method of an object that the script does not define may change: the object it is called on; a metric
        that is called is its own method."""
        values = self.resolver.values(call.func)
        if any(calls(v).startswith("keras.metrics.") for v in values):
            return self.containers.contents(call.func)
        method = self._method(call)
        if isinstance(call.func, cst.Attribute) and self.names.shown_by(call.func.value):
            return [("shown", binding) for binding in self.names.shown_by(call.func.value)]
        owners = [v.owner for v in values if isinstance(v, Member)]  # functions of the script's are followed
        if method is None or (values and not any(map(self._keeps, owners))):
            return []
        if owners and all(writes_itself(owner, method.attr.value) for owner in owners):
            return []
        return self.containers.contents(method.value)

    def filled_by(self, call: cst.Call) -> list[Key]:
        """What a function of a library changes, or may change, that it is given: `list.append(weights, 0.5)`,
        `heapq.heappush(queue, loss)`, `package.add(weights)`."""
        paths = self.resolver.public(call.func)
        filled = self._filled(call, paths) if paths else []
        return [holder for arg in filled for holder in self.containers.contents(arg.value)]

    def _filled(self, call: cst.Call, paths: Iterable[str]) -> list[cst.Arg]:
        """The arguments that the call may put others into: `np.put(losses, …)`, `out=`, all where nobody knows it."""
        if any(map(libraries.fills_first, paths)) or _NEXT in paths:
            return list(call.args[:1])
        advanced = self.advancing.given_to(call)
        if advanced:
            return advanced
        if any(path in DUMPING for path in paths):
            return list(call.args[1:2])
        values = self.resolver.values(call.func)
        known = [calls(v) if isinstance(v, Result) else v.path for v in values if isinstance(v, (External, Result))]
        known = [path for path in known if libraries.is_pure(path)]
        methods = [v for v in values if isinstance(v, Member) and not is_member_of_unknown(v)]
        if call in self._computing or self.indirect.run_at(call):
            return []  # or functions of the script, which are followed
        followed = [v for v in values if isinstance(v, (Class, Function))]
        if values and len(known) + len(methods) + len(followed) >= len(values):
            return [arg for arg in call.args if arg.keyword is not None and arg.keyword.value in _WRITING_INTO]
        return [arg for arg in call.args if not isinstance(arg.value, (cst.BaseString, cst.BaseNumber))]

    def _method(self, call: cst.Call) -> cst.Attribute | None:
        """The method that is called, by a name of its own, too: `add = losses.append; add(loss)`."""
        if isinstance(call.func, cst.Attribute) or not isinstance(call.func, cst.Name):
            return call.func if isinstance(call.func, cst.Attribute) else None
        bound = [b.value for b in self.names.bindings_of(call.func) if not b.path]
        return bound[0] if len(bound) == 1 and isinstance(bound[0], cst.Attribute) else None

    def _keeps(self, owner: Value) -> bool:
        """Whether a method may store its arguments in this object, for the script to read them from it again; models,
        optimizers and tapes have walks of their own."""
        if isinstance(owner, (External, File)) or self.kinds.has_weights(owner) or self.kinds.is_optimizer(owner):
            return False
        return libraries.keeps_arguments(calls(owner))


def writes_itself(owner: Value, method: str) -> bool:
    """Whether the method only writes the object into a file: a picture, a table."""
    made = origin(owner)
    return made.startswith(PICTURES if method == "save" else "pandas." if method in TABLE_WRITERS else ())
