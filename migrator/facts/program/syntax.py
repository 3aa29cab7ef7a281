"""Small readings of the syntax: arguments of calls, dotted names, imported modules."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import cast

import libcst as cst

# What the module `operator` calls what libcst's classes of operators stand for.
OPERATORS = {
    "Add": "add", "Subtract": "sub", "Multiply": "mul", "Divide": "truediv", "FloorDivide": "floordiv",
    "Modulo": "mod", "Power": "pow", "MatrixMultiply": "matmul", "BitAnd": "and_", "BitOr": "or_", "BitXor": "xor",
    "LeftShift": "lshift", "RightShift": "rshift", "Minus": "neg", "Plus": "pos", "BitInvert": "invert",
    "LessThan": "lt", "LessThanEqual": "le", "GreaterThan": "gt", "GreaterThanEqual": "ge", "Equal": "eq",
    "NotEqual": "ne",
}  # fmt: skip
# Comparisons with their sides exchanged.
REFLECTED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def operator_named(operator: cst.CSTNode) -> str:
    """`add` of `+` and of `+=`, as in the name of the method `__add__`; empty where no method is named so."""
    return OPERATORS.get(type(operator).__name__.removesuffix("Assign"), "").rstrip("_")


def argument(call: cst.Call, name: str, position: int | None = None) -> cst.Arg | None:
    """The argument given by that keyword, or at that position before any `*args`."""
    for i, arg in enumerate(call.args):
        if arg.keyword is not None:
            if arg.keyword.value == name:
                return arg
        elif arg.star:
            position = None
        elif i == position:
            return arg
    return None


def has_unpacked_keywords(call: cst.Call) -> bool:
    return any(arg.star == "**" for arg in call.args)


def only_unpacked(call: cst.Call) -> cst.Arg | None:
    """`*values`, where the call has no other positional arguments."""
    positional = [arg for arg in call.args if arg.keyword is None and arg.star != "**"]
    return positional[0] if len(positional) == 1 and positional[0].star else None


def method_called(call: cst.Call) -> str:
    """`fit` for `model.fit(…)`; empty for the call of a name or of what another call gives."""
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def dotted(node: cst.CSTNode) -> str:
    """`a.b.c` of a name or an attribute chain; empty for anything else."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    return ".".join([node.value, *reversed(parts)]) if isinstance(node, cst.Name) else ""


def imported_modules(node: cst.Import | cst.ImportFrom) -> list[str]:
    """The dotted names of the modules that an import statement names."""
    if isinstance(node, cst.ImportFrom):
        return [dotted(node.module)] if node.module is not None and not node.relative else []
    return [dotted(alias.name) for alias in node.names]


def is_none(node: cst.CSTNode | None) -> bool:
    return isinstance(node, cst.Name) and node.value == "None"


def is_true(node: cst.CSTNode | None) -> bool:
    return isinstance(node, cst.Name) and node.value == "True"


def is_false(node: cst.CSTNode | None) -> bool:
    return isinstance(node, cst.Name) and node.value == "False"


def text_of(node: cst.CSTNode | None) -> str:
    """The text that is written out; empty for anything else."""
    return str(node.evaluated_value) if isinstance(node, cst.SimpleString) else ""


def is_constant(node: cst.CSTNode) -> bool:
    """None, a truth value, a number or a text: nothing that is trained."""
    if isinstance(node, cst.Name):
        return node.value in ("None", "True", "False")
    return isinstance(node, (cst.BaseNumber, cst.BaseString))


def is_abstract(function: cst.FunctionDef) -> bool:
    """Whether the body only says that a subclass has to have it: a docstring, `pass`, `raise NotImplementedError`."""
    for statement in function.body.body:
        small = statement.body if isinstance(statement, cst.SimpleStatementLine) else (statement,)
        for part in small:
            is_text = isinstance(part, cst.Expr) and isinstance(part.value, (cst.BaseString, cst.Ellipsis))
            raised = part.exc.func if isinstance(part, cst.Raise) and isinstance(part.exc, cst.Call) else None
            raised = part.exc if isinstance(part, cst.Raise) and raised is None else raised
            is_refusal = isinstance(raised, cst.Name) and raised.value == "NotImplementedError"
            if not (is_text or is_refusal or isinstance(part, cst.Pass)):
                return False
    return True


def part_at(node: cst.CSTNode, path: Sequence[int]) -> cst.CSTNode | None:
    """The part of a tuple or list display to which the positions lead; None where there is none to see."""
    for index in path:
        if not isinstance(node, (cst.Tuple, cst.List)) or not -len(node.elements) <= index < len(node.elements):
            return None
        node = node.elements[index].value
    return node


def parts_of_target(target: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What `del` takes away one by one: `del first[0], second[0]`."""
    if not isinstance(target, (cst.Tuple, cst.List)):
        return [target]
    return [part for element in target.elements for part in parts_of_target(element.value)]


def declared_fields(node: cst.ClassDef) -> list[str]:
    """The fields that a dataclass or NamedTuple declares, in their order."""
    lines = [statement for statement in node.body.body if isinstance(statement, cst.SimpleStatementLine)]
    declared = [part.target for line in lines for part in line.body if isinstance(part, cst.AnnAssign)]
    return [target.value for target in declared if isinstance(target, cst.Name)]


def clauses(clause: cst.CompFor) -> Iterator[cst.CompFor]:
    """The loops of a comprehension, the outermost first."""
    current: cst.CompFor | None = clause
    while current is not None:
        yield current
        current = current.inner_for_in


def is_format(node: cst.CSTNode) -> bool:
    """`"saved to %s" % path`"""
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Modulo)


def is_slice(node: cst.Subscript) -> bool:
    return len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Slice)


def takes_all(index: cst.BaseSlice) -> bool:
    """Whether it takes all rows: `x[:, None]`, `x[..., None]`."""
    if isinstance(index, cst.Slice):
        return index.lower is None and index.upper is None and index.step is None
    return isinstance(index, cst.Index) and isinstance(index.value, cst.Ellipsis)


def stands_alone(expression: str) -> bool:
    """Whether the expression needs no parentheses as the right side of an assignment, however its lines break."""
    try:
        return len(ast.parse(f"_ = {expression}").body) == 1
    except SyntaxError:
        return False


def asks_for_items(call: cst.Call) -> bool:
    """`losses.items()`"""
    func = call.func
    return isinstance(func, cst.Attribute) and not call.args and func.attr.value in ("items", "values", "keys")


def made_in_turns(comprehension: cst.CSTNode) -> tuple[cst.BaseExpression, ...]:
    """What a comprehension makes in each turn: an item, or a key and a value."""
    if isinstance(comprehension, cst.DictComp):
        return (comprehension.key, comprehension.value)
    return (cast("cst.ListComp | cst.SetComp | cst.GeneratorExp", comprehension).elt,)


def mangled(name: str, cls: cst.ClassDef | None) -> str:
    """What Python makes of a name that is private in the class around: `self.__step` is `_Trainer__step` there."""
    owner = cls.name.value.lstrip("_") if cls is not None and is_private(name) else ""
    return f"_{owner}{name}" if owner else name


def as_written(name: str, cls: cst.ClassDef) -> str:
    """The other way round: how the class itself writes it, `__step` for the `_Trainer__step` of other code."""
    owner = "_" + cls.name.value.lstrip("_")
    is_own = name.startswith(owner + "__") and is_private(name[len(owner) :])
    return name[len(owner) :] if is_own else name


def is_private(name: str) -> bool:
    return name.startswith("__") and not name.endswith("__")
