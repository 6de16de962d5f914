"""Answers in pieces, as servers that speak OpenAI's protocol send them (server-sent events).

Why it is here: device and cloud both have such servers write, and neither trusts them: every line,
the whole and its time are bounded, and what is not as agreed is an error that quotes none of it.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, NamedTuple, Protocol

__all__ = ["LONGEST_LINE", "MOST_BYTES", "MOST_SECONDS", "Called", "Heard", "cut", "heard", "timed"]

LONGEST_LINE: Final = 1 << 20
MOST_BYTES: Final = 64 << 20
MOST_SECONDS: Final = 3600.0

_RESET: Final = struct.pack("ii", 1, 0)
"""Of SO_LINGER: on, for no time."""


class Lines(Protocol):
    """What an answer is read from, as ``http.client`` gives it."""

    def readline(self, limit: int, /) -> bytes:
        """The next line, or as much of it."""
        ...


class Called(NamedTuple):
    """A piece of a call of a function: which call, and what goes on with its name and arguments."""

    number: int
    name: str
    arguments: str


class Heard(NamedTuple):
    """One event.

    Attributes:
        text: what was written on.
        finish: why the text ended, in the server's word; empty while it goes on.
        usage: tokens of the prompt and of the answer, where the server says.
        calls: what was written on of calls of functions.
    """

    text: str
    finish: str
    usage: tuple[int, int] | None
    calls: tuple[Called, ...] = ()


def cut(connection: socket.socket) -> None:
    """Ends a connection under whoever reads from it or writes to it; once more does no harm."""
    with suppress(OSError):  # it may have ended by itself
        # Closing it then says so at once: a peer that waits for room to write would otherwise not
        # hear of it before it asks again, which may be a minute later.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        # Not its own shutdown: that of a TLS socket forgets the encryption first, and what another
        # thread was about to write would leave in the clear.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


@contextmanager
def timed(connection: socket.socket, seconds: float | None = None) -> Iterator[None]:
    """Cuts a connection that lasts longer than ``seconds`` (by default ``MOST_SECONDS``), headers
    and all.

    A socket's own timeout begins anew with every byte, so one now and then would hold a thread for
    ever. Connecting is bounded by it, handshake included.
    """
    timer = threading.Timer(MOST_SECONDS if seconds is None else seconds, cut, [connection])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def heard(lines: Lines) -> Iterator[Heard]:
    """The events of an answer up to its end, which need not be a good one: see ``finish``.

    Raises:
        ValueError: it is not what was agreed, says that something failed, or has no end.
        OSError: the connection broke.
    """
    until, left = time.monotonic() + MOST_SECONDS, MOST_BYTES
    while line := lines.readline(LONGEST_LINE + 1):
        left -= len(line)
        if len(line) > LONGEST_LINE or left < 0 or time.monotonic() > until:
            raise ValueError("no end")
        field, _, data = line.decode("utf-8").rstrip("\r\n").partition(":")
        if field != "data":
            continue  # an empty line, or a comment that keeps the line alive
        if data.strip() == "[DONE]":
            return
        yield _event(json.loads(data))


def _event(event: Any) -> Heard:
    if not isinstance(event, dict) or "error" in event:
        raise ValueError("no event")
    choices = event.get("choices") or []
    if not isinstance(choices, list):
        raise ValueError("no choices")
    text = finish = ""
    calls: list[Called] = []
    for choice in choices:
        if not isinstance(choice, dict) or choice.get("index", 0) != 0:
            continue
        delta = choice.get("delta", choice)
        said = delta if isinstance(delta, dict) else {}
        piece = said.get("text" if delta is choice else "content")
        text += piece if isinstance(piece, str) else ""
        calls += _calls(said.get("tool_calls"))
        finish = str(choice.get("finish_reason") or finish)
    return Heard(_whole(text), finish, _usage(event.get("usage")), tuple(calls))


def _whole(text: str) -> str:
    """JSON can name halves of characters, and UTF-8 cannot spell them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _calls(said: Any) -> Iterator[Called]:
    for place, call in enumerate(said if isinstance(said, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise ValueError("no call")
        index = call.get("index", place)
        name, arguments = (function.get(part) or "" for part in ("name", "arguments"))
        if not (isinstance(index, int) and isinstance(name, str) and isinstance(arguments, str)):
            raise ValueError("no call")
        yield Called(index, _whole(name), _whole(arguments))


def _usage(said: Any) -> tuple[int, int] | None:
    if not isinstance(said, dict):
        return None
    counts = [said.get(name) for name in ("prompt_tokens", "completion_tokens")]
    prompt, answer = (n if isinstance(n, int) and 0 <= n < 1 << 31 else 0 for n in counts)
    return prompt, answer
