"""``POST /v1/chat/completions``."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing
from typing import Any, Final

from sottovoce.core.http.messages import Request, Response
from sottovoce.edge.http.fields import Fields, parsed
from sottovoce.edge.http.openai import answers, requests
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_chat_pb2 as chats

__all__ = ["answer"]

_NULL: Final = (
    "audio",
    "function_call",
    "functions",
    "modalities",
    "prediction",
    "reasoning_effort",
    "top_logprobs",
    "verbosity",
    "web_search_options",
)


def answer(device: Parts, request: Request) -> Response:
    """Answer with the conversation's next turn, whole or streamed."""
    fields = parsed(request.body)
    asked = _asked(device, request, fields)
    stream = fields.flag("stream")
    counted = requests.counted(fields)
    name = asked.model or requests.DEFAULT_MODEL
    fields.end(_NULL)
    departed, events = answers.begun(device.conversations.chat(asked, request.stoppable))
    headers = answers.released(departed)
    base = {"id": answers.identity("chatcmpl"), "created": answers.now(), "model": name}
    if stream:
        return Response(_streamed(base, events, counted=counted), headers)
    text, calls, answered = answers.whole(events)
    message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
    if calls:
        message["tool_calls"] = [*map(_called, calls)]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": answers.FINISHES[answered.finish_reason],
    }
    found = base | {"object": "chat.completion", "choices": [choice]} | answers.usage(answered)
    return Response(json.dumps(found).encode(), [*headers, *answers.restored(answered)])


def _asked(device: Parts, request: Request, fields: Fields) -> chats.ChatRequest:
    most = "max_completion_tokens" if fields.has("max_completion_tokens") else "max_tokens"
    asked = chats.ChatRequest(
        model=requests.model(device, fields),
        turns=requests.turns(fields),
        privacy=requests.privacy(request.headers),
        conversation=requests.conversation(request.headers),
        sampling=requests.sampling(fields, most=most),
        stops=requests.stops(fields),
    )
    requests.add_tools(asked, fields, nested=True)
    fields.kept_here(*requests.KEPT_HERE)
    fields.only("n", 1)
    fields.only("logprobs", False)
    fields.only("logit_bias", {})
    fields.only("store", False)
    fields.only("service_tier", "auto", "default")
    fields.only("response_format", {"type": "text"})
    for penalty in ("frequency_penalty", "presence_penalty"):
        fields.only(penalty, 0, 0.0)
    return asked


def _called(call: chats.ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _streamed(
    base: dict[str, Any], events: Generator[chats.ChatResponse, None, None], *, counted: bool
) -> Generator[bytes, None, None]:
    base = base | {"object": "chat.completion.chunk"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return answers.event(base | {"choices": [choice]})

    called = 0
    with closing(events):
        opening = chunk({"role": "assistant", "content": ""})
        for event in events:
            if event.WhichOneof("event") == "delta_text":
                yield opening + chunk({"content": event.delta_text})
            elif event.WhichOneof("event") == "tool_call":
                call = {"index": called, **_called(event.tool_call)}
                yield opening + chunk({"tool_calls": [call]})
                called += 1
            else:
                yield opening + chunk({}, answers.FINISHES[event.answered.finish_reason])
                if counted:
                    yield answers.event(base | {"choices": []} | answers.usage(event.answered))
            opening = b""
    yield b"data: [DONE]\n\n"
