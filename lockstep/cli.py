"""The command `lockstep`. The only module of lockstep that needs click."""

from __future__ import annotations

import sys

import click

from lockstep._launch import launch
from lockstep._version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lockstep")
def main() -> None:
    """Train on several workers, in step with the single-device run."""


@main.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="[-n N] [OPTIONS]",
)
@click.option(
    "-n",
    "--workers",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="How many workers to start.",
)
@click.option("--all-output", is_flag=True, help="Show what every worker prints, not only the chief.")
@click.option("-m", "--module", is_flag=True, help="SCRIPT is a module name, as in `python -m`.")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(workers: int, all_output: bool, module: bool, script: str, arguments: tuple[str, ...]) -> None:
    """Start N workers of SCRIPT on this machine and wait for them.

    Everything after SCRIPT is the script's own. Every line shown begins with the rank that printed it. When
    one worker fails, the others are ended, what it printed on stderr comes last, and its exit code is the
    command's. LOCKSTEP_* and thread settings of the environment are passed on.
    """
    command = [sys.executable, *(["-m"] if module else []), script, *arguments]
    sys.exit(launch(command, workers, all_output))
