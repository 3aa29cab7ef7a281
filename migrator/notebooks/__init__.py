"""Notebooks as scripts of cells: the rules see one script, its changes go back to the cells that they are of."""
