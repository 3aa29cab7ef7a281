"""What a class of the program makes of an operator, or of a function of Python's that asks it: `-log`, `abs(log)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import libcst as cst

from migrator.analysis.calls import Arguments
from migrator.analysis.frames import Frame
from migrator.analysis.values import Instance, Value
from migrator.facts.program.syntax import REFLECTED

if TYPE_CHECKING:
    from migrator.analysis.run import Run

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
        atom, other = operands[i].only, nodes[1 - i] if len(nodes) == 2 else None
        method = run.classes.method(atom, kind) if isinstance(atom, Instance) else None
        if method is not None:
            written: dict[int | str, cst.BaseExpression] = {}
            if isinstance(other, cst.BaseExpression):
                written[0] = other
            given = [operands[1 - i]] if len(operands) == 2 else []
            return run.calls.call(method, Arguments(given, nodes=written), node, frame)
    return None


def of_function(run: Run, path: str, args: Arguments, node: cst.CSTNode, frame: Frame) -> Value | None:
    """What the class of the first argument makes of the function; None where it does not say."""
    name = _ASKED_BY.get(path)
    atom = args.positional[0].only if name is not None and args.positional else None
    method = run.classes.method(atom, name) if name is not None and isinstance(atom, Instance) else None
    return run.calls.call(method, Arguments(args.positional[1:]), node, frame) if method is not None else None
