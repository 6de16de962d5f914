"""Client side of OpenAI's protocol: bodies of requests, and events of streamed responses.

Device and cloud both call servers that speak it, and trust none. Every line, the whole response and
its time are bounded. A response that breaks the protocol is an error that quotes none of the
content.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, Literal, NamedTuple, Protocol

LONGEST_LINE: Final = 1 << 20
MOST_BYTES: Final = 64 << 20
MOST_SECONDS: Final = 3600.0

CODES: Final = frozenset(
    {
        *("content_filter", "content_policy_violation", "context_length_exceeded"),
        *("insufficient_quota", "invalid_api_key", "model_not_found", "rate_limit_exceeded"),
    }
)
"""The codes of a server's errors that are passed on; all else in an error could be text."""

_MOST_STOPS: Final = 4
"""The most stop strings that all servers take; callers look for every one themselves."""

_RESET: Final = struct.pack("ii", 1, 0)
"""A value of SO_LINGER: on, for no time."""


def message(
    role: str, text: str, *, calls: Sequence[tuple[str, str, str]] = (), call_id: str = ""
) -> dict[str, Any]:
    """Return one message of a conversation.

    Args:
        role: the role, in OpenAI's word.
        calls: id, name and arguments of each function that this message calls.
        call_id: the id of the call that this message answers.
    """
    found: dict[str, Any] = {"role": role, "content": text}
    if calls:
        found["tool_calls"] = [
            {"id": each, "type": "function", "function": {"name": name, "arguments": arguments}}
            for each, name, arguments in calls
        ]
    if call_id:
        found |= {"role": "tool", "tool_call_id": call_id}
    return found


def request(
    model: str,
    prompt: str | Sequence[dict[str, Any]],
    *,
    stream: bool = True,
    max_tokens: int | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    stops: Sequence[str] = (),
) -> tuple[str, dict[str, Any]]:
    """Return the path below the server's address, and the body of a request for text.

    Args:
        prompt: a text to continue, or messages of which the last is answered.
        stream: whether the response comes as events, with the number of tokens at the end.
        max_tokens, temperature, top_p, seed: None leaves the choice to the server.
        stops: strings that end the text.
    """
    body: dict[str, Any] = {"model": model}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    chosen = {"max_tokens": max_tokens, "temperature": temperature, "top_p": top_p, "seed": seed}
    body |= {name: value for name, value in chosen.items() if value is not None}
    if stops:
        body["stop"] = [*stops[:_MOST_STOPS]]
    if isinstance(prompt, str):
        return "/completions", body | {"prompt": prompt}
    return "/chat/completions", body | {"messages": [*prompt]}


class Reported(ValueError):
    """A failure that a server reports within a response.

    Attributes:
        code: the failure's code, of `CODES`; empty for another.
    """

    def __init__(self, code: str) -> None:
        super().__init__("a failure")
        self.code = code


def code(error: Any) -> str:
    """Return the code of an error object, of `CODES`; empty for another.

    Args:
        error: the parsed response, with the object in ``error``.
    """
    found = error.get("error") if isinstance(error, dict) else None
    told = [found.get(name) for name in ("code", "type")] if isinstance(found, dict) else []
    return next((each for each in told if isinstance(each, str) and each in CODES), "")


class Lines(Protocol):
    """The source of a response's lines, like ``http.client``'s."""

    def readline(self, limit: int, /) -> bytes:
        """Return the next line, or the part that fits the limit."""
        ...


class Called(NamedTuple):
    """A piece of a function call: which call, and the next part of its name and arguments.

    Attributes:
        id: the server's id of the call, in its first piece or in each. Some servers give the same
            number to several calls, and only the ids differ.
    """

    number: int
    name: str
    arguments: str
    id: str = ""


class Heard(NamedTuple):
    """One event.

    Attributes:
        text: the next piece of text. A refusal, which some servers send apart, counts as text.
        finish: why the text ended, in the server's word; empty while it goes on.
        usage: tokens of the prompt and of the answer, where the server reports them.
        calls: the next pieces of function calls.
        reasoning: the next piece of what the model thinks before it answers.
    """

    text: str
    finish: str
    usage: tuple[int, int] | None
    calls: tuple[Called, ...] = ()
    reasoning: str = ""


def cut(connection: socket.socket) -> None:
    """End a connection while another thread reads or writes it; repeating this is harmless."""
    with suppress(OSError):  # it may have ended by itself
        # The close then resets the connection at once. Otherwise a peer that waits for room to
        # write would notice only at its next probe, perhaps a minute later.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        # Not a TLS socket's own shutdown, which drops the encryption first: another thread's
        # pending write would then leave in the clear.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


