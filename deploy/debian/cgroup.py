"""A group of processes of one's own, in which a system may make groups as it likes.

Why it is here: a systemd makes one for each of its services, wherever it is put, and leaves them.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_SECONDS: Final = 60.0


def here() -> Path | None:
    """The folder of the group that this process is in; None without version 2 of groups."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 "):
            (name,) = (
                line.removeprefix("0::/")
                for line in Path("/proc/self/cgroup").read_text().splitlines()
                if line.startswith("0::/")
            )
            return Path(mount.split()[4], name)
    return None


@contextmanager
def own(parent: Path) -> Iterator[Path]:
    """A new group below another one, which is gone afterwards with all that was made in it.

    Whoever is in it must be about to end by then.
    """
    folder = parent / f"check-deb-{secrets.token_hex(4)}"
    folder.mkdir()
    try:
        yield folder
    finally:
        deadline = time.monotonic() + _SECONDS
        while _populated(folder) and time.monotonic() < deadline:
            time.sleep(0.01)
        for name, _, _ in os.walk(folder, topdown=False):
            os.rmdir(name)


def _populated(folder: Path) -> bool:
    return "populated 1" in (folder / "cgroup.events").read_text()
