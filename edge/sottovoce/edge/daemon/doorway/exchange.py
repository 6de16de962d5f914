"""One request and its response, between a worker thread and the event loop.

Tasks block (on the disk, the search, the cloud), and connections must not. So a thread does the
work. It sends each piece before it makes the next, so nothing piles up for a slow client. The work
ends when the client disconnects.
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
    """A request to an endpoint.

    Attributes:
        device: the agent.
        headers: the request's headers, with names in lower case.
        body: the request's body.
        stoppable: takes a function that ends the work from another thread.
    """

    device: Agent
    headers: Mapping[str, str]
    body: bytes
    stoppable: Callable[[Callable[[], None]], None]


class Reply(NamedTuple):
    """A response: a body of a media type, or a stream of whole server-sent events."""

    body: bytes | Generator[bytes, None, None]
    headers: Sequence[tuple[str, str]] = ()
    kind: str = JSON


class Gone(Exception):
    """The client has disconnected."""


class Exchange:
    """Let a thread send over a connection of ``loop``, until it is cancelled."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._gone = False
        self._stops: list[Callable[[], None]] = []

    def stoppable(self, stop: Callable[[], None]) -> None:
        """Call ``stop`` when the client disconnects, or at once if it already has."""
        with self._lock:
            gone = self._gone
            self._stops.append(stop)
        if gone:
            stop()

    def cancel(self) -> None:
        """End the work; calling this again does nothing."""
        with self._lock:
            if self._gone:
                return
            self._gone = True
            stops = [*self._stops]
        for stop in stops:
            stop()

    def wait(self, sending: Coroutine[Any, Any, None]) -> None:
        """Run ``sending`` on the loop, and wait until it is done.

        Raises:
            Gone: the client has disconnected.
        """
        try:
            with self._lock:  # begin nothing after `cancel`, which comes before the loop ends
                if self._gone:
                    raise Gone
                sent = asyncio.run_coroutine_threadsafe(sending, self._loop)
            sent.result()
        except (OSError, CancelledError, RuntimeError) as error:
            raise Gone from error
        finally:
            sending.close()  # does nothing if it has ended
