"""Tensors that a training step makes with as many rows as the global batch: noise, labels, first states.

Each worker needs its rows of them, as of the batch itself. That is certain only of what nothing but training reads;
a size that does anything else in the step is in doubt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import cast

import libcst as cst

from migrator.edits import Refusal
from migrator.facts.names import api
from migrator.facts.names.of_libraries import OF_LIBRARIES
from migrator.facts.objects.asked_for import is_anothers
from migrator.facts.objects.generators import Generators
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Literal, Member, Object, Result, Value, calls
from migrator.facts.program.tree import Binding, Tree
from migrator.facts.program.unnamed import Unnamed
from migrator.records import dataclass

# They make a tensor of the shape that they are given.
_MAKERS = re.compile(
    r"^(?:tensorflow\.(?:zeros|ones|fill|random\.(?!shuffle|set_seed)\w+)"
    r"|numpy\.(?:zeros|ones|full|empty|random\.(?:normal|uniform|randint|random|random_sample|standard_normal|integers|choice))"
    r"|keras\.(?:random|ops|backend)\.(?:zeros|ones|full|normal|uniform|truncated_normal|random_normal|random_uniform))$"
)
_MAKERS_BY_SIZES = frozenset({"numpy.random.randn", "numpy.random.rand"})
_MAKERS_OF_VECTORS = frozenset(
    f"{library}.{name}" for library in ("tensorflow", "numpy", "keras.ops") for name in ("zeros", "ones")
)
_RESHAPES = frozenset({"tensorflow.reshape", "numpy.reshape", "keras.ops.reshape", "keras.backend.reshape"})
# They say of which shape a tensor is, as its method `set_shape` does: the abstract run leaves the size open.
_SAYING = re.compile(r"^tensorflow\.(?:ensure_shape|TensorSpec|TensorShape|debugging\.assert_shapes)$")
# They write down what they are given; how many pictures at most changes nothing that is trained.
_TELLING = re.compile(r"^tensorflow\.summary\.(?:image|audio|scalar|text)$")
_SAYING_METHODS = frozenset({"set_shape", "assert_is_compatible_with"})
_FRAMEWORK = re.compile(r"^(?:tensorflow|keras\.ops)\.(?:math\.|nn\.)?[a-z]\w*$")
_SHOWING = frozenset({"builtins.print", "builtins.str", "builtins.repr", "builtins.format", "builtins.len"})
_SHAPE_KEYWORDS = frozenset({"shape", "size", "dims"})


@dataclass(frozen=True, eq=False)
class Made:
    """An expression that makes a tensor of the global batch's rows, of which a worker needs its own."""

    node: cst.BaseExpression


@dataclass(frozen=True, eq=False)
class Size:
    """The global batch size in the new shape of a batch: there it must be the local one."""

    node: cst.BaseExpression


@dataclass(frozen=True, eq=False)
class Shown:
    """The last batch, of which so many rows are looked at behind the loop that read it: those of all workers.
    `is_made`: what the loop has made, of the batch or of something else."""

    node: cst.BaseExpression
    is_made: bool = False


@dataclass(frozen=True)
class DoubtfulSize(Refusal):
    """The global batch size in a training step, where it does not only shape tensors."""


def _is_text(value: Value) -> bool:
    return isinstance(value, Literal) and isinstance(value.node, (cst.BaseString, cst.FormattedString))


def _path(value: Value) -> str:
    if isinstance(value, Member):
        library = api.GENERATORS.get(calls(value.owner))
        return f"{library}.{value.name}" if library is not None else ""
    return value.path if isinstance(value, External) else ""


def _as_made(node: cst.CSTNode | None) -> cst.CSTNode | None:
    """The `rng.normal(size=(8, 2))` of `rng.normal(size=(8, 2)).astype("float32")`."""
    is_cast = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "astype"
    return cst.ensure_type(cst.ensure_type(node, cst.Call).func, cst.Attribute).value if is_cast else node


