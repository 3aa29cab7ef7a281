"""What a list that is handed over holds: `callbacks=[early, log]`."""

from __future__ import annotations

import libcst as cst


def listed(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """The elements of a list or tuple that is written out; else the expression alone."""
    return [e.value for e in node.elements] if isinstance(node, (cst.List, cst.Tuple)) else [node]
