"""Released memory comes back when needed."""

from __future__ import annotations

import ctypes
import mmap
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sottovoce.core.platform import memory
from sottovoce.core.platform.memory import map_array, map_bytes, unload
from sottovoce.edge.measure import resident

SCRIPT = """
from sottovoce.core.platform import memory
memory.bound_heap()
import numpy
from sottovoce.core.text.onnx_models import runtime
runtime()
from sottovoce.edge.measure import resident
before = resident()
memory.give_back()
after = resident()
rows = numpy.random.default_rng(0).standard_normal((300, 200))
assert numpy.allclose(rows @ numpy.linalg.pinv(rows) @ rows, rows)  # code is mapped again
print(before["files"], after["files"])
"""


@pytest.mark.skipif(not resident(), reason="needs /proc, as Linux has it")
def test_pages_of_code_are_given_back_and_taken_again() -> None:
    printed = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True
    ).stdout
    before, after = map(float, printed.split())
    assert after < before / 2  # half of it at least was start-up code


FREED = """
import ctypes
import sys
from sottovoce.core.platform import memory
from sottovoce.edge.measure import resident
if sys.argv[1] == "bound":
    memory.bound_heap(4 << 20, arenas=2)
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
def block(size):
    place = libc.malloc(ctypes.c_size_t(size))
    ctypes.memset(place, 1, size)
    return place
libc.free(block(16 << 20))  # from now on the C library takes its like from the heap
before = resident()["private"]
kept = []
for _ in range(4):
    passing = block(16 << 20)
    kept.append(block(100_000))
    libc.free(passing)
    kept.append(block(15 << 20))
for place in kept[1::2]:
    libc.free(place)
print(resident()["private"] - before)
"""


@pytest.mark.skipif(not resident(), reason="needs /proc, as Linux has it")
def test_large_blocks_go_back_whatever_lies_behind_them() -> None:
    grew = {
        kind: float(
            subprocess.run(
                [sys.executable, "-c", FREED, kind], check=True, capture_output=True, text=True
            ).stdout
        )
        for kind in ("bound", "as it is")
    }
    assert grew["bound"] < 4
    assert grew["as it is"] > 10, "the C library does by itself what this is here for"


GROWN = """
import sys
import numpy
from pathlib import Path
from sottovoce.core.platform import memory
from sottovoce.core.platform import memory
from sottovoce.edge.measure import resident
path = Path(sys.argv[1])
numpy.lib.format.open_memmap(path, "w+", numpy.uint8, (96 << 20,))
array = memory.map_array(path)
found = []
for touched in (96 << 20, 1 << 20, 96 << 20):
    array[:touched].max()
    before = resident()["files"]
    memory.give_back_if_grown()
    found.append(before - resident()["files"] > 0.5)
print(*found)
"""


@pytest.mark.skipif(not resident(), reason="needs /proc, as Linux has it")
def test_only_what_has_grown_is_given_back(tmp_path: Path) -> None:
    command = [sys.executable, "-c", GROWN, str(tmp_path / "array.npy")]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert printed.split() == ["True", "False", "True"]


@pytest.mark.skipif(not resident(), reason="needs /proc, as Linux has it")
def test_what_took_the_place_of_a_file_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Another thread unmaps a file once it is listed, and the system puts a stack there."""
    (tmp_path / "file").write_bytes(b"x")
    place = mmap.mmap(-1, 16 * mmap.PAGESIZE)
    place.write(b"x" * len(place))
    start = ctypes.addressof(ctypes.c_char.from_buffer(place))
    listed = list(memory._mappings())
    paths = [str(tmp_path / "file"), *{mapping.path for mapping in listed}]
    gone = [memory._Mapping(path, start, start + len(place), True, True) for path in paths]
    monkeypatch.setattr(memory, "_mappings", lambda: [*listed, *gone])
    memory.give_back()
    monkeypatch.setattr(memory, "_mappings", lambda: [*gone, *listed])
    memory.give_back()
    assert set(place[:]) == {ord("x")}


LOCKED = """
import sqlite3, sys
from sottovoce.core.platform import memory
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA journal_mode = WAL")
database.execute("CREATE TABLE charges (id)")
database.execute("BEGIN IMMEDIATE")
database.execute("INSERT INTO charges VALUES (1)")
memory.give_back()
print("given back", flush=True)
input()
"""


@pytest.mark.skipif(not resident(), reason="needs /proc, as Linux has it")
def test_locks_of_a_database_stay(tmp_path: Path) -> None:
    """SQLite maps a file of its locks; to open and close that once more would drop them."""
    file = tmp_path / "agent.db"
    command = [sys.executable, "-u", "-c", LOCKED, str(file)]
    other = sqlite3.connect(file, isolation_level=None, timeout=0)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        holder.stdin.write(b"\n")
    other.close()


@pytest.mark.skipif(not resident(), reason="needs /proc, as Linux has it")
def test_the_program_itself_is_known() -> None:
    lines = Path("/proc/self/maps").read_text().splitlines()
    program = str(Path(sys.executable).resolve())
    (start, *_) = (line.split("-")[0] for line in lines if line.endswith(program))
    assert memory._program() == int(start, 16)


def test_a_system_without_proc_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    monkeypatch.setattr(memory, "_mappings", lambda: pytest.fail("it was looked for"))
    memory.give_back()


def _resident(path: Path) -> int:
    """KiB of the file that this process holds."""
    smaps = Path("/proc/self/smaps").read_text(encoding="utf-8", errors="replace")
    found = re.search(rf"{path}\n(?:.*\n)*?Rss: +(\d+) kB", smaps)
    assert found, f"{path} is not mapped"
    return int(found[1])


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs /proc, as Linux has it")
def test_pages_are_given_back_and_taken_again(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).standard_normal((1000, 64)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    (tmp_path / "text").write_bytes(b"word\n" * 50_000)
    array, text = map_array(tmp_path / "rows.npy"), map_bytes(tmp_path / "text")
    for _ in range(2):
        assert np.array_equal(array, rows)
        assert text[:] == b"word\n" * 50_000
        files = [tmp_path / "rows.npy", tmp_path / "text"]
        assert all(_resident(file) > 200 for file in files)
        unload()
        assert [_resident(file) for file in files] == [0, 0]


def test_what_cannot_be_mapped_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="empty"):
        map_bytes(tmp_path / "empty")
    with pytest.raises(OSError, match="missing"):
        map_array(tmp_path / "missing")
    (tmp_path / "text").write_text("no array")
    with pytest.raises(ValueError, match="allow_pickle"):
        map_array(tmp_path / "text")


def test_a_map_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.arange(10))
    map_array(tmp_path / "rows.npy")
    unload()
    maps = Path("/proc/self/maps")
    assert not maps.exists() or str(tmp_path) not in maps.read_text(errors="replace")
