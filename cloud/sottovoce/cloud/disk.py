"""Distinguish a full disk from other failures to write.

A full disk is a passing problem of the machine. A job that meets one must wait, not fail, and the
caller must learn that a retry may help.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sottovoce.core.errors import Unavailable

_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def full_disk_is_unavailable() -> Iterator[None]:
    """Translate errors of a full disk in a block that writes files.

    Raises:
        Unavailable: the disk is full; replaces the error of Python or safetensors.
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
    # By class name, so that the state code need not import safetensors. Its error has only a text.
    told = type(error).__name__ == "SafetensorError"
    found = re.search(r"os error ([0-9]+)", str(error)) if told else None
    return int(found[1]) if found else None
