"""Admission to a page: only a browser with a link from the program may enter.

Every user of the machine can reach a loopback port, and so can every page in the reader's browser.
A link works once, because others may see it on a command line or in a history. The browser
exchanges the link for a session secret. The secret is kept in the tab alone and sent in a header,
which no other page can send (it could send a cookie). Checks of Host, Origin and the browser's
fetch metadata keep out pages whose name was made to point here.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import h11

__all__ = [
    "CHALLENGE",
    "FEW",
    "LARGEST_HEAD",
    "LINK_SECONDS",
    "PIECE",
    "SESSION",
    "Failure",
    "PageGate",
    "check_trailers",
    "headers_of",
    "read_head",
]

CHALLENGE: Final = ("WWW-Authenticate", 'Bearer realm="sottovoce"')
"""The header of a 401 response.

A challenge without a parameter is invalid (RFC 6750, section 3), and it crashed the programs of a
client that parses it.
"""


@dataclass(frozen=True)
class Failure(Exception):
    """An error response.

    Attributes:
        status: the HTTP status.
        kind, message, param, code: the four fields of OpenAI's error object; ``param`` names the
            field, empty for none.
        headers: further headers.
    """

    status: int
    message: str
    kind: str = "invalid_request_error"
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


SESSION: Final = "/api/session"
"""The path at which a link is exchanged for a session."""
LINK_SECONDS: Final = 600.0
FEW: Final = 16
"""The most links, and sessions, at once; a new one replaces the oldest."""


class PageGate:
    """Admits requests with a session, or with a link at `SESSION`; static files need neither.

    Args:
        is_file: whether a path is one of the page's own files, which hold nothing personal.
        command: the command that prints links; errors name it.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        is_file: Callable[[str], bool],
        command: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_file, self._command, self._clock = is_file, command, clock
        self._lock = threading.Lock()
        self._links: dict[str, float] = {}
        self._sessions: dict[str, float] = {}
        self.port = 0
        """The port of the address that serves the page."""

    def link(self) -> str:
        """Return a new secret that works for one session, within `LINK_SECONDS`."""
        return self._new(self._links)

    def session(self) -> str:
        """Return a new secret that works until the program ends or `FEW` newer ones exist."""
        return self._new(self._sessions)

    async def check(self, method: str, path: str, headers: Mapping[str, str]) -> bool:
        """Return whether the caller has a session; False for static files, which need no proof.

        Args:
            method, path: of the request.
            headers: of the request, names in small letters.

        Raises:
            Failure: 403 for other pages and names, 401 without link or session.
        """
        hosts = (f"127.0.0.1:{self.port}", f"localhost:{self.port}", f"[::1]:{self.port}")
        host = headers.get("host", "").lower()
        if host not in hosts:
            raise Failure(403, "the request is addressed to another host", code="forbidden_host")
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            raise Failure(403, "other pages may not use this", code="forbidden_origin")
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            raise Failure(403, "other pages may not use this", code="forbidden_origin")
        if self._is_file(path):
            return False
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._has(given.strip(), entering=path == SESSION):
            return True
        raise Failure(
            401,
            f"this link was used, or is older than what it opens (run `{self._command}` for "
            "another)",
            "authentication_error",
            code="invalid_link",
            headers=(CHALLENGE,),
        )

    def _new(self, kept: dict[str, float]) -> str:
        secret = secrets.token_urlsafe(32)
        with self._lock:
            kept[secret] = self._clock()
            while len(kept) > FEW:
                del kept[next(iter(kept))]
        return secret

    def _has(self, given: str, *, entering: bool) -> bool:
        """Return whether the secret is known; a link is forgotten by this check."""
        kept = self._links if entering else self._sessions
        with self._lock:
            # All are compared, so that the time taken reveals nothing about any.
            found = [each for each in kept if hmac.compare_digest(each.encode(), given.encode())]
            if not found or not entering:
                return bool(found)
            return self._clock() - kept.pop(found[0]) <= LINK_SECONDS


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
