"""``POST /v1/chat/completions``, and the older ``POST /v1/completions``."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import closing
from functools import partial
from typing import Any, Final

from sottovoce.core.http.messages import Request, Response
from sottovoce.edge.http import answers, requests
from sottovoce.edge.http.requests import Fields, refuse
from sottovoce.edge.tasks.parts import Parts
from sottovoce.v1 import edge_chat_pb2 as chats

_UNSUPPORTED: Final = ("audio", "prediction", "web_search_options")

_Events = Generator[chats.ChatResponse, None, None]


def answer(device: Parts, request: Request) -> Response:
    """Answer with the conversation's next turn, whole or streamed."""
    fields = requests.read(device, request)
    asked, older = _asked(device, request, fields)
    number = requests.choices(fields)
    stream = fields.flag("stream")
    counted = requests.counted(fields)
    name = asked.model or requests.DEFAULT_MODEL
    fields.end(_UNSUPPORTED)

    def ask() -> _Events:
        return device.conversations.chat(asked, request.stoppable)

    departed, choices = answers.choices(ask, asked.sampling, number)
    headers = [*answers.released(departed), *answers.dropped(fields)]
    base = {"id": answers.identity("chatcmpl"), "created": answers.now(), "model": name}
    if stream:
        return Response(_streamed(base, choices, counted=counted, older=older), headers)
    found, ended = answers.collected(choices, partial(_choice, older=older))
    body = base | {"object": "chat.completion", "choices": found} | answers.usage(*ended)
    return Response(json.dumps(body).encode(), [*headers, *answers.restored(*ended)])


def _asked(device: Parts, request: Request, fields: Fields) -> tuple[chats.ChatRequest, bool]:
    """Return the request, and whether it describes functions in the older form."""
    most = "max_completion_tokens" if fields.has("max_completion_tokens") else "max_tokens"
    asked = chats.ChatRequest(
        model=requests.model(device, fields),
        turns=requests.turns(fields),
        privacy=requests.privacy(request.headers),
        conversation=requests.conversation(request.headers),
        sampling=requests.sampling(fields, most=most),
        stops=requests.stops(fields),
    )
    fields.kept_here("max_tokens")  # beside the newer name, which then counts
    requests.add_tools(asked, fields, nested=True)
    older = requests.add_functions(asked, fields)
    requests.add_reasoning(asked.sampling, fields, "reasoning_effort")
    requests.add_verbosity(asked.sampling, fields)
    requests.add_schema(asked, fields.nested("response_format"), nested=True)
    requests.never_passed(fields)
    requests.log_probabilities(fields)
    fields.only("logit_bias", {})
    fields.only("modalities", ["text"])
    return asked, older


def _choice(index: int, whole: answers.Whole, *, older: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": whole.text or None, "refusal": None}
    if whole.reasoning:
        message["reasoning_content"] = whole.reasoning
    if whole.calls and older:
        message["function_call"] = _function(whole.calls[0])
    elif whole.calls:
        message["tool_calls"] = [*map(_called, whole.calls)]
    finish = _finish(whole.answered, older=older)
    return {"index": index, "message": message, "logprobs": None, "finish_reason": finish}


def _finish(answered: chats.Answered, *, older: bool) -> str:
    found = answers.FINISHES[answered.finish_reason]
    return "function_call" if older and found == "tool_calls" else found


def _function(call: chats.ToolCall) -> dict[str, str]:
    return {"name": call.name, "arguments": call.arguments}


def _called(call: chats.ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": _function(call)}


def _streamed(
    base: dict[str, Any], choices: Iterator[_Events], *, counted: bool, older: bool
) -> Generator[bytes, None, None]:
    """Yield the choices one after another."""
    base = base | {"object": "chat.completion.chunk"}
    ended = []
    for index, events in enumerate(choices):

        def chunk(delta: dict[str, Any], finish: str | None = None, at: int = index) -> bytes:
            choice = {"index": at, "delta": delta, "logprobs": None, "finish_reason": finish}
            return answers.event(base | {"choices": [choice]})

        called = 0
        with closing(events):
            opening = chunk({"role": "assistant", "content": ""})
            for event in events:
                match event.WhichOneof("event"):
                    case "delta_text":
                        yield opening + chunk({"content": event.delta_text})
                    case "delta_reasoning":
                        yield opening + chunk({"reasoning_content": event.delta_reasoning})
                    case "tool_call" if older and called:
                        continue
                    case "tool_call":
                        call = {"index": called, **_called(event.tool_call)}
                        told = {"tool_calls": [call]}
                        yield opening + chunk(
                            {"function_call": _function(event.tool_call)} if older else told
                        )
                        called += 1
                    case "answered":
                        yield opening + chunk({}, _finish(event.answered, older=older))
                        ended.append(event.answered)
                opening = b""
    if counted:
        yield answers.event(base | {"choices": []} | answers.usage(*ended))
    yield b"data: [DONE]\n\n"


_MOST_LOGPROBS: Final = 5

_Continuations = Generator[chats.CompleteResponse, None, None]


def complete(device: Parts, request: Request) -> Response:
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

    def ask() -> _Continuations:
        return device.conversations.complete(asked, request.stoppable)

    departed, choices = answers.choices(ask, asked.sampling, number)
    headers = [*answers.released(departed), *answers.dropped(fields)]
    name = asked.model or requests.DEFAULT_MODEL
    base = {"id": answers.identity("cmpl"), "created": answers.now(), "model": name}
    base |= {"object": "text_completion"}
    if stream:
        return Response(_streamed_continuation(base, choices, counted=counted), headers)

    def choice(index: int, whole: answers.Whole) -> dict[str, Any]:
        finish = answers.FINISHES[whole.answered.finish_reason]
        return _continuation(index, whole.text, finish)

    found, ended = answers.collected(choices, choice)
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


def _continuation(index: int, text: str, finish: str | None = None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}


def _streamed_continuation(
    base: dict[str, Any], choices: Iterator[_Continuations], *, counted: bool
) -> Generator[bytes, None, None]:
    """Yield the choices one after another."""
    ended = []
    for index, events in enumerate(choices):
        with closing(events):
            for event in events:
                if event.WhichOneof("event") == "delta_text":
                    yield answers.event(
                        base | {"choices": [_continuation(index, event.delta_text)]}
                    )
                else:
                    finish = answers.FINISHES[event.answered.finish_reason]
                    yield answers.event(base | {"choices": [_continuation(index, "", finish)]})
                    ended.append(event.answered)
    if counted:
        yield answers.event(base | {"choices": []} | answers.usage(*ended))
    yield b"data: [DONE]\n\n"
