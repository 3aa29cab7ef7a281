"""From a script's text to its tree: what Python takes is taken, and what it refuses is told in its own words."""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import warnings
from collections.abc import Iterator

import libcst as cst

from migrator.findings.results import Failure

# The oldest Python that a script is written for as far as nothing in it says otherwise.
OLDEST_PYTHON = (3, 9)
# What nests deeper would exhaust the recursive walks over its tree; nobody writes it by hand.
DEEPEST = 250
_TOO_DEEP = (
    f"the code is nested too deeply to be analysed (more than {DEEPEST} levels): split it into several statements"
)

_PYTHON_2 = re.compile(
    r"^\s*print\s+[^\s=(]|^\s*print\s*$|^\s*print\s*>>|\bexcept\s+[\w.]+\s*,\s*[a-z_]\w*\s*:|\bexcept\s*\([^)]*\)\s*,\s*\w+\s*:"
    r"|\braise\s+[\w.]+\s*,|^\s*exec\s+[\w\"'(]|`[^`]+`|<>|(?<![\w.])(?:0[xX][0-9a-fA-F]+[lL]|[0-9]+[lL]|0[0-7]+)\b"
    r"|\b[uU][rR][\"']|\bdef\s+\w+\s*\((?:[^()]*,)?\s*\(|\blambda\s*\([^)]*\)\s*:"
)
_ONLY_PYTHON = "Python takes {}, but libcst, the parser of this tool, does not: write it differently"
_PYTHON_2_ADVICE = "this is Python 2: convert it to Python 3 first, with 2to3 or futurize"


class ScriptSyntaxError(Failure):
    """The file is not Python 3 that can be parsed; has a line and a column."""


def parse(text: str) -> cst.Module:
    """The tree of the text. Raises ScriptSyntaxError with Python's own line, column and message."""
    try:
        tree = syntax_tree(text)
    except SyntaxError as error:
        return _newer(text, error)
    except ValueError as error:
        raise ScriptSyntaxError(f"not valid Python: {error}", 1, 1) from None
    except (RecursionError, MemoryError):
        raise ScriptSyntaxError(_TOO_DEEP, _fullest_line(text), 1) from None
    for statement in _too_deep(tree, text):
        raise ScriptSyntaxError(_TOO_DEEP, statement.lineno, statement.col_offset + 1)
    for node in _python_2(tree, text):
        raise ScriptSyntaxError(_PYTHON_2_ADVICE, node.lineno, node.col_offset + 1)
    for line in _fed_indents(tree, text):
        raise ScriptSyntaxError(
            "a form feed in the indentation, which parsers read in different ways: take it out", line, 1
        )
    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        kind, _, problem = str(error.message).partition(": ")
        if kind == "tokenizer error":  # which tells no place
            raise ScriptSyntaxError(f"{_ONLY_PYTHON.format('this file')} ({problem})", 1, 1) from None
        raise ScriptSyntaxError(_ONLY_PYTHON.format("this line"), error.raw_line, error.raw_column + 1) from None


def syntax_tree(text: str, version: tuple[int, int] | None = None) -> ast.Module:
    """What Python's own parser makes of the text, as that of an older version if one is given."""
    with warnings.catch_warnings():
        # Invalid escapes and the like are the script's own business.
        warnings.simplefilter("ignore")
        return ast.parse(text, feature_version=version)


def is_python(text: str, version: tuple[int, int] | None = None) -> bool:
    """Whether the Python at hand, or that version of it as far as it can tell, takes the text."""
    try:
        syntax_tree(text, version)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _newer(text: str, error: SyntaxError) -> cst.Module:
    """The tree of a text that only a newer Python than the one at hand takes. Raises ScriptSyntaxError for others."""
    line, column = error.lineno or 1, max(error.offset or 1, 1)
    lines = _lines(text)
    culprit = lines[line - 1] if line <= len(lines) else ""
    if _PYTHON_2.search(culprit) or "call to 'print'" in str(error.msg) or "call to 'exec'" in str(error.msg):
        raise ScriptSyntaxError(_PYTHON_2_ADVICE, line, column)
    if "too many nested parentheses" in str(error.msg):
        raise ScriptSyntaxError(_TOO_DEEP, line, column)
    try:
        module = cst.parse_module(text) if max(map(len, lines), default=0) < 10_000 else None
    except (cst.ParserSyntaxError, cst.CSTValidationError):
        module = None
    if module is None or version_needed(module) <= sys.version_info[:2]:
        kind = "" if type(error) is SyntaxError else f"{type(error).__name__}: "
        raise ScriptSyntaxError(f"not valid Python: {kind}{error.msg}", line, column)
    return module


# -- versions --------------------------------------------------------------------------------------------------------

_NEW_SYNTAX = {
    "Match": (3, 10),
    "TryStar": (3, 11),
    "TypeParameters": (3, 12),
    "TypeAlias": (3, 12),
    "TemplatedString": (3, 14),
}


def version_needed(module: cst.Module) -> tuple[int, int]:
    """The oldest Python that takes the syntax of the module, as far as it is newer than the oldest supported."""
    found, nodes = OLDEST_PYTHON, list(every_node(module))
    for name, version in _NEW_SYNTAX.items():
        kind = getattr(cst, name, None)  # an older libcst knows fewer
        if kind is not None and any(type(node) is kind for node in nodes):
            found = max(found, version)
    for node in nodes:
        if isinstance(node, cst.ExceptHandler) and isinstance(node.type, cst.Tuple) and not node.type.lpar:
            found = max(found, (3, 14))
        elif isinstance(node, cst.FormattedString) and is_new_f_string(module, node):
            found = max(found, (3, 12))
    return found


