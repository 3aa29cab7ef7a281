"""The server of warm_start.py as seen by the tests: started with them, asked for when needed, ended with them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from training_runs import TIME_LIMIT_SECONDS, WARM_START, environment


class WarmServer:
    def __init__(self, folder: Path) -> None:
        self._socket = folder / "warm-start"
        self._log = (folder / "warm-start.log").open("w+")
        self._process = subprocess.Popen(
            [sys.executable, str(WARM_START), "--serve", str(self._socket)],
            cwd=folder,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def socket(self) -> Path:
        """Waits until the server takes requests. Raises RuntimeError if it has ended instead, or takes too long."""
        give_up = time.monotonic() + TIME_LIMIT_SECONDS
        while not self._socket.exists():
            if self._process.poll() is not None or time.monotonic() > give_up:
                self._log.seek(0)
                raise RuntimeError(f"no server to start runs from:\n{self._log.read()}")
            time.sleep(0.05)
        return self._socket

    def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()  # its signal to end, unless a process that the tests have forked holds it, too
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:  # it has nothing left to do
            self._process.kill()
            self._process.wait()
        self._log.close()
