"""Chat messages as turns: each text with its role.

This module decides which parts of a message are text. Parts that this device cannot privatise
(images, audio, files) are refused.
"""

from __future__ import annotations

from typing import Any, Final

from sottovoce.core.rpc.limits import MOST_TURNS
from sottovoce.edge.daemon.doorway.fields import Fields, refuse
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation

__all__ = ["MOST_CALLS", "MOST_PARTS", "ROLES", "content", "turns"]

MOST_PARTS: Final = 1_024
MOST_CALLS: Final = 128
ROLES: Final = {
    "system": generation.ROLE_SYSTEM,
    "developer": generation.ROLE_SYSTEM,
    "user": generation.ROLE_USER,
    "assistant": generation.ROLE_ASSISTANT,
    "tool": generation.ROLE_TOOL,
}
_NULL: Final = ("audio", "function_call", "refusal")
"""Null fields that clients copy from an earlier answer."""


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
    fields.end(_NULL)
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
