"""Small messages between the ranks, and the check that all ranks do the same thing.

Only eager: when called while a function is traced, the messages are sent at once, at tracing time.
"""

from __future__ import annotations

import re
import threading
import zlib
from typing import Any

import numpy as np
import tensorflow as tf

from lockstep._errors import MismatchError
from lockstep.collectives.world import backend
from lockstep.peers.call_names import named

_LONGEST_QUOTE = 600
_seen: set[str] = set()
_lock = threading.RLock()


def exchange(message: bytes) -> list[bytes]:
    """Every rank's message, in rank order. All ranks must call this at the same point."""
    with tf.init_scope(), _lock:
        digest = np.array([[len(message), zlib.crc32(message)]], dtype=np.int64)
        digests = backend().gather(tf.constant(digest)).numpy()
        if (digests == digest).all():
            return [message] * backend().size
        longest = int(digests[:, 0].max())
        padded = np.zeros([1, longest], dtype=np.int32)
        padded[0, : len(message)] = np.frombuffer(message, dtype=np.uint8)
        rows = backend().gather(tf.constant(padded)).numpy()
        return [bytes(row[:length].astype(np.uint8)) for row, length in zip(rows, digests[:, 0])]


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def agree(call: str, signature: str, advice: str) -> None:
    """Compare what this rank is about to do with what the others are about to do.

    call names the lockstep function, signature all that has to be equal, advice what the user should look
    at. Raises MismatchError on every rank, with every rank's call and signature, when they differ.
    """
    messages = _exchange_named(call, signature)
    if not all(_fits(messages[0], message) for message in messages):
        raise _mismatch(call, messages, advice)


def _fits(one: bytes, other: bytes) -> bool:
    """Whether they are equal, but for sizes that one of two ranks does not know: it has traced the step for batches of
    several sizes, and the other one, all of whose shards are equal, for one."""
    if one == other:
        return True
    return any(
        re.fullmatch(re.escape(a).replace(b"None", rb"(?:None|\d+)"), b) for a, b in ((one, other), (other, one))
    )


def tell(call: str, news: str, advice: str) -> list[str]:
    """What each rank has to tell the others in this call, in rank order.

    Raises MismatchError on every rank when another one is in another call.
    """
    messages = _exchange_named(call, news)
    parts = [message.decode(errors="replace").partition("\n") for message in messages]
    if any(its_call != call for its_call, _, _ in parts):
        raise _mismatch(call, messages, advice)
    return [its_news for _, _, its_news in parts]


def _exchange_named(call: str, said: str) -> list[bytes]:
    with named(call):
        return exchange(f"{call}\n{said}".encode())


def _mismatch(call: str, messages: list[bytes], advice: str) -> MismatchError:
    lines = []
    for rank, message in enumerate(messages):
        its_call, _, its_signature = message.decode(errors="replace").partition("\n")
        lines.append(f"  rank {rank}: {its_call} {_shortened(its_signature)}")
    return MismatchError(
        f"rank {backend().rank} of {backend().size}: the workers do not agree in {call}. {advice}\n" + "\n".join(lines)
    )


def agree_once(call: str, signature: str, advice: str) -> None:
    """`agree` the first time that this process makes this call with this signature, nothing afterwards."""
    known = f"{call}\n{signature}"
    if known in _seen:
        return
    agree(call, signature, advice)
    _seen.add(known)


def compare_calls(call: str, signature: str, advice: str) -> None:
    """`agree` on a collective call that is about to be made, or traced.

    A traced call runs again and again and is compared when it is traced first; an eager one each time, since
    it could meet another rank's first call of something else, and both would wait.
    """
    compare = agree if tf.executing_eagerly() else agree_once
    compare(call, signature, advice)


def describe(tensors: list[Any]) -> str:
    """dtypes and shapes of tensors (None and IndexedSlices among them), equal where collectives may meet."""
    return f"{len(tensors)}: " + " ".join(_describe_one(tensor) for tensor in tensors)


def _describe_one(tensor: Any) -> str:
    if tensor is None:
        return "None"
    if isinstance(tensor, tf.IndexedSlices):
        # The number of rows may differ from rank to rank and from step to step.
        behind = tensor.values.shape[1:]
        return f"slices:{tensor.dtype.name}{behind}".replace(" ", "")
    return f"{tensor.dtype.name}{tensor.shape}".replace(" ", "")


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_QUOTE else text[:_LONGEST_QUOTE] + " …"
