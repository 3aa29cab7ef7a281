"""What may raise an exception that is caught: by its value it is decided what runs of a `try`, and of its handlers.

`raise`, `assert` and TensorFlow's assertions are conditions of their own. An exception that nobody catches ends the
process, which the other workers are told.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property

import libcst as cst

from migrator.facts.dependence.libraries import is_pure
from migrator.facts.names import api
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Literal, Object
from migrator.facts.program.tree import Tree, nodes_in
from migrator.facts.training.sites import Training
from migrator.records import dataclass

_DIVISION = frozenset({"ZeroDivisionError", "ArithmeticError", "FloatingPointError"})
_LOOKUP = frozenset({"KeyError", "IndexError", "LookupError"})
_VALUE = frozenset({"ValueError"})
_NUMBER = _VALUE | {"OverflowError", "ArithmeticError", "TypeError"}
_END = frozenset({"StopIteration"})
_LINEAR = frozenset({"LinAlgError", "InvalidArgumentError"})
_ANY = frozenset({"Exception", "BaseException"})
# They say nothing of a value: somebody stops the program, something is not there.
_OUTER = frozenset({
    "KeyboardInterrupt", "SystemExit", "GeneratorExit", "ImportError", "ModuleNotFoundError", "OSError", "IOError",
    "FileNotFoundError", "FileExistsError", "PermissionError", "EOFError", "MemoryError", "NotImplementedError",
    "OutOfRangeError", "TimeoutError", "ConnectionError", "UnicodeDecodeError", "RuntimeError", "AssertionError",
})  # fmt: skip
_DIVIDING = (cst.Divide, cst.FloorDivide, cst.Modulo, cst.DivideAssign, cst.FloorDivideAssign, cst.ModuloAssign)
# Of Python's numbers, not of tensors, which are divided by zero.
_NUMBERS = frozenset({"builtins.int", "builtins.float", "builtins.len", "builtins.sum", "builtins.round"})
_READING = frozenset({"builtins.int", "builtins.float"})
# Methods that look for what they are given.
_SEARCHING = frozenset({"index", "remove", "rindex"})
_LEAVING_BLOCKS = (cst.Return, cst.Break, cst.Continue)
_MATHS = ("math.", "cmath.", "statistics.", "decimal.")
_ERRING = frozenset({"numpy.errstate", "numpy.seterr", "numpy.seterrcall"})


@dataclass(frozen=True, eq=False)
class Tried:
    """`body` may be left by exceptions with these names; `bodies` run, or run on, or not, by whether it is. `place`:
    the statement."""

    place: cst.CSTNode
    body: cst.CSTNode
    bodies: tuple[cst.CSTNode, ...]
    caught: frozenset[str]


class Catching:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training

    @cached_property
    def risks(self) -> Mapping[cst.CSTNode, list[Tried]]:
        """The values by which something may raise what is caught, in source order, with where it is."""
        found: dict[cst.CSTNode, list[Tried]] = defaultdict(list)
        for tried in (*self._tries(), *self.blocks):
            inside = [tried.body, *self._decorated_at(tried.place)]
            for body in dict.fromkeys(reached for part in inside for reached in self.training.reached_from(part)):
                for place, raised in self._raising_in(body):
                    if tried.caught & raised and tried not in found[place]:
                        found[place].append(tried)
        return {place: several for place, several in found.items() if several}

    def _raising_in(self, body: cst.CSTNode) -> list[tuple[cst.BaseExpression, frozenset[str]]]:
        orders, raising = self._raising
        first, last = self.tree.order[body], self.tree.last_order_in(body)
        return raising[bisect_left(orders, first) : bisect_right(orders, last)]

    def _decorated_at(self, place: cst.CSTNode) -> list[cst.FunctionDef]:
        """The functions that run there in the place of what a decorator is given: `@retry`."""
        around = {owner for owner in self.tree.ancestors(place) if isinstance(owner, cst.FunctionDef)}
        return [
            function
            for function in self.tree.functions
            if around
            and any(
                isinstance(v, Function) and v.node in around
                for decorator in function.decorators
                for v in self.resolver.values(_called(decorator.decorator))
            )
        ]

    # -- what is caught ------------------------------------------------------------------------------------------

    def _tries(self) -> Iterator[Tried]:
        for node in self.tree.all_of(cst.Try):
            caught = self._caught_by(node)
            rest = [part for part in (*node.handlers, node.orelse, node.finalbody) if part is not None]
            if caught and not self._is_last(node, rest):
                yield Tried(node, node.body, (node.body, *rest), caught)

    def _caught_by(self, node: cst.Try) -> frozenset[str]:
        """The names of the exceptions behind which the script goes on."""
        caught: set[str] = set()
        for handler in node.handlers:
            if not self._leaves(handler):
                caught |= self._names(handler.type)
        if node.finalbody is not None and any(isinstance(each, _LEAVING_BLOCKS) for each in nodes_in(node.finalbody)):
            caught |= _ANY  # `finally: return result` drops what is raised
        return frozenset(caught - _OUTER)

    def _is_last(self, node: cst.CSTNode, behind: Sequence[cst.CSTNode], passed: Collection[cst.CSTNode] = ()) -> bool:
        """Whether nothing trains any more once the statement is left: `try: main()`. A worker that leaves it alone has
        ended then, which the others are told."""
        if any(map(self.training.is_within, behind)) or any(self.tree.loops_around(node)):
            return False
        child: cst.CSTNode = node
        for owner in self.tree.ancestors(node):
            if isinstance(owner, (cst.FunctionDef, cst.Lambda)):
                callers = self.resolver.callers(owner)
                is_new = len(callers) == 1 and callers[0] not in passed
                return is_new and self._is_last(callers[0], (), (*passed, callers[0]))
            body = owner.body if isinstance(owner, (cst.IndentedBlock, cst.Module)) else ()
            place = next((i for i, statement in enumerate(body) if statement is child), len(body))
            if any(map(self.training.is_within, body[place + 1 :])):
                return False
            child = owner
        return True

    @cached_property
    def blocks(self) -> list[Tried]:
        return list(self._blocks())

    def _blocks(self) -> Iterator[Tried]:
        """`with suppress(KeyError):`, and what the script's own managers catch."""
        for node in self.tree.all_of(cst.With):
            for item in node.items:
                caught, behind = self._suppressed_by(item.item)
                if caught:
                    yield Tried(node, node.body, (node.body, *behind), frozenset(caught - _OUTER))

    def _suppressed_by(self, manager: cst.BaseExpression) -> tuple[set[str], list[cst.CSTNode]]:
        """The names of the exceptions, with what of the script runs then."""
        found: set[str] = set()
        behind: list[cst.CSTNode] = []
        if isinstance(manager, cst.Call):
            for value in self.resolver.values(manager.func):
                if value == External("contextlib.suppress"):
                    for arg in manager.args:
                        found |= self._names(arg.value)
                elif isinstance(value, Function):
                    tries = [t for t in self.tree.all_of(cst.Try) if self.tree.contains(value.node, t)]
                    for node in tries if self._is_manager(value.node) else ():
                        found |= self._caught_by(node)
                        behind += node.handlers
        for value in self.resolver.values(manager):
            leave = self.resolver.method(value.of, "__exit__") if isinstance(value, Object) else None
            if leave is not None and self.resolver.returned_by_itself(leave):
                found |= _ANY
                behind.append(leave)
        return found, behind

    def _is_manager(self, function: cst.CSTNode) -> bool:
        decorators = function.decorators if isinstance(function, cst.FunctionDef) else ()
        managers = External("contextlib.contextmanager")
        return any(managers in self.resolver.values(d.decorator) for d in decorators)

    def _leaves(self, handler: cst.ExceptHandler) -> bool:
        """Whether it ends the program, or hands the exception on."""
        last = handler.body.body[-1] if handler.body.body else None
        small = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
            return any(name in api.EXITS for name in self.resolver.public(small.value.func))
        return isinstance(small, cst.Raise) and small.exc is None

    def _names(self, node: cst.BaseExpression | None) -> set[str]:
        """The names of these exceptions; of those that are not seen, it may be any."""
        if node is None:
            return set(_ANY)
        if isinstance(node, cst.Tuple):
            return {name for element in node.elements for name in self._names(element.value)}
        values = self.resolver.values(node)
        names = {v.path.rpartition(".")[2] for v in values if isinstance(v, External)}
        if any(isinstance(v, Class) for v in values):
            return names  # which only `raise` raises
        return names or set(_ANY)

    # -- what raises ---------------------------------------------------------------------------------------------

    @cached_property
    def _raising(self) -> tuple[list[int], list[tuple[cst.BaseExpression, frozenset[str]]]]:
        """The values by which an exception may be raised, with the names of it, in source order; and their orders."""
        found = [*self._divided(), *self._looked_up()]
        for call in self.tree.calls:
            found += self._called(call)
        found.sort(key=lambda one: self.tree.order[one[0]])
        return [self.tree.order[place] for place, _ in found], found

    def _divided(self) -> Iterator[tuple[cst.BaseExpression, frozenset[str]]]:
        for node in self.tree.all_of(cst.BinaryOperation, cst.AugAssign):
            if isinstance(node, (cst.BinaryOperation, cst.AugAssign)) and isinstance(node.operator, _DIVIDING):
                divisor = node.right if isinstance(node, cst.BinaryOperation) else node.value
                divided = node.left if isinstance(node, cst.BinaryOperation) else node.target
                if not self._is_text(divided):
                    yield divisor, _DIVISION | _ANY if self._is_number(divisor) else _DIVISION

    def _is_text(self, node: cst.BaseExpression) -> bool:
        """Whether it is text, which `%` formats."""
        values = self.resolver.values(node)
        texts = [v for v in values if isinstance(v, Literal) and isinstance(v.node, cst.BaseString)]
        return isinstance(node, cst.BaseString) or (bool(values) and len(texts) == len(values))

    def _is_number(self, node: cst.BaseExpression) -> bool:
        """Whether it is seen to be made of a number of Python's."""
        paths = {
            v.path
            for call in nodes_in(node)
            if isinstance(call, cst.Call)
            for v in self.resolver.values(call.func)
            if isinstance(v, External)
        }
        return not paths.isdisjoint(_NUMBERS)

    def _looked_up(self) -> Iterator[tuple[cst.BaseExpression, frozenset[str]]]:
        for node in self.tree.all_of(cst.Subscript):
            for element in node.slice:
                if isinstance(element.slice, cst.Index):
                    index = element.slice.value
                    is_written = isinstance(index, (cst.BaseNumber, cst.UnaryOperation, cst.BaseString))
                    yield (node.value, _LOOKUP) if is_written else (index, _LOOKUP | _ANY)

    def _called(self, call: cst.Call) -> Iterator[tuple[cst.BaseExpression, frozenset[str]]]:
        given = [arg.value for arg in call.args]
        func = call.func
        if isinstance(func, cst.Attribute) and func.attr.value in _SEARCHING:
            yield from ((node, _VALUE | _ANY) for node in (func.value, *given))
            return
        if isinstance(func, cst.Attribute) and func.attr.value == "pop":
            yield from ((node, _LOOKUP | _ANY) for node in given[:1])
            return
        for value in self.resolver.values(func):
            if isinstance(value, Class) and self.resolver.derives_from(value, lambda path: path.startswith("enum.")):
                yield from ((node, _VALUE | _ANY) for node in given)
            if isinstance(value, External):
                raised = self._raised_by(value.path)
                yield from ((node, raised) for node in given if raised)
                if value.path == "builtins.next" and len(given) == 1:
                    yield from ((test, _END | _ANY) for test in _asked_by(given[0]))

    def _raised_by(self, path: str) -> frozenset[str]:
        if path in _READING:
            return _VALUE
        if path.startswith(_MATHS):
            return _NUMBER | _ANY
        if ".linalg." in path:
            return _LINEAR | _ANY
        if path.startswith("numpy.") and self._numpy_raises:
            return _DIVISION
        if is_pure(path) or path.startswith(("tqdm", "wandb.", "mlflow.")):
            return frozenset()
        return _VALUE | _LOOKUP | _NUMBER | _ANY

    @cached_property
    def _numpy_raises(self) -> bool:
        return any(name in _ERRING for c in self.tree.calls for name in self.resolver.public(c.func))


def _called(decorator: cst.BaseExpression) -> cst.BaseExpression:
    """`retry` of `@retry(3)`"""
    return decorator.func if isinstance(decorator, cst.Call) else decorator


def _asked_by(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What the generator asks of what it goes through."""
    comp = node.for_in if isinstance(node, cst.GeneratorExp) else None
    while comp is not None:
        yield from (test.test for test in comp.ifs)
        comp = comp.inner_for_in
