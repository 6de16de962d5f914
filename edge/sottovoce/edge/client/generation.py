"""Writers: text generators that answer released prompts.

The cloud's models and an OpenAI-like server get the same message, in which every text is released.
Both answer in the same pieces. So the rest of the device cannot tell them apart.

`CloudWriter` is our cloud. It offers its adapters under their names on this device. `OpenAIWriter`
asks vLLM, llama-server, ollama or a provider's API for completions as server-sent events. Their
responses are not trusted (see `sottovoce.core.rpc.openai`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from sottovoce.core.errors import InvalidInput, SottovoceError
from sottovoce.core.rpc import openai
from sottovoce.core.rpc.openai import Called, heard
from sottovoce.core.rpc.streams import Pieces, pad
from sottovoce.edge.client.cloud import Cloud, Stoppable
from sottovoce.edge.client.openai_client import OpenAIClient
from sottovoce.edge.config import ChatConfig
from sottovoce.edge.state.outbox import Outbox
from sottovoce.v1 import edge_agent_pb2 as agent
from sottovoce.v1 import generation_pb2 as generation
from sottovoce.v1 import training_pb2 as training

if TYPE_CHECKING:
    from http.client import HTTPResponse

LARGEST_ANSWER: Final = 1 << 20
"""Largest answer in characters, including function calls.

A model that is asked for 8,192 tokens writes fewer.
"""


def check_size(characters: int) -> None:
    """Refuse an answer of more than `LARGEST_ANSWER` characters, while it arrives."""
    if characters > LARGEST_ANSWER:
        raise InvalidInput(  # another answer to the same request would be as long
            f"the answer has more than {LARGEST_ANSWER} characters",
            fix="ask for fewer tokens",
            subject="max_tokens",
            metadata={"code": "answer_too_long"},
        )


class Writer(Protocol):
    """Answers released prompts."""

    @property
    def peer(self) -> str:
        """The server's name; a text sent to one peer was not sent to another."""

    @property
    def takes_options(self) -> bool:
        """Whether it takes functions, forms of answers and all sampling settings."""

    def models(self) -> list[str]:
        """Return the names by which models can be requested."""

    def has(self, model: str) -> bool:
        """Return whether ``model`` is known here.

        An unknown name is then never sent, so the server learns nothing from it.
        """

    def check(self, model: str) -> str:
        """Refuse a model that cannot be requested, without any call.

        Returns:
            The customisation on this device that trained the model; empty if none did.
        """

    def write(
        self, model: str, request: generation.GenerateRequest, stoppable: Stoppable
    ) -> Generator[generation.GenerateResponse, None, None]:
        """Yield the answer in pieces; the last piece says how it ended.

        Args:
            request: without an adapter.
        """


@dataclass(eq=False)
class CloudWriter:
    """Writes with our cloud.

    A model is one of the device's adapters. An empty name means the model without an adapter.
    """

    cloud: Cloud
    outbox: Outbox

    @property
    def peer(self) -> str:
        return self.cloud.address

    @property
    def takes_options(self) -> bool:
        return False

    def models(self) -> list[str]:
        """Return the adapters trained to write, newest first; see `Writer.models`."""
        succeeded = agent.CUSTOMIZATION_STATE_SUCCEEDED
        records = (record for record in self.outbox.all() if record.state == succeeded)
        writing = (
            record.adapter
            for record in records
            if self.outbox.job_request(record.id).training.task == training.TASK_GENERATION
        )
        return [*dict.fromkeys(writing)]

    def has(self, model: str) -> bool:
        """See `Writer.has`: none of these names leaves the device."""
        return True

    def check(self, model: str) -> str:
        self.cloud.check()
        return self.outbox.adapter(model)[1] if model else ""

    def write(
        self, model: str, request: generation.GenerateRequest, stoppable: Stoppable
    ) -> Generator[generation.GenerateResponse, None, None]:
        if not model:
            pad(request)
            yield from self.cloud.generate(request, stoppable)
            return
        names, _ = self.outbox.adapter(model)
        request.adapter = names.adapter_id
        pad(request)
        try:
            yield from self.cloud.generate(request, stoppable)
        except SottovoceError as error:
            raise names.revealed(error) from error


