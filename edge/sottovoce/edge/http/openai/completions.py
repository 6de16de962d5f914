"""``POST /v1/completions``: continue a text."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing
from typing import Any

from sottovoce.core.http.messages import Request, Response
from sottovoce.edge.http.fields import Fields, parsed, refuse
from sottovoce.edge.http.openai import answers, requests
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_chat_pb2 as chats

__all__ = ["answer"]


def answer(device: Parts, request: Request) -> Response:
    """Answer with the text's continuation, whole or streamed."""
    fields = parsed(request.body)
    asked = chats.CompleteRequest(
        model=requests.model(device, fields),
        text=_prompt(fields),
        privacy=requests.privacy(request.headers),
        conversation=requests.conversation(request.headers),
        sampling=requests.sampling(fields),
        stops=requests.stops(fields),
    )
    fields.kept_here(*requests.KEPT_HERE)
    for only_one in ("n", "best_of"):
        fields.only(only_one, 1)
    for penalty in ("frequency_penalty", "presence_penalty"):
        fields.only(penalty, 0, 0.0)
    fields.only("echo", False)
    fields.only("logit_bias", {})
    stream = fields.flag("stream")
    counted = requests.counted(fields)
    fields.end(("logprobs", "suffix"))
    departed, events = answers.begun(device.conversations.complete(asked, request.stoppable))
    headers = answers.released(departed)
    name = asked.model or requests.DEFAULT_MODEL
    base = {"id": answers.identity("cmpl"), "created": answers.now(), "model": name}
    base |= {"object": "text_completion"}
    if stream:
        return Response(_streamed(base, events, counted=counted), headers)
    text, _, answered = answers.whole(events)
    choice = _choice(text, answers.FINISHES[answered.finish_reason])
    found = base | {"choices": [choice]} | answers.usage(answered)
    return Response(json.dumps(found).encode(), [*headers, *answers.restored(answered)])


def _prompt(fields: Fields) -> str:
    """Return the prompt: a string, or the only string in a list."""
    found = fields.take("prompt")
    if isinstance(found, list) and len(found) == 1:
        (found,) = found
    if not isinstance(found, str):
        refuse(fields.where("prompt"), "is no string", "send one text a request")
    return found


def _choice(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}


def _streamed(
    base: dict[str, Any], events: Generator[chats.CompleteResponse, None, None], *, counted: bool
) -> Generator[bytes, None, None]:
    with closing(events):
        for event in events:
            if event.WhichOneof("event") == "delta_text":
                yield answers.event(base | {"choices": [_choice(event.delta_text)]})
            else:
                finish = answers.FINISHES[event.answered.finish_reason]
                yield answers.event(base | {"choices": [_choice("", finish)]})
                if counted:
                    yield answers.event(base | {"choices": []} | answers.usage(event.answered))
    yield b"data: [DONE]\n\n"
