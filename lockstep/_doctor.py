"""`lockstep doctor`: what is installed, what a worker started here would join, and whether two workers can talk."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator
from typing import Callable

from lockstep import _choice, _launch, _mpirun
from lockstep._errors import JoinError
from lockstep._launch import Job
from lockstep._version import __version__

_FRAMEWORKS = {
    "TensorFlow": ("tensorflow", "tensorflow-cpu", "tensorflow-intel", "tensorflow-macos", "tf-nightly"),
    "Keras": ("keras",),
    "tf_keras": ("tf-keras",),
}
_ENGINES = {
    "tensorflow": _FRAMEWORKS["TensorFlow"],
    "mpi": ("mpi4py",),
    "horovod": ("horovod",),
    "npu": ("npu-device",),
}
_SETTINGS = (
    *("LOCKSTEP_", "TF_CONFIG", "CUDA_VISIBLE_DEVICES", "SLURM_STEP_", "HOROVOD_"),
    *("RANK_TABLE_FILE", "RANK_ID", "RANK_SIZE"),
)
# A trial that cannot be must not keep anyone waiting.
_TRIAL_SETTINGS = {"LOCKSTEP_JOIN_SECONDS": "120", "LOCKSTEP_STALL_SECONDS": "60", "TF_CPP_MIN_LOG_LEVEL": "3"}


def examine() -> int:
    """Print the report; returns 0 if two workers on this machine train together, over each backend that is
    installed, else 1."""
    for line in _report():
        print(line, flush=True)
    if _version(_FRAMEWORKS["TensorFlow"]) is None:
        print("trial: not possible without TensorFlow")
        return 1
    for name in [name for name in os.environ if name.startswith("LOCKSTEP_")]:
        del os.environ[name]  # the workers' settings are not meant for the trial
    os.environ.update({"CUDA_VISIBLE_DEVICES": "-1", **_TRIAL_SETTINGS})
    codes = [_try("tensorflow", _launch.launch)]
    if _version(_ENGINES["mpi"]) is not None and _mpirun.command() is not None:
        codes.append(_try("mpi", _mpirun.launch))
    if _version(_ENGINES["horovod"]) is not None:
        codes.append(_try("horovod", _launch.launch))
    return 1 if any(codes) else 0


def _try(backend: str, launch: Callable[[Job], int]) -> int:
    print(f"trial: two workers on this machine, backend {backend}", flush=True)
    try:
        code = launch(Job([sys.executable, "-m", "lockstep._trial"], workers=2, backend=backend))
    except JoinError as error:
        print(f"trial: failed: {error}")
        return 1
    print("trial: passed" if code == 0 else f"trial: failed with exit code {code}; what failed is shown above")
    return code


def _report() -> Iterator[str]:
    yield f"lockstep {__version__}, Python {platform.python_version()}, {platform.platform()}"
    for name, distributions in _FRAMEWORKS.items():
        yield f"{name}: {_version(distributions) or 'not installed'}"
    for name, distributions in _ENGINES.items():
        version = _version(distributions)
        needs = f"not available, {distributions[0]} is not installed"
        yield f"backend {name}: {f'{distributions[0]} {version}' if version else needs}"
    yield f"mpiexec: {_mpirun.command() or 'not found'}"
    settings = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(_SETTINGS)]
    yield f"environment: {' '.join(settings) or 'no setting that lockstep reads'}"
    try:
        choice = _choice.choose()
        yield f"a script started here joins: {choice.backend} ({choice.reason})"
    except JoinError as error:
        yield f"a script started here fails: {error}"


def _version(distributions: tuple[str, ...]) -> str | None:
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None
