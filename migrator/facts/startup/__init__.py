"""How the files of a program start: where the runtime is imported."""
