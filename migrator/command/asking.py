"""`migrate --interactive`: asks about each training on the terminal, with the keys of `git add -p`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

from migrator.command.patching import UnfitDiff, patched
from migrator.findings.results import Outcome
from migrator.findings.trainings import Training
from migrator.report import diff, text
from migrator.text.parsing import is_python
from migrator.text.source import Source

_KEYS = """\
y - migrate this training
n - leave it as it is
a - migrate this one, and all later ones in its folder and below
d - leave this one, and all later ones in its folder and below
e - edit its diff, and write what comes of it
q - quit: leave this one and all later ones; what was migrated stays
? - print help"""
_PART = (
    "these changes train the same model on several workers only together: with other ones,\n"
    "workers may train another model, or wait for each other forever"
)
_ABOUT_DIFF = """\
# To leave a line out that begins with +, delete it; to keep one that begins with -, make its - a space.
# Lines that begin with # are removed. These changes train the same model on several workers only together.
"""

# What is to be written to the files of a training: the migrated form, the user's own, or nothing.
Contents = Mapping[Path, bytes]


class Questions:
    """Asks on standard error and reads the answers, a line each, from standard input; its end is taken for `q`."""

    def __init__(self) -> None:
        self._taken: list[str] = []
        self._left: list[str] = []
        self._is_over = False

    def ask(self, training: Training, number: int, total: int) -> Contents | None:
        """What is to be written for the training, `number` of `total`; None to leave it as it is."""
        folder = os.path.commonpath([path.parent for path in training.files])
        if self._is_over or _is_within(folder, self._left):
            return None
        whole = {path: _outcome(training, path).data for path in training.files}
        if _is_within(folder, self._taken):
            return whole
        for line in _shown(training):
            _tell(line)
        while True:
            key = _answer(f"({number}/{total}) Migrate {_name(training)} [y,n,a,d,e,q,?]? ", default="q")[:1]
            if key in ("y", "a"):
                self._taken += [folder] * (key == "a")
                return whole
            if key in ("n", "d", "q"):
                self._left += [folder] * (key == "d")
                self._is_over = key == "q"
                return None
            if key != "e":
                _tell(click.style(_KEYS, fg="red", bold=True))
                continue
            edited = _edited(training)
            if edited is not None:
                return edited if edited else None


def _is_within(folder: str, folders: list[str]) -> bool:
    return any(folder == above or folder.startswith(os.path.join(above, "")) for above in folders)


def _outcome(training: Training, path: Path) -> Outcome:
    outcome = training.files[path].outcome
    assert isinstance(outcome, Outcome)
    return outcome


def _name(training: Training) -> str:
    files = len(training.files)
    return training.first if files == 1 else f"this training of {files} files"


def _shown(training: Training) -> Iterator[str]:
    """What would change, and what is refused beside it."""
    for path, file in training.files.items():
        outcome = _outcome(training, path)
        yield from diff.of_file(file.name, outcome.old_text, outcome.text)
    for file in training.files.values():
        yield from text.findings(file, with_edits=False)


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _answer(question: str, *, default: str) -> str:
    """The answer as a word in lower case; the default at the end of the input."""
    while True:
        click.echo(click.style(question, fg="blue", bold=True), err=True, nl=False)
        line = sys.stdin.readline() if sys.stdin is not None else ""
        if not line:
            _tell("")
            return default
        if line.strip():
            return line.strip().lower()


def _agrees(question: str) -> bool:
    return _answer(f"{question} [y/n]? ", default="n").startswith("y")


def _edited(training: Training) -> Contents | None:
    """What the user's editor leaves of the training; empty where nothing is to be written, None to ask anew."""
    texts = {_label(training, path): _outcome(training, path).old_text for path in training.files}
    whole = {_label(training, path): _outcome(training, path).text for path in training.files}
    shown = [click.unstyle(line) for name in texts for line in diff.unified(name, texts[name], whole[name])]
    wanted = _ABOUT_DIFF + "".join(f"{line}\n" for line in shown)
    while True:
        try:
            given = click.edit(wanted, extension=".diff")
        except click.ClickException as error:
            _tell(text.error(error.format_message()))
            return None
        if given is None:  # nothing was saved
            return None
        try:
            edited = patched(texts, given)
            problem = _problem(training, edited)
        except UnfitDiff as error:
            problem = str(error)
        if not problem:
            break
        _tell(text.error(f"the edited diff does not apply: {problem}"))
        if not _agrees("Edit it again (no: it is lost)"):
            return None
        wanted = given
    if edited == texts:
        return {}
    if edited != whole:
        _tell(f"{click.style('warning:', fg='yellow', bold=True)} {_PART}")
        if not _agrees("Write them all the same"):
            return None
    return {p: _source(training, p).encode(edited[_label(training, p)]) for p in training.files}


def _problem(training: Training, texts: Mapping[str, str]) -> str:
    """Why these texts cannot be written; empty where they can."""
    for path in training.files:
        name, source = _label(training, path), _source(training, path)
        if is_python(source.text) and not is_python(texts[name]):
            return f"{name} would not be valid Python"
        try:
            source.encode(texts[name])
        except UnicodeEncodeError:
            return f"{name} is written in {source.encoding}, which lacks a character of it"
    return ""


def _label(training: Training, path: Path) -> str:
    return training.files[path].name.lstrip("/")


def _source(training: Training, path: Path) -> Source:
    return Source.decode(_outcome(training, path).old)
