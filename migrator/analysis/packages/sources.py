"""The source of installed packages: which module defines a name, and its tree. Nothing is imported.

Names are followed from module to module by their import statements alone; only the module that defines what is asked
for is parsed as a script is. What is too large, or can not be read, is as if it was not there.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path

import libcst as cst

from migrator.analysis.packages.wider import WiderTree
from migrator.facts.names import api
from migrator.facts.names.packages import FRAMEWORKS, is_known
from migrator.facts.program.tree import Tree
from migrator.records import dataclass
from migrator.text.parsing import ScriptSyntaxError, parse, syntax_tree
from migrator.text.source import Source, UnreadableSource

_LONGEST_MODULE = 5_000
_MOST_LINES = 15_000
_MOST_MODULES = 40
_LONGEST_WAY = 12  # from one import to the next
_LONGEST_WAY_TO_FRAMEWORK = 2
_MOST_STEPS = 120_000  # for all of a program
_MENTIONS_FRAMEWORK = re.compile(rb"tensorflow|keras")
# What the tables tell of, what is no code for Keras's tensors, and what is too large to be followed.
_NOT_READ = frozenset({
    "cupy", "datasets", "flax", "horovod", "jax", "jaxlib", "keras_hub", "mpi4py", "npu_bridge", "npu_device", "optax",
    "ray", "tensorboard", "tensorflow_datasets", "tensorflow_hub", "tensorflow_probability", "tfds", "torch",
    "torchvision", "transformers",
})  # fmt: skip


@dataclass(frozen=True)
class Place:
    """A name of a module of a package, and what is asked of it: `rest` are attributes."""

    module: str
    name: str
    rest: tuple[str, ...] = ()


@dataclass
class _Index:
    """What a module binds at its top: names that are imported, by their full names; others; `import *`."""

    imported: dict[str, str] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    stars: list[str] = field(default_factory=list)
    mentions_framework: bool = False


class Sources:
    """`folders`: the site-packages that are looked into. Shared by all runs over one program."""

    def __init__(self, folders: Sequence[Path], program: Tree) -> None:
        self._folders = folders
        self._program = program
        self._files: dict[str, Path | None] = {}
        self._indices: dict[str, _Index | None] = {}
        self._modules: dict[str, cst.Module | None] = {}
        self._places: dict[str, Place | str | None] = {}
        self._roots: dict[str, bool] = {}
        self._lines = 0
        self.steps = 0
        # What was not followed, by its dotted name: it is not tried again.
        self.given_up: set[str] = set()
        # What was, and the packages that it is of.
        self.read: dict[str, None] = {}
        self._tree: WiderTree | None = None

    @property
    def tree(self) -> WiderTree:
        """The tree of the program, and of what is read of packages."""
        if self._tree is None:
            self._tree = WiderTree(self._program)
        return self._tree

    @property
    def are_used_up(self) -> bool:
        return self.steps > _MOST_STEPS

    def has(self, path: str) -> bool:
        """Whether the name is one of a package that may be read."""
        root = path.partition(".")[0]
        known = self._roots.get(root)
        if known is None:
            known = self._roots[root] = bool(self._folders) and self._is_read(root)
        return known

    def _is_read(self, root: str) -> bool:
        if not root:  # a relative name of a module that is not there
            return False
        return not (is_known(root) or root in FRAMEWORKS or root in _NOT_READ) and self._file(root) is not None

    # -- which module defines a name -------------------------------------------------------------------------------

    def place(self, path: str) -> Place | str | None:
        """Where the dotted name is defined; its name, where it is another library's; None where it is not seen."""
        if path not in self._places:
            self._places[path] = None  # where imports go round in a circle
            self._places[path] = self._followed(path, 0)
        return self._places[path]

    def _followed(self, path: str, depth: int) -> Place | str | None:
        if not self.has(path):
            return api.canonical(path)
        module, rest = self._module_of(path)
        if not module or not rest or depth > _LONGEST_WAY:
            return None
        index = self._index(module)
        if index is None:
            return None
        if rest[0] in index.imported:
            return self._followed(".".join((index.imported[rest[0]], *rest[1:])), depth + 1)
        if rest[0] in index.defined:
            return Place(module, rest[0], tuple(rest[1:]))
        for star in index.stars:
            if self.has(star):
                found = self._followed(".".join((star, *rest)), depth + 1)
                if found is not None:
                    return found
        return None

    def starred(self, module: str, name: str) -> str:
        """The full name of what an `import *` of the module may give; empty where none does."""
        index = self._index(module)
        for star in index.stars if index is not None else ():
            if not self.has(star) or self._followed(f"{star}.{name}", 0) is not None:
                return f"{star}.{name}"
        return ""

    def absolute(self, module: str, name: str) -> str:
        """`package.losses` for `.losses` in a module of the package."""
        plain = name.lstrip(".")
        level = len(name) - len(plain)
        if not level:
            return name
        parts = module.split(".")
        file = self._file(module)
        if file is None or file.name != "__init__.py":
            parts = parts[:-1]
        parts = parts[: len(parts) - (level - 1)]
        return ".".join((*parts, plain)) if plain else ".".join(parts)

    def _module_of(self, path: str) -> tuple[str, list[str]]:
        """The longest part of the name that is a module, and the rest."""
        parts = path.split(".")
        for length in range(len(parts), 0, -1):
            name = ".".join(parts[:length])
            if self._file(name) is not None:
                return name, parts[length:]
        return "", parts

    def _file(self, module: str) -> Path | None:
        if module not in self._files:
            inside = Path(*module.split("."))
            tried = (
                folder / path
                for folder in self._folders
                for path in (inside / "__init__.py", inside.with_name(f"{inside.name}.py"))
            )
            self._files[module] = next((path for path in tried if os.path.isfile(path)), None)
        return self._files[module]

    def _text(self, module: str) -> tuple[bytes, str] | None:
        file = self._file(module)
        try:
            data = file.read_bytes() if file is not None else b""
            return (data, Source.decode(data).text) if data.count(b"\n") <= _LONGEST_MODULE else None
        except (OSError, UnreadableSource):
            return None

    def _index(self, module: str) -> _Index | None:
        if module not in self._indices:
            self._indices[module] = self._indexed(module)
        return self._indices[module]

    def _indexed(self, module: str) -> _Index | None:
        text = self._text(module) if len(self._indices) < 4 * _MOST_MODULES else None
        try:
            tree = syntax_tree(text[1]) if text is not None else None
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        if text is None or tree is None:
            return None
        index = _Index(mentions_framework=_MENTIONS_FRAMEWORK.search(text[0]) is not None)
        for node in _top_statements(tree.body):
            if isinstance(node, ast.ImportFrom):
                source = self.absolute(module, "." * node.level + (node.module or ""))
                for alias in node.names:
                    if alias.name == "*":
                        index.stars.append(source)
                    else:
                        index.imported.setdefault(alias.asname or alias.name, f"{source}.{alias.name}")
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    wanted = alias.name if alias.asname else alias.name.partition(".")[0]
                    index.imported.setdefault(alias.asname or wanted, wanted)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                index.defined.add(node.name)
            else:
                index.defined.update(n.id for n in ast.walk(node) if isinstance(n, ast.Name) and _is_stored(n))
        return index

    # -- the module itself -----------------------------------------------------------------------------------------

    def module(self, name: str, *, needs_framework: bool) -> cst.Module | None:
        """The module with all its nodes in the tree; None where it is not read."""
        if name not in self._modules:
            if self._index(name) is None or (needs_framework and not self._is_about_tensors(name, 0)):
                return None
            self._modules[name] = self._parsed(name)
        return self._modules[name]

    def _is_about_tensors(self, module: str, depth: int) -> bool:
        """Whether the module, or one of the package that it imports, mentions TensorFlow or Keras."""
        index = self._index(module)
        if index is None or index.mentions_framework or depth > _LONGEST_WAY_TO_FRAMEWORK:
            return index is not None and index.mentions_framework
        root = module.partition(".")[0]
        sources = {*index.stars, *(self._module_of(path)[0] for path in index.imported.values() if self.has(path))}
        return any(
            self._is_about_tensors(other, depth + 1)
            for other in sources
            if other != module and other.partition(".")[0] == root
        )

    def _parsed(self, name: str) -> cst.Module | None:
        found = self._text(name)
        if found is None or len(self._modules) >= _MOST_MODULES:
            return None
        self._lines += found[1].count("\n")
        if self._lines > _MOST_LINES:
            return None
        try:
            module = parse(found[1])
        except ScriptSyntaxError:
            return None
        self.tree.add(module)
        return module


def _is_stored(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _top_statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run where the module is imported, those in the blocks of others among them."""
    for node in body:
        if isinstance(node, (ast.If, ast.Try, ast.With)):
            for block in (node.body, getattr(node, "orelse", ()), getattr(node, "finalbody", ())):
                yield from _top_statements(block)
            for handler in getattr(node, "handlers", ()):
                yield from _top_statements(handler.body)
        else:
            yield node
