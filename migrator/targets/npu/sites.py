"""The runtime's calls within edits: rules write them as text, a target takes them apart."""

from __future__ import annotations

import re
from dataclasses import replace

import libcst as cst

from migrator.edits import AddArgument, Edit, Guard, InsertFirst, Wrap
from migrator.records import dataclass

_EMPTY = cst.Module(body=[])


@dataclass(frozen=True)
class Site:
    """One call of the runtime that a rule writes.

    `head` is the text before the call (`grads = `, `*`); `arguments` are the positional arguments' texts, without the
    expressions that a Wrap goes around.
    """

    edit: Edit
    head: str
    function: str
    arguments: tuple[str, ...]
    keywords: dict[str, str]

    @property
    def node(self) -> cst.CSTNode:
        """The node of the script that the edit stands at."""
        edit = self.edit
        if isinstance(edit, AddArgument):
            return edit.call
        if isinstance(edit, InsertFirst):
            return edit.function
        return edit.first if isinstance(edit, Guard) else edit.node

    def written(self, text: str) -> Edit:
        """The edit with another text for the call, after the same head."""
        assert not isinstance(self.edit, (Wrap, Guard))
        return replace(self.edit, code=(self.head + text,))

    def around(self, before: str, after: str) -> Wrap:
        """The Wrap with another text on its sides."""
        assert isinstance(self.edit, Wrap)
        return replace(self.edit, before=self.head + before, after=after)


def texts(edit: Edit) -> list[str]:
    """All text that the edit writes."""
    if isinstance(edit, Wrap):
        return [edit.before, edit.after]
    if isinstance(edit, Guard):
        return [edit.condition]
    return [piece for piece in edit.code if isinstance(piece, str)]


def with_texts(edit: Edit, old: str, new: str) -> Edit:
    """The edit with one piece of text in the place of another."""
    if isinstance(edit, Wrap):
        return replace(edit, before=edit.before.replace(old, new), after=edit.after.replace(old, new))
    if isinstance(edit, Guard):
        return replace(edit, condition=edit.condition.replace(old, new))
    return replace(edit, code=tuple(p.replace(old, new) if isinstance(p, str) else p for p in edit.code))


def site(edit: Edit, runtime: str) -> Site | None:
    """The call of the runtime that the edit writes; None where it is not one call at the end of the text."""
    if isinstance(edit, Wrap):
        opening = re.fullmatch(rf"(\*?){runtime}\.(\w+)\(\*?", edit.before)
        if opening is None or not edit.after.endswith(")"):
            return None
        # In the place of the wrapped expressions stands one of ours.
        _, keywords = _arguments(f"_{edit.after[:-1]}")
        return Site(edit, opening[1], opening[2], (), keywords)
    if isinstance(edit, Guard) or len(edit.code) != 1 or not isinstance(edit.code[0], str):
        return None
    call = re.fullmatch(rf"(.*?)\b{runtime}\.(\w+)\((.*)\)", edit.code[0], re.DOTALL)
    if call is None:
        return None
    positional, keywords = _arguments(call[3])
    return Site(edit, call[1], call[2], positional, keywords)


def _arguments(text: str) -> tuple[tuple[str, ...], dict[str, str]]:
    call = cst.ensure_type(cst.parse_expression(f"f({text})"), cst.Call)
    positional = tuple(a.star + _EMPTY.code_for_node(a.value) for a in call.args if a.keyword is None)
    keywords = {a.keyword.value: _EMPTY.code_for_node(a.value) for a in call.args if a.keyword is not None}
    return positional, keywords


def is_primary(node: cst.CSTNode) -> bool:
    """Whether the expression can be called, subscripted or divided without parentheses around it."""
    return bool(getattr(node, "lpar", ())) or isinstance(
        node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Integer, cst.List, cst.Dict)
    )
