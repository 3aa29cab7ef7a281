"""Call a function the moment a module has been imported, whoever imports it and however."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Callable

Hook = Callable[[ModuleType], None]


def after_import(name: str, hook: Hook) -> None:
    """Call `hook(module)` as soon as the module `name` has been executed: at once if it has been already."""
    if name in sys.modules:
        hook(sys.modules[name])
    else:
        sys.meta_path.insert(0, _HookingFinder(name, hook))


class _HookingFinder(MetaPathFinder):
    """Finds one module through the other finders (which may be of this class too)."""

    def __init__(self, name: str, hook: Hook) -> None:
        self._name = name
        self._hook = hook
        self._asking_others = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name or self._asking_others:
            return None
        self._asking_others = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking_others = False
        if spec is not None and spec.loader is not None:
            spec.loader = _HookingLoader(spec.loader, self._hook)
        return spec


class _HookingLoader(Loader):
    def __init__(self, loader: Loader, hook: Hook) -> None:
        self._loader = loader
        self._hook = hook

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._hook(module)

    def __getattr__(self, name: str) -> object:
        # Resource readers and the like belong to the module's own loader.
        return getattr(self._loader, name)
