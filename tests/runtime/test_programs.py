"""Every check of every program, on real workers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

import pytest
from conftest import HERE, Job, Outcomes

JOBS = [
    Job("collectives", 2),
    Job("collectives", 4, long=True),
    Job("rows", 2),
    # What every backend has to pass. Three ranks: algorithms for powers of two do not fit.
    Job("collectives", 3, backend="mpi"),
    Job("rows", 2, backend="mpi", long=True),
    Job("optimizers", 2, backend="mpi", long=True),
    Job("collectives", 2, backend="horovod"),
    Job("collectives", 3, backend="horovod"),
    Job("rows", 2, backend="horovod"),
    Job("optimizers", 2, backend="horovod"),
    Job("fit_callbacks", 2, backend="horovod"),
    Job("collectives", 2, backend="npu", long=True),
    Job("rows", 2, backend="npu", long=True),
    Job("data", 2),
    Job("data", 4, long=True),
    Job("uneven", 3, long=True),
    Job("uneven", 4, long=True),
    Job("uneven", 2, legacy_keras=True, long=True),
    Job("batches", 2, long=True),
    Job("batches", 3, long=True),
    Job("batches", 2, legacy_keras=True, long=True),
    Job("sparse", 2, long=True),
    Job("sparse", 3, long=True),
    Job("sparse", 4, long=True),
    Job("sparse", 2, legacy_keras=True, long=True),
    Job("normalization", 2, long=True),
    Job("normalization", 3, long=True),
    Job("normalization", 2, legacy_keras=True, long=True),
    Job("losses", 2),
    Job("losses", 3, long=True),
    Job("losses", 2, legacy_keras=True, long=True),
    Job("losses", 2, backend="mpi", long=True),
    Job("apart", 2),
    Job("apart", 2, backend="mpi", long=True),
    Job("apart", 2, legacy_keras=True, long=True),
    Job("consistency", 2, long=True),
    Job("holders", 2),
    Job("holders", 2, legacy_keras=True, long=True),
    Job("weights", 2),
    Job("weights", 2, legacy_keras=True, long=True),
    Job("optimizers", 2),
    Job("optimizers", 2, legacy_keras=True, long=True),  # Keras 2 is in `make test-matrix`, too
    Job("fit_callbacks", 2),
    Job("fit_callbacks", 2, legacy_keras=True, long=True),
]


def checks() -> Iterator[object]:
    for job in JOBS:
        tree = ast.parse((HERE / "programs" / f"{job.program}.py").read_text())
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("check_"):
                is_long = job.long or any(isinstance(d, ast.Name) and d.id == "long" for d in node.decorator_list)
                yield pytest.param(
                    replace(job, long=is_long),
                    node.name,
                    id=f"{job.program}-{job}-{node.name[len('check_') :]}",
                    marks=[pytest.mark.long] if is_long else [],
                )


@pytest.mark.parametrize(("job", "check"), list(checks()))
def test_check(job: Job, check: str, outcomes: Outcomes) -> None:
    outcomes.assert_passed(job, check)
