"""Fills the template."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from migrator.findings.results import RunResult
from migrator.report.page.paint import styles
from migrator.report.page.view import page_view


def page(result: RunResult, *, is_dry: bool) -> str:
    """The whole page."""
    folder = Path(__file__).parent
    environment = Environment(loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined)
    environment.trim_blocks = environment.lstrip_blocks = True
    texts = {name: (folder / f"page.{name}").read_text(encoding="utf-8") for name in ("css", "js")}
    template = environment.get_template("page.html")
    return template.render(page=page_view(result, is_dry=is_dry), styles=styles(), **texts)
