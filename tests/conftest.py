"""Which tests `make test` may run at the same time: its processes each take whole groups of tests."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist looks for the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.xdist_group(_group(item)))


def _group(item: pytest.Item) -> str:
    """Tests that share what is costly to make: the campaign of runs, a job of many checks, an installed package."""
    folder, *_ = item.path.relative_to(HERE).parts
    if folder == "equality":
        return folder
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    if "job" in parameters:
        return f"{parameters['job'].program} {parameters['job']}"
    return str(item.path) if folder != "runtime" or item.path.name == "test_restart.py" else item.nodeid
