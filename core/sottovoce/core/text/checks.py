"""Turns bytes and strings from outside into valid text, or raises a clear error.

All inputs of the agent (a file, a pipe, an app) must refuse the same texts with the same messages.
Messages name places, never content, because they end up in logs.
"""

from __future__ import annotations

from sottovoce.core.errors import InvalidInput

__all__ = ["LARGEST_TEXT", "check_text", "decode"]

LARGEST_TEXT = 1 << 20
"""The most bytes of one text in UTF-8."""

_TEXT = "text"


def decode(data: bytes, name: str, *, begins: bool = True) -> str:
    """Return ``data`` as text; a byte-order mark at the start is dropped.

    Args:
        data: what was read.
        name: where it came from, for the message ("notes.txt").
        begins: whether it is the beginning of a file; later on U+FEFF is a character like others.

    Raises:
        InvalidInput: not UTF-8; the message gives the offset of the first wrong byte.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{name} is not UTF-8: byte {error.start} cannot be decoded",
            fix="convert it with `iconv -f ENCODING -t UTF-8`",
            subject=_TEXT,
        ) from None  # the cause would quote the text
    return text.removeprefix("\ufeff") if begins else text


def check_text(text: str) -> None:
    """Refuse a string that is not a valid text.

    Raises:
        InvalidInput: empty or white space only, more than 1 MiB in UTF-8, or a NUL in it.
    """
    if not text or text.isspace():
        raise InvalidInput("the text is empty", fix="send at least one word", subject=_TEXT)
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > LARGEST_TEXT:
        raise InvalidInput(
            f"the text has {size} bytes, at most {LARGEST_TEXT} are taken",
            fix="cut it into smaller texts",
            subject=_TEXT,
        )
    nul = text.find("\0")
    if nul >= 0:
        raise InvalidInput(
            f"the text looks binary: character {nul} is NUL",
            fix="extract the text from the file first",
            subject=_TEXT,
        )
