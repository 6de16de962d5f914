"""What processes that were killed left half written, and time that has passed since."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path


def left_of(path: Path) -> Path:
    """The name that ``path`` was being written under."""
    return path.with_name(f".{path.name}.sotto-00c0ffee00c0ffee")


def age(*files: Path, seconds: float = 7200.0) -> None:
    """Has them, and not what links lead to, be as old as that."""
    then = time.time() - seconds
    for file in files:
        with suppress(FileNotFoundError):  # its writer lives, and is done
            os.utime(file, (then, then), follow_symlinks=False)
