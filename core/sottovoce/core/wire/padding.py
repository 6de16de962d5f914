"""Brings messages up to one of few sizes.

Why it is here: encryption hides what a message says and not how long it is, so whoever watches the
line could tell a short text from a long one, and a text met before from another. What carries
released text or noisy vectors is padded with zeros that nobody reads; the cloud, which may see the
text, learns no more and no less.
"""

from __future__ import annotations

from typing import Any, Final

from sottovoce.core.errors import InvalidInput
from sottovoce.core.wire.limits import LARGEST_PADDING

__all__ = ["STEP", "check_padding", "pad", "padded_size"]

STEP: Final = 512
"""Bytes between two sizes, up to 4 KiB; beyond, an eighth of the power of two below."""


def padded_size(size: int) -> int:
    """The smallest size that is sent and has room for `size` bytes.

    >>> [padded_size(size) for size in (1, 512, 513, 4097, 10_000)]
    [512, 512, 1024, 4608, 10240]
    """
    step = max(STEP, 1 << max(0, size.bit_length() - 4))
    return -(-size // step) * step


def pad(message: Any) -> None:
    """Fills the field ``padding`` until the message is of a `padded_size`.

    One byte short of a size there is no room for the field, and where its length begins to take
    another byte it cannot fill up exactly: those few messages go to the next size.
    """
    message.ClearField("padding")
    wanted = padded_size(message.ByteSize())
    while (missing := wanted - message.ByteSize()) != 0:
        filling = missing - 2
        while filling > 0 and filling + 1 + _digits(filling) > missing:
            filling -= 1
        if filling > 0 and filling + 1 + _digits(filling) == missing:
            message.padding = bytes(filling)
            return
        wanted = padded_size(wanted + 1)


def check_padding(padding: bytes, largest: int = LARGEST_PADDING) -> None:
    """Refuses padding that is more than it is for, or that could say something.

    Raises:
        InvalidInput: more than ``largest`` bytes, or any that is not zero.
    """
    if len(padding) > largest or padding.strip(b"\0"):
        raise InvalidInput(
            "padding is not what fills a message up",
            fix=f"send at most {largest} bytes, zeros all",
            subject="padding",
        )


def _digits(length: int) -> int:
    """Bytes of a length on the wire (a varint)."""
    return -(-length.bit_length() // 7)
