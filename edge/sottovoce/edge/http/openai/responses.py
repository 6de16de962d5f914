"""``POST /v1/responses``: OpenAI's newer format; nothing is stored."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing
from itertools import count
from typing import Any, Final

from sottovoce.core.http.messages import Request, Response
from sottovoce.core.rpc.limits import MOST_TURNS
from sottovoce.core.rpc.streams import Pieces
from sottovoce.edge.http.fields import Fields, parsed, refuse
from sottovoce.edge.http.openai import answers, requests
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation

__all__ = ["answer"]

_NULL: Final = (
    "conversation",
    "max_tool_calls",
    "previous_response_id",
    "prompt",
    "reasoning",
    "top_logprobs",
)
_PARTS: Final = ("input_text", "output_text", "text")
_Item = dict[str, Any]


def answer(device: Parts, request: Request) -> Response:
    """Answer with the conversation's next turn, whole or streamed."""
    fields = parsed(request.body)
    asked = _asked(device, request, fields)
    stream = fields.flag("stream")
    fields.end(_NULL)
    departed, events = answers.begun(device.conversations.chat(asked, request.stoppable))
    headers = answers.released(departed)
    base = {
        "id": answers.identity("resp"),
        "object": "response",
        "created_at": answers.now(),
        "model": asked.model or requests.DEFAULT_MODEL,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "store": False,
    }
    if stream:
        return Response(_streamed(base, events), headers)
    text, calls, answered = answers.whole(events)
    items = [_message(text, answers.identity("msg"))] if text or not calls else []
    items += [_called(each, answers.identity("fc")) for each in calls]
    body = _ended(base, items, answered)
    return Response(json.dumps(body).encode(), [*headers, *answers.restored(answered)])


def _asked(device: Parts, request: Request, fields: Fields) -> chats.ChatRequest:
    asked = chats.ChatRequest(
        model=requests.model(device, fields),
        turns=_turns(fields),
        privacy=requests.privacy(request.headers),
        conversation=requests.conversation(request.headers),
        sampling=requests.sampling(fields, most="max_output_tokens"),
    )
    requests.add_tools(asked, fields, nested=False)
    fields.kept_here(*requests.KEPT_HERE)
    fields.only("background", False)
    fields.only("include", [])
    fields.only("service_tier", "auto", "default")
    fields.only("store", False)
    fields.only("text", {"format": {"type": "text"}})
    fields.only("truncation", "disabled")
    options = fields.nested("stream_options")
    if options is not None:
        options.flag("include_obfuscation")
        options.end()
    return asked


def _turns(fields: Fields) -> list[chats.ChatTurn]:
    turns = []
    if instructions := fields.text("instructions", ""):
        turns.append(chats.ChatTurn(role=generation.ROLE_SYSTEM, text=instructions))
    found = fields.take("input")
    if isinstance(found, str):
        return [*turns, chats.ChatTurn(role=generation.ROLE_USER, text=found)]
    if not isinstance(found, list) or not 1 <= len(found) < MOST_TURNS:
        refuse(fields.where("input"), f"is neither a string nor a list of less than {MOST_TURNS}")
    for number, each in enumerate(found):
        item = Fields(each, f"input[{number}]")
        item.kept_here("id", "status")
        match item.text("type", "message"):
            case "message":
                turns.append(_said(item))
            case "function_call":
                made = chats.ToolCall(
                    id=item.text("call_id"),
                    name=item.text("name"),
                    arguments=item.text("arguments"),
                )
                if not turns or turns[-1].role != generation.ROLE_ASSISTANT:
                    turns.append(chats.ChatTurn(role=generation.ROLE_ASSISTANT))
                turns[-1].tool_calls.append(made)
            case "function_call_output":
                turns.append(
                    chats.ChatTurn(
                        role=generation.ROLE_TOOL,
                        tool_call_id=item.text("call_id"),
                        text=requests.content(item, "output", _PARTS),
                    )
                )
            case _:
                refuse(item.where("type"), "is not supported", "send messages and calls alone")
        item.end()
    return turns


def _said(item: Fields) -> chats.ChatTurn:
    role = item.text("role")
    if role not in requests.ROLES or role == "tool":
        refuse(item.where("role"), "is no role", "use system, developer, user or assistant")
    return chats.ChatTurn(role=requests.ROLES[role], text=requests.content(item, "content", _PARTS))


def _part(text: str) -> _Item:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message(text: str, identity: str, *, status: str = "completed") -> _Item:
    parts = [_part(text)] if status == "completed" else []
    return {
        "id": identity,
        "type": "message",
        "role": "assistant",
        "status": status,
        "content": parts,
    }


def _called(call: chats.ToolCall, identity: str, *, begun: bool = False) -> _Item:
    return {
        "id": identity,
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": "" if begun else call.arguments,
        "status": "in_progress" if begun else "completed",
    }


def _ended(base: _Item, items: list[_Item], answered: chats.Answered) -> _Item:
    finish = answers.FINISHES[answered.finish_reason]
    reason = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(finish)
    usage = {
        "input_tokens": answered.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": answered.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": answered.prompt_tokens + answered.completion_tokens,
    }
    return base | {
        "status": "incomplete" if reason else "completed",
        "incomplete_details": {"reason": reason} if reason else None,
        "output": items,
        "usage": usage,
    }


def _streamed(
    base: _Item, events: Generator[chats.ChatResponse, None, None]
) -> Generator[bytes, None, None]:
    numbers = count()
    items: list[_Item] = []

    def told(kind: str, **fields: Any) -> bytes:
        return answers.event({"type": kind, "sequence_number": next(numbers), **fields}, kind)

    begun = base | {"status": "in_progress", "output": [], "usage": None}
    yield told("response.created", response=begun)
    yield told("response.in_progress", response=begun)
    message = answers.identity("msg")
    said = Pieces()
    place = {"item_id": message, "output_index": 0, "content_index": 0}

    def closed() -> Generator[bytes, None, None]:
        """Yield the events that close the message, before another item or the end."""
        if said and not items:
            text = said.text()
            items.append(_message(text, message))
            yield told("response.output_text.done", **place, text=text, logprobs=[])
            yield told("response.content_part.done", **place, part=_part(text))
            yield told("response.output_item.done", output_index=0, item=items[0])

    with closing(events):
        for event in events:
            match event.WhichOneof("event"):
                case "delta_text":
                    if not said:
                        item = _message("", message, status="in_progress")
                        yield told("response.output_item.added", output_index=0, item=item)
                        yield told("response.content_part.added", **place, part=_part(""))
                    said.add(event.delta_text)
                    delta = {"delta": event.delta_text, "logprobs": []}
                    yield told("response.output_text.delta", **place, **delta)
                case "tool_call":
                    yield from closed()
                    call, identity, at = event.tool_call, answers.identity("fc"), len(items)
                    item = _called(call, identity, begun=True)
                    where = {"item_id": identity, "output_index": at}
                    yield told("response.output_item.added", output_index=at, item=item)
                    kind = "response.function_call_arguments"
                    yield told(f"{kind}.delta", **where, delta=call.arguments)
                    yield told(f"{kind}.done", **where, name=call.name, arguments=call.arguments)
                    items.append(_called(call, identity))
                    yield told("response.output_item.done", output_index=at, item=items[at])
                case "answered":
                    yield from closed()
                    response = _ended(base, items, event.answered)
                    yield told(f"response.{response['status']}", response=response)
