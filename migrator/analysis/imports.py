"""What an import statement binds: files of the program, or names of other libraries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import named_modules
from migrator.analysis import values as v
from migrator.analysis.values import External, File, Value
from migrator.facts.names import api
from migrator.facts.names.starred import lends
from migrator.facts.program.modules import Modules, module_name
from migrator.facts.program.syntax import dotted
from migrator.facts.program.tree import Tree

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_LENDS_NAMES = ("tensorflow", "keras", "tf_keras", "math", "numpy")


class Imports:
    def __init__(self, tree: Tree, modules: Modules, run: Run) -> None:
        self.tree = tree
        self.modules = modules
        self.run = run
        self._starred: dict[cst.Module, list[cst.ImportFrom]] = defaultdict(list)
        for node in tree.imports:
            if isinstance(node, cst.ImportFrom) and isinstance(node.names, cst.ImportStar):
                self._starred[tree.module_of(node)].append(node)

    @cached_property
    def started(self) -> tuple[cst.Module, ...]:
        """The files that no other one imports: one of them is `__main__`."""
        imported: set[cst.Module | None] = set()
        for node in self.tree.imports:
            importer = self.tree.module_of(node)
            if isinstance(node, cst.ImportFrom):
                names = [alias.name for alias in node.names] if not isinstance(node.names, cst.ImportStar) else []
                source = module_name(node)
                parts = [f"{source}{'' if source.endswith('.') else '.'}{dotted(name)}" for name in names]
                imported.update(self.modules.named(importer, each) for each in (source, *parts))
            else:
                imported.update(self.modules.named(importer, dotted(alias.name)) for alias in node.names)
        return tuple(module for module in self.tree.modules if module not in imported)

    def bound_by(self, node: cst.Import | cst.ImportFrom, importer: cst.Module) -> Iterator[tuple[str, Value]]:
        if isinstance(node.names, cst.ImportStar):
            yield from self._lent(node, importer)
            return
        packages = self.run.packages.modules
        is_of_package = importer in packages
        for alias in node.names:
            full = dotted(alias.name)
            name = (
                alias.asname.name.value if alias.asname is not None and isinstance(alias.asname.name, cst.Name) else ""
            )
            if isinstance(node, cst.ImportFrom) and is_of_package:
                source = packages.absolute(importer, module_name(node))
                yield name or full, v.of(External(api.canonical(f"{source}.{full}")))
            elif isinstance(node, cst.ImportFrom):
                yield name or full, self._from(node, full, importer)
            elif full == named_modules.MAIN and not is_of_package:
                yield name or full, named_modules.told(self.run, full, node)
            else:
                wanted = full if name else full.split(".")[0]
                module = self.modules.named(importer, wanted) if not is_of_package else None
                yield name or wanted, v.of(File(module) if module is not None else External(api.canonical(wanted)))

    def _lent(self, node: cst.ImportFrom, importer: cst.Module) -> Iterator[tuple[str, Value]]:
        """What the `import *` of another file of the program binds: what that has by then, its own `import *` too."""
        module = self.modules.named(importer, module_name(node)) if importer not in self.run.packages.modules else None
        frame = self.run.frames.get(module) if module is not None and module is not importer else None
        if frame is None or frame.names is None:
            return
        for name, value in frame.names.items():
            if name.startswith("_"):
                continue
            self.run.calls.note_read(frame, name, value)
            yield name, value if "__all__" not in frame.names else self._if_in_all(name, value, importer)

    def _if_in_all(self, name: str, value: Value, importer: cst.Module) -> Value:
        """What a name is that a module with `__all__` may lend or not: where the file has another, which of them."""
        own = (self.run.frames[importer].names or {}).get(name, value)
        return value if own == value else v.unseen(f"whether `import *` gives {name} is not seen")

    def _from(self, node: cst.ImportFrom, name: str, importer: cst.Module) -> Value:
        source = module_name(node)
        if source == named_modules.MAIN:
            return self.run.objects.attribute(named_modules.told(self.run, source, node), name, node)
        module = self.modules.named(importer, source)
        if module is not None:
            return self.member(module, name)
        inside = self.modules.named(importer, source + name if source.endswith(".") else f"{source}.{name}")
        return v.of(File(inside) if inside is not None else External(api.canonical(f"{source}.{name}")))

    def member(self, module: cst.Module, name: str) -> Value:
        """What the name is in another file of the program, once that has run."""
        frame = self.run.frames.get(module)
        if frame is not None and frame.names is not None and name in frame.names:
            value = frame.names[name]
            self.run.calls.note_read(frame, name, value)
            return value
        inside = self.modules.submodule(module, name)
        if inside is not None:
            return v.of(File(inside))
        starred = self.starred(name, module)
        return starred if starred is not None else v.unseen(f"{name} is not seen in that file")

    def starred(self, name: str, importer: cst.Module) -> Value | None:
        """What the name may be by the file's `from … import *`."""
        if importer in self.run.packages.modules:
            return self.run.packages.modules.starred(importer, name)
        own = self.run.frames.get(importer)
        if own is not None and own.names is not None and name in own.names:
            self.run.calls.note_read(own, name, own.names[name])
            return own.names[name]
        for node in self._starred.get(importer, ()):
            module = self.modules.named(importer, module_name(node))
            if module is not None and module is not importer:
                frame = self.run.frames.get(module)
                if frame is not None and name in (frame.names or {}):
                    return (frame.names or {})[name]
            elif module_name(node).split(".")[0] in _LENDS_NAMES and lends(module_name(node), name):
                return v.of(External(api.canonical(f"{module_name(node)}.{name}")))
        return None
