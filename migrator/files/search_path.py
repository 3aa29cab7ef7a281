"""The folders that scripts add to Python's search path, where they are written out: `sys.path.append("utils")`."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product
from pathlib import Path

_SPEAKS_OF_IT = re.compile(rb"\bsys\b[\s\S]*\bpath\b|\baddsitedir\b")
_ADDING = {"append": 0, "insert": 1, "extend": 0}
# Functions of `os.path`, and methods of paths, that give the same folder by another name.
_SAME = frozenset({"abspath", "realpath", "normpath", "expanduser", "resolve", "absolute", "as_posix", "fspath", "str"})
_PATHS = frozenset({"Path", "PurePath", "PosixPath"})
_NAMED = {"pardir": "..", "curdir": ".", "sep": os.sep}
_DEEPEST = 8
_HIGHEST = 3  # folders above the file, beside which what is relative may lie
_MOST = 16  # folders that one expression may stand for
# What is installed there is no file of the user's.
_OF_PACKAGES = frozenset({"site-packages", "dist-packages"})


def added_by(files: Mapping[Path, bytes]) -> list[Path]:
    """The folders that the files add to the search path, each once. What is written relative to the folder that the
    script is started in, which is not known, may lie beside the file or in one of the folders above it."""
    found: dict[Path, None] = {}
    for path, data in files.items():
        if _SPEAKS_OF_IT.search(data):
            found.update(dict.fromkeys(_folders(path, data)))
    return list(found)


def _folders(path: Path, data: bytes) -> Iterator[Path]:
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    reader = _Reader(tree, path)
    for added in _additions(tree):
        for text in reader.texts(added):
            for above in list(path.parents)[:_HIGHEST]:
                folder = Path(os.path.normpath(above / text))
                if folder.parent != folder and _OF_PACKAGES.isdisjoint(folder.parts):
                    yield folder
                if os.path.isabs(text):
                    break


def _additions(tree: ast.Module) -> Iterator[ast.expr]:
    """What is added to the search path: folders, and lists of them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            place = _ADDING.get(node.func.attr)
            if node.func.attr == "addsitedir" and node.args:
                yield node.args[0]
            elif place is not None and _is_search_path(node.func.value) and len(node.args) > place:
                yield node.args[place]
        elif isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(map(_is_search_path, targets)):
                yield node.value


def _is_search_path(node: ast.expr) -> bool:
    """`sys.path`, or a slice of it."""
    if isinstance(node, ast.Subscript):
        node = node.value
    if not isinstance(node, ast.Attribute) or node.attr != "path":
        return False
    return isinstance(node.value, ast.Name) and node.value.id in ("sys", "_sys")


class _Reader:
    """Reads expressions that stand for paths; what is not written out stands for none."""

    def __init__(self, tree: ast.Module, file: Path) -> None:
        self._file = file
        self._given: dict[str, list[ast.expr]] = {}
        functions: dict[str, list[str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._give(target, node.value)
            elif isinstance(node, ast.For):
                self._give(node.target, node.iter)
            elif isinstance(node, ast.FunctionDef):
                functions[node.name] = [a.arg for a in node.args.args]
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                for name, given in zip(functions.get(node.func.id, ()), node.args):
                    self._given.setdefault(name, []).append(given)

    def _give(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._given.setdefault(target.id, []).append(value)

    def texts(self, node: ast.expr, depth: int = 0) -> list[str]:
        """The paths that the expression may stand for, those of a list among them."""
        found = self._texts(node, depth + 1) if depth < _DEEPEST else []
        return list(dict.fromkeys(found))[:_MOST]

    def _texts(self, node: ast.expr, depth: int) -> list[str]:
        if isinstance(node, ast.Constant):
            return [node.value] if isinstance(node.value, str) else []
        if isinstance(node, (ast.List, ast.Tuple)):
            return [text for item in node.elts for text in self.texts(item, depth)]
        if isinstance(node, ast.Name):
            if node.id == "__file__":
                return [str(self._file)]
            given = self._given.pop(node.id, [])  # what is made of itself is not asked for again
            found = [text for part in given[:_MOST] for text in self.texts(part, depth)]
            self._given[node.id] = given
            return found
        if isinstance(node, ast.Attribute):
            return self._attribute(node, depth)
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "parents":
            return self._parents(node.value.value, node.slice, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.Add)):
            # A list that is added to the search path; else what is written behind a path.
            if _is_search_path(node.left) or _is_search_path(node.right):
                return [*self.texts(node.left, depth), *self.texts(node.right, depth)]
            several = _together([self.texts(node.left, depth), self.texts(node.right, depth)])
            return [os.path.join(*two) if isinstance(node.op, ast.Div) else "".join(two) for two in several]
        if isinstance(node, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.FormattedValue) else p for p in node.values]
            return ["".join(texts) for texts in _together([self.texts(part, depth) for part in parts])]
        return self._call(node, depth) if isinstance(node, ast.Call) else []

    def _attribute(self, node: ast.Attribute, depth: int) -> list[str]:
        if node.attr == "parent":
            return [os.path.dirname(text) for text in self.texts(node.value, depth)]
        return [_NAMED[node.attr]] if node.attr in _NAMED else []

    def _parents(self, node: ast.expr, index: ast.expr, depth: int) -> list[str]:
        if not isinstance(index, ast.Constant) or not isinstance(index.value, int):
            return []
        above = (Path(text).parents for text in self.texts(node, depth))
        return [str(parents[index.value]) for parents in above if 0 <= index.value < len(parents)]

    def _call(self, node: ast.Call, depth: int) -> list[str]:
        func = node.func
        name = func.attr if isinstance(func, ast.Attribute) else func.id if isinstance(func, ast.Name) else ""
        if name in ("getcwd", "cwd") and not node.args:
            return ["."]
        # `Path("a").joinpath("b")`, where `os.path.join("a", "b")` has all of it between its brackets.
        inner = [func.value] if isinstance(func, ast.Attribute) and self.texts(func.value, depth) else []
        parts = [self.texts(part, depth) for part in (*inner, *node.args)]
        if name == "dirname":
            return [os.path.dirname(text) for text in parts[-1]] if parts else []
        if name in _SAME:
            return parts[0] if parts else []
        if name in ("join", "joinpath", *_PATHS) and parts:
            return [os.path.join(*texts) for texts in _together(parts)]
        return []


def _together(parts: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    """One of each, not more than a path may stand for: parts of many choices have them multiplied."""
    return islice(product(*parts), _MOST)
