"""All training runs that a test session needs: each one made once, two at a time, ahead of the tests."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from damage import without_calls
from training_runs import SCRIPTS, Trained, migrate, original, train
from warm_server import WarmServer


@dataclass(frozen=True)
class Run:
    """A training run that a test wants: the session makes those that its tests are parametrized with."""

    script: str
    migrated: bool = False
    workers: int | None = None  # None: started as `python script`, not by `lockstep run`
    without_randomness: bool = False
    samples: bool = False
    target: str = "lockstep"  # the API that it is migrated to
    damage: str | None = None  # a function of lockstep whose calls are taken out again
    own_python: bool = False  # start it as its user would, and not from a process that has imported TensorFlow


# Else lockstep itself ends the training when the workers come apart, before there is anything to compare.
_UNCHECKED = b'import os\nos.environ["LOCKSTEP_CHECK"] = "0"\n'


class Campaign:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._futures: dict[Run, Future[list[Trained]]] = {}
        self._migrated: dict[tuple[str, str], Path] = {}
        self._migrating = Lock()
        self._warm_server = WarmServer(folder)
        # Two: while one run imports on one core or waits for its peers, the other one can work.
        self._pool = ThreadPoolExecutor(max_workers=2)

    def start(self, runs: Iterable[Run]) -> None:
        for run in runs:
            if run not in self._futures:
                self._futures[run] = self._pool.submit(self._make, run, self._folder / str(len(self._futures)))

    def result(self, run: Run) -> list[Trained]:
        """What each rank of the run trained. Raises RunFailedError if it, or migrating its script, failed."""
        self.start([run])
        return self._futures[run].result()

    def warm(self) -> Path:
        """Where `train` may start runs of other scripts from, too."""
        return self._warm_server.socket()

    def stop(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._warm_server.stop()

    def _make(self, run: Run, folder: Path) -> list[Trained]:
        folder.mkdir()
        script = self._migrate(run.script, run.target) if run.migrated else original(run.script)
        if run.damage is not None:
            damaged = folder / script.name
            damaged.write_bytes(_UNCHECKED + without_calls(script.read_bytes(), run.damage))
            script = damaged
        return train(
            script,
            folder,
            workers=run.workers,
            without_randomness=run.without_randomness,
            samples=run.samples,
            stand_in=run.target == "npu",
            warm=self.warm() if _may_start_warm(run, script) else None,
        )

    def _migrate(self, name: str, target: str) -> Path:
        with self._migrating:
            if (name, target) not in self._migrated:
                script = original(name)
                source = script if script.parent == SCRIPTS else script.parent
                destination = self._folder / target / (script.name if source is script else name)
                destination.parent.mkdir(exist_ok=True)
                migrate(source, destination, target)
                self._migrated[name, target] = destination if source is script else destination / script.name
            return self._migrated[name, target]


def _may_start_warm(run: Run, script: Path) -> bool:
    """Not where the script decides which Keras TensorFlow is to import."""
    return not run.own_python and b"TF_USE_LEGACY_KERAS" not in script.read_bytes()
