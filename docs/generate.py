"""Writes the pages of this folder that are printed from the code.

    python docs/generate.py

tests/docs/test_generated_pages.py fails when a page is stale.
"""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

sys.path.insert(0, str(FOLDER))

from refusals import refusals_page  # noqa: E402

from migrator.analysis.ops import rows  # noqa: E402
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


def ops_page() -> str:
    """docs/ops.md: what the tables know of each op."""
    parts = [
        "# Ops",
        "",
        "Printed from the tables of `migrator/analysis/ops` by `make docs`. Each row is proven by `tests/analysis`:",
        "the op on a whole batch against the op on its uneven parts, values and gradients. An op that is not here",
        "counts as one that needs the whole batch. `last 2,1->2`: works on the last axes of its operands, so many of",
        "each; all others are batch axes.",
    ]
    libraries: dict[str, dict[tuple[str, str], list[str]]] = {}
    for op in rows():
        library, _, name = op.path.partition(".")
        libraries.setdefault(library, {}).setdefault((op.kind_name, op.note), []).append(f"`{name}`")
    for library, kinds in libraries.items():
        parts += ["", f"## {library}", "", "| kind | ops |", "|---|---|"]
        parts += [f"| {kind}{note and f' ({note})'} | {' '.join(names)} |" for (kind, note), names in kinds.items()]
    return "\n".join(parts) + "\n"


PAGES = {FOLDER / "rules.md": rules_page, FOLDER / "ops.md": ops_page, FOLDER / "refusals.md": refusals_page}


if __name__ == "__main__":
    for path, page in PAGES.items():
        path.write_text(page(), encoding="utf-8")
