"""One request and its answer, between the thread that works on it and the loop that sends it.

Why it is here: tasks block (on the disk, the search, the cloud) and connections must not. A thread
works; each piece it has is sent before it makes the next, so who reads slowly is not read ahead of;
and who goes away takes the work along.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sottovoce.edge.tasks.agent import Agent

__all__ = ["JSON", "Call", "Exchange", "Gone", "Reply"]

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Call:
    """What an endpoint is asked.

    Attributes:
        device: the agent.
        headers: of the request, names in small letters.
        body: of the request.
        stoppable: is given what ends the work from another thread.
    """

    device: Agent
    headers: Mapping[str, str]
    body: bytes
    stoppable: Callable[[Callable[[], None]], None]


class Reply(NamedTuple):
    """An answer: all of it, of a media type; or a stream of server-sent events, each whole."""

    body: bytes | Generator[bytes, None, None]
    headers: Sequence[tuple[str, str]] = ()
    kind: str = JSON


class Gone(Exception):
    """The client is not there any more."""


class Exchange:
    """Lets a thread send over the connection of ``loop``, until it is cancelled."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._gone = False
        self._stops: list[Callable[[], None]] = []

    def stoppable(self, stop: Callable[[], None]) -> None:
        """Has ``stop`` called when the client goes, at once if it has."""
        with self._lock:
            gone = self._gone
            self._stops.append(stop)
        if gone:
            stop()

    def cancel(self) -> None:
        """Ends the work; once more does no harm."""
        with self._lock:
            if self._gone:
                return
            self._gone = True
            stops = [*self._stops]
        for stop in stops:
            stop()

    def wait(self, sending: Coroutine[Any, Any, None]) -> None:
        """Has the loop do ``sending``; returns when it is done.

        Raises:
            Gone: the client has gone.
        """
        try:
            with self._lock:  # once it is cancelled, and so before the loop ends, nothing is begun
                if self._gone:
                    raise Gone
                sent = asyncio.run_coroutine_threadsafe(sending, self._loop)
            sent.result()
        except (OSError, CancelledError, RuntimeError) as error:
            raise Gone from error
        finally:
            sending.close()  # which does nothing to one that has come to its end
