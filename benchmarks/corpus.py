"""Runs every rule over the training code of published packages: what crashes, what is touched, how fast.

The files of a package are grouped into programs as the command groups those of a folder; unit tests, which it passes
over, stand alone here.

    python benchmarks/corpus.py [--cache FOLDER] [--diffs FOLDER] [FOLDER...]

Downloads the wheels of PACKAGES and reads the Python files out of them; nothing is installed, imported or run, which
is why source distributions, whose metadata only their own code tells, are no part of it. Folders given by name are
read beside them. Prints a markdown table; each defect goes to standard error, and makes the exit code 1.
"""

from __future__ import annotations

import argparse
import ast
import gc
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher, unified_diff
from hashlib import sha256
from pathlib import Path
from types import FrameType

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from migrator.engine import migrate_program  # noqa: E402
from migrator.facts.names.api import RUNTIME  # noqa: E402
from migrator.files.programs import Program, programs  # noqa: E402
from migrator.files.project import is_unit_test  # noqa: E402
from migrator.findings.results import Defect, Failure, Finding, Outcome  # noqa: E402
from migrator.registry import all_rules  # noqa: E402
from migrator.rule import Rule  # noqa: E402
from migrator.text.source import is_about_training  # noqa: E402

# Pinned, so that two runs see the same files.
PACKAGES = (
    "tf-models-official==2.4.0",
    "tf-models-official==2.7.0",
    "tf-agents==0.19.0",
    "adversarial-robustness-toolbox==1.20.1",
    "tensorflow-privacy==0.9.0",
    "keras-cv==0.9.0",
    "spektral==1.3.1",
    "deepctr==0.9.4",
)
TIME_LIMIT = 60.0  # CPU-seconds after which a program is given up
SLOW_LINES = 2000.0  # lines per CPU-second below which a program is a defect, if it takes over a second


class OutOfTime(BaseException):
    """The time limit of a program has passed. No Exception: the engine must not take it for one of its own."""


@dataclass(frozen=True)
class File:
    package: str
    path: str
    data: bytes

    @property
    def name(self) -> str:
        return f"{self.package}: {self.path}"


@dataclass
class Migrated:
    """What came of one file, and what is wrong with that."""

    file: File
    mentions_training: bool
    lines: int
    status: str = "untouched"
    refusals: tuple[Finding, ...] = ()
    defects: dict[str, str] = field(default_factory=dict)


DEFECTS = {
    "crash": "crashes (must be 0)",
    "broken": "outputs that do not compile (must be 0)",
    "unbound": "outputs that use the runtime before they import it (must be 0)",
    "unstable": "second runs that change something (must be 0)",
    "stray": "files with lines changed outside of the reported sites (must be 0)",
    "slow": f"programs slower than {SLOW_LINES:g} lines per CPU-second (must be 0)",
}
STATUSES = {
    "migrated": "migrated",
    "partly": "migrated, with sites that are refused",
    "refused": "refused as a whole",
    "untouched": "nothing to do",
    "unreadable": "not Python 3",
}


def download(cache: Path) -> list[Path]:
    """The wheels of PACKAGES in the cache, downloaded where they are missing. Raises CalledProcessError."""
    cache.mkdir(parents=True, exist_ok=True)
    wheels: list[Path] = []
    for package in PACKAGES:
        stem = package.replace("-", "_").replace("==", "-")
        if not list(cache.glob(f"{stem}-*.whl")):
            options = ["--quiet", "--no-deps", "--only-binary=:all:", "--ignore-requires-python", "--dest", str(cache)]
            subprocess.run([sys.executable, "-m", "pip", "download", *options, package], check=True, timeout=600)
        wheels.extend(cache.glob(f"{stem}-*.whl"))
    return wheels


def files(sources: Iterable[Path]) -> Iterator[File]:
    """The Python files of wheels and folders; of equal ones (two versions of a package) the first."""
    seen = set()
    for file in (file for source in sources for file in _files(source)):
        digest = sha256(file.data).digest()
        if digest not in seen:
            seen.add(digest)
            yield file


def _files(source: Path) -> Iterator[File]:
    if source.is_dir():
        for path in sorted(source.rglob("*.py")):
            yield File(source.name, path.relative_to(source).as_posix(), path.read_bytes())
        return
    package = " ".join(source.stem.split("-")[:2])
    with zipfile.ZipFile(source) as wheel:
        for name in sorted(wheel.namelist()):
            if name.endswith(".py"):
                yield File(package, name, wheel.read(name))


@dataclass
class Run:
    """One program: CPU-seconds of its first migration, and what came of its files."""

    name: str
    files: list[Migrated]
    seconds: float = 0.0

    @property
    def trains(self) -> bool:
        return any(migrated.mentions_training for migrated in self.files)

    @property
    def lines(self) -> int:
        return sum(migrated.lines for migrated in self.files)


