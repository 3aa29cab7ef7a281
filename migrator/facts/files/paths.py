"""Paths of files as the script writes them down: which are the same, and which surely differ."""

from __future__ import annotations

import fnmatch
import os.path
import re
from collections.abc import Sequence

import libcst as cst

from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import Literal
from migrator.facts.program.syntax import is_format
from migrator.facts.program.tree import Tree

_EXTENSION = re.compile(r"^[^*?\[]*\.[A-Za-z]\w{0,4}$")


class Paths:
    def __init__(self, tree: Tree, resolver: Resolver) -> None:
        self.tree = tree
        self.resolver = resolver
        self._spelled: dict[cst.BaseExpression, str] = {}
        self._texts: dict[cst.BaseExpression, set[str]] = {}

    def spelled(self, path: cst.BaseExpression) -> str:
        """The path as Python spells it, whichever quotes the script has."""
        found = self._spelled.get(path)
        if found is None:
            found = repr(path.evaluated_value) if isinstance(path, cst.SimpleString) else self._source(path)
            self._spelled[path] = found
        return found

    def may_be_same(self, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        """Whether the paths are the same text, or are given the same one, as far as seen."""
        # What is of another kind is spelled otherwise, and seldom has to be printed.
        if type(one) is type(other) and self.spelled(one) == self.spelled(other):
            return not self._are_others(one, other)
        return not self._given(one).isdisjoint(self._given(other))

    def _are_others(self, one: cst.BaseExpression, other: cst.BaseExpression) -> bool:
        """Whether parameters of one name surely are given other texts: `path` of this function and of that."""
        if self.tree.function_of(one) is self.tree.function_of(other) or not self._given(one) or not self._given(other):
            return False
        values = {*self.resolver.values(one), *self.resolver.values(other)}
        are_texts = all(isinstance(v, Literal) and isinstance(v.node, cst.SimpleString) for v in values)
        return are_texts and self._given(one).isdisjoint(self._given(other))

    def _given(self, path: cst.BaseExpression) -> set[str]:
        """The texts that the path may be."""
        known = self._texts.get(path)
        if known is None:
            known = self._texts[path] = self._found_given(path)
        return known

    def _found_given(self, path: cst.BaseExpression) -> set[str]:
        found = (value.node for value in self.resolver.values(path) if isinstance(value, Literal))
        return {str(node.evaluated_value) for node in found if isinstance(node, cst.SimpleString)}

    def differ(self, written: Sequence[cst.CSTNode], read: Sequence[cst.CSTNode]) -> bool:
        """Whether the paths surely end in other names of files, as `os.path.join(a, "x.csv")` and `b + ".weights.h5"`.

        Names without an extension say nothing: libraries add one, or take a folder for the files in it.
        """
        ends = [[self._end(path, 0) for path in paths] for paths in (written, read)]
        if not all(ends) or not all(_EXTENSION.search(end) for several in ends for end in several):
            return False
        return not any(a.endswith(b) or b.endswith(a) for a in ends[0] for b in ends[1])

    def _end(self, path: cst.CSTNode, depth: int) -> str:
        """The text that the path ends with, as far as it is written down."""
        if isinstance(path, (cst.SimpleString, cst.ConcatenatedString)):
            text = path.evaluated_value
            return text.rpartition("/")[2] if isinstance(text, str) else ""
        if isinstance(path, cst.FormattedString):
            last = path.parts[-1] if path.parts else None
            return last.value.rpartition("/")[2] if isinstance(last, cst.FormattedStringText) else ""
        if is_format(path):
            return _end_of_pattern(cst.ensure_type(path, cst.BinaryOperation).left, r"%[-#0 +\d.]*[a-zA-Z]")
        if isinstance(path, cst.Call) and isinstance(path.func, cst.Attribute) and path.func.attr.value == "format":
            return _end_of_pattern(path.func.value, r"\{[^{}]*\}")
        if isinstance(path, cst.BinaryOperation) and isinstance(path.operator, (cst.Add, cst.Divide)):
            return self._end(path.right, depth)
        if isinstance(path, cst.Call) and path.args and self._source(path.func) in ("os.path.join", "str"):
            return self._end(path.args[-1].value, depth)
        if isinstance(path, cst.Name) and depth < 3:
            bindings = self.resolver.reaching(path)
            if (
                len(bindings) == 1
                and bindings[0].kind == "assign"
                and bindings[0].value is not None
                and not bindings[0].path
            ):
                return self._end(bindings[0].value, depth + 1)
        return ""

    def _source(self, node: cst.CSTNode) -> str:
        return self.tree.module_of(node).code_for_node(node)


def lies_in(file: str, folder: str) -> bool:
    """Whether a listing of the folder, or of a pattern, may name the file; both are literals of Python."""
    path, listed = (os.path.normpath(text.strip("'\"")) for text in (file, folder))
    return fnmatch.fnmatch(path, listed) or path.startswith(listed + "/") or listed == "."


def _end_of_pattern(text: cst.BaseExpression, placeholder: str) -> str:
    """What stands behind the last value that is put into the text."""
    value = text.evaluated_value if isinstance(text, (cst.SimpleString, cst.ConcatenatedString)) else None
    return re.split(placeholder, value)[-1].rpartition("/")[2] if isinstance(value, str) else ""
