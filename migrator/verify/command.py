"""The command `migrate verify`."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from migrator.command.terminal import BACKENDS, ERROR, Command, colour
from migrator.findings.results import NOTHING_LEFT, SOMETHING_LEFT, Failure

if TYPE_CHECKING:
    from migrator.verify.revision import Revision


def _sizes(context: click.Context, parameter: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        sizes = tuple(int(part) for part in value.split(","))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 2:
        raise click.BadParameter("numbers of workers from 2 on, as in 2 or 2,4", context, parameter)
    return sizes


@click.command(
    cls=Command,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "ignore_unknown_options": True,
    },
    options_metavar="[OPTIONS]",
)
@click.argument("command", nargs=-1, metavar="SCRIPT [ARGUMENTS...]", type=click.UNPROCESSED)
@click.option(
    "-n",
    "--workers",
    "sizes",
    default="2",
    show_default=True,
    callback=_sizes,
    metavar="N[,N]",
    help="Workers to compare with one process.",
)
@click.option("--main", "main_file", metavar="FILE", help="Of a folder, or of several files, the one that is started.")
@click.option("-m", "--module", metavar="MODULE", help="Start a module, as python -m does, in place of SCRIPT.")
@click.option(
    "--original",
    metavar="FILE|git:REV",
    help="What SCRIPT is the port of, made by this tool or by hand: SCRIPT is run as it is. With git: as a revision of "
    "the repository has SCRIPT, or REV:PATH.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="K",
    help="Optimizer steps that are compared, of every optimizer.",
)
@click.option(
    "--backend",
    type=click.Choice(BACKENDS),
    help="What connects the workers.  [default: that of the settings, or tensorflow]",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=1),
    default=900,
    show_default=True,
    metavar="SECONDS",
    help="For all runs together.",
)
@click.option("--as-is", is_flag=True, help="Make nothing equal: shuffles, dropout and noise stay random.")
@click.option("--local-batch-norm", is_flag=True, help="Leave BatchNormalization to the local batch.")
@click.option("--output-format", type=click.Choice(["full", "json"]), default="full", show_default=True)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.html",
    help="Write one page with plots, samples and the diff there.",
)
@click.option("--cold", is_flag=True, help="Let every process import TensorFlow by itself.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    callback=colour,
    expose_value=False,
    is_eager=True,
    help="Whether to colour the output.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no progress.")
def verify(
    command: tuple[str, ...],
    sizes: tuple[int, ...],
    main_file: str | None,
    module: str | None,
    original: str | None,
    steps: int,
    backend: str | None,
    timeout: float,
    as_is: bool,
    local_batch_norm: bool,
    output_format: str,
    report: Path | None,
    cold: bool,
    quiet: bool,
) -> None:
    """Prove that N workers train what one process trains, on a script of your own.

    Migrates SCRIPT, which may be a notebook, into a scratch folder, runs the original and the migrated script for some
    steps, and compares them step by step: samples, losses, gradients, weights, and what they print. Nothing of yours is
    changed. Options of the script's own that are named as one of these go behind a --.

    \b
    Exit codes: 0  SAME
                1  DIFFERENT, INCONCLUSIVE, NOT TRAINING, or not migrated
                2  an error, such as a script that fails by itself
              130  interrupted

    \b
    Examples:
      migrate verify train.py                        on two workers
      migrate verify train.py -n 2,4 --epochs 3      on two and four; --epochs is the script's
      migrate verify port.py --original train.py     a port that is there already
      migrate verify train.ipynb                     the cells of a notebook, as one script
      migrate verify src --main src/train.py         a program in a folder
      migrate verify train.py --report proof.html    with plots, samples and the diff
    """
    files, arguments = _files(command, main_file, module)
    from migrator.verify.proof import NotMigrated, Settings, Unverifiable, prove
    from migrator.verify.report import as_json, as_text
    from migrator.verify.runs import TimedOut

    settings = Settings(
        files=files,
        arguments=arguments,
        module=module,
        original=_original(original, files[0]),
        sizes=sizes,
        steps=steps,
        backend=backend or _backend_of_settings(files),
        timeout=timeout,
        as_is=as_is,
        local_batch_norm=local_batch_norm,
        is_warm=not cold,
    )
    progress = _Progress(not quiet)
    # Ended by another program, as by Ctrl-C: no run is left behind, and no scratch folder.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        proof = prove(settings, progress)
    except (Unverifiable, TimedOut, Failure) as error:
        progress.clear()
        output: Any = getattr(error, "output", "")
        if output:
            click.echo(output, err=True)
        click.echo(f"{click.style('error:', fg='red', bold=True)} {error}", err=True)
        sys.exit(SOMETHING_LEFT if isinstance(error, NotMigrated) else ERROR)
    progress.clear()
    if output_format == "json":
        click.echo(as_json(proof))
    else:
        for line in as_text(proof):
            click.echo(line)
    if report is not None:
        from migrator.command.printing import is_written
        from migrator.verify.page import page

        if not is_written(report, page(proof)):
            sys.exit(ERROR)
    sys.exit(NOTHING_LEFT if proof.verdict.kind == "SAME" else SOMETHING_LEFT)


def _backend_of_settings(files: Sequence[Path]) -> str:
    from migrator.command.settings import BadSetting, settings_for

    try:
        return settings_for(files).backend
    except BadSetting as error:
        raise click.UsageError(str(error)) from None


def _files(
    command: tuple[str, ...], main_file: str | None, module: str | None
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """The files of the program, first the one that is started, and the script's own arguments."""
    if module is not None:
        return (_of_module(module),), command
    if not command:
        raise click.UsageError("Missing argument 'SCRIPT'.")
    first = Path(command[0])
    if first.is_dir():
        files, arguments = list(_scripts(first)), command[1:]
        if main_file is None:
            raise click.UsageError(f"{first} is a folder: say with --main which of its files is started")
    elif first.is_file():
        # What follows and is a Python file too belongs to the program, up to the first that is not.
        several = next((i for i, name in enumerate(command) if not _is_script(name)), len(command)) if main_file else 1
        files, arguments = [Path(name) for name in command[:several]], command[several:]
    else:
        raise click.UsageError(f"there is no script {first}")
    if main_file is None:
        return (first,), arguments
    main = next((Path(name) for name in (main_file, first / main_file) if Path(name).is_file()), None)
    if main is None:
        raise click.UsageError(f"there is no script {main_file}")
    return (main, *(file for file in files if not file.samefile(main))), arguments


