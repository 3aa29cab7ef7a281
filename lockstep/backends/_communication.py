"""What carries TensorFlow's collectives: its own ring over gRPC, or NCCL between GPUs.

TensorFlow takes "auto" for the ring, whatever the devices are, unless a strategy asks for NCCL.
"""

from __future__ import annotations

import os

from lockstep._errors import JoinError

_CHOICES = ("auto", "ring", "nccl")


def communication_hint(device: str) -> str:
    """What collectives on this device ask for: LOCKSTEP_COMMUNICATION, "auto" for NCCL on GPUs and else as ever.

    Raises JoinError for another choice, and for NCCL without a GPU.
    """
    asked = os.environ.get("LOCKSTEP_COMMUNICATION", "").strip().lower() or "auto"
    if asked not in _CHOICES:
        raise JoinError(f"LOCKSTEP_COMMUNICATION must be one of {', '.join(_CHOICES)}, not {asked!r}")
    is_gpu = "GPU" in device.upper()
    if asked == "nccl" and not is_gpu:
        raise JoinError("LOCKSTEP_COMMUNICATION=nccl: NCCL connects GPUs, but this worker trains on the CPU")
    return "nccl" if asked == "auto" and is_gpu else asked
