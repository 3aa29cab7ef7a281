"""Checkpoints and saved weights: the calls that put them into models again, and the models that they fill."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.files import known
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Result, Value, is_call_of
from migrator.facts.program.syntax import argument
from migrator.facts.program.tree import Tree


class Restores:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds

    @cached_property
    def calls(self) -> list[cst.Call]:
        """Calls that load weights into objects that exist already."""
        found = []
        for call in self.tree.calls:
            if isinstance(call.func, cst.Attribute):
                for owner in self.resolver.values(call.func.value):
                    if call.func.attr.value in known.MODEL_READERS and self.kinds.has_weights(owner):
                        found.append(call)
                        break
                    if call.func.attr.value in known.CHECKPOINT_READERS and is_call_of(owner, *known.CHECKPOINTS):
                        found.append(call)
                        break
        return found

    @cached_property
    def copies(self) -> list[cst.Call]:
        """Calls that put weights that the script has in memory into a model."""
        return [
            call
            for call in self.tree.calls
            if isinstance(call.func, cst.Attribute)
            and call.func.attr.value == "set_weights"
            and call.args
            and any(self.kinds.has_weights(owner) for owner in self.resolver.values(call.func.value))
        ]

    def models_of(self, call: cst.Call) -> Iterator[cst.BaseExpression]:
        """The expressions for the models that a restoring call fills."""
        func = call.func
        if not isinstance(func, cst.Attribute):
            return
        if func.attr.value in (*known.MODEL_READERS, "set_weights"):
            yield func.value
            return
        for owner in self.resolver.values(func.value):
            yield from self._checkpointed(owner)

    def _checkpointed(self, owner: Value) -> Iterator[cst.BaseExpression]:
        if not isinstance(owner, Result):
            return
        if is_call_of(owner, "tensorflow.train.CheckpointManager"):
            checkpoint = argument(owner.call, "checkpoint", 0)
            if checkpoint is not None:
                for inner in self.resolver.values(checkpoint.value):
                    yield from self._checkpointed(inner)
        elif is_call_of(owner, "tensorflow.train.Checkpoint"):
            for arg in owner.call.args:
                values = self.resolver.values(arg.value)
                is_named = isinstance(arg.value, (cst.Name, cst.Attribute))
                if any(
                    self.kinds.has_weights(v) or self.kinds.is_optimizer(v) or (is_named and self.kinds.is_variable(v))
                    for v in values
                ):
                    yield arg.value

    def tells_its_path(self, node: cst.CSTNode) -> bool:
        """Whether this is a call that writes a checkpoint, in any case, and returns its path."""
        func = node.func if isinstance(node, cst.Call) else None
        if not isinstance(func, cst.Attribute) or func.attr.value not in known.CHECKPOINT_WRITERS:
            return False
        owners = self.resolver.values(func.value)
        return bool(owners) and all(
            isinstance(owner, Result)
            and is_call_of(owner, *known.CHECKPOINTS)
            and argument(owner.call, "checkpoint_interval") is None  # by which a manager passes over some
            for owner in owners
        )
