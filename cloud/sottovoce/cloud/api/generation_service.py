"""Stream generated texts over the wire."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from functools import partial
from typing import Final

import grpc

from sottovoce.cloud.api.authentication import Admission
from sottovoce.cloud.config import check_name
from sottovoce.cloud.models.chat import Role, Turn
from sottovoce.cloud.serving.generator import Asked, Finish, Generator, Piece, Pieces, Sampling
from sottovoce.cloud.store.adapters import with_files
from sottovoce.cloud.store.database import Database
from sottovoce.cloud.tenants import Tenants
from sottovoce.cloud.tenants.credentials import Scope
from sottovoce.core.errors import InvalidInput, NotReady, Unavailable
from sottovoce.core.rpc import limits
from sottovoce.core.rpc.streams import check_padding, pad
from sottovoce.v1 import generation_pb2 as wire
from sottovoce.v1 import generation_pb2_grpc

TEXTS, TEXTS_PER_TENANT = 64, 16
"""Texts written at once; each holds a thread."""

Write = Callable[[str, str, str, Asked], Pieces]
"""Begins a text; takes the tenant, the adapter or "", and the bundle of the prompt."""

_ROLES: Final[dict[int, Role]] = {
    wire.ROLE_SYSTEM: "system",
    wire.ROLE_USER: "user",
    wire.ROLE_ASSISTANT: "assistant",
    wire.ROLE_TOOL: "tool",
}
_FINISHES: Final = {
    Finish.STOP: wire.FINISH_REASON_STOP,
    Finish.LENGTH: wire.FINISH_REASON_LENGTH,
    Finish.CONTENT_FILTER: wire.FINISH_REASON_CONTENT_FILTER,
}


def from_decoder(database: Database, generator: Generator) -> Write:
    """Generate texts with ``generator`` and the adapters registered in ``database``."""

    def write(tenant: str, adapter: str, bundle_id: str, asked: Asked) -> Pieces:
        submit = partial(generator.submit, asked, tenant=tenant, bundle_id=bundle_id)
        return with_files(database, tenant, adapter, submit) if adapter else submit()

    return write


class GenerationService(generation_pb2_grpc.GenerationServiceServicer):
    """Serves tenants.

    Args:
        write: None if this cloud has no text generator.
    """

    def __init__(self, tenants: Tenants, write: Write | None) -> None:
        self._tenants = tenants
        self._write = write
        self._admission = Admission(calls=TEXTS, per_tenant=TEXTS_PER_TENANT)

    def Generate(  # noqa: N802 - the wire's name
        self, request: wire.GenerateRequest, context: grpc.ServicerContext
    ) -> Iterator[wire.GenerateResponse]:
        """Stream the text's pieces, then the reason for its end."""
        tenant = self._tenants.admit(context.invocation_metadata(), Scope.PREDICT)
        if self._write is None:
            raise NotReady(
                "this cloud has no model that writes",
                fix="ask the provider to start `sotto-cloud serve` with --decoder or --upstream",
                subject="decoder",
            )
        asked = _asked(request)
        with self._admission.admitted(tenant):
            pieces = self._write(tenant, request.adapter, request.bundle_id, asked)
            if not context.add_callback(pieces.cancel):
                pieces.cancel()
            until = time.monotonic() + limits.WRITING_SECONDS
            numbers = itertools.count(1)
            try:
                for piece in pieces:
                    if time.monotonic() > until:
                        raise Unavailable(
                            "this text took too long", fix="ask for less of it, and read faster"
                        )
                    yield from _responses(piece, numbers)
            except CancelledError:
                return  # the caller has gone
            finally:
                pieces.cancel()


