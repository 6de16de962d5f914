"""Tells a full disk from other failures to write.

Why it is here: a full disk is the machine's affair and passes. A job that meets one must wait, not
fail, and whoever calls must hear that trying again may help.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sottovoce.core.errors import Unavailable

__all__ = ["full_disk_is_unavailable"]

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def full_disk_is_unavailable() -> Iterator[None]:
    """For blocks that write files.

    Raises:
        Unavailable: there was no room; in place of what Python or safetensors raised.
    """
    try:
        yield
    except Exception as error:
        if _number(error) not in _FULL:
            raise
        raise Unavailable(
            "the cloud's disk is full", fix="ask the provider to make room; it then goes on"
        ) from error


def _number(error: Exception) -> int | None:
    if isinstance(error, OSError):
        return error.errno
    # By name: who keeps the state need not load what knows tensors. It tells in words only.
    told = type(error).__name__ == "SafetensorError"
    found = re.search(r"os error ([0-9]+)", str(error)) if told else None
    return int(found[1]) if found else None
