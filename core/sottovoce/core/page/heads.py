"""Reads the head of an HTTP request, within bounds and with one meaning.

h11 bounds only data that is incomplete, so a long head that arrives in one piece passes. A request
with two lengths can smuggle one request inside another.
"""

from __future__ import annotations

import asyncio
from typing import Final

import h11

from sottovoce.core.page.failure import Failure

__all__ = ["LARGEST_HEAD", "PIECE", "check_trailers", "headers_of", "read_head"]

LARGEST_HEAD: Final = 16 << 10
"""The most bytes of a request's line and headers, or of its trailers."""

PIECE: Final = 64 << 10
"""Bytes to read at once."""

_ONCE: Final = frozenset({"authorization", "content-length", "host", "transfer-encoding"})


async def read_head(
    http: h11.Connection, reader: asyncio.StreamReader
) -> tuple[h11.Request, int] | None:
    """Return the next request and the size of its head in bytes; None at the connection's end.

    Raises:
        h11.RemoteProtocolError: it is no HTTP request, or its head has no end.
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
    """Return the headers of a request, by names in small letters.

    Args:
        head: the request.
        size: bytes of its head, from `read_head`.

    Raises:
        Failure: 431 for a head that is too long, 505 for another HTTP version, 400 for a head that
            can be read in two ways. The connection must then be closed: RFC 9112, section 6.1.
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
    """Refuse a message that ends with too many trailers; no code reads trailers.

    Raises:
        Failure: they are longer than a head may be.
    """
    if sum(len(name) + len(value) for name, value in end.headers) > LARGEST_HEAD:
        raise _too_long("trailer section")


def _too_long(part: str) -> Failure:
    return Failure(431, f"the {part} is longer than {LARGEST_HEAD} bytes", code="too_large")
