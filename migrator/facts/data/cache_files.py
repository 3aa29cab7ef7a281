"""Files that datasets are cached in: `dataset.cache("cache/train")`.

tf.data writes such a file while the dataset is read for the first time, and takes it for the dataset from then on, in
later runs too. So each worker needs one of its own, and what it holds must be the same for any number of workers and
any batch size: the dataset is cut behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from migrator.facts.data.pipeline import Step
from migrator.facts.objects.kinds import origin
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Class, External, Function, Literal, Member, Result, Unknown, Value
from migrator.facts.ports.ranks import Ranks
from migrator.facts.program.syntax import argument, text_of
from migrator.facts.program.tree import Tree
from migrator.facts.training.sites import Training

# Steps that give the same elements in the same order in every run, where the functions that they are given do not draw.
_ALIKE = frozenset({"map", "filter", "take", "skip", "enumerate", "prefetch", "with_options", "batch", "cache"})
_KNOWN = (
    "tensorflow.",
    "numpy.",
    "builtins.",
    "math.",
    "keras.ops.",
    "keras.utils.",
    "keras.applications.",
    "os.path.",
)
_DRAWING = re.compile(r"random|py_function|numpy_function|shuffle|dropout")
_SWITCHES = (External("builtins.True"), External("builtins.False"), External("builtins.None"))


def file_of(step: Step) -> cst.BaseExpression | None:
    """The name of the file that the step caches its elements in; None where it keeps them in memory, or is no cache."""
    given = argument(step.call, "filename", 0) if step.method == "cache" else None
    return given.value if given is not None else None


class CacheFiles:
    def __init__(self, tree: Tree, resolver: Resolver, training: Training, ranks: Ranks) -> None:
        self.tree = tree
        self.resolver = resolver
        self.training = training
        self.ranks = ranks

    def are_own(self, steps: Sequence[Step]) -> bool:
        """Whether each worker has, or is going to have, files of its own in which it finds the same elements."""
        names = [(i, name) for i, step in enumerate(steps) if (name := file_of(step)) is not None]
        return all(
            self.ranks.depends_on_rank(name) or (self._is_name(name) and all(map(self._is_alike, steps[:i])))
            for i, name in names
        )

    @property
    def to_be_named(self) -> Iterator[cst.BaseExpression]:
        """The names of such files that all workers would write, where something can be added to them."""
        for call, func in self.training.methods("cache"):
            name = argument(call, "filename", 0)
            if name is None or self.ranks.depends_on_rank(name.value) or not self._is_name(name.value):
                continue
            if any(map(self.training.kinds.is_dataset, self.resolver.values(func.value))):
                yield name.value

    def _is_name(self, node: cst.BaseExpression) -> bool:
        """Whether the expression surely is a text, and no empty one, that means nothing else in the program."""
        values = [v for v in self.resolver.values(node) if v not in _SWITCHES]
        return bool(values) and all(
            not self._is_read_elsewhere(text, values) if (text := _text(v)) else self._is_put_together(v, node)
            for v in values
        )

    def _is_put_together(self, value: Value, node: cst.BaseExpression) -> bool:
        """Whether it is a text of several parts, of which one is written out, that nothing else has or is made of."""
        parts = self._parts_of(value)
        longest = max(map(_written, parts), key=len, default="")
        others = (part for part in self.tree.all_of(cst.SimpleString, cst.FormattedStringText) if part not in parts)
        return bool(longest) and not any(longest in _written(part) for part in others) and self._is_asked_once(node)

    def _parts_of(self, value: Value) -> list[cst.CSTNode]:
        """The parts of a text that are written out; of a path, those of its last part."""
        node = value.node if isinstance(value, (Literal, Unknown)) else None
        if isinstance(node, cst.SimpleString):
            return [node] if _written(node) else []
        if isinstance(node, cst.FormattedString):
            return [part for part in node.parts if isinstance(part, cst.FormattedStringText)]
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
            return [*self._parts_in(node.left), *self._parts_in(node.right)]
        is_path = isinstance(value, Result) and value.function == External("os.path.join")
        return self._parts_in(value.call.args[-1].value) if is_path and isinstance(value, Result) else []

    def _parts_in(self, node: cst.BaseExpression) -> list[cst.CSTNode]:
        found = [self._parts_of(value) for value in self.resolver.values(node)]
        return [part for parts in found for part in parts] if all(found) else []

    def _is_asked_once(self, node: cst.BaseExpression, passed: frozenset[cst.CSTNode] = frozenset()) -> bool:
        """Whether nothing else reads the name, the attribute or the parameters that the expression stands behind."""
        if not isinstance(node, (cst.Name, cst.Attribute)) or node in passed:
            return True
        if isinstance(node, cst.Attribute):
            bindings = self.resolver.bindings_of(node)
            set_here = {b.target for b in bindings}
            alike = (other for other in self.tree.all_of(cst.Attribute) if other.attr.value == node.attr.value)
            read: list[cst.CSTNode] = [other for other in alike if other not in set_here]
        else:
            bindings = self.resolver.reaching(node)
            named = filter(self.tree.is_read, self.tree.names.get(node.value, ()))
            read = [other for other in named if set(bindings) & set(self.resolver.reaching(other))]
        if read != [node]:
            return False
        given = [g for b in bindings if isinstance(b.node, cst.Param) for g in self.resolver.given(b.node)]
        given += [b.value for b in bindings if b.kind == "assign" and isinstance(b.value, cst.BaseExpression)]
        return all(self._is_asked_once(each, passed | {node}) for each in given)

    def _is_read_elsewhere(self, text: str, values: Sequence[Value]) -> bool:
        """Whether a longer or an equal path is written out anywhere else: the file may be looked for."""
        nodes = [v.node for v in values if isinstance(v, Literal)]
        return any(
            str(other.evaluated_value).startswith(text) and not any(other is node for node in nodes)
            for other in self.tree.all_of(cst.SimpleString)
        )

    def _is_alike(self, step: Step) -> bool:
        if step.method not in _ALIKE:
            return False
        functions = [v.node for arg in step.call.args for v in self.resolver.values(arg.value)
                     if isinstance(v, Function)]  # fmt: skip
        bodies = [body for function in functions for body in self.training.reached_from(function)]
        inside = [c for c in self.tree.calls if self.tree.is_in(c, bodies)]
        return all(map(self._gives_the_same, (v for call in inside for v in self.resolver.values(call.func))))

    def _gives_the_same(self, function: Value) -> bool:
        """Whether the function gives the same for the same: it draws no random numbers, as layers and what other
        packages have may do."""
        if isinstance(function, (Function, Class)):
            return True
        path = origin(function)
        if isinstance(function, Member) and not path:
            return True  # a method of a tensor
        return path.startswith(_KNOWN) and not _DRAWING.search(path)


def _written(node: cst.CSTNode) -> str:
    return node.value if isinstance(node, cst.FormattedStringText) else text_of(node)


def _text(value: Value) -> str:
    node = value.node if isinstance(value, Literal) else None
    return text_of(node) if isinstance(node, cst.SimpleString) and not node.prefix else ""
