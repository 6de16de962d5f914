"""The locks that a process holds on the files of a SQLite database, as the kernel lists them."""

from __future__ import annotations

from pathlib import Path


def locked(process: int, database: Path) -> set[str]:
    """Which files of an open database a process holds POSIX locks on: "" and "-shm"; from
    ``/proc/locks``, so that no file is opened."""
    inodes = {
        str(file.stat().st_ino): suffix
        for suffix in ("", "-wal", "-shm")
        if (file := database.with_name(database.name + suffix)).exists()
    }
    found = set()
    for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
        _, kind, *rest = line.split()
        if kind == "POSIX" and rest[2] == str(process):
            found.add(inodes.get(rest[3].rpartition(":")[2], "another file"))
    return found - {"another file"}
