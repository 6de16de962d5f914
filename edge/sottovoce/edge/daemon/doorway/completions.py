"""``POST /v1/completions``: continue a text."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing
from typing import Any

from sottovoce.edge.daemon.doorway import asking
from sottovoce.edge.daemon.doorway.exchange import Call, Reply
from sottovoce.edge.daemon.doorway.fields import Fields, parsed, refuse
from sottovoce.v1 import edge_chat_pb2 as chats

__all__ = ["answer"]


def answer(call: Call) -> Reply:
    """Answer with the text's continuation, whole or streamed."""
    fields = parsed(call.body)
    asked = chats.CompleteRequest(
        model=asking.model(call.device, fields),
        text=_prompt(fields),
        privacy=asking.privacy(call.headers),
        conversation=asking.conversation(call.headers),
        sampling=asking.sampling(fields),
        stops=asking.stops(fields),
    )
    fields.kept_here(*asking.KEPT_HERE)
    for only_one in ("n", "best_of"):
        fields.only(only_one, 1)
    for penalty in ("frequency_penalty", "presence_penalty"):
        fields.only(penalty, 0, 0.0)
    fields.only("echo", False)
    fields.only("logit_bias", {})
    stream = fields.flag("stream")
    counted = asking.counted(fields)
    fields.end(("logprobs", "suffix"))
    departed, events = asking.begun(call.device.complete(asked, call.stoppable))
    headers = asking.released(departed)
    name = asked.model or asking.DEFAULT_MODEL
    base = {"id": asking.identity("cmpl"), "created": asking.now(), "model": name}
    base |= {"object": "text_completion"}
    if stream:
        return Reply(_streamed(base, events, counted=counted), headers)
    text, _, answered = asking.whole(events)
    choice = _choice(text, asking.FINISHES[answered.finish_reason])
    found = base | {"choices": [choice]} | asking.usage(answered)
    return Reply(json.dumps(found).encode(), [*headers, *asking.restored(answered)])


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
                yield asking.event(base | {"choices": [_choice(event.delta_text)]})
            else:
                finish = asking.FINISHES[event.answered.finish_reason]
                yield asking.event(base | {"choices": [_choice("", finish)]})
                if counted:
                    yield asking.event(base | {"choices": []} | asking.usage(event.answered))
    yield b"data: [DONE]\n\n"