def _original(text: str | None, script: Path) -> Path | Revision | None:
    if text is None:
        return None
    if text.startswith("git:"):
        from migrator.verify.revision import NoSuchRevision, find

        try:
            return find(text[len("git:") :], script)
        except NoSuchRevision as error:
            raise click.UsageError(f"--original {text}: {error}") from None
    if not Path(text).is_file():
        raise click.UsageError(f"--original {text}: there is no such file")
    return Path(text)


def _is_script(name: str) -> bool:
    return name.endswith(".py") and Path(name).is_file()


def _scripts(folder: Path) -> Iterator[Path]:
    from migrator.files.project import NoSuchScript, is_unit_test, scripts
    from migrator.notebooks.cells import is_notebook

    try:
        found = (path for path in scripts(folder) if not is_notebook(path))
        yield from (path for path in found if not is_unit_test(path, path.read_bytes()))
    except NoSuchScript as error:
        raise click.UsageError(f"{folder}: {error}") from None


def _of_module(name: str) -> Path:
    """The file of a module that is found from the current folder."""
    path = Path(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__main__.py"):
        if candidate.is_file():
            return candidate
    raise click.UsageError(f"there is no module {name} in {Path.cwd()}")


class _Progress:
    """One line on standard error that tells what runs now; nothing where that is no terminal."""

    def __init__(self, is_wanted: bool) -> None:
        self._is_shown = is_wanted and sys.stderr is not None and sys.stderr.isatty()
        self._last = ""

    def __call__(self, text: str) -> None:
        if self._is_shown and text != self._last:
            self._last = text
            click.echo(f"\r\x1b[2K{text[:100]}", nl=False, err=True)

    def clear(self) -> None:
        if self._is_shown and self._last:
            click.echo("\r\x1b[2K", nl=False, err=True)
