"""Answers in OpenAI's formats: the parts that all formats share."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, Final, NamedTuple, TypeVar

from sottovoce.core.rpc.streams import Pieces
from sottovoce.edge.client.generation import check_size
from sottovoce.edge.http.requests import PREFIX, Fields, another
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation

FINISHES: Final = {
    generation.FINISH_REASON_STOP: "stop",
    generation.FINISH_REASON_LENGTH: "length",
    generation.FINISH_REASON_CONTENT_FILTER: "content_filter",
    generation.FINISH_REASON_TOOL_CALLS: "tool_calls",
}

_NO_NAME: Final = re.compile(r"[^\w.\[\]-]", re.ASCII)
_Event = TypeVar("_Event", chats.ChatResponse, chats.CompleteResponse)


def begun(
    events: Generator[_Event, None, None],
) -> tuple[chats.Departed, Generator[_Event, None, None]]:
    """Wait for the first piece of an answer; return the release, and all pieces.

    An error before the first piece can thus still set the HTTP status.
    """
    first = next(events)
    second = next(events)

    def rest() -> Generator[_Event, None, None]:
        try:
            yield second
            yield from events
        finally:
            events.close()

    return first.departed, rest()


def choices(
    ask: Callable[[], Generator[_Event, None, None]], sampling: chats.Sampling, number: int
) -> tuple[chats.Departed, Iterator[Generator[_Event, None, None]]]:
    """Begin the first of several answers; return its release, and all answers.

    A later answer is asked for, with another seed, once the answer before it was read.
    """
    departed, first = begun(ask())

    def each() -> Iterator[Generator[_Event, None, None]]:
        yield first
        for _ in range(1, number):
            another(sampling)
            yield begun(ask())[1]

    return departed, each()


class Whole(NamedTuple):
    """An answer: its text, its tool calls, the thoughts before it, and how it ended."""

    text: str
    calls: list[chats.ToolCall]
    reasoning: str
    answered: chats.Answered


def whole(
    events: Generator[chats.ChatResponse, None, None]
    | Generator[chats.CompleteResponse, None, None],
) -> Whole:
    """Collect an answer."""
    text, reasoning = Pieces(), Pieces()
    calls: list[chats.ToolCall] = []
    answered = chats.Answered()
    for each in events:
        match each.WhichOneof("event"):
            case "delta_text":
                text.add(each.delta_text)
            case "delta_reasoning" if isinstance(each, chats.ChatResponse):
                reasoning.add(each.delta_reasoning)
            case "tool_call" if isinstance(each, chats.ChatResponse):
                calls.append(each.tool_call)
            case "answered":
                answered = each.answered
    return Whole(text.text(), calls, reasoning.text(), answered)


def collected(
    wanted: Iterator[Generator[_Event, None, None]], choice: Callable[[int, Whole], dict[str, Any]]
) -> tuple[list[dict[str, Any]], list[chats.Answered]]:
    """Collect answers of bounded size in all; return `choice` of each, and how each ended."""
    found, ended, size = [], [], 0
    for index, events in enumerate(wanted):
        answer = whole(events)
        size += len(answer.text) + len(answer.reasoning)
        check_size(size)
        found.append(choice(index, answer))
        ended.append(answer.answered)
    return found, ended


def dropped(fields: Fields) -> list[tuple[str, str]]:
    """Return a header with the names of the fields that were dropped; none without any."""
    names = [_NO_NAME.sub("?", name) for name in fields.dropped]
    return [(f"{PREFIX}dropped", ", ".join(names))] if names else []


def released(departed: chats.Departed) -> list[tuple[str, str]]:
    """Return headers about the release: numbers and names of settings, no text."""
    told = {
        "level": departed.level,
        "mechanism": departed.mechanism,
        "policy": departed.policy,
        "eta": f"{departed.eta:g}",
        "charged": f"{departed.charged:g}",
        "turns": str(len(departed.turns)),
        "turns-charged": str(departed.turns_charged),
    }
    return [(PREFIX + name, value) for name, value in told.items()]


def restored(*answered: chats.Answered) -> list[tuple[str, str]]:
    """Return headers with the counts of restored words in all choices."""
    counts = {
        "restored": sum(word.times for each in answered for word in each.restored),
        "doubtful": sum(word.times for each in answered for word in each.doubtful),
        "addresses-kept": sum(each.addresses_kept for each in answered),
    }
    return [(PREFIX + name, str(count)) for name, count in counts.items()]


def usage(*answered: chats.Answered) -> dict[str, Any]:
    """Return the usage field of all choices: tokens as the model counts them."""
    prompt = answered[0].prompt_tokens  # as OpenAI counts a request's
    completion = sum(each.completion_tokens for each in answered)
    counts = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    return {"usage": counts}


def identity(prefix: str) -> str:
    """Return a new id for an answer."""
    return f"{prefix}-{secrets.token_hex(12)}"


def now() -> int:
    """Return the seconds since 1970."""
    return int(time.time())


def event(data: Any, name: str = "") -> bytes:
    """Encode a server-sent event."""
    line = b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\n\n"
    return f"event: {name}\n".encode() + line if name else line
