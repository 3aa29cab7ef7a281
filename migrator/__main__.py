"""`python -m migrator` is `migrate`."""

from migrator.command.cli import main

main()
