"""The command of the terminal: its options and settings, a run over files, what it prints, asks and remembers."""
