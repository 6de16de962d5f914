"""Pads messages to one of a few sizes.

Encryption hides a message's content but not its length. An observer of the network could tell a
short text from a long one, and a known text from another. So messages with released text or noisy
vectors are padded with zeros, which the receiver ignores. The cloud may see the text, so padding
changes nothing for it.
"""

from __future__ import annotations

from typing import Any, Final

from sottovoce.core.errors import InvalidInput
from sottovoce.core.wire.limits import LARGEST_PADDING

__all__ = ["STEP", "check_padding", "pad", "padded_size"]

STEP: Final = 512
"""Bytes between two sizes, up to 4 KiB; beyond, an eighth of the power of two below."""


def padded_size(size: int) -> int:
    """Return the smallest padded size that has room for `size` bytes.

    >>> [padded_size(size) for size in (1, 512, 513, 4097, 10_000)]
    [512, 512, 1024, 4608, 10240]
    """
    step = max(STEP, 1 << max(0, size.bit_length() - 4))
    return -(-size // step) * step


def pad(message: Any) -> None:
    """Fill the field ``padding`` until the message has a `padded_size`.

    Two kinds of message go to the next size. One byte below a size there is no room for the field.
    Where the field's length takes another byte, the padding cannot fill the size exactly.
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
    """Refuse padding that is too long, or that could carry information.

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
    """Return the bytes of a length on the wire (a varint)."""
    return -(-length.bit_length() // 7)
