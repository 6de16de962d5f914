"""Send requests byte by byte, as no client library would."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sottovoce.core.http.messages import LARGEST_HEAD
from tests.support.openai_endpoint import SECONDS, Door

AMBIGUOUS: dict[str, tuple[str, int]] = {
    "a length and chunks": ("Content-Length: 3\r\nTransfer-Encoding: chunked", 400),
    "chunks and a length": ("Transfer-Encoding: chunked\r\nContent-Length: 3", 400),
    "two lengths": ("Content-Length: 3\r\nContent-Length: 4", 400),
    "a list of lengths": ("Content-Length: 3, 4", 400),
    "a signed length": ("Content-Length: +3", 400),
    "a negative length": ("Content-Length: -3", 400),
    "no length": ("Content-Length:", 400),
    "a length of digits without end": ("Content-Length: " + "9" * 5_000, 400),
    "another coding": ("Transfer-Encoding: gzip, chunked", 501),
    "a coding spelled wrong": ("Transfer-Encoding: xchunked", 501),
    "two codings": ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 501),
    "two hosts": ("Host: evil.example", 400),
    "two keys": ("Authorization: Bearer x\r\nAuthorization: Bearer y", 400),
    "a blank before a colon": ("Content-Length : 3", 400),
    "a carriage return in a header": ("A: b\rContent-Length: 3", 400),
    "a NUL in a header": ("A: b\0c", 400),
}
"""By what is wrong: headers beside Host, and the status. The connection is closed after each."""


@dataclass(frozen=True)
class Answered:
    """The bytes received until the server closed the connection or fell silent."""

    raw: bytes
    closed: bool

    @property
    def statuses(self) -> list[int]:
        """Of each response."""
        parts = self.raw.split(b"HTTP/1.1 ")[1:]
        return [int(part[:3]) for part in parts if part[:3].isdigit()]


def head(
    door: Door, more: str = "", method: str = "GET", path: str = "/", http: str = "1.1"
) -> str:
    """A head with a Host, the key, and ``more`` headers."""
    lines = [f"{method} {path} HTTP/{http}", f"Host: {door.address}"]
    if "Authorization" not in more:
        lines.append(f"Authorization: Bearer {door.key}")
    return "\r\n".join([*lines, *([more] if more else []), "", ""])


def padded(door: Door, size: int = LARGEST_HEAD, **fields: str) -> str:
    """A head of exactly ``size`` bytes."""
    bare = len(head(door, "A: ", **fields))
    return head(door, "A: " + "a" * (size - bare), **fields)


def ask(door: Door, *pieces: str | bytes, patience: float = SECONDS) -> Answered:
    """Sends pieces one after the other, and reads until the end."""
    raw = b""
    with socket.create_connection(door.place, timeout=patience) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for piece in pieces:
                line.sendall(piece if isinstance(piece, bytes) else piece.encode("latin-1"))
            while got := line.recv(1 << 16):
                raw += got
        except TimeoutError:
            return Answered(raw, closed=False)
        except OSError:
            pass
    return Answered(raw, closed=True)


def cut(text: str, places: Sequence[int]) -> list[str]:
    """``text`` in pieces, cut at ``places``."""
    bounds = [0, *places, len(text)]
    return [text[start:end] for start, end in pairwise(bounds)]
