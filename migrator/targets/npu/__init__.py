"""Ascend's npu_device, as the porting guide of its TF Adapter writes it.

What the API lacks is written out in plain code where that is short and right; the rest is refused.
"""

from __future__ import annotations

import libcst as cst

from migrator.facts.script import Facts
from migrator.targets.npu.setup import PACKAGE
from migrator.targets.npu.spelling import NpuSpelling


class Npu:
    name = "npu"
    package = PACKAGE
    launch = ""
    joins_anywhere = False
    tells_whole = False

    def spelling(self, facts: Facts, module: cst.Module) -> NpuSpelling:
        return NpuSpelling(facts, module)

    def joining(self, facts: Facts, edited: set[cst.Module]) -> set[cst.Module]:
        """The device must be open before the first tensor: in the file that is started, whatever is edited there."""
        return edited.union(facts.joining.entries(edited)) if edited else set()


NPU = Npu()
