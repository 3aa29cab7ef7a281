"""Checkpoints and saved weights: the calls that put them into models again, and the models that they fill."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.files import known
from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import (
    Class,
    External,
    Literal,
    Object,
    Parameter,
    Result,
    Unknown,
    Value,
    is_call_of,
)
from migrator.facts.program.syntax import argument, text_of
from migrator.facts.program.tree import Tree

_FINDERS = ("builtins.getattr", "operator.attrgetter", "operator.methodcaller")
_MODEL_CLASSES = re.compile(r"^(?:tensorflow\.)?(?:tf_)?keras\.(?:\w+\.)*(?:Model|Sequential|Layer)$")


class Restores:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds

    @cached_property
    def calls(self) -> list[cst.Call]:
        """Calls that load weights into objects that exist already."""
        return [call for call in self.tree.calls if self._reads_weights(call.func)]

    @cached_property
    def taken(self) -> list[cst.Attribute]:
        """Methods that load weights, where they are not called, but kept or handed on."""
        called = {call.func for call in self.tree.calls}
        return [node for node in self._readers if node not in called and self._reads_weights(node)]

    @cached_property
    def unfollowed(self) -> list[cst.BaseExpression]:
        """Methods that load weights into what is not known where they stand: a class's own (`Model.load_weights(net)`),
        those asked for by a text, those of a lambda's parameter which nobody is seen to give."""
        return [
            *(c for c in self.tree.calls if self.resolver.calls_one_of(c, _FINDERS) and self._finds_reader(c)),
            *(n for n in self._readers if any(self._is_of_any(o, n.attr.value) for o in self.resolver.values(n.value))),
        ]

    @cached_property
    def _readers(self) -> list[cst.Attribute]:
        """Where methods are named that may load weights."""
        named = (n for name in (*known.MODEL_READERS, *known.CHECKPOINT_READERS) for n in self.tree.names.get(name, ()))
        owners = ((self.tree.parent[name], name) for name in named)
        return [owner for owner, name in owners if isinstance(owner, cst.Attribute) and owner.attr is name]

    def _finds_reader(self, call: cst.Call) -> bool:
        """`getattr(net, "load_weights")`, `methodcaller("load_weights", path)`"""
        is_of_owner = "builtins.getattr" in self.resolver.public(call.func)
        if len(call.args) <= is_of_owner:
            return False
        names = {text_of(v.node) for v in self.resolver.values(call.args[is_of_owner].value) if isinstance(v, Literal)}
        owners = self.resolver.values(call.args[0].value) if is_of_owner else ()
        may_have = any(self.kinds.has_weights(o) or isinstance(o, (Parameter, Unknown)) for o in owners)
        may_hold = any(is_call_of(owner, *known.CHECKPOINTS) for owner in owners)
        return (not names.isdisjoint(known.MODEL_READERS) and (may_have or not is_of_owner)) or (
            not names.isdisjoint(known.CHECKPOINT_READERS) and may_hold
        )

    def _is_of_any(self, owner: Value, name: str) -> bool:
        """Whether the owner is no object that loads its weights, but a class of such, or what a lambda is given."""
        is_of_models = name in known.MODEL_READERS
        if isinstance(owner, Parameter):
            return is_of_models and isinstance(self.tree.callable_of(owner.node), cst.Lambda)
        if isinstance(owner, External):
            return owner.path in known.CHECKPOINTS or (is_of_models and bool(_MODEL_CLASSES.match(owner.path)))
        if isinstance(owner, Class):
            return is_of_models and self.kinds.has_weights(Object(owner))
        return is_of_models and is_call_of(owner, "builtins.type")

    def _reads_weights(self, function: cst.BaseExpression) -> bool:
        if not isinstance(function, cst.Attribute):
            return False
        name = function.attr.value
        return (
            name in known.MODEL_READERS and any(map(self.kinds.has_weights, self.resolver.values(function.value)))
        ) or (
            name in known.CHECKPOINT_READERS
            and any(is_call_of(owner, *known.CHECKPOINTS) for owner in self._owners(function.value))
        )

    def _owners(self, node: cst.BaseExpression) -> list[Value]:
        """What the expression may be: of `manager.checkpoint`, the manager, which stands for its checkpoint."""
        found = list(self.resolver.values(node))
        if isinstance(node, cst.Attribute) and node.attr.value == "checkpoint":
            managers = self.resolver.values(node.value)
            found += [owner for owner in managers if is_call_of(owner, "tensorflow.train.CheckpointManager")]
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

    def models_of(self, func: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """The expressions for the models and variables that a restoring method fills; the checkpoint, where it may hold
        others."""
        if not isinstance(func, cst.Attribute):
            return
        if func.attr.value in (*known.MODEL_READERS, "set_weights"):
            yield func.value
            return
        for owner in self._owners(func.value):
            if self._is_open(owner):
                yield func.value
            else:
                yield from self._checkpointed(owner)

    def _checkpointed(self, owner: Value) -> Iterator[cst.BaseExpression]:
        for checkpoint in self._managed(owner):
            for arg in checkpoint.call.args:
                values = self.resolver.values(arg.value)
                has_name = arg.keyword is not None or isinstance(arg.value, (cst.Name, cst.Attribute))
                if any(self.kinds.has_weights(v) or self.kinds.is_optimizer(v) for v in values) or (
                    has_name and self.kinds.is_variable_or_list(arg.value)
                ):
                    yield arg.value

    def _is_open(self, owner: Value) -> bool:
        """Whether a checkpoint holds more than what is written in the call that makes it: `ckpt.step = tf.Variable(0)`,
        `Checkpoint(**parts)`."""
        made = self._managed(owner)
        if any(arg.star for checkpoint in made for arg in checkpoint.call.args):
            return True
        targets = (binding.target for bindings in self.tree.attributes.values() for binding in bindings)
        return any(
            isinstance(target, cst.Attribute) and not set(made).isdisjoint(self.resolver.values(target.value))
            for target in (targets if made else ())
        )

    def _managed(self, owner: Value) -> list[Result]:
        """The checkpoint, or that of a manager."""
        if not isinstance(owner, Result):
            return []
        if is_call_of(owner, "tensorflow.train.CheckpointManager"):
            checkpoint = argument(owner.call, "checkpoint", 0)
            values = self.resolver.values(checkpoint.value) if checkpoint is not None else ()
            return [one for value in values for one in self._managed(value)]
        return [owner] if is_call_of(owner, "tensorflow.train.Checkpoint") else []

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
