"""HTTP requests and responses: their bounds, and errors as OpenAI's clients expect them."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import h11

from sottovoce.core import errors
from sottovoce.core.rpc.error_status import kind_and_place, retry_seconds

JSON: Final = "application/json"
LARGEST_HEAD: Final = 16 << 10
"""The most bytes of a request's line and headers, or of its trailers."""
PIECE: Final = 64 << 10
"""Bytes to read at once."""
CHALLENGE: Final = ("WWW-Authenticate", 'Bearer realm="sottovoce"')
"""The header of a 401 response.

A challenge without a parameter is invalid (RFC 6750, section 3), and it crashed the programs of a
client that parses it.
"""

Headers = Sequence[tuple[str, str]]

_log = logging.getLogger(__name__)
_ONCE: Final = frozenset({"authorization", "content-length", "host", "transfer-encoding"})
_REQUEST, _SERVER = "invalid_request_error", "server_error"
# The first match counts. When the cloud or another server refuses *our* credentials, the client's
# may be right, hence 502.
_STATUS: Final[tuple[tuple[type[errors.SottovoceError], int, str], ...]] = (
    (errors.InvalidInput, 400, _REQUEST),
    (errors.OutOfRange, 400, _REQUEST),
    (errors.NotFound, 404, _REQUEST),
    (errors.NotReady, 409, _REQUEST),
    (errors.QuotaExceeded, 429, "insufficient_quota"),
    (errors.Overloaded, 429, "rate_limit_error"),
    (errors.Unavailable, 503, _SERVER),
    (errors.Unauthenticated, 502, _SERVER),
)


@dataclass(frozen=True, slots=True)
class Request:
    """A request, read whole.

    Attributes:
        path: the target before "?", percent-encoded as it came.
        headers: the headers, with names in lower case.
        query: the part of the target after "?".
        body: the body.
        stoppable: takes a function that ends the work from another thread.
    """

    path: str
    headers: Mapping[str, str]
    query: str
    body: bytes
    stoppable: Callable[[Callable[[], None]], None]


class Response(NamedTuple):
    """A response: a body of a media type, or a stream of whole server-sent events."""

    body: bytes | Generator[bytes, None, None]
    headers: Headers = ()
    kind: str = JSON


@dataclass(frozen=True)
class HttpError(Exception):
    """An error response.

    Attributes:
        status: the HTTP status.
        kind, message, param, code: the four fields of OpenAI's error object; ``param`` names the
            field, empty for none.
        headers: further headers.
    """

    status: int
    message: str
    kind: str = _REQUEST
    param: str = ""
    code: str = ""
    headers: tuple[tuple[str, str], ...] = ()

    @property
    def body(self) -> dict[str, Any]:
        """The error object."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param or None,
                "code": self.code or None,
            }
        }

    @property
    def payload(self) -> bytes:
        """The error object as JSON."""
        return json.dumps(self.body).encode()


def http_error(error: BaseException) -> HttpError:
    """Turn an error into a response; unexpected errors are logged without their text."""
    if isinstance(error, HttpError):
        return error
    if not isinstance(error, errors.SottovoceError):
        _log.error("unexpected %s", kind_and_place(error))
        error = errors.SottovoceError(f"internal error ({type(error).__name__})")
    status, kind = next(
        ((status, kind) for each, status, kind in _STATUS if isinstance(error, each)),
        (500, _SERVER),
    )
    seconds = str(retry_seconds(error))
    again = (("Retry-After", seconds),) if isinstance(error, errors.Unavailable) else ()
    code = error.metadata.get("code", error.reason.lower())
    return HttpError(status, str(error), kind, error.subject, code, again)


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
    """Return the headers of a request, by names in lower case.

    Raises:
        HttpError: 431 for a head that is too long, 505 for another HTTP version, 400 for a head
            that can be read in two ways. The connection must then be closed: RFC 9112, section 6.1.
    """
    if size > LARGEST_HEAD:
        raise _too_long("head")
    if not head.http_version.startswith(b"1."):
        raise HttpError(505, "this HTTP is not spoken here (use HTTP/1.1)")
    found: dict[str, str] = {}
    for name, value in head.headers:
        key = name.decode("ascii")
        if key in found and key in _ONCE:
            raise HttpError(400, f"the header {key} comes twice")
        found[key] = value.decode("latin-1")
    if "transfer-encoding" in found and "content-length" in found:
        raise HttpError(
            400,
            "the body's length is given twice (send one of Transfer-Encoding and Content-Length)",
        )
    if "transfer-encoding" in found and head.http_version == b"1.0":
        raise HttpError(400, "HTTP/1.0 has no Transfer-Encoding (send Content-Length)")
    return found


def check_trailers(end: h11.EndOfMessage) -> None:
    """Refuse a message that ends with too many trailers; no code reads trailers.

    Raises:
        HttpError: they are longer than a head may be.
    """
    if sum(len(name) + len(value) for name, value in end.headers) > LARGEST_HEAD:
        raise _too_long("trailer section")


def _too_long(part: str) -> HttpError:
    return HttpError(431, f"the {part} is longer than {LARGEST_HEAD} bytes", code="too_large")
