"""The command `lockstep`. The only module of lockstep that needs click."""

from __future__ import annotations

import sys

import click

from lockstep._errors import JoinError
from lockstep._version import __version__
from lockstep.launcher import launch, machine, mpirun
from lockstep.launcher.launch import Job
from lockstep.launcher.place import of_this_machine
from lockstep.launcher.script import refuse_missing

_OTHER_LAUNCHERS = {"mpi": "mpiexec --hostfile", "horovod": "horovodrun -H"}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lockstep")
def main() -> None:
    """Train on several workers, in step with the single-device run."""


@main.command(context_settings={"allow_interspersed_args": False}, options_metavar="[-n N] [OPTIONS]")
@click.option(
    "-n",
    "--workers",
    type=click.IntRange(min=1),
    help="How many workers to start on this machine.  [default: 2]",
)
@click.option(
    "--backend",
    type=click.Choice(["tensorflow", "mpi", "horovod"]),
    default="tensorflow",
    show_default=True,
    help="What carries the collectives; mpi starts the workers through mpiexec.",
)
@click.option("--nnodes", type=click.IntRange(min=1), help="How many machines take part.  [default: 1]")
@click.option("--node-rank", type=click.IntRange(min=0), help="Which of them this is, from 0.  [default: 0]")
@click.option("--master", metavar="HOST:PORT", help="Where the launchers meet: an address of node 0.")
@click.option(
    "--max-restarts",
    type=click.IntRange(min=0),
    default=0,
    help="How many times to start all workers anew after one has failed.",
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long workers may take to end by themselves after Ctrl-C or SIGTERM.",
)
@click.option("--all-output", is_flag=True, help="Show what every worker prints, not only the chief.")
@click.option("--tf-logs", is_flag=True, help="Show all that TensorFlow logs, from its start.")
@click.option("--allow-unjoined", is_flag=True, help="Workers that never join each other are no failure.")
@click.option("-m", "--module", is_flag=True, help="SCRIPT is a module name, as in `python -m`.")
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    workers: int | None,
    backend: str,
    nnodes: int | None,
    node_rank: int | None,
    master: str | None,
    max_restarts: int,
    grace: float,
    all_output: bool,
    tf_logs: bool,
    allow_unjoined: bool,
    module: bool,
    script: str,
    arguments: tuple[str, ...],
) -> None:
    """Start N workers of SCRIPT on this machine and wait for them.

    Everything after SCRIPT is the script's own. Every line shown begins with the rank that printed it. When
    one worker fails, the others are ended, what it printed on stderr comes last, and its exit code is the
    command's. LOCKSTEP_* and thread settings of the environment are passed on.

    On several machines the same command is started on each, with its own --node-rank. In a container of
    Kubeflow Trainer, the variables PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK, PET_MASTER_ADDR and
    PET_MASTER_PORT take the place of -n, --nnodes, --node-rank and --master.
    """
    try:
        place = of_this_machine(workers, nnodes, node_rank, master)
        refuse_missing(script, module)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if place.nodes > 1 and backend in _OTHER_LAUNCHERS:
        other = _OTHER_LAUNCHERS[backend]
        raise click.UsageError(f"--backend {backend} starts workers on this machine only; for several, use {other}")
    for warning in machine.warnings(place.workers):
        click.echo(f"lockstep: {warning}", err=True)
    command = [sys.executable, *(["-m"] if module else []), script, *arguments]
    job = Job(
        command,
        place.workers,
        all_output,
        place.nodes,
        place.node_rank,
        place.master,
        max_restarts,
        backend,
        grace,
        allow_unjoined,
        tf_logs,
    )
    try:
        sys.exit((mpirun if backend == "mpi" else launch).launch(job))
    except JoinError as error:
        raise click.ClickException(str(error)) from error


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")
def doctor(as_json: bool) -> None:
    """Say what is installed and what would be used, let two workers add up a tensor, and name the next step.

    Exits with 0 if that works, with 1 if not.
    """
    from lockstep.launcher.doctor import examine

    sys.exit(examine(as_json))
