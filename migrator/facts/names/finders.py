"""What finds functions and classes by names that a program makes while it runs."""

from __future__ import annotations

# Modules, functions, methods and tables, in whatever sense the name stands in the program.
FINDERS = frozenset({
    "__builtins__", "__dict__", "__getattribute__", "__globals__", "__import__", "argh", "attrgetter",
    "builtins", "defopt", "doctest", "eval", "exec", "f_globals", "f_locals", "fire", "getmembers", "globals",
    "import_module", "importlib", "inspect", "instantiate", "locals", "locate", "methodcaller", "modules", "pkgutil",
    "pydoc", "pytest", "resolve_name", "runpy", "unittest", "vars",
})  # fmt: skip