_LISTING_SECONDS: Final = 10.0
"""Timeout for the list of models, between two bytes and in total.

The list needs no loaded model.
"""
_LONGEST_LIST: Final = 1 << 20
_MODEL = re.compile(r"[\w.:/@+-]{1,128}", re.ASCII)
_ROLES: Final = {
    generation.ROLE_SYSTEM: "system",
    generation.ROLE_USER: "user",
    generation.ROLE_ASSISTANT: "assistant",
    generation.ROLE_TOOL: "user",  # without a call id, which OpenAI's role "tool" needs
}
_REASONS: Final = {
    "length": generation.FINISH_REASON_LENGTH,
    "tool_calls": generation.FINISH_REASON_TOOL_CALLS,
    "content_filter": generation.FINISH_REASON_CONTENT_FILTER,
}
_USES: Final = {generation.TOOL_USE_NONE: "none", generation.TOOL_USE_REQUIRED: "required"}
EFFORTS: Final[dict[Any, str]] = {
    each: generation.ReasoningEffort.Name(each).removeprefix("REASONING_EFFORT_").lower()
    for each in generation.ReasoningEffort.values()
    if each
}
VERBOSITIES: Final[dict[Any, str]] = {
    each: generation.Verbosity.Name(each).removeprefix("VERBOSITY_").lower()
    for each in generation.Verbosity.values()
    if each
}
_MOST_CALLS: Final = 128


class OpenAIWriter:
    """Asks the server at ``config.upstream``.

    Args:
        is_adapter: whether a name is an adapter's of this device, which must stay secret.

    Raises:
        ConfigError: the address is invalid, or lies beyond loopback without TLS.
    """

    def __init__(
        self, config: ChatConfig, is_adapter: Callable[[str], bool] = lambda name: False
    ) -> None:
        self._config = config
        self._is_adapter = is_adapter
        self._server = OpenAIClient(config)
        self._models: tuple[str, ...] = (config.model,) if config.model else ()

    @property
    def peer(self) -> str:
        return self._server.peer

    @property
    def takes_options(self) -> bool:
        """See `Writer.takes_options`: most of these servers have models that do."""
        return True

    def models(self) -> list[str]:
        """See `Writer.models`: the configured one, and those that the server lists."""
        listed: list[str] = []
        asked = self._server.asked("/models", seconds=_LISTING_SECONDS)
        with suppress(SottovoceError), asked as response:
            listed = _listed(response)
        names = dict.fromkeys([self._config.model, *listed])
        self._models = tuple(n for n in names if _MODEL.fullmatch(n) and not self._is_adapter(n))
        return [*self._models]

    def has(self, model: str) -> bool:
        return model in self._models or model in self.models()

    def check(self, model: str) -> str:
        if model and not _MODEL.fullmatch(model):
            raise InvalidInput(
                "that cannot be the name of a model",
                fix="use letters, digits and any of . : / @ + - _, at most 128",
                subject="model",
            )
        if model and self._is_adapter(model):
            raise InvalidInput(
                "that is an adapter of this device, and its name does not leave it",
                fix="ask the cloud, without an upstream; a model that the server calls so as well "
                "can be set as chat.model",
                subject="model",
            )
        self._server.key()
        return ""

    def write(
        self, model: str, request: generation.GenerateRequest, stoppable: Stoppable
    ) -> Generator[generation.GenerateResponse, None, None]:
        path, body = _request(request, model or self._config.model or "default")
        kind = "text/event-stream"
        with self._server.asked(path, body, accept=kind, stoppable=stoppable) as response:
            self._server.refused(response, kind, "in pieces")
            yield from _pieces(response)


def _request(request: generation.GenerateRequest, model: str) -> tuple[str, dict[str, Any]]:
    """Return the path and the body; missing fields take the server's defaults."""
    sampling = request.sampling
    prompt: str | list[dict[str, Any]] = request.released_text
    options = _options(sampling)
    if request.WhichOneof("prompt") == "conversation":
        prompt = [_message(turn) for turn in request.conversation.turns]
        options |= _functions(request) if request.tools else {}
        options |= _form(request.format) if request.HasField("format") else {}
    path, body = openai.request(
        model,
        prompt,
        max_tokens=sampling.max_tokens or None,
        temperature=sampling.temperature if sampling.HasField("temperature") else None,
        top_p=sampling.top_p or None,
        seed=sampling.seed if sampling.HasField("seed") else None,
        stops=request.released_stops,
    )
    return path, body | options


def _options(sampling: generation.GenerateSampling) -> dict[str, Any]:
    """Return the sampling settings that our own cloud does not take."""
    penalties = ("presence_penalty", "frequency_penalty")
    found = {name: getattr(sampling, name) for name in penalties if sampling.HasField(name)}
    found |= {name: value for name in ("top_k", "min_p") if (value := getattr(sampling, name))}
    if effort := EFFORTS.get(sampling.reasoning_effort):
        found["reasoning_effort"] = effort
    if verbosity := VERBOSITIES.get(sampling.verbosity):
        found["verbosity"] = verbosity
    return found


