"""`python -m migrator` is `migrate`."""

from migrator.cli import main

main()
