"""What the machine has for workers: cores, memory, GPUs. Nothing is imported to find out."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")
_GPU_DEVICES = Path("/dev")
# What a process that has done no more than import TensorFlow takes.
_BYTES_OF_TENSORFLOW = 500_000_000


def cores() -> int:
    """How many this process may use, by its affinity and by the limit of its container."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = _container_cores()
    return count if limit is None else min(count, max(1, int(limit)))


def _container_cores() -> float | None:
    with contextlib.suppress(OSError, ValueError):
        quota, period = (_CGROUP / "cpu.max").read_text().split()
        return int(quota) / int(period)  # "max": no limit
    with contextlib.suppress(OSError, ValueError):
        quota, period = ((_CGROUP / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return int(quota) / int(period) if int(quota) > 0 else None
    return None


def memory() -> int | None:
    """The bytes that are free for new processes, also by the limit of the container; None where that is not known."""
    found = [free for free in (_free_memory(), _container_memory()) if free is not None]
    return min(found) if found else None


def _free_memory() -> int | None:
    with contextlib.suppress(OSError):
        available = re.search(r"^MemAvailable: +(\d+) kB$", _MEMINFO.read_text(), re.MULTILINE)
        return int(available[1]) * 1024 if available else None
    return None


def _container_memory() -> int | None:
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):
            return max(0, int((_CGROUP / limit).read_text()) - int((_CGROUP / used).read_text()))
    return None


def gpu_count() -> int:
    """How many of NVIDIA's GPUs a worker may see: those of CUDA_VISIBLE_DEVICES, else all that the machine has."""
    present = len([path for path in _GPU_DEVICES.glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)])
    stated = os.environ.get("CUDA_VISIBLE_DEVICES")
    if stated is None:
        return present
    count = 0
    for one in stated.split(","):
        if not one.strip() or one.strip().startswith("-"):  # CUDA reads no further
            break
        count += 1
    return min(count, present)


def warnings(workers: int) -> Iterator[str]:
    """What is to say before so many workers are started here."""
    if workers > max(cores(), gpu_count()):
        yield f"{workers} workers share {cores()} core{'s' if cores() > 1 else ''}: more workers than cores are slower"
    free = memory()
    if free is not None and workers * _BYTES_OF_TENSORFLOW > free:
        yield (
            f"{workers} workers need more than {workers * _BYTES_OF_TENSORFLOW / 1e9:.1f} GB of memory for TensorFlow "
            f"alone; {free / 1e9:.1f} GB are free"
        )
