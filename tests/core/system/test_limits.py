"""Too little room is said before anything is begun, with its remedy."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading

import pytest

from sottovoce.core.errors import NotReady
from sottovoce.core.system.limits import FILES, room_for_files, room_for_threads

_SHOW = """
import resource
from sottovoce.core.system.limits import room_for_files
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
