"""Server of a page for one person's browser: its files, its gate, and its security headers.

Every user of the machine can reach a loopback port, and so can every page in the reader's browser.
A link works once, because others may see it on a command line or in a history. The browser
exchanges the link for a session secret. The secret is kept in the tab alone and sent in a header,
which no other page can send (it could send a cookie). Checks of Host, Origin and the browser's
fetch metadata keep out other sites' pages, even if a site's name was made to point here.

The page has its own server. By default it takes a free port, and it opens the port only when a
person asks for a link. A browser keeps service workers and storage for each origin. A fixed port
would let another user's program take the port while ours is stopped, and leave a service worker
there that reads the page later. OpenAI's endpoints need a fixed port, because programs hold their
address in settings. So the two do not share a port.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from importlib import resources
from typing import Final

from sottovoce.core.http.messages import CHALLENGE, HttpError, Request, Response
from sottovoce.core.http.server import (
    CALLS_AT_ONCE,
    LARGEST_BODY,
    Caller,
    Endpoint,
    HttpServer,
    Site,
)

HEADERS: Final = (
    # Loads only the page's own files, and never lets a text become markup.
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'",
    ),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)
SESSION: Final = "/api/session"
"""The path at which a link is exchanged for a session."""
LINK_SECONDS: Final = 600.0
FEW: Final = 16
"""The most links, and sessions, at once; a new one replaces the oldest."""

_SHARED: Final = "sottovoce.core.http"
_KINDS: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript"}


class PageServer(HttpServer):
    """Serves a page: its files to every browser, its endpoints to those with a session.

    Args:
        address: see `HttpServer`.
        setting: see `HttpServer`.
        endpoints: method and endpoint by path.
        command: the command that prints links; errors name it.
        largest_body: the most bytes of a request's body.
        calls: see `HttpServer`.

    Raises:
        ConfigError: the address is not on loopback or not free.
    """

    def __init__(
        self,
        address: str,
        setting: str,
        package: str,
        endpoints: Mapping[str, tuple[str, Endpoint]],
        command: str,
        *,
        largest_body: int = LARGEST_BODY,
        calls: int = CALLS_AT_ONCE,
    ) -> None:
        super().__init__(address, setting, calls=calls)
        found = files(package)
        self._gate = PageGate(found.__contains__, command, self.port)
        own: dict[str, tuple[str, Endpoint]] = {SESSION: ("POST", self._session)}
        self.site = Site(self._gate, {**own, **endpoints}, found, HEADERS, largest_body)

    def link(self) -> str:
        """Return a link to the page that works once."""
        # The secret follows "#", because browsers send no fragment, not even in a Referer.
        return f"http://{self.address}/#{self._gate.link()}"

    def _session(self, request: Request) -> Response:
        return Response(json.dumps({"session": self._gate.session()}).encode())


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
        port: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_file, self._command, self._clock = is_file, command, clock
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}")
        self._lock = threading.Lock()
        self._links: dict[str, float] = {}
        self._sessions: dict[str, float] = {}

    def link(self) -> str:
        """Return a new secret that works for one session, within `LINK_SECONDS`."""
        return self._new(self._links)

    def session(self) -> str:
        """Return a new secret that works until the program ends or `FEW` newer ones exist."""
        return self._new(self._sessions)

    async def check(self, method: str, path: str, headers: Mapping[str, str]) -> Caller | None:
        """Return the caller with a session; None for static files, which need no proof.

        Args:
            method, path: of the request.
            headers: of the request, names in lower case.

        Raises:
            HttpError: 403 for other pages and names, 401 without link or session.
        """
        host = headers.get("host", "").lower()
        if host not in self._hosts:
            raise HttpError(403, "the request is addressed to another host", code="forbidden_host")
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            raise HttpError(403, "other pages may not use this", code="forbidden_origin")
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            raise HttpError(403, "other pages may not use this", code="forbidden_origin")
        if self._is_file(path):
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._has(given.strip(), entering=path == SESSION):
            return Caller()
        raise HttpError(
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


def files(package: str) -> dict[str, Response]:
    """Return the static files of a page by path.

    These are ``index.html`` (as "/") and ``page.js`` of the folder ``static`` of ``package``, and
    the styles and scripts that all pages share.
    """
    places = (
        ("/", package, "index.html"),
        ("/page.js", package, "page.js"),
        ("/look.css", _SHARED, "look.css"),
        ("/parts.js", _SHARED, "parts.js"),
    )
    return {path: _read(place, name) for path, place, name in places}


def _read(package: str, name: str) -> Response:
    body = resources.files(package).joinpath("static", name).read_bytes()
    return Response(body, (), f"{_KINDS[name.rpartition('.')[2]]}; charset=utf-8")
