"""`lockstep doctor`: what is here, what a script would join, whether two workers can talk, and what to do next."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from lockstep._errors import JoinError
from lockstep._version import __version__
from lockstep.cluster import choice
from lockstep.launcher import machine, mpirun

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
    *("LOCKSTEP_", "TF_CONFIG", "CUDA_VISIBLE_DEVICES", "SLURM_STEP_", "HOROVOD_", "PET_"),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"),
)
# A trial that cannot be must not keep anyone waiting.
_TRIAL_SETTINGS = {"LOCKSTEP_JOIN_SECONDS": "120", "LOCKSTEP_STALL_SECONDS": "60", "CUDA_VISIBLE_DEVICES": "-1"}
_TRIAL_SECONDS = 300
# Asked in a process of its own: TensorFlow keeps what it has once started.
_GPUS_OF_TENSORFLOW = """
import json, tensorflow as tf
gpus = tf.config.list_physical_devices("GPU")
print(json.dumps([tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name) for gpu in gpus]))
"""


def examine(as_json: bool) -> int:
    """Print the report, as text or as one JSON object; returns 0 if two workers on this machine train together, over
    each backend that is installed, else 1."""
    report = _report()
    if not as_json:
        for line in _lines(report):
            print(line, flush=True)
    report["trials"] = {}
    for backend in _backends_to_try():
        if not as_json:
            print(f"trial: two workers on this machine, backend {backend}", flush=True)
        report["trials"][backend] = trial = _try(backend, is_shown=not as_json)
        if not as_json:
            print("trial: passed" if trial["passed"] else "trial: failed; what failed is shown above", flush=True)
    report["next"] = _next_step(report)
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        print(f"next: {report['next']}")
    return 0 if report["trials"] and all(trial["passed"] for trial in report["trials"].values()) else 1


def _report() -> dict[str, Any]:
    try:
        chosen = choice.choose()
        joins: dict[str, str] = {"backend": chosen.backend, "reason": chosen.reason}
    except JoinError as error:
        joins = {"error": str(error)}
    return {
        "lockstep": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "frameworks": {name: _version(distributions) for name, distributions in _FRAMEWORKS.items()},
        "backends": {name: _version(distributions) for name, distributions in _ENGINES.items()},
        "mpiexec": mpirun.command(),
        "cores": machine.cores(),
        "free_memory_bytes": machine.memory(),
        "gpus": {"present": machine.gpu_count(), "used": _gpus_of_tensorflow()},
        "environment": {name: value for name, value in sorted(os.environ.items()) if name.startswith(_SETTINGS)},
        "joins": joins,
    }


def _lines(report: dict[str, Any]) -> Iterator[str]:
    yield f"lockstep {report['lockstep']}, Python {report['python']}, {report['platform']}"
    for name, version in report["frameworks"].items():
        yield f"{name}: {version or 'not installed'}"
    for name, version in report["backends"].items():
        distribution = _ENGINES[name][0]
        needs = f"not available, {distribution} is not installed"
        yield f"backend {name}: {f'{distribution} {version}' if version else needs}"
    yield f"mpiexec: {report['mpiexec'] or 'not found'}"
    memory = report["free_memory_bytes"]
    free = "not known" if memory is None else f"{memory / 1e9:.1f} GB"
    yield f"machine: {report['cores']} cores, free memory {free}"
    used, present = report["gpus"]["used"], report["gpus"]["present"]
    if used:
        yield f"GPUs that are used, one for each worker: {len(used)} ({', '.join(used)})"
    else:
        yield f"GPUs: {f'{present}, but TensorFlow uses none of them' if present else 'none'}"
    settings = [f"{name}={value}" for name, value in report["environment"].items()]
    yield f"environment: {' '.join(settings) or 'no setting that lockstep reads'}"
    joins = report["joins"]
    if "error" in joins:
        yield f"a script started here fails: {joins['error']}"
    else:
        yield f"a script started here joins: {joins['backend']} ({joins['reason']})"


def _gpus_of_tensorflow() -> list[str]:
    """The names of the GPUs that TensorFlow would use here."""
    if _version(_FRAMEWORKS["TensorFlow"]) is None:
        return []
    asked = subprocess.run([sys.executable, "-c", _GPUS_OF_TENSORFLOW], capture_output=True, text=True)
    return [str(name) for name in json.loads(asked.stdout)] if asked.returncode == 0 else []


def _backends_to_try() -> list[str]:
    if _version(_FRAMEWORKS["TensorFlow"]) is None:
        return []
    needs = {"mpi": mpirun.command(), "horovod": True}
    return ["tensorflow", *(name for name, there in needs.items() if there and _version(_ENGINES[name]))]


def _try(backend: str, is_shown: bool) -> dict[str, Any]:
    """Whether two workers train together. The settings of the user's workers are not meant for them."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOCKSTEP_")}
    trial = ["run", "--nnodes", "1", "-n", "2", "--backend", backend, "-m", "lockstep.launcher.trial"]
    try:
        done = subprocess.run(
            [sys.executable, "-m", "lockstep", *trial],
            env={**kept, **_TRIAL_SETTINGS},
            stdout=None if is_shown else subprocess.PIPE,
            stderr=None if is_shown else subprocess.STDOUT,
            text=True,
            timeout=_TRIAL_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return {"passed": False, "output": f"no end after {_TRIAL_SECONDS} s"}
    return {"passed": done.returncode == 0, "output": done.stdout or ""}


def _next_step(report: dict[str, Any]) -> str:
    trials, joins = report["trials"], report["joins"]
    if not trials:
        return "install TensorFlow (`pip install tensorflow`): nothing can be tried without it"
    if not trials["tensorflow"]["passed"]:
        return "mend what the trial shows: two workers cannot train together here"
    if "error" in joins and "PET_NNODES" in report["environment"]:
        step = "let each container start `lockstep run train.py`"
    elif "error" in joins:
        return "mend the variables by which a script started here fails, as it is said above"
    elif joins["backend"] != "single":
        step = "let this launcher start `python train.py`"
    else:
        step = _start(len(report["gpus"]["used"]), report["gpus"]["present"])
    failed = [name for name, trial in trials.items() if not trial["passed"]]
    return f"`migrate train.py`, then {step}" + (
        f". The backend {failed[0]} does not work: see its trial" if failed else ""
    )


def _start(gpus_used: int, gpus_present: int) -> str:
    if gpus_present and not gpus_used:
        return "install a TensorFlow that uses the GPUs: `pip install 'tensorflow[and-cuda]'`"
    if gpus_used == 1:
        return "`lockstep run -n 1 --nnodes 2 train.py` on two machines: one worker takes the one GPU here"
    return f"`lockstep run -n {gpus_used or 2} train.py`"


def _version(distributions: tuple[str, ...]) -> str | None:
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None
