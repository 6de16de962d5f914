"""A power cut keeps synced data and nothing else."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from soak.campaign.disks import needed, small_disk

pytestmark = pytest.mark.skipif(bool(needed()), reason=needed())


def _write(file: Path, *, sync: bool) -> None:
    with file.open("wb") as opened:
        opened.write(b"something" * 1_000)
        opened.flush()
        if sync:
            os.fsync(opened.fileno())


def test_what_was_not_synced_is_gone_and_what_was_is_not(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        _write(disk.folder / "synced", sync=True)
        _write(disk.folder / "half", sync=True)
        with (disk.folder / "half").open("ab") as half:
            half.write(b"and more")
        os.replace(disk.folder / "synced", disk.folder / "renamed")
        _write(disk.folder / "written", sync=False)
        disk.cut()
        found = {file.name: file.stat().st_size for file in disk.folder.iterdir()}
        assert found == {"synced": 9_000, "half": 9_000, "lost+found": found["lost+found"]}


@pytest.mark.parametrize(("level", "kept"), [("FULL", 1), ("OFF", 0)])
def test_a_database_keeps_what_it_synced_alone(tmp_path: Path, level: str, kept: int) -> None:
    with small_disk(tmp_path) as disk:
        with closing(sqlite3.connect(disk.folder / "a.db", isolation_level=None)) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("CREATE TABLE rows (n INTEGER)")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            subprocess.run(["sync", "-f", str(disk.folder)], check=True)
            database.execute(f"PRAGMA synchronous = {level}")
            database.execute("INSERT INTO rows VALUES (1)")
            disk.fail()
        disk.unmount()
        disk.mount()
        with closing(sqlite3.connect(disk.folder / "a.db")) as database:
            assert database.execute("SELECT count(*) FROM rows").fetchone() == (kept,)


def test_nothing_is_written_once_it_failed(tmp_path: Path) -> None:
    with small_disk(tmp_path) as disk:
        disk.fail()
        with pytest.raises(OSError, match="error"):
            _write(disk.folder / "late", sync=True)