def grouped(found: Iterable[File]) -> Iterator[tuple[Program, dict[Path, File]]]:
    """The programs of each package, with its files by the paths that the programs know them by."""
    packages: dict[str, dict[Path, File]] = {}
    for file in found:
        packages.setdefault(file.package, {})[Path("/", file.package, file.path)] = file
    for package in packages.values():
        tests = {path for path, file in package.items() if is_unit_test(path, file.data)}
        for program in programs({path: file.data for path, file in package.items() if path not in tests}):
            yield program, package
        for path in sorted(tests):
            yield Program({path: package[path].data}), package


def run(program: Program, package: dict[Path, File], rules: Sequence[Rule], diffs: Path | None = None) -> Run:
    """Migrates the program, and what came out once more; notes every defect. Writes diffs into a folder, if given."""
    files = {
        path: Migrated(package[path], is_about_training(data), data.count(b"\n"))
        for path, data in program.files.items()
    }
    result = Run(next(iter(files.values())).file.name, list(files.values()))
    first = result.files[0]
    outcomes: dict[Path, Outcome | Failure] = {}
    gc.collect()  # the cycles of the program before are not this one's time
    start = time.process_time()
    try:
        outcomes = _bounded(program, rules)
    except Defect as error:
        first.defects["broken"] = str(error)
    except OutOfTime:
        first.defects["slow"] = f"given up after {TIME_LIMIT:g} CPU-seconds"
    except Exception:
        first.defects["crash"] = traceback.format_exc()
    result.seconds = time.process_time() - start
    if result.seconds > max(1.0, result.lines / SLOW_LINES):
        first.defects.setdefault("slow", f"{result.seconds:.1f} CPU-seconds for {result.lines} lines")
    for path, outcome in outcomes.items():
        _note(files[path], outcome, diffs)
    first.defects.update(_second_run(program, outcomes, package, rules))
    return result


def _note(migrated: Migrated, outcome: Outcome | Failure, diffs: Path | None) -> None:
    """What came of a file."""
    if not isinstance(outcome, Outcome):
        migrated.status = "unreadable"
        return
    migrated.refusals = tuple(outcome.refusals)
    if outcome.is_changed:
        migrated.status = "partly" if outcome.refusals else "migrated"
        migrated.defects.update(_defects(outcome))
        if diffs is not None:
            written = diffs / migrated.file.package / f"{migrated.file.path}.diff"
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_text(_diff(migrated.file, outcome), encoding="utf-8", newline="")
    elif outcome.refusals:
        migrated.status = "refused"


def _bounded(program: Program, rules: Sequence[Rule]) -> dict[Path, Outcome | Failure]:
    def give_up(signum: int, frame: FrameType | None) -> None:
        raise OutOfTime

    signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, TIME_LIMIT)
    try:
        return migrate_program(program, rules)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _defects(outcome: Outcome) -> Iterator[tuple[str, str]]:
    problem = _compile_error(outcome.data)
    if problem and not _compile_error(outcome.old):
        yield "broken", problem
    elif early := uses_before_import(outcome.data):
        yield "unbound", f"lines {', '.join(map(str, early))}"
    lines = stray_lines(outcome.old, outcome.data, outcome.findings)
    if lines:
        yield "stray", f"lines {', '.join(map(str, lines))}"


def _second_run(
    program: Program, outcomes: dict[Path, Outcome | Failure], package: dict[Path, File], rules: Sequence[Rule]
) -> Iterator[tuple[str, str]]:
    """What is wrong with migrating once more what was migrated."""
    changed = {p: o.data for p, o in outcomes.items() if isinstance(o, Outcome) and o.is_changed}
    if not changed:
        return
    try:
        again = _bounded(replace(program, files={**program.files, **changed}), rules)
    except OutOfTime:
        yield "slow", f"the second run was given up after {TIME_LIMIT:g} CPU-seconds"
    except Exception:
        yield "crash", "in the second run: " + traceback.format_exc()
    else:
        diffs = [_diff(package[p], o) for p, o in again.items() if isinstance(o, Outcome) and o.is_changed]
        if diffs:
            yield "unstable", "\n" + "\n".join(diffs)


def _compile_error(data: bytes) -> str:
    """What keeps the bytes from being compiled; nothing is run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(data, "migrated", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return f"line {getattr(error, 'lineno', '?')}: {error}"
    return ""


def uses_before_import(data: bytes) -> list[int]:
    """Lines that name the runtime before its import has run; bodies of functions, which run later, do not count."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pending: list[ast.AST] = [ast.parse(data)]
    used, bound, name = [], float("inf"), RUNTIME
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == RUNTIME:
                    name, bound = alias.asname or RUNTIME, min(bound, node.lineno)
        elif isinstance(node, ast.Name):
            used.append((node.id, node.lineno))
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            pending.extend(ast.iter_child_nodes(node))
    return sorted({line for used_name, line in used if used_name == name and line < bound})


# -- what may change -----------------------------------------------------------------------------------------------


