"""What a recorded process is told: which script to run, as what, and what to do to it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass
class Plan:
    """How one run goes. Its processes read it from a file, see `recorder`."""

    script: str  # a path, or with is_module a module's name
    arguments: list[str]
    folder: str  # where each process leaves rank-<r>.npz
    root: str  # the scratch copy of the user's files
    user_root: str = ""  # the folder that it is a copy of
    is_module: bool = False
    seed: int = 20
    # So many steps of each optimizer are recorded with all tensors.
    steps: int = 20
    # Only counted steps are made for so long after that; then the run is stopped.
    patience_seconds: float = 0.0
    # Another run's number of updates: this one is stopped after as many, or after one too many where that one ended.
    most_updates: int | None = None
    has_to_end: bool = False
    as_is: bool = False
    local_batch_norm: bool = False
    # Gradients are moved by one unit in the last place.
    is_perturbed: bool = False
    is_wide: bool = False

    def seed_of(self, rank: int) -> int:
        """What the random generators of a rank start from."""
        return self.seed + 1000 * rank

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Plan:
        return cls(**json.loads(path.read_text(encoding="utf-8")))
