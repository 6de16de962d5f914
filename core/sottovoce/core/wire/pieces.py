"""A text that arrives in pieces.

It is kept as UTF-8 bytes. A list of pieces, or `io.StringIO` in Python 3.11, takes a header of 49
bytes for each piece, so pieces of four characters take 18 times the text.
"""

from __future__ import annotations

__all__ = ["Pieces"]


class Pieces:
    """Collects a text; true once there is any."""

    def __init__(self) -> None:
        self._collected = bytearray()

    def __bool__(self) -> bool:
        return bool(self._collected)

    def add(self, piece: str) -> None:
        """Append ``piece``."""
        self._collected += piece.encode()

    def text(self) -> str:
        """The whole text."""
        return self._collected.decode()
