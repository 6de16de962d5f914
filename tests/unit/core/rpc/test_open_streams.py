"""Streams on real connections: those that stand still give way, those in use stay."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import grpc
import pytest

from sottovoce.core.rpc.status import ErrorInterceptor
from sottovoce.core.rpc.streams import OpenStreams
from tests.support.raw_http2 import RawConnection
from tests.support.waiting import until

MOST = 4


class Talk:
    """An open stream whose messages are sent one by one; the server gives them back, or, where
    the method is "Count", their number in the end."""

    def __init__(self, channel: grpc.Channel, method: str = "Echo") -> None:
        self._sending: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        requests, path = iter(self._sending.get, None), f"/test.Open/{method}"
        if method == "Echo":
            self.call = channel.stream_stream(path)(requests, timeout=60)
        else:
            self.call = channel.stream_unary(path).future(requests, timeout=60)

    def says(self, message: bytes) -> bytes:
        """What comes back."""
        self._sending.put(message)
        return bytes(next(self.call))

    def ends(self) -> None:
        """Says no more, and lets the thread that would go."""
        self._sending.put(None)

    def cut(self) -> bool:
        """Whether it was the server who ended it, once it is over."""
        over = threading.Event()
        self.call.add_done_callback(lambda _: over.set())
        assert over.wait(60)
        self.ends()
        return bool(self.call.code() is grpc.StatusCode.CANCELLED)


@contextmanager
def served(concerned: str = "test.Open") -> Iterator[tuple[str, OpenStreams]]:
    """A server with room for `MOST` streams, and threads for two more calls."""
    handlers = {
        "Echo": grpc.stream_stream_rpc_method_handler(lambda requests, _: iter(requests)),
        "Count": grpc.stream_unary_rpc_method_handler(lambda requests, _: b"%d" % len([*requests])),
        "Many": grpc.unary_stream_rpc_method_handler(lambda request, _: iter([request] * 10_000)),
        "One": grpc.unary_unary_rpc_method_handler(lambda request, _: request),
    }
    streams = OpenStreams(MOST, lambda service: service == concerned)
    with ThreadPoolExecutor(MOST + 2) as calls:
        server = grpc.server(calls, interceptors=[ErrorInterceptor(), streams])
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("test.Open", handlers),)
        )
        port = server.add_insecure_port("0.0.0.0:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}", streams
        finally:
            server.stop(0).wait()


def test_the_stillest_gives_way_and_the_one_in_use_stays() -> None:
    with served() as (address, _), grpc.insecure_channel(address) as channel:
        used = Talk(channel)
        assert used.says(b"1") == b"1"
        still = []
        for _ in range(3 * MOST):
            still.append(Talk(channel))
            assert still[-1].says(b"it") == b"it"
            assert used.says(b"2") == b"2"
        assert all(talk.cut() for talk in still[: 1 - MOST])
        assert all(talk.says(b"it") == b"it" for talk in still[1 - MOST :])
        for talk in (used, *still):
            talk.ends()


@pytest.mark.parametrize("method", ["Count", "Many"])
def test_one_that_only_sends_and_one_that_only_answers_are_counted_too(method: str) -> None:
    with served() as (address, streams), grpc.insecure_channel(address) as channel:
        others = [] if method == "Many" else [Talk(channel, "Count")]
        if others:
            call = others[0].call
        else:  # of whose answers nobody reads more than the first
            call = channel.unary_stream("/test.Open/Many")(b"it" * 50_000, timeout=60)
            next(call)
        until(lambda: len(streams._open) == 1)
        (still,) = streams._open

        def gave_way() -> bool:
            others.append(Talk(channel))
            assert others[-1].says(b"it") == b"it"
            return still not in streams._open

        until(gave_way)
        over = threading.Event()
        call.add_done_callback(lambda _: over.set())
        if method == "Many":
            with pytest.raises(grpc.RpcError):
                list(call)
        assert over.wait(60)
        assert call.code() is grpc.StatusCode.CANCELLED
        for talk in others:
            talk.ends()


def test_calls_that_are_no_streams_are_let_be() -> None:
    with served() as (address, _), grpc.insecure_channel(address) as channel:
        one = channel.unary_unary("/test.Open/One")
        talks = [Talk(channel) for _ in range(MOST)]
        for _ in range(2):
            assert [talk.says(b"it") for talk in talks] == [b"it"] * MOST
            assert {one(b"it", timeout=60) for _ in range(3 * MOST)} == {b"it"}
        for talk in talks:
            talk.ends()


def test_streams_that_do_not_concern_it_are_let_be() -> None:
    with served("test.Other") as (address, _), grpc.insecure_channel(address) as channel:
        talks = [Talk(channel) for _ in range(MOST + 2)]
        for _ in range(2):
            assert [talk.says(b"it") for talk in talks] == [b"it"] * len(talks)
        for talk in talks:
            talk.ends()


def test_the_crowd_of_one_host_costs_another_nothing() -> None:
    with ExitStack() as held:
        address, streams = held.enter_context(served())
        quiet = held.enter_context(RawConnection(address, "127.0.0.2"))
        stream = quiet.open("/test.Open/Echo")
        until(lambda: len(streams._open) == 1)
        crowd = held.enter_context(RawConnection(address))
        opened = [crowd.open("/test.Open/Echo") for _ in range(5 * MOST)]
        # However it is turned away: gRPC does so itself where more come than it has room for.
        turned_away = {"reset", "CANCELLED", "UNAVAILABLE"}
        assert set(crowd.ended(opened[: 1 - MOST]).values()) <= turned_away
        quiet.send(stream, b"it")
        assert quiet.ended([stream]) == {stream: "OK"}
