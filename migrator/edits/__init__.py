"""Edits and refusals as values: what a rule says of a site. Only `apply` turns them into text."""

from __future__ import annotations

from typing import Union

import libcst as cst

from migrator.records import dataclass

# New code: text with nodes of the script in it, which are printed as they come out of the other edits.
Code = tuple[Union[str, cst.CSTNode], ...]


@dataclass(frozen=True)
class InsertBefore:
    """A statement of its own before the statement that holds the node, or above the comments that speak of it."""

    node: cst.CSTNode
    code: Code
    above_comments: bool = False


@dataclass(frozen=True)
class InsertAfter:
    """A statement of its own after the statement that holds the node."""

    node: cst.CSTNode
    code: Code


@dataclass(frozen=True)
class InsertFirst:
    """The first statement of a function's body, after its docstring."""

    function: cst.FunctionDef
    code: Code


@dataclass(frozen=True)
class Wrap:
    """Text directly before and after an expression, or after the last of several that stand side by side.

    `imports`: the module of the standard library that the text names.
    """

    node: cst.CSTNode
    before: str
    after: str
    last: cst.CSTNode | None = None
    imports: str = ""


@dataclass(frozen=True)
class Replace:
    """Another expression in the place of this one, and of the comment behind it if that goes with it."""

    node: cst.CSTNode
    code: Code
    comment: str = ""


@dataclass(frozen=True)
class AddArgument:
    """One more keyword argument at the end of a call."""

    call: cst.Call
    code: Code


@dataclass(frozen=True)
class Guard:
    """An `if` around the statements from `first` to `last`, which stand in one block."""

    first: cst.CSTNode
    last: cst.CSTNode
    condition: str


Edit = Union[InsertBefore, InsertAfter, InsertFirst, Wrap, Replace, AddArgument, Guard]


def new_text(edit: Edit) -> str:
    """The text that the edit brings, without the nodes of the script."""
    if isinstance(edit, Wrap):
        return edit.before + edit.after
    if isinstance(edit, Guard):
        return edit.condition
    return "".join(piece for piece in edit.code if isinstance(piece, str))


@dataclass(frozen=True)
class Refusal:
    """A recognised site that is left alone.

    `breaks_training`: without this site's edit, the other edits would train another model on several workers; the
    whole file is then left alone. `cause`: the expression that all refusals of this reason hang on which have it, too;
    of each file, they are reported as one.
    """

    node: cst.CSTNode
    reason: str
    advice: str
    breaks_training: bool = False
    cause: cst.CSTNode | None = None


@dataclass(frozen=True)
class Trust:
    """What is taken on trust: nothing is written for it, and the report tells.

    `is_word`: on the user's own word, given in a comment; else on the convention of a library, which may be wrong.
    `ignored_by`: the word that has a finding ignored, with its reason; empty where nothing is ignored.
    """

    node: cst.CSTNode
    reason: str
    advice: str = ""
    is_word: bool = False
    ignored_by: str = ""
