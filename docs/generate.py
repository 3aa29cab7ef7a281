"""Writes the pages of this folder that are printed from the code.

    python docs/generate.py

tests/migrator/test_docs.py fails when a page is stale.
"""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

from migrator.registry import all_rules  # noqa: E402


def rules_page() -> str:
    """docs/rules.md: the manuals of all rules, as `migrate --explain` prints them."""
    rules = all_rules().values()
    parts = [
        "# Rules",
        "",
        "Printed from the rules' own docstrings by `make docs`; `migrate --explain RULE` prints one of them.",
        "",
        "| rule | what it does |",
        "|---|---|",
        *(f"| [{rule.id}](#{rule.id}) | {rule.summary} |" for rule in rules),
    ]
    for rule in rules:
        parts += ["", f"## {rule.id}", "", _as_markdown(rule.manual)]
    return "\n".join(parts) + "\n"


def _as_markdown(manual: str) -> str:
    """Indented examples become fenced blocks of Python."""
    lines: list[str] = []
    inside = False
    for line in manual.splitlines():
        indented = line.startswith("    ")
        if indented and not inside:
            lines += ["", "```python"]
        elif inside and not indented and line:
            lines += ["```", ""]
        elif inside and not line:
            lines.append("```")
        inside = indented
        lines.append(line[4:] if indented else line)
    if inside:
        lines.append("```")
    return "\n".join(lines)


PAGES = {FOLDER / "rules.md": rules_page}


if __name__ == "__main__":
    for path, page in PAGES.items():
        path.write_text(page(), encoding="utf-8")
