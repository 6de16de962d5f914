"""Run our programs as separate processes."""

from __future__ import annotations

import os
from pathlib import Path


def environment() -> dict[str, str]:
    """Ours, for a subprocess: one thread, nothing fetched."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def resident(process: int) -> int:
    """Bytes of a process's memory that are in RAM."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise ProcessLookupError(process)
