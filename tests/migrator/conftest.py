from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from command import TRAINING
from second_run import checked

from migrator import engine
from migrator.command import run


@pytest.fixture(autouse=True, scope="session")
def every_migration_is_checked() -> Iterator[None]:
    """`migrate --check` accepts what `migrate` wrote, in whichever test it was written."""
    patch = pytest.MonkeyPatch()
    both = checked(engine.migrate_program)
    patch.setattr(engine, "migrate_program", both)
    patch.setattr(run, "migrate_program", both)
    yield
    patch.undo()


@pytest.fixture(autouse=True)
def nothing_is_known_from_before(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIGRATE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAINING)
    return path
