"""Helpers that all OpenAI request formats for the language model share."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Generator, Mapping
from typing import Any, Final, TypeVar

from sottovoce.core.errors import NotFound
from sottovoce.core.rpc.limits import HIGHEST_TEMPERATURE, MOST_NEW_TOKENS, MOST_STOPS
from sottovoce.core.rpc.streams import Pieces
from sottovoce.edge.daemon.doorway.fields import Fields, refuse
from sottovoce.edge.tasks.agent import Agent
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation

__all__ = [
    "DEFAULT_MODEL",
    "FINISHES",
    "KEPT_HERE",
    "Event",
    "begun",
    "conversation",
    "counted",
    "event",
    "identity",
    "model",
    "now",
    "privacy",
    "released",
    "restored",
    "sampling",
    "stops",
    "usage",
    "whole",
]

DEFAULT_MODEL: Final = "default"
"""The name for the configured model, or for the cloud's base model."""

KEPT_HERE: Final = (
    "metadata",
    "prompt_cache_key",
    "prompt_cache_retention",
    "safety_identifier",
    "user",
)
"""Fields about the client's users, which are not passed on."""

FINISHES: Final = {
    generation.FINISH_REASON_STOP: "stop",
    generation.FINISH_REASON_LENGTH: "length",
    generation.FINISH_REASON_CONTENT_FILTER: "content_filter",
    generation.FINISH_REASON_TOOL_CALLS: "tool_calls",
}

Event = chats.ChatResponse | chats.CompleteResponse
_Event = TypeVar("_Event", chats.ChatResponse, chats.CompleteResponse)
_PREFIX: Final = "x-sottovoce-"
_SEEDS: Final = 1 << 63


def model(device: Agent, fields: Fields) -> str:
    """Return the requested model as the agent names it; empty for the default.

    A name is text as well. It leaves the device only if the owner or the answering server defined
    it.

    Raises:
        NotFound: no model has that name.
    """
    name = fields.text("model", DEFAULT_MODEL)
    if name == DEFAULT_MODEL:
        return ""
    if not device.writer.has(name):
        raise NotFound("no such model", fix="GET /v1/models lists those there are", subject="model")
    return name


def privacy(headers: Mapping[str, str]) -> agent.PrivacyOptions:
    """Return the privacy options from headers; empty ones mean as configured."""
    names = ("level", "mechanism", "policy")
    return agent.PrivacyOptions(**{name: headers.get(_PREFIX + name, "") for name in names})


def conversation(headers: Mapping[str, str]) -> str:
    """Return the client's name for its conversation, or an empty string."""
    return headers.get(f"{_PREFIX}conversation", "")


def sampling(fields: Fields, *, most: str = "max_tokens") -> chats.Sampling:
    """Return the sampling settings of a request.

    Args:
        fields: the request's fields.
        most: the name of the field for the most tokens, which differs by format.
    """
    seed = fields.whole("seed", None, -_SEEDS, _SEEDS)
    return chats.Sampling(
        max_tokens=fields.whole(most, 0, 1, MOST_NEW_TOKENS),
        temperature=fields.number("temperature", None, 0, HIGHEST_TEMPERATURE),
        top_p=fields.number("top_p", 0, 0, 1),
        seed=None if seed is None else seed % _SEEDS,  # other servers take at most 63 bits
    )


def stops(fields: Fields) -> list[str]:
    """Return the strings that end an answer; the list may be empty."""
    found = fields.take("stop")
    listed = [] if found is None else found if isinstance(found, list) else [found]
    if len(listed) > MOST_STOPS or not all(isinstance(stop, str) for stop in listed):
        refuse(fields.where("stop"), "is neither a string nor a list of a few")
    return listed


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


def whole(
    events: Generator[chats.ChatResponse, None, None]
    | Generator[chats.CompleteResponse, None, None],
) -> tuple[str, list[chats.ToolCall], chats.Answered]:
    """Collect an answer: its text, its tool calls, and how it ended."""
    text = Pieces()
    calls: list[chats.ToolCall] = []
    answered = chats.Answered()
    for each in events:
        match each.WhichOneof("event"):
            case "delta_text":
                text.add(each.delta_text)
            case "tool_call" if isinstance(each, chats.ChatResponse):
                calls.append(each.tool_call)
            case "answered":
                answered = each.answered
    return text.text(), calls, answered


def counted(fields: Fields) -> bool:
    """Return whether a stream should end with the number of tokens used."""
    options = fields.nested("stream_options")
    if options is None:
        return False
    found = options.flag("include_usage")
    options.flag("include_obfuscation")
    options.end()
    return bool(found)


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
    return [(_PREFIX + name, value) for name, value in told.items()]


def restored(answered: chats.Answered) -> list[tuple[str, str]]:
    """Return headers with the counts of restored words."""
    counts = {
        "restored": sum(word.times for word in answered.restored),
        "doubtful": sum(word.times for word in answered.doubtful),
        "addresses-kept": answered.addresses_kept,
    }
    return [(_PREFIX + name, str(count)) for name, count in counts.items()]


def usage(answered: chats.Answered) -> dict[str, Any]:
    """Return the usage field of an answer: tokens as the model counts them."""
    counts = {
        "prompt_tokens": answered.prompt_tokens,
        "completion_tokens": answered.completion_tokens,
        "total_tokens": answered.prompt_tokens + answered.completion_tokens,
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
