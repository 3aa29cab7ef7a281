"""Layers and losses that only the script calls, with what it has worked out: `weigh([first_loss, second_loss])`.

What they are given is seen then where they are called; Keras gives others rows of the batches.
"""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from migrator.facts.dependence import Dependence, Key
from migrator.facts.names import api
from migrator.facts.names.vocabulary import Role, has_role
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Object
from migrator.facts.program.tree import Tree
from migrator.worklist import Worklist

_RUNNING = frozenset({"__call__", "call"})
# What a model is built from, as long as no batch is there.
_SYMBOLIC = frozenset({"keras.Input", "keras.layers.Input", "keras.KerasTensor"})


class CalledAlone:
    def __init__(self, tree: Tree, resolver: Resolver, dependence: Callable[[], Dependence]) -> None:
        self.tree = tree
        self.resolver = resolver
        self._dependence = dependence

    def is_called_alone(self, cls: Class) -> bool:
        """Whether all that is done with the layers or losses of this class is to call them, with no part of a model."""
        method = self.resolver.method(cls, "call")
        callers = self.resolver.callers(method) if method is not None else []
        is_registered = bool(cls.node.decorators)  # a model that is loaded may have one
        if method is None or not callers or is_registered or not self.resolver.derives_from(cls, _is_called_by_keras):
            return False
        if not all(self._is_made_or_named(name) for name in self.tree.names.get(cls.node.name.value, ())):
            return False
        used = (*self.tree.all_of(cst.Name), *self.tree.all_of(cst.Attribute), *self.tree.all_of(cst.Subscript))
        owners = [node for node in (*used, *self.tree.calls) if self._may_be(node, cls)]
        return all(map(self._is_called, owners)) and not any(map(self._takes_part_of_model, callers))

    def _is_made_or_named(self, name: cst.Name) -> bool:
        """Whether an object of the class is made there, or the class is defined: nothing has it by another name."""
        parent = self.tree.parent.get(name)
        if isinstance(parent, cst.Arg):
            return self._is_for_super(parent)
        return isinstance(parent, cst.ClassDef) or (isinstance(parent, cst.Call) and parent.func is name)

    def _may_be(self, node: cst.CSTNode, cls: Class) -> bool:
        return any(isinstance(v, Object) and cls in self.resolver.lineage(v.of) for v in self.resolver.values(node))

    def _is_called(self, node: cst.CSTNode) -> bool:
        """Whether the object is called there, gets a name, or is asked for something that does not run it."""
        parent = self.tree.parent.get(node)
        if isinstance(parent, cst.Call):
            return parent.func is node
        if isinstance(parent, (cst.Arg, cst.Element)):
            return self._is_broadcast(node) or self._is_for_super(parent)
        if isinstance(parent, cst.Attribute) and parent.value is node:
            caller = self.tree.parent.get(parent)
            return parent.attr.value not in _RUNNING or (isinstance(caller, cst.Call) and caller.func is parent)
        return isinstance(parent, (cst.Attribute, cst.Assign, cst.AnnAssign, cst.AssignTarget, cst.Param, cst.Expr))

    def _is_for_super(self, arg: cst.CSTNode) -> bool:
        """`super(Weigh, self).__init__()` asks the class above it."""
        call = self.tree.parent.get(arg)
        return isinstance(call, cst.Call) and set(self.resolver.values(call.func)) == {External("builtins.super")}

    def _is_broadcast(self, node: cst.CSTNode) -> bool:
        """Whether it is given to a broadcast, alone or in a list."""
        call = next((owner for owner in self.tree.ancestors(node) if isinstance(owner, (cst.Call, cst.Lambda))), None)
        values = self.resolver.values(call.func) if isinstance(call, cst.Call) else ()
        return bool(values) and all(isinstance(v, External) and has_role(v.path, Role.BROADCAST) for v in values)

    def _takes_part_of_model(self, call: cst.Call) -> bool:
        """Whether the call is given what `keras.Input` makes, or what a layer makes of that."""
        dependence = self._dependence()
        queue = Worklist[Key](arg.value for arg in call.args)
        for key in queue:
            if isinstance(key, cst.Attribute) and key.attr.value in api.ENDS:
                return True
            values = self.resolver.values(key.func) if isinstance(key, cst.Call) else ()
            if any(isinstance(v, External) and v.path in _SYMBOLIC for v in values):
                return True
            queue += [source for source, _ in dependence.inputs(key)]
        return False


def _is_called_by_keras(path: str) -> bool:
    return path.startswith(("keras.layers.", "keras.losses."))
