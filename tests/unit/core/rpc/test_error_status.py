"""Errors cross a real channel between a real server and client."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from sottovoce.core import errors
from sottovoce.core.errors import SottovoceError
from sottovoce.core.rpc.error_status import ErrorInterceptor, from_rpc_error, to_status

KINDS = [getattr(errors, name) for name in errors.__all__]
TYPED = "the text a person typed"


class Raising:
    """A service; its methods run a test's function, in all four call shapes."""

    def __init__(self) -> None:
        self.act: Callable[[grpc.ServicerContext], None] = lambda context: None
        self.begun, self.left = threading.Event(), threading.Event()

    def one(self, request: Any, context: grpc.ServicerContext) -> bytes:
        self.begun.set()
        try:
            if not isinstance(request, bytes):
                list(request)
            self.act(context)
        finally:
            self.left.set()
        return b"done"

    def many(self, request: Any, context: grpc.ServicerContext) -> Iterator[bytes]:
        yield b"first"
        self.act(context)
        yield b"done"


@pytest.fixture(scope="module")
def service() -> Raising:
    return Raising()


@pytest.fixture(scope="module")
def channel(service: Raising) -> Iterator[grpc.Channel]:
    handlers = {
        "UnaryUnary": grpc.unary_unary_rpc_method_handler(service.one),
        "UnaryStream": grpc.unary_stream_rpc_method_handler(service.many),
        "StreamUnary": grpc.stream_unary_rpc_method_handler(service.one),
        "StreamStream": grpc.stream_stream_rpc_method_handler(service.many),
    }
    generic = grpc.method_handlers_generic_handler("test.Test", handlers)
    with futures.ThreadPoolExecutor(2) as calls:
        server = grpc.server(calls, interceptors=[ErrorInterceptor()])
        server.add_generic_rpc_handlers((generic,))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as opened:
            yield opened
        server.stop(0).wait()


def call(channel: grpc.Channel, shape: str) -> list[bytes]:
    path = f"/test.Test/{shape}"
    match shape:
        case "UnaryUnary":
            return [channel.unary_unary(path)(b"", timeout=60)]
        case "UnaryStream":
            return list(channel.unary_stream(path)(b"", timeout=60))
        case "StreamUnary":
            return [channel.stream_unary(path)(iter([b""]), timeout=60)]
        case _:
            return list(channel.stream_stream(path)(iter([b""]), timeout=60))


SHAPES = ["UnaryUnary", "UnaryStream", "StreamUnary", "StreamStream"]


def raising(error: BaseException) -> Callable[[grpc.ServicerContext], None]:
    def act(context: grpc.ServicerContext) -> None:
        raise error

    return act


def failed(channel: grpc.Channel, shape: str) -> grpc.RpcError:
    with pytest.raises(grpc.RpcError) as caught:
        call(channel, shape)
    return caught.value


@pytest.mark.parametrize("shape", SHAPES)
def test_answers_pass_untouched(service: Raising, channel: grpc.Channel, shape: str) -> None:
    service.act = lambda context: None
    assert call(channel, shape)[-1] == b"done"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_an_error_comes_back_as_it_was_raised(
    service: Raising, channel: grpc.Channel, shape: str, kind: type[SottovoceError]
) -> None:
    service.act = raising(kind("it broke", fix="mend it", subject="it", metadata={"next": "7"}))
    error = failed(channel, shape)
    assert error.code().value[0] == kind.code
    back = from_rpc_error(error, peer="the cloud")
    assert type(back) is kind
    assert (back.problem, back.fix, back.subject) == ("it broke", "mend it", "it")
    assert back.metadata == {"next": "7"}


@pytest.mark.parametrize(
    ("kind", "detail", "holds"),
    [
        (errors.InvalidInput, error_details_pb2.BadRequest, "field_violations"),
        (errors.BundleMismatch, error_details_pb2.PreconditionFailure, "violations"),
        (errors.NotFound, error_details_pb2.ResourceInfo, "resource_name"),
        (errors.QuotaExceeded, error_details_pb2.QuotaFailure, "violations"),
        (errors.Unavailable, error_details_pb2.RetryInfo, "retry_delay"),
        (errors.Overloaded, error_details_pb2.RetryInfo, "retry_delay"),
    ],
)
def test_programs_find_the_standard_details(
    service: Raising, channel: grpc.Channel, kind: type[SottovoceError], detail: Any, holds: str
) -> None:
    service.act = raising(kind("it broke", subject="it"))
    status = rpc_status.from_call(failed(channel, "UnaryUnary"))
    assert status is not None
    found = [any_ for any_ in status.details if any_.Is(detail.DESCRIPTOR)]
    assert len(found) == 1
    message = detail()
    found[0].Unpack(message)
    assert getattr(message, holds)


@pytest.mark.parametrize(
    ("named", "seconds"), [("30", 30), ("", 2), ("7\r\nX: y", 2), ("-1", 2), ("9" * 20, 2)]
)
def test_programs_are_told_when_to_come_back(
    service: Raising, channel: grpc.Channel, named: str, seconds: int
) -> None:
    service.act = raising(errors.Overloaded("too often", metadata={"retry_after": named}))
    status = rpc_status.from_call(failed(channel, "UnaryUnary"))
    assert status is not None
    told = error_details_pb2.RetryInfo()
    assert any(each.Unpack(told) for each in status.details)
    assert told.retry_delay.seconds == seconds


