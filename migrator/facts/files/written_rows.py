"""Statements in a row that write one file: `file = open(path, "w")`, loops that write to it, `file.close()`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import cast

import libcst as cst

from migrator.facts.objects.kinds import Kinds
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, calls
from migrator.facts.program.tree import Statement, Tree, semantic_children

# Functions, and methods of the values of Python, NumPy and Keras, that change nothing which the other workers have too.
_PURE = re.compile(
    r"^(?:builtins\.(?:str|repr|len|range|enumerate|zip|sorted|reversed|min|max|sum|float|int|round|list|tuple|dict|set"
    r"|bool|abs|format|bytes|type)|json\.dumps|math\.\w+|os\.path\.\w+|numpy\.(?!random\.)[\w.]+|cv2\.cvtColor"
    r"|tensorflow\.train\.(?:Example|Features?|BytesList|FloatList|Int64List)|tensorflow\.io\.serialize_tensor)$"
)
_PURE_METHODS = frozenset({
    "join", "format", "encode", "decode", "strip", "rstrip", "lstrip", "split", "replace", "ljust", "rjust", "zfill",
    "lower", "upper", "items", "keys", "values", "get", "numpy", "tolist", "astype", "reshape", "flatten", "tobytes",
    "mean", "sum", "min", "max", "std", "get_weights", "get_vocabulary", "get_config", "to_json", "SerializeToString",
})  # fmt: skip
# What is used up by the one who reads it.
_READ_ONCE = frozenset({
    "builtins.iter", "builtins.zip", "builtins.map", "builtins.filter", "builtins.enumerate", "builtins.open",
    "csv.reader", "csv.DictReader",
})  # fmt: skip


class WrittenRows:
    def __init__(self, tree: Tree, resolver: Resolver, kinds: Kinds, is_opening: Callable[[cst.Call], bool]) -> None:
        self.tree = tree
        self.resolver = resolver
        self.kinds = kinds
        self.is_opening = is_opening

    def row(self, call: cst.Call) -> tuple[Statement, ...]:
        """The statements from the one that opens the file, and keeps it under a name, to the last that uses the name;
        none where they do more than write, or where the file is used elsewhere."""
        first = self.tree.statement_of(call)
        block = self.tree.block_of(first)
        if not isinstance(block, (cst.Module, cst.IndentedBlock)) or isinstance(
            self.tree.parent.get(block), cst.ClassDef
        ):
            return ()
        lines = cast("list[Statement]", list(block.body))
        start = place = end = lines.index(first)
        files: set[str] = set()
        while place <= end:
            kept = self._kept(lines[place], files)
            if kept is not None:
                files.add(kept.value)
                used = [lines.index(s) if s is not None else -1 for s in self._uses(kept, block)]
                if min(used, default=place) < place:
                    return ()
                end = max(end, *used) if used else end
            elif not self._only_writes(lines[place], files, in_loop=False):
                return ()
            place += 1
        return tuple(lines[start : end + 1]) if files else ()

    def _kept(self, line: Statement, files: set[str]) -> cst.Name | None:
        """The name that a line gives to a file which it opens, or to what it makes of one (`csv.writer(file)`)."""
        small = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
        if not isinstance(small, cst.Assign) or len(small.targets) != 1 or not isinstance(small.value, cst.Call):
            return None
        target = small.targets[0].target
        is_file = self.is_opening(small.value) or self._is_on(small.value, files)
        is_file = is_file and all(map(self._is_pure, self._calls_in(small.value, but=small.value)))
        return target if isinstance(target, cst.Name) and is_file else None

    def _uses(self, name: cst.Name, block: cst.CSTNode) -> Iterator[Statement | None]:
        """The statements of the block that hold the uses of the name; None for those elsewhere."""
        assign = self.tree.parent[self.tree.parent[name]]
        for use in self.tree.names[name.value]:
            is_use = self.tree.is_read(use) or isinstance(self.tree.parent.get(use), cst.Del)
            if is_use and any(binding.node is assign for binding in self.resolver.reaching(use)):
                yield self.tree.lift(use, block)

    def _only_writes(self, node: cst.CSTNode, files: set[str], in_loop: bool) -> bool:
        if isinstance(node, cst.SimpleStatementLine):
            return all(self._is_writing(small, files, in_loop) for small in node.body)
        if isinstance(node, cst.SimpleStatementSuite):
            return all(self._is_writing(small, files, in_loop) for small in node.body)
        if isinstance(node, cst.IndentedBlock):
            return all(self._only_writes(line, files, in_loop) for line in node.body)
        if isinstance(node, cst.Else):
            return self._only_writes(node.body, files, in_loop)
        if isinstance(node, cst.If):
            parts = [part for part in (node.body, node.orelse) if part is not None]
            return self._is_harmless(node.test) and all(self._only_writes(part, files, in_loop) for part in parts)
        if isinstance(node, cst.For):
            can_be_read_again = node.orelse is None and not any(map(self._is_read_once, self.tree.names_in(node.iter)))
            return can_be_read_again and self._is_harmless(node.iter) and self._only_writes(node.body, files, True)
        return False

    def _is_writing(self, small: cst.CSTNode, files: set[str], in_loop: bool) -> bool:
        """Whether the statement writes to the files, or makes a name for what is written."""
        if isinstance(small, cst.Pass):
            return True
        if isinstance(small, (cst.Continue, cst.Break)):
            return in_loop
        if isinstance(small, cst.Assign):
            targets = [target.target for target in small.targets]
            return self._is_harmless(small.value) and all(
                isinstance(t, cst.Name) or (isinstance(t, cst.Subscript) and self._root(t) in files) for t in targets
            )
        if isinstance(small, cst.AugAssign):
            return self._is_text_or_number(small.target) and self._is_harmless(small.value)
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call) and self._is_on(small.value, files):
            return all(map(self._is_pure, self._calls_in(small.value, but=small.value)))
        return False

    def _is_text_or_number(self, target: cst.BaseExpression) -> bool:
        """Whether what is added to the name cannot change a list or an array that has other names."""
        bindings = self.tree.scope_of(target).bindings[target.value] if isinstance(target, cst.Name) else []
        plain = (cst.BaseString, cst.BaseNumber)
        return bool(bindings) and all(isinstance(b.value, plain) or isinstance(b.node, cst.AugAssign) for b in bindings)

    def _is_on(self, call: cst.Call, files: set[str]) -> bool:
        """`file.write(text)`, `json.dump(numbers, file)`, `print(text, file=file)`"""
        if isinstance(call.func, cst.Attribute) and self._root(call.func) in files:
            return True
        is_function = any(isinstance(v, External) for v in self.resolver.values(call.func))
        return is_function and any(isinstance(a.value, cst.Name) and a.value.value in files for a in call.args)

    def _root(self, node: cst.BaseExpression) -> str:
        while isinstance(node, (cst.Attribute, cst.Subscript)):
            node = node.value
        return node.value if isinstance(node, cst.Name) else ""

    def _is_harmless(self, value: cst.BaseExpression) -> bool:
        return all(map(self._is_pure, self._calls_in(value)))

    def _calls_in(self, node: cst.CSTNode, but: cst.Call | None = None) -> Iterator[cst.CSTNode]:
        """The nodes in this one that may change something."""
        if isinstance(node, (cst.Call, cst.NamedExpr, cst.Yield, cst.Await)) and node is not but:
            yield node
        for child in semantic_children(node):
            yield from self._calls_in(child, but)

    def _is_pure(self, node: cst.CSTNode) -> bool:
        if not isinstance(node, cst.Call):
            return False
        values = self.resolver.values(node.func)
        if any(isinstance(v, Function) for v in values):
            return False
        if any(isinstance(v, External) and _PURE.match(v.path) for v in values):
            return True
        return isinstance(node.func, cst.Attribute) and node.func.attr.value in _PURE_METHODS

    def _is_read_once(self, name: cst.Name) -> bool:
        bindings = self.resolver.reaching(name)
        if any(isinstance(binding.value, cst.GeneratorExp) for binding in bindings):
            return True
        return any(self.kinds.is_dataset(v) or calls(v) in _READ_ONCE for v in self.resolver.values(name))
