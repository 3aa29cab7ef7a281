"""Finds the line that used TensorFlow before lockstep was imported, as far as what is left of it tells."""

from __future__ import annotations

import ast
import contextlib
import linecache
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from lockstep.script import lines

# By name, since it is the values' own classes that tell, whichever Keras they come from.
_HOLDS_TENSORS = {
    "Tensor": "tensor",
    "EagerTensor": "tensor",
    "Variable": "variable",
    "BaseResourceVariable": "variable",
    "DatasetV2": "dataset",
    "Layer": "layer or model",
    "BaseOptimizer": "optimizer",
    "OptimizerV2": "optimizer",
    "Generator": "random generator",
}


def first_use() -> str:
    """A sentence that names the first line which made a tensor or the like; "" where nothing is left of it.

    Looks at what the user's modules hold now, the module that is being run first.
    """
    modules = [sys.modules.get("__main__"), *list(sys.modules.values())]
    for module in modules:
        file = getattr(module, "__file__", None)
        if isinstance(module, ModuleType) and isinstance(file, str) and lines.is_of_script(file):
            found = min(_makers(module, file), default=None)
            if found is not None:
                number, kind = found
                line = linecache.getline(file, number).strip()
                return f'The first {kind} was made by "{line}" ({lines.shown(file)}:{number}). '
    return ""


def _makers(module: ModuleType, file: str) -> Iterator[tuple[int, str]]:
    """The lines that assigned module-level names which hold something of TensorFlow, and its kind."""
    kinds = {name: kind for name, value in list(vars(module).items()) for kind in _kinds(value)}
    with contextlib.suppress(SyntaxError, ValueError):
        for node in ast.walk(ast.parse("".join(linecache.getlines(file)))):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in kinds:
                yield node.lineno, kinds[node.id]


def _kinds(value: Any) -> list[str]:
    if isinstance(value, type) or not type(value).__module__:
        return []
    classes = [
        cls for cls in type(value).__mro__ if cls.__module__.split(".")[0] in ("tensorflow", "keras", "tf_keras")
    ]
    return [_HOLDS_TENSORS[cls.__name__] for cls in classes if cls.__name__ in _HOLDS_TENSORS][:1]
