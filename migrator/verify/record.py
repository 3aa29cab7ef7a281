"""What one process of a run leaves behind: its steps with their numbers, written as one npz file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

# What is kept of the variables at a step, in the order in which a step makes them.
BEFORE, LOCAL, GRADIENTS, WEIGHTS, SLOTS, STATISTICS = (
    "before",  # the weights that the first step of an optimizer finds
    "local",  # gradients as the tape gave them
    "gradients",  # gradients as they came to the optimizer
    "weights",
    "slots",
    "statistics",  # moving means and variances of BatchNormalization
)

# What the samples of a step come out of: arrays given to `fit`; a dataset, Sequence or generator; what
# `train_on_batch` is given; batches that a loop makes by itself.
ARRAYS, DATASET, BATCHES, MINIBATCHES = "arrays", "dataset", "batches", "minibatches"

# Of a larger tensor, so many of its values and so many means of its parts are kept.
_VALUES, _PARTS = 1024, 1024


def digest(array: Any) -> Numbers:
    """float64[at most 2048]: all values of a small tensor; of a large one every n-th, and the mean of each part, in
    which a change of any value shows."""
    flat = np.asarray(array).reshape(-1)
    if flat.size <= _VALUES + _PARTS:
        return flat.astype(np.float64)
    values = flat[:: -(-flat.size // _VALUES)].astype(np.float64)
    bounds = np.linspace(0, flat.size, _PARTS, endpoint=False, dtype=np.int64)
    sums = np.add.reduceat(flat.astype(np.float64), bounds)
    return np.concatenate([values, sums / np.diff(np.append(bounds, flat.size))])


@dataclass
class Optimizer:
    """One that made steps: `variables` are the names of what it updates, in the order that it was given them; `line`
    is where the script makes it, or its schedule of learning rates."""

    name: str
    variables: list[str]
    shapes: list[list[int]]
    line: str = ""


@dataclass
class Step:
    """One update. `rows` float64[m, 2] tells the m samples that the model saw since the last one.

    line: where the script makes it, "train.py:31". seconds: since the run began. losses: what was differentiated.
    exchanging: seconds since the last step in calls that send something to the other workers or wait for them.
    source: what the samples come out of, ARRAYS, DATASET, BATCHES or MINIBATCHES. is_loop: the script's own lines take
    the gradients from the tape, and no method of Keras's.
    arrays: for each kind, for each variable its digest, or None where there is none; empty where the step was only
    counted.
    """

    optimizer: int
    number: int
    line: str
    losses: list[float]
    seconds: float
    learning_rate: float | None = None
    source: str = ""
    is_loop: bool = False
    rows: Numbers = field(default_factory=lambda: np.zeros((0, 2)))
    arrays: dict[str, list[Numbers | None]] = field(default_factory=dict)
    exchanging: float = 0.0


ENDED, STOPPED, FAILED = "ended", "stopped", "failed"


@dataclass
class Record:
    """What a process did. end: the script ended by itself, was stopped after enough steps, or failed with `error`."""

    rank: int = 0
    optimizers: list[Optimizer] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    statistics: list[str] = field(default_factory=list)
    # Trainable variables that no optimizer was given and nobody assigned to.
    untouched: list[str] = field(default_factory=list)
    # What was made equal for the run, as the report says it.
    made_equal: list[str] = field(default_factory=list)
    # [path, line that writes it], of what was written in the script's folder.
    files: list[list[str]] = field(default_factory=list)
    # Those of them that were there when it had ended; of a checkpoint the part that its files begin with.
    lasting: list[str] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    # [seed, line that shuffles], of what was cut behind a shuffle: seeds by which the ranks' orders are equal or not.
    orders: list[list[str]] = field(default_factory=list)
    # [seed, line, number of elements], of all that was to be shuffled.
    shuffles: list[list[Any]] = field(default_factory=list)
    # [updates made before it, line that prints it, text], without what stands before a carriage return.
    printed: list[list[Any]] = field(default_factory=list)
    end: str = ENDED
    error: str = ""
    traceback: str = ""
    failed_at: str = ""  # the script's line that the error came through last

    def save(self, path: Path) -> None:
        """Write the file, in one step."""
        arrays: dict[str, Any] = {}
        steps = []
        for i, step in enumerate(self.steps):
            arrays[f"{i}/rows"] = step.rows
            lengths = {}
            for kind, tensors in step.arrays.items():
                lengths[kind] = [-1 if t is None else t.size for t in tensors]
                arrays[f"{i}/{kind}"] = _joined(t for t in tensors if t is not None)
            steps.append({**_plain(step), "lengths": lengths})
        rest = {name: value for name, value in vars(self).items() if name not in ("steps", "optimizers")}
        meta = {**rest, "optimizers": [asdict(o) for o in self.optimizers], "steps": steps}
        partial = path.with_suffix(".partial.npz")
        np.savez(partial, meta=np.array(json.dumps(meta)), **arrays)
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> Record:
        with np.load(path) as data:
            meta = json.loads(str(data["meta"]))
            steps = []
            for i, entry in enumerate(meta.pop("steps")):
                lengths = entry.pop("lengths")
                kinds = {kind: _parted(data[f"{i}/{kind}"], lengths[kind]) for kind in lengths}
                steps.append(Step(**entry, rows=data[f"{i}/rows"], arrays=kinds))
        optimizers = [Optimizer(**entry) for entry in meta.pop("optimizers")]
        return cls(**meta, steps=steps, optimizers=optimizers)


def _plain(step: Step) -> dict[str, Any]:
    return {name: value for name, value in vars(step).items() if name not in ("rows", "arrays")}


def _joined(tensors: Iterable[Numbers]) -> Numbers:
    several = list(tensors)
    return np.concatenate(several) if several else np.zeros(0)


def _parted(flat: Numbers, lengths: Sequence[int]) -> list[Numbers | None]:
    found: list[Numbers | None] = []
    start = 0
    for length in lengths:
        found.append(None if length < 0 else flat[start : start + length])
        start += max(length, 0)
    return found
