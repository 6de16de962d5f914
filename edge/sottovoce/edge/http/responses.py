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
from sottovoce.edge.http import answers, requests
from sottovoce.edge.http.requests import Fields, refuse
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_chat_pb2 as chats
from sottovoce.v1 import generation_pb2 as generation

_UNSUPPORTED: Final = (
    "conversation",
    "previous_response_id",
    "prompt",
)
_INCLUDED: Final = ("message.output_text.logprobs", "reasoning.encrypted_content")
_MOST_INCLUDED: Final = 16
_MOST_CALLS: Final = 1 << 31
_SUMMARIES: Final = ("auto", "concise", "detailed")
_PARTS: Final = ("input_text", "output_text", "text")
_MESSAGE: Final = "msg"
_THOUGHT: Final = "rs"
_Item = dict[str, Any]


def answer(device: Parts, request: Request) -> Response:
    """Answer with the conversation's next turn, whole or streamed."""
    fields = requests.read(device, request)
    asked = _asked(device, request, fields)
    stream = fields.flag("stream")
    fields.end(_UNSUPPORTED)
    departed, events = answers.begun(device.conversations.chat(asked, request.stoppable))
    headers = [*answers.released(departed), *answers.dropped(fields)]
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
    whole = answers.whole(events)
    items = [_thought(whole.reasoning, answers.identity("rs"))] if whole.reasoning else []
    if whole.text or not whole.calls:
        items.append(_message(whole.text, answers.identity("msg")))
    items += [_called(each, answers.identity("fc")) for each in whole.calls]
    body = _ended(base, items, whole.answered)
    return Response(json.dumps(body).encode(), [*headers, *answers.restored(whole.answered)])


def _asked(device: Parts, request: Request, fields: Fields) -> chats.ChatRequest:
    asked = chats.ChatRequest(
        model=requests.model(device, fields),
        turns=_turns(fields),
        privacy=requests.privacy(request.headers),
        conversation=requests.conversation(request.headers),
        sampling=requests.sampling(fields, most="max_output_tokens"),
    )
    requests.add_tools(asked, fields, nested=False)
    requests.never_passed(fields)
    requests.log_probabilities(fields)
    fields.only("background", False)
    fields.drop("max_tool_calls", fields.whole("max_tool_calls", None, 0, _MOST_CALLS))
    _add_form(asked, fields)
    options = fields.nested("stream_options")
    if options is not None:
        options.flag("include_obfuscation")
        options.end()
    return asked


def _add_form(asked: chats.ChatRequest, fields: Fields) -> None:
    """Add the model's settings for reasoning, and the form of its answer."""
    included = fields.items("include", _MOST_INCLUDED)
    if not all(each in _INCLUDED for each in included):
        refuse(fields.where("include"), "is not supported", f"use {' or '.join(_INCLUDED)}")
    fields.drop("include", included or None)
    reasoning = fields.nested("reasoning")
    if reasoning is not None:
        requests.add_reasoning(asked.sampling, reasoning, "effort")
        for name in ("summary", "generate_summary"):
            reasoning.drop(name, reasoning.choice(name, _SUMMARIES))
        reasoning.end()
    text = fields.nested("text")
    if text is not None:
        requests.add_verbosity(asked.sampling, text)
        requests.add_schema(asked, text.nested("format"), nested=False)
        text.end()


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
        item = fields.inner(each, f"input[{number}]")
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
            case "reasoning":  # of an earlier answer
                item.kept_here("content", "encrypted_content", "summary")
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


def _message(text: str, identity: str) -> _Item:
    return _begun(identity) | {"status": "completed", "content": [_part(text)]}


def _begun(identity: str) -> _Item:
    return {
        "id": identity,
        "type": "message",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
    }


def _thought(text: str, identity: str) -> _Item:
    content = [{"type": "reasoning_text", "text": text}] if text else []
    return {"id": identity, "type": "reasoning", "summary": [], "content": content}


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
    open_items: dict[str, tuple[_Item, Pieces]] = {}
    """By kind: the place of the item that is not ended, and its text."""

    def opened(kind: str) -> Generator[bytes, None, tuple[_Item, Pieces]]:
        """Begin an item of a kind, unless one is open; return its place and text.

        A thought in the middle of a message does not end it. A client sends items back, and only
        the whole message is known as an answer.
        """
        if kind == _MESSAGE:
            yield from closed(_THOUGHT)
        if kind not in open_items:
            thinks, identity, at = kind == _THOUGHT, answers.identity(kind), len(items)
            items.append(_thought("", identity) if thinks else _begun(identity))
            place = {"item_id": identity, "output_index": at, "content_index": 0}
            open_items[kind] = place, Pieces()
            yield told("response.output_item.added", output_index=at, item=items[at])
            if not thinks:
                yield told("response.content_part.added", **place, part=_part(""))
        return open_items[kind]

    def closed(*kinds: str) -> Generator[bytes, None, None]:
        """End the items of these kinds that are open."""
        for kind in kinds:
            if kind not in open_items:
                continue
            place, said = open_items.pop(kind)
            identity, at, text = place["item_id"], place["output_index"], said.text()
            if kind == _THOUGHT:
                items[at] = _thought(text, identity)
                yield told("response.reasoning_text.done", **place, text=text)
            else:
                items[at] = _message(text, identity)
                yield told("response.output_text.done", **place, text=text, logprobs=[])
                yield told("response.content_part.done", **place, part=_part(text))
            yield told("response.output_item.done", output_index=at, item=items[at])

    with closing(events):
        for event in events:
            match event.WhichOneof("event"):
                case "delta_reasoning":
                    place, said = yield from opened(_THOUGHT)
                    said.add(event.delta_reasoning)
                    delta = event.delta_reasoning
                    yield told("response.reasoning_text.delta", **place, delta=delta)
                case "delta_text":
                    place, said = yield from opened(_MESSAGE)
                    said.add(event.delta_text)
                    delta = event.delta_text
                    yield told("response.output_text.delta", **place, delta=delta, logprobs=[])
                case "tool_call":
                    yield from closed(_THOUGHT, _MESSAGE)
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
                    yield from closed(_THOUGHT, _MESSAGE)
                    response = _ended(base, items, event.answered)
                    yield told(f"response.{response['status']}", response=response)