def _form(form: generation.ReleasedFormat) -> dict[str, Any]:
    if not form.released_schema:
        return {"response_format": {"type": "json_object"}}
    described: dict[str, Any] = {
        "name": form.released_name or "answer",
        "schema": json.loads(form.released_schema),
    }
    if form.released_description:
        described["description"] = form.released_description
    if form.HasField("strict"):
        described["strict"] = form.strict
    return {"response_format": {"type": "json_schema", "json_schema": described}}


def _message(turn: generation.ReleasedTurn) -> dict[str, Any]:
    calls = [(each.id, each.released_name, each.released_arguments) for each in turn.tool_calls]
    role, text = _ROLES[turn.role], turn.released_text
    return openai.message(role, text, calls=calls, call_id=turn.tool_call_id)


def _functions(request: generation.GenerateRequest) -> dict[str, Any]:
    tools = [
        {
            "type": "function",
            "function": {
                "name": tool.released_name,
                "description": tool.released_description,
                "parameters": json.loads(tool.released_parameters),
            },
        }
        for tool in request.tools
    ]
    found: dict[str, Any] = {"tools": tools}
    if request.released_tool:
        chosen = {"name": request.released_tool}
        found["tool_choice"] = {"type": "function", "function": chosen}
    elif request.tool_use:
        found["tool_choice"] = _USES[request.tool_use]
    if request.HasField("parallel_tool_calls"):
        found["parallel_tool_calls"] = request.parallel_tool_calls
    return found


def _listed(response: HTTPResponse) -> list[str]:
    """Return the names in a list of models."""
    found = json.loads(response.read(_LONGEST_LIST)) if response.status == 200 else None
    listed = found.get("data") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise ValueError("no list")
    names = [each.get("id") for each in listed if isinstance(each, dict)]
    return [name for name in names if isinstance(name, str)]


class _Calls:
    """Calls of functions that arrive in pieces.

    Appending to a protobuf field copies the whole field, and the message keeps every copy until it
    is freed.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[Pieces, Pieces]] = []
        self._begun: dict[int, tuple[str, tuple[Pieces, Pieces]]] = {}
        self._size = 0

    def add(self, piece: Called) -> None:
        """Append a piece to its call.

        Raises:
            ValueError: there are too many calls. InvalidInput: the answer is too long.
        """
        self._size += len(piece.name) + len(piece.arguments)
        check_size(self._size)
        known, parts = self._begun.get(piece.number, ("", None))
        if parts is None or (known and piece.id and piece.id != known):
            parts = (Pieces(), Pieces())  # another id under the same number is another call
            self._parts.append(parts)
        elif piece.id and piece.name == parts[0].text():
            piece = piece._replace(name="")  # some servers repeat the head in each piece
        if len(self._parts) > _MOST_CALLS:
            raise ValueError("calls without end")
        self._begun[piece.number] = (piece.id or known, parts)
        name, arguments = parts
        name.add(piece.name)
        arguments.add(piece.arguments)

    def taken(self) -> Iterator[generation.GenerateResponse]:
        """The whole calls, in the order they began. Each buffer is freed once its call is built."""
        self._begun.clear()
        while self._parts:
            yield self._first()

    def _first(self) -> generation.GenerateResponse:
        pieces = self._parts.pop(0)
        name, arguments = (each.text() for each in pieces)
        del pieces  # avoids a third copy of the arguments
        response = generation.GenerateResponse()
        call = response.tool_call
        call.SetInParent()
        call.released_name, call.released_arguments = name, arguments
        return response


def _pieces(response: HTTPResponse) -> Generator[generation.GenerateResponse, None, None]:
    """Yield the answer's pieces in our own messages."""
    done, calls, event = generation.GenerateDone(), _Calls(), None
    for event in heard(response):
        if event.usage is not None:
            done.prompt_tokens, done.completion_tokens = event.usage
        if event.finish:
            done.finish_reason = _REASONS.get(event.finish, generation.FINISH_REASON_STOP)
        for piece in event.calls:
            calls.add(piece)
        if event.reasoning:
            yield generation.GenerateResponse(delta_reasoning=event.reasoning)
        if event.text:
            yield generation.GenerateResponse(delta_text=event.text)
    if event is None:
        raise ValueError("no answer")
    if not done.finish_reason:
        from http.client import IncompleteRead  # imported late: 2 MB with TLS

        raise IncompleteRead(b"")
    yield from calls.taken()
    yield generation.GenerateResponse(done=done)
