"""What a class of the program makes of an operator, or of a function of Python's that asks it: `-log`, `abs(log)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis import handles
from migrator.analysis import values as v
from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.values import Instance, Value
from migrator.facts.program.syntax import REFLECTED

if TYPE_CHECKING:
    from migrator.analysis.run import Run

_OPERATORS = "operator."
_ASKED_BY = {
    "builtins.abs": "__abs__",
    "builtins.bool": "__bool__",
    "builtins.complex": "__complex__",
    "builtins.divmod": "__divmod__",
    "builtins.float": "__float__",
    "builtins.int": "__int__",
    "builtins.len": "__len__",
    "builtins.pow": "__pow__",
    "builtins.reversed": "__reversed__",
    "builtins.round": "__round__",
    "math.ceil": "__ceil__",
    "math.floor": "__floor__",
    "math.trunc": "__trunc__",
    **{f"operator.{name}": f"__{name}__" for name in ("abs", "neg", "pos", "invert", "inv")},
}


def of_operator(
    run: Run,
    operator: str,
    operands: Sequence[Value],
    nodes: Sequence[cst.CSTNode | None],
    node: cst.CSTNode,
    frame: Frame,
) -> Value | None:
    """What the class of an operand makes of the operator (`add`, `neg`); None where it does not say."""
    name = operator.rstrip("_")
    kinds = [f"__{name}__"]
    if len(operands) == 2:
        kinds.append(f"__{REFLECTED.get(name, f'r{name}')}__")
    for i, kind in enumerate(kinds):
        other = nodes[1 - i] if len(nodes) == 2 else None
        objects = handles.given(run, (operands[i],)) if operands[i].only is None else operands[i].objects
        methods = [run.classes.method(atom, kind) for atom in objects if isinstance(atom, Instance)]
        written: dict[int | str, cst.BaseExpression] = {}
        if isinstance(other, cst.BaseExpression):
            written[0] = other
        given = Arguments([operands[1 - i]] if len(operands) == 2 else [], nodes=written)
        found = [run.calls.call(method, given, node, frame) for method in methods if method is not None]
        if found and operands[i].only is None:  # or something else, which has another meaning of it
            found.append(run.placing.opaque(operands, "which object this operator is of is not seen"))
        if found:
            return v.join_all(found)
    return None


def of_function(run: Run, path: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value | None:
    """What the class of the first argument makes of the function; None where it does not say."""
    if path.startswith(_OPERATORS) and len(args.positional) == 2 and not args.keywords:
        operator = path[len(_OPERATORS) :]
        return of_operator(run, operator, args.positional, [args.nodes.get(i) for i in range(2)], node, frame)
    name = _ASKED_BY.get(path)
    atom = args.positional[0].only if name is not None and args.positional else None
    method = run.classes.method(atom, name) if name is not None and isinstance(atom, Instance) else None
    return run.calls.call(method, Arguments(args.positional[1:]), node, frame) if method is not None else None
