"""Callers are counted by network, interceptors see each call, and reflection lists services."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2 as reflection

from sottovoce.core.errors import Unauthenticated
from sottovoce.core.rpc.channels import (
    REFLECTION,
    Handler,
    Interceptor,
    PendingCallLimiter,
    host,
    serve_reflection,
    within,
)
from sottovoce.core.rpc.error_status import ErrorInterceptor
from sottovoce.v1 import edge_agent_pb2
from tests.support.raw_http2 import RawConnection
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("ipv4:192.0.2.1:80", "ipv4:192.0.2.1:443", True),
        ("ipv4:192.0.2.1:80", "ipv4:192.0.2.2:80", False),
        ("ipv6:%5B2001:db8::1%5D:80", "ipv6:%5B2001:db8::2:3%5D:80", True),
        ("ipv6:[2001:db8::1]:80", "ipv6:[2001:db8:0:1::1]:80", False),
        ("unix:", "unix:/tmp/x", True),
    ],
)
def test_a_host_is_an_address_or_the_network_somebody_has(one: str, other: str, same: bool) -> None:
    assert (host(one) == host(other)) is same


TOLD: list[str] = []


class Teller(Interceptor):
    def around(self, handler: Handler, service: str, method: str) -> Handler:
        TOLD.append(f"{service} {method}")
        return within(handler, lambda _: self._held())

    @contextmanager
    def _held(self) -> Iterator[None]:
        TOLD.append("begun")
        try:
            yield
        finally:
            TOLD.append("ended")


def once(request: bytes, context: grpc.ServicerContext) -> bytes:
    TOLD.append("asked")
    return request


def many(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
    for _ in range(2):
        TOLD.append("asked")
        yield request


@pytest.fixture
def channel() -> Iterator[grpc.Channel]:
    TOLD.clear()
    methods: dict[str, Any] = {
        "Once": grpc.unary_unary_rpc_method_handler(once),
        "Many": grpc.unary_stream_rpc_method_handler(many),
    }
    with ThreadPoolExecutor(1) as calls:
        server = grpc.server(calls, interceptors=[Teller()])
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("a.B", methods),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as opened:
            yield opened
        server.stop(0).wait()


def test_what_is_held_is_held_for_as_long_as_the_call_lasts(channel: grpc.Channel) -> None:
    assert channel.unary_unary("/a.B/Once")(b"1", timeout=60) == b"1"
    assert [*channel.unary_stream("/a.B/Many")(b"2", timeout=60)] == [b"2", b"2"]
    assert [
        *("a.B Once", "begun", "asked", "ended"),
        *("a.B Many", "begun", "asked", "asked", "ended"),
    ] == TOLD


def test_what_goes_around_a_method_is_made_once(channel: grpc.Channel) -> None:
    for _ in range(3):
        assert channel.unary_unary("/a.B/Once")(b"1", timeout=60) == b"1"
    assert ["a.B Once", *["begun", "asked", "ended"] * 3] == TOLD


def test_a_method_that_is_not_there_is_never_asked_about(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        channel.unary_unary("/a.B/Another")(b"", timeout=60)
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert TOLD == []


def test_what_goes_around_nothing_cannot_be_made() -> None:
    class Idle(Interceptor):
        pass

    with pytest.raises(TypeError, match="around"):
        Idle()


MOST, THREADS = 8, 12
OPEN, TENANTS = "/test.Open/{}", "/test.Tenants/{}"


def _authenticate(context: grpc.ServicerContext) -> str:
    name = dict(context.invocation_metadata()).get("name")
    if not isinstance(name, str):
        raise Unauthenticated("who?", fix="say it")
    return name


@contextmanager
def served(seconds: tuple[float, float] = (60.0, 60.0)) -> Iterator[tuple[str, PendingCallLimiter]]:
    """Run a server with few threads and a doorkeeper; its methods echo."""
    handlers = {
        "One": grpc.unary_unary_rpc_method_handler(lambda request, _: request),
        "Many": grpc.unary_stream_rpc_method_handler(lambda request, _: iter([request] * 2)),
    }
    keeper = PendingCallLimiter(
        most=MOST, seconds=seconds, tenants_only={"test.Tenants"}, authenticate=_authenticate
    )
    server = grpc.server(ThreadPoolExecutor(THREADS), interceptors=[ErrorInterceptor(), keeper])
    for service in ("test.Open", "test.Tenants"):
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    keeper.start()
    try:
        yield f"127.0.0.1:{port}", keeper
    finally:
        keeper.close()
        server.stop(0).wait()


def waiting(keeper: PendingCallLimiter) -> dict[str, int]:
    return {name: len(crowd) for name, crowd in keeper._waiting.items()}


def test_who_sends_a_message_is_answered_as_ever() -> None:
    with served() as (address, keeper), grpc.insecure_channel(address) as channel:
        for path in (OPEN, TENANTS):
            one = channel.unary_unary(path.format("One"))
            many = channel.unary_stream(path.format("Many"))
            assert one(b"it", metadata=[("name", "a")], timeout=10) == b"it"
            assert [*many(b"it", metadata=[("name", "a")], timeout=10)] == [b"it", b"it"]
        assert waiting(keeper) == {}


@pytest.mark.parametrize("method", ["One", "Many"])
def test_strangers_are_turned_away_before_they_have_said_anything(method: str) -> None:
    with served() as (address, _), RawConnection(address) as raw:
        stream = raw.open(TENANTS.format(method))
        assert raw.ended([stream]) == {stream: "UNAUTHENTICATED"}


def test_a_call_that_ends_without_a_request_is_told_so() -> None:
    with served() as (address, _), RawConnection(address) as raw:
        stream = raw.open(OPEN.format("One"))
        raw.send(stream, None)
        assert raw.ended([stream]) == {stream: "INVALID_ARGUMENT"}


@pytest.mark.parametrize("method", ["One", "Many"])
def test_whoever_waits_too_long_is_ended(method: str) -> None:
    with served((60.0, 0.1)) as (address, keeper), RawConnection(address) as raw:
        slow = raw.open(TENANTS.format(method), [("name", "a")])
        nameless = [raw.open(OPEN.format(method)) for _ in range(3)]
        assert set(raw.ended(nameless).values()) <= {"reset", "CANCELLED"}
        until(lambda: waiting(keeper) == {"a": 1})  # with a tenant there is more patience
        raw.send(slow, b"it")
        assert raw.ended([slow]) == {slow: "OK"}
        assert waiting(keeper) == {}


def test_a_crowd_makes_room_for_others_oldest_first() -> None:
    with served() as (address, keeper), RawConnection(address) as raw:
        slow = raw.open(TENANTS.format("One"), [("name", "a")])
        until(lambda: waiting(keeper) == {"a": 1})
        crowd = [raw.open(OPEN.format("One")) for _ in range(200)]
        ended = raw.ended(crowd[: -2 * THREADS])
        assert set(ended.values()) <= {"reset", "CANCELLED"}
        until(lambda: waiting(keeper) == {"a": 1, "": MOST - 1})
        with grpc.insecure_channel(address) as channel:
            for path in (OPEN, TENANTS):
                call = channel.unary_unary(path.format("One"))
                assert call(b"it", metadata=[("name", "b")], timeout=10) == b"it"
        raw.send(slow, b"it")
        assert raw.ended([slow]) == {slow: "OK"}


SERVICE = edge_agent_pb2.DESCRIPTOR.services_by_name["EdgeAgentService"].full_name


@pytest.fixture
def reflecting() -> Iterator[grpc.Channel]:
    with ThreadPoolExecutor(2) as calls:
        server = grpc.server(calls)
        serve_reflection(server, [SERVICE])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with grpc.insecure_channel(f"127.0.0.1:{port}") as opened:
            yield opened
        server.stop(0).wait()


@pytest.mark.parametrize("name", REFLECTION)
def test_services_and_their_files_are_told(reflecting: grpc.Channel, name: str) -> None:
    call = reflecting.stream_stream(
        f"/{name}/ServerReflectionInfo",
        request_serializer=reflection.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection.ServerReflectionResponse.FromString,
    )
    asked = (
        reflection.ServerReflectionRequest(list_services=""),
        reflection.ServerReflectionRequest(file_containing_symbol=SERVICE),
        reflection.ServerReflectionRequest(file_containing_symbol="none.such"),
    )
    listed, found, missing = call(iter(asked), timeout=60)
    assert SERVICE in {each.name for each in listed.list_services_response.service}
    assert b"edge_agent.proto" in found.file_descriptor_response.file_descriptor_proto[0]
    assert missing.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
