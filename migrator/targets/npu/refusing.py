"""What npu_device cannot do, the bundled runtime can, on NPUs too."""

from __future__ import annotations

import libcst as cst

from migrator.edits import Refusal

OTHER_TARGET = "migrate with --target lockstep, whose runtime trains on NPUs through npu_device as well"


def refuse(node: cst.CSTNode, reason: str, advice: str = "") -> Refusal:
    """A refusal of this target. Without the site's edit the file would train another model, so all of it stays."""
    text = f"{advice}, or {OTHER_TARGET}" if advice else OTHER_TARGET
    return Refusal(node, reason, text, breaks_training=True)
