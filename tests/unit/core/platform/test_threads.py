"""A pool goes on with the threads it has; too little room is an early error."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from sottovoce.core.errors import NotReady
from sottovoce.core.platform.threads import (
    DAEMON_FILES,
    FILES,
    Threads,
    join,
    room_for_files,
    room_for_threads,
)


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


_SHOW = """
import resource
from sottovoce.core.platform.threads import room_for_files
room_for_files()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def _with(limit: str) -> subprocess.CompletedProcess[str]:
    command = ["prlimit", f"--nofile={limit}", sys.executable, "-c", _SHOW]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_what_may_be_asked_for_is_asked_for() -> None:
    assert _with("20:100").stdout == "100 100\n"
    assert _with(f"20:{FILES}").stdout == f"{FILES} {FILES}\n"
    assert _with("20:10000").stdout == "1024 10000\n"
    assert _with("5000:10000").stdout == "5000 10000\n", "more than enough is left"


def test_too_few_files_are_said() -> None:
    refused = _with(f"20:{FILES - 1}")
    assert refused.returncode == 1
    assert f"only {FILES - 1} files may be open at once here, and {FILES} are" in refused.stderr
    assert "ulimit -n" in refused.stderr


def test_where_it_may_not_be_asked_for_what_there_is_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(resource, "setrlimit", forbidden)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 5000))
    room_for_files(100)
    with pytest.raises(NotReady, match="only 100 files may be open"):
        room_for_files(DAEMON_FILES)


_FULL = """
import os, sys
from pathlib import Path
from sottovoce.core.bundle.word_list import RowFile
from sottovoce.core.errors import NotReady
from sottovoce.core.platform.memory import map_array, map_bytes
while True:
    try:
        os.open(os.devnull, os.O_RDONLY)
    except OSError:
        break
for reads in (map_array, map_bytes, RowFile):
    try:
        reads(Path(sys.argv[1]))
    except NotReady as error:
        print(error.subject)
"""


def test_a_sound_file_that_cannot_be_opened_is_not_called_damaged(tmp_path: Path) -> None:
    np.save(tmp_path / "sound.npy", np.zeros((2, 2)))
    command = ["prlimit", "--nofile=50", sys.executable, "-c", _FULL, str(tmp_path / "sound.npy")]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.split() == ["files"] * 3


def test_what_threads_would_reserve_is_not_counted() -> None:
    script = "from sottovoce.core.platform.threads import room_for_threads; room_for_threads()"
    command = ["prlimit", f"--as={256 << 20}", sys.executable, "-c", script]
    assert subprocess.run(command, check=False).returncode == 0


def test_unlimited_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[object] = []
    unlimited = resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: kept.append(pair))
    monkeypatch.setattr(resource, "getrlimit", lambda _: (unlimited, unlimited))
    room_for_files()
    assert kept == []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, unlimited))
    room_for_files()
    assert kept == [(1024, unlimited)]


def test_room_for_threads_is_there_or_said_not_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    start, before = threading.Thread.start, threading.active_count()

    def started(thread: threading.Thread) -> None:
        if threading.active_count() >= before + 6:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", started)
    room_for_threads(6)  # all at once, and gone again
    room_for_threads(6)
    with pytest.raises(NotReady, match=r"only 6 more threads .* and 7 are needed") as refused:
        room_for_threads(7)
    assert "TasksMax" in refused.value.fix
    assert threading.active_count() == before
