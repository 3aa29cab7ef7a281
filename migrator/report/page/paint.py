"""Python as HTML, line by line, in the colours of Pygments."""

from __future__ import annotations

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer


def painted(text: str) -> list[Markup]:
    """Each line of the source; lines end where Python ends them."""
    html = highlight(text.replace("\r\n", "\n").replace("\r", "\n"), _LEXER, _FORMATTER)
    lines = html.split("\n")
    return [Markup(line) for line in (lines[:-1] if lines and not lines[-1] else lines)]


def styles() -> str:
    """The colours, for light and for dark."""
    light = HtmlFormatter(style="default").get_style_defs(".code")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".code")
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


# The first and last blank lines belong to the file.
_LEXER = PythonLexer(stripnl=False, ensurenl=True)
_FORMATTER: HtmlFormatter[str] = HtmlFormatter(nowrap=True)
