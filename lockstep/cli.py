"""The command `lockstep`. The only module of lockstep that needs click."""

from __future__ import annotations

import sys

import click

from lockstep import _launch, _mpirun
from lockstep._errors import JoinError
from lockstep._launch import Job
from lockstep._version import __version__

_OTHER_LAUNCHERS = {"mpi": "mpiexec --hostfile", "horovod": "horovodrun -H"}


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
@click.option(
    "--backend",
    type=click.Choice(["tensorflow", "mpi", "horovod"]),
    default="tensorflow",
    show_default=True,
    help="What carries the collectives; mpi starts the workers through mpiexec.",
)
@click.option("--nnodes", type=click.IntRange(min=1), default=1, help="How many machines take part.")
@click.option("--node-rank", type=click.IntRange(min=0), default=0, help="Which of them this is, from 0.")
@click.option("--master", metavar="HOST:PORT", default="", help="Where the launchers meet: an address of node 0.")
@click.option(
    "--max-restarts",
    type=click.IntRange(min=0),
    default=0,
    help="How many times to start all workers anew after one has failed.",
)
@click.option("--all-output", is_flag=True, help="Show what every worker prints, not only the chief.")
@click.option("-m", "--module", is_flag=True, help="SCRIPT is a module name, as in `python -m`.")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    workers: int,
    backend: str,
    nnodes: int,
    node_rank: int,
    master: str,
    max_restarts: int,
    all_output: bool,
    module: bool,
    script: str,
    arguments: tuple[str, ...],
) -> None:
    """Start N workers of SCRIPT on this machine and wait for them.

    Everything after SCRIPT is the script's own. Every line shown begins with the rank that printed it. When
    one worker fails, the others are ended, what it printed on stderr comes last, and its exit code is the
    command's. LOCKSTEP_* and thread settings of the environment are passed on.

    On several machines the same command is started on each, with its own --node-rank.
    """
    if node_rank >= nnodes:
        raise click.UsageError(f"--node-rank {node_rank} is not below --nnodes {nnodes}")
    if nnodes > 1 and not master:
        raise click.UsageError("--nnodes needs --master HOST:PORT, an address of node 0 that all machines can reach")
    if nnodes > 1 and backend in _OTHER_LAUNCHERS:
        other = _OTHER_LAUNCHERS[backend]
        raise click.UsageError(f"--backend {backend} starts workers on this machine only; for several, use {other}")
    command = [sys.executable, *(["-m"] if module else []), script, *arguments]
    job = Job(command, workers, all_output, nnodes, node_rank, master, max_restarts, backend)
    try:
        sys.exit((_mpirun if backend == "mpi" else _launch).launch(job))
    except JoinError as error:
        raise click.ClickException(str(error)) from error


@main.command()
def doctor() -> None:
    """Say what is installed and what would be used, and let two workers add up a tensor.

    Exits with 0 if that works, with 1 if not.
    """
    from lockstep._doctor import examine

    sys.exit(examine())
