"""The flags of order that a program writes anywhere: on their way to a dataset that cannot be followed step by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from migrator.facts.names.packages import is_known
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Member, Object, Result, Value, is_call_of
from migrator.facts.program.syntax import argument, has_unpacked_keywords, method_called
from migrator.facts.program.tree import Tree
from migrator.records import dataclass

FLAG = "deterministic"
# Where it stands among the arguments of a method.
PLACES = {"map": 2, "interleave": 4, "batch": 3, "padded_batch": 4}
SLOPPY = "tensorflow.data.experimental.parallel_interleave"
_OPTIONS = (FLAG, "experimental_deterministic")
_PARTIALS = ("functools.partial", "functools.partialmethod")
# What takes any keyword and hands it on.
_HAND_ON = {"builtins.dict", "operator.methodcaller"}
_IN_PARALLEL = ("num_parallel_calls", "cycle_length")


@dataclass(frozen=True)
class AnyOrder:
    """A flag that lets the elements come in any order where it is false; where it is true, if it is `sloppy`."""

    flag: cst.BaseExpression
    sloppy: bool = False

    @property
    def is_written(self) -> bool:
        """Whether it is a `False` or `True` that stands there, and nothing that the run tells."""
        return is_named(self.flag, "False", "True")

    @property
    def may_free(self) -> bool:
        return not is_named(self.flag, str(not self.sloppy), "None")


class OrderFlags:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver

    def everywhere(self) -> Iterator[AnyOrder]:
        yield from self._of_options()
        for call in self.tree.calls:
            flag = argument(call, FLAG) if self._hands_on(call) else self._by_place(call)
            if flag is not None:
                yield AnyOrder(flag.value)
            yield from self._of_sloppy(call)
        yield from self._of_items()

    def _of_items(self) -> Iterator[AnyOrder]:
        """What `dataset.map(read, **options)` may be given: the flags of all dictionaries of the program."""
        if not self._has_takers:
            return
        for entry in self.tree.all_of(cst.DictElement):
            if _is_text(entry.key, FLAG):
                yield AnyOrder(entry.value)
        for pair in self.tree.all_of(cst.Tuple):
            if len(pair.elements) == 2 and _is_text(pair.elements[0].value, FLAG):
                yield AnyOrder(pair.elements[1].value)
        for assign in self.tree.all_of(cst.Assign):
            if any(_is_item(target.target) for target in assign.targets):
                yield AnyOrder(assign.value)
        for field in self.tree.all_of(cst.AnnAssign):  # `**asdict(options)`
            if is_named(field.target, FLAG) and field.value is not None:
                yield AnyOrder(field.value)
        for call in self.tree.calls:
            if method_called(call) in ("setdefault", "__setitem__") and _is_pair(call.args, (FLAG,)):
                yield AnyOrder(call.args[1].value)

    def _of_options(self) -> Iterator[AnyOrder]:
        for name in _OPTIONS:
            for binding in self.tree.attributes.get(name, ()):
                flag, target = binding.value, binding.target
                is_set = isinstance(target, cst.Attribute) and self._may_be_options(target.value)
                if is_set and isinstance(flag, cst.BaseExpression):
                    yield AnyOrder(flag)
        for call in self.tree.calls:
            is_set = len(call.args) == 3 and _is_pair(call.args[1:], _OPTIONS)
            is_set = is_set and External("builtins.setattr") in self.resolver.values(call.func)
            if is_set and self._may_be_options(call.args[0].value):
                yield AnyOrder(call.args[2].value)

    def _may_be_options(self, owner: cst.BaseExpression) -> bool:
        """Whether these may be the options of a dataset, and not a setting of a layer, a policy or the program."""
        values = self.resolver.values(owner)
        if any(is_call_of(value, "tensorflow.data.Options") for value in values):
            return True
        return self._has_options and not (values and all(map(_is_other, values)))

    @cached_property
    def _has_options(self) -> bool:
        """Whether the program gives a dataset options anywhere."""
        return any(self.tree.names.get(name) for name in ("with_options", "Options"))

    def _of_sloppy(self, call: cst.Call) -> Iterator[AnyOrder]:
        """`tf.data.experimental.parallel_interleave(read, cycle_length=8, sloppy=True)`"""
        if External(SLOPPY) in self.resolver.values(call.func):
            flag = argument(call, "sloppy", 3)
            if flag is not None:
                yield AnyOrder(flag.value, sloppy=True)

    def _by_place(self, call: cst.Call) -> cst.Arg | None:
        """`tf.data.Dataset.map(dataset, read, 4, False)`"""
        for value in self.resolver.values(call.func):
            name = value.path.rpartition(".")[2] if isinstance(value, External) else ""
            if name in PLACES and isinstance(value, External) and value.path.startswith("tensorflow.data.Dataset."):
                return argument(call, FLAG, PLACES[name] + 1)
        return None

    def _hands_on(self, call: cst.Call) -> bool:
        """Whether the keyword may come to a method of a dataset, and is no parameter whose uses are seen."""
        if argument(call, FLAG) is None:
            return False
        if method_called(call) == "update":
            return self._has_takers
        is_taken = self._may_take(call)
        return is_taken and (method_called(call) in PLACES or self._is_foreign(call) or self._has_takers)

    @cached_property
    def _has_takers(self) -> bool:
        """Whether keywords that are not written out come to a dataset anywhere; the program's own functions only hand
        theirs on."""
        unpacking = (call for call in self.tree.calls if has_unpacked_keywords(call))
        return any(self._may_take(call) and self._is_foreign(call) for call in unpacking)

    def _is_foreign(self, call: cst.Call) -> bool:
        values = self.resolver.values(call.func)
        is_kept = any(isinstance(value, External) and value.path == "builtins.dict" for value in values)
        return not is_kept and (not values or not all(map(self._functions, values)))

    def _may_take(self, call: cst.Call) -> bool:
        if method_called(call) in PLACES:
            return True
        values = self.resolver.values(call.func)
        # A policy that is not seen has such a flag, too, but does nothing in parallel.
        is_parallel = any(argument(call, name) is not None for name in _IN_PARALLEL)
        return any(self._takes_any(value, call, is_parallel) for value in values) if values else is_parallel

    def _takes_any(self, value: Value, call: cst.Call, is_parallel: bool) -> bool:
        if isinstance(value, Result) and is_call_of(value, *_PARTIALS):
            return self._partial_takes_any(value.call)
        if isinstance(value, External):
            if value.path in _PARTIALS:
                return self._partial_takes_any(call)
            return value.path in _HAND_ON or value.path.startswith("tensorflow.data.")
        if isinstance(value, Member):
            return value.name in PLACES or is_parallel
        functions = self._functions(value)
        return any(_takes_any_keyword(f) for f in functions) if functions else is_parallel

    def _partial_takes_any(self, call: cst.Call) -> bool:
        made = self.resolver.values(call.args[0].value) if call.args else ()
        return not made or any(self._takes_any(value, call, is_parallel=True) for value in made)

    def _functions(self, value: Value) -> list[cst.FunctionDef | cst.Lambda]:
        if isinstance(value, Function):
            return [value.node]
        if isinstance(value, Class):
            made = self.resolver.method(value, "__init__")
            return [made] if made is not None else []
        if isinstance(value, Object):
            called = [self.resolver.method(value.of, name) for name in ("__call__", "call")]
            return [f for f in called if f is not None]
        return []


def _is_other(value: Value) -> bool:
    """Whether it is an object of the program, or one that Python, TensorFlow or a known package has made, and no
    options of a dataset: settings of the command line, a namespace, a layer."""
    if isinstance(value, (Class, Object, Function)):
        return True
    while isinstance(value, (Result, Member)):
        if isinstance(value, Member) and value.name == "options":
            return False
        value = value.function if isinstance(value, Result) else value.owner
    path = value.path if isinstance(value, External) else ""
    return is_known(path.partition(".")[0]) and not path.startswith("tensorflow.data.")


def is_named(node: cst.BaseExpression, *names: str) -> bool:
    return isinstance(node, cst.Name) and node.value in names


def _takes_any_keyword(function: cst.FunctionDef | cst.Lambda) -> bool:
    """Whether the flag comes in among `**keywords`."""
    params = function.params
    named = (*params.posonly_params, *params.params, *params.kwonly_params)
    return params.star_kwarg is not None and all(p.name.value != FLAG for p in named)


def _is_text(node: cst.CSTNode | None, *texts: str) -> bool:
    return isinstance(node, cst.SimpleString) and node.evaluated_value in texts


def _is_pair(args: Iterable[cst.Arg], names: tuple[str, ...]) -> bool:
    """`"deterministic", False`"""
    given = list(args)
    return len(given) == 2 and _is_text(given[0].value, *names)


def _is_item(target: cst.BaseExpression) -> bool:
    """`options["deterministic"]`"""
    place = target.slice[0].slice if isinstance(target, cst.Subscript) and len(target.slice) == 1 else None
    return _is_text(place.value if isinstance(place, cst.Index) else None, FLAG)
