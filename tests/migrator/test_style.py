"""Inserted code looks like the file's own: as ruff or black is told, or as the file shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import NOTHING_LEFT, TRAINING, migrate

from migrator.layout import Style

LONG = TRAINING.replace("batch_size=32)", "batch_size=32, epochs=3, verbose=1)")


def longest(path: Path) -> int:
    return max(map(len, path.read_text().splitlines()))


def migrated(path: Path, *options: str) -> str:
    path.write_text(LONG)
    assert migrate(*options, path).exit_code == NOTHING_LEFT
    assert migrate("--check", *options, path).exit_code == NOTHING_LEFT
    return path.read_text()


def text_of(*widths: int) -> str:
    return "".join(f"x = {'y' * (width - 4)}\n" for width in widths)


# -- what formatters are told ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "config", "width"),
    [
        ("pyproject.toml", "[tool.ruff]\nline-length = 150\n", 150),
        ("ruff.toml", "line-length = 150\n", 150),
        (".ruff.toml", 'extend = "other.toml"\n', 150),
        ("pyproject.toml", "[tool.black]\nline-length = 150\n", 150),
        ("pyproject.toml", "[tool.black]\n", 88),
        ("pyproject.toml", "[tool.ruff]\n", 88),
        ("pyproject.toml", "[project]\n", 100),
        ("ruff.toml", "not = = toml\n", 88),
    ],
)
def test_line_length_of_formatters_is_heeded(script: Path, name: str, config: str, width: int) -> None:
    (script.parent / "other.toml").write_text("line-length = 150\n")
    (script.parent / name).write_text(config)
    calls = migrated(script).partition("model.fit")[2]
    assert ("\n    *lockstep" in calls) == (width < 130)
    assert longest(script) <= width


def test_the_nearest_file_counts_and_what_migrate_is_told_counts_more(script: Path) -> None:
    folder = script.parent / "jobs"
    folder.mkdir()
    (script.parent / "pyproject.toml").write_text("[tool.ruff]\nline-length = 60\n")
    assert "\n    loss" in migrated(folder / "near.py")
    (folder / "ruff.toml").write_text("line-length = 200\n")
    assert "model.fit(*lockstep" in migrated(folder / "near.py")
    assert "\n    loss" in migrated(folder / "near.py", "--line-length", "60")
    assert "\n    *lockstep" in migrated(folder / "near.py", "--isolated")


@pytest.mark.parametrize(
    ("config", "quote"),
    [
        ("[tool.ruff.format]\nquote-style = 'single'\n", "'"),
        ("[tool.ruff.format]\nquote-style = 'preserve'\n", "'"),
        ("[tool.ruff]\n", '"'),
        ("[tool.black]\n", '"'),
        ("[tool.black]\nskip-string-normalization = true\n", "'"),
        ("", "'"),
    ],
)
def test_quotes_are_those_of_the_formatter_or_the_file(script: Path, config: str, quote: str) -> None:
    (script.parent / "pyproject.toml").write_text(config)
    script.write_text(TRAINING.replace('"', "'").replace("optimizer='adam', ", "").replace("\nx, y", "\n\nx, y"))
    assert migrate(script).exit_code == NOTHING_LEFT
    assert f"lockstep.distributed_optimizer({quote}rmsprop{quote})" in script.read_text()


def test_what_was_found_before_is_not_told_of_another_style(script: Path) -> None:
    options = ("--check", "--output-format", "json", script)
    before = migrate(*options).stdout
    (script.parent / "ruff.toml").write_text("line-length = 50\n")
    assert migrate(*options).stdout != before


# -- what the file shows -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 100),
        (text_of(30, 40), 100),
        (text_of(*[40] * 20, 77, 78, 79), 79),
        (text_of(*[40] * 20, 77, 78, 80), 80),
        (text_of(*[40] * 20, 84, 86, 88), 88),
        (text_of(*[40] * 20, 60, 65, 66), 100),
        (text_of(77, 78, 79), 100),
        (text_of(*[40] * 20, 98, 99, 100), 100),
        (text_of(*[40] * 20, 110, 115, 119), 120),
        (text_of(*[40] * 20, 110), 100),
        (text_of(*[40] * 20, 110, 115, 119, 250), 100),
        ("\tx\n" * 20 + "\t" + text_of(73, 74, 75).replace("\n", "\n\t") + "y\n", 79),
    ],
)
def test_line_length_is_the_one_that_the_file_keeps(text: str, width: int) -> None:
    assert Style().of(text).line_length == width
    assert Style(72).of(text).line_length == 72


def test_statements_that_a_formatter_broke_at_88_tell_of_it() -> None:
    call = f"model = keras.Sequential(\n    [{'a' * 35}, {'b' * 36}]\n)\n"  # 79 columns hold less
    assert Style().of(text_of(*[40] * 20, 77, 78, 79) + call).line_length == 79
    call = f"model = Sequence(\n    {'a' * 35}, {'b' * 40}, c\n)\n"
    assert Style().of(text_of(*[40] * 20, 77, 78, 79) + call.replace("c\n", "c, d\n")).line_length == 100


@pytest.mark.parametrize(
    ("text", "quote"),
    [("", '"'), ("x = 'a'\n", "'"), ("x = 'a', \"b\"\n", '"'), ("'''docs'''\nx = 'it'\n", "'"), ('f("it\'s")\n', '"')],
)
def test_quotes_are_those_of_most_strings(text: str, quote: str) -> None:
    assert Style().of(text).quote == quote
