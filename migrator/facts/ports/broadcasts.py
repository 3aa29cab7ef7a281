"""Which models a port gives to all workers, which it forgets, and which it sends before they have any weights."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.files.writes import Files
from migrator.facts.names import api
from migrator.facts.names.vocabulary import Role
from migrator.facts.objects.holders import Holder
from migrator.facts.objects.kinds import Kinds, origin
from migrator.facts.objects.origins import Origins
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Object, calls
from migrator.facts.ports.ported import PortCall, Ports
from migrator.facts.ports.ranks import Ranks
from migrator.facts.program.syntax import argument, has_unpacked_keywords
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Fit, Training
from migrator.facts.training.trained import Trained

# They send whatever there is, at the first step or when the workers meet.
_SEND_ALL = (
    "BroadcastGlobalVariablesCallback", "BroadcastGlobalVariablesHook", "broadcast_global_variables",
    "TensorFlowState", "TensorFlowKerasState", "KerasState",
)  # fmt: skip
# Functions of these do nothing to the weights that they are given.
_HARMLESS = ("tensorflow.", "keras.", "numpy.", "builtins.", "horovod.", "npu_device.", "byteps.", "smdistributed.")


class Broadcasts:
    def __init__(
        self, tree: Tree, resolver: Resolver, kinds: Kinds, training: Training, trained: Trained, files: Files,
        ports: Ports, origins: Origins, ranks: Ranks,
    ) -> None:  # fmt: skip
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.training = training
        self.trained = trained
        self.files = files
        self.ports = ports
        self.origins = origins
        self.ranks = ranks

    # -- what is sent --------------------------------------------------------------------------------------------

    @cached_property
    def sent(self) -> list[tuple[PortCall, cst.BaseExpression]]:
        """The broadcasts with each model, module or variable whose weights they send."""
        return [(site, part) for site in self.ports.of(Role.BROADCAST) for part in self._owners(site.call)]

    @cached_property
    def lists(self) -> list[tuple[PortCall, cst.Attribute]]:
        """The broadcasts with each `model.variables` and the like that they are given."""
        return [
            (site, part)
            for site in self.ports.of(Role.BROADCAST)
            for arg in site.call.args
            for part in self.origins.behind(arg.value)
            if isinstance(part, cst.Attribute) and part.attr.value in api.WEIGHT_LISTS
        ]

    def _owners(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        for arg in call.args:
            for part in self.origins.behind(arg.value):
                if isinstance(part, cst.Attribute) and part.attr.value in api.WEIGHT_LISTS:
                    yield part.value
                elif isinstance(part, (cst.Name, cst.Attribute)) and any(
                    self.kinds.has_weights(v) or self.kinds.is_variable(v) for v in self.resolver.values(part)
                ):
                    yield part

    @cached_property
    def _sends_all(self) -> bool:
        """Whether some broadcast sends everything, or what it sends cannot be seen."""
        known = {site.call for site, _ in self.sent}
        return any(
            self._name(site.call).endswith(_SEND_ALL)
            or (self._name(site.call).endswith("broadcast_variables") and site.call not in known)
            for site in self.ports.of(Role.BROADCAST)
        ) or any(origin(v).startswith("mpi4py.") for call in self.tree.calls for v in self.resolver.values(call.func))

    def _name(self, call: cst.Call) -> str:
        return next(iter(self.resolver.public(call.func)), "")

    # -- what is forgotten ---------------------------------------------------------------------------------------

    @cached_property
    def forgotten(self) -> list[cst.CSTNode]:
        """The places where trained models get their names that are surely never sent to the other workers."""
        if self._sends_all:
            return [fit.call for fit in self.training.fits if self._lacks_callback(fit)]
        origins = [o for o in self.trained.holders() if not isinstance(o, Holder) or not self._is_alike(o)]
        if not self.sent:
            held: list[cst.CSTNode] = [o.target for o in origins if isinstance(o, Holder)]
            sites = [*(f.call for f in self.training.fits), *(u.call for u in self.training.updates)]
            return held or [*(sites[:1] if origins else [])]
        return [o.target for o in origins if isinstance(o, Holder) and not self._is_sent(o)]

    def _lacks_callback(self, fit: Fit) -> bool:
        """A broadcast by callback that this `fit` is not given."""
        by_callback = all(self._name(s.call).endswith("Callback") for s in self.ports.of(Role.BROADCAST))
        has_callbacks = argument(fit.call, "callbacks", 5) is not None or has_unpacked_keywords(fit.call)
        return by_callback and not has_callbacks and not any(arg.star for arg in fit.call.args)

    def _is_alike(self, holder: Holder) -> bool:
        """Whether all workers start from the same weights anyway, read from a file, or somebody else may send them."""
        values = self.resolver.values(holder.value)
        if values and all(calls(v) in api.LOAD_MODEL for v in values):
            return not self.ranks.is_guarded(holder.statement)
        for call in self.files.restores.calls:
            conditional = any(isinstance(o, (cst.If, cst.Try)) for o in self.tree.ancestors(call))
            if not conditional and any(
                set(self.resolver.values(e)) & set(values) for e in self.files.restores.models_of(call.func)
            ):
                return True
        return any(
            self._is_of_elsewhere(call) and set(self.resolver.values(arg.value)) & set(values)
            for call in self.tree.calls
            for arg in call.args
        )

    def _is_of_elsewhere(self, call: cst.Call) -> bool:
        """A function of a file that is not seen."""
        functions = [v for v in self.resolver.values(call.func) if isinstance(v, External)]
        return any(not v.path.startswith(_HARMLESS) for v in functions)

    def _is_sent(self, holder: Holder) -> bool:
        """Whether this model, one that it is a part of, or one that it shares layers with is sent."""
        made = {part for part in self._made_of(holder.value) if isinstance(part, cst.Call)}
        around = self._class_around(holder)
        return any(made & set(self._made_of(owner)) or around in self._classes(owner) for _, owner in self.sent)

    def _classes(self, owner: cst.BaseExpression) -> list[cst.ClassDef]:
        objects = [v for v in self.resolver.values(owner) if isinstance(v, Object)]
        return [cls.node for v in objects for cls in self.resolver.lineage(v.of)]

    def _made_of(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        return self.origins.behind(node, through_functions=False)

    def _class_around(self, holder: Holder) -> cst.ClassDef | None:
        """The class whose method gives its object this attribute."""
        function = self.tree.function_of(holder.statement) if isinstance(holder.target, cst.Attribute) else None
        return self.tree.class_of(function) if function is not None else None

    @cached_property
    def forgotten_state(self) -> list[cst.Call]:
        """Where one worker alone restores an optimizer from a checkpoint, and nothing sends it to the others."""
        if self._sends_all:
            return []
        sent = {v for site in self.ports.of(Role.BROADCAST) for arg in site.call.args
                for part in self.origins.behind(arg.value) for v in self.resolver.values(part)}  # fmt: skip
        return [
            call
            for call in self.files.restores.calls
            if self.ranks.is_guarded(call)
            and any(
                self.kinds.is_optimizer(v) and v not in sent
                for restored in self.files.restores.models_of(call.func)
                for v in self.resolver.values(restored)
            )
        ]
