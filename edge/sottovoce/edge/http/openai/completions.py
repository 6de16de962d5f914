"""``POST /v1/completions``: continue a text."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any, Final

from sottovoce.core.http.messages import Request, Response
from sottovoce.edge.client.generation import check_size
from sottovoce.edge.http.fields import Fields, refuse
from sottovoce.edge.http.openai import answers, requests
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_chat_pb2 as chats

__all__ = ["answer"]

_MOST_LOGPROBS: Final = 5

_Events = Generator[chats.CompleteResponse, None, None]


def answer(device: Parts, request: Request) -> Response:
    """Answer with the text's continuation, whole or streamed."""
    fields = requests.read(device, request)
    asked = chats.CompleteRequest(
        model=requests.model(device, fields),
        text=_prompt(fields),
        privacy=requests.privacy(request.headers),
        conversation=requests.conversation(request.headers),
        sampling=requests.sampling(fields),
        stops=requests.stops(fields),
    )
    requests.never_passed(fields)
    number = requests.choices(fields)
    fields.only("best_of", 1, number)
    fields.only("echo", False)
    fields.only("logit_bias", {})
    fields.drop("logprobs", fields.whole("logprobs", None, 0, _MOST_LOGPROBS))
    stream = fields.flag("stream")
    counted = requests.counted(fields)
    fields.end(("suffix",))

    def begun() -> tuple[chats.Departed, _Events]:
        return answers.begun(device.conversations.complete(asked, request.stoppable))

    departed, first = begun()

    def choices() -> Iterator[_Events]:
        yield first
        for _ in range(1, number):
            requests.another(asked.sampling)
            yield begun()[1]

    headers = [*answers.released(departed), *answers.dropped(fields)]
    name = asked.model or requests.DEFAULT_MODEL
    base = {"id": answers.identity("cmpl"), "created": answers.now(), "model": name}
    base |= {"object": "text_completion"}
    if stream:
        return Response(_streamed(base, choices(), counted=counted), headers)
    found, ended, size = [], [], 0
    for index, events in enumerate(choices()):
        whole = answers.whole(events)
        size += len(whole.text)
        check_size(size)
        finish = answers.FINISHES[whole.answered.finish_reason]
        found.append(_choice(index, whole.text, finish))
        ended.append(whole.answered)
    body = base | {"choices": found} | answers.usage(*ended)
    return Response(json.dumps(body).encode(), [*headers, *answers.restored(*ended)])


def _prompt(fields: Fields) -> str:
    """Return the prompt: a string, or the only string in a list."""
    found = fields.take("prompt")
    if isinstance(found, list) and len(found) == 1:
        (found,) = found
    if not isinstance(found, str):
        refuse(fields.where("prompt"), "is no string", "send one text a request")
    return found


def _choice(index: int, text: str, finish: str | None = None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}


def _streamed(
    base: dict[str, Any], choices: Iterator[_Events], *, counted: bool
) -> Generator[bytes, None, None]:
    """Yield the choices one after another."""
    ended = []
    for index, events in enumerate(choices):
        with closing(events):
            for event in events:
                if event.WhichOneof("event") == "delta_text":
                    yield answers.event(base | {"choices": [_choice(index, event.delta_text)]})
                else:
                    finish = answers.FINISHES[event.answered.finish_reason]
                    yield answers.event(base | {"choices": [_choice(index, "", finish)]})
                    ended.append(event.answered)
    if counted:
        yield answers.event(base | {"choices": []} | answers.usage(*ended))
    yield b"data: [DONE]\n\n"
