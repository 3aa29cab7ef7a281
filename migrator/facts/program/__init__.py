"""The parsed files of a program, as they stand."""

from migrator.facts.program.nodes import quicken

quicken()
