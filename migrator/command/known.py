"""A look at files that were looked at before, with the same options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from migrator.command.cache import Cache, Look, folder_of
from migrator.command.environment import NoEnvironment, site_packages
from migrator.command.settings import Settings

if TYPE_CHECKING:
    from migrator.command.run import Run

_TELLING = frozenset(
    {
        "output_format", "output_file", "report", "statistics", "exit_zero", "quiet", "jobs", "time_limit",
        "baseline", "prune_baseline", "cache", "cache_dir",
    }
)  # fmt: skip


class Known:
    """What is known of the files from a run before. `result` is None where that is nothing, or no longer true."""

    def __init__(
        self, given: Mapping[str, Any], settings: Settings, paths: Sequence[Path], cache_dir: str | None
    ) -> None:
        """`given`: all parameters of the command."""
        # All that is given counts but for what only changes how the outcome is told.
        question = {name: value for name, value in given.items() if name not in _TELLING}
        question["packages"] = _installed(settings)
        self._cache = Cache(folder_of(cache_dir), {**question, "settings": settings})
        self._look = Look.at(paths, settings.filter())
        self.result = self._cache.recall(self._look) if self._look is not None else None

    def remember(self, run: Run) -> None:
        if self._look is not None:
            self._cache.remember(self._look, run.result, run.around)


def _installed(settings: Settings) -> list[tuple[str, int]]:
    """The folders of the packages that are read, and when something was last put there or taken away."""
    try:
        return [(str(folder), folder.stat().st_mtime_ns) for folder in site_packages(settings.python)]
    except (OSError, NoEnvironment):
        return []