def _asked(request: wire.GenerateRequest) -> Asked:
    if request.adapter:
        check_name(request.adapter, "adapter")
    check_padding(request.padding, limits.LARGEST_PROMPT_PADDING)
    stops = request.released_stops
    if len(stops) > limits.MOST_STOPS or not all(
        0 < len(stop.encode()) <= limits.LONGEST_STOP for stop in stops
    ):
        raise InvalidInput(
            "too many stop strings, or one that is empty or too long",
            fix=f"give at most {limits.MOST_STOPS}, each of 1 to {limits.LONGEST_STOP} bytes",
            subject="released_stops",
        )
    if request.tools or any(turn.tool_calls for turn in request.conversation.turns):
        raise InvalidInput(
            "the models of this cloud call no functions", fix="leave them out", subject="tools"
        )
    if request.HasField("format"):
        raise InvalidInput(
            "the models of this cloud answer in no set form", fix="leave it out", subject="format"
        )
    return Asked(_prompt(request), _sampling(request.sampling), tuple(stops))


def _prompt(request: wire.GenerateRequest) -> tuple[Turn, ...] | str:
    turns, text = request.conversation.turns, request.released_text
    texts = [text] if request.WhichOneof("prompt") == "released_text" else []
    texts += [turn.released_text for turn in turns]
    size = sum(len(text.encode()) for text in texts)
    if not any(texts) or size > limits.LARGEST_PROMPT:
        raise InvalidInput(
            "the prompt is empty or too long",
            fix=f"give a conversation or a text of 1 to {limits.LARGEST_PROMPT} bytes",
            subject="prompt",
        )
    if not turns:
        return str(text)
    if len(turns) > limits.MOST_TURNS:
        raise InvalidInput(
            "the conversation has too many turns",
            fix=f"leave out the oldest, so that there are at most {limits.MOST_TURNS}",
            subject="conversation.turns",
        )
    if not all(turn.role in _ROLES for turn in turns):
        raise InvalidInput(
            "a turn without a role, or with an unknown one",
            fix="say whose each turn is: the system's, the user's, the assistant's or a tool's",
            subject="conversation.turns.role",
        )
    return tuple(Turn(_ROLES[turn.role], turn.released_text) for turn in turns)


def _sampling(given: wire.GenerateSampling) -> Sampling:
    # Comparisons with NaN are false.
    if not 0 <= given.temperature <= limits.HIGHEST_TEMPERATURE:
        raise InvalidInput(
            "the temperature is out of range",
            fix=f"give 0 to {limits.HIGHEST_TEMPERATURE:g}",
            subject="sampling.temperature",
        )
    if not 0 <= given.top_p <= 1:
        raise InvalidInput("top_p is out of range", fix="give 0 to 1", subject="sampling.top_p")
    if given.max_tokens > limits.MOST_NEW_TOKENS:
        raise InvalidInput(
            "more tokens than may be asked for at once",
            fix=f"ask for at most {limits.MOST_NEW_TOKENS}",
            subject="sampling.max_tokens",
        )
    names = {field.name for field, _ in given.ListFields()}
    if further := min(names - {"max_tokens", "temperature", "top_p", "seed"}, default=""):
        raise InvalidInput(
            f"the models of this cloud take no {further}",
            fix="leave it out",
            subject=f"sampling.{further}",
        )
    return Sampling(
        given.max_tokens or limits.NEW_TOKENS,
        given.temperature,
        given.top_p or 1.0,
        given.seed if given.HasField("seed") else None,
    )


def _responses(piece: Piece, numbers: Iterator[int]) -> Iterator[wire.GenerateResponse]:
    if piece.text:
        yield _padded(wire.GenerateResponse(delta_text=piece.text, number=next(numbers)))
    if piece.done is not None:
        done = wire.GenerateDone(
            finish_reason=_FINISHES[piece.done.finish],
            prompt_tokens=piece.done.prompt_tokens,
            completion_tokens=piece.done.completion_tokens,
        )
        yield _padded(wire.GenerateResponse(done=done, number=next(numbers)))


def _padded(response: wire.GenerateResponse) -> wire.GenerateResponse:
    pad(response)
    return response
