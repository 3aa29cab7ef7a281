"""The parsed files of a program, as they stand."""
