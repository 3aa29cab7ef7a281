"""Stands in for Ascend's npu_device where there is no NPU: its documented calls, carried by TensorFlow's collectives.

It is as strict as the documentation: what that does not name, it does not take. As with the real one, collectives do
nothing before a device is open, and the workers' random states are none of its business.
"""

from __future__ import annotations

import atexit
import os
import time
from contextlib import contextmanager, suppress

import tensorflow as tf

_carrier = None
_default = None


def _join():
    """Connect to the other workers, and to leave only when all are done: the workers of one machine take the place of
    devices, which stay where they are."""
    global _carrier
    from lockstep.backends import tensorflow

    _carrier = tensorflow.join()
    atexit.register(_leave)


def _leave():
    with suppress(Exception), _carrier.patience(30.0):
        _carrier.reduce([tf.zeros([1])], "sum")
    _carrier.abandon()
    if _carrier.rank == 0:
        time.sleep(0.5)


class NpuDeviceHandle:
    def __init__(self, device_id, workers_num, worker_id):
        self._device_id = device_id
        self.workers_num = workers_num
        self.worker_id = worker_id

    def name(self):
        return f"/job:localhost/replica:0/task:0/device:NPU:{self._device_id}"

    def is_cluster_worker(self):
        return self.workers_num > 1

    def as_default(self):
        global _default
        _default = self
        return self

    @contextmanager
    def scope(self):
        yield


def open(device_id=None):
    workers = int(os.environ.get("RANK_SIZE", "1"))
    if workers > 1 and _carrier is None:
        if "RANK_ID" not in os.environ:
            raise RuntimeError("You must specify rank id by set env RANK_ID in distribution mode")
        _join()
    return NpuDeviceHandle(device_id or 0, workers, int(os.environ.get("RANK_ID", "0")))


def global_npu_ctx():
    return _default


def carrier():
    """What carries the collectives; no part of npu_device."""
    return _carrier


from npu_device import distribute  # noqa: E402

__all__ = ["NpuDeviceHandle", "distribute", "global_npu_ctx", "open"]