def stray_lines(old: bytes, new: bytes, findings: Iterable[Finding]) -> list[int]:
    """Lines of the original, counted from 1, that are gone from the new text although no finding accounts for them.

    A finding accounts for the innermost statement at its place, of one with a body for the header; and for the lines
    after it as long as nothing but their indentation has grown: an `if` was put around them.
    """
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    spans = _statement_spans(old)
    sites = {line for finding in findings if not finding.is_refusal for line in _statement_at(finding.line, spans)}
    guarded = set(sites)
    stray = []
    for kind, first, last, new_first, new_last in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        printed = after[new_first:new_last] if kind == "replace" else []
        for number in range(first + 1, last + 1) if kind in ("replace", "delete") else ():
            line = before[number - 1]
            indented = next((p for p in printed if p.endswith(line) and not p[: -len(line)].strip()), None)
            if indented is not None:
                printed.remove(indented)
            if indented is not None and _last_line_above(number, before) in guarded:
                guarded.update(_statement_at(number, spans))
            elif number not in sites:
                stray.append(number)
    return stray


def _last_line_above(number: int, lines: Sequence[bytes]) -> int:
    """The nearest line above that is not blank."""
    return next((above for above in range(number - 1, 0, -1) if lines[above - 1].strip()), 0)


def _statement_at(line: int, spans: Iterable[range]) -> range:
    return min((span for span in spans if line in span), key=len, default=range(line, line + 1))


def _statement_spans(source: bytes) -> list[range]:
    """The lines of every statement, of one with a body those of its header."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    spans = []
    for node in statements:
        body = getattr(node, "body", None)
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        last = max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno
        spans.append(range(first, last + 1))
    return spans


def _diff(file: File, outcome: Outcome) -> str:
    old, new = outcome.old_text.splitlines(keepends=True), outcome.text.splitlines(keepends=True)
    return "".join(unified_diff(old, new, f"a/{file.path}", f"b/{file.path}"))


# -- the report ----------------------------------------------------------------------------------------------------


def report(runs: Sequence[Run]) -> str:
    """The tables, in markdown."""
    files = [migrated for r in runs for migrated in r.files]
    training = [migrated for migrated in files if migrated.mentions_training]
    with_training = [r for r in runs if r.trains]
    others = [r for r in runs if not r.trains]
    counted = Counter(kind for migrated in files for kind in migrated.defects)
    lines = sum(r.lines for r in with_training) / 1000
    status = Counter(migrated.status for migrated in training)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    packages = Counter(migrated.file.package for migrated in files)
    rows = [
        ("files", f"{len(files)} in {len(packages)} packages"),
        ("files that mention training", f"{len(training)}, {sum(t.lines for t in training) / 1000:.1f} KLOC"),
        (
            "programs that train",
            f"{len(with_training)}, of {sum(len(r.files) for r in with_training)} files, {lines:.1f} KLOC",
        ),
        *((text, str(counted[kind])) for kind, text in DEFECTS.items()),
        *((text, str(status[name])) for name, text in STATUSES.items()),
        ("KLOC per CPU-second, programs that train", f"{lines / _seconds(with_training):.1f}"),
        ("files per CPU-second, other files", f"{len(others) / _seconds(others):,.0f}"),
        ("peak memory of this process, all programs in turn", f"{peak:.0f} MiB"),
    ]
    slowest = sorted(with_training, key=lambda r: -r.seconds)[:10]
    parts = [
        _table("what", "measured", rows),
        "Packages: " + ", ".join(f"{name} ({n} files)" for name, n in packages.items()),
        _table(
            "slowest programs, by their first file",
            "CPU-seconds",
            [(f"`{r.name}`, {len(r.files)} files, {r.lines} lines", f"{r.seconds:.2f}") for r in slowest],
        ),
        _table("refused: rule and reason", "files", _reasons(training)),
    ]
    return "\n\n".join(parts) + "\n"


def _seconds(runs: Iterable[Run]) -> float:
    return sum(r.seconds for r in runs) or float("inf")


def _reasons(files: Iterable[Migrated]) -> list[tuple[str, str]]:
    """How many files each reason refused something in; what stands in backquotes or counts is the script's own."""
    counts: Counter[str] = Counter()
    for migrated in files:
        counts.update({f"`{f.rule}`: {re.sub(r'`[^`]*`|[0-9]+', '…', f.message)}" for f in migrated.refusals})
    return [(reason, str(number)) for reason, number in counts.most_common()]


def _table(what: str, measured: str, rows: Iterable[tuple[str, str]]) -> str:
    escaped = (f"| {name.replace('|', chr(92) + '|')} | {value} |" for name, value in rows)
    return "\n".join([f"| {what} | {measured} |", "|---|---|", *escaped])


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("--cache", type=Path, help="where the wheels are kept (default: a temporary folder)")
    options.add_argument("--diffs", type=Path, help="write the diff of each migrated file here")
    options.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    given = options.parse_args()
    rules = list(all_rules().values())
    with tempfile.TemporaryDirectory() as temporary:
        wheels = download(given.cache or Path(temporary))
        runs = [run(p, package, rules, given.diffs) for p, package in grouped(files([*wheels, *given.folders]))]
    print(report(runs), end="")
    defects = [(kind, m.file.name, text) for r in runs for m in r.files for kind, text in m.defects.items()]
    for kind, name, text in defects:
        print(f"{kind}: {name}: {text}", file=sys.stderr)
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
