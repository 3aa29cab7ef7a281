"""One call of the command: reads the files, migrates them program by program, writes what came of each.

It tells nobody: reports are made from the result, when all is done.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Callable, Optional, Union

from migrator.command.ignoring import with_ignores
from migrator.command.limits import TookTooLong, at_most
from migrator.command.per_file import NOWHERE, PerFile
from migrator.engine import migrate_program
from migrator.files.importers import importers_of
from migrator.files.imports import reachable
from migrator.files.programs import Program, context_of, programs, shadowed
from migrator.files.project import DEFAULT, Filter, NoSuchScript, is_unit_test, scripts
from migrator.files.undo import take_back
from migrator.files.writing import NotWritten, Write, is_regular, uninterrupted, write_all
from migrator.findings.callers import asks_for_caller, with_callers
from migrator.findings.heeded import Heeding
from migrator.findings.results import EDITED, LEFT, Defect, Failure, FileResult, Outcome, RunResult
from migrator.findings.trainings import Training, trainings
from migrator.layout import Style, paths_of_styles, style_in
from migrator.notebooks.cells import is_notebook
from migrator.notebooks.run import Notebooks
from migrator.records import dataclass
from migrator.registry import all_rules
from migrator.targets import target_named
from migrator.text.source import Source, UnreadableSource, is_about_training

# Fewer programs are migrated sooner than further processes would have started.
_FEWEST_FOR_PROCESSES = 12
# No script is that large; weights are, and their like.
_LARGEST_FILE = 100_000_000


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    rules: tuple[str, ...]
    target: str
    writes: bool
    output: str | None
    jobs: int | None
    # CPU-seconds for one program, times the number of its files.
    time_limit: float
    without: Filter = DEFAULT
    # None: as formatters are told, or as each file shows.
    line_length: int | None = None
    heeds_formatters: bool = True
    # What standard input is a file of; empty where nobody says.
    stdin_name: str = ""
    # Refuse what would be taken on trust.
    is_strict: bool = False
    # Let every worker train on all of the data where these cannot be split.
    may_train_whole: bool = True
    # Heed the comments that have something ignored.
    heeds_ignores: bool = True
    per_file: PerFile = NOWHERE
    # Write comments with this reason that have all ignored which is left, and nothing else.
    add_ignore: str = ""
    # Where the packages lie whose code is read.
    site_packages: tuple[Path, ...] = ()


Result = Union[Outcome, Failure]
# A program with what came of its files, in their order.
_Analysed = tuple[Program, dict[Path, Result]]
Ask = Callable[[Training, int, int], Optional[Mapping[Path, bytes]]]


@dataclass(frozen=True)
class _File:
    """A file of the run: as the user named it, and where its migrated form goes."""

    name: str
    script: Path
    destination: Path
    is_named: bool

    @property
    def is_copied(self) -> bool:
        return self.destination != self.script


class Run:
    """What became of the files, `result`, grows while they are worked on; a bad one never stops the others.

    `progress` is told, as programs are done, how many of how many are.
    """

    def __init__(
        self,
        options: Options,
        progress: Callable[[int, int], None] = lambda done, total: None,
        ask: Ask | None = None,
    ) -> None:
        """`ask`: what is to be written for a training, given its number and how many there are; None to leave it."""
        self.options = options
        self._progress = progress
        self._ask = ask
        self.result = RunResult()
        self.stdin: Outcome | None = None
        # The paths around the files that the outcome depends on, whether something is there or not.
        self.around: set[Path] = set()
        self._output = Path(options.output) if options.output is not None else None
        self._output_is_folder = options.output is not None and (
            options.output.endswith(os.sep) or os.path.isdir(options.output)
        )
        self._taken: dict[str, str] = {}
        self._notebooks = Notebooks()
        # What was written to each file: links may lead to one twice.
        self._written: dict[str, bytes] = {}

    def migrate(self, paths: Iterable[Path]) -> RunResult:
        """Processes the files and folders. Ctrl-C ends it early; what was written until then is in the result."""
        try:
            self._migrate(list(dict.fromkeys(paths)))
        except KeyboardInterrupt:
            self.result.is_interrupted = True
        self.result.files.sort(key=lambda file: (file.name != "<stdin>", file.name))
        return self.result

    def files(self, paths: Iterable[Path]) -> list[str]:
        """The files that a run over these paths would read; what cannot be found is in the result."""
        named, files = list(dict.fromkeys(paths)), dict[Path, _File]()
        for path in named:
            if str(path) != "-":
                self._collect(path, files, is_single=len(named) == 1)
        return sorted(file.name for file in files.values())

    def _migrate(self, named: list[Path]) -> None:
        files: dict[Path, _File] = {}
        for path in named:
            if str(path) == "-":
                self._stdin()
            else:
                self._collect(path, files, is_single=len(named) == 1)
        if self.options.writes:
            self._take_back(files)
        data, unread = self._read(files)
        context = context_of(data, self.around)
        self.around |= self._beside({*data, *context})
        styles = self._styles(data)
        found = [replace(program, styles=styles) for program in programs(data, context, unread)]
        if self._ask is not None:
            self._asked(self._ask, list(self._analysed(found)), files)
            return
        for program, outcomes in self._analysed(found):
            # What is written is taken down, too.
            with uninterrupted():
                self._finish(program, outcomes, files, outcomes)

    def _styles(self, paths: Iterable[Path]) -> dict[Path, Style]:
        """What formatters are told of the files."""
        folders = {path.parent for path in paths} if self.options.heeds_formatters else set()
        self.around |= {file for folder in folders for file in paths_of_styles(folder)}
        known = {folder: style_in(folder) for folder in folders}
        return {path: known[path.parent] for path in paths if path.parent in known}

    def _beside(self, paths: Iterable[Path]) -> set[Path]:
        """What makes a package of the folders of these files, or would be imported in the place of the runtime."""
        package = target_named(self.options.target).package
        names = ("__init__.py", f"{package}.py", f"{package}/__init__.py")
        folders = {folder for path in paths for folder in path.parents}
        return {folder / name for folder in folders for name in names}

    # -- reading -------------------------------------------------------------------------------------------------

    def _collect(self, path: Path, files: dict[Path, _File], *, is_single: bool) -> None:
        try:
            is_folder = os.path.isdir(path)
            for script in scripts(path, self._left_out(path), self._unreadable, self.options.without):
                destination = self._destination(script, path, is_single=is_single and not is_folder)
                file = _File(str(script), script, destination, is_named=not is_folder)
                files.setdefault(Path(os.path.abspath(script)), file)
        except NoSuchScript as error:
            self._add(str(path), Failure(str(error)))
        except OSError as error:
            self._add(str(path), Failure(f"cannot be read: {error.strerror}"))

    def _unreadable(self, error: OSError) -> None:
        self._add(error.filename, Failure(f"this folder cannot be read: {error.strerror}"))

    def _left_out(self, path: Path) -> Path | None:
        """Where the copies go, if that is within the folder: they are not read as if they were its own."""
        if self._output is None:
            return None
        output, folder = Path(os.path.realpath(self._output)), Path(os.path.realpath(path))
        return output if folder in output.parents else None

    def _destination(self, script: Path, root: Path, *, is_single: bool) -> Path:
        if self._output is None:
            return script
        if is_single and not self._output_is_folder:
            destination = self._output
        else:
            destination = self._output / (script.relative_to(root) if script != root else script.name)
        # A copy to its own place is no copy.
        return script if os.path.realpath(destination) == os.path.realpath(script) else destination

    def _take_back(self, files: Mapping[Path, _File]) -> None:
        try:
            done = take_back({path.resolve().parent for path, file in files.items() if not file.is_copied})
        except OSError as error:
            self._add(error.filename, Failure(f"half of a program cannot be put back: {error.strerror}"))
            return
        here = Path.cwd()
        self.result.put_back = tuple(str(p.relative_to(here) if here in p.parents else p) for p in done)

    def _read(self, files: Mapping[Path, _File]) -> tuple[dict[Path, bytes], dict[Path, Failure]]:
        found: dict[Path, bytes] = {}
        failed: dict[Path, Failure] = {}
        for path, file in files.items():
            try:
                data = self._bytes(file)
                if is_notebook(file.name):
                    data = self._notebooks.script(path, data, is_named=file.is_named)
                found[path] = data
            except Failure as failure:
                failed[path] = failure
                self._add(file.name, failure)
        for path in [path for path, data in found.items() if not files[path].is_named and is_unit_test(path, data)]:
            self._pass_over(files[path], found.pop(path))
        return found, failed

    def _bytes(self, file: _File) -> bytes:
        """What the file holds. Raises Failure where it cannot be read, or is no Python by its looks."""
        if file.is_copied:
            other = self._taken.setdefault(os.path.realpath(file.destination), file.name)
            if other != file.name:
                raise Failure(f"not written, since {other} goes to {file.destination} already: migrate them one by one")
        try:
            if not is_regular(file.script):
                raise Failure("this is no file, but a pipe or a device: use - to read standard input")
            if os.path.getsize(file.script) > _LARGEST_FILE:
                raise Failure(f"this is too large for a script (more than {_LARGEST_FILE // 10**6} MB)")
            data = file.script.read_bytes()
        except OSError as error:
            raise Failure(f"cannot be read: {error.strerror}") from None
        if file.is_named and not is_notebook(file.name):
            _expect_python(file.name, data)
            if is_notebook(file.destination):
                raise Failure("a script does not become a notebook: give the copy another name")
        return data

    def _pass_over(self, file: _File, data: bytes) -> None:
        """Unit tests in a folder run on one device, whatever they call: they are left as they are."""
        outcome: Result = Outcome(data, data)
        if file.is_copied and self.options.writes:
            try:
                write_all([Write(file.destination, data, like=file.script)])
            except NotWritten as error:
                outcome = _not_written(file, error)
        self._add(file.name, outcome, is_passed_over=isinstance(outcome, Outcome))

    # -- asking --------------------------------------------------------------------------------------------------

    def _asked(self, ask: Ask, analysed: Iterable[_Analysed], files: Mapping[Path, _File]) -> None:
        """Asks about each training, program by program in the order of names, and writes at once what was taken."""
        found: list[tuple[list[Training], _Analysed]] = []
        for program, outcomes in analysed:
            changed = {p for p, outcome in outcomes.items() if isinstance(outcome, Outcome) and outcome.is_changed}
            members = [
                {p: FileResult(files[p].name, outcomes[p]) for p in sorted(group)}
                for group in trainings(program, changed)
            ]
            found.append((sorted(map(Training, members), key=lambda one: one.first), (program, outcomes)))
        total, number = sum(len(several) for several, _ in found), 0
        for several, (program, outcomes) in sorted(found, key=lambda one: [t.first for t in one[0]]):
            rest = set(outcomes)
            for training in several:
                number += 1
                contents = ask(training, number, total)
                if contents is not None:
                    with uninterrupted():
                        self._finish(program, outcomes, files, training.files, contents)
                    rest -= training.files.keys()
            self._finish(program, outcomes, files, rest, dict.fromkeys(rest))

    def _left(self, program: Program, contents: Mapping[Path, bytes]) -> dict[Path, Result]:
        """What is left to do in the files of a training after the user has edited them."""
        return _migrated(self.options, replace(program, files={**program.files, **contents}))

    # -- migrating -----------------------------------------------------------------------------------------------

    def _analysed(self, found: list[Program]) -> Iterator[_Analysed]:
        """The programs as they are done; progress is told before the next one."""
        for done, (program, outcomes) in enumerate(self._outcomes(found), start=1):
            in_order = {path: outcomes[path] for path in program.files if path in outcomes}
            yield program, self._notebooks.within_cells(in_order)
            self._progress(done, len(found))

    def _outcomes(self, found: list[Program]) -> Iterator[_Analysed]:
        """What came of each program; on several processes where there are enough of them."""
        heavy: list[Program] = []
        for program in found:
            if is_about_training(*program.files.values()):
                heavy.append(program)
            else:
                yield program, _migrated(self.options, program)
        jobs = min(self.options.jobs or _cores(), len(heavy))
        task = partial(_migrated, self.options)
        if jobs < 2 or len(heavy) < _FEWEST_FOR_PROCESSES:
            yield from ((program, task(program)) for program in heavy)
            return
        from migrator.command.workers import Died, shared_out  # takes long to import

        for index, outcome in shared_out(task, heavy, jobs):
            program = heavy[index]
            if isinstance(outcome, Died):
                code = outcome.exit_code
                failure = Failure(f"the process that analysed it died (exit code {code}): is there enough memory?")
                yield program, _all_failed(program, failure)
            else:
                yield program, outcome

    def _stdin(self) -> None:
        name = self.options.stdin_name or "<stdin>"
        try:
            if sys.stdin is None:
                raise Failure("is closed")
            data = sys.stdin.buffer.read()
            _expect_python(name, data)
        except (OSError, Failure) as error:
            self._add(name, error if isinstance(error, Failure) else Failure(f"cannot be read: {error.strerror}"))
            return
        path, context = Path(name), dict[Path, bytes]()
        if self.options.stdin_name:
            path = Path(os.path.abspath(name))
            context = context_of({path: data})
        (program,) = programs({path: data}, context)
        program = replace(program, styles=dict.fromkeys([path], *self._styles([Path(os.path.abspath(name))]).values()))
        (outcome,) = _migrated(self.options, program).values()
        if isinstance(outcome, Outcome) and self.options.writes:
            if self._output is not None:
                destination = self._output / "stdin.py" if self._output_is_folder else self._output
                try:
                    write_all([Write(destination, outcome.data, like=destination)])
                except NotWritten as error:
                    outcome = Failure(f"{error.path}: {error}")
            else:
                self.stdin = outcome
        self._add(name, outcome)

    # -- writing -------------------------------------------------------------------------------------------------

    def _finish(
        self,
        program: Program,
        outcomes: Mapping[Path, Result],
        files: Mapping[Path, _File],
        part: Collection[Path],
        contents: Mapping[Path, bytes | None] | None = None,
    ) -> None:
        """Writes these files of a program, all or none, and takes down what came of them.

        `contents`: what the user wants of changes in the place of the migrated form; None where they are left.
        """
        imported = {other for path, others in program.imported.items() for other in others - {path}}
        changed = {path for path, outcome in outcomes.items() if isinstance(outcome, Outcome) and outcome.is_changed}
        wanted = {p: contents[p] for p in part if p in changed} if contents is not None else {}
        taken = {path: outcomes[path] for path in outcomes if path in part and wanted.get(path, b"") is not None}
        writes: dict[Path, Write] = {}
        problem: NotWritten | None = None
        try:
            writes = dict(self._writes(taken, files, wanted)) if self.options.writes else {}
            write_all(list(writes.values()))
            self._written.update((os.path.realpath(write.path), write.data) for write in writes.values())
        except NotWritten as error:
            problem = error
        answers = {p: LEFT if data is None else EDITED * (data != _new(outcomes[p])) for p, data in wanted.items()}
        edited = {path: data for path, data in wanted.items() if data is not None and answers[path] and not problem}
        left = self._left(program, edited) if edited else {}
        for path, outcome in outcomes.items():
            if path in program.unread or path not in part:
                continue  # was told when it could not be read; another part
            if problem is not None and (path in writes or path in changed or files[path].is_copied):
                outcome = _not_written(files[path], problem)
            starts = path not in imported and not changed.isdisjoint(reachable([path], program.imported))
            file, answer = files[path], answers.get(path, "")
            is_written = isinstance(outcome, Outcome) and os.path.realpath(file.destination) in self._written
            others = program.imported.get(path, set()) & files.keys() - {path}
            imports = tuple(sorted(files[other].name for other in others))
            written = str(file.destination) * (is_written and not answer)
            outcome = left.get(path, outcome)
            if isinstance(outcome, Outcome) and asks_for_caller(outcome):
                callers = [other.name for other in importers_of(path, program.files)]
                outcome = with_callers(outcome, path.name, callers) if callers else outcome
            result = FileResult(file.name, outcome, written, is_start=starts, imports=imports, answer=answer)
            self.result.files.append(result)

    def _writes(
        self, outcomes: Mapping[Path, Result], files: Mapping[Path, _File], wanted: Mapping[Path, bytes | None]
    ) -> Iterator[tuple[Path, Write]]:
        found: set[str] = set()
        for path, outcome in outcomes.items():
            file = files[path]
            if isinstance(outcome, Outcome) and (outcome.is_changed or file.is_copied):
                target = os.path.realpath(file.destination)
                chosen = wanted.get(path)
                data, old = outcome.data if chosen is None else chosen, outcome.old
                if is_notebook(file.name):
                    try:
                        data, old = self._notebooks.written(path, file.destination, data), self._notebooks.data[path]
                    except Failure as failure:
                        raise NotWritten(file.destination, failure.message) from None
                if target in found or self._written.get(target) == data:
                    continue  # a link leads to a file that is written already
                found.add(target)
                is_over = not file.is_copied
                yield path, Write(file.destination, data, like=file.script, old=old if is_over else None)

    def _add(self, name: str, outcome: Result, *, is_passed_over: bool = False) -> None:
        self.result.files.append(FileResult(name, outcome, is_passed_over=is_passed_over))


def _new(outcome: Result) -> bytes:
    return outcome.data if isinstance(outcome, Outcome) else b""


def _not_written(file: _File, problem: NotWritten) -> Failure:
    if problem.path != file.destination:
        return Failure(f"left as it was, for {problem.path}: {problem}; the files of a program are written all or none")
    return Failure(f"left as it was: {problem}" if not file.is_copied else f"{problem.path}: {problem}")


def _migrated(options: Options, program: Program) -> dict[Path, Result]:
    """What came of the files of the program; an error that takes it as a whole stops no other."""
    seconds = options.time_limit * len(program.files)
    try:
        with at_most(seconds):
            target = target_named(options.target)
            program = replace(program, line_length=options.line_length, site_packages=options.site_packages)
            if is_about_training(*program.files.values()):
                program = shadowed(program, target.package)
            rules = [all_rules()[name] for name in options.rules]
            ignored = {path: options.per_file.ignored_in(path) for path in program.files}
            heeding = Heeding(options.is_strict, options.heeds_ignores, options.may_train_whole, ignored=ignored)
            if options.add_ignore:
                return with_ignores(program, rules, target, heeding, options.add_ignore)
            return dict(migrate_program(program, rules, target, heeding))
    except TookTooLong:
        limit = f"{seconds:g} seconds of CPU time"
        return _all_failed(program, Failure(f"its analysis took longer than {limit}: allow more with --time-limit"))
    except MemoryError:
        return _all_failed(program, Failure("there is not enough memory to analyse it"))
    except Exception as error:
        return _all_failed(program, Defect(f"{type(error).__name__}: {error}"))


def _all_failed(program: Program, failure: Failure) -> dict[Path, Result]:
    return {path: failure for path in program.files if path not in program.context}


def _expect_python(name: str, data: bytes) -> None:
    """Raises Failure for a file that is no text of Python by its looks."""
    if is_notebook(name):
        raise Failure("a notebook cannot be read from standard input: name its file")
    try:
        Source.decode(data)
    except UnreadableSource as error:
        raise Failure(error.message, error.line, error.column) from None


def _cores() -> int:
    """The cores that this process may use, where the system tells."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
