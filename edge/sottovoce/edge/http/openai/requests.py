"""Requests in OpenAI's formats, read as the agent's own: messages, tools, and sampling.

This module decides which parts of a message are text. Parts that this device cannot privatise
(images, audio, files) are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from sottovoce.core.errors import NotFound
from sottovoce.core.rpc.limits import HIGHEST_TEMPERATURE, MOST_NEW_TOKENS, MOST_STOPS, MOST_TURNS
from sottovoce.edge.http.fields import Fields, refuse
from sottovoce.edge.tasks.functions import MOST_TOOLS
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation

__all__ = [
    "DEFAULT_MODEL",
    "KEPT_HERE",
    "MOST_CALLS",
    "MOST_PARTS",
    "PREFIX",
    "ROLES",
    "add_tools",
    "content",
    "conversation",
    "counted",
    "model",
    "privacy",
    "sampling",
    "stops",
    "turns",
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

PREFIX: Final = "x-sottovoce-"
"""The start of the names of our own headers."""
MOST_PARTS: Final = 1_024
MOST_CALLS: Final = 128
ROLES: Final = {
    "system": generation.ROLE_SYSTEM,
    "developer": generation.ROLE_SYSTEM,
    "user": generation.ROLE_USER,
    "assistant": generation.ROLE_ASSISTANT,
    "tool": generation.ROLE_TOOL,
}
_NULL_IN_MESSAGES: Final = ("audio", "function_call", "refusal")
"""Null fields that clients copy from an earlier answer."""
_USES: Final = {
    "auto": generation.TOOL_USE_UNSPECIFIED,
    "none": generation.TOOL_USE_NONE,
    "required": generation.TOOL_USE_REQUIRED,
}
_SEEDS: Final = 1 << 63


def model(device: Parts, fields: Fields) -> str:
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
    return agent.PrivacyOptions(**{name: headers.get(PREFIX + name, "") for name in names})


def conversation(headers: Mapping[str, str]) -> str:
    """Return the client's name for its conversation, or an empty string."""
    return headers.get(f"{PREFIX}conversation", "")


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


def counted(fields: Fields) -> bool:
    """Return whether a stream should end with the number of tokens used."""
    options = fields.nested("stream_options")
    if options is None:
        return False
    found = options.flag("include_usage")
    options.flag("include_obfuscation")
    options.end()
    return bool(found)


def turns(fields: Fields) -> list[chats.ChatTurn]:
    """Return the turns in ``messages``."""
    found = fields.items("messages", MOST_TURNS)
    if not found:
        refuse(fields.where("messages"), "is missing or empty", "send at least one message")
    return [_turn(Fields(each, f"messages[{n}]")) for n, each in enumerate(found)]


def _turn(fields: Fields) -> chats.ChatTurn:
    role = fields.text("role")
    if role not in ROLES:
        refuse(fields.where("role"), "is no role", f"use one of {', '.join(ROLES)}")
    fields.kept_here("name")  # often the name of a person
    fields.only("annotations", [])
    turn = chats.ChatTurn(
        role=ROLES[role],
        text=content(fields, "content", ("text",)),
        tool_calls=_calls(fields),
        tool_call_id=fields.text("tool_call_id", ""),
    )
    fields.end(_NULL_IN_MESSAGES)
    return turn


def _calls(fields: Fields) -> list[chats.ToolCall]:
    calls = []
    for number, each in enumerate(fields.items("tool_calls", MOST_CALLS)):
        call = Fields(each, f"{fields.where('tool_calls')}[{number}]")
        function = call.nested("function")
        if call.text("type", "function") != "function" or function is None:
            refuse(call.where("type"), "is not supported", "send calls of functions")
        call.kept_here("index")
        identity, name = call.text("id"), function.text("name")
        calls.append(chats.ToolCall(id=identity, name=name, arguments=function.text("arguments")))
        function.end()
        call.end()
    return calls


def content(fields: Fields, name: str, kinds: tuple[str, ...]) -> str:
    """Return a message's text: a string, or parts of these kinds, joined."""
    found: Any = fields.take(name)
    if found is None or isinstance(found, str):
        return found or ""
    where = fields.where(name)
    if not isinstance(found, list) or len(found) > MOST_PARTS:
        refuse(where, f"is neither a string nor a list of at most {MOST_PARTS} parts")
    parts = []
    for number, each in enumerate(found):
        part = Fields(each, f"{where}[{number}]")
        if part.text("type") not in kinds:
            refuse(part.where("type"), "is not supported", f'send text alone, as "{kinds[0]}"')
        parts.append(part.text("text"))
        part.only("annotations", [])
        part.only("logprobs", [])
        part.end()
    return "\n".join(parts)


def add_tools(asked: chats.ChatRequest, fields: Fields, *, nested: bool) -> None:
    """Add a request's functions, and which functions may or must be called.

    Args:
        asked: the request to add to.
        fields: the received request.
        nested: whether a tool holds its function in a field.
    """
    for number, each in enumerate(fields.items("tools", MOST_TOOLS)):
        tool = Fields(each, f"tools[{number}]")
        asked.tools.append(_definition(_inner(tool, nested)))
        tool.end()
    chosen: Any = fields.take("tool_choice")
    if isinstance(chosen, dict):
        choice = Fields(chosen, "tool_choice")
        function = _inner(choice, nested)
        asked.tool = function.text("name")
        function.end()
        choice.end()
    elif chosen is not None:
        if not isinstance(chosen, str) or chosen not in _USES:
            refuse(fields.where("tool_choice"), "is unknown", f"use one of {', '.join(_USES)}")
        asked.tool_use = _USES[chosen]
    parallel = fields.flag("parallel_tool_calls", None)
    if parallel is not None:
        asked.parallel_tool_calls = parallel


def _inner(tool: Fields, nested: bool) -> Fields:
    if tool.text("type") != "function":
        refuse(tool.where("type"), "is not supported", 'use "function"')
    if not nested:
        return tool
    function = tool.nested("function")
    if function is None:
        refuse(tool.where("function"), "is missing")
    return function


def _definition(function: Fields) -> chats.ChatTool:
    name, description = function.text("name"), function.text("description", "")
    parameters: Any = function.take("parameters")
    function.flag("strict")  # the client checks the arguments; the schema leaves without bounds
    found = chats.ChatTool(
        name=name,
        description=description,
        parameters="" if parameters is None else json.dumps(parameters),
    )
    function.end()
    return found
