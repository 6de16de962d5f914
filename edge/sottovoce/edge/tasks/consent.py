"""The owner's consent to the first message of a conversation, if `chat.ask_first` is set.

A command asks at the terminal. An app's request is refused, and waits here in its released form
until the owner allows it on the page. Then the app sends it again. All is kept in memory only.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sottovoce.core.errors import NotFound, NotReady
from sottovoce.edge.state.apps import calling

__all__ = ["MOST", "SECONDS", "Consent", "Waiting"]

MOST: Final = 16
"""Messages that wait at once; a new one replaces the oldest."""
SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that the owner has not allowed yet.

    Attributes:
        id: for the page.
        time: seconds since 1970.
        app: the name of the app; empty for the owner's programs.
        texts: the turns as they would leave.
        allowed: whether it leaves when it is sent again.
    """

    id: str
    time: float
    app: str
    texts: tuple[str, ...]
    allowed: bool = False


class Consent:
    """Asks for consent, if it is ``needed``; ``clock`` returns seconds since 1970."""

    def __init__(self, *, needed: bool, clock: Callable[[], float] = time.time) -> None:
        self.needed = needed
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: OrderedDict[str, Waiting] = OrderedDict()

    def check(self, conversation: bytes, texts: Sequence[str]) -> None:
        """Take the consent to these texts, or have them wait.

        Raises:
            NotReady: the owner has not allowed these very texts.
        """
        if not self.needed:
            return
        name, app = conversation.hex()[:32], calling()
        with self._lock:
            self._forget()
            known = self._waiting.pop(name, None)
            if known and known.allowed and known.texts == tuple(texts):
                return
            self._waiting[name] = Waiting(
                name, self._clock(), app.name if app else "", tuple(texts)
            )
            if len(self._waiting) > MOST:
                self._waiting.popitem(last=False)
        raise NotReady(
            "the owner of this device sees the first message of a conversation before it leaves",
            fix="allow it on the page of the device (`sotto ui`) and send it again, talk with "
            "`sotto chat` at a terminal, or `sotto config set chat.ask_first false`",
            subject="chat.ask_first",
        )

    def waiting(self) -> list[Waiting]:
        """Return what waits, the newest first."""
        with self._lock:
            self._forget()
            return [*reversed(self._waiting.values())]

    def allow(self, identity: str) -> None:
        """Let a message leave when it is sent again unchanged.

        Raises:
            NotFound: no message of this id waits.
        """
        with self._lock:
            self._forget()
            found = self._waiting.get(identity)
            if found is None:
                raise NotFound("no message of that id waits", fix="send it again", subject="id")
            self._waiting[identity] = Waiting(
                found.id, found.time, found.app, found.texts, allowed=True
            )

    def _forget(self) -> None:
        least = self._clock() - SECONDS
        for name in [each.id for each in self._waiting.values() if each.time < least]:
            del self._waiting[name]
