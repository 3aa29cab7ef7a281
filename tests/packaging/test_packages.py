"""The packages of the runtime build on each other in one direction."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

RUNTIME = Path(__file__).resolve().parents[2] / "lockstep"
# From the ground up: a package imports what stands in the lines above its own.
LEVELS = (
    ("_errors", "_version"),
    ("cluster", "peers", "script"),
    ("backends", "shards"),
    ("collectives",),
    ("data", "weights"),
    ("training",),
    ("_api",),
    ("__init__",),
    ("launcher",),
    ("cli",),
    ("__main__",),
)
LEVEL_OF = {name: level for level, names in enumerate(LEVELS) for name in names}


def imported(file: Path) -> Iterator[str]:
    """The packages and modules right below `lockstep` that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            package, _, rest = name.partition(".")
            if package == "lockstep":
                yield rest.partition(".")[0] or "__init__"


@pytest.mark.parametrize("file", sorted(RUNTIME.rglob("*.py")), ids=lambda file: str(file.relative_to(RUNTIME)))
def test_a_module_imports_only_from_its_own_package_and_those_below(file: Path) -> None:
    own = file.relative_to(RUNTIME).parts[0].removesuffix(".py")
    wrong = [name for name in imported(file) if name != own and LEVEL_OF[name] >= LEVEL_OF[own]]
    assert not wrong


@pytest.mark.skipif(sys.version_info < (3, 10), reason="older Pythons do not name their modules")
def test_no_module_beside_mpi_rank_hides_one_of_python() -> None:
    """It is run by its path, so its folder comes first on the path of the process."""
    beside = {path.stem for path in (RUNTIME / "cluster").iterdir()}
    assert "mpi_rank" in beside
    assert not beside & set(sys.stdlib_module_names)
