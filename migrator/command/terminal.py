"""What any command of a terminal has to answer: Ctrl-C, streams that are full or closed, colours, empty paths."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

ERROR, INTERRUPTED = 2, 130
# What may connect workers; the first by default.
BACKENDS = ("tensorflow", "mpi", "horovod")


class Path(click.Path):
    """A path that is not empty: the empty one would be the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("an empty path names nothing", param, ctx)
        return super().convert(value, param, ctx)


class Command(click.Command):
    """Ends as a command should: on Ctrl-C and on streams that are full or closed, with or without colours."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        kwargs.setdefault("color", _colour())
        with _interruptible():
            return super().make_context(*args, **kwargs)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            complain(f"error: standard output: {error.strerror}")
            sys.exit(ERROR)

    def invoke(self, ctx: click.Context) -> Any:
        with _interruptible():
            return super().invoke(ctx)


@contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        complain("interrupted: nothing was written")
        sys.exit(INTERRUPTED)


def _colour() -> bool | None:
    """Whether to colour the output: as no-color.org and force-color.org have it; None where the stream decides."""
    if os.environ.get("NO_COLOR"):
        return False
    return True if os.environ.get("FORCE_COLOR", "0") not in ("", "0") else None


def colour(context: click.Context, _: click.Parameter, when: str) -> None:
    """The option --color: what it says counts more than the variables of the environment."""
    if when != "auto":
        context.color = when == "always"


def complain(message: str) -> None:
    with suppress(OSError):
        click.echo(message, err=True)
