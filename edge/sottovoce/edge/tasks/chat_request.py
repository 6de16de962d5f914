"""Requests of conversations: their options are checked, and the owner consents to the first.

The owner is asked before the first message of a conversation if `chat.ask_first` is set. A command
asks at the terminal. An app's request is refused, and waits here in its released form until the
owner allows it on the page. Then the app sends it again. All is kept in memory only.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sottovoce.core.errors import InvalidInput, NotFound, NotReady
from sottovoce.core.rpc.limits import (
    HIGHEST_PENALTY,
    HIGHEST_TEMPERATURE,
    LARGEST_PROMPT,
    LONGEST_STOP,
    MOST_STOPS,
    MOST_TOOLS,
    MOST_TURNS,
)
from sottovoce.edge.state.apps import calling
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation

_ROLES: Final = frozenset(generation.Role.values()) - {generation.ROLE_UNSPECIFIED}
_USES: Final = frozenset(generation.ToolUse.values())
_RANGES: Final = {
    "temperature": (0.0, HIGHEST_TEMPERATURE),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "presence_penalty": (-HIGHEST_PENALTY, HIGHEST_PENALTY),
    "frequency_penalty": (-HIGHEST_PENALTY, HIGHEST_PENALTY),
}
"""The smallest and the largest value of each sampling setting with a fraction."""


def check_request(asked: chats.ChatRequest, *, options: bool) -> None:
    """Refuse options that no writer can accept.

    Args:
        options: whether the writer takes functions, forms and all sampling settings.

    Raises:
        InvalidInput: an option is invalid; the message names the field.
    """
    calls = [call for turn in asked.turns for call in turn.tool_calls]
    texts = [turn.text for turn in asked.turns]
    texts += [call.arguments for call in calls]
    texts += [part for tool in asked.tools for part in (tool.description, tool.parameters)]
    texts += [asked.format.description, asked.format.schema]
    size = sum(len(text.encode()) for text in texts)
    further = _further(asked.sampling)
    demands = (
        (1 <= len(asked.turns) <= MOST_TURNS, "turns", f"1 to {MOST_TURNS} turns"),
        (size <= LARGEST_PROMPT, "turns", f"at most {LARGEST_PROMPT} bytes of text"),
        (all(turn.role in _ROLES for turn in asked.turns), "role", "the role of every turn"),
        (asked.tool_use in _USES, "tool_use", "one of its values"),
        *(
            (least <= getattr(asked.sampling, name) <= most, name, f"{least:g} to {most:g}")
            for name, (least, most) in _RANGES.items()  # no comparison with NaN holds
        ),
        (len(asked.stops) <= MOST_STOPS, "stops", f"at most {MOST_STOPS} of them"),
        (
            all(1 <= len(stop.encode()) <= LONGEST_STOP for stop in asked.stops),
            "stops",
            f"1 to {LONGEST_STOP} bytes each",
        ),
        (len(asked.tools) <= MOST_TOOLS, "tools", f"at most {MOST_TOOLS} of them"),
        (
            options or not (asked.tools or calls),
            "tools",
            "none to our cloud, or set chat.upstream to a server whose models call functions",
        ),
        (
            options or not asked.HasField("format"),
            "response_format",
            "none to our cloud, or set chat.upstream to a server that answers in JSON",
        ),
        (
            options or not further,
            further,
            "none to our cloud, or set chat.upstream to a server that takes it",
        ),
        (
            not asked.tool or any(tool.name == asked.tool for tool in asked.tools),
            "tool",
            "the name of one of the tools",
        ),
    )
    for holds, subject, wanted in demands:
        if not holds:
            raise InvalidInput(
                f"the request's {subject} cannot be taken",
                fix=f"send {wanted}",
                subject=subject,
            )


def agreed_by_owner(asked: chats.ChatRequest) -> bool:
    """Return whether the owner has seen the leaving text; an app cannot claim this."""
    return asked.agreed and calling() is None


def offers(asked: chats.ChatRequest, name: str) -> bool:
    """Return whether the writer may ask for this function."""
    return asked.tool_use != generation.TOOL_USE_NONE and any(
        tool.name == name for tool in asked.tools
    )


def _further(sampling: chats.Sampling) -> str:
    """Return the first sampling setting that our cloud does not take; empty for none."""
    taken = {field.name for field, _ in sampling.ListFields()}
    return min(taken - {"max_tokens", "temperature", "top_p", "seed"}, default="")


def asks(turn: chats.ChatTurn) -> bool:
    """Return whether a turn can be answered; a function's result may be empty."""
    return bool(turn.text.strip() or turn.tool_call_id)


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
        """Take the consent to these texts, or have them wait."""
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
        """Return the waiting messages, the newest first."""
        with self._lock:
            self._forget()
            return [*reversed(self._waiting.values())]

    def allow(self, identity: str) -> None:
        """Let a message leave when it is sent again unchanged."""
        with self._lock:
            self._forget()
            found = self._waiting.get(identity)
            if found is None:
                raise NotFound("no message of that id waits", fix="send it again", subject="id")
            self._waiting[identity] = replace(found, allowed=True)

    def _forget(self) -> None:
        least = self._clock() - SECONDS
        for name in [each.id for each in self._waiting.values() if each.time < least]:
            del self._waiting[name]