@contextmanager
def timed(connection: socket.socket, seconds: float | None = None) -> Iterator[None]:
    """Cut a connection after ``seconds`` (by default ``MOST_SECONDS``), headers included.

    A socket's own timeout restarts with every byte, so a slow server could hold a thread for ever.
    The socket's own timeout does bound connecting, handshake included.
    """
    timer = threading.Timer(MOST_SECONDS if seconds is None else seconds, cut, [connection])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def heard(lines: Lines) -> Iterator[Heard]:
    """Yield the events of a response up to its end, which may be a failure: see ``finish``.

    Raises:
        ValueError: the response breaks the protocol, reports a failure, or has no end.
        OSError: the connection broke.
    """
    halves = _Halves()
    for event in _events(lines):
        yield _event(event, halves)
    yield from halves.rest()


def _events(lines: Lines) -> Iterator[Any]:
    until, left = time.monotonic() + MOST_SECONDS, MOST_BYTES
    encoding = "utf-8-sig"  # a byte order mark may begin the stream, and nothing after it
    while line := lines.readline(LONGEST_LINE + 1):
        left -= len(line)
        if len(line) > LONGEST_LINE or left < 0 or time.monotonic() > until:
            raise ValueError("no end")
        try:
            field, _, data = line.decode(encoding).rstrip("\r\n").partition(":")
            encoding = "utf-8"
            if field != "data":
                continue  # an empty line, or a comment that keeps the line alive
            if data.strip() == "[DONE]":
                return
            event = json.loads(data)
        except ValueError:
            if not line.endswith(b"\n"):
                return  # the connection ended within the line
            raise
        yield event


class _Halves:
    """Joins surrogate pairs that come in two pieces; replaces single halves.

    JSON can express half a pair, and a server that cuts its text between UTF-16 units sends one.
    """

    def __init__(self) -> None:
        self._kept: dict[str | int, str] = {}

    def whole(self, place: Literal["text", "reasoning"] | int, piece: str) -> str:
        """Return a piece without halves; the first half of a pair is kept for the next piece.

        Args:
            place: the text that the piece belongs to; a number is the arguments of that call.
        """
        if not piece:
            return piece
        said = self._kept.pop(place, "") + piece
        if "\ud800" <= said[-1] <= "\udbff":
            said, self._kept[place] = said[:-1], said[-1]
        return whole(said)

    def rest(self) -> Iterator[Heard]:
        """Yield a replacement for each half that stayed alone."""
        for place, half in self._kept.items():
            lost = whole(half)
            if isinstance(place, int):
                yield Heard("", "", None, (Called(place, "", lost),))
            elif place == "text":
                yield Heard(lost, "", None)
            else:
                yield Heard("", "", None, reasoning=lost)


def _event(event: Any, halves: _Halves) -> Heard:
    if not isinstance(event, dict):
        raise ValueError("no event")
    if event.get("error") is not None:
        raise Reported(code(event))
    choices = event.get("choices") or []
    if not isinstance(choices, list):
        raise ValueError("no choices")
    text = reasoning = finish = ""
    calls: list[Called] = []
    for choice in choices:
        if not isinstance(choice, dict) or choice.get("index", 0) != 0:
            continue
        delta = choice.get("delta", choice)
        said = delta if isinstance(delta, dict) else {}
        names = ("text",) if delta is choice else ("content", "refusal")
        text += "".join(piece for name in names if isinstance(piece := said.get(name), str))
        reasoning += _reasoning(said)
        calls += _calls(said.get("tool_calls"), halves)
        finish = str(choice.get("finish_reason") or finish)
    usage = _usage(event.get("usage"))
    text, reasoning = halves.whole("text", text), halves.whole("reasoning", reasoning)
    return Heard(text, finish, usage, tuple(calls), reasoning)


def _reasoning(said: dict[str, Any]) -> str:
    """Return the model's thoughts; servers that send both names send the same text in both."""
    found = (said.get(name) for name in ("reasoning_content", "reasoning"))
    return next((text for text in found if text and isinstance(text, str)), "")


def whole(text: str) -> str:
    """Replace single halves of surrogate pairs, which JSON can express and UTF-8 cannot encode."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _calls(said: Any, halves: _Halves) -> Iterator[Called]:
    for place, call in enumerate(said if isinstance(said, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise ValueError("no call")
        index = call.get("index", place)
        name, arguments = (function.get(part) or "" for part in ("name", "arguments"))
        if not (isinstance(index, int) and isinstance(name, str) and isinstance(arguments, str)):
            raise ValueError("no call")
        identity = call.get("id")
        yield Called(
            index,
            whole(name),
            halves.whole(index, arguments),
            whole(identity) if isinstance(identity, str) else "",
        )


def _usage(said: Any) -> tuple[int, int] | None:
    if not isinstance(said, dict):
        return None
    counts = [said.get(name) for name in ("prompt_tokens", "completion_tokens")]
    prompt, answer = (n if type(n) is int and 0 <= n < 1 << 31 else 0 for n in counts)
    return prompt, answer
