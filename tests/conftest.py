"""How `make test` shares the tests out to its processes: in groups that share what is costly to make."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.hookimpl(optionalhook=True)  # only `make test` needs pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class GroupScheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return GroupScheduling(config, log)


def group_of(nodeid: str) -> str:
    """The campaign of all runs, a job of many checks, a file with an environment of its own; else the test alone."""
    path, _, test = nodeid.partition("::")
    _, folder, *_ = path.split("/")
    if folder in ("equality", "soundness"):
        return folder
    if path.endswith("/test_programs.py"):
        return test.rpartition("-")[0]
    return path if folder != "runtime" or path.endswith("/test_restart.py") else nodeid
