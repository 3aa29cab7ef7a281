"""The command `migrate`. What costs time to import is imported when a script is there to be read."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import click

from migrator.command.arguments import baseline_of, options_of, settings_of
from migrator.command.options import Given, with_options
from migrator.command.terminal import BACKENDS, Command
from migrator.garbage import collect_seldom

if TYPE_CHECKING:
    from migrator.command.baseline import Baseline
    from migrator.command.printing import Done
    from migrator.command.run import Ask
    from migrator.command.settings import Settings


def _explain(name: str, output_format: str) -> None:
    import json

    from migrator.registry import UnknownRule, choose

    try:
        (rule,) = choose(select=[name])
    except UnknownRule as error:
        raise click.BadParameter(str(error), param_hint="'--explain'") from None
    if output_format == "json":
        told = {"rule": rule.id, "summary": rule.summary, "manual": rule.manual}
        click.echo(json.dumps({**told, "is_audit": rule.is_audit, "needs": list(rule.needs)}, indent=2))
    else:
        click.echo(f"{click.style(rule.id, fg='cyan', bold=True)}\n\n{rule.manual}")


class _Migrate(Command):
    """`migrate verify` is a command of its own; a file of that name is ./verify."""

    # As overloaded as click's own is from 8.2 on, for who reads types.
    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **kwargs: Any
    ) -> Any:
        if args is None:  # the process ends with the command
            collect_seldom()
        given = list(sys.argv[1:] if args is None else args)
        if given[:1] == ["verify"]:
            from migrator.verify.command import verify

            return verify.main(given[1:], f"{prog_name or 'migrate'} verify", **kwargs)
        return super().main(given, prog_name, **kwargs)

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **kwargs: Any) -> click.Context:
        # A shell that completes a command asks this one for its options, whatever stands behind its name.
        if kwargs.get("resilient_parsing") and args[:1] == ["verify"]:
            from migrator.verify.command import verify

            return verify.make_context("verify", args[1:], *rest, **kwargs)
        return super().make_context(info_name, args, *rest, **kwargs)


def _ask() -> Ask:
    from migrator.command.asking import Questions

    return Questions().ask


def _launch(settings: Settings) -> str:
    """The command that starts a migrated script on several workers."""
    from migrator.targets import target_named

    command = target_named(settings.target).launch
    is_default = settings.backend == BACKENDS[0]
    return command if is_default else command.replace(" -n ", f" --backend {settings.backend} -n ")


@click.command(cls=_Migrate, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@with_options
def main(**given: Any) -> None:
    """Migrate single-device TensorFlow 2 training scripts to many devices, in place.

    PATHS are scripts, notebooks, folders, or - for standard input; files that import each other are understood as
    one program. On one process a migrated script does what it did before; on N workers (lockstep run -n N script.py)
    it trains the same model, or the site is refused with the reason.

    \b
    Exit codes: 0  nothing is left to do
                1  something is left: a refusal, or a change that was only shown
                2  an error; the other files are still processed
              130  interrupted

    \b
    Examples:
      migrate train.py model.py          rewrite a program in place
      migrate --dry-run src              show what would change, as a diff
      migrate -i src                     ask about each training first
      migrate train.ipynb -o train.py    make a script of a notebook
      migrate --check --output-format github .
      migrate --explain shard-dataset
      migrate verify train.py -n 2       prove it on two workers
    """
    asked = Given(**given)
    if asked.version:
        from migrator.report.tool import versions

        return click.echo("\n".join(versions(verbose=asked.verbose)))
    if asked.explain is not None:
        return _explain(asked.explain, asked.output_format)
    _refuse_contradictions(asked)
    settings = settings_of(asked)
    accepted = baseline_of(settings, asked)
    if asked.show_settings:
        options_of(settings, asked)
        return click.echo("\n".join(settings.lines()))
    if asked.show_files:
        from migrator.command.printing import show_names
        from migrator.command.run import Run

        run = Run(options_of(settings, asked))
        sys.exit(show_names(run.files(asked.paths), run.result))
    sys.exit(_tell(_done(asked, settings), asked, settings, accepted))


def _refuse_contradictions(asked: Given) -> None:
    """Raises UsageError where options exclude each other."""
    shows, copies = asked.dry_run or asked.check, asked.output is not None
    contradictions = (
        (not asked.paths and not asked.show_settings, "Missing argument 'PATHS...'."),
        (asked.dry_run and asked.check, "--dry-run and --check exclude each other"),
        (copies and shows, "--output writes; it cannot go with --dry-run or --check"),
        (
            asked.statistics and asked.output_format not in ("concise", "full", "grouped", "json"),
            f"--statistics has no form {asked.output_format}: take concise or json",
        ),
        (
            asked.write_baseline and (asked.dry_run or copies or asked.prune_baseline),
            "--write-baseline goes with no other way of writing or showing",
        ),
        (
            asked.interactive and (shows or copies or asked.write_baseline),
            "--interactive writes what is taken; it goes with no other way of writing or showing",
        ),
        (
            asked.interactive and FilePath("-") in asked.paths,
            "--interactive reads the answers from standard input; name the files",
        ),
        (
            asked.add_ignore
            and (asked.check or asked.interactive or copies or asked.write_baseline or asked.no_suppressions),
            "--add-ignore writes comments; it goes with no other way of writing or showing",
        ),
    )
    for is_given, message in contradictions:
        if is_given:
            raise click.UsageError(message)


def _done(asked: Given, settings: Settings) -> Done:
    """Runs, or recalls what came of the same run over the same files."""
    from migrator.command.printing import Done, progress

    known = None
    if asked.check and asked.cache:
        from migrator.command.known import Known

        known = Known(click.get_current_context().params, settings, asked.paths, asked.cache_dir)
        if known.result is not None:
            return Done(known.result, asked.writes)
    from migrator.command.run import Run

    with progress(is_quiet=asked.quiet) as tell:
        run = Run(options_of(settings, asked), tell, _ask() if asked.interactive else None)
        done = Done(run.migrate(asked.paths), asked.writes, run.stdin)
    if known is not None:
        known.remember(run)
    return done


def _tell(done: Done, asked: Given, settings: Settings, accepted: Baseline | None) -> int:
    """Prints what came of the run, or accepts it; gives the exit code of the command."""
    from migrator.command.printing import Wanted, accept, prune, show, show_ignored

    if asked.add_ignore:
        return show_ignored(done, shows_diff=asked.dry_run, is_quiet=asked.quiet)
    if accepted is not None and asked.write_baseline:
        return accept(done, accepted.file, is_quiet=asked.quiet)
    if accepted is not None:
        done.result = accepted.heeded(done.result)
        if asked.prune_baseline:
            prune(done, accepted)
    wanted = Wanted(
        form=asked.output_format,
        output_file=asked.output_file,
        page=asked.report,
        statistics=asked.statistics,
        exit_zero=asked.exit_zero,
        shows_diff=asked.dry_run,
        lists_edits=asked.check,
        is_quiet=asked.quiet,
        is_verbose=asked.verbose,
        launch=_launch(settings) if done.writes else "",
    )
    return show(done, wanted)
