"""Two machines that lose each other: two network namespaces, whose link is taken down in the middle of training."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import worker_environment

# The documentation says 10: the kernel's last probe comes after that, and a busy machine is late itself.
NOTICED_SECONDS = 10 + 5
PROGRAM = """
import time
import tensorflow as tf
import lockstep

@tf.function
def step(x):
    return lockstep.all_reduce(x)

try:
    while True:
        before = time.time()
        step(tf.constant(1.0))
        print("step", flush=True)
        time.sleep(0.1)
except tf.errors.OpError:
    print("noticed at", time.time(), flush=True)
    raise
"""


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=20)


@contextlib.contextmanager
def linked_namespaces() -> Iterator[tuple[str, str]]:
    """Two namespaces with the addresses 10.77.0.1 and 10.77.0.2, linked by l0 and l1. Skips where that cannot be."""
    names = (f"lockstep{os.getpid()}a", f"lockstep{os.getpid()}b")
    try:
        try:
            for name in names:
                ip("netns", "add", name)
            ip("link", "add", "l0", "netns", names[0], "type", "veth", "peer", "name", "l1", "netns", names[1])
            for number, name in enumerate(names):
                ip("-n", name, "address", "add", f"10.77.0.{number + 1}/24", "dev", f"l{number}")
                ip("-n", name, "link", "set", f"l{number}", "up")
                ip("-n", name, "link", "set", "lo", "up")
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no network namespaces here: {error}")
        yield names
    finally:
        for name in names:
            if shutil.which("ip"):
                subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=20)


def test_both_sides_of_a_cut_network_end(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    with linked_namespaces() as names, contextlib.ExitStack() as stack:
        workers = []
        for rank, name in enumerate(names):
            cluster = {"worker": ["10.77.0.1:2222", "10.77.0.2:2222"]}
            config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": rank}})
            worker = subprocess.Popen(
                ["ip", "netns", "exec", name, sys.executable, str(tmp_path / "train.py")],
                env=worker_environment(TF_CONFIG=config, LOCKSTEP_JOIN_SECONDS="120"),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.callback(worker.wait)
            stack.callback(worker.kill)
            workers.append(worker)
        for worker in workers:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "step\n"
        ip("-n", names[0], "link", "set", "l0", "down")
        cut = time.time()
        for rank, worker in enumerate(workers):
            shown, errors = worker.communicate(timeout=100)
            assert worker.returncode == 1
            noticed = float(re.findall(r"noticed at (\S+)", shown)[0])
            assert noticed - cut < NOTICED_SECONDS
            # Recent versions of TensorFlow notice it too, at about the same time, and call the rank a task.
            assert re.search(rf"rank {1 - rank} \(10.77.0.{2 - rank}:2222\) is gone|/task:{1 - rank}", errors)
            assert re.search(r"ended at \S*train.py:\d+ because", errors)
