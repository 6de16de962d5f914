"""Too little room is an early error with a remedy."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from sottovoce.core.errors import NotReady
from sottovoce.core.platform.threads import DAEMON_FILES, FILES, room_for_files, room_for_threads

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