class BatchShapes:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver
        self._generators = Generators(tree, resolver)
        self._unnamed = Unnamed(tree)

    def of(self, use: cst.BaseExpression, loop: cst.CSTNode) -> list[Made | Size] | None:
        """What the size shapes where it is used, `loop` being the code that runs for each batch; None in doubt."""
        return self._of(use, loop, ())

    def _of(
        self, use: cst.BaseExpression, loop: cst.CSTNode, seen: tuple[cst.CSTNode, ...]
    ) -> list[Made | Size] | None:
        if use in seen:
            return None
        seen = (*seen, use)
        maker = self._maker(use)
        if maker is not None:
            taken = self._taken_of_generator(loop, maker)
            if taken is not None:
                return taken
            return [Made(maker)] if self._is_for(loop, maker, ()) else self._made_by_callers(loop, maker)
        if self._is_new_shape(use):
            return [Size(use)] if self._is_for(loop, use, ()) else None
        call = self._call_given(use)
        functions = self.resolver.values(call.func) if call is not None else ()
        if call is None or not functions:
            return None
        found: list[Made | Size] = []
        for function in functions:
            given = self._parameter(function, use)
            shapes = self._of_parameter(given, call, loop, seen) if given is not None else None
            if shapes is None:
                return None
            found += shapes
        return found

    def _of_parameter(
        self, param: cst.Param, call: cst.Call, loop: cst.CSTNode, seen: tuple[cst.CSTNode, ...]
    ) -> list[Made | Size] | None:
        function = self.resolver.function_of_parameter(param)
        loads = self._loads(param.name.value, function)
        maker = self._maker(loads[0]) if len(loads) == 1 else None
        if isinstance(function, cst.FunctionDef) and self.resolver.returned(function) == [maker]:
            return [Made(call)] if self._is_for(loop, call, ()) else None
        found: list[Made | Size] = []
        for load in loads:
            kept = self._kept(load)
            for use in [load] if kept is None else kept:
                if self._is_in_unrun_method(use):
                    continue
                shapes = self._of(use, loop, seen)
                if shapes is None:
                    return None
                found += shapes
        return found

    def _is_in_unrun_method(self, use: cst.BaseExpression) -> bool:
        """Whether it stands in a method that nobody runs, where all that ask for one of that name get another class's:
        that of a decoder, by the encoder's name."""
        method = self.tree.function_of(use)
        if method is None or method.decorators or self.tree.class_of(method) is None or self._unnamed.looks_names_up:
            return False
        name = method.name.value
        if name.startswith("_") or name in OF_LIBRARIES or name in self._unnamed.texts:
            return False
        asking = [owner for n in self.tree.names[name] if n is not method.name for owner in (self.tree.parent.get(n),)]
        return all(
            isinstance(asked, cst.FunctionDef)
            or (
                isinstance(asked, cst.Attribute)
                and asked.attr.value == name
                and is_anothers(self.resolver, asked, method)
            )
            for asked in asking
        )

    def _made_by_callers(self, loop: cst.CSTNode, maker: cst.BaseExpression) -> list[Made | Size] | None:
        """The calls for training of a function that only makes the tensor; others may try a model on a whole batch."""
        function = self.tree.function_of(maker)
        if function is None or self.resolver.returned(function) != [maker]:
            return None
        found: list[Made | Size] = []
        for caller in self.resolver.callers(function):
            if self._is_for(loop, caller, ()):
                found.append(Made(caller))
            elif not self._is_apart(loop, caller, set()):
                return None
        return found or None

    def of_generator(self, use: cst.BaseExpression, loop: cst.CSTNode) -> list[Made | Size]:
        """What is made for training by the generator that is given the size; nothing where it is given to another."""
        call = self._call_given(use)
        return self.of(use, loop) or [] if call is not None and self._generators.of(call) else []

    def _taken_of_generator(self, loop: cst.CSTNode, maker: cst.BaseExpression) -> list[Made | Size] | None:
        """The calls of `next` for training that take the tensor, of a generator that gives such ones only, to nothing
        else."""
        function = self.tree.function_of(maker)
        given = [each.value for each in self.tree.yields.get(function, ())] if function is not None else []
        queue: list[cst.BaseExpression] = [*self.resolver.callers(function)] if function is not None else []
        found: list[Made | Size] = []
        seen: set[cst.CSTNode] = set()
        while queue and len(given) == 1 and _as_made(given[0]) is maker:
            node = queue.pop()
            if node in seen:
                continue
            seen.add(node)
            owner = self.tree.parent[node]
            call = self._call_given(node)
            values = self.resolver.values(call.func) if call is not None else ()
            if isinstance(owner, cst.Assign) and len(owner.targets) == 1:
                reads = self.loads_of(owner.targets[0].target)
                if not isinstance(owner.targets[0].target, cst.Name):
                    return None
                queue += reads
            elif call is not None and values and all(isinstance(v, Function) for v in values):
                queue += [read for v in values if isinstance(v, Function) for read in self.loads_of_parameter(v, node)]
            elif call is not None and set(values) == {External("builtins.next")} and self._is_for(loop, call, ()):
                found.append(Made(call))
            else:
                return None
        return found or None

    def drawn_for(self, use: cst.BaseExpression, drawing: re.Pattern[str]) -> cst.BaseExpression | None:
        """The call that draws as many rows, by one of these functions; None where the use is another."""
        maker = self._maker(use)
        draws = isinstance(maker, cst.Call) and all(map(drawing.match, self._paths(maker)))
        return maker if draws else None

    def loads_of_parameter(self, function: Function, given: cst.BaseExpression) -> Sequence[cst.BaseExpression]:
        """The reads, in the function, of the parameter that the call gives this."""
        param = self._parameter(function, given)
        return self._loads(param.name.value, self.resolver.function_of_parameter(param)) if param is not None else ()

    # -- what a use does -----------------------------------------------------------------------------------------

    def _maker(self, use: cst.BaseExpression) -> cst.BaseExpression | None:
        """`tf.zeros((size, 8))` around the size, or `[start] * size`."""
        owner = self.tree.parent[use]
        if isinstance(owner, cst.BinaryOperation) and isinstance(owner.operator, cst.Multiply):
            other = owner.left if owner.right is use else owner.right
            return owner if isinstance(other, (cst.List, cst.Tuple)) else None
        call, arg = self._shape_of(use)
        if call is None or arg is None:
            return None
        paths = self._paths(call)
        if owner is arg:  # the size is the whole argument
            first = call.args[0] is arg and arg.keyword is None
            by_sizes = first and paths <= _MAKERS_BY_SIZES
            named = arg.keyword is not None and arg.keyword.value in _SHAPE_KEYWORDS
            vector = (first and paths <= _MAKERS_OF_VECTORS) or (named and all(map(_MAKERS.match, paths)))
            return call if paths and (by_sizes or vector) else None
        return call if paths and all(map(_MAKERS.match, paths)) else None

    def is_said(self, use: cst.BaseExpression) -> bool:
        """Whether it is a size in a shape that a tensor is only said to have, `tf.ensure_shape(x, [size, 8])`, or that
        is only told: `tf.summary.image("input", x, max_outputs=size)`."""
        told_by = self._call_given(use)
        if told_by is not None and (told := self._paths(told_by)) and all(map(_TELLING.match, told)):
            return True
        node: cst.CSTNode = use
        while isinstance(owner := self.tree.parent[node], (cst.Element, cst.List, cst.Tuple)):
            node = owner
        call = self.tree.parent[owner] if isinstance(owner, cst.Arg) and node is not use else None
        if not isinstance(call, cst.Call):
            return False
        func, paths = call.func, self._paths(call)
        is_method = isinstance(func, cst.Attribute) and func.attr.value in _SAYING_METHODS
        return is_method or (bool(paths) and all(map(_SAYING.match, paths)))

    def _is_new_shape(self, use: cst.BaseExpression) -> bool:
        call, arg = self._shape_of(use)
        return call is not None and self.tree.parent[use] is not arg and bool(self._paths(call) & _RESHAPES)

    def _shape_of(self, use: cst.BaseExpression) -> tuple[cst.Call | None, cst.Arg | None]:
        """The call, and its argument, which is the size or a shape that begins with it."""
        owner = self.tree.parent[use]
        if isinstance(owner, cst.Element):
            display = self.tree.parent[owner]
            if not isinstance(display, (cst.List, cst.Tuple)) or display.elements[0] is not owner:
                return None, None
            owner = self._parent_of_joined(display)
        call = self.tree.parent[owner] if isinstance(owner, cst.Arg) else None
        return (call, owner) if isinstance(call, cst.Call) and isinstance(owner, cst.Arg) else (None, None)

    def _parent_of_joined(self, display: cst.BaseExpression) -> cst.CSTNode:
        """What stands around the list or tuple and all that is put behind it: `(size,) + self.shape`."""
        owner = self.tree.parent[display]
        while (
            isinstance(owner, cst.BinaryOperation)
            and isinstance(owner.operator, cst.Add)
            and owner.left is display
            and self._is_sequence(owner.right)
        ):
            display, owner = owner, self.tree.parent[owner]
        return owner

    def _is_sequence(self, node: cst.BaseExpression) -> bool:
        """Whether it surely is a list or tuple: to an array, the size would be added."""
        values = self.resolver.values(node)
        return bool(values) and all(
            (isinstance(v, Literal) and isinstance(v.node, (cst.List, cst.Tuple)))
            or (isinstance(v, Result) and calls(v) in ("builtins.list", "builtins.tuple"))
            for v in values
        )

    def _paths(self, call: cst.Call) -> set[str]:
        """The outside functions that the call may run, methods of a generator by the functions that draw as they do;
        none where it may run another."""
        paths = {_path(value) for value in self.resolver.values(call.func)}
        return paths if "" not in paths else set()

    def _call_given(self, use: cst.BaseExpression) -> cst.Call | None:
        arg = self.tree.parent[use]
        call = self.tree.parent[arg] if isinstance(arg, cst.Arg) else None
        return call if isinstance(call, cst.Call) else None

    def _parameter(self, function: object, use: cst.BaseExpression) -> cst.Param | None:
        """The parameter of the script's function, or class, that the call gives the size to."""
        node = self.resolver.method(function, "__init__") if isinstance(function, Class) else None
        if isinstance(function, Function) and isinstance(function.node, cst.FunctionDef):
            node = function.node
        if node is None:
            return None
        params = (*node.params.posonly_params, *node.params.params, *node.params.kwonly_params)
        return next((p for p in params if use in self.resolver.arguments(p, node)), None)

    def _kept(self, load: cst.BaseExpression) -> list[cst.BaseExpression] | None:
        """The uses of the attribute that keeps the size (`self.size = size`); None where it is not kept."""
        assign = self.tree.parent[load]
        if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
            return None
        target = assign.targets[0].target
        if not isinstance(target, cst.Attribute):
            return None
        found: list[cst.BaseExpression] = []
        for name in self.tree.names[target.attr.value]:
            owner = self.tree.parent.get(name)
            is_read = not isinstance(self.tree.parent.get(cast(cst.CSTNode, owner)), cst.AssignTarget)
            if isinstance(owner, cst.Attribute) and owner.attr is name and is_read:
                found.append(owner)
        return found

    def reaches(self, use: cst.BaseExpression, bodies: Sequence[cst.CSTNode]) -> bool:
        """Whether what is made with the size, and has a name, is read in one of these pieces of code."""
        maker = self._maker(use)
        assign = self.tree.parent[maker] if maker is not None else None
        loads = self.loads_of(assign.targets[0].target) if isinstance(assign, cst.Assign) else []
        return any(self.tree.contains(body, load) for body in bodies for load in loads)

    # -- what reads it -------------------------------------------------------------------------------------------

    def _is_for(self, loop: cst.CSTNode, node: cst.CSTNode, seen: tuple[cst.CSTNode, ...]) -> bool:
        """Whether nothing but the code that runs for each batch sees what the expression gives."""
        if self.tree.contains(loop, node):
            return True
        function = self.tree.function_of(node)
        parent = self.tree.parent[node]
        is_named = isinstance(parent, cst.Assign) and len(parent.targets) == 1
        loads = self.loads_of(cst.ensure_type(parent, cst.Assign).targets[0].target) if is_named else []
        if loads and all(self._is_for(loop, load, seen) for load in loads):
            return True
        if function is None or function in seen:
            return False
        callers = self.resolver.callers(function)
        return bool(callers) and all(self._is_for(loop, caller, (*seen, function)) for caller in callers)

    def _is_apart(self, loop: cst.CSTNode, node: cst.CSTNode, seen: set[cst.CSTNode]) -> bool:
        """Whether what the expression gives only goes into lines of the same function that stand outside of the loop,
        and that put nothing anywhere."""
        if node in seen:
            return True
        seen.add(node)
        line = self.tree.statement_of(node)
        if (
            self.tree.contains(loop, node)
            or self.tree.function_of(node) is not self.tree.function_of(loop)
            or not isinstance(line, cst.SimpleStatementLine)
            or len(line.body) != 1
        ):
            return False
        for owner in self.tree.ancestors(node):
            if owner is line:
                break
            if isinstance(owner, cst.Call) and not self._keeps_nothing(owner):
                return False
        statement = line.body[0]
        if isinstance(statement, cst.Expr):
            return True
        if not isinstance(statement, cst.Assign) or len(statement.targets) != 1:
            return False
        target = statement.targets[0].target
        names = [e.value for e in target.elements] if isinstance(target, (cst.Tuple, cst.List)) else [target]
        return all(
            isinstance(name, cst.Name) and all(self._is_apart(loop, load, seen) for load in self.loads_of(name))
            for name in names
        )

    def _keeps_nothing(self, call: cst.Call) -> bool:
        """Whether it runs a model, or a function of the framework, or makes a text, or prints one."""
        values = self.resolver.values(call.func)
        return bool(values) and all(
            isinstance(v, (Object, Result))
            or (isinstance(v, External) and (v.path in _SHOWING or _FRAMEWORK.match(v.path)))
            or (isinstance(v, Member) and v.name == "format" and _is_text(v.owner))
            for v in values
        )

    def loads_of(self, target: cst.BaseExpression) -> list[cst.Name]:
        """The reads of what an assignment gives a name."""
        if not isinstance(target, cst.Name):
            return []

        def is_bound_here(bindings: Iterable[Binding]) -> bool:
            return any(b.target is target for b in bindings)

        names = (n for n in self.tree.names[target.value] if n is not target and self.tree.is_read(n))
        return [n for n in names if is_bound_here(self.resolver.reaching(n))]

    def _loads(self, name: str, function: cst.CSTNode) -> Sequence[cst.Name]:
        """The reads of a parameter in its function."""
        home = self.tree.scopes[function]
        return [
            n
            for n in self.tree.names[name]
            if self.tree.scope_of(n).lookup(name) is home
            and not isinstance(self.tree.parent.get(n), (cst.Param, cst.AssignTarget))
            and not self._only_looks_alike(n)
        ]

    def _only_looks_alike(self, name: cst.Name) -> bool:
        parent = self.tree.parent.get(name)
        is_attribute = isinstance(parent, cst.Attribute) and parent.attr is name
        return is_attribute or (isinstance(parent, cst.Arg) and parent.keyword is name)
