"""Runs every rule over the training code of published packages: what crashes, what is touched, how fast.

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
from dataclasses import dataclass, field
from difflib import SequenceMatcher, unified_diff
from hashlib import sha256
from pathlib import Path
from types import FrameType

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY))

from migrator.engine import BrokenOutput, Finding, Outcome, ScriptSyntaxError, migrate  # noqa: E402
from migrator.registry import all_rules  # noqa: E402
from migrator.rule import Rule  # noqa: E402
from migrator.source import UnreadableSource, is_about_training  # noqa: E402
from migrator.targets.lockstep import MODULE as RUNTIME  # noqa: E402

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
TIME_LIMIT = 20.0  # CPU-seconds after which a file is given up
SLOW = 2.0  # CPU-seconds from which a file is a defect


class OutOfTime(BaseException):
    """The time limit of a file has passed. No Exception: the engine must not take it for one of its own."""


@dataclass(frozen=True)
class File:
    package: str
    path: str
    data: bytes

    @property
    def name(self) -> str:
        return f"{self.package}: {self.path}"


@dataclass
class Run:
    """What came of one file: CPU-seconds of its first migration, what became of it, and what is wrong with that."""

    file: File
    mentions_training: bool
    lines: int
    seconds: float = 0.0
    status: str = "untouched"
    refusals: tuple[Finding, ...] = ()
    defects: dict[str, str] = field(default_factory=dict)


DEFECTS = {
    "crash": "crashes (must be 0)",
    "broken": "outputs that do not compile (must be 0)",
    "unbound": "outputs that use the runtime before they import it (must be 0)",
    "unstable": "second runs that change something (must be 0)",
    "stray": "files with lines changed outside of the reported sites (must be 0)",
    "slow": f"files that take over {SLOW:g} CPU-seconds (must be 0)",
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


def run(file: File, rules: Sequence[Rule], diffs: Path | None = None) -> Run:
    """Migrates the file, and what came out once more; notes every defect. Writes the diff into a folder, if given."""
    result = Run(file, is_about_training(file.data), file.data.count(b"\n"))
    outcome = None
    gc.collect()  # the cycles of the file before are not this one's time
    start = time.process_time()
    try:
        outcome = _bounded(file.data, rules)
    except (ScriptSyntaxError, UnreadableSource):
        result.status = "unreadable"
    except BrokenOutput as error:
        result.defects["broken"] = str(error)
    except OutOfTime:
        result.defects["slow"] = f"given up after {TIME_LIMIT:g} CPU-seconds"
    except Exception:
        result.defects["crash"] = traceback.format_exc()
    result.seconds = time.process_time() - start
    if result.seconds > SLOW:
        result.defects.setdefault("slow", f"{result.seconds:.1f} CPU-seconds")
    if outcome is None:
        return result
    result.refusals = tuple(outcome.refusals)
    if outcome.is_changed:
        result.status = "partly" if outcome.refusals else "migrated"
        result.defects.update(_defects(file, outcome, rules))
        if diffs is not None:
            written = diffs / file.package / f"{file.path}.diff"
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_text(_diff(file, outcome), encoding="utf-8", newline="")
    elif outcome.refusals:
        result.status = "refused"
    return result


def _bounded(data: bytes, rules: Sequence[Rule]) -> Outcome:
    def give_up(signum: int, frame: FrameType | None) -> None:
        raise OutOfTime

    signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, TIME_LIMIT)
    try:
        return migrate(data, rules)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _defects(file: File, outcome: Outcome, rules: Sequence[Rule]) -> Iterator[tuple[str, str]]:
    problem = _compile_error(outcome.data)
    if problem and not _compile_error(outcome.old):
        yield "broken", problem
    elif early := _uses_before_import(outcome.data):
        yield "unbound", f"lines {', '.join(map(str, early))}"
    lines = stray_lines(outcome.old, outcome.data, outcome.findings)
    if lines:
        yield "stray", f"lines {', '.join(map(str, lines))}"
    try:
        again = _bounded(outcome.data, rules)
    except OutOfTime:
        yield "slow", f"the second run was given up after {TIME_LIMIT:g} CPU-seconds"
    except Exception:
        yield "crash", "in the second run: " + traceback.format_exc()
    else:
        if again.is_changed:
            yield "unstable", "\n" + _diff(file, again)


def _compile_error(data: bytes) -> str:
    """What keeps the bytes from being compiled; nothing is run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(data, "migrated", "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        return f"line {getattr(error, 'lineno', '?')}: {error}"
    return ""


def _uses_before_import(data: bytes) -> list[int]:
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
    training = [r for r in runs if r.mentions_training]
    others = [r for r in runs if not r.mentions_training]
    counted = Counter(kind for r in runs for kind in r.defects)
    lines = sum(r.lines for r in training) / 1000
    status = Counter(r.status for r in training)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rows = [
        ("files", f"{len(runs)} in {len({r.file.package for r in runs})} packages"),
        ("files that mention training", f"{len(training)}, {lines:.1f} KLOC"),
        *((text, str(counted[kind])) for kind, text in DEFECTS.items()),
        *((text, str(status[name])) for name, text in STATUSES.items()),
        ("KLOC per CPU-second, files that mention training", f"{lines / _seconds(training):.1f}"),
        ("files per CPU-second, other files", f"{len(others) / _seconds(others):,.0f}"),
        ("peak memory of this process, all files in turn", f"{peak:.0f} MiB"),
    ]
    slowest = sorted(training, key=lambda r: -r.seconds)[:10]
    parts = [
        _table("what", "measured", rows),
        "Packages: " + ", ".join(f"{name} ({n} files)" for name, n in Counter(r.file.package for r in runs).items()),
        _table(
            "slowest files", "CPU-seconds", [(f"`{r.file.name}`, {r.lines} lines", f"{r.seconds:.2f}") for r in slowest]
        ),
        _table("refused: rule and reason", "files", _reasons(training)),
    ]
    return "\n\n".join(parts) + "\n"


def _seconds(runs: Iterable[Run]) -> float:
    return sum(r.seconds for r in runs) or float("inf")


def _reasons(runs: Iterable[Run]) -> list[tuple[str, str]]:
    """How many files each reason refused something in; what stands in backquotes or counts is the script's own."""
    counts: Counter[str] = Counter()
    for r in runs:
        counts.update({f"`{f.rule}`: {re.sub(r'`[^`]*`|[0-9]+', '…', f.message)}" for f in r.refusals})
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
        runs = [run(file, rules, given.diffs) for file in files([*wheels, *given.folders])]
    print(report(runs), end="")
    defects = [(kind, r.file.name, text) for r in runs for kind, text in r.defects.items()]
    for kind, name, text in defects:
        print(f"{kind}: {name}: {text}", file=sys.stderr)
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