@pytest.mark.parametrize("shape", SHAPES)
def test_unexpected_errors_keep_what_they_quote(
    service: Raising, channel: grpc.Channel, shape: str, caplog: pytest.LogCaptureFixture
) -> None:
    service.act = raising(ValueError(TYPED))
    with caplog.at_level(logging.DEBUG):
        error = failed(channel, shape)
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "ValueError" in error.details()
    assert TYPED not in str(error.details()) + str(error.trailing_metadata())
    assert "ValueError" in caplog.text
    assert "test_error_status.py" in caplog.text
    assert TYPED not in caplog.text


@pytest.mark.parametrize("shape", SHAPES)
def test_a_status_the_method_set_itself_stays(
    service: Raising, channel: grpc.Channel, shape: str
) -> None:
    service.act = lambda context: context.abort(grpc.StatusCode.ALREADY_EXISTS, "there already")
    error = failed(channel, shape)
    assert error.code() is grpc.StatusCode.ALREADY_EXISTS
    back = from_rpc_error(error, peer="the cloud")
    assert back.problem == "the cloud answered ALREADY_EXISTS: there already"


def test_nobody_there_is_unavailable() -> None:
    with grpc.insecure_channel("127.0.0.1:1") as channel:
        error = failed(channel, "UnaryUnary")
    back = from_rpc_error(error, peer="the cloud at 127.0.0.1:1")
    assert isinstance(back, errors.Unavailable)
    assert back.problem == "the cloud at 127.0.0.1:1 does not answer"
    assert back.fix


def test_a_server_without_our_method_is_a_wrong_address_or_version(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/test.Test/Nothing")(b"", timeout=60)
    back = from_rpc_error(caught.value, peer="the cloud")
    assert isinstance(back, errors.ConfigError)
    assert "UNIMPLEMENTED" in back.problem
    assert "port" in back.fix
    assert "version" in back.fix


@pytest.mark.parametrize("character", ["x", "\N{DOG FACE}"])
def test_an_error_is_cut_to_what_arrives(
    service: Raising, channel: grpc.Channel, character: str
) -> None:
    long = character * 100_000
    service.act = raising(errors.NotFound(long, fix=long, subject=long))
    back = from_rpc_error(failed(channel, "UnaryUnary"), peer="the cloud")
    assert type(back) is errors.NotFound
    for text in (back.problem, back.fix, back.subject):
        assert text.startswith(character * 20)
        assert len(text) < 1_000
        assert text.endswith("...")


def test_details_that_contradict_the_status_are_left_aside(
    service: Raising, channel: grpc.Channel
) -> None:
    def act(context: grpc.ServicerContext) -> None:
        status = to_status(errors.NotFound("not there"))
        trailers = (("grpc-status-details-bin", status.SerializeToString()),)
        context.set_trailing_metadata(trailers)
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "something else")

    service.act = act
    back = from_rpc_error(failed(channel, "UnaryUnary"), peer="the cloud")
    assert type(back) is errors.InvalidInput
    assert "something else" in back.problem


def test_a_caller_who_leaves_is_no_unexpected_error(
    service: Raising, channel: grpc.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    end = threading.Event()

    def nothing() -> Iterator[bytes]:
        end.wait()
        yield from ()

    service.begun.clear()
    service.left.clear()
    leaving = channel.stream_unary("/test.Test/StreamUnary").future(nothing(), timeout=60)
    assert service.begun.wait(60)
    leaving.cancel()
    assert service.left.wait(60)
    time.sleep(0.2)  # for whatever is said once the method is left
    end.set()
    assert "unexpected" not in caplog.text


def test_a_call_the_server_broke_off_may_be_tried_again(
    service: Raising, channel: grpc.Channel
) -> None:
    service.act = lambda context: context.abort(grpc.StatusCode.CANCELLED, "")
    back = from_rpc_error(failed(channel, "UnaryUnary"), peer="the cloud")
    assert isinstance(back, errors.Unavailable)


@pytest.mark.parametrize("code", [grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL])
def test_what_the_transport_could_not_read_may_be_tried_again(
    service: Raising, channel: grpc.Channel, code: grpc.StatusCode
) -> None:
    service.act = lambda context: context.abort(code, "Stream removed (Failed parsing HTTP/2)")
    back = from_rpc_error(failed(channel, "UnaryUnary"), peer="the cloud")
    assert isinstance(back, errors.Unavailable)
    assert back.fix.startswith("try again")


@pytest.mark.parametrize("shape", ["UnaryUnary", "UnaryStream"])
def test_a_method_that_is_declared_and_not_there_is_said_and_not_logged(
    service: Raising, channel: grpc.Channel, shape: str, caplog: pytest.LogCaptureFixture
) -> None:
    def act(context: grpc.ServicerContext) -> None:  # as the servicers that protoc writes do
        context.set_code(grpc.StatusCode.UNIMPLEMENTED)
        raise NotImplementedError("Method not implemented!")

    service.act = act
    assert failed(channel, shape).code() is grpc.StatusCode.UNIMPLEMENTED
    assert caplog.text == ""


def test_reasons_are_those_that_clients_in_other_languages_know() -> None:
    """Neither renamed nor shared; another language has nothing else to go by."""
    assert sorted(getattr(errors, name).reason for name in errors.__all__) == [
        "BUNDLE_MISMATCH",
        "CONFIG_ERROR",
        "DATA_LOSS",
        "INTERNAL",
        "INVALID_INPUT",
        "NOT_FOUND",
        "NOT_READY",
        "OUT_OF_RANGE",
        "OVERLOADED",
        "PERMISSION_DENIED",
        "QUOTA_EXCEEDED",
        "UNAUTHENTICATED",
        "UNAVAILABLE",
    ]
