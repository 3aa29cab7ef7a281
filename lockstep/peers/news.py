"""What this process has been told about its peers, and what it tells them when it fails."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Callable

# By this the launcher knows that another worker failed first.
FOLLOWED = "a collective call with the other workers failed"


@dataclass(frozen=True)
class News:
    """Why the job cannot go on; peer_lost tells a worker that is gone from workers that do not do the same."""

    text: str
    peer_lost: bool


_came = threading.Event()
_news: News | None = None
_tell_peers: Callable[[str], None] | None = None
_own_failure = False


def publish(news: News) -> None:
    """Keep the first news: whatever comes later follows from it."""
    global _news
    if _news is None:
        _news = news
    _came.set()


def wait_for_news(seconds: float) -> News | None:
    """The news, which may come a little later than the error of the call that it explains; None if none comes."""
    if _tell_peers is not None:
        _came.wait(seconds)
    return _news


def on_failure(tell: Callable[[str], None]) -> None:
    """Name the function that tells the peers why this process fails."""
    global _tell_peers
    _tell_peers = tell


def tell_failure(text: str) -> None:
    """Tell the peers why this process fails, if they can be told."""
    global _own_failure
    _own_failure = True
    if _tell_peers is not None:
        _tell_peers(text)


def is_own_failure() -> bool:
    """Whether this process has failed by itself."""
    return _own_failure
