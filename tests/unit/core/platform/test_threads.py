"""A pool goes on with the threads it has, where the machine gives no more."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from sottovoce.core.platform.threads import Threads, join


@pytest.fixture
def none_left(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Once set, no thread can be had for a pool."""
    left = threading.Event()
    start = threading.Thread.start

    def started(thread: threading.Thread) -> None:
        if left.is_set() and thread.name.startswith("call"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", started)
    return left


def test_what_is_wanted_waits_for_the_threads_there_are(
    none_left: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    with Threads(4, "call") as pool:
        none_left.set()
        assert [pool.submit(pow, 2, n).result(20) for n in range(3)] == [1, 2, 4]
        going_on = threading.Event()
        held = pool.submit(going_on.wait, 20)
        waiting = [pool.submit(pow, 3, n) for n in range(3)]
        going_on.set()
        assert held.result(20)
        assert [each.result(20) for each in waiting] == [1, 3, 9]
    assert caplog.text.count("no more threads") == 1


def test_where_not_even_one_is_left_that_is_said_at_the_start(none_left: threading.Event) -> None:
    none_left.set()
    with pytest.raises(RuntimeError, match="thread"):
        Threads(4, "call")


def test_a_server_answers_again_and_again(none_left: threading.Event) -> None:
    pool = Threads(4, "call")
    server = grpc.server(pool)
    health_pb2_grpc.add_HealthServicer_to_server(health.HealthServicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    none_left.set()
    with pool, grpc.insecure_channel(f"127.0.0.1:{port}") as channel, closing(channel):
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest()
        asked = [stub.Check.future(request, timeout=20) for _ in range(8)]
        assert all(each.result().status for each in asked)
        assert stub.Check(request, timeout=20).status
        server.stop(None).wait()


def test_threads_are_waited_for_together() -> None:
    go = threading.Event()
    waiting = [threading.Thread(target=go.wait, args=(60,)) for _ in range(20)]
    for thread in waiting[:-1]:
        thread.start()  # one is not
    begun = time.monotonic()
    join(waiting, 0.05)
    assert time.monotonic() - begun < 10
    assert all(thread.is_alive() for thread in waiting[:-1])
    go.set()
    join(waiting, 60)
    assert not any(thread.is_alive() for thread in waiting)
