"""How far a script is ported to many processes already: the libraries that it uses for that, and their calls in it."""

from __future__ import annotations

from functools import cached_property

import libcst as cst

from migrator.facts.names import api, vocabulary
from migrator.facts.names.vocabulary import Library, Role
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Value
from migrator.facts.program.syntax import argument, imported_modules, method_called
from migrator.facts.program.tree import Tree
from migrator.records import dataclass

_GATHERING = (".all_gather", ".allgather", ".unshard_batch", ".whole_batch")


@dataclass(frozen=True, eq=False)
class PortCall:
    """A call that spreads training over processes, with what it is for."""

    call: cst.Call
    role: Role
    toolkit: Library


class Ports:
    """`package` is the one that scripts are migrated to: code written for it may be completed, other code only read."""

    def __init__(self, tree: Tree, resolver: Resolver, package: str) -> None:
        self.tree = tree
        self.resolver = resolver
        self.own = vocabulary.PACKAGES[package]

    @cached_property
    def imports(self) -> dict[Library, cst.Import | cst.ImportFrom]:
        """The libraries that the script imports, each with its first import."""
        found: dict[Library, cst.Import | cst.ImportFrom] = {}
        for library, node in self._imports:
            found.setdefault(library, node)
        return found

    @cached_property
    def _imports(self) -> list[tuple[Library, cst.Import | cst.ImportFrom]]:
        return [
            (library, node)
            for node in self.tree.imports
            for module in imported_modules(node)
            if (library := vocabulary.toolkit_of(module)) is not None
        ]

    @cached_property
    def toolkit(self) -> Library | None:
        """The library that the script is written for: another than the own one where it has both."""
        foreign = [library for library in self.imports if library is not self.own]
        return foreign[0] if foreign else next(iter(self.imports), None)

    @cached_property
    def foreign_files(self) -> set[cst.Module]:
        """The files that go another way to many devices than the one that scripts are migrated to: nothing of that
        may be mixed in."""
        nodes = [node for library, node in self._imports if library is not self.own]
        return {self.tree.module_of(node) for node in (*nodes, *self.strategies, *self.unseen_scopes)}

    @property
    def foreign_library(self) -> Library | None:
        """The library of a port that this tool reads only; None for the own one, for strategies, and for code for one
        NPU."""
        if self.toolkit is self.own or self.strategies or self.unseen_scopes or self.is_on_one_npu:
            return None
        return self.toolkit

    @property
    def is_on_one_npu(self) -> bool:
        """Whether the script speaks to an NPU, and nothing in it is distributed."""
        spreads = any(c.toolkit is vocabulary.NPU and c.role is not Role.START for c in self.calls)
        return self.toolkit is vocabulary.NPU and self.toolkit is not self.own and not spreads

    @property
    def is_foreign(self) -> bool:
        return bool(self.foreign_files)

    @cached_property
    def calls(self) -> list[PortCall]:
        """All calls of these libraries that have a role, in source order."""
        found = []
        for call in self.tree.calls:
            for value in self.resolver.values(call.func):
                known = vocabulary.meaning(value.path) if isinstance(value, External) else None
                if known is not None:
                    found.append(PortCall(call, known[1], known[0]))
                    break
        return found

    @cached_property
    def said_whole(self) -> list[cst.Call]:
        """The `lockstep.broadcast(model, noise="same")` by which every worker is said to train on all of the data."""
        broadcasts = [port.call for port in self.of(Role.BROADCAST) if self.is_own(port)]
        return [call for call in broadcasts if _says_same(argument(call, "noise"))]

    def of(self, *roles: Role) -> list[PortCall]:
        return [c for c in self.calls if c.role in roles]

    def is_own(self, call: PortCall) -> bool:
        return call.toolkit is self.own

    def has(self, *roles: Role) -> bool:
        return any(c.role in roles for c in self.calls)

    @cached_property
    def has_gathers(self) -> bool:
        """Whether rows of the workers are put together somewhere, by this tool or by hand."""
        public = (name for call in self.tree.calls for name in self.resolver.public(call.func))
        return any(vocabulary.toolkit_of(name) is not None and name.endswith(_GATHERING) for name in public)

    @property
    def launches(self) -> bool:
        """Whether the script starts the processes itself: what it does around that, one process does."""
        return any(
            vocabulary.LAUNCHERS.match(name) for call in self.tree.calls for name in self.resolver.public(call.func)
        )

    # -- tf.distribute -------------------------------------------------------------------------------------------

    @cached_property
    def strategies(self) -> list[cst.Call]:
        """Where strategies of tf.distribute are made, and clusters for them."""
        return [call for call in self.tree.calls if any(map(api.STRATEGIES.match, self.resolver.public(call.func)))]

    @cached_property
    def unseen_scopes(self) -> list[cst.Call]:
        """`with strategy.scope():` of what looks like a strategy that is made out of sight."""
        return [call for call in self.scopes if any(map(_may_be_strategy, self.resolver.values(call.func)))]

    @cached_property
    def scopes(self) -> list[cst.Call]:
        """`strategy.scope()` in a `with` statement."""
        return [
            call
            for call in self.tree.calls
            if isinstance(self.tree.parent.get(call), cst.WithItem) and not call.args and method_called(call) == "scope"
        ]


def _may_be_strategy(scope: Value) -> bool:
    if isinstance(scope, Function):
        return False
    return not (api.STRATEGIES.match(origin(scope)) or api.ONE_DEVICE.match(origin(scope)))


def _says_same(noise: cst.Arg | None) -> bool:
    return noise is not None and isinstance(noise.value, cst.SimpleString) and noise.value.evaluated_value == "same"
