"""What is fetched goes with its use, or after whoever died with it."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sottovoce.cloud.store.s3 import clear, own_folder
from tests.support.processes import environment

HOLD = """
import sys
from pathlib import Path
from sottovoce.cloud.store.s3 import own_folder
with own_folder(Path(sys.argv[1])) as folder:
    (folder / "weights").write_text("w")
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_it_goes_with_the_block(tmp_path: Path) -> None:
    with own_folder(tmp_path / "fetched") as folder:
        (folder / "weights").write_text("w")
        clear(tmp_path / "fetched")
        assert (folder / "weights").exists(), "somebody uses it"
    assert [*(tmp_path / "fetched").iterdir()] == []


def test_what_a_dead_process_left_goes_and_what_a_living_one_has_stays(tmp_path: Path) -> None:
    clear(tmp_path)
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(
        command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().decode().strip())
        clear(tmp_path)
        assert (folder / "weights").exists()
        process.kill()
        process.wait()
    assert (folder / "weights").exists()
    clear(tmp_path)
    assert not folder.exists()


def test_what_has_no_lock_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "weights").write_text("w")
    (tmp_path / "stray").write_text("s")
    clear(tmp_path)
    assert [f.name for f in tmp_path.iterdir()] == ["stray"]


def test_it_is_locked_as_a_share_wants_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = fcntl.flock

    def shared(held: int, how: int) -> None:
        """As NFS has it: such a lock is one of bytes, for who may write them."""
        descriptor = held if isinstance(held, int) else held.fileno()
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", shared)
    with own_folder(tmp_path) as folder:
        clear(tmp_path)
        assert folder.exists()
    assert [*tmp_path.iterdir()] == []


def test_a_disk_that_locks_nothing_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="locks"), own_folder(tmp_path):
        pass
    assert len(os.listdir("/proc/self/fd")) == len(before)
    assert [*tmp_path.iterdir()] == []


def test_who_makes_a_folder_while_another_clears_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, cleared = fcntl.flock, []

    def slowly(held: int, how: int) -> None:
        if not cleared:  # between the file and its lock
            cleared.append(True)
            clear(tmp_path)
        lock(held, how)

    monkeypatch.setattr(fcntl, "flock", slowly)
    with own_folder(tmp_path) as folder:
        assert cleared
        clear(tmp_path)
        assert folder.exists()
    assert [*tmp_path.iterdir()] == []
