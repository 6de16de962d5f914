"""Programs of ours, run by tests as processes of their own."""

from __future__ import annotations

import os


def environment() -> dict[str, str]:
    """Ours, for a subprocess: one thread, nothing fetched."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
