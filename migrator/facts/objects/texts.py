"""Texts that the script puts together: what is seen of them, with marks for the rest."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice, product
from string import Formatter

import libcst as cst

from migrator.facts.names import api
from migrator.facts.objects.resolve import Resolver
from migrator.facts.objects.values import External, Function, Literal, Member, Result, Value, calls
from migrator.facts.program.syntax import method_called

OPEN = "_open_"  # stands for a part of a text that is not seen
_DEEPEST = 8
_MOST = 20  # different texts that one expression may be
_COMPILING = "builtins.compile"
_PARTIAL = "functools.partial"
_HANDING = (_PARTIAL, "builtins.getattr")
# They run the texts that they are given, too.
_RUNNING_ANY = ("timeit.", "numexpr.", "pandas.eval", "code.", "runpy.", "cProfile.run", "profile.run")
_CONVERSION = re.compile(r"%(?:\(\w*\))?[-+ #0-9.]*([a-zA-Z%])")
_NUMBERS = "bdeEfFgGioxX"
# Objects for settings, what may set some of these from the command line, and what reads all that they hold.
_NAMESPACES = frozenset({"argparse.Namespace", "types.SimpleNamespace"})
_PARSING = frozenset({"parse_args", "parse_known_args", "parse_intermixed_args", "parse_known_intermixed_args"})
_READING = frozenset({"copy", "items", "keys", "values"})
_PLAIN = frozenset({
    "abs", "bool", "float", "int", "isinstance", "len", "list", "max", "min", "print", "range", "round", "str", "sum",
    "tuple", "type", "zip",
})  # fmt: skip
# Of numbers, which are no words of a program.
_COUNTING = frozenset({"builtins.len", "builtins.int", "builtins.float", "builtins.round", "builtins.range"})


class Texts:
    def __init__(self, resolver: Resolver) -> None:
        self.resolver = resolver

    def run_by(self, call: cst.Call) -> list[cst.BaseExpression]:
        """What holds the texts that the call runs as code, or may run: `eval(text)`, `map(eval, texts)`."""
        given = [arg.value for arg in call.args]
        values = self.resolver.values(call.func)
        if any(isinstance(v, External) and v.path in api.RUNNING_TEXT for v in values):
            return given[:1]
        if any(isinstance(v, External) and v.path.startswith(_RUNNING_ANY) for v in values):
            return given
        for value in values:
            if isinstance(value, Result) and calls(value) in _HANDING and value.call.args:
                first, *others = (arg.value for arg in value.call.args)
                if self._runs(first) or (
                    calls(value) != _PARTIAL and External("builtins") in self.resolver.values(first)
                ):
                    return [*others, *given]
        return [node for node in given if not self._runs(node)] if any(map(self._runs, given)) else []

    def _runs(self, node: cst.BaseExpression) -> bool:
        """Whether it is a function that runs texts."""
        if not isinstance(node, (cst.Name, cst.Attribute)):
            return False
        return any(isinstance(v, External) and v.path in api.RUNNING_TEXT for v in self.resolver.values(node))

    def of(self, node: cst.CSTNode) -> list[str]:
        """The texts that the expression may be, OPEN in place of all that is not seen of them."""
        return list(dict.fromkeys(islice(self._of(node, 0), _MOST + 1)))[:_MOST] or [OPEN]

    def _of(self, node: cst.CSTNode, depth: int) -> Iterator[str]:
        if depth > _DEEPEST:
            yield OPEN
        elif isinstance(node, (cst.SimpleString, cst.ConcatenatedString)) and not _has_holes(node):
            value = node.evaluated_value
            yield value.decode("latin-1") if isinstance(value, bytes) else str(value)
        elif isinstance(node, cst.ConcatenatedString):
            yield from self._joined([node.left, node.right], depth)
        elif isinstance(node, (cst.List, cst.Tuple)):
            for element in node.elements:
                yield from self._of(element.value, depth + 1)
        elif isinstance(node, cst.FormattedString):
            yield from self._joined(node.parts, depth)
        elif isinstance(node, cst.FormattedStringText):
            yield node.value.replace("{{", "{").replace("}}", "}")
        elif isinstance(node, cst.FormattedStringExpression):
            yield from self._of(node.expression, depth + 1)
        elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
            yield from self._joined([node.left, node.right], depth)
        elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo):
            for text in self._of(node.left, depth + 1):
                yield from self._filled(text, node.right, depth)
        elif isinstance(node, (cst.BaseNumber, cst.BinaryOperation, cst.UnaryOperation)):
            yield "0"
        elif isinstance(node, cst.IfExp):
            yield from self._of(node.body, depth + 1)
            yield from self._of(node.orelse, depth + 1)
        elif isinstance(node, cst.Call) and method_called(node) == "format":
            for text in self._of(cst.ensure_type(node.func, cst.Attribute).value, depth + 1):
                yield from self._formatted(text, node, depth)
        else:
            yield from self._behind(node, depth)

    def _behind(self, node: cst.CSTNode, depth: int) -> Iterator[str]:
        """What a name or a call gives."""
        values = self.resolver.values(node) if isinstance(node, cst.BaseExpression) else ()
        if isinstance(node, cst.Name) and any(b.kind == "augmented" for b in self.resolver.reaching(node)):
            values = ()
        for value in values or (None,):
            if isinstance(value, Literal) and value.node is not node:
                yield from self._of(value.node, depth + 1)
            elif isinstance(value, Result) and calls(value) == _COMPILING and value.call.args:
                yield from self._of(value.call.args[0].value, depth + 1)
            elif isinstance(value, Result) and calls(value) in _COUNTING:
                yield "0"
            elif isinstance(value, Result) and calls(value) == "builtins.str" and value.call.args:
                yield from self._of(value.call.args[0].value, depth + 1)
            elif isinstance(value, Member) and self._is_setting(value):
                yield from self._put(value.owner, value.name, depth)
            else:
                yield OPEN

    def _is_setting(self, value: Member) -> bool:
        """Whether it is an attribute of what has none but those that the program writes: `opt = lambda: None`,
        `opt = Namespace()`."""
        is_made = isinstance(value.owner, Result) and calls(value.owner) in _NAMESPACES
        is_own = is_made or isinstance(value.owner, Function)
        return is_own and not value.name.startswith("__") and not self._sets_by_name

    def _put(self, owner: Value, name: str, depth: int) -> Iterator[str]:
        """What is put into such an attribute: of whatever object, so that none is missed whose name is not seen."""
        given = [*owner.call.args] if isinstance(owner, Result) else []
        found: list[cst.CSTNode | None] = [
            arg.value if arg.keyword is not None else None
            for arg in given
            if arg.keyword is None or arg.keyword.value == name
        ]
        for binding in self.resolver.tree.attributes.get(name, ()):
            found.append(binding.value if binding.kind == "assign" and not binding.path else None)
        for node in found or [None]:
            yield from self._of(node, depth + 1) if node is not None else (OPEN,)

    @cached_property
    def _sets_by_name(self) -> bool:
        """Whether attributes may be set of which the program does not write the names: by `setattr`, `vars(opt)`, or
        what parses the command line into an object that it is given."""
        tree = self.resolver.tree
        if any(tree.names.get(name) for name in ("setattr", "__setattr__", "__dict__")):
            return True
        if not all(map(self._is_only_read, tree.names.get("vars", ()))):
            return True
        return any(not self._parses_alone(name) for path in _PARSING for name in tree.names.get(path, ()))

    def _parses_alone(self, name: cst.Name) -> bool:
        """`parser.parse_args(words)`, into an object of its own; or it is no method."""
        method = self.resolver.tree.parent[name]
        call = self.resolver.tree.parent[method]
        if not isinstance(method, cst.Attribute) or not isinstance(call, cst.Call) or call.func is not method:
            return not isinstance(method, cst.Attribute)
        is_given = any(arg.star or (arg.keyword is not None and arg.keyword.value == "namespace") for arg in call.args)
        return len(call.args) < 2 and not is_given

    def _is_only_read(self, name: cst.Name) -> bool:
        """`vars(opt).items()`"""
        tree = self.resolver.tree
        call = tree.parent[name]
        method = tree.parent[call] if isinstance(call, cst.Call) and call.func is name else None
        return isinstance(method, cst.Attribute) and method.attr.value in _READING

    def _joined(self, parts: Iterable[cst.CSTNode], depth: int) -> Iterator[str]:
        alternatives = [list(islice(self._of(part, depth + 1), _MOST)) for part in parts]
        yield from ("".join(chosen) for chosen in product(*alternatives))

    def _filled(self, text: str, given: cst.BaseExpression, depth: int) -> Iterator[str]:
        """`"%s > %d" % (name, bound)`"""
        nodes = [e.value for e in given.elements] if isinstance(given, cst.Tuple) else [given]
        found = [m for m in _CONVERSION.finditer(text) if m.group(1) != "%"]
        is_plain = len(found) == len(nodes) and not any("(" in m.group() or "*" in m.group() for m in found)
        filled = [
            ["0"] if m.group(1) in _NUMBERS else list(self._of(nodes[i], depth + 1)) if is_plain else [OPEN]
            for i, m in enumerate(found)
        ]
        for chosen in product(*filled):
            left = iter(chosen)
            yield _CONVERSION.sub(lambda m, left=left: "%" if m.group(1) == "%" else next(left), text)  # type: ignore[misc]

    def _formatted(self, text: str, call: cst.Call, depth: int) -> Iterator[str]:
        """`"{} > {bound}".format(name, bound=1)`"""
        named = {arg.keyword.value: arg.value for arg in call.args if arg.keyword is not None}
        numbered = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
        given: dict[str, cst.BaseExpression] = {**named, **{str(i): node for i, node in enumerate(numbered)}}
        try:
            parsed = list(Formatter().parse(text))
        except ValueError:
            yield OPEN
            return
        pieces: list[list[str]] = []
        count = 0
        for before, field, _, _ in parsed:
            pieces.append([before])
            if field is not None:
                node = given.get(field or str(count)) if not any(arg.star for arg in call.args) else None
                pieces.append([OPEN] if node is None else list(self._of(node, depth + 1)))
                count += not field
        yield from ("".join(chosen) for chosen in product(*pieces))


def words(text: str) -> list[tuple[str, bool]]:
    """The names in a text of Python's, each with whether it is that of an attribute; OPEN in them stands for any part
    of a word, and by itself for any text."""
    found = re.finditer(r"(\.\s*)?\b([^\W\d]\w*)", text)
    return [(match.group(2), bool(match.group(1))) for match in found]


def acts(text: str) -> bool:
    """Whether code may do something besides giving a value: it calls what is no plain function of Python's."""
    try:
        called = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError):
        return True
    return OPEN in text.split() or not all(isinstance(func, ast.Name) and func.id in _PLAIN for func in called)


def pattern(word: str) -> str:
    """What names match that have OPEN in them."""
    return r"\w*".join(map(re.escape, word.split(OPEN)))


def _has_holes(node: cst.BaseExpression) -> bool:
    """Whether the text has parts that are put into it."""
    if isinstance(node, cst.ConcatenatedString):
        return _has_holes(node.left) or _has_holes(node.right)
    return isinstance(node, cst.FormattedString)
