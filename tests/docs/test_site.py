"""The site of the documentation is built without a warning."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lockstep

PROJECT = Path(__file__).resolve().parents[2]
PAGES = sorted((PROJECT / "docs").rglob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_each_page_is_in_the_site(site: Path) -> None:
    for page in PAGES:
        assert (site / page.relative_to(PROJECT / "docs").with_suffix(".html")).exists()


def test_runtime_api_has_every_public_name_with_its_docstring(site: Path) -> None:
    page = (site / "api.html").read_text()
    for name in lockstep.__all__:
        if not name.startswith("__"):
            assert f'id="lockstep.{name}"' in page
            summary = (getattr(lockstep, name).__doc__ or "").split()
            assert " ".join(summary[:2]) in page


def test_site_needs_no_network(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not re.search(
            r'<(?:script|link|img)[^>]*(?:src|href)="https?://(?!localhost)[^"]*\.(?:js|css|woff2?|png)"',
            page.read_text(),
        )
