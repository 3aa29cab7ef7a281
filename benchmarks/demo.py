"""See it work: migrate a script, train it in one process and migrated on two workers, and compare.

    python benchmarks/demo.py

Needs TensorFlow, scikit-learn and nothing from the network; writes to a temporary folder only. Exit code 0 if
the workers trained the model that one process trains, 1 if they did not, 2 if `migrate verify` could not run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "tests" / "equality"))

from training_runs import SCRIPTS, Trained, environment, migrate, train  # noqa: E402

SCRIPT = SCRIPTS / "digits_mlp_fit.py"
WORKERS = 2
TOLERANCE = 1e-5  # of a loss or a weight; these are around 1


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="lockstep-demo-") as temporary:
        folder = Path(temporary)
        heading(1, f"migrate {SCRIPT.relative_to(REPOSITORY)}")
        show_diff()
        migrated = folder / SCRIPT.name
        migrate(SCRIPT, migrated)

        heading(2, "train the original in one process, the migrated one on two workers")
        (original,) = train_and_report("original, 1 process", SCRIPT, folder / "original", workers=None)
        ranks = train_and_report(f"migrated, {WORKERS} workers", migrated, folder / "ranks", workers=WORKERS)

        heading(3, "compare")
        code = show_comparison(original, ranks)

        heading(4, f"or all of that at once, and step by step: migrate verify {SCRIPT.relative_to(REPOSITORY)}")
        return verify() or code


def show_diff() -> None:
    """Let the tool print on this process's own terminal: it colours its diff only there."""
    sys.stdout.flush()
    command = [sys.executable, "-m", "migrator", "--dry-run", str(SCRIPT.relative_to(REPOSITORY))]
    subprocess.run(command, cwd=REPOSITORY, env=environment(), check=False)


def verify() -> int:
    """Let the tool prove it by itself; its exit code."""
    sys.stdout.flush()
    command = [sys.executable, "-m", "migrator", "verify", SCRIPT.name]
    return subprocess.run(command, cwd=SCRIPT.parent, env=environment(), check=False).returncode


def train_and_report(title: str, script: Path, folder: Path, workers: int | None) -> list[Trained]:
    click.echo(f"  {title:<22}", nl=False)
    sys.stdout.flush()
    start = time.monotonic()
    # Shuffling is off in both: the order of a shuffle depends on how many samples a process holds, and only
    # runs that see the same samples in the same step can be compared to the last digit.
    ranks = train(script, folder, workers=workers, without_randomness=True)
    seconds = time.monotonic() - start
    click.echo(f"{ranks[0].steps[0]:5d} steps {seconds:7.1f} s with start-up")
    return ranks


def show_comparison(original: Trained, ranks: list[Trained]) -> int:
    chief = ranks[0]
    click.secho(
        f"  {'epoch':>5}  {'loss, original':>15}  {f'loss, {WORKERS} workers':>15}  {'difference':>10}",
        dim=True,
    )
    for epoch, (expected, found) in enumerate(zip(original.losses, chief.losses), start=1):
        click.echo(f"  {epoch:>5}  {expected:>15.6f}  {found:>15.6f}  {abs(expected - found):>10.1e}")

    weights = sum(weight.size for weight in original.weights)
    between_ranks = max(largest_difference(chief, rank) for rank in ranks)
    from_original = largest_difference(original, chief)
    agreement = "none" if between_ranks == 0 else f"{between_ranks:.1e}"
    click.echo(f"\n  largest difference of any of the {weights:,} weights")
    click.echo(f"    between the workers         {agreement}")
    click.echo(f"    workers and the original    {from_original:.1e}\n")

    same_losses = len(chief.losses) == len(original.losses) and np.allclose(
        chief.losses, original.losses, rtol=0, atol=TOLERANCE
    )
    if between_ranks == 0 and from_original <= TOLERANCE and same_losses and chief.steps == original.steps:
        click.secho(
            f"  {WORKERS} workers, each on its share of every batch, trained the model of a single process:\n"
            "  all workers hold the same weights, and these are the original's to float32 rounding.\n",
            fg="green",
        )
        return 0
    click.secho("  The workers did not train the model that one process trains.\n", fg="red", bold=True)
    return 1


def largest_difference(one: Trained, other: Trained) -> float:
    """The largest absolute difference of any weight."""
    pairs = zip(one.weights, other.weights)
    return max(float(np.abs(a.astype(np.float64) - b).max()) for a, b in pairs)


def heading(number: int, text: str) -> None:
    click.secho(f"\n{number}  {text}\n", bold=True)


if __name__ == "__main__":
    sys.exit(main())
