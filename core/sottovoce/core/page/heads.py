"""Reads the head of an HTTP request, within bounds and with one meaning.

Why it is here: h11 bounds only what it has to wait for, so a long head that arrives in one piece
passes. And a request whose length is given twice is how one request is smuggled inside another.
"""

from __future__ import annotations

import asyncio
from typing import Final

import h11

from sottovoce.core.page.failure import Failure

__all__ = ["LARGEST_HEAD", "PIECE", "check_trailers", "headers_of", "read_head"]

LARGEST_HEAD: Final = 16 << 10
"""Bytes of a request's line and headers, or of its trailers."""

PIECE: Final = 64 << 10
"""Bytes that are read at once."""

_ONCE: Final = frozenset({"authorization", "content-length", "host", "transfer-encoding"})


async def read_head(
    http: h11.Connection, reader: asyncio.StreamReader
) -> tuple[h11.Request, int] | None:
    """The next request and the bytes of its head; None where the connection ended instead.

    Raises:
        h11.RemoteProtocolError: it is no HTTP request, or its head is without end.
    """
    size = len(http.trailing_data[0])
    while (event := http.next_event()) is h11.NEED_DATA:
        data = await reader.read(PIECE)
        size += len(data)
        http.receive_data(data)
    if not isinstance(event, h11.Request):
        return None
    return event, size - len(http.trailing_data[0])


def headers_of(head: h11.Request, size: int) -> dict[str, str]:
    """The headers of a request, by names in small letters.

    Args:
        head: the request.
        size: bytes of its head, as `read_head` gives them.

    Raises:
        Failure: 431 for a head that is too long, 505 for another HTTP, 400 where the head can be
            read in two ways. The connection must be closed after each: RFC 9112, section 6.1.
    """
    if size > LARGEST_HEAD:
        raise _too_long("head")
    if not head.http_version.startswith(b"1."):
        raise Failure(505, "this HTTP is not spoken here (use HTTP/1.1)")
    found: dict[str, str] = {}
    for name, value in head.headers:
        key = name.decode("ascii")
        if key in found and key in _ONCE:
            raise Failure(400, f"the header {key} comes twice")
        found[key] = value.decode("latin-1")
    if "transfer-encoding" in found and "content-length" in found:
        raise Failure(
            400,
            "the body's length is given twice (send one of Transfer-Encoding and Content-Length)",
        )
    if "transfer-encoding" in found and head.http_version == b"1.0":
        raise Failure(400, "HTTP/1.0 has no Transfer-Encoding (send Content-Length)")
    return found


def check_trailers(end: h11.EndOfMessage) -> None:
    """Refuse a message that ends with too many trailers; nobody reads them.

    Raises:
        Failure: they are longer than a head may be.
    """
    if sum(len(name) + len(value) for name, value in end.headers) > LARGEST_HEAD:
        raise _too_long("trailer section")


def _too_long(part: str) -> Failure:
    return Failure(431, f"the {part} is longer than {LARGEST_HEAD} bytes", code="too_large")
