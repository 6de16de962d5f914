"""A real cloud with a test's function as its model, by default an echo.

An echo lets tests compare the device's answer with the typed text.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc

from sottovoce.core.rpc.error_status import ErrorInterceptor
from sottovoce.core.rpc.limits import LARGEST_PROMPT_PADDING
from sottovoce.core.rpc.streams import check_padding
from sottovoce.v1 import generation_pb2 as generation
from sottovoce.v1 import generation_pb2_grpc as generation_grpc

PIECE = 3


def last_text(request: generation.GenerateRequest) -> str:
    """Return the text to answer or continue."""
    if request.WhichOneof("prompt") == "conversation":
        return request.conversation.turns[-1].released_text
    return request.released_text


def echo(request: generation.GenerateRequest) -> Iterator[str]:
    """The text itself, a few characters at a time."""
    text = last_text(request)
    return (text[start : start + PIECE] for start in range(0, len(text), PIECE))


class EchoingCloud(generation_grpc.GenerationServiceServicer):
    """Behaviour is changed by setting attributes."""

    def __init__(self) -> None:
        self.answer: Callable[[generation.GenerateRequest], Iterable[str]] = echo
        self.ends = True
        """Whether the last message says how the answer ended."""
        self.doubled = 0
        """The piece of this number comes twice, as a line without TLS may have it."""
        self.asked: list[generation.GenerateRequest] = []
        self.cancelled = threading.Event()
        self.address = ""

    def Generate(self, request, context):  # noqa: N802
        check_padding(request.padding, LARGEST_PROMPT_PADDING)
        context.add_callback(self.cancelled.set)
        self.asked.append(request)
        number = 0
        for number, delta in enumerate(self.answer(request), 1):
            if not context.is_active():
                return
            piece = generation.GenerateResponse(delta_text=delta, number=number)
            yield from [piece] * (2 if number == self.doubled else 1)
        if self.ends:
            yield generation.GenerateResponse(
                number=number + 1,
                done=generation.GenerateDone(
                    finish_reason=generation.FINISH_REASON_STOP, prompt_tokens=7
                ),
            )


@contextmanager
def echoing_cloud() -> Iterator[EchoingCloud]:
    """Runs for a test."""
    cloud = EchoingCloud()
    with ThreadPoolExecutor(8) as calls:
        server = grpc.server(
            calls, interceptors=[ErrorInterceptor()], options=[("grpc.so_reuseport", 0)]
        )
        generation_grpc.add_GenerationServiceServicer_to_server(cloud, server)
        cloud.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        try:
            yield cloud
        finally:
            server.stop(0).wait()
