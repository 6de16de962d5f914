"""What left in the last hour, for the owner's eye, where the owner asks for that.

Why it is here: "what does it send?" deserves to be answered by the very bytes. They are in the
clear where words pass, so they are kept in memory alone, few and not for long, and go with the
daemon.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import Message

from sottovoce.edge.state.purpose import Purpose

__all__ = ["LONGEST", "MOST", "SECONDS", "Departure", "Record", "released_texts"]

SECONDS: Final = 3_600.0
MOST: Final = 256
LONGEST: Final = 2_000
"""Characters of a text that are kept: its end, as a conversation's newest turn is its last."""


@dataclass(frozen=True, slots=True)
class Departure:
    """Something that left.

    Attributes:
        time: seconds since 1970.
        kind, name: see `Purpose`.
        to: whom it was sent to, empty for an app of this device.
        text: as it left; empty where no text did.
        note: what else there is to say.
    """

    time: float
    kind: str
    name: str
    to: str
    text: str
    note: str = ""


class Record:
    """Keeps departures; nothing at all unless it is ``on``."""

    def __init__(self, *, on: bool = False, clock: Callable[[], float] = time.time) -> None:
        self.on = on
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: deque[Departure] = deque(maxlen=MOST)

    def note(self, purpose: Purpose, to: str, texts: Iterable[str], note: str = "") -> None:
        """Notes what is about to leave; ``texts`` are not looked at unless it is on."""
        if self.on:
            now, text = self._clock(), "\n".join(filter(None, texts))
            with self._lock:
                self._forget(now)
                self._kept.append(Departure(now, *purpose, to, text[-LONGEST:], note))

    def recent(self) -> list[Departure]:
        """What left in the last hour, the newest first."""
        with self._lock:
            self._forget(self._clock())
            return [*reversed(self._kept)]

    def _forget(self, now: float) -> None:
        while self._kept and self._kept[0].time < now - SECONDS:
            self._kept.popleft()


def released_texts(*messages: Message) -> Iterator[str]:
    """All text that leaves in messages to the cloud, which their fields say by their names."""
    for message in messages:
        for field, found in message.ListFields():
            each = found if field.is_repeated else [found]
            if field.message_type:
                yield from released_texts(*each)
            elif field.name.startswith("released_"):
                yield from each
