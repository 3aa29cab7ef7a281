"""Run scripts in forks of this process, which has TensorFlow imported: alone, or as the ranks of a job."""

from __future__ import annotations

import gc
import io
import os
import pickle
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Callable

import numpy as np

from . import socket_ranks

SECONDS = 120.0  # many times what a script needs: one that gets here hangs
SEED = 20


@dataclass(frozen=True)
class Ran:
    """What one process trained, or how it failed."""

    weights: tuple[np.ndarray, ...] = ()  # every trainable variable, in the order of creation
    updates: tuple[int, ...] = ()  # the step counters of the optimizers that stepped
    output: str = ""
    error: str = ""
    has_trained: bool = False


def preload() -> None:
    """Import what every script needs; call this before the first run, in a process that has made no tensor."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    os.environ["TF_NUM_INTRAOP_THREADS"] = os.environ["TF_NUM_INTEROP_THREADS"] = "1"
    import keras

    compile_ = keras.Model.compile

    def compile_without_xla(*args: Any, **kwargs: Any) -> Any:  # it takes longer than these scripts train
        return compile_(*args, **{**kwargs, "jit_compile": False})

    keras.Model.compile = compile_without_xla
    gc.freeze()  # else every fork's first collection copies all that was imported


def alone(script: str, *eagerly: str) -> list[Ran]:
    """The script as one process runs it, and others with functions that are not compiled, which is faster; all in one
    fork, one after the other."""
    (ran,), trouble = _in_forks([lambda: [_run(script, 0), *(_run(other, 0, eagerly=True) for other in eagerly)]])
    return ran if ran is not None else [Ran(error=trouble or "the process ended")] * (1 + len(eagerly))


def together(script: str, size: int, moved_apart: bool = True) -> list[Ran]:
    """The script on so many ranks, which start from different weights if they are moved apart; what each trained."""
    pairs = [socket.socketpair() for _ in range(size)]
    folder = tempfile.mkdtemp()  # what one rank writes, the others read

    def as_rank(rank: int) -> Callable[[], list[Ran]]:
        def run() -> list[Ran]:
            for other, (hub, end) in enumerate(pairs):
                hub.close()
                if other != rank:
                    end.close()
            _join(rank, size, pairs[rank][1])
            return [_run(script, rank, moved_apart=moved_apart, folder=folder)]

        return run

    def hub() -> str:
        for _, end in pairs:
            end.close()
        return socket_ranks.serve([hub for hub, _ in pairs], SECONDS)

    results, trouble = _in_forks([as_rank(rank) for rank in range(size)], hub)
    for connection, _ in pairs:
        connection.close()
    shutil.rmtree(folder, ignore_errors=True)
    return [ran[0] if ran else Ran(error=trouble or "the process ended") for ran in results]


def _join(rank: int, size: int, connection: socket.socket) -> None:
    """Have `import lockstep` join this rank to the others: the backend stands in for one of lockstep's own."""
    stand_in = ModuleType("lockstep.backends.horovod")
    stand_in.join = lambda: socket_ranks.SocketRank(rank, size, connection)  # type: ignore[attr-defined]
    sys.modules[stand_in.__name__] = stand_in
    os.environ.update(LOCKSTEP_BACKEND="horovod", LOCKSTEP_SEED=str(SEED))


# -- in the fork -----------------------------------------------------------------------------------------------------


def _run(script: str, rank: int, eagerly: bool = False, moved_apart: bool = True, folder: str = "") -> Ran:
    """Run the script as `__main__`, in the folder or in one of its own."""
    import tensorflow as tf

    from .variables import watched

    tf.config.run_functions_eagerly(eagerly)
    home = folder or tempfile.mkdtemp()
    os.chdir(home)
    path = Path(tempfile.mkdtemp(), "script.py")
    path.write_text(script)
    main = ModuleType("__main__")
    main.__file__ = str(path)
    sys.modules["__main__"], sys.argv = main, [str(path)]
    np.random.seed(SEED + rank)
    output = io.StringIO()
    try:
        with (
            redirect_stdout(output),
            redirect_stderr(io.StringIO()),
            watched(tf, rank if moved_apart else 0) as variables,
        ):
            exec(compile(script, str(path), "exec"), main.__dict__)
    except SystemExit as ended:
        if ended.code:
            return Ran(output=output.getvalue(), error=f"exit code {ended.code}")
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        at = f"{type(error).__name__}: {str(error)[:300]} ({last.filename}:{last.lineno})"
        return Ran(output=output.getvalue(), error=at)
    finally:
        os.chdir("/")
        shutil.rmtree(path.parent, ignore_errors=True)
        if not folder:
            shutil.rmtree(home, ignore_errors=True)
    updates = variables.updates()
    return Ran(variables.weights(), updates, output.getvalue(), has_trained=bool(updates) or variables.have_moved())


# -- forks -----------------------------------------------------------------------------------------------------------


def _in_forks(
    jobs: Sequence[Callable[[], list[Ran]]], serve: Callable[[], str] = str
) -> tuple[list[list[Ran] | None], str]:
    """What the jobs return, each from a fork of its own, None from one that died; and what `serve` says meanwhile."""
    folder = Path(tempfile.mkdtemp())
    forks: list[int] = []
    try:
        for number, job in enumerate(jobs):
            fork = os.fork()
            if fork == 0:
                _become(job, folder / str(number))
            forks.append(fork)
        trouble = serve()
        trouble = _wait(forks) or trouble
        paths = [folder / str(number) for number in range(len(jobs))]
        return [pickle.loads(path.read_bytes()) if path.exists() else None for path in paths], trouble
    finally:
        for fork in forks:
            os.kill(fork, signal.SIGKILL)
            os.waitpid(fork, 0)
        shutil.rmtree(folder, ignore_errors=True)


def _become(job: Callable[[], list[Ran]], path: Path) -> None:
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        path.with_suffix(".partial").write_bytes(pickle.dumps(job()))
        path.with_suffix(".partial").rename(path)
    finally:
        os._exit(0)


def _wait(forks: list[int]) -> str:
    """Wait for the forks to end and forget them; those that hang are left in the list."""
    deadline = time.monotonic() + SECONDS
    while forks and time.monotonic() < deadline:
        for fork in list(forks):
            if os.waitpid(fork, os.WNOHANG)[0]:
                forks.remove(fork)
        time.sleep(0.005)
    return f"still running after {SECONDS:g} s" if forks else ""
