"""Stands in for the package `migrator.rules` in a source checkout.

The rule modules live in the repository's top-level folder `rules/`; the wheel ships that folder as
`migrator/rules`. A module with a `__path__` is a package, so `migrator.rules.<name>` works in both.
"""

from pathlib import Path

__path__ = [str(Path(__file__).resolve().parent.parent / "rules")]
