"""Admission to a page: only a browser with a link from the program may enter.

Every user of the machine can reach a loopback port, and so can every page in the reader's browser.
A link works once, because others may see it on a command line or in a history. The browser
exchanges the link for a session secret. The secret is kept in the tab alone and sent in a header,
which no other page can send (it could send a cookie). Checks of Host, Origin and the browser's
fetch metadata keep out pages whose name was made to point here.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from sottovoce.core.page.failure import CHALLENGE, Failure

__all__ = ["FEW", "LINK_SECONDS", "SESSION", "PageGate"]

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
