"""Spells the calls of the bundled runtime `lockstep`."""

from __future__ import annotations

MODULE = "lockstep"


def call(runtime: str, function: str, *args: str) -> str:
    return f"{runtime}.{function}({', '.join(args)})"


def import_statement(name: str) -> str:
    """`import lockstep`, under another name where the script has taken that one."""
    return f"import {MODULE}" if name == MODULE else f"import {MODULE} as {name}"