def every_node(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The node and all that it is made of, white space too."""
    yield node
    for child in node.children:
        yield from every_node(child)


def is_new_f_string(module: cst.Module, node: cst.FormattedString) -> bool:
    """Whether the braces of an f-string hold what only Python 3.12 takes there.

    Before it, no backslash and no comment might stand in them, not the quote that delimits the string, and no line
    end unless three quotes do.
    """
    ends = () if len(node.quote) == 3 else ("\n", "\r")
    for part in node.parts:
        if isinstance(part, cst.FormattedStringExpression):
            code, braces = module.code_for_node(part.expression), module.code_for_node(part)
            if any(piece in code for piece in ("\\", "#")) or any(piece in braces for piece in (node.quote, *ends)):
                return True
    return False


# -- Python 2 --------------------------------------------------------------------------------------------------------

_MAYBE_PYTHON_2 = re.compile(r"^[ \t]*print[ \t]*>>|\bexcept[ \t]+[\w.]+[ \t]*,", re.M)


def _python_2(tree: ast.Module, text: str) -> Iterator[ast.expr]:
    """What is Python 3 by its syntax only: `print >>file, text`, and `except Error, error:` for Python 3.14."""
    for node in ast.walk(tree) if _MAYBE_PYTHON_2.search(text) else ():
        if isinstance(node, ast.Expr):
            first = node.value.elts[0] if isinstance(node.value, ast.Tuple) and node.value.elts else node.value
            while isinstance(first, ast.BinOp):
                if isinstance(first.op, ast.RShift) and isinstance(first.left, ast.Name) and first.left.id == "print":
                    yield node.value
                first = first.left
        elif (
            isinstance(node, ast.ExceptHandler)
            and isinstance(node.type, ast.Tuple)
            and _PYTHON_2.search(_lines(text)[node.lineno - 1])
        ):
            yield node.type


# -- form feeds ------------------------------------------------------------------------------------------------------


def _fed_indents(tree: ast.Module, text: str) -> Iterator[int]:
    """The lines of statements with a form feed in their indentation: libcst reads some of them, as long as no other
    line of the block differs. One that stands alone, or before what is not indented, is harmless."""
    lines = _lines(text) if "\f" in text else []
    for node in ast.walk(tree) if lines else ():
        if isinstance(node, ast.stmt):
            before = lines[node.lineno - 1].encode()[: node.col_offset].decode()
            if "\f" in before and before.isspace() and before.rpartition("\f")[2]:
                yield node.lineno


_HAS_MATCH = sys.version_info >= (3, 10)

# -- depth -----------------------------------------------------------------------------------------------------------


def _too_deep(tree: ast.Module, text: str) -> Iterator[ast.stmt]:
    """The statements whose expressions, or the blocks around them, nest more deeply than can be walked."""
    lines = _lines(text)
    queue: list[tuple[ast.stmt, int]] = [(statement, 1) for statement in tree.body]
    while queue:
        statement, depth = queue.pop()
        if depth > DEEPEST:
            yield statement
            continue
        for child in ast.iter_child_nodes(statement):
            if isinstance(child, ast.stmt):
                queue.append((child, depth + 1))
            elif isinstance(child, ast.ExceptHandler) or (_HAS_MATCH and isinstance(child, ast.match_case)):
                queue.extend((inner, depth + 1) for inner in child.body)
            elif isinstance(child, ast.expr) and _size(child, lines) >= DEEPEST and _depth(child, lines) > DEEPEST:
                yield statement
                break


def _size(node: ast.expr, lines: list[str]) -> int:
    """How many characters the lines of the expression have: each level of it takes one at least."""
    if node.end_lineno == node.lineno:
        return (node.end_col_offset or 0) - node.col_offset
    return sum(map(len, lines[node.lineno - 1 : node.end_lineno]))


def _depth(expression: ast.expr, lines: list[str]) -> int:
    deepest = 0
    queue: list[tuple[ast.AST, int]] = [(expression, 1)]
    while queue:
        node, depth = queue.pop()
        # Python lays these out flat, libcst as a chain.
        if isinstance(node, ast.BoolOp):
            depth += len(node.values)
        elif isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
        ):
            depth += _strings(node, lines)
        deepest = max(deepest, depth)
        queue.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
    return deepest


def _strings(node: ast.expr, lines: list[str]) -> int:
    """About how many string literals stand side by side in this constant."""
    if _size(node, lines) < DEEPEST:
        return 0
    first, *others = lines[node.lineno - 1 : node.end_lineno]
    text = "\n".join([first.encode()[node.col_offset :].decode(), *others])
    if text.lstrip("rRbBuUfF").startswith(('"""', "'''")):
        return 0
    return max(text.count('"'), text.count("'")) // 2


def _lines(text: str) -> list[str]:
    """The lines as Python counts them: str.splitlines would end one at a form feed, too."""
    return re.split("\r\n|\r|\n", text)


def _fullest_line(text: str) -> int:
    """The line at which the statement with the most tokens begins."""
    fullest, most, begin, count = 1, 0, 1, 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            count += 1
            if token.type == tokenize.NEWLINE:
                if count > most:
                    fullest, most = begin, count
                begin, count = token.start[0] + 1, 0
    except (tokenize.TokenError, SyntaxError):
        pass
    return fullest
