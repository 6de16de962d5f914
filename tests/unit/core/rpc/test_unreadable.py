"""Bytes that are no message cross a real channel, in all four shapes of a call, both ways."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2
from grpc_status import rpc_status

from sottovoce.core.errors import InvalidInput, Unavailable
from sottovoce.core.rpc.channels import ReadingChannel, answered
from sottovoce.core.rpc.error_status import ErrorInterceptor, from_rpc_error

GARBAGE = b"\xff"
GOOD = health_pb2.HealthCheckRequest(service="it")
SHAPES = ["unary_unary", "unary_stream", "stream_unary", "stream_stream"]
CALLS = 80


def _one(request: Any, context: grpc.ServicerContext) -> bytes:
    if isinstance(request, health_pb2.HealthCheckRequest):
        return request.service.encode()
    return b" ".join(message.service.encode() for message in request)


def _many(request: Any, context: grpc.ServicerContext) -> Iterator[bytes]:
    if isinstance(request, health_pb2.HealthCheckRequest):
        request = [request]
    for message in request:
        yield message.service.encode()


@pytest.fixture
def server() -> Iterator[grpc.Server]:
    parse = health_pb2.HealthCheckRequest.FromString
    handlers = {
        shape: getattr(grpc, f"{shape}_rpc_method_handler")(
            _many if shape.endswith("stream") else _one, request_deserializer=parse
        )
        for shape in SHAPES
    }
    generic = grpc.method_handlers_generic_handler("test.Test", handlers)
    with ThreadPoolExecutor(4) as calls:
        started = grpc.server(calls, interceptors=[ErrorInterceptor()])
        started.add_generic_rpc_handlers((generic,))
        yield started
        started.stop(0).wait()


@pytest.fixture
def channel(server: grpc.Server) -> Iterator[grpc.Channel]:
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as opened:
        yield opened


def call(channel: Any, shape: str, *messages: bytes, read: Any = None) -> list[Any]:
    """All answers to messages sent as they are."""
    method = getattr(channel, shape)(f"/test.Test/{shape}", None, read)
    sent = iter(messages) if shape.startswith("stream") else messages[0]
    found = method(sent, timeout=60)
    return [*found] if shape.endswith("stream") else [found]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_caller_is_told_that_it_is_no_message(
    channel: grpc.Channel, shape: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        call(channel, shape, GARBAGE)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    back = from_rpc_error(caught.value, peer="it")
    assert isinstance(back, InvalidInput)
    assert back.subject == "request"
    assert back.fix
    status = rpc_status.from_call(caught.value)
    bad = error_details_pb2.BadRequest()
    assert any(detail.Unpack(bad) for detail in status.details)
    assert [violation.field for violation in bad.field_violations] == ["request"]
    assert caplog.records == []
    assert call(channel, shape, GOOD.SerializeToString()) == [b"it"]


def test_what_came_before_it_on_a_stream_is_answered(channel: grpc.Channel) -> None:
    good = GOOD.SerializeToString()
    stream = channel.stream_stream("/test.Test/stream_stream")(iter([good, good, GARBAGE, good]))
    assert [next(stream), next(stream)] == [b"it", b"it"]
    with pytest.raises(grpc.RpcError) as caught:
        next(stream)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_is_kept_of_such_calls_and_the_server_ends(
    server: grpc.Server, channel: grpc.Channel, shape: str
) -> None:
    others = _states()
    for _ in range(CALLS):
        with pytest.raises(grpc.RpcError):
            call(channel, shape, GARBAGE)
    assert server.stop(1).wait(60)
    assert _states() - others < CALLS / 10


def _states() -> int:
    """Return how many calls this process keeps; other tests' servers may run."""
    gc.collect()
    return sum(type(thing).__name__ == "_RPCState" for thing in gc.get_objects())


@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_that_is_no_message_is_an_error_with_a_fix(
    channel: grpc.Channel, shape: str, caplog: pytest.LogCaptureFixture
) -> None:
    # The service answers with the text it was sent, which here is no message.
    sent = health_pb2.HealthCheckRequest(service="\x7f").SerializeToString()
    parse = health_pb2.HealthCheckResponse.FromString
    with caplog.at_level(logging.DEBUG):
        (response,) = call(ReadingChannel(channel), shape, sent, read=parse)
    with pytest.raises(Unavailable, match="the cloud sent an answer") as caught:
        answered(response, peer="the cloud")
    assert caught.value.fix
    assert caplog.records == []
    good = health_pb2.HealthCheckRequest(service="\x08\x01").SerializeToString()
    (response,) = call(ReadingChannel(channel), shape, good, read=parse)
    assert answered(response, peer="the cloud").status == 1
