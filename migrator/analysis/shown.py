"""Which models and layers are only looked at: what they give is printed or drawn, and reaches nothing else."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from migrator.analysis.run import Run
from migrator.analysis.values import Atom, Class, External, Function, Instance, Made
from migrator.facts.names import api
from migrator.facts.program.tree import Scope

_SHOWING = ("builtins.print", "matplotlib.pyplot.", "IPython.display.", "builtins.repr", "builtins.str")
_WRITING = ("matplotlib.pyplot.savefig", "matplotlib.pyplot.imsave")
# They give new values, and change none.
_PURE = ("tensorflow.math.", "tensorflow.nn.", "tensorflow.image.", "keras.ops.")
_PURE_FUNCTIONS = frozenset({
    *(f"tensorflow.{name}" for name in (
        "abs", "argmax", "cast", "clip_by_value", "concat", "expand_dims", "norm", "rank", "reduce_max", "reduce_mean",
        "reduce_min", "reduce_sum", "reshape", "shape", "size", "square", "squeeze", "stack", "transpose")),
    *(f"numpy.{name}" for name in (
        "abs", "argmax", "array", "asarray", "clip", "concatenate", "expand_dims", "max", "mean", "min", "reshape",
        "round", "shape", "squeeze", "stack", "sum", "transpose")),
    "builtins.float", "builtins.int", "builtins.len", "builtins.range", "builtins.enumerate", "builtins.zip",
    "builtins.list", "builtins.tuple", "builtins.round", "builtins.type",
})  # fmt: skip
_PURE_METHODS = frozenset({
    "numpy", "reshape", "mean", "sum", "min", "max", "argmax", "tolist", "item", "squeeze", "round", "astype",
    "get_shape", "as_list",
})  # fmt: skip
_RUNNING = frozenset({"predict", "predict_on_batch", "call"})
_HARMLESS = _RUNNING | {"summary", "name", "count_params", "input_shape", "output_shape", "build", "trainable"}


class Shown:
    """`candidates`: models of which only those that are run by calls which can be seen are told."""

    def __init__(self, run: Run, candidates: Iterable[Atom]) -> None:
        self.run = run
        self.tree = run.tree
        self._uses: dict[Atom, list[cst.CSTNode]] = {atom: [] for atom in candidates}
        for node, value in run.seen.items():
            for atom in value.objects:
                if atom in self._uses:
                    self._uses[atom].append(node)

    def only(self, atom: Atom) -> bool:
        """Whether the script does nothing with the model but to run it, and with what it gives but to show it."""
        uses = self._uses[atom]
        return (
            bool(uses)
            and not self._shares_layers(atom)
            and not (isinstance(atom, Instance) and any(map(self._leaks, self.run.classes.lineage(atom.cls))))
            and all(self._is_harmless(use) for use in uses)
        )

    def is_inside(self, atom: Atom) -> bool:
        """Whether only the class that makes the layer, or the list that it is written in, ever names it."""
        return all(
            isinstance(use, cst.Call)
            or (isinstance(use, cst.Attribute) and self._is_self(use.value))
            or self._is_self(use)
            for use in self._uses[atom]
        )

    def _is_self(self, node: cst.CSTNode) -> bool:
        """Whether it is the first parameter of the method that it stands in."""
        function = self.tree.function_of(node) if isinstance(node, cst.Name) else None
        if function is None or self.tree.class_of(function) is None or not function.params.params:
            return False
        return isinstance(node, cst.Name) and function.params.params[0].name.value == node.value

    def _shares_layers(self, atom: Atom) -> bool:
        """Whether layers of a functional model may also run by themselves."""
        is_functional = isinstance(atom, Made) and atom.path in api.MODEL_CLASSES and atom.path not in api.SEQUENTIAL
        return is_functional and bool((self.run.applied & self.run.built_in) - self.run.known_weights)

    def _leaks(self, cls: Class) -> bool:
        """Whether the methods may put what they compute into lists and the like outside of their object."""
        filled = [target.value for target, _ in self.tree.item_assignments]
        called = [call.func.value for call in self.tree.calls if isinstance(call.func, cst.Attribute)]
        inside = [owner for owner in (*filled, *called) if self.tree.contains(cls.node, owner)]
        return any(self._is_of_the_file(name) for owner in inside for name in self.tree.names_in(owner)) or any(
            scope.globals or scope.nonlocals
            for node, scope in self.tree.scopes.items()
            if self.tree.contains(cls.node, node)
        )

    def _is_of_the_file(self, name: cst.Name) -> bool:
        """Whether it is a variable of the module, or of a function around the class."""
        scope = self.tree.scope_of(name).lookup(name.value)
        home = self.tree.function_of(name)
        if scope is None or (home is not None and self.tree.contains(home, scope.node)):
            return False
        return any(binding.kind in ("assign", "augmented", "for", "with") for binding in scope.bindings[name.value])

    def _is_harmless(self, use: cst.CSTNode) -> bool:
        parent = self.tree.parent.get(use)
        if isinstance(parent, cst.Call) and parent.func is use:
            return self._ends(parent, set())
        if isinstance(parent, cst.Attribute) and parent.value is use:
            call = self.tree.parent[parent]
            if parent.attr.value in _RUNNING:
                return isinstance(call, cst.Call) and call.func is parent and self._ends(call, set())
            is_filled = parent.attr.value == "add" and isinstance(call, cst.Call) and call.func is parent
            if is_filled and isinstance(self.tree.parent[call], cst.Expr):
                return True  # of a Sequential that gets its layers
            return parent.attr.value in _HARMLESS or self._is_self(use)
        if isinstance(parent, (cst.Assign, cst.AssignTarget)):
            targets = parent.targets if isinstance(parent, cst.Assign) else [parent]
            return all(isinstance(target.target, cst.Name) for target in targets)
        if isinstance(parent, cst.Expr):
            return True
        if isinstance(parent, cst.Return):  # what the calls give are uses as well, where all calls are seen
            function = self.tree.function_of(parent)
            return function is not None and not function.decorators and function not in self.run.handed
        return isinstance(parent, cst.Arg) and self._is_handed_to_function(parent)

    def _is_handed_to_function(self, arg: cst.Arg) -> bool:
        """Whether a function of the script, or one that shows, takes it: its uses there are uses as well."""
        call = self.tree.parent[arg]
        callees = self.run.seen.get(call.func) if isinstance(call, cst.Call) else None
        return (
            callees is not None
            and callees.data is None
            and all(isinstance(a, Function) or (isinstance(a, External) and _shows(a.path)) for a in callees.objects)
        )

    def _ends(self, node: cst.CSTNode, seen: set[cst.CSTNode]) -> bool:
        """Whether the value of the expression is dropped, shown, or read no further than for its shape."""
        if node in seen:
            return True
        seen.add(node)
        parent = self.tree.parent.get(node)
        if isinstance(parent, cst.Expr):
            return isinstance(node, cst.Call)
        if isinstance(parent, cst.Attribute):
            if parent.attr.value in api.DESCRIPTIONS:
                return True
            call = self.tree.parent[parent]
            is_call = isinstance(call, cst.Call) and call.func is parent and parent.attr.value in _PURE_METHODS
            return is_call and self._ends(call, seen)
        if isinstance(parent, cst.Arg):
            return self._ends_in_call(parent, seen)
        if isinstance(parent, (cst.BinaryOperation, cst.UnaryOperation, cst.Tuple, cst.List, cst.Element, cst.Index,
                               cst.SubscriptElement, cst.FormattedString, cst.FormattedStringExpression)):  # fmt: skip
            return self._ends(parent, seen)
        if isinstance(parent, cst.Subscript):
            return self._ends(parent, seen) and self._is_read(parent)
        if isinstance(parent, cst.Assign):
            return all(self._ends_in_names(target.target, seen) for target in parent.targets)
        if isinstance(parent, cst.For) and parent.iter is node:
            return self._ends_in_names(parent.target, seen)
        return False

    def _is_read(self, subscript: cst.Subscript) -> bool:
        return not isinstance(self.tree.parent[subscript], (cst.AssignTarget, cst.AugAssign, cst.Del))

    def _ends_in_call(self, arg: cst.Arg, seen: set[cst.CSTNode]) -> bool:
        call = self.tree.parent[arg]
        if not isinstance(call, cst.Call) or (arg.keyword is not None and arg.keyword.value in ("out", "file")):
            return False
        callees = self.run.seen.get(call.func)
        if callees is None or callees.data is not None or not callees.objects:
            return False
        paths = [a.path for a in callees.objects if isinstance(a, External)]
        if len(paths) < len(callees.objects):
            return False
        if all(map(_shows, paths)):
            return True
        is_pure = all(p.startswith(_PURE) or p in _PURE_FUNCTIONS for p in paths)
        return is_pure and self._ends(call, seen)

    def _ends_in_names(self, target: cst.CSTNode, seen: set[cst.CSTNode]) -> bool:
        """Whether whatever reads the names that the target binds shows them only."""
        if isinstance(target, (cst.Tuple, cst.List)):
            return all(self._ends_in_names(element.value, seen) for element in target.elements)
        scope = self.tree.scope_of(target).lookup(target.value) if isinstance(target, cst.Name) else None
        if scope is None or not isinstance(target, cst.Name):
            return False
        bound = {binding.target for binding in scope.bindings[target.value]}
        module = self.tree.module_of(target)
        for name in self.tree.names[target.value]:
            if self.tree.module_of(name) is not module:
                if self._is_of_another_file(name):
                    return False
            elif name not in bound and self._is_variable(name, scope) and not self._ends(name, seen):
                return False
        return True

    def _is_variable(self, name: cst.Name, scope: Scope) -> bool:
        parent = self.tree.parent[name]
        is_label = (isinstance(parent, cst.Attribute) and parent.attr is name) or (
            isinstance(parent, cst.Arg) and parent.keyword is name
        )
        return not is_label and self.tree.scope_of(name).lookup(name.value) is scope

    def _is_of_another_file(self, name: cst.Name) -> bool:
        """Whether a name in another file may be one of this."""
        parent = self.tree.parent[name]
        if isinstance(parent, cst.Attribute) and parent.attr is name:
            return True
        scope = self.tree.scope_of(name).lookup(name.value)
        return scope is None or any(binding.kind == "import" for binding in scope.bindings[name.value])


def _shows(path: str) -> bool:
    return path.startswith(_SHOWING) and path not in _WRITING
