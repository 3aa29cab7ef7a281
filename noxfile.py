"""The tests of the runtime beside other TensorFlows and another MPI, and of the tool on the oldest Python.

    nox -t tensorflow              # every TensorFlow whose Python is found on PATH or in pyenv; `make test-matrix`
    nox -t tensorflow -- quick     # what every backend has to pass, on TensorFlow's own collectives only
    nox -s oldest_python           # the tool, without TensorFlow
    nox -s openmpi                 # the backend mpi with Open MPI
    nox -s horovod                 # the backend horovod: builds Horovod, about 10 minutes the first time

What cannot be run here is named and skipped. `make test` itself runs on the newest TensorFlow.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import nox

ROOT = Path(__file__).parent
TOOLS = ("click", "psutil", "pytest>=7.4", "scipy")
QUICK = "(collectives or optimizers) and 2-workers and not mpi and not npu and not tf_keras"

# See requires-python in pyproject.toml; mypy and ruff do not know which names Python had then.
OLDEST_PYTHON = "3.9"

nox.options.reuse_existing_virtualenvs = True


@dataclass(frozen=True)
class Version:
    """A TensorFlow, the Pythons that it runs on, and the packages of its time."""

    tensorflow: str
    pythons: tuple[str, ...]
    packages: tuple[str, ...] = ()

    def interpreter(self) -> str | None:
        """The path of a Python that has it."""
        return next(filter(None, (_interpreter(python) for python in self.pythons)), None)


VERSIONS = (
    Version("2.6.5", ("3.9",), ("numpy==1.19.5", "protobuf==3.19.6", "keras==2.6.0", "tensorflow-estimator==2.6.0")),
    Version("2.15.1", ("3.11", "3.10", "3.9")),
)


def _interpreter(version: str) -> str | None:
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    installed = sorted(pyenv.glob(f"{version}.*/bin/python{version}"))
    for candidate in (shutil.which(f"python{version}"), *map(str, installed)):
        # A shim of pyenv may stand for a version that is not active.
        if candidate and subprocess.run([candidate, "--version"], capture_output=True).returncode == 0:
            return candidate
    return None


def _test(session: nox.Session, *arguments: str) -> None:
    session.run("python", "-m", "pytest", "-q", *arguments, env={"PYTHONPATH": str(ROOT)})


def _add_tensorflow_session(version: Version) -> None:
    interpreter = version.interpreter()

    @nox.session(name=f"tensorflow-{version.tensorflow}", python=interpreter or False, tags=["tensorflow"])
    def tensorflow(session: nox.Session) -> None:
        if interpreter is None:
            session.skip(f"no Python {' or '.join(version.pythons)} on PATH or in pyenv")
        quick = "quick" in session.posargs
        mpi = () if quick else ("mpi4py", "mpich")
        session.install(f"tensorflow-cpu=={version.tensorflow}", *version.packages, *TOOLS, *mpi)
        if quick:
            _test(session, "tests/runtime/test_programs.py", "-k", QUICK)
        else:
            _test(session, "tests/runtime")


for _version in VERSIONS:
    _add_tensorflow_session(_version)


@nox.session(python=_interpreter(OLDEST_PYTHON) or False, tags=["tool"])
def oldest_python(session: nox.Session) -> None:
    if session.python is None:
        session.skip(f"no Python {OLDEST_PYTHON} on PATH or in pyenv")
    session.install(str(ROOT), "pytest>=7.4")
    quick = ("-k", "comes_out_as_written_down and write-once") if "quick" in session.posargs else ()
    _test(session, "tests/migrator/test_fixtures.py", *quick)


@nox.session
def openmpi(session: nox.Session) -> None:
    session.install("tensorflow-cpu", "tf_keras", "mpi4py", "openmpi", *TOOLS)
    _test(session, "tests/runtime", "-k", "workers-mpi or test_mpi", "-m", "")


# What builds Horovod 0.28.1: it uses modules of Python's that later versions of setuptools do not bring any more, and
# says that it fits CMakes which version 4 has forgotten.
HOROVOD_TOOLS = ("setuptools<70", "wheel", "cmake<4", "packaging")
HOROVOD_OPTIONS = {
    "HOROVOD_WITH_TENSORFLOW": "1",
    "HOROVOD_WITH_GLOO": "1",
    "HOROVOD_WITHOUT_MPI": "1",
    "HOROVOD_WITHOUT_PYTORCH": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "MAKEFLAGS": f"-j{os.cpu_count()}",
}
# The newest TensorFlow that it was made for, and the Pythons that both run on.
HOROVOD_VERSION = Version("2.15.1", ("3.11", "3.10", "3.9"), ("numpy<2",))


@nox.session(python=HOROVOD_VERSION.interpreter() or False)
def horovod(session: nox.Session) -> None:
    if HOROVOD_VERSION.interpreter() is None:
        session.skip(f"no Python {' or '.join(HOROVOD_VERSION.pythons)} on PATH or in pyenv")
    session.install(f"tensorflow-cpu=={HOROVOD_VERSION.tensorflow}", *HOROVOD_VERSION.packages, *HOROVOD_TOOLS)
    session.install("--no-build-isolation", "horovod==0.28.1", env=HOROVOD_OPTIONS)
    session.install("scikit-learn", "libcst", *TOOLS)
    _test(session, "tests/runtime/test_horovod.py", "tests/runtime/test_programs.py", "-k", "horovod")
    _test(session, "tests/equality/test_under_horovodrun.py")
