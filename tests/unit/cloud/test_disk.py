"""Every library's error for a full disk is recognised as a full disk."""

from __future__ import annotations

import errno

import pytest
from safetensors import SafetensorError

from sottovoce.core.errors import Unavailable
from sottovoce.core.platform.files import full_disk_is_unavailable


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EDQUOT, "Disk quota exceeded"),
        SafetensorError("Error while serializing: I/O error: No space left (os error 28)"),
    ],
)
def test_no_room_means_later(error: Exception) -> None:
    with pytest.raises(Unavailable, match="full"), full_disk_is_unavailable():
        raise error


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EACCES, "Permission denied"),
        SafetensorError("Error while serializing: Permission denied (os error 13)"),
        SafetensorError("Error while deserializing header"),
        ValueError("28"),
    ],
)
def test_everything_else_stays_what_it_is(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, full_disk_is_unavailable():
        raise error
    assert caught.value is error
