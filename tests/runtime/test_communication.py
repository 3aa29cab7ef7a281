"""What the backend tensorflow asks TensorFlow's collectives for, on CPUs and on GPUs that need not be there."""

from __future__ import annotations

from typing import Any

import pytest

from lockstep._errors import JoinError
from lockstep.backends._communication import communication_hint

CPU, GPU = "/job:worker/replica:0/task:1/device:CPU:0", "/job:worker/replica:0/task:1/device:GPU:0"


def test_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCKSTEP_COMMUNICATION", raising=False)
    assert (communication_hint(CPU), communication_hint(GPU)) == ("auto", "nccl")
    monkeypatch.setenv("LOCKSTEP_COMMUNICATION", "ring")
    assert (communication_hint(CPU), communication_hint(GPU)) == ("ring", "ring")
    monkeypatch.setenv("LOCKSTEP_COMMUNICATION", "NCCL")
    assert communication_hint(GPU) == "nccl"
    with pytest.raises(JoinError, match="trains on the CPU"):
        communication_hint(CPU)
    monkeypatch.setenv("LOCKSTEP_COMMUNICATION", "mpi")
    with pytest.raises(JoinError, match="auto, ring, nccl"):
        communication_hint(GPU)


def traced_collectives(device: str) -> list[tuple[str, str, str]]:
    """Operation, hint and final operation of what a function is traced to, on a device that is not there."""
    import tensorflow as tf

    from lockstep.backends._keys import InstanceKeys
    from lockstep.backends._running_call import RunningCall
    from lockstep.backends.tensorflow import TensorFlowCollectives

    backend: Any = object.__new__(TensorFlowCollectives)
    backend.rank, backend.size, backend._device = 1, 3, device
    backend._hint, backend._keys, backend._running = communication_hint(device), InstanceKeys(), RunningCall()

    @tf.function(autograph=False)
    def step(x: Any) -> Any:
        mean, total = backend.reduce([x], "mean"), backend.reduce([x], "sum")
        return mean, total, backend.gather(x), backend.broadcast([x], 0), backend.broadcast([x], 1)

    graph = step.get_concrete_function(tf.TensorSpec([4])).graph
    return [
        (
            op.type,
            op.get_attr("communication_hint").decode(),
            op.get_attr("final_op").decode() if "Reduce" in op.type else "",
        )
        for op in graph.get_operations()
        if op.type.startswith("Collective")
    ]


@pytest.mark.parametrize(("device", "hint", "final"), [(CPU, "auto", "Div"), (GPU, "nccl", "Id")])
def test_the_operations(device: str, hint: str, final: str) -> None:
    assert traced_collectives(device) == [
        ("CollectiveReduceV2", hint, final),
        ("CollectiveReduceV2", hint, "Id"),
        ("CollectiveGatherV2", hint, ""),
        ("CollectiveBcastRecvV2", hint, ""),
        ("CollectiveBcastSendV2", hint, ""),
    ]
