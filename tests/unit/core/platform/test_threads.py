"""A pool goes on with the threads it has, where the machine gives no more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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
        assert [pool.submit(pow, 2, n).result(60) for n in range(3)] == [1, 2, 4]
        going_on = threading.Event()
        held = pool.submit(going_on.wait, 20)
        waiting = [pool.submit(pow, 3, n) for n in range(3)]
        going_on.set()
        assert held.result(60)
        assert [each.result(60) for each in waiting] == [1, 3, 9]
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
        asked = [stub.Check.future(request, timeout=60) for _ in range(8)]
        assert all(each.result().status for each in asked)
        assert stub.Check(request, timeout=60).status
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


SCRIPT = """
import sys, threading, time
from sottovoce.core.platform.threads import Ending
ending = Ending()
print("ready", flush=True)
if sys.argv[1] == "late":
    time.sleep(0.3)  # the signal comes before anyone waits
ending.wait()
print("ended", flush=True)
"""

IN_A_THREAD = """
import signal, threading, time
from sottovoce.core.platform.threads import Ending
ending = Ending()
def strike():
    time.sleep(0.1)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    time.sleep(60)
threading.Thread(target=strike, daemon=True).start()
ending.wait()
print("ended", flush=True)
"""

SET = """
import threading
from sottovoce.core.platform.threads import Ending
ending = Ending()
for _ in range(100_000):  # more than the pipe has room for
    ending.set()
threading.Thread(target=ending.set).start()
ending.wait()
print("ended", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("waits", ["soon", "late"])
def test_a_signal_ends_the_wait_before_or_after_it_begins(number: int, waits: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SCRIPT, waits], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, number)
        assert process.communicate(timeout=60)[0] == "ended\n"
        assert process.returncode == 0


@pytest.mark.parametrize("script", [IN_A_THREAD, SET])
def test_a_signal_to_another_thread_and_a_thread_itself_end_it_too(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "ended\n"
