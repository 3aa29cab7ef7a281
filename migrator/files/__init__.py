"""The files of a run: which there are, which of them make a program, and how they are replaced."""
