"""An interceptor sees each method there is, by name, and holds what it holds for whole calls."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from sottovoce.core.rpc.interceptors import Handler, Interceptor, within

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
