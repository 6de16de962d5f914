"""The texts that left the device in the last hour, if the owner asks for them.

The owner can see exactly which bytes the device sends. These texts contain clear words, so they are
kept in memory only. Their number and their age are limited, and they end with the daemon.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import Message

from sottovoce.edge.state.ledger import Purpose

__all__ = ["LONGEST", "MOST", "SECONDS", "Departure", "Record", "released_texts"]

SECONDS: Final = 3_600.0
MOST: Final = 256
LONGEST: Final = 2_000
"""Characters kept of a text: its end, which is a conversation's newest turn."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A text or other data that left the device.

    Attributes:
        time: seconds since 1970.
        kind, name: see `Purpose`.
        to: the receiver; empty for an app of this device.
        text: as it left; empty if there was none.
        note: further facts.
    """

    time: float
    kind: str
    name: str
    to: str
    text: str
    note: str = ""


class Record:
    """Keeps departures, but only while it is ``on``."""

    def __init__(self, *, on: bool = False, clock: Callable[[], float] = time.time) -> None:
        self.on = on
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: deque[Departure] = deque(maxlen=MOST)

    def note(self, purpose: Purpose, to: str, texts: Iterable[str], note: str = "") -> None:
        """Note data that is about to leave; ``texts`` are read only while ``on``."""
        if self.on:
            now, text = self._clock(), "\n".join(filter(None, texts))
            with self._lock:
                self._forget(now)
                self._kept.append(Departure(now, *purpose, to, text[-LONGEST:], note))

    def recent(self) -> list[Departure]:
        """Return the departures of the last hour, the newest first."""
        with self._lock:
            self._forget(self._clock())
            return [*reversed(self._kept)]

    def _forget(self, now: float) -> None:
        while self._kept and self._kept[0].time < now - SECONDS:
            self._kept.popleft()


def released_texts(*messages: Message) -> Iterator[str]:
    """Yield all released text in messages to the cloud, by their fields' names."""
    for message in messages:
        for field, found in message.ListFields():
            each = found if field.is_repeated else [found]
            if field.message_type:
                yield from released_texts(*each)
            elif field.name.startswith("released_"):
                yield from each
